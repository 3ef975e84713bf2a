/* Making a trace step by step, with all limits checked here, so that what a reader hands over can
 * be replayed without further checks. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "trace/trace.h"

/* Sums of sizes, and of costs times outputs, stay below these; the core relies on the second. */
#define MAX_BYTES  (INT64_C(1) << 61)
#define MAX_WEIGHT (INT64_C(1) << 60)

static dtr_status no_memory(dtr_error *error)
{
    return dtri_fail_nomem(error, "the trace");
}

dtr_status dtri_trace_begin(struct dtri_trace_builder *b, const char *source, dtr_error *error)
{
    *b = (struct dtri_trace_builder){.trace = dtri_calloc(1, sizeof *b->trace)};
    if (b->trace)
        b->trace->source = dtri_strdup(source);
    if (b->trace && b->trace->source)
        return DTR_OK;
    dtri_trace_abort(b);
    return no_memory(error);
}

void dtri_trace_abort(struct dtri_trace_builder *b)
{
    dtri_trace_free(b->trace);
    dtri_intern_done(&b->names);
    dtri_free(b->storage_bytes);
    dtri_free(b->references);
    *b = (struct dtri_trace_builder){0};
}

static dtr_status push_step(struct dtri_trace_builder *b, enum dtri_step_kind kind, uint32_t arg,
                            dtr_error *error)
{
    struct dtri_trace *t = b->trace;
    if (!DTRI_RESERVE(t->steps, b->cap_steps, t->n_steps + 1))
        return no_memory(error);
    t->steps[t->n_steps++] = (struct dtri_trace_step){kind, arg};
    return DTR_OK;
}

/* One more tensor; `storage_bytes` is the size of the storage that it lives on. */
static dtr_status push_tensor(struct dtri_trace_builder *b, struct dtri_trace_tensor tensor,
                              int64_t storage_bytes, dtr_error *error)
{
    struct dtri_trace *t = b->trace;
    if (tensor.bytes < 0 || tensor.bytes > MAX_BYTES - b->sum_bytes ||
        t->n_tensors >= UINT32_MAX / 2)
        return dtri_fail(error, DTR_E_LIMIT, 0,
                         "the sizes of all tensors together are out of range");
    if (!DTRI_RESERVE(t->tensors, b->cap_tensors, t->n_tensors + 1) ||
        !DTRI_RESERVE(b->storage_bytes, b->cap_storage_bytes, t->n_tensors + 1) ||
        !DTRI_RESERVE(b->references, b->cap_references, t->n_tensors + 1))
        return no_memory(error);
    b->sum_bytes += tensor.bytes;
    b->storage_bytes[t->n_tensors] = storage_bytes;
    b->references[t->n_tensors] = 1;
    t->tensors[t->n_tensors++] = tensor;
    return DTR_OK;
}

dtr_status dtri_trace_add_constant(struct dtri_trace_builder *b, int64_t bytes,
                                   uint32_t *out_tensor, dtr_error *error)
{
    dtr_status status = push_tensor(b, (struct dtri_trace_tensor){bytes, -1}, bytes, error);
    if (status != DTR_OK)
        return status;
    *out_tensor = (uint32_t)b->trace->n_tensors - 1;
    b->trace->constant_bytes += bytes;
    return push_step(b, DTRI_STEP_CONSTANT, *out_tensor, error);
}

static dtr_status push_outputs(struct dtri_trace_builder *b, const uint32_t *inputs,
                               size_t n_inputs, const struct dtri_trace_tensor *outputs,
                               size_t n_outputs, dtr_error *error)
{
    for (size_t i = 0; i < n_outputs; i++) {
        int64_t storage_bytes = outputs[i].bytes;
        if (outputs[i].view_of >= 0 && (size_t)outputs[i].view_of >= n_inputs)
            return dtri_fail(error, DTR_E_FORMAT, 0,
                             "output %zu is a view of argument %d, and there are %zu arguments", i,
                             outputs[i].view_of, n_inputs);
        if (outputs[i].view_of >= 0)
            storage_bytes = b->storage_bytes[inputs[outputs[i].view_of]];
        dtr_status status = push_tensor(b, outputs[i], storage_bytes, error);
        if (status != DTR_OK)
            return status;
    }
    return DTR_OK;
}

dtr_status dtri_trace_add_call(struct dtri_trace_builder *b, const char *name, int64_t cost_ns,
                               bool mutates, const uint32_t *inputs, size_t n_inputs,
                               const struct dtri_trace_tensor *outputs, size_t n_outputs,
                               uint32_t *out_tensor, dtr_error *error)
{
    struct dtri_trace *t = b->trace;
    if (n_outputs == 0 || n_outputs > 65536 || n_inputs > 65536)
        return dtri_fail(error, DTR_E_LIMIT, 0, "an operator with %zu inputs and %zu outputs",
                         n_inputs, n_outputs);
    if (cost_ns < 0 || cost_ns > (MAX_WEIGHT - b->sum_weight) / (int64_t)n_outputs)
        return dtri_fail(error, DTR_E_LIMIT, 0, "the costs of all operators are out of range");
    int64_t name_id = dtri_intern(&b->names, name, NULL);
    if (name_id < 0 || !DTRI_RESERVE(t->ops, b->cap_ops, t->n_ops + 1) ||
        !DTRI_RESERVE(t->inputs, b->cap_inputs, t->n_inputs + n_inputs))
        return no_memory(error);
    uint32_t first = (uint32_t)t->n_tensors;
    t->ops[t->n_ops] = (struct dtri_trace_op){
        .cost_ns = cost_ns,
        .name = (uint32_t)name_id,
        .first_input = (uint32_t)t->n_inputs,
        .n_inputs = (uint32_t)n_inputs,
        .first_output = first,
        .n_outputs = (uint32_t)n_outputs,
        .mutates = mutates,
    };
    dtr_status status = push_outputs(b, inputs, n_inputs, outputs, n_outputs, error);
    if (status != DTR_OK)
        return status;
    if (n_inputs)
        memcpy(t->inputs + t->n_inputs, inputs, n_inputs * sizeof *inputs);
    t->n_inputs += n_inputs;
    t->compute_ns += cost_ns;
    b->sum_weight += cost_ns * (int64_t)n_outputs;
    *out_tensor = first; /* last: it may be where an input is read from */
    return push_step(b, DTRI_STEP_CALL, (uint32_t)t->n_ops++, error);
}

dtr_status dtri_trace_add_step(struct dtri_trace_builder *b, enum dtri_step_kind kind,
                               uint32_t tensor, dtr_error *error)
{
    if (kind == DTRI_STEP_RETAIN) {
        b->references[tensor]++;
    } else if (kind == DTRI_STEP_RELEASE) {
        if (b->references[tensor] == 0)
            return dtri_fail(error, DTR_E_FORMAT, 0,
                             "a tensor is released more often than it was made or copied");
        b->references[tensor]--;
    }
    return push_step(b, kind, tensor, error);
}

dtr_status dtri_trace_add_mark(struct dtri_trace_builder *b, dtr_mark mark, const char *name,
                               int64_t value, dtr_error *error)
{
    struct dtri_trace *t = b->trace;
    int64_t name_id = name ? dtri_intern(&b->names, name, NULL) : DTR_NONE;
    if ((name && name_id < 0) || !DTRI_RESERVE(t->marks, b->cap_marks, t->n_marks + 1))
        return no_memory(error);
    t->marks[t->n_marks] = (struct dtri_trace_mark){mark, name_id, value};
    return push_step(b, DTRI_STEP_MARK, (uint32_t)t->n_marks++, error);
}

dtr_status dtri_trace_add_output(struct dtri_trace_builder *b, uint32_t tensor, dtr_error *error)
{
    struct dtri_trace *t = b->trace;
    if (!DTRI_RESERVE(t->outputs, b->cap_outputs, t->n_outputs + 1))
        return no_memory(error);
    t->outputs[t->n_outputs++] = tensor;
    return DTR_OK;
}

/* --- content hash ----------------------------------------------------------------------------- */

static void mix(uint64_t *hash, uint64_t value)
{
    for (int i = 0; i < 8; i++, value >>= 8)
        *hash = (*hash ^ (value & 0xff)) * 0x100000001b3u; /* FNV-1a */
}

static uint64_t content_hash(const struct dtri_trace *t)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < t->n_steps; i++) {
        mix(&hash, t->steps[i].kind);
        mix(&hash, t->steps[i].arg);
    }
    for (size_t i = 0; i < t->n_ops; i++) {
        mix(&hash, (uint64_t)t->ops[i].cost_ns);
        mix(&hash, (uint64_t)t->ops[i].n_inputs << 32 | t->ops[i].n_outputs);
    }
    for (size_t i = 0; i < t->n_inputs; i++)
        mix(&hash, t->inputs[i]);
    for (size_t i = 0; i < t->n_tensors; i++) {
        mix(&hash, (uint64_t)t->tensors[i].bytes);
        mix(&hash, (uint64_t)(int64_t)t->tensors[i].view_of);
    }
    for (size_t i = 0; i < t->n_outputs; i++)
        mix(&hash, t->outputs[i]);
    return hash >> 1; /* fits an SQLite integer */
}

dtr_status dtri_trace_finish(struct dtri_trace_builder *b, struct dtri_trace **out_trace,
                             dtr_error *error)
{
    struct dtri_trace *t = b->trace;
    if (t->n_ops == 0)
        return dtri_fail(error, DTR_E_FORMAT, 0, "%s: there is no operator in it", t->source);
    t->names = b->names.texts;
    t->n_names = b->names.n;
    b->names.texts = NULL;
    b->names.n = 0;
    t->hash = content_hash(t);
    b->trace = NULL;
    dtri_trace_abort(b);
    *out_trace = t;
    return DTR_OK;
}
