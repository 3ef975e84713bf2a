/* Operators that the host runs: holding inputs, adopting what it ran, barriers.
 *
 * The first half of run.c, fetching, without the second: the host executes.  So the order of steps
 * is the same: access times, locks on what is there, what is missing in input order, room. */
#include "dtr/host.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "core/core.h"

/* Outputs that an operator may have beyond one an input, without adopting it needing more memory.
 */
#define SPARE_OUTPUTS 8

/* --- holding ---------------------------------------------------------------------------------- */

/* Room without an operator to name: what it would need is not known before it has run. */
static dtr_status make_room(dtr_runtime *rt, int64_t bytes, dtr_error *error)
{
    if (rt->budget == DTR_NONE)
        return DTR_OK;
    while (rt->budget - rt->stats.in_use_bytes < bytes) {
        if (dtri_may_overshoot(rt, bytes)) {
            dtri_overshoot(rt, bytes, DTRI_NONE);
            return DTR_OK;
        }
        dtr_status status = dtri_evict_one(rt, bytes, DTRI_NONE, error);
        if (status != DTR_OK)
            return status;
    }
    rt->above_budget = false;
    return DTR_OK;
}

/* Nothing more is needed: that more is in use than the budget allows, which a barrier may leave
 * behind, is no reason to refuse. */
static dtr_status evict_excess(dtr_runtime *rt, dtr_error *error)
{
    dtr_status status = DTR_OK;
    while (status == DTR_OK && rt->budget != DTR_NONE && rt->graph.n_pool &&
           rt->stats.in_use_bytes > rt->budget)
        status = dtri_evict_one(rt, 0, DTRI_NONE, error);
    return status;
}

/* Room for an operator, twice: itself, and what its outputs leave behind if they become constants.
 */
static bool reserve(dtr_runtime *rt, size_t n_inputs, size_t n_outputs)
{
    return dtri_reserve(rt, n_inputs, n_outputs * 2) &&
           DTRI_RESERVE(rt->ops, rt->cap_ops, rt->n_ops + n_outputs + 1) &&
           DTRI_RESERVE(rt->links, rt->cap_links, rt->n_links + 2 * (n_inputs + 2 * n_outputs));
}

/* A storage lost a lock; its reference may have gone while it was held. */
static void let_go(dtr_runtime *rt, uint32_t storage)
{
    dtri_unlock(rt, storage);
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    if (!s->locks && !s->refs)
        dtri_deallocate(rt, storage);
}

/* Locks what is there and notes the positions of what is missing. */
static void lock_present(dtr_runtime *rt, const dtr_tensor *tensors, int n)
{
    for (int i = 0; i < n; i++) {
        const struct dtri_tensor *t = &rt->tensors[dtri_slot_of(rt, tensors[i])];
        dtri_storage_at(rt, t->storage)->last_access = rt->graph.clock;
        if (t->defined)
            dtri_lock(rt, t->storage);
        else
            rt->pending[rt->n_pending++] = (uint32_t)i;
    }
}

/* Drops the locks of all but the inputs at the positions that are still pending. */
static void unlock_present(dtr_runtime *rt, const dtr_tensor *tensors, int n, size_t next)
{
    for (int i = 0; i < n; i++) {
        if (next < rt->n_pending && rt->pending[next] == (uint32_t)i)
            next++;
        else
            let_go(rt, rt->tensors[dtri_slot_of(rt, tensors[i])].storage);
    }
}

dtr_status dtr_hold(dtr_runtime *rt, const dtr_tensor *tensors, int n, int64_t bytes,
                    dtr_error *error)
{
    dtr_status status = DTR_OK;
    dtri_time_passed(rt);
    assert(rt->n_pending == 0);
    for (int i = 0; i < n; i++)
        if (!dtri_slot_of(rt, tensors[i]))
            return dtri_fail(error, DTR_E_INVALID, 0, "input %d is gone", i);
    if (bytes < 0)
        return dtri_fail(error, DTR_E_INVALID, 0, "room is asked for %lld bytes", (long long)bytes);
    /* Once an operator has changed a tensor in place, adopting it must not fail for want of memory.
     */
    if (!DTRI_RESERVE(rt->pending, rt->cap_pending, (size_t)n) ||
        !reserve(rt, (size_t)n, (size_t)n + SPARE_OUTPUTS))
        return dtri_fail_nomem(error, "the inputs of an operator");
    lock_present(rt, tensors, n);
    size_t next = 0;
    for (; next < rt->n_pending && status == DTR_OK; next++) {
        uint32_t slot = dtri_slot_of(rt, tensors[rt->pending[next]]);
        if (!rt->tensors[slot].defined)
            status = dtri_materialize(rt, slot, error);
        if (status != DTR_OK)
            break;
        dtri_lock(rt, rt->tensors[slot].storage);
    }
    if (status == DTR_OK)
        status = bytes ? make_room(rt, bytes, error) : evict_excess(rt, error);
    if (status != DTR_OK)
        unlock_present(rt, tensors, n, next);
    rt->n_pending = 0;
    dtri_self_check(rt);
    return status;
}

void dtr_unhold(dtr_runtime *rt, const dtr_tensor *tensors, int n)
{
    dtri_time_passed(rt);
    for (int i = 0; i < n; i++) {
        uint32_t slot = dtri_slot_of(rt, tensors[i]);
        if (slot && dtri_storage_at(rt, rt->tensors[slot].storage)->locks)
            let_go(rt, rt->tensors[slot].storage);
    }
    dtri_self_check(rt);
}

/* --- adopting --------------------------------------------------------------------------------- */

static uint32_t occurrences(const dtr_call *call, dtr_tensor tensor)
{
    uint32_t n = 0;
    for (int i = 0; i < call->n_inputs; i++)
        n += call->inputs[i] == tensor;
    return n;
}

static bool can_take(const dtr_runtime *rt, uint32_t slot, uint32_t n_held)
{
    const struct dtri_tensor *t = &rt->tensors[slot];
    const struct dtri_storage *s = &rt->graph.storages[t->storage];
    return s->state == DTRI_RESIDENT && s->locks == n_held && n_held > 0 && !t->next &&
           t->refs == 1 && (s->constant ? t->consumers == 0 : !s->pinned);
}

bool dtr_can_take(dtr_runtime *rt, dtr_tensor tensor, int n_held)
{
    uint32_t slot = dtri_slot_of(rt, tensor);
    return slot && n_held > 0 && can_take(rt, slot, (uint32_t)n_held);
}

static int taken_by(const dtr_host_run *run, int output)
{
    return run->takes ? run->takes[output] : -1;
}

static dtr_status check_takes(const dtr_runtime *rt, const dtr_call *call, const dtr_host_run *run,
                              dtr_error *error)
{
    for (int i = 0; i < call->n_outputs; i++) {
        int input = taken_by(run, i);
        if (input < -1 || input >= call->n_inputs)
            return dtri_fail(error, DTR_E_INVALID, 0, "output %d took input %d of %d", i, input,
                             call->n_inputs);
        if (input < 0)
            continue;
        for (int j = 0; j < i; j++)
            if (taken_by(run, j) >= 0 && call->inputs[run->takes[j]] == call->inputs[input])
                return dtri_fail(error, DTR_E_INVALID, 0, "outputs %d and %d took one input", j, i);
        uint32_t slot = dtri_slot_of(rt, call->inputs[input]);
        bool constant = rt->graph.storages[rt->tensors[slot].storage].constant;
        if (!can_take(rt, slot, occurrences(call, call->inputs[input])) ||
            (constant && !run->constant))
            return dtri_fail(error, DTR_E_STATE, 0,
                             "output %d cannot take the bytes of input %d: others use them", i,
                             input);
    }
    return DTR_OK;
}

static dtr_status check_adoption(const dtr_runtime *rt, const dtr_call *call,
                                 const dtr_host_run *run, dtr_error *error)
{
    dtr_status status = dtri_check_call(rt, call, error);
    if (status != DTR_OK)
        return status;
    for (int i = 0; i < call->n_outputs; i++)
        if (call->outputs[i].view_of >= 0)
            return dtri_fail(error, DTR_E_INVALID, 0, "output %d is a view; a host keeps its own",
                             i);
    for (int i = 0; i < call->n_inputs; i++) {
        uint32_t storage = rt->tensors[dtri_slot_of(rt, call->inputs[i])].storage;
        if (!rt->graph.storages[storage].locks)
            return dtri_fail(error, DTR_E_STATE, 0, "input %d is not held", i);
    }
    if (run->cost_ns < 0 || run->cost_ns > (DTRI_MAX_WEIGHT - rt->weight) / call->n_outputs ||
        run->cost_ns > DTRI_MAX_WEIGHT - rt->graph.clock)
        return dtri_fail(error, DTR_E_LIMIT, 0, "a cost of %lld ns is out of range",
                         (long long)run->cost_ns);
    return check_takes(rt, call, run, error);
}

/* The bytes of each input that an output took, and its reference. */
static void take_inputs(dtr_runtime *rt, const struct dtri_op *o, const dtr_host_run *run)
{
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        int input = taken_by(run, (int)i);
        rt->data[i] = run->data ? run->data[i] : NULL;
        if (input < 0)
            continue;
        struct dtri_tensor *t = &rt->tensors[dtri_op_inputs(rt, o)[input]];
        void *data = dtri_take_bytes(rt, t->storage);
        if (!rt->data[i])
            rt->data[i] = data;
        t->refs--;
        dtri_storage_at(rt, t->storage)->refs--;
        if (rt->recording)
            dtri_emit_reference(rt, t, -1);
    }
}

static void emit_run(dtr_runtime *rt, const struct dtri_op *o, const dtr_host_run *run,
                     int64_t in_use)
{
    dtr_event event = {.kind = DTR_EVENT_OPERATOR_RUN};
    event.u.operator_run_ = (dtr_event_operator_run){
        .execution = rt->next_run_id++,
        .op = o->id,
        .name = o->name,
        .dur_ns = run->dur_ns,
        .cost_ns = o->cost,
        .target = rt->tensors[dtri_op_outputs(rt, o)[0]].id,
        .cause = DTR_NONE,
        .chain = DTR_NONE,
        .in_use = in_use,
    };
    dtri_emit(rt, &event, dtri_has_host_time(rt) ? run->begin_ns : dtri_event_time(rt));
}

static void emit_signature(dtr_runtime *rt, const struct dtri_op *o, int64_t signature)
{
    dtr_event event = {.kind = DTR_EVENT_SIGNATURE};
    event.u.signature_ = (dtr_event_signature){o->id, signature};
    dtri_emit(rt, &event, dtri_event_time(rt));
}

static void count_run(dtr_runtime *rt, const struct dtri_op *o, int64_t in_use)
{
    rt->graph.clock += o->cost;
    rt->stats.model_compute_ns += o->cost;
    rt->stats.operator_runs++;
    if (in_use > rt->stats.peak_bytes)
        rt->stats.peak_bytes = in_use;
}

/* The outputs are there. */
static void define_outputs(dtr_runtime *rt, struct dtri_op *o)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    o->ran = true;
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        uint32_t storage = rt->tensors[outputs[i]].storage;
        dtri_become_resident(rt, storage, rt->data[i]);
        rt->tensors[outputs[i]].defined = true;
        dtri_storage_at(rt, storage)->last_access = rt->graph.clock;
        dtri_settle(rt, storage);
    }
}

static void release_inputs(dtr_runtime *rt, uint32_t op, const dtr_call *call)
{
    const struct dtri_op *o = &rt->ops[op];
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        uint32_t storage = rt->tensors[dtri_op_inputs(rt, o)[i]].storage;
        if (dtri_storage_at(rt, storage)->locks)
            dtri_unlock(rt, storage);
    }
    if (rt->deallocation == DTR_DEALLOCATE_BANISH)
        dtri_banish_inputs(rt, op);
    for (int i = 0; i < call->n_inputs; i++) {
        uint32_t slot = dtri_slot_of(rt, call->inputs[i]);
        if (!slot)
            continue;
        const struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[slot].storage);
        if (!s->refs && !s->locks)
            dtri_deallocate(rt, rt->tensors[slot].storage);
    }
}

static void outputs_to_constants(dtr_runtime *rt, const dtr_call *call, const dtr_tensor *outputs)
{
    for (int i = 0; i < call->n_outputs; i++) {
        uint32_t slot = (uint32_t)outputs[i];
        dtri_become_constant(rt, slot);
        if (rt->recording)
            dtri_emit_pin(rt, &rt->tensors[slot], 2);
    }
}

/* How much an operator would make was not known: it may have run above the budget.  A search for
 * victims that fails otherwise than for want of victims is left to the next dtr_hold, since all is
 * registered by now. */
static dtr_status settle_budget(dtr_runtime *rt, int64_t in_use, uint32_t op, dtr_error *error)
{
    if (rt->budget == DTR_NONE || in_use <= rt->budget)
        return DTR_OK;
    dtri_overshoot(rt, in_use - rt->stats.in_use_bytes, op);
    dtr_status status = make_room(rt, 0, error);
    return status == DTR_E_OUT_OF_MEMORY ? status : DTR_OK;
}

dtr_status dtr_adopt(dtr_runtime *rt, const dtr_call *call, const dtr_host_run *run,
                     dtr_tensor *out_tensors, dtr_error *error)
{
    dtri_time_passed(rt);
    dtr_call unpriced = *call;
    unpriced.cost_ns = DTR_NONE; /* the outputs are no candidates before it is set */
    dtr_status status = check_adoption(rt, &unpriced, run, error);
    if (status == DTR_OK && !reserve(rt, (size_t)call->n_inputs, (size_t)call->n_outputs))
        status = dtri_fail_nomem(error, "an operator");
    if (status != DTR_OK) {
        if (call->payload_free)
            call->payload_free(call->payload);
        return status;
    }
    uint32_t op = dtri_register_op(rt, &unpriced, false);
    struct dtri_op *o = &rt->ops[op];
    if (rt->recording && run->signature != DTR_NONE)
        emit_signature(rt, o, run->signature);
    dtri_time_passed(rt);
    take_inputs(rt, o, run);
    dtri_set_cost(rt, o, run->cost_ns);
    int64_t in_use = rt->stats.in_use_bytes;
    for (int i = 0; i < call->n_outputs; i++)
        in_use += call->outputs[i].bytes;
    count_run(rt, o, in_use);
    if (rt->recording)
        emit_run(rt, o, run, in_use);
    define_outputs(rt, o);
    for (int i = 0; i < call->n_outputs; i++)
        out_tensors[i] = dtri_handle_of(rt, dtri_op_outputs(rt, o)[i]);
    release_inputs(rt, op, call);
    if (run->constant)
        outputs_to_constants(rt, call, out_tensors);
    status = settle_budget(rt, in_use, run->constant ? DTRI_NONE : op, error);
    dtri_self_check(rt);
    return status;
}

dtr_status dtr_adopt_constant(dtr_runtime *rt, int64_t bytes, void *data, dtr_tensor *out_tensor,
                              dtr_error *error)
{
    dtri_time_passed(rt);
    dtr_call call = {
        .name = DTR_NONE,
        .cost_ns = 0,
        .n_outputs = 1,
        .outputs = &(dtr_output){.bytes = bytes, .view_of = -1},
    };
    dtr_status status = dtri_check_call(rt, &call, error);
    if (status == DTR_OK && !dtri_reserve(rt, 0, 1))
        status = dtri_fail_nomem(error, "a constant");
    if (status != DTR_OK)
        return status;
    while (rt->budget != DTR_NONE && rt->graph.n_pool &&
           rt->budget - rt->stats.in_use_bytes < bytes)
        if ((status = dtri_evict_one(rt, bytes, DTRI_NONE, error)) != DTR_OK)
            return status;
    uint32_t op = dtri_register_op(rt, &call, true);
    uint32_t tensor = dtri_op_outputs(rt, &rt->ops[op])[0], storage = rt->tensors[tensor].storage;
    rt->ops[op].ran = true;
    dtri_become_resident(rt, storage, data);
    rt->tensors[tensor].defined = true;
    dtri_pin_for_ever(rt, storage);
    dtri_storage_at(rt, storage)->constant = true;
    dtri_storage_at(rt, storage)->last_access = rt->graph.clock;
    rt->stats.constant_bytes += bytes;
    if (rt->stats.in_use_bytes > rt->stats.peak_bytes)
        rt->stats.peak_bytes = rt->stats.in_use_bytes;
    if (rt->budget != DTR_NONE && rt->stats.in_use_bytes > rt->budget)
        rt->above_budget = true;
    *out_tensor = dtri_handle_of(rt, tensor);
    dtri_self_check(rt);
    return DTR_OK;
}

int64_t dtr_dependents(dtr_runtime *rt, dtr_tensor tensor)
{
    uint32_t slot = dtri_slot_of(rt, tensor);
    return slot ? rt->tensors[slot].consumers : 0;
}

/* --- barriers --------------------------------------------------------------------------------- */

/* A tensor that the program holds and that is no constant yet. */
static bool is_open(const dtr_runtime *rt, uint32_t tensor)
{
    const struct dtri_tensor *t = &rt->tensors[tensor];
    const struct dtri_storage *s = &rt->graph.storages[t->storage];
    return t->alive && t->refs && !s->constant &&
           (s->state == DTRI_RESIDENT || s->state == DTRI_EVICTED);
}

static dtr_status close_tensor(dtr_runtime *rt, uint32_t tensor, int64_t cause, dtr_error *error)
{
    if (!rt->tensors[tensor].defined) {
        dtr_status status = dtri_materialize(rt, tensor, error);
        if (status != DTR_OK)
            return status;
    }
    if (!dtri_reserve(rt, rt->ops[rt->tensors[tensor].op].n_inputs, 1))
        return dtri_fail_nomem(error, "a constant");
    dtri_become_constant(rt, tensor);
    dtri_storage_at(rt, rt->tensors[tensor].storage)->cause = (int32_t)cause;
    if (rt->recording)
        dtri_emit_pin(rt, &rt->tensors[tensor], 2);
    return DTR_OK;
}

/* What is there first, so that bringing back the rest cannot evict it; then the rest from old to
 * new, so that each finds its ancestors closed. */
static dtr_status close_all(dtr_runtime *rt, int64_t cause, int64_t *out_n, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (uint32_t t = 1; t < rt->n_tensors && status == DTR_OK; t++)
        if (is_open(rt, t) && rt->tensors[t].defined) {
            status = close_tensor(rt, t, cause, error);
            ++*out_n;
        }
    while (status == DTR_OK) {
        uint32_t oldest = DTRI_NONE;
        for (uint32_t t = 1; t < rt->n_tensors; t++)
            if (is_open(rt, t) && (!oldest || rt->tensors[t].id < rt->tensors[oldest].id))
                oldest = t;
        if (!oldest)
            break;
        status = close_tensor(rt, oldest, cause, error);
        ++*out_n;
    }
    return status;
}

/* What a replay left behind, although nobody refers to it. */
static void drop_unreferenced(dtr_runtime *rt)
{
    for (uint32_t slot = 1; slot < rt->graph.n_storages; slot++) {
        const struct dtri_storage *s = dtri_storage_at(rt, slot);
        if (s->state != DTRI_RESIDENT || s->refs || s->locks || s->pinned)
            continue;
        uint32_t maker = rt->tensors[s->tensors].op;
        dtri_evict(rt, slot, DTR_EVICTED_EAGERLY, DTR_NONE);
        if (rt->reclaim)
            dtri_reclaim(rt, maker);
    }
}

static bool has_views(const dtr_runtime *rt)
{
    for (uint32_t t = 1; t < rt->n_tensors; t++)
        if (is_open(rt, t) &&
            (rt->tensors[t].next || rt->graph.storages[rt->tensors[t].storage].tensors != t))
            return true;
    return false;
}

/* Bytes of storages that cannot be evicted. */
static int64_t held_bytes(const dtr_runtime *rt)
{
    int64_t bytes = 0;
    for (uint32_t i = 1; i < rt->graph.n_storages; i++) {
        const struct dtri_storage *s = &rt->graph.storages[i];
        if (s->state == DTRI_RESIDENT && (s->constant || s->pinned || s->locks))
            bytes += s->bytes;
    }
    return bytes;
}

/* Bytes that a barrier makes constant. */
static int64_t open_bytes(const dtr_runtime *rt)
{
    int64_t bytes = 0;
    for (uint32_t t = 1; t < rt->n_tensors; t++)
        if (is_open(rt, t))
            bytes += rt->graph.storages[rt->tensors[t].storage].bytes;
    return bytes;
}

/* What a barrier suspends, and what it tells. */
struct barrier {
    int64_t begin_ns, tensors, replays, remat_limit, remat_ratio;
    bool allow_overshoot;
};

/* `stay`: bytes that become constant. */
static void barrier_begin(dtr_runtime *rt, struct barrier *b, int64_t stay)
{
    *b = (struct barrier){
        .begin_ns = rt->recording ? dtri_now(rt) : 0,
        .replays = rt->stats.rematerializations,
        .remat_limit = rt->remat_limit,
        .remat_ratio = rt->remat_ratio,
        .allow_overshoot = rt->allow_overshoot,
    };
    rt->allow_overshoot = true;
    rt->remat_limit = rt->remat_ratio = DTR_NONE;
    rt->relax_at = b->replays + (int64_t)rt->n_ops + 100;
    rt->relax_bytes = held_bytes(rt) + stay;
    if (rt->relax_bytes < rt->budget)
        rt->relax_bytes = rt->budget;
}

static void barrier_end(dtr_runtime *rt, const struct barrier *b, int64_t cause)
{
    rt->relax_at = DTR_NONE;
    rt->allow_overshoot = b->allow_overshoot;
    rt->remat_limit = b->remat_limit;
    rt->remat_ratio = b->remat_ratio;
    rt->stats.barriers++;
    dtri_time_passed(rt);
    if (rt->recording) {
        dtr_event event = {.kind = DTR_EVENT_BARRIER};
        event.u.barrier_ = (dtr_event_barrier){
            .name = cause,
            .tensors = b->tensors,
            .replays = rt->stats.rematerializations - b->replays,
            .dur_ns = dtri_now(rt) - b->begin_ns,
        };
        dtri_emit(rt, &event, b->begin_ns);
    }
    dtri_self_check(rt);
}

dtr_status dtr_barrier(dtr_runtime *rt, int64_t cause, dtr_error *error)
{
    struct barrier b;
    dtri_time_passed(rt);
    if (has_views(rt))
        return dtri_fail(error, DTR_E_STATE, 0,
                         "a storage has views; a barrier is for hosts that keep their own");
    barrier_begin(rt, &b, open_bytes(rt));
    dtr_status status = close_all(rt, cause, &b.tensors, error);
    drop_unreferenced(rt);
    barrier_end(rt, &b, cause);
    return status;
}

/* --- isolating one constant ------------------------------------------------------------------- */

static bool takes(const dtr_runtime *rt, uint32_t op, uint32_t tensor)
{
    const struct dtri_op *o = &rt->ops[op];
    for (uint32_t i = 0; o->alive && i < o->n_inputs; i++)
        if (rt->links[o->links + i] == tensor)
            return true;
    return false;
}

/* Something may ask for it, and it is no constant yet. */
static bool is_wanted(const dtr_runtime *rt, uint32_t tensor)
{
    const struct dtri_tensor *t = &rt->tensors[tensor];
    return (t->refs || t->consumers) && !rt->graph.storages[t->storage].constant;
}

/* Bytes that would become constant: in a barrier, and when only `tensor` is isolated. */
static void compare(dtr_runtime *rt, uint32_t tensor, int64_t *out_all, int64_t *out_direct)
{
    *out_all = open_bytes(rt);
    *out_direct = 0;
    for (uint32_t op = 1; op < rt->n_ops; op++) {
        if (!takes(rt, op, tensor))
            continue;
        const struct dtri_op *o = &rt->ops[op];
        for (uint32_t i = 0; i < o->n_outputs; i++)
            if (is_wanted(rt, dtri_op_outputs(rt, o)[i]))
                *out_direct +=
                    dtri_storage_at(rt, rt->tensors[dtri_op_outputs(rt, o)[i]].storage)->bytes;
    }
}

static bool is_same(const dtr_runtime *rt, uint32_t op, int64_t id)
{
    return rt->ops[op].alive && rt->ops[op].id == id;
}

/* Closes what is wanted of an operator, then gives back what nobody wants, also what its replays
 * have brought along, so that it can be forgotten. */
static dtr_status close_operator(dtr_runtime *rt, uint32_t op, int64_t cause, int64_t *out_n,
                                 dtr_error *error)
{
    const int64_t id = rt->ops[op].id;
    const uint32_t n = rt->ops[op].n_outputs;
    for (uint32_t i = 0; i < n && is_same(rt, op, id); i++) {
        uint32_t t = dtri_op_outputs(rt, &rt->ops[op])[i];
        if (!is_wanted(rt, t))
            continue;
        dtr_status status = close_tensor(rt, t, cause, error);
        if (status != DTR_OK)
            return status;
        ++*out_n;
    }
    for (uint32_t i = 0; i < n && is_same(rt, op, id); i++) {
        uint32_t storage = rt->tensors[dtri_op_outputs(rt, &rt->ops[op])[i]].storage;
        const struct dtri_storage *s = dtri_storage_at(rt, storage);
        if (s->state == DTRI_RESIDENT && !s->locks && !s->pinned)
            dtri_evict(rt, storage, DTR_EVICTED_EAGERLY, DTR_NONE);
    }
    if (rt->reclaim && is_same(rt, op, id))
        dtri_reclaim(rt, op);
    return DTR_OK;
}

dtr_status dtr_isolate(dtr_runtime *rt, dtr_tensor tensor, int64_t cause, dtr_error *error)
{
    struct barrier b;
    int64_t all, direct;
    dtr_status status = DTR_OK;
    uint32_t slot = dtri_slot_of(rt, tensor);
    dtri_time_passed(rt);
    if (!slot)
        return dtri_no_such_tensor(error);
    if (!dtri_storage_at(rt, rt->tensors[slot].storage)->constant)
        return dtri_fail(error, DTR_E_STATE, 0, "tensor %lld is no constant",
                         (long long)rt->tensors[slot].id);
    if (!rt->tensors[slot].consumers)
        return DTR_OK;
    compare(rt, slot, &all, &direct);
    if (all < direct)
        return dtr_barrier(rt, cause, error);
    barrier_begin(rt, &b, direct);
    for (uint32_t op = 1; op < rt->n_ops && status == DTR_OK; op++)
        if (takes(rt, op, slot))
            status = close_operator(rt, op, cause, &b.tensors, error);
    barrier_end(rt, &b, cause);
    return status;
}

int64_t dtr_isolation_bytes(dtr_runtime *rt, dtr_tensor tensor)
{
    uint32_t slot = dtri_slot_of(rt, tensor);
    int64_t all, direct;
    if (!slot || !rt->tensors[slot].consumers)
        return 0;
    compare(rt, slot, &all, &direct);
    return all < direct ? all : direct;
}

int64_t dtr_evict_all(dtr_runtime *rt)
{
    int64_t n = 0;
    dtri_time_passed(rt);
    while (rt->graph.n_pool) {
        uint32_t victim = rt->graph.pool_first;
        uint32_t maker = rt->tensors[dtri_storage_at(rt, victim)->tensors].op;
        bool unreferenced = !dtri_storage_at(rt, victim)->refs;
        dtri_evict(rt, victim, DTR_EVICTED_BY_REQUEST, DTR_NONE);
        if (rt->reclaim && unreferenced)
            dtri_reclaim(rt, maker);
        n++;
    }
    dtri_self_check(rt);
    return n;
}

void dtr_set_cause(dtr_runtime *rt, dtr_tensor tensor, int64_t cause)
{
    uint32_t slot = dtri_slot_of(rt, tensor);
    if (slot)
        dtri_storage_at(rt, rt->tensors[slot].storage)->cause = (int32_t)cause;
}

/* --- what only a host knows ------------------------------------------------------------------- */

void dtr_hazard_emit(dtr_runtime *rt, dtr_tensor tensor, int64_t cause)
{
    uint32_t slot = dtri_slot_of(rt, tensor);
    rt->stats.hazards++;
    if (!rt->recording)
        return;
    dtri_time_passed(rt);
    dtr_event event = {.kind = DTR_EVENT_HAZARD};
    event.u.hazard_ = (dtr_event_hazard){slot ? rt->tensors[slot].id : DTR_NONE, cause};
    dtri_emit(rt, &event, dtri_event_time(rt));
}

void dtr_allocator_emit(dtr_runtime *rt)
{
    int64_t in_use, peak;
    if (!rt->recording || !rt->backend.memory)
        return;
    rt->backend.memory(rt->backend.self, &in_use, &peak);
    dtri_time_passed(rt);
    dtr_event event = {.kind = DTR_EVENT_ALLOCATOR};
    event.u.allocator_ = (dtr_event_allocator){in_use, peak, rt->stats.in_use_bytes};
    dtri_emit(rt, &event, dtri_event_time(rt));
}
