/* A small training engine over the runtime: arrays of float32 on the CPU, gradients, optimizers.
 *
 *     dtr_engine *e;
 *     dtr_engine_open(NULL, &e, &error);
 *     dtr_array *w = dtr_parameter_normal(e, DTR_SHAPE(10, 1), 0.1);
 *     dtr_optimizer *sgd = dtr_optimizer_sgd(e, 0.01, 0.9);
 *     for (int step = 0; step < 100; step++) {
 *         dtr_engine_step_begin(e, step);
 *         dtr_array *error = dtr_sub(dtr_matmul(x, w), y);
 *         dtr_array *loss = dtr_mean(dtr_mul(error, error), DTR_ALL_AXES);
 *         dtr_optimizer_step(sgd, loss);
 *         dtr_engine_step_end(e);
 *     }
 *     dtr_engine_close(e, &error);
 *
 * Operators are operators of the runtime, those of the backward pass too, so each may be replayed
 * and every gradient has a gradient.  Results do not depend on what was evicted, to the last bit.
 *
 * Ownership.  An array belongs to the innermost scope that was open when it was made, and goes when
 * that scope is left, unless dtr_scope_leave hands it out or dtr_array_keep takes it.  Constants
 * and parameters made outside of all scopes go with the engine.  A gradient that is still to be
 * computed holds what it needs by itself.  Leave scopes early (one per layer): what no scope and no
 * gradient holds can be forgotten by the runtime.
 *
 * Errors stick: the first one is kept, from then on nothing is computed, and every function returns
 * an array that stands for "failed" and may be passed on like any other; none is ever NULL.  Look
 * at dtr_engine_status once a step.  Engine functions do not print, exit or abort.
 *
 * Shapes have up to 4 dimensions, row-major; axes count from 0, or from the end when negative.  Two
 * operands of add, sub, mul and div are broadcast as in NumPy.
 *
 * Threads: an engine belongs to one thread.  Opening one makes OpenBLAS use one thread in the whole
 * process, because its results would depend on their number. */
#ifndef DTR_ENGINE_H
#define DTR_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/cpu.h"
#include "dtr/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dtr_engine dtr_engine;
typedef struct dtr_array dtr_array;
typedef struct dtr_optimizer dtr_optimizer;

#define DTR_MAX_DIMS 4

typedef struct dtr_shape {
    int n_dims; /* 0: a scalar */
    int64_t dims[DTR_MAX_DIMS];
} dtr_shape;

/* DTR_SHAPE(2, 3): two rows of three. */
#define DTR_SHAPE(...)                                                                             \
    ((dtr_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define DTR_SCALAR ((dtr_shape){0, {0}})

/* --- engine ----------------------------------------------------------------------------------- */

typedef struct dtr_engine_options {
    size_t size;         /* set by dtr_engine_options_init */
    uint64_t seed;       /* for initial parameters and dropout; default 1 */
    const char *program; /* for the recorded file; borrowed for the call, as all texts here */
    /* Settings of the session in the form of its environment variables, which win over these; NULL:
     * the session's default. */
    const char *budget, *heuristic, *search, *deallocation, *record;
    bool poison; /* overwrite memory that is given back, to find stale uses */
} dtr_engine_options;

DTR_API void dtr_engine_options_init(dtr_engine_options *options);
/* NULL options: the defaults.  Opens a session: DTR_BUDGET, DTR_RECORD and so on apply. */
DTR_API dtr_status dtr_engine_open(const dtr_engine_options *options, dtr_engine **out_engine,
                                   dtr_error *error);
/* Frees everything that was made with the engine.  Returns the failure of closing the record, if
 * any; the engine is gone in any case.  Accepts NULL. */
DTR_API dtr_status dtr_engine_close(dtr_engine *engine, dtr_error *error);

/* DTR_OK, or the first failure; *out_error (optional) is its sentence. */
DTR_API dtr_status dtr_engine_status(const dtr_engine *engine, dtr_error *out_error);
/* The runtime below, for statistics, marks and budgets; borrowed. */
DTR_API dtr_runtime *dtr_engine_runtime(dtr_engine *engine);
DTR_API dtr_backend_cpu_counts dtr_engine_memory(const dtr_engine *engine);

/* --- scopes ----------------------------------------------------------------------------------- */

DTR_API void dtr_scope_enter(dtr_engine *engine);
/* Drops the arrays of the innermost scope but `result` (or NULL), which goes to the scope around it
 * and is returned. */
DTR_API dtr_array *dtr_scope_leave(dtr_engine *engine, dtr_array *result);
/* One training step is a scope with marks: the iteration, and the phases, which dtr_grad and
 * dtr_optimizer_step set. */
DTR_API void dtr_engine_step_begin(dtr_engine *engine, int64_t step);
DTR_API void dtr_engine_step_end(dtr_engine *engine);

/* Takes an array out of its scope: it lives until dtr_array_drop, or until the engine is closed. */
DTR_API dtr_array *dtr_array_keep(dtr_array *array);
/* Drops an array now rather than at the end of its scope.  Not for parameters. */
DTR_API void dtr_array_drop(dtr_array *array);

/* --- arrays ----------------------------------------------------------------------------------- */

/* Constants with a copy of `values`. */
DTR_API dtr_array *dtr_array_floats(dtr_engine *engine, dtr_shape shape, const float *values);
DTR_API dtr_array *dtr_array_integers(dtr_engine *engine, dtr_shape shape, const int32_t *values);
/* Filled with one value; an operator, not a constant: it may be evicted. */
DTR_API dtr_array *dtr_array_full(dtr_engine *engine, dtr_shape shape, float value);

/* Parameters: constants that optimizers change; in place as far as the program sees, although the
 * runtime gets a new tensor each time.  They stay until the engine is closed. */
DTR_API dtr_array *dtr_parameter(dtr_engine *engine, dtr_shape shape, const float *values);
DTR_API dtr_array *dtr_parameter_full(dtr_engine *engine, dtr_shape shape, float value);
DTR_API dtr_array *dtr_parameter_normal(dtr_engine *engine, dtr_shape shape, float deviation);
/* All parameters in the order in which they were made. */
DTR_API int dtr_engine_n_parameters(const dtr_engine *engine);
DTR_API dtr_array *dtr_engine_parameter(dtr_engine *engine, int index);

DTR_API dtr_shape dtr_array_shape(const dtr_array *array);
DTR_API int64_t dtr_array_size(const dtr_array *array); /* number of elements */
/* The tensor that the runtime knows it by; DTR_NO_TENSOR for a failed array. */
DTR_API dtr_tensor dtr_array_tensor(const dtr_array *array);
/* Brings the array back if it is missing and copies its elements (float or int32_t) to `out`, which
 * has room for `n` of them; `n` must be the array's size.  Untouched on failure. */
DTR_API dtr_status dtr_array_read(dtr_array *array, void *out, int64_t n);
/* The value of an array with one float; NaN when it failed. */
DTR_API float dtr_array_item(dtr_array *array);

/* --- operators -------------------------------------------------------------------------------- */

DTR_API dtr_array *dtr_add(dtr_array *a, dtr_array *b);
DTR_API dtr_array *dtr_sub(dtr_array *a, dtr_array *b);
DTR_API dtr_array *dtr_mul(dtr_array *a, dtr_array *b);
DTR_API dtr_array *dtr_div(dtr_array *a, dtr_array *b);
DTR_API dtr_array *dtr_affine(dtr_array *a, float scale, float shift); /* a * scale + shift */
DTR_API dtr_array *dtr_scale(dtr_array *a, float scale);

DTR_API dtr_array *dtr_exp(dtr_array *a);
DTR_API dtr_array *dtr_log(dtr_array *a);
DTR_API dtr_array *dtr_sqrt(dtr_array *a);
DTR_API dtr_array *dtr_relu(dtr_array *a);
DTR_API dtr_array *dtr_gelu(dtr_array *a); /* x times the normal distribution function of x */

/* Products of the matrices in the last two dimensions, each transposed first if asked for.  Leading
 * dimensions are equal, or `b` is one matrix for all (then `a` must not be transposed). */
DTR_API dtr_array *dtr_matmul(dtr_array *a, dtr_array *b);
DTR_API dtr_array *dtr_matmul_transposed(dtr_array *a, bool transpose_a, dtr_array *b,
                                         bool transpose_b);

/* A set of axes: bit i for axis i. */
#define DTR_AXIS(i)  (1u << (i))
#define DTR_ALL_AXES 0xfu
/* Over a set of axes, which go, or stay with size 1 in the `keep` form. */
DTR_API dtr_array *dtr_sum(dtr_array *a, unsigned axes);
DTR_API dtr_array *dtr_sum_keep(dtr_array *a, unsigned axes);
DTR_API dtr_array *dtr_mean(dtr_array *a, unsigned axes);
/* Repeats dimensions of size 1, and in front, until the shape is reached. */
DTR_API dtr_array *dtr_broadcast(dtr_array *a, dtr_shape shape);

/* A view: no bytes of its own.  One dimension may be -1: what is left. */
DTR_API dtr_array *dtr_reshape(dtr_array *a, dtr_shape shape);
/* order[i] is the axis of `a` that becomes axis i. */
DTR_API dtr_array *dtr_permute(dtr_array *a, const int *order);
DTR_API dtr_array *dtr_transpose(dtr_array *a, int axis, int other);
#define DTR_MAX_PARTS 8
/* `n` (1 to DTR_MAX_PARTS) equal parts along an axis, by one operator with n outputs. */
DTR_API void dtr_split(dtr_array *a, int axis, int n, dtr_array **out_parts);
DTR_API dtr_array *dtr_concat(dtr_array *const *parts, int n, int axis);
DTR_API dtr_array *dtr_slice(dtr_array *a, int axis, int64_t begin, int64_t length);

/* Over the last axis; `causal`: element j of row i only where j <= i, for square matrices. */
DTR_API dtr_array *dtr_softmax(dtr_array *a, bool causal);
/* Over the last axis: (a - mean) / sqrt(variance + 1e-5), times gain, plus bias. */
DTR_API dtr_array *dtr_layer_norm(dtr_array *a, dtr_array *gain, dtr_array *bias);
/* Rows of `table` [rows, width] by integers: shape of `ids`, then width. */
DTR_API dtr_array *dtr_embedding(dtr_array *table, dtr_array *ids);
/* The transpose of it: adds the rows of `a` into a table of `rows` rows of zeros. */
DTR_API dtr_array *dtr_scatter_add(dtr_array *a, dtr_array *ids, int64_t rows);
/* Mean over the rows of `logits` [n, classes] of -log softmax(row)[target]; a scalar. */
DTR_API dtr_array *dtr_cross_entropy(dtr_array *logits, dtr_array *targets);
/* Zeroes elements with probability `rate` and scales the rest by 1 / (1 - rate).  The mask is a
 * function of `seed`, two integers, so that a replay drops the same. */
DTR_API dtr_array *dtr_dropout(dtr_array *a, float rate, dtr_array *seed);
/* A fresh seed from the engine's generator. */
DTR_API dtr_array *dtr_dropout_seed(dtr_engine *engine);

/* --- gradients -------------------------------------------------------------------------------- */

/* Gradients of a scalar with respect to n arrays, each of its array's shape; zeros where `loss`
 * does not depend on it.  Each is a parameter, a variable, or made from one; DTR_E_INVALID says
 * which is not.  Releases what the forward pass kept as it goes, so a second gradient
 * through the same operators fails with DTR_E_STATE; unless `create_graph`, which keeps all and
 * makes the gradients themselves something that has gradients. */
DTR_API dtr_status dtr_grad(dtr_array *loss, dtr_array *const *arrays, int n, dtr_array **out_grads,
                            bool create_graph);
/* An array with the same values through which no gradient flows. */
DTR_API dtr_array *dtr_detach(dtr_array *a);
/* The same, through which gradients can be asked for. */
DTR_API dtr_array *dtr_variable(dtr_array *a);

/* --- optimizers ------------------------------------------------------------------------------- */

/* They belong to the engine.  State is made at the first step. */
DTR_API dtr_optimizer *dtr_optimizer_sgd(dtr_engine *engine, float rate, float momentum);
DTR_API dtr_optimizer *dtr_optimizer_adam(dtr_engine *engine, float rate, float beta1, float beta2,
                                          float epsilon);
/* Gradients of `loss` with respect to all parameters, then one update of each. */
DTR_API dtr_status dtr_optimizer_step(dtr_optimizer *optimizer, dtr_array *loss);
/* The update alone; grads[i] belongs to parameter i. */
DTR_API dtr_status dtr_optimizer_update(dtr_optimizer *optimizer, dtr_array *const *grads);

#ifdef __cplusplus
}
#endif
#endif
