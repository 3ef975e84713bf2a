/* Optimizers.
 *
 * An update is one operator that stands for an in-place one: from a parameter, its state and its
 * gradient it makes the new parameter and the new state.  Each of them is then made a constant,
 * which cuts it off from its history: the runtime can forget the whole step. */
#include "engine/kernels.h"

#include <math.h>

#include "base/alloc.h"

#define MAX_STATE 2

static const struct dtri_array_op op_sgd = {
    .name = "sgd", .kernel = dtri_kernel_sgd, .mutates = true};
static const struct dtri_array_op op_adam = {
    .name = "adam", .kernel = dtri_kernel_adam, .mutates = true};

/* --- making and freeing ----------------------------------------------------------------------- */

static dtr_optimizer *new_optimizer(dtr_engine *e, const struct dtri_array_op *op, int n_state,
                                    const struct dtri_params *p)
{
    dtr_optimizer *optimizer = dtri_calloc(1, sizeof *optimizer);
    if (!optimizer) {
        dtri_engine_fail(e, DTR_E_NOMEM, "out of memory for an optimizer");
        return &e->failed_optimizer;
    }
    optimizer->engine = e;
    optimizer->op = op;
    optimizer->n_state = n_state;
    optimizer->p = *p;
    optimizer->next = e->optimizers;
    return e->optimizers = optimizer;
}

dtr_optimizer *dtr_optimizer_sgd(dtr_engine *e, float rate, float momentum)
{
    struct dtri_params p = {.sgd = {rate, momentum}};
    return new_optimizer(e, &op_sgd, momentum != 0, &p);
}

dtr_optimizer *dtr_optimizer_adam(dtr_engine *e, float rate, float beta1, float beta2,
                                  float epsilon)
{
    struct dtri_params p = {
        .adam = {.rate = rate, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon}};
    return new_optimizer(e, &op_adam, 2, &p);
}

/* --- updating --------------------------------------------------------------------------------- */

/* State for the parameters that came since the last step. */
static bool make_state(dtr_optimizer *optimizer)
{
    dtr_engine *e = optimizer->engine;
    size_t need = e->n_parameters * (size_t)optimizer->n_state;
    if (!DTRI_RESERVE(optimizer->state, optimizer->cap_state, need)) {
        dtri_engine_fail(e, DTR_E_NOMEM, "out of memory for the optimizer's state");
        return false;
    }
    while (optimizer->len_state < need && dtri_engine_ok(e)) {
        dtr_array *parameter = e->parameters[optimizer->len_state / (size_t)optimizer->n_state];
        dtr_array *zeros = dtr_array_keep(dtr_array_full(e, parameter->shape, 0));
        optimizer->state[optimizer->len_state++] = zeros;
    }
    return dtri_engine_ok(e);
}

/* Puts the tensor of `fresh` in the place of an array's own, as a constant, and drops `fresh`. */
static void replace(dtr_array *a, dtr_array *fresh)
{
    dtr_engine *e = a->engine;
    dtr_error error = {0};
    if (!dtri_engine_ok(e))
        return;
    if (dtr_make_constant(e->runtime, fresh->tensor, &error) != DTR_OK)
        dtri_engine_fail_with(e, &error);
    dtr_tensor old = a->tensor;
    a->tensor = fresh->tensor;
    fresh->tensor = old;
    dtri_array_free(fresh);
}

static void update_one(dtr_optimizer *optimizer, size_t i, dtr_array *grad)
{
    dtr_engine *e = optimizer->engine;
    dtr_array *in[MAX_STATE + 2], *out[MAX_STATE + 1];
    dtr_shape shapes[MAX_STATE + 1] = {{0}};
    int n_state = optimizer->n_state;
    for (int k = 0; k <= n_state; k++) {
        in[k] = k ? optimizer->state[i * (size_t)n_state + (size_t)k - 1] : e->parameters[i];
        shapes[k] = in[k]->shape;
    }
    in[n_state + 1] = grad;
    dtri_apply(e, optimizer->op, &optimizer->p, in, n_state + 2, shapes, n_state + 1, out);
    for (int k = 0; k <= n_state; k++)
        replace(in[k], out[k]);
}

static bool check_grads(dtr_engine *e, dtr_array *const *grads)
{
    for (size_t i = 0; i < e->n_parameters && dtri_engine_ok(e); i++)
        if (!dtri_shape_equal(&grads[i]->shape, &e->parameters[i]->shape))
            dtri_engine_fail(e, DTR_E_INVALID, "gradient %zu has another shape than its parameter",
                             i);
    return dtri_engine_ok(e);
}

static void set_correction(struct dtri_params *p, int64_t step)
{
    p->adam.correction1 = (float)(1 - pow(p->adam.beta1, (double)step));
    p->adam.correction2 = (float)(1 - pow(p->adam.beta2, (double)step));
}

dtr_status dtr_optimizer_update(dtr_optimizer *optimizer, dtr_array *const *grads)
{
    dtr_engine *e = optimizer->engine;
    if (!dtri_engine_ok(e) || !check_grads(e, grads) || !make_state(optimizer))
        return e->error.status;
    dtr_mark_emit(e->runtime, DTR_MARK_OPTIMIZER, DTR_NONE, DTR_NONE);
    optimizer->step++;
    if (optimizer->op == &op_adam)
        set_correction(&optimizer->p, optimizer->step);
    for (size_t i = 0; i < e->n_parameters && dtri_engine_ok(e); i++)
        update_one(optimizer, i, grads[i]);
    return e->error.status;
}

dtr_status dtr_optimizer_step(dtr_optimizer *optimizer, dtr_array *loss)
{
    dtr_engine *e = optimizer->engine;
    if (!dtri_engine_ok(e))
        return e->error.status;
    dtr_array **grads = dtri_calloc(e->n_parameters + 1, sizeof *grads);
    if (!grads) {
        dtri_engine_fail(e, DTR_E_NOMEM, "out of memory for gradients");
        return e->error.status;
    }
    dtr_scope_enter(e);
    dtr_grad(loss, e->parameters, (int)e->n_parameters, grads, false);
    dtr_optimizer_update(optimizer, grads);
    dtr_scope_leave(e, NULL);
    dtri_free(grads);
    return e->error.status;
}
