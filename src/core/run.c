/* Running operators: fetching what is missing, executing, settling.
 *
 * The order of the steps is that of the published simulator (Kirisame et al., ICLR 2021, C.4 and
 * the authors' simrd), because decisions depend on it: access times of all inputs first; then locks
 * on the inputs that are there; then, in input order, what is missing, by the same steps; then
 * space; then the run; then the outputs enter the pool, siblings before the one asked for; then the
 * locks go, in input order.
 *
 * Recursion is a stack of frames on the heap.  The graph is acyclic (an operator's inputs exist
 * before it), so the stack is at most as deep as the graph. */
#include "core/core.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* No verdict of thrashing before so much is lost. */
#define GRACE_NS INT64_C(10000000000)

static bool owns_bytes(dtr_runtime *rt, uint32_t tensor)
{
    return dtri_storage_at(rt, rt->tensors[tensor].storage)->tensors == tensor;
}

/* --- frames ----------------------------------------------------------------------------------- */

static dtr_status push(dtr_runtime *rt, uint32_t target, dtr_error *error)
{
    uint32_t op = rt->tensors[target].op;
    const struct dtri_op *o = &rt->ops[op];
    assert(dtri_storage_at(rt, rt->tensors[target].storage)->state != DTRI_BANISHED);
    if (!DTRI_RESERVE(rt->frames, rt->cap_frames, rt->n_frames + 1) ||
        !DTRI_RESERVE(rt->pending, rt->cap_pending, rt->n_pending + o->n_inputs))
        return dtri_fail_nomem(error, "the stack of replays");
    struct dtri_frame *frame = &rt->frames[rt->n_frames++];
    *frame = (struct dtri_frame){
        .op = op,
        .target = target,
        .pending_begin = (uint32_t)rt->n_pending,
        .pending_next = (uint32_t)rt->n_pending,
    };
    const uint32_t *inputs = dtri_op_inputs(rt, o);
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        const struct dtri_tensor *t = &rt->tensors[inputs[i]];
        dtri_storage_at(rt, t->storage)->last_access = rt->graph.clock;
        if (t->defined)
            dtri_lock(rt, t->storage);
        else
            rt->pending[rt->n_pending++] = i;
    }
    frame->pending_end = (uint32_t)rt->n_pending;
    return DTR_OK;
}

static void pop(dtr_runtime *rt)
{
    rt->n_pending = rt->frames[--rt->n_frames].pending_begin;
}

/* Drops the locks of the top frame when it fails half-way: those of inputs not pending any more. */
static void unlock_partly(dtr_runtime *rt)
{
    const struct dtri_frame *frame = &rt->frames[rt->n_frames - 1];
    const struct dtri_op *o = &rt->ops[frame->op];
    const uint32_t *inputs = dtri_op_inputs(rt, o);
    uint32_t next = frame->pending_next;
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        if (next < frame->pending_end && rt->pending[next] == i)
            next++;
        else
            dtri_unlock(rt, rt->tensors[inputs[i]].storage);
    }
}

static void unwind(dtr_runtime *rt, size_t base)
{
    while (rt->n_frames > base) {
        unlock_partly(rt);
        pop(rt);
    }
    rt->chain.id = DTR_NONE;
}

/* --- chains ----------------------------------------------------------------------------------- */

static void chain_begin(dtr_runtime *rt, uint32_t target)
{
    rt->chain = (struct dtri_chain){
        .id = rt->next_chain_id++,
        .begin_ns = rt->recording ? dtri_event_time(rt) : 0,
        .target = target,
        .base = rt->n_frames,
    };
}

static int64_t cause_of(const dtr_runtime *rt, size_t frame)
{
    return frame > 0 ? rt->ops[rt->frames[frame - 1].op].id : DTR_NONE;
}

static void chain_end(dtr_runtime *rt)
{
    if (rt->recording) {
        dtr_event event = {.kind = DTR_EVENT_CHAIN};
        event.u.chain_ = (dtr_event_chain){
            .chain = rt->chain.id,
            .tensor = rt->tensors[rt->chain.target].id,
            .dur_ns = dtri_event_time(rt) - rt->chain.begin_ns,
            .runs = rt->chain.runs,
            .cost_ns = rt->chain.cost,
            .max_depth = rt->chain.max_depth,
            .cause = cause_of(rt, rt->chain.base),
        };
        dtri_emit(rt, &event, rt->chain.begin_ns);
    }
    rt->chain.id = DTR_NONE;
}

/* --- executing one operator ------------------------------------------------------------------- */

/* Bytes that a run adds for a while: all outputs that own bytes, also those still resident. */
static int64_t bytes_needed(dtr_runtime *rt, const struct dtri_op *o)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < o->n_outputs; i++)
        if (owns_bytes(rt, outputs[i]))
            bytes += dtri_storage_at(rt, rt->tensors[outputs[i]].storage)->bytes;
    return bytes;
}

/* One block from the backend; when the device is full before the budget is, evicts and tries again.
 */
static dtr_status allocate(dtr_runtime *rt, uint32_t op, int64_t bytes, void **out_data,
                           dtr_error *error)
{
    for (;;) {
        dtr_status status = rt->backend.alloc(rt->backend.self, bytes, out_data, error);
        if (status != DTR_E_NOMEM || rt->graph.n_pool == 0)
            return status;
        status = dtri_evict_one(rt, bytes, op, error);
        if (status != DTR_OK)
            return status;
    }
}

static void free_blocks(dtr_runtime *rt, const struct dtri_op *o, void **blocks, uint32_t n,
                        bool only_scratch)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    for (uint32_t i = 0; i < n; i++) {
        if (!owns_bytes(rt, outputs[i]))
            continue;
        struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[outputs[i]].storage);
        if (rt->backend.free && (!only_scratch || s->data != blocks[i]))
            rt->backend.free(rt->backend.self, blocks[i], s->bytes);
    }
}

/* Fills rt->data with the pointers that the backend gets.  A view's pointer is that of the storage
 * it lives on, which is resident because an input on it is locked. */
static dtr_status gather_data(dtr_runtime *rt, uint32_t op, dtr_error *error)
{
    const struct dtri_op *o = &rt->ops[op];
    const uint32_t *inputs = dtri_op_inputs(rt, o), *outputs = dtri_op_outputs(rt, o);
    void **blocks = rt->data + o->n_inputs;
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[outputs[i]].storage);
        blocks[i] = s->data;
        if (!owns_bytes(rt, outputs[i]))
            continue;
        dtr_status status = allocate(rt, op, s->bytes, &blocks[i], error);
        if (status != DTR_OK) {
            free_blocks(rt, o, blocks, i, false);
            return status;
        }
    }
    for (uint32_t i = 0; i < o->n_inputs; i++)
        rt->data[i] = dtri_storage_at(rt, rt->tensors[inputs[i]].storage)->data;
    return DTR_OK;
}

static dtr_status call_backend(dtr_runtime *rt, uint32_t op, int64_t *out_cost, dtr_error *error)
{
    struct dtri_op *o = &rt->ops[op];
    bool with_data = rt->backend.alloc != NULL;
    dtr_status status = with_data ? gather_data(rt, op, error) : DTR_OK;
    if (status != DTR_OK)
        return status;
    if (o->constant) {
        *out_cost = 0;
        return DTR_OK;
    }
    dtr_op_call call = {
        .op = o->id,
        .name = o->name,
        .payload = o->payload,
        .cost_ns = o->cost,
        .replay = o->ran,
        .n_inputs = (int)o->n_inputs,
        .n_outputs = (int)o->n_outputs,
        .inputs = with_data ? rt->data : NULL,
        .outputs = with_data ? rt->data + o->n_inputs : NULL,
    };
    status = rt->backend.run(rt->backend.self, &call, out_cost, error);
    if (status == DTR_OK && *out_cost < 0)
        status = dtri_fail(error, DTR_E_BACKEND, 0, "the backend gave operator %lld a cost below 0",
                           (long long)o->id);
    if (status != DTR_OK && with_data)
        free_blocks(rt, o, rt->data + o->n_inputs, o->n_outputs, false);
    return status;
}

/* The clock would run over. */
static dtr_status give_up_run(dtr_runtime *rt, const struct dtri_op *o, int64_t cost,
                              dtr_error *error)
{
    if (rt->backend.alloc)
        free_blocks(rt, o, rt->data + o->n_inputs, o->n_outputs, false);
    return dtri_fail(error, DTR_E_LIMIT, 0,
                     "a run of %lld ns takes the clock, %lld, out of its range", (long long)cost,
                     (long long)rt->graph.clock);
}

static void count_run(dtr_runtime *rt, const struct dtri_op *o, int64_t peak)
{
    dtr_stats *stats = &rt->stats;
    rt->graph.clock += o->cost;
    if (peak > stats->peak_bytes)
        stats->peak_bytes = peak;
    if (o->ran) {
        stats->remat_compute_ns += o->cost;
        stats->rematerializations++;
    } else {
        stats->model_compute_ns += o->cost;
    }
    if (!o->constant)
        stats->operator_runs++;
    if (rt->chain.id != DTR_NONE) {
        int64_t depth = (int64_t)(rt->n_frames - 1 - rt->chain.base);
        rt->chain.runs++;
        rt->chain.cost += o->cost;
        if (depth > rt->chain.max_depth)
            rt->chain.max_depth = depth;
    }
}

static void emit_run(dtr_runtime *rt, const struct dtri_frame *frame, int64_t begin_ns,
                     int64_t in_use)
{
    const struct dtri_op *o = &rt->ops[frame->op];
    size_t index = rt->n_frames - 1;
    bool in_chain = rt->chain.id != DTR_NONE;
    dtr_event event = {.kind = DTR_EVENT_OPERATOR_RUN};
    event.u.operator_run_ = (dtr_event_operator_run){
        .execution = rt->next_run_id++,
        .op = o->id,
        .name = o->name,
        .dur_ns = dtri_now(rt) - begin_ns,
        .cost_ns = o->cost,
        .replay = o->ran,
        .target = rt->tensors[frame->target].id,
        .depth = in_chain ? (int64_t)(index - rt->chain.base) : 0,
        .cause = cause_of(rt, index),
        .chain = rt->chain.id,
        .in_use = in_use,
    };
    dtri_emit(rt, &event, begin_ns);
}

static void define(dtr_runtime *rt, uint32_t tensor, void *data)
{
    struct dtri_tensor *t = &rt->tensors[tensor];
    enum dtri_state state = dtri_storage_at(rt, t->storage)->state;
    if (t->defined || state == DTRI_BANISHED) /* replayed for a sibling: scratch again */
        return;
    t->defined = true;
    if (state == DTRI_RESIDENT)
        return;
    dtri_become_resident(rt, t->storage, data);
    dtri_settle(rt, t->storage);
}

/* The outputs are there: siblings in order, then the one that was asked for. */
static void define_outputs(dtr_runtime *rt, const struct dtri_op *o, uint32_t target)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    void **blocks = rt->backend.alloc ? rt->data + o->n_inputs : NULL;
    uint32_t own = rt->tensors[target].output;
    for (uint32_t i = 0; i < o->n_outputs; i++)
        if (i != own)
            define(rt, outputs[i], blocks ? blocks[i] : NULL);
    define(rt, target, blocks ? blocks[own] : NULL);
    if (blocks)
        free_blocks(rt, o, blocks, o->n_outputs, true);
}

static void finish_first_run(dtr_runtime *rt, struct dtri_op *o)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    o->ran = true;
    for (uint32_t i = 0; i < o->n_outputs; i++)
        dtri_storage_at(rt, rt->tensors[outputs[i]].storage)->last_access = rt->graph.clock;
}

static dtr_status check_limits(const dtr_runtime *rt, dtr_error *error)
{
    const int64_t again = rt->stats.remat_compute_ns, first = rt->stats.model_compute_ns;
    if (rt->remat_limit != DTR_NONE && again > rt->remat_limit)
        return dtri_fail(error, DTR_E_THRASHED, 0,
                         "replays have cost %lld ns, more than the limit of %lld; raise the budget "
                         "or try another heuristic",
                         (long long)again, (long long)rt->remat_limit);
    if (rt->remat_ratio != DTR_NONE && again > GRACE_NS && again / rt->remat_ratio > first)
        return dtri_fail(error, DTR_E_THRASHED, 0,
                         "replays have cost %lld ms, first runs %lld ms, and the limit is %lld "
                         "times as much; raise the budget or try another heuristic",
                         (long long)(again / 1000000), (long long)(first / 1000000),
                         (long long)rt->remat_ratio);
    return DTR_OK;
}

/* Runs the operator of the top frame, whose inputs are all locked. */
static dtr_status execute(dtr_runtime *rt, dtr_error *error)
{
    const struct dtri_frame frame = rt->frames[rt->n_frames - 1];
    struct dtri_op *o = &rt->ops[frame.op];
    int64_t needed = bytes_needed(rt, o), cost;
    dtr_status status = dtri_make_room(rt, needed, frame.op, error);
    if (status != DTR_OK)
        return status;
    int64_t begin_ns = rt->recording ? dtri_now(rt) : 0;
    status = call_backend(rt, frame.op, &cost, error);
    dtri_time_passed(rt);
    if (status != DTR_OK)
        return status;
    if (cost > DTRI_MAX_WEIGHT - rt->graph.clock ||
        (o->cost == DTR_NONE && cost > (DTRI_MAX_WEIGHT - rt->weight) / o->n_outputs))
        return give_up_run(rt, o, cost, error);
    if (o->cost == DTR_NONE)
        dtri_set_cost(rt, o, cost);
    int64_t in_use = rt->stats.in_use_bytes + needed;
    count_run(rt, o, in_use);
    if (rt->recording && !o->constant)
        emit_run(rt, &frame, begin_ns, in_use);
    define_outputs(rt, o, frame.target);
    if (!o->ran)
        finish_first_run(rt, o);
    const uint32_t *inputs = dtri_op_inputs(rt, o);
    for (uint32_t i = 0; i < o->n_inputs; i++)
        dtri_unlock(rt, rt->tensors[inputs[i]].storage);
    if (rt->deallocation == DTR_DEALLOCATE_BANISH)
        dtri_banish_inputs(rt, frame.op);
    pop(rt);
    return check_limits(rt, error);
}

/* Locks the next inputs of the top frame; true when one is missing and its frame was pushed. */
static dtr_status fetch(dtr_runtime *rt, bool *out_pushed, dtr_error *error)
{
    *out_pushed = false;
    struct dtri_frame *frame = &rt->frames[rt->n_frames - 1];
    const struct dtri_op *o = &rt->ops[frame->op];
    for (; frame->pending_next < frame->pending_end; frame->pending_next++) {
        uint32_t input = dtri_op_inputs(rt, o)[rt->pending[frame->pending_next]];
        if (!rt->tensors[input].defined) {
            if (rt->chain.id == DTR_NONE)
                chain_begin(rt, input);
            *out_pushed = true;
            return push(rt, input, error);
        }
        dtri_lock(rt, rt->tensors[input].storage);
    }
    return DTR_OK;
}

dtr_status dtri_materialize(dtr_runtime *rt, uint32_t target, dtr_error *error)
{
    const size_t base = rt->n_frames;
    assert(base == 0 && rt->chain.id == DTR_NONE);
    if (rt->ops[rt->tensors[target].op].ran)
        chain_begin(rt, target);
    dtr_status status = push(rt, target, error);
    while (status == DTR_OK && rt->n_frames > base) {
        bool pushed;
        status = fetch(rt, &pushed, error);
        if (status != DTR_OK || pushed)
            continue;
        status = execute(rt, error);
        if (rt->chain.id != DTR_NONE && rt->n_frames == rt->chain.base)
            chain_end(rt);
    }
    if (status != DTR_OK)
        unwind(rt, base);
    return status;
}
