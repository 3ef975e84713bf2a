/* The operator trace: what a program asked of the runtime, free of what the runtime did about it.
 *
 * A trace is a straight program over tensors numbered from 0 in the order in which they are made.
 * Readers resolve names: in the published log a name can be bound again (MUTATE, COPY_FROM), which
 * does not depend on what gets evicted, so it is settled while reading and replay is a loop over
 * steps.  Immutable once read; any number of threads may replay one trace at once. */
#ifndef DTRI_TRACE_TRACE_H
#define DTRI_TRACE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/event.h"
#include "dtr/status.h"

enum dtri_step_kind {
    DTRI_STEP_CONSTANT,      /* arg: tensor */
    DTRI_STEP_CALL,          /* arg: operator */
    DTRI_STEP_RETAIN,        /* arg: tensor */
    DTRI_STEP_RELEASE,       /* arg: tensor; the program let go of it (dropped by --no-release) */
    DTRI_STEP_REBIND,        /* arg: tensor; loses a reference because its name means another tensor
                                now (MUTATE, COPY_FROM); never dropped */
    DTRI_STEP_PIN,           /* arg: tensor */
    DTRI_STEP_UNPIN,         /* arg: tensor */
    DTRI_STEP_REQUIRE,       /* arg: tensor; the program read it */
    DTRI_STEP_MAKE_CONSTANT, /* arg: tensor */
    DTRI_STEP_MARK,          /* arg: index into marks */
};

struct dtri_trace_step {
    uint32_t kind; /* enum dtri_step_kind */
    uint32_t arg;
};

struct dtri_trace_op {
    int64_t cost_ns;
    uint32_t name;         /* index into names */
    uint32_t first_input;  /* into inputs */
    uint32_t n_inputs;
    uint32_t first_output; /* tensor; the outputs are consecutive */
    uint32_t n_outputs;
    bool mutates;
};

struct dtri_trace_tensor {
    int64_t bytes;   /* 0 for a view */
    int32_t view_of; /* index among its operator's inputs, or -1 */
};

struct dtri_trace_mark {
    dtr_mark mark;
    int64_t name; /* index into names, or DTR_NONE */
    int64_t value;
};

struct dtri_trace {
    char *source;      /* where it came from, for messages: a path, "<stdin>", "chain(1000)" */
    uint64_t hash;     /* of the content: steps, operators, sizes, costs; names excluded */
    bool live;         /* recorded from a program that reclaims; replay does so too */

    struct dtri_trace_step *steps;
    struct dtri_trace_op *ops;
    uint32_t *inputs;  /* tensors */
    struct dtri_trace_tensor *tensors;
    struct dtri_trace_mark *marks;
    uint32_t *outputs; /* tensors bound at the end, in the order in which their names were first
                          bound; the output condition applies to those with references left */
    char **names;
    size_t n_steps, n_ops, n_inputs, n_tensors, n_marks, n_outputs, n_names;

    int64_t compute_ns;     /* sum of the costs of all calls */
    int64_t constant_bytes; /* sum of the sizes of constants */
};

void dtri_trace_free(struct dtri_trace *trace); /* accepts NULL */

#endif
