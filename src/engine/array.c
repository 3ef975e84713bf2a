/* Arrays: a handle of the runtime with a shape, owned by a scope; and the one way to apply
 * operators.
 *
 * An array holds exactly one reference of its tensor, so the runtime sees the program's last use of
 * it.  Aliases are arrays of their own. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"

dtr_array *dtri_failed(dtr_engine *e)
{
    return &e->failed_array;
}

/* --- scopes hold arrays in lists -------------------------------------------------------------- */

static void scope_add(dtr_array *a, int scope)
{
    dtr_array **first = &a->engine->scopes[scope];
    a->scope = scope;
    a->previous = NULL;
    a->next = *first;
    if (*first)
        (*first)->previous = a;
    *first = a;
}

static void scope_remove(dtr_array *a)
{
    if (a->previous)
        a->previous->next = a->next;
    else
        a->engine->scopes[a->scope] = a->next;
    if (a->next)
        a->next->previous = a->previous;
}

void dtri_array_move(dtr_array *a, int scope)
{
    scope_remove(a);
    scope_add(a, scope);
}

dtr_array *dtri_array_new(dtr_engine *e, dtr_shape shape, bool integers, dtr_tensor tensor)
{
    dtr_array *a = dtri_calloc(1, sizeof *a);
    if (!a) {
        dtr_release(e->runtime, tensor);
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for an array");
        return dtri_failed(e);
    }
    *a = (dtr_array){.engine = e, .shape = shape, .integers = integers, .tensor = tensor};
    scope_add(a, (int)e->n_scopes - 1);
    return a;
}

void dtri_array_free(dtr_array *a)
{
    scope_remove(a);
    dtr_release(a->engine->runtime, a->tensor);
    dtri_node_unref(a->engine, a->node);
    dtri_free(a);
}

dtr_array *dtri_array_alias(dtr_array *a)
{
    dtr_engine *e = a->engine;
    if (!a->tensor)
        return a;
    dtr_status status = dtr_retain(e->runtime, a->tensor);
    if (status != DTR_OK) {
        dtri_engine_fail(e, status, "an array has too many aliases");
        return dtri_failed(e);
    }
    dtr_array *alias = dtri_array_new(e, a->shape, a->integers, a->tensor);
    if (alias->tensor) {
        alias->node = dtri_node_ref(a->node);
        alias->output = a->output;
    }
    return alias;
}

dtr_array *dtr_array_keep(dtr_array *a)
{
    if (a->tensor)
        dtri_array_move(a, 0);
    return a;
}

void dtr_array_drop(dtr_array *a)
{
    if (a->parameter)
        dtri_engine_fail(a->engine, DTR_E_STATE, "a parameter cannot be dropped");
    else if (a->tensor)
        dtri_array_free(a);
}

/* --- making and reading ----------------------------------------------------------------------- */

dtr_array *dtri_array_constant(dtr_engine *e, dtr_shape shape, bool integers, const void *values)
{
    dtr_tensor tensor;
    void *data;
    dtr_error error = {0};
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (!dtri_shape_valid(&shape)) {
        char text[DTRI_SHAPE_TEXT];
        dtri_engine_fail(e, DTR_E_INVALID, "an array cannot have the shape %s",
                         dtri_shape_text(&shape, text));
        return dtri_failed(e);
    }
    int64_t bytes = dtri_shape_size(&shape) * (int64_t)sizeof(float);
    if (dtr_constant(e->runtime, bytes, &tensor, &data, &error) != DTR_OK) {
        dtri_engine_fail_with(e, &error);
        return dtri_failed(e);
    }
    memcpy(data, values, (size_t)bytes);
    return dtri_array_new(e, shape, integers, tensor);
}

dtr_array *dtr_array_floats(dtr_engine *e, dtr_shape shape, const float *values)
{
    return dtri_array_constant(e, shape, false, values);
}

dtr_array *dtr_array_integers(dtr_engine *e, dtr_shape shape, const int32_t *values)
{
    return dtri_array_constant(e, shape, true, values);
}

dtr_shape dtr_array_shape(const dtr_array *a)
{
    return a->shape;
}

int64_t dtr_array_size(const dtr_array *a)
{
    return dtri_shape_size(&a->shape);
}

dtr_tensor dtr_array_tensor(const dtr_array *a)
{
    return a->tensor;
}

dtr_status dtr_array_read(dtr_array *a, void *out, int64_t n)
{
    dtr_engine *e = a->engine;
    dtr_error error = {0};
    void *data;
    if (!dtri_engine_ok(e))
        return e->error.status;
    if (n != dtr_array_size(a))
        dtri_engine_fail(e, DTR_E_INVALID, "%lld elements are asked for, the array has %lld",
                         (long long)n, (long long)dtr_array_size(a));
    else if (dtr_pin(e->runtime, a->tensor, &data, &error) != DTR_OK)
        dtri_engine_fail_with(e, &error);
    else {
        memcpy(out, data, (size_t)n * sizeof(float));
        dtr_unpin(e->runtime, a->tensor);
    }
    return e->error.status;
}

float dtr_array_item(dtr_array *a)
{
    float value = NAN;
    if (a->integers)
        dtri_engine_fail(a->engine, DTR_E_INVALID, "an array of integers has no float");
    else
        dtr_array_read(a, &value, 1);
    return value;
}

/* --- applying --------------------------------------------------------------------------------- */

static bool may_apply(dtr_engine *e, const struct dtri_array_op *op, dtr_array *const *in,
                      int n_inputs, const dtr_shape *out_shapes, int n_outputs)
{
    for (int i = 0; i < n_inputs; i++) {
        bool integers = op->integer_inputs >> i & 1;
        if (in[i]->engine != e)
            dtri_engine_fail(e, DTR_E_INVALID, "%s: operand %d belongs to another engine", op->name,
                             i);
        else if (in[i]->integers != integers)
            dtri_engine_fail(e, DTR_E_INVALID, "%s: operand %d must hold %s", op->name, i,
                             integers ? "integers" : "floats");
    }
    for (int i = 0; i < n_outputs; i++)
        if (!dtri_shape_valid(&out_shapes[i])) {
            char text[DTRI_SHAPE_TEXT];
            dtri_engine_fail(e, DTR_E_INVALID, "%s: the result cannot have the shape %s", op->name,
                             dtri_shape_text(&out_shapes[i], text));
        }
    return dtri_engine_ok(e);
}

static struct dtri_task *task_new(const struct dtri_array_op *op, const struct dtri_params *p,
                                  dtr_array *const *in, int n_inputs, const dtr_shape *out_shapes,
                                  int n_outputs)
{
    struct dtri_task *task = dtri_calloc(1, sizeof *task);
    if (!task)
        return NULL;
    task->base.run = op->kernel;
    if (p)
        task->p = *p;
    task->n_inputs = n_inputs;
    task->n_outputs = n_outputs;
    for (int i = 0; i < n_inputs; i++)
        task->in[i] = in[i]->shape;
    for (int i = 0; i < n_outputs; i++)
        task->out[i] = out_shapes[i];
    return task;
}

/* Runs a task, which is taken. */
static bool run(dtr_engine *e, const struct dtri_array_op *op, struct dtri_task *task,
                dtr_array *const *in, dtr_tensor *tensors)
{
    dtr_tensor inputs[DTRI_MAX_OPERANDS];
    dtr_output outputs[DTRI_MAX_OPERANDS];
    dtr_error error = {0};
    for (int i = 0; i < task->n_inputs; i++)
        inputs[i] = in[i]->tensor;
    for (int i = 0; i < task->n_outputs; i++)
        outputs[i] = (dtr_output){
            .bytes = op->view ? 0 : dtri_shape_size(&task->out[i]) * (int64_t)sizeof(float),
            .view_of = op->view ? 0 : -1,
        };
    dtr_call call = {
        .name = dtr_runtime_name(e->runtime, op->name),
        .cost_ns = DTR_NONE,
        .payload = task,
        .payload_free = dtri_free,
        .mutates = op->mutates,
        .n_inputs = task->n_inputs,
        .n_outputs = task->n_outputs,
        .inputs = inputs,
        .outputs = outputs,
    };
    if (dtr_run(e->runtime, &call, tensors, &error) != DTR_OK)
        dtri_engine_fail_with(e, &error);
    return dtri_engine_ok(e);
}

void dtri_apply(dtr_engine *e, const struct dtri_array_op *op, const struct dtri_params *p,
                dtr_array *const *in, int n_inputs, const dtr_shape *out_shapes, int n_outputs,
                dtr_array **out)
{
    dtr_tensor tensors[DTRI_MAX_OPERANDS];
    struct dtri_task *task = NULL;
    for (int i = 0; i < n_outputs; i++)
        out[i] = dtri_failed(e);
    if (!dtri_engine_ok(e) || !may_apply(e, op, in, n_inputs, out_shapes, n_outputs))
        return;
    task = task_new(op, p, in, n_inputs, out_shapes, n_outputs);
    if (!task) {
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for %s", op->name);
        return;
    }
    if (!run(e, op, task, in, tensors))
        return;
    for (int i = 0; i < n_outputs; i++)
        out[i] = dtri_array_new(e, out_shapes[i], false, tensors[i]);
    if (dtri_engine_ok(e) && e->taping)
        dtri_tape_record(e, op, p, in, n_inputs, out, n_outputs);
}

dtr_array *dtri_apply1(const struct dtri_array_op *op, const struct dtri_params *p,
                       dtr_array *const *in, int n_inputs, dtr_shape out_shape)
{
    dtr_array *out;
    dtri_apply(in[0]->engine, op, p, in, n_inputs, &out_shape, 1, &out);
    return out;
}
