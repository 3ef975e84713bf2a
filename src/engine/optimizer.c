/* Optimizers: one operator for each parameter, whose outputs become constants.
 *
 * An update stands for one in place, and is done by copy on write: the operator makes the new
 * parameter and state, which are then made constants, so that nothing before them is needed to keep
 * them; the old ones go as soon as no gradient is left that may have to be replayed from them.  The
 * gradient of each parameter is dropped right after its update. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/kernels.h"

const struct dtri_op dtri_op_sgd = {"sgd", dtri_kernel_sgd, NULL, .mutates = true};
const struct dtri_op dtri_op_adam = {"adam", dtri_kernel_adam, NULL, .mutates = true};

/* --- making ----------------------------------------------------------------------------------- */

static dtr_optimizer *optimizer_new(dtr_engine *e, const dtr_optimizer *values)
{
    dtr_optimizer *optimizer = dtri_calloc(1, sizeof *optimizer);
    if (!optimizer) {
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for an optimizer");
        return &e->failed_optimizer;
    }
    *optimizer = *values;
    optimizer->engine = e;
    optimizer->next = e->optimizers;
    e->optimizers = optimizer;
    return optimizer;
}

/* Zeros, as many as the parameter has. */
static dtr_array *zeros_like(dtr_engine *e, const dtr_array *parameter)
{
    float *values = dtri_calloc((size_t)dtri_shape_size(&parameter->shape), sizeof *values);
    if (!values) {
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for an optimizer's state");
        return dtri_failed(e);
    }
    dtr_array *a = dtr_array_keep(dtri_array_constant(e, parameter->shape, false, values));
    dtri_free(values);
    return a;
}

static void make_state(dtr_optimizer *o)
{
    dtr_engine *e = o->engine;
    int n = (int)e->n_parameters;
    if (o->n_parameters == n || !dtri_engine_ok(e))
        return;
    if (o->n_parameters) {
        dtri_engine_fail(e, DTR_E_STATE, "parameters were added after the optimizer's first step");
        return;
    }
    o->state = dtri_calloc((size_t)(n * o->n_state), sizeof *o->state);
    if (!o->state) {
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for an optimizer's state");
        return;
    }
    o->n_parameters = n;
    for (int i = 0; i < n * o->n_state; i++)
        o->state[i] = zeros_like(e, e->parameters[i / o->n_state]);
}

/* --- one parameter ---------------------------------------------------------------------------- */

/* Gives `a` the tensor of `fresh`, as a constant. */
static void replace(dtr_engine *e, dtr_array *a, dtr_array *fresh)
{
    dtr_error error = {0};
    if (!dtri_engine_ok(e))
        return;
    if (dtr_make_constant(e->runtime, fresh->tensor, &error) != DTR_OK) {
        dtri_engine_fail_with(e, &error);
        return;
    }
    dtr_tensor old = a->tensor;
    a->tensor = fresh->tensor;
    fresh->tensor = old;
    dtri_array_free(fresh);
}

/* The operator takes parameter, state and gradient, and gives the new parameter and state. */
static void update(dtr_optimizer *o, const struct dtri_op *op, dtr_array *parameter,
                   dtr_array **state, dtr_array *grad)
{
    dtr_engine *e = o->engine;
    dtr_array *in[DTRI_MAX_OPERANDS] = {parameter}, *out[DTRI_MAX_OPERANDS];
    dtr_shape shapes[DTRI_MAX_OPERANDS];
    bool taping = e->taping;
    int n = 1 + o->n_state;
    for (int i = 0; i < n; i++) {
        shapes[i] = parameter->shape;
        if (i > 0)
            in[i] = state[i - 1];
    }
    in[n] = grad;
    e->taping = false;
    dtri_apply(e, op, &o->p, in, n + 1, shapes, n, out);
    e->taping = taping;
    for (int i = 0; i < n; i++)
        replace(e, in[i], out[i]);
}

static void update_sgd(dtr_optimizer *o, dtr_array *parameter, dtr_array **state, dtr_array *grad)
{
    update(o, &dtri_op_sgd, parameter, state, grad);
}

static void update_adam(dtr_optimizer *o, dtr_array *parameter, dtr_array **state, dtr_array *grad)
{
    o->p.adam.correction1 = (float)(1 - pow(o->p.adam.beta1, (double)o->step));
    o->p.adam.correction2 = (float)(1 - pow(o->p.adam.beta2, (double)o->step));
    update(o, &dtri_op_adam, parameter, state, grad);
}

dtr_optimizer *dtr_optimizer_sgd(dtr_engine *e, float rate, float momentum)
{
    return optimizer_new(e, &(dtr_optimizer){
                                .update = update_sgd,
                                .n_state = momentum != 0 ? 1 : 0,
                                .p = {.sgd = {rate, momentum}},
                            });
}

dtr_optimizer *dtr_optimizer_adam(dtr_engine *e, float rate, float beta1, float beta2,
                                  float epsilon)
{
    return optimizer_new(e, &(dtr_optimizer){
                                .update = update_adam,
                                .n_state = 2,
                                .p = {.adam = {rate, beta1, beta2, epsilon}},
                            });
}

/* --- all parameters --------------------------------------------------------------------------- */

static bool fits(dtr_engine *e, int i, const dtr_array *grad)
{
    if (dtri_engine_ok(e) &&
        (grad->integers || !dtri_shape_equal(&grad->shape, &e->parameters[i]->shape)))
        dtri_engine_fail(e, DTR_E_INVALID, "gradient %d does not have the shape of its parameter",
                         i);
    return dtri_engine_ok(e);
}

/* Updates all; with `taken`, drops each gradient when it was used. */
static void update_all(dtr_optimizer *o, dtr_array *const *grads, bool taken)
{
    dtr_engine *e = o->engine;
    make_state(o);
    o->step++;
    dtr_mark_emit(e->runtime, DTR_MARK_OPTIMIZER, DTR_NONE, DTR_NONE);
    for (int i = 0; i < o->n_parameters && fits(e, i, grads[i]); i++) {
        o->update(o, e->parameters[i], o->state + i * o->n_state, grads[i]);
        if (taken)
            dtr_array_drop(grads[i]);
    }
}

dtr_status dtr_optimizer_update(dtr_optimizer *o, dtr_array *const *grads)
{
    if (dtri_engine_ok(o->engine))
        update_all(o, grads, false);
    return o->engine->error.status;
}

dtr_status dtr_optimizer_step(dtr_optimizer *o, dtr_array *loss)
{
    dtr_engine *e = o->engine;
    if (!dtri_engine_ok(e))
        return e->error.status;
    int n = (int)e->n_parameters;
    dtr_array **grads = dtri_calloc((size_t)n, sizeof *grads);
    if (!grads) {
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for gradients");
        return e->error.status;
    }
    dtr_scope_enter(e);
    if (dtr_grad(loss, e->parameters, n, grads, false) == DTR_OK)
        update_all(o, grads, true);
    dtr_scope_leave(e, NULL);
    dtri_free(grads);
    return e->error.status;
}
