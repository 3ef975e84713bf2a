/* The public face of the core: handles, arguments, registration of operators, references, pins.
 *
 * A call checks its arguments, reserves all memory it can need, registers, and only then runs, so a
 * failure leaves either nothing or a consistent graph.  A handle is generation and slot; a slot's
 * generation grows with each reuse, so that an old handle is recognized. */
#include "core/core.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* --- handles ---------------------------------------------------------------------------------- */

dtr_tensor dtri_handle_of(const dtr_runtime *rt, uint32_t tensor)
{
    return (uint64_t)rt->tensors[tensor].generation << 32 | tensor;
}

/* The slot of a handle, or DTRI_NONE when its tensor is gone. */
uint32_t dtri_slot_of(const dtr_runtime *rt, dtr_tensor handle)
{
    uint32_t slot = (uint32_t)handle;
    if (slot == 0 || slot >= rt->n_tensors)
        return DTRI_NONE;
    const struct dtri_tensor *t = &rt->tensors[slot];
    if (!t->alive || t->generation != handle >> 32 ||
        rt->graph.storages[t->storage].state == DTRI_BANISHED)
        return DTRI_NONE;
    return slot;
}

dtr_status dtri_no_such_tensor(dtr_error *error)
{
    return dtri_fail(
        error, DTR_E_INVALID, 0,
        "the tensor is gone: its last reference was released and its metadata dropped");
}

/* --- checks ----------------------------------------------------------------------------------- */

#ifdef DTR_CHECKS
/* Small runtimes are checked at every call, large ones less often, so that the cost stays linear.
 */
void dtri_self_check(dtr_runtime *rt)
{
    dtr_error error;
    if (rt->check_delay-- > 0)
        return;
    rt->check_delay = (uint32_t)(rt->stats.storages / 256);
    dtri_alloc_pause_faults(true);
    dtr_status status = dtr_runtime_check(rt, &error);
    dtri_alloc_pause_faults(false);
    if (status == DTR_E_NOMEM)
        return;
    if (status != DTR_OK) {
        fprintf(stderr, "dtr: an invariant does not hold: %s\n", error.text);
        abort(); /* a bug of ours; builds without DTR_CHECKS do not get here */
    }
}
#else
void dtri_self_check(dtr_runtime *rt)
{
    (void)rt;
}
#endif

/* --- life ------------------------------------------------------------------------------------- */

void dtr_runtime_options_init(dtr_runtime_options *options)
{
    *options = (dtr_runtime_options){
        .size = sizeof *options,
        .budget_bytes = DTR_NONE,
        .deallocation = DTR_DEALLOCATE_EAGER,
        .remat_limit_ns = DTR_NONE,
        .remat_ratio = DTR_NONE,
        .decision_candidates = 5,
    };
}

static dtr_status check_options(const dtr_runtime_options *options, dtr_error *error)
{
    if (options->size != sizeof *options)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "the options were not set up by dtr_runtime_options_init");
    if (!options->backend || !options->backend->run)
        return dtri_fail(error, DTR_E_INVALID, 0, "a runtime needs a backend that can run");
    if (options->budget_bytes != DTR_NONE && options->budget_bytes <= 0)
        return dtri_fail(error, DTR_E_INVALID, 0, "the budget is %lld; it must be above 0",
                         (long long)options->budget_bytes);
    if (options->budget_bytes != DTR_NONE && !options->selector)
        return dtri_fail(error, DTR_E_INVALID, 0, "a budget needs a heuristic");
    if (options->remat_limit_ns != DTR_NONE && options->remat_limit_ns < 0)
        return dtri_fail(error, DTR_E_INVALID, 0, "the limit on replays is below 0");
    if (options->remat_ratio != DTR_NONE && options->remat_ratio < 1)
        return dtri_fail(error, DTR_E_INVALID, 0, "the ratio of replays to first runs is below 1");
    if (options->decision_candidates < 0 || options->decision_candidates > 1000)
        return dtri_fail(error, DTR_E_INVALID, 0, "decision_candidates is %d, not 0 to 1000",
                         options->decision_candidates);
    return DTR_OK;
}

static void set_options(dtr_runtime *rt, const dtr_runtime_options *options)
{
    rt->backend = *options->backend;
    if (options->sink)
        rt->sink = *options->sink;
    rt->recording = rt->sink.emit != NULL;
    rt->deallocation = options->deallocation;
    rt->reclaim = options->reclaim;
    rt->allow_overshoot = options->allow_overshoot;
    rt->budget = options->budget_bytes;
    rt->remat_limit = options->remat_limit_ns;
    rt->remat_ratio = options->remat_ratio;
    rt->relax_at = DTR_NONE;
    rt->n_runners_up = options->decision_candidates;
    rt->edges = rt->deallocation == DTR_DEALLOCATE_BANISH ||
                (rt->selector && rt->selector->ops->needs_edges(rt->selector));
}

dtr_status dtr_runtime_new(const dtr_runtime_options *options, dtr_runtime **out_runtime,
                           dtr_error *error)
{
    dtr_runtime *rt = NULL;
    dtr_status status = check_options(options, error);
    if (status != DTR_OK)
        goto fail;
    status = DTR_E_NOMEM;
    rt = dtri_calloc(1, sizeof *rt);
    if (!rt)
        goto fail_nomem;
    rt->ranked = dtri_calloc((size_t)options->decision_candidates + 1, sizeof *rt->ranked);
    if (!rt->ranked)
        goto fail_nomem;
    rt->selector = options->selector;
    rt->chain.id = DTR_NONE;
    set_options(rt, options);
    /* Slot 0 of each array means "none". */
    rt->graph.n_storages = rt->n_tensors = rt->n_ops = rt->n_links = rt->n_edges = 1;
    if (!dtri_reserve(rt, 1, 1) || !DTRI_RESERVE(rt->graph.edges, rt->cap_edges, 1))
        goto fail_nomem;
    memset(&rt->graph.storages[0], 0, sizeof rt->graph.storages[0]);
    memset(&rt->tensors[0], 0, sizeof rt->tensors[0]);
    rt->graph.clock = 1;
    rt->event_ns = DTR_NONE;
    rt->graph.next_pool_seq = 1;
    if (rt->selector)
        rt->selector->ops->attach(rt->selector, &rt->graph);
    if (rt->recording) {
        dtr_event event = {.kind = DTR_EVENT_BUDGET, .u.budget_ = {rt->budget}};
        dtri_emit(rt, &event, dtri_event_time(rt));
    }
    *out_runtime = rt;
    return DTR_OK;

fail_nomem:
    dtri_fail_nomem(error, "the runtime");
fail:
    if (rt)
        rt->selector = NULL;
    dtr_runtime_free(rt);
    dtr_selector_free(options->selector);
    return status;
}

void dtr_runtime_free(dtr_runtime *rt)
{
    if (!rt)
        return;
    for (uint32_t s = 1; s < rt->graph.n_storages; s++)
        if (rt->graph.storages[s].state == DTRI_RESIDENT && rt->backend.free)
            rt->backend.free(rt->backend.self, rt->graph.storages[s].data,
                             rt->graph.storages[s].bytes);
    for (uint32_t o = 1; o < rt->n_ops; o++)
        if (rt->ops[o].alive && rt->ops[o].payload_free)
            rt->ops[o].payload_free(rt->ops[o].payload);
    dtr_selector_free(rt->selector);
    dtri_intern_done(&rt->names);
    dtri_free(rt->graph.storages);
    dtri_free(rt->graph.edges);
    dtri_free(rt->graph.dense);
    dtri_free(rt->tensors);
    dtri_free(rt->ops);
    dtri_free(rt->links);
    dtri_free(rt->frames);
    dtri_free(rt->pending);
    dtri_free(rt->data);
    dtri_free(rt->work);
    dtri_free(rt->ranked);
    dtri_free(rt);
}

void dtr_runtime_stop_recording(dtr_runtime *rt)
{
    rt->recording = false;
    memset(&rt->sink, 0, sizeof rt->sink);
}

int64_t dtr_runtime_name(dtr_runtime *rt, const char *text)
{
    int is_new;
    int64_t id = dtri_intern(&rt->names, text, &is_new);
    if (id >= 0 && is_new && rt->sink.name)
        rt->sink.name(rt->sink.self, id, text);
    return id;
}

/* --- operators -------------------------------------------------------------------------------- */

static dtr_status check_outputs(const dtr_call *call, dtr_error *error)
{
    int64_t sum = 0;
    for (int i = 0; i < call->n_outputs; i++) {
        const dtr_output *out = &call->outputs[i];
        if (out->view_of < -1 || out->view_of >= call->n_inputs)
            return dtri_fail(error, DTR_E_INVALID, 0,
                             "output %d is a view of input %d; there are %d inputs", i,
                             out->view_of, call->n_inputs);
        if (out->bytes < 0 || out->bytes > INT64_MAX - sum || (out->view_of >= 0 && out->bytes))
            return dtri_fail(error, DTR_E_INVALID, 0, "output %d has a size of %lld", i,
                             (long long)out->bytes);
        sum += out->bytes;
    }
    return DTR_OK;
}

dtr_status dtri_check_call(const dtr_runtime *rt, const dtr_call *call, dtr_error *error)
{
    if (call->n_inputs < 0 || call->n_outputs < 1)
        return dtri_fail(error, DTR_E_INVALID, 0, "an operator has %d inputs and %d outputs",
                         call->n_inputs, call->n_outputs);
    if (call->name < DTR_NONE || call->name >= (int64_t)rt->names.n)
        return dtri_fail(error, DTR_E_INVALID, 0, "there is no name %lld", (long long)call->name);
    for (int i = 0; i < call->n_inputs; i++)
        if (!dtri_slot_of(rt, call->inputs[i]))
            return dtri_fail(error, DTR_E_INVALID, 0, "input %d is gone", i);
    if (call->cost_ns != DTR_NONE &&
        (call->cost_ns < 0 || call->cost_ns > (DTRI_MAX_WEIGHT - rt->weight) / call->n_outputs))
        return dtri_fail(error, DTR_E_LIMIT, 0, "a cost of %lld ns is out of range",
                         (long long)call->cost_ns);
    return check_outputs(call, error);
}

static void link_inputs(dtr_runtime *rt, uint32_t op, const dtr_tensor *inputs)
{
    struct dtri_op *o = &rt->ops[op];
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        uint32_t tensor = (uint32_t)inputs[i];
        dtri_op_inputs(rt, o)[i] = tensor;
        rt->tensors[tensor].consumers++;
    }
}

static void make_outputs(dtr_runtime *rt, uint32_t op, const dtr_output *outputs)
{
    struct dtri_op *o = &rt->ops[op];
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        uint32_t storage;
        if (outputs[i].view_of >= 0)
            storage = rt->tensors[dtri_op_inputs(rt, o)[outputs[i].view_of]].storage;
        else
            storage = dtri_storage_new(rt, outputs[i].bytes);
        uint32_t tensor = dtri_tensor_new(rt, storage, op, i);
        dtri_op_outputs(rt, o)[i] = tensor;
        rt->tensors[tensor].refs = 1;
        dtri_storage_at(rt, storage)->refs++;
        for (uint32_t j = 0; j < o->n_inputs; j++)
            dtri_edge_add(rt, rt->tensors[dtri_op_inputs(rt, o)[j]].storage, storage);
    }
}

static void emit_tensor(dtr_runtime *rt, uint32_t tensor, int64_t view_of, int64_t now)
{
    const struct dtri_tensor *t = &rt->tensors[tensor];
    const struct dtri_storage *s = dtri_storage_at(rt, t->storage);
    const struct dtri_op *o = &rt->ops[t->op];
    dtr_event event;
    if (s->tensors == tensor) {
        event.kind = DTR_EVENT_STORAGE;
        event.u.storage_ = (dtr_event_storage){s->id, s->bytes, t->id};
        dtri_emit(rt, &event, now);
    }
    event.kind = DTR_EVENT_TENSOR;
    event.u.tensor_ = (dtr_event_tensor){
        .tensor = t->id,
        .storage = s->id,
        .op = o->constant ? DTR_NONE : o->id,
        .output = t->output,
        .view_of = view_of,
        .constant = o->constant,
    };
    dtri_emit(rt, &event, now);
}

static void emit_operator(dtr_runtime *rt, uint32_t op, const dtr_call *call)
{
    struct dtri_op *o = &rt->ops[op];
    const uint32_t *inputs = dtri_op_inputs(rt, o), *outputs = dtri_op_outputs(rt, o);
    int64_t now = dtri_event_time(rt);
    dtr_event event = {.kind = DTR_EVENT_OPERATOR};
    event.u.operator_ =
        (dtr_event_operator){o->id, o->name, o->n_inputs, o->n_outputs, call->mutates};
    if (!o->constant)
        dtri_emit(rt, &event, now);
    event.kind = DTR_EVENT_OPERAND;
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        event.u.operand_ = (dtr_event_operand){o->id, i, rt->tensors[inputs[i]].id};
        dtri_emit(rt, &event, now);
    }
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        int base = call->outputs[i].view_of;
        emit_tensor(rt, outputs[i], base < 0 ? DTR_NONE : rt->tensors[inputs[base]].id, now);
    }
}

/* Until its first run, an operator's views add to the cost of storages that exist already. */
static void set_waiting_cost(dtr_runtime *rt, const struct dtri_op *o, int64_t cost)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[outputs[i]].storage);
        if (s->tensors != outputs[i])
            s->waiting_cost = cost;
    }
}

/* Registers an operator whose arguments were checked and whose room was reserved. */
uint32_t dtri_register_op(dtr_runtime *rt, const dtr_call *call, bool constant)
{
    rt->graph.call++;
    uint32_t op = dtri_op_new(rt, (uint32_t)call->n_inputs, (uint32_t)call->n_outputs);
    struct dtri_op *o = &rt->ops[op];
    o->name = call->name;
    o->payload = call->payload;
    o->payload_free = call->payload_free;
    o->constant = constant;
    link_inputs(rt, op, call->inputs);
    make_outputs(rt, op, call->outputs);
    if (call->cost_ns != DTR_NONE) {
        dtri_set_cost(rt, o, call->cost_ns);
        set_waiting_cost(rt, o, o->cost);
    }
    if (rt->selector)
        for (uint32_t i = 0; i < o->n_outputs; i++)
            if (call->outputs[i].view_of < 0)
                rt->selector->ops->created(rt->selector,
                                           rt->tensors[dtri_op_outputs(rt, o)[i]].storage);
    if (rt->recording)
        emit_operator(rt, op, call);
    return op;
}

/* Takes back an operator whose run failed. */
static void unregister_op(dtr_runtime *rt, uint32_t op)
{
    const struct dtri_op *o = &rt->ops[op];
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        struct dtri_tensor *t = &rt->tensors[outputs[i]];
        t->refs = 0;
        dtri_storage_at(rt, t->storage)->refs--;
    }
    dtri_forget(rt, op);
}

static dtr_status run_new(dtr_runtime *rt, const dtr_call *call, bool constant, uint32_t *out_op,
                          dtr_error *error)
{
    if (!dtri_reserve(rt, (size_t)call->n_inputs, (size_t)call->n_outputs)) {
        if (call->payload_free)
            call->payload_free(call->payload);
        return dtri_fail_nomem(error, "an operator");
    }
    uint32_t op = dtri_register_op(rt, call, constant);
    dtr_status status = dtri_materialize(rt, dtri_op_outputs(rt, &rt->ops[op])[0], error);
    set_waiting_cost(rt, &rt->ops[op], 0);
    if (status != DTR_OK)
        unregister_op(rt, op);
    *out_op = op;
    return status;
}

dtr_status dtr_run(dtr_runtime *rt, const dtr_call *call, dtr_tensor *out_tensors, dtr_error *error)
{
    dtri_time_passed(rt);
    uint32_t op = DTRI_NONE;
    dtr_status status = dtri_check_call(rt, call, error);
    if (status != DTR_OK) {
        if (call->payload_free)
            call->payload_free(call->payload);
        return status;
    }
    status = run_new(rt, call, false, &op, error);
    if (status == DTR_OK) {
        const uint32_t *outputs = dtri_op_outputs(rt, &rt->ops[op]);
        for (int i = 0; i < call->n_outputs; i++)
            out_tensors[i] = dtri_handle_of(rt, outputs[i]);
    }
    dtri_self_check(rt);
    return status;
}

dtr_status dtr_constant(dtr_runtime *rt, int64_t bytes, dtr_tensor *out_tensor, void **out_data,
                        dtr_error *error)
{
    dtri_time_passed(rt);
    uint32_t op = DTRI_NONE;
    if (bytes < 0)
        return dtri_fail(error, DTR_E_INVALID, 0, "a constant has a size of %lld",
                         (long long)bytes);
    dtr_call call = {
        .name = DTR_NONE,
        .cost_ns = 0,
        .n_outputs = 1,
        .outputs = &(dtr_output){.bytes = bytes, .view_of = -1},
    };
    dtr_status status = run_new(rt, &call, true, &op, error);
    if (status == DTR_OK) {
        uint32_t tensor = dtri_op_outputs(rt, &rt->ops[op])[0];
        struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[tensor].storage);
        dtri_pin_for_ever(rt, rt->tensors[tensor].storage);
        s->constant = true;
        rt->stats.constant_bytes += bytes;
        *out_tensor = dtri_handle_of(rt, tensor);
        if (out_data)
            *out_data = s->data;
    }
    dtri_self_check(rt);
    return status;
}

/* --- references and pins ---------------------------------------------------------------------- */

void dtri_emit_reference(dtr_runtime *rt, const struct dtri_tensor *t, int delta)
{
    dtr_event event = {.kind = DTR_EVENT_REFERENCE};
    event.u.reference_ = (dtr_event_reference){t->id, delta, t->refs};
    dtri_emit(rt, &event, dtri_event_time(rt));
}

void dtri_emit_pin(dtr_runtime *rt, const struct dtri_tensor *t, int change)
{
    dtr_event event = {.kind = DTR_EVENT_PIN, .u.pin_ = {t->id, change}};
    dtri_emit(rt, &event, dtri_event_time(rt));
}

dtr_status dtr_retain(dtr_runtime *rt, dtr_tensor tensor)
{
    dtri_time_passed(rt);
    uint32_t slot = dtri_slot_of(rt, tensor);
    if (!slot)
        return DTR_E_INVALID;
    struct dtri_tensor *t = &rt->tensors[slot];
    if (t->refs == UINT32_MAX || dtri_storage_at(rt, t->storage)->refs == UINT32_MAX)
        return DTR_E_LIMIT;
    t->refs++;
    dtri_storage_at(rt, t->storage)->refs++;
    if (rt->recording)
        dtri_emit_reference(rt, t, 1);
    dtri_self_check(rt);
    return DTR_OK;
}

dtr_status dtr_release(dtr_runtime *rt, dtr_tensor tensor)
{
    dtri_time_passed(rt);
    uint32_t slot = dtri_slot_of(rt, tensor);
    if (!slot)
        return DTR_E_INVALID;
    struct dtri_tensor *t = &rt->tensors[slot];
    uint32_t storage = t->storage, maker = t->op;
    if (t->refs == 0)
        return DTR_E_STATE;
    t->refs--;
    dtri_storage_at(rt, storage)->refs--;
    if (rt->recording)
        dtri_emit_reference(rt, t, -1);
    if (t->refs == 0) {
        dtri_deallocate(rt, storage);
        if (rt->reclaim)
            dtri_reclaim(rt, maker);
    }
    dtri_self_check(rt);
    return DTR_OK;
}

static dtr_status require(dtr_runtime *rt, dtr_tensor tensor, uint32_t *out_slot, dtr_error *error)
{
    uint32_t slot = dtri_slot_of(rt, tensor);
    if (!slot)
        return dtri_no_such_tensor(error);
    *out_slot = slot;
    return rt->tensors[slot].defined ? DTR_OK : dtri_materialize(rt, slot, error);
}

dtr_status dtr_require(dtr_runtime *rt, dtr_tensor tensor, dtr_error *error)
{
    dtri_time_passed(rt);
    uint32_t slot = DTRI_NONE;
    dtr_status status = require(rt, tensor, &slot, error);
    dtri_self_check(rt);
    return status;
}

dtr_status dtr_pin(dtr_runtime *rt, dtr_tensor tensor, void **out_data, dtr_error *error)
{
    dtri_time_passed(rt);
    uint32_t slot = DTRI_NONE;
    dtr_status status = require(rt, tensor, &slot, error);
    if (status == DTR_OK) {
        uint32_t storage = rt->tensors[slot].storage;
        dtri_lock(rt, storage);
        if (out_data)
            *out_data = dtri_storage_at(rt, storage)->data;
        if (rt->recording)
            dtri_emit_pin(rt, &rt->tensors[slot], 1);
    }
    dtri_self_check(rt);
    return status;
}

dtr_status dtr_unpin(dtr_runtime *rt, dtr_tensor tensor)
{
    dtri_time_passed(rt);
    uint32_t slot = dtri_slot_of(rt, tensor);
    if (!slot)
        return DTR_E_INVALID;
    uint32_t storage = rt->tensors[slot].storage;
    if (dtri_storage_at(rt, storage)->locks == 0)
        return DTR_E_STATE;
    dtri_unlock(rt, storage);
    if (rt->recording)
        dtri_emit_pin(rt, &rt->tensors[slot], -1);
    if (dtri_storage_at(rt, storage)->locks == 0)
        dtri_deallocate(rt, storage);
    dtri_self_check(rt);
    return DTR_OK;
}

dtr_status dtr_evict(dtr_runtime *rt, dtr_tensor tensor)
{
    dtri_time_passed(rt);
    uint32_t slot = dtri_slot_of(rt, tensor);
    if (!slot)
        return DTR_E_INVALID;
    uint32_t storage = rt->tensors[slot].storage;
    const struct dtri_storage *s = dtri_storage_at(rt, storage);
    if (s->state == DTRI_RESIDENT && (s->pinned || s->locks))
        return DTR_E_STATE;
    if (s->state == DTRI_RESIDENT)
        dtri_evict(rt, storage, DTR_EVICTED_BY_REQUEST, DTR_NONE);
    dtri_self_check(rt);
    return DTR_OK;
}

/* --- constants out of tensors ----------------------------------------------------------------- */

/* The operator keeps an output in place of `tensor`, which leaves it: a storage without bytes that
 * nobody holds, so that the siblings can still be replayed. */
static void leave_ghost(dtr_runtime *rt, uint32_t op, uint32_t tensor)
{
    struct dtri_op *o = &rt->ops[op];
    uint32_t old = rt->tensors[tensor].storage, output = rt->tensors[tensor].output;
    uint32_t ghost = dtri_storage_new(rt, dtri_storage_at(rt, old)->bytes);
    uint32_t slot = dtri_tensor_new(rt, ghost, op, output);
    struct dtri_storage *s = dtri_storage_at(rt, ghost);
    dtri_op_outputs(rt, o)[output] = slot;
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        uint32_t parent = rt->tensors[dtri_op_inputs(rt, o)[i]].storage;
        if (dtri_storage_at(rt, parent)->state != DTRI_BANISHED)
            dtri_edge_add(rt, parent, ghost);
    }
    s->local_cost = o->cost;
    s->last_access = dtri_storage_at(rt, old)->last_access;
    s->state = DTRI_EVICTED;
    if (rt->selector)
        rt->selector->ops->evicted(rt->selector, ghost);
    if (rt->recording)
        emit_tensor(rt, slot, DTR_NONE, dtri_event_time(rt));
}

/* Cuts the storage of `tensor` off the operators that made it and gives it a constant's operator.
 */
void dtri_become_constant(dtr_runtime *rt, uint32_t tensor)
{
    uint32_t old_op = rt->tensors[tensor].op, storage = rt->tensors[tensor].storage;
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    dtri_pin_for_ever(rt, storage);
    dtri_parents_cut(rt, storage);
    leave_ghost(rt, old_op, tensor);
    uint32_t op = dtri_op_new(rt, 0, 1);
    rt->ops[op].cost = 0;
    rt->ops[op].constant = rt->ops[op].ran = true;
    dtri_op_outputs(rt, &rt->ops[op])[0] = tensor;
    rt->tensors[tensor].op = op;
    rt->tensors[tensor].output = 0;
    s->constant = true;
    s->local_cost = 0;
    rt->stats.constant_bytes += s->bytes;
    if (rt->reclaim)
        dtri_reclaim(rt, old_op);
}

dtr_status dtr_make_constant(dtr_runtime *rt, dtr_tensor tensor, dtr_error *error)
{
    dtri_time_passed(rt);
    uint32_t slot = DTRI_NONE;
    dtr_status status = require(rt, tensor, &slot, error);
    if (status != DTR_OK)
        return status;
    struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[slot].storage);
    if (s->constant)
        return DTR_OK;
    if (s->tensors != slot || rt->tensors[slot].next)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "tensor %lld shares its storage with views; copy it first",
                         (long long)rt->tensors[slot].id);
    if (!dtri_reserve(rt, rt->ops[rt->tensors[slot].op].n_inputs, 1))
        return dtri_fail_nomem(error, "a constant");
    dtri_become_constant(rt, slot);
    if (rt->recording)
        dtri_emit_pin(rt, &rt->tensors[slot], 2);
    dtri_self_check(rt);
    return DTR_OK;
}

/* --- the rest --------------------------------------------------------------------------------- */

dtr_status dtr_tensor_info_of(dtr_runtime *rt, dtr_tensor tensor, dtr_tensor_info *out_info)
{
    uint32_t slot = dtri_slot_of(rt, tensor);
    if (!slot)
        return DTR_E_INVALID;
    const struct dtri_tensor *t = &rt->tensors[slot];
    const struct dtri_storage *s = dtri_storage_at(rt, t->storage);
    *out_info = (dtr_tensor_info){
        .tensor = t->id,
        .storage = s->id,
        .bytes = s->bytes,
        .references = t->refs,
        .resident = s->state == DTRI_RESIDENT,
        .defined = t->defined,
        .pinned = s->pinned || s->locks,
        .constant = s->constant,
    };
    return DTR_OK;
}

dtr_status dtr_set_budget(dtr_runtime *rt, int64_t budget_bytes, dtr_error *error)
{
    dtri_time_passed(rt);
    if (budget_bytes != DTR_NONE && budget_bytes <= 0)
        return dtri_fail(error, DTR_E_INVALID, 0, "the budget is %lld; it must be above 0",
                         (long long)budget_bytes);
    if (budget_bytes != DTR_NONE && !rt->selector)
        return dtri_fail(error, DTR_E_INVALID, 0, "a budget needs a heuristic");
    rt->budget = budget_bytes;
    if (rt->recording) {
        dtr_event event = {.kind = DTR_EVENT_BUDGET, .u.budget_ = {budget_bytes}};
        dtri_emit(rt, &event, dtri_event_time(rt));
    }
    rt->above_budget = true;
    dtr_status status = dtri_make_room(rt, 0, DTRI_NONE, error);
    dtri_self_check(rt);
    return status;
}

int64_t dtr_runtime_budget(const dtr_runtime *rt)
{
    return rt->budget;
}

void dtr_mark_emit(dtr_runtime *rt, dtr_mark mark, int64_t name, int64_t value)
{
    dtri_time_passed(rt);
    if (!rt->recording)
        return;
    dtr_event event = {.kind = DTR_EVENT_MARK, .u.mark_ = {mark, name, value}};
    dtri_emit(rt, &event, dtri_event_time(rt));
}

void dtr_runtime_stats(const dtr_runtime *rt, dtr_stats *out_stats)
{
    *out_stats = rt->stats;
    out_stats->clock_ns = rt->graph.clock;
    out_stats->candidates = (int64_t)rt->graph.n_pool;
}
