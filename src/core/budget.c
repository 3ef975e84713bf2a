/* Making room: the eviction loop.
 *
 * The budget is checked before an operator runs.  The loop ends because each turn either evicts one
 * storage of a finite pool or finds the pool empty, which is a result and not an error of ours. */
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

/* Inputs and outputs of one operator: what it needs if all else were evicted. */
static int64_t operator_bytes(dtr_runtime *rt, uint32_t op)
{
    if (!op)
        return 0;
    const struct dtri_op *o = &rt->ops[op];
    const uint32_t *inputs = dtri_op_inputs(rt, o);
    uint32_t mark = dtri_visit_begin(&rt->graph);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < o->n_inputs + o->n_outputs; i++) { /* outputs follow the inputs */
        struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[inputs[i]].storage);
        if (s->visit != mark)
            bytes += s->bytes;
        s->visit = mark;
    }
    return bytes;
}

/* The id that events may name: making room for a constant has no operator. */
static int64_t announced(const dtr_runtime *rt, uint32_t op)
{
    return op && !rt->ops[op].constant ? rt->ops[op].id : DTR_NONE;
}

void dtri_emit_out_of_memory(dtr_runtime *rt, uint32_t op, int64_t needed, bool overshoot)
{
    dtr_event event = {.kind = DTR_EVENT_OUT_OF_MEMORY};
    event.u.out_of_memory_ = (dtr_event_out_of_memory){
        .op = announced(rt, op),
        .needed = needed,
        .in_use = rt->stats.in_use_bytes,
        .budget = rt->budget,
        .operator_bytes = operator_bytes(rt, op),
        .overshoot = overshoot,
    };
    dtri_emit(rt, &event, dtri_event_time(rt));
}

dtr_status dtri_out_of_memory(dtr_runtime *rt, uint32_t op, int64_t needed, dtr_error *error)
{
    const char *name = needed ? "an operator" : "the new budget";
    if (op)
        name = rt->ops[op].constant    ? "a constant"
               : rt->ops[op].name >= 0 ? rt->names.texts[rt->ops[op].name]
                                       : "an operator";
    if (rt->recording)
        dtri_emit_out_of_memory(rt, op, needed, false);
    int64_t alone = operator_bytes(rt, op);
    if (alone > rt->budget)
        return dtri_fail(error, DTR_E_OUT_OF_MEMORY, 0,
                         "%s does not fit: its inputs and outputs alone are %lld bytes and the "
                         "budget is %lld; raise the budget",
                         name, (long long)alone, (long long)rt->budget);
    char held[256];
    dtri_describe_held(rt, held, sizeof held);
    return dtri_fail(error, DTR_E_OUT_OF_MEMORY, 0,
                     "%s needs %lld bytes, %lld of the budget of %lld are in use, and nothing is "
                     "left to evict%s; raise the budget or try another heuristic",
                     name, (long long)needed, (long long)rt->stats.in_use_bytes,
                     (long long)rt->budget, held);
}

/* --- what holds the memory -------------------------------------------------------------------- */

struct holding {
    int64_t bytes, n;
    int32_t cause;
};

enum { MAX_HOLDINGS = 32, LOCKED = -2 };

static void count_holding(struct holding *h, size_t *n, int32_t cause, int64_t bytes)
{
    size_t i = 0;
    while (i < *n && h[i].cause != cause)
        i++;
    if (i == MAX_HOLDINGS)
        return;
    if (i == *n)
        h[(*n)++] = (struct holding){.cause = cause};
    h[i].bytes += bytes;
    h[i].n++;
}

static int more_bytes(const void *a, const void *b)
{
    const struct holding *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static const char *holding_name(const dtr_runtime *rt, int32_t cause)
{
    return cause == LOCKED ? "what running operators take"
           : cause >= 0    ? rt->names.texts[cause]
                           : "constants";
}

void dtri_describe_held(const dtr_runtime *rt, char *text, size_t size)
{
    struct holding h[MAX_HOLDINGS];
    size_t n = 0, at = 0;
    for (uint32_t i = 1; i < rt->graph.n_storages; i++) {
        const struct dtri_storage *s = &rt->graph.storages[i];
        if (s->state == DTRI_RESIDENT && s->bytes)
            count_holding(h, &n, s->constant || s->pinned ? s->cause : LOCKED, s->bytes);
    }
    qsort(h, n, sizeof *h, more_bytes);
    text[0] = '\0';
    for (size_t i = 0; i < n && i < 3 && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld in %.80s (%lld)", i ? ", " : ": ",
                               (long long)h[i].bytes, holding_name(rt, h[i].cause),
                               (long long)h[i].n);
}

/* --- exceeding the budget --------------------------------------------------------------------- */

/* A barrier that cannot keep the budget evicts all the same, down to what it will need at its end;
 * when replays become many, that grows. */
static bool within_relaxed(dtr_runtime *rt, int64_t needed)
{
    if (rt->relax_at == DTR_NONE)
        return false;
    while (rt->stats.rematerializations >= rt->relax_at) {
        rt->relax_at += (int64_t)rt->n_ops + 100;
        rt->relax_bytes += rt->relax_bytes / 8 + 1;
    }
    return needed <= rt->relax_bytes - rt->stats.in_use_bytes;
}

bool dtri_may_overshoot(dtr_runtime *rt, int64_t needed)
{
    return rt->allow_overshoot && (rt->graph.n_pool == 0 || within_relaxed(rt, needed));
}

void dtri_overshoot(dtr_runtime *rt, int64_t needed, uint32_t op)
{
    rt->stats.overshoots++;
    rt->above_budget = true;
    if (rt->recording)
        dtri_emit_out_of_memory(rt, op, needed, true);
}

static int64_t staleness(const dtr_runtime *rt, const struct dtri_storage *s)
{
    return s->last_access == DTRI_NEVER ? DTR_NONE : rt->graph.clock - s->last_access;
}

/* The decision and its candidates.  Called before the victim goes, so that all are still there. */
static int64_t emit_decision(dtr_runtime *rt, uint32_t victim, uint32_t op, int64_t needed,
                             int64_t evaluations, int64_t search_ns)
{
    int64_t decision = rt->next_decision_id++, now = dtri_event_time(rt);
    int n = rt->selector->ops->rank(rt->selector, victim, rt->ranked, rt->n_runners_up + 1);
    dtr_event event = {.kind = DTR_EVENT_DECISION};
    event.u.decision_ = (dtr_event_decision){
        .decision = decision,
        .storage = dtri_storage_at(rt, victim)->id,
        .op = announced(rt, op),
        .needed = needed,
        .in_use = rt->stats.in_use_bytes,
        .budget = rt->budget,
        .candidates = (int64_t)rt->graph.n_pool,
        .evaluations = evaluations,
        .tied = n > 1 && rt->ranked[1].score == rt->ranked[0].score,
        .search_ns = search_ns,
    };
    dtri_emit(rt, &event, now);
    for (int i = 0; i < n; i++) {
        const struct dtri_candidate *c = &rt->ranked[i];
        const struct dtri_storage *s = dtri_storage_at(rt, c->storage);
        event.kind = DTR_EVENT_CANDIDATE;
        event.u.candidate_ = (dtr_event_candidate){
            .decision = decision,
            .rank = i,
            .storage = s->id,
            .score = c->score,
            .cost_ns = c->cost,
            .local_cost_ns = s->local_cost,
            .bytes = s->bytes,
            .staleness_ns = staleness(rt, s),
            .neighbours = c->neighbours,
        };
        dtri_emit(rt, &event, now);
    }
    return decision;
}

dtr_status dtri_evict_one(dtr_runtime *rt, int64_t needed, uint32_t op, dtr_error *error)
{
    uint32_t victim;
    int64_t evaluations, begin = 0, search_ns = DTR_NONE;
    if (!rt->selector || rt->graph.n_pool == 0)
        return dtri_out_of_memory(rt, op, needed, error);
    bool timed = rt->recording && dtri_has_host_time(rt);
    if (timed)
        begin = dtri_now(rt);
    dtr_status status = rt->selector->ops->pick(rt->selector, &victim, &evaluations, error);
    if (status != DTR_OK)
        return status;
    if (timed) {
        search_ns = dtri_now(rt) - begin;
        rt->stats.search_ns += search_ns;
    }
    rt->stats.score_evaluations += evaluations;
    int64_t decision = DTR_NONE;
    if (rt->recording)
        decision = emit_decision(rt, victim, op, needed, evaluations, search_ns);
    if (timed)
        rt->stats.describe_ns += dtri_now(rt) - begin - search_ns;
    uint32_t maker = rt->tensors[dtri_storage_at(rt, victim)->tensors].op;
    bool unreferenced = !dtri_storage_at(rt, victim)->refs;
    dtri_evict(rt, victim, DTR_EVICTED_FOR_BUDGET, decision);
    if (rt->reclaim && unreferenced)
        dtri_reclaim(rt, maker);
    return DTR_OK;
}

dtr_status dtri_make_room(dtr_runtime *rt, int64_t needed, uint32_t op, dtr_error *error)
{
    if (rt->budget == DTR_NONE)
        return DTR_OK;
    while (rt->budget - rt->stats.in_use_bytes < needed) {
        if (op && dtri_may_overshoot(rt, needed)) {
            dtri_overshoot(rt, needed, op);
            return DTR_OK;
        }
        dtr_status status = dtri_evict_one(rt, needed, op, error);
        if (status != DTR_OK)
            return status;
    }
    rt->above_budget = false;
    return DTR_OK;
}
