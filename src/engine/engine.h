/* Inside the engine: arrays, scopes, the tape, and operators as tables.
 *
 * An operator is a row (struct dtri_array_op): a kernel that computes it, and a vjp that writes its
 * gradient in terms of other operators.  dtri_apply is the one place where any of them reaches the
 * runtime; it makes the outputs' arrays and, where a gradient may be asked for, a node of the tape.
 *
 * The tape.  A node stands for one application; it refers to the nodes of its inputs, never to
 * arrays, and keeps (with a reference at the runtime) just the tensors that its vjp will read.  An
 * array refers to the node that made it.  So an array that the program drops leaves the runtime
 * free to forget its bytes, unless a gradient needs them.  Nodes are counted; there are no cycles,
 * because a kept output is a tensor and not an array. */
#ifndef DTRI_ENGINE_ENGINE_H
#define DTRI_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "dtr/engine.h"

#define DTRI_MAX_OPERANDS DTR_MAX_PARTS
#define DTRI_MAX_KEEPS    2
#define DTRI_MAX_ELEMENTS (INT64_C(1) << 40)

struct dtri_params {
    union {
        struct {
            bool transpose_a, transpose_b;
        } matmul;
        struct {
            float scale, shift;
        } affine;
        struct {
            int axis;
            int64_t begin;
        } cut; /* split, concat, slice, pad */
        struct {
            int order[DTR_MAX_DIMS];
        } permute;
        struct {
            bool causal;
        } softmax;
        struct {
            float rate;
        } dropout;
        struct {
            float value;
        } fill;
        struct {
            float rate, momentum;
        } sgd;
        struct {
            float rate, beta1, beta2, epsilon;
            float correction1, correction2; /* 1 - beta^step */
        } adam;
    };
};

/* The payload of an operator: all that its kernel may depend on beside the inputs' data. */
struct dtri_task {
    dtr_cpu_kernel base;
    struct dtri_params p;
    int n_inputs, n_outputs;
    dtr_shape in[DTRI_MAX_OPERANDS], out[DTRI_MAX_OPERANDS];
};

/* One gradient step through a node: given g[], the gradients of its outputs (NULL: none flows),
 * sets result[i] for each input in `wants` to an array that nothing else owns (NULL: zero). */
struct dtri_vjp {
    dtr_engine *engine;
    const struct dtri_node *node;
    const struct dtri_params *p;
    unsigned wants;
    dtr_array *in[DTRI_MAX_OPERANDS];  /* only those that the operator keeps */
    dtr_array *out[DTRI_MAX_OPERANDS]; /* likewise */
    dtr_array *g[DTRI_MAX_OPERANDS];
    dtr_array *result[DTRI_MAX_OPERANDS];
};

struct dtri_array_op {
    const char *name;
    dtr_status (*kernel)(const dtr_cpu_kernel *, void *const *, void *const *, dtr_error *);
    void (*vjp)(struct dtri_vjp *v); /* NULL: no gradient flows */
    /* What vjp reads for the gradient of input i: bits of inputs and outputs. */
    struct {
        uint8_t inputs, outputs;
    } keeps[DTRI_MAX_KEEPS]; /* of further inputs: nothing */
    uint8_t integer_inputs;  /* bits of the inputs that are integers; outputs are floats */
    bool view;               /* the only output is a view of input 0 */
    bool mutates;            /* stands for an update in place */
};

struct dtri_node {
    uint64_t id; /* grows along the tape: an input's is below */
    uint32_t refs;
    const struct dtri_array_op *op; /* NULL: a leaf */
    struct dtri_params p;
    int n_inputs, n_outputs;
    struct dtri_node *in[DTRI_MAX_OPERANDS]; /* NULL: no gradient flows there */
    uint8_t in_output[DTRI_MAX_OPERANDS];    /* which of its outputs the input is */
    dtr_shape in_shape[DTRI_MAX_OPERANDS], out_shape[DTRI_MAX_OPERANDS];
    dtr_tensor kept_in[DTRI_MAX_OPERANDS], kept_out[DTRI_MAX_OPERANDS]; /* DTR_NO_TENSOR: not */
    bool spent; /* a gradient went through and released what was kept */
    /* While dtr_grad runs, and while nodes are freed. */
    uint64_t visit;
    bool needed; /* leads to one of the arrays asked for */
    bool target; /* is one */
    dtr_array *grads[DTRI_MAX_OPERANDS];
    struct dtri_node *next;
};

struct dtr_array {
    dtr_engine *engine;
    dtr_shape shape;
    bool integers;
    bool parameter;
    dtr_tensor tensor; /* one reference of the runtime; DTR_NO_TENSOR: failed */
    struct dtri_node *node;
    int output;
    int scope;
    dtr_array *previous, *next; /* in its scope */
};

struct dtr_optimizer {
    dtr_engine *engine;
    const struct dtri_array_op *op;
    struct dtri_params p;
    int n_state; /* arrays a parameter */
    int64_t step;
    dtr_array **state; /* n_state for each parameter that had an update */
    size_t len_state, cap_state;
    dtr_optimizer *next;
};

struct dtr_engine {
    dtr_backend_cpu *cpu;
    dtr_session *session;
    dtr_runtime *runtime;
    dtr_error error; /* the first failure; status DTR_OK: none */
    struct dtri_rng rng;
    bool taping; /* operators leave nodes */
    uint64_t next_node_id, visit;
    dtr_array **scopes; /* first array of each; 0 is the engine's own */
    size_t n_scopes, cap_scopes;
    size_t missing_scopes; /* entered when there was no memory, and not left yet */
    dtr_array **parameters;
    size_t n_parameters, cap_parameters;
    dtr_optimizer *optimizers;
    dtr_array failed_array;
    dtr_optimizer failed_optimizer;
};

/* --- engine.c --------------------------------------------------------------------------------- */

/* Remembers the first failure. */
void dtri_engine_fail(dtr_engine *e, dtr_status status, const char *format, ...) DTR_PRINTF(3, 4);
void dtri_engine_fail_with(dtr_engine *e, const dtr_error *error);

static inline bool dtri_engine_ok(const dtr_engine *e)
{
    return e->error.status == DTR_OK;
}

/* --- shape.c ---------------------------------------------------------------------------------- */

int64_t dtri_shape_size(const dtr_shape *shape);
bool dtri_shape_valid(const dtr_shape *shape); /* dimensions of at least 1, not too many elements */
bool dtri_shape_equal(const dtr_shape *a, const dtr_shape *b);
bool dtri_shape_broadcast(const dtr_shape *a, const dtr_shape *b, dtr_shape *out);
/* Strides, in elements, with which to walk `shape` in step with `full`, both padded in front to
 * DTR_MAX_DIMS; 0 where it repeats. */
void dtri_shape_strides(const dtr_shape *shape, const dtr_shape *full,
                        int64_t out_strides[DTR_MAX_DIMS]);
void dtri_shape_pad(const dtr_shape *shape, int64_t out_dims[DTR_MAX_DIMS]);
/* Products of the dimensions before and after an axis. */
void dtri_shape_around(const dtr_shape *shape, int axis, int64_t *out_before, int64_t *out_after);
#define DTRI_SHAPE_TEXT 96
const char *dtri_shape_text(const dtr_shape *shape, char *buffer); /* "[2, 3]"; returns buffer */

/* --- array.c ---------------------------------------------------------------------------------- */

dtr_array *dtri_failed(dtr_engine *e);
/* An array for a tensor whose reference it takes, in the innermost scope. */
dtr_array *dtri_array_new(dtr_engine *e, dtr_shape shape, bool integers, dtr_tensor tensor);
/* A second array for the same tensor, with the same node. */
dtr_array *dtri_array_alias(dtr_array *a);
void dtri_array_move(dtr_array *a, int scope);
void dtri_array_free(dtr_array *a); /* leaves its scope; not for failed ones */
/* A constant with a copy of `values`. */
dtr_array *dtri_array_constant(dtr_engine *e, dtr_shape shape, bool integers, const void *values);
/* Applies an operator; out[] get n_outputs arrays, failed ones on failure. */
void dtri_apply(dtr_engine *e, const struct dtri_array_op *op, const struct dtri_params *p,
                dtr_array *const *in, int n_inputs, const dtr_shape *out_shapes, int n_outputs,
                dtr_array **out);
/* The same for one output and at least one input. */
dtr_array *dtri_apply1(const struct dtri_array_op *op, const struct dtri_params *p,
                       dtr_array *const *in, int n_inputs, dtr_shape out_shape);

/* --- tape.c ----------------------------------------------------------------------------------- */

/* A leaf for an array through which gradients can be asked for; false: no memory. */
bool dtri_tape_leaf(dtr_array *a);
/* Notes an application, if a gradient can flow through it.  Fails the engine without memory. */
void dtri_tape_record(dtr_engine *e, const struct dtri_array_op *op, const struct dtri_params *p,
                      dtr_array *const *in, int n_inputs, dtr_array *const *out, int n_outputs);
struct dtri_node *dtri_node_ref(struct dtri_node *node); /* accepts NULL, as the next does */
void dtri_node_unref(dtr_engine *e, struct dtri_node *node);
/* Releases what the node keeps. */
void dtri_node_spend(dtr_engine *e, struct dtri_node *node);

/* --- ops.c ------------------------------------------------------------------------------------ */

/* Sums what was broadcast, so that the result has `shape`; an array that nothing else owns. */
dtr_array *dtri_sum_to(dtr_array *a, const dtr_shape *shape);

#endif
