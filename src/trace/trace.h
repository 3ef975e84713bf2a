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

#include "base/intern.h"
#include "dtr/event.h"
#include "dtr/status.h"

enum dtri_step_kind {
    DTRI_STEP_CONSTANT,      /* arg: tensor */
    DTRI_STEP_CALL,          /* arg: operator */
    DTRI_STEP_RETAIN,        /* arg: tensor */
    DTRI_STEP_RELEASE,       /* arg: tensor; left out by --no-release */
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
    uint32_t name;        /* index into names */
    uint32_t first_input; /* into inputs */
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
    char *source;  /* where it came from, for messages: a path, "<stdin>", "chain(1000)" */
    uint64_t hash; /* of the content: steps, operators, sizes, costs; names excluded */
    bool live;     /* recorded from a program that reclaims; replay does so too */

    struct dtri_trace_step *steps;
    struct dtri_trace_op *ops;
    uint32_t *inputs; /* tensors */
    struct dtri_trace_tensor *tensors;
    struct dtri_trace_mark *marks;
    uint32_t *outputs; /* what the program holds at the end, in the order in which the names were
                          first bound; one tensor may occur several times */
    char **names;
    size_t n_steps, n_ops, n_inputs, n_tensors, n_marks, n_outputs, n_names;

    int64_t compute_ns;     /* sum of the costs of all calls */
    int64_t constant_bytes; /* sum of the sizes of constants, of those that go as well */
};

void dtri_trace_free(struct dtri_trace *trace); /* accepts NULL */

/* Reads an operator log as the DTR authors' prototype writes it (JSON lines, plain or .xz; "-" is
 * standard input).  Errors name the file, the line and the remedy.  The caller owns *out_trace. */
dtr_status dtri_trace_read_log(const char *path, struct dtri_trace **out_trace, dtr_error *error);

/* The straight chain of the paper's theorem 3.1: n forward operators of cost 1 and size 1, and the
 * backward ones, each of which takes the forward value before it and the gradient after it. */
dtr_status dtri_trace_chain(uint32_t n, struct dtri_trace **out_trace, dtr_error *error);

/* --- build.c: making a trace, for readers ----------------------------------------------------- */

struct dtri_trace_builder {
    struct dtri_trace *trace;
    size_t cap_steps, cap_ops, cap_inputs, cap_tensors, cap_marks, cap_outputs;
    struct dtri_intern names;
    int64_t *storage_bytes; /* by tensor: of the storage it lives on */
    uint32_t *references;   /* by tensor: external ones now */
    size_t cap_storage_bytes, cap_references;
    int64_t sum_bytes, sum_weight;
};

dtr_status dtri_trace_begin(struct dtri_trace_builder *b, const char *source, dtr_error *error);
/* Each appends what its name says; *out_tensor is the (first) new tensor.  DTR_E_LIMIT when sizes,
 * costs or counts run over. */
dtr_status dtri_trace_add_constant(struct dtri_trace_builder *b, int64_t bytes,
                                   uint32_t *out_tensor, dtr_error *error);
dtr_status dtri_trace_add_call(struct dtri_trace_builder *b, const char *name, int64_t cost_ns,
                               bool mutates, const uint32_t *inputs, size_t n_inputs,
                               const struct dtri_trace_tensor *outputs, size_t n_outputs,
                               uint32_t *out_tensor, dtr_error *error);
dtr_status dtri_trace_add_step(struct dtri_trace_builder *b, enum dtri_step_kind kind,
                               uint32_t tensor, dtr_error *error);
dtr_status dtri_trace_add_mark(struct dtri_trace_builder *b, dtr_mark mark, const char *name,
                               int64_t value, dtr_error *error);
/* Notes that the program holds `tensor` at the end. */
dtr_status dtri_trace_add_output(struct dtri_trace_builder *b, uint32_t tensor, dtr_error *error);
/* Hands the trace over; the builder is done.  Abort drops it; also after a failed finish. */
dtr_status dtri_trace_finish(struct dtri_trace_builder *b, struct dtri_trace **out_trace,
                             dtr_error *error);
void dtri_trace_abort(struct dtri_trace_builder *b);

#endif
