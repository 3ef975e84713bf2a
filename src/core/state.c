/* Every change of a storage's state, and of what decides whether it is in the pool.
 *
 *     UNCOMPUTED --become_resident--> RESIDENT --evict--> EVICTED --become_resident--> RESIDENT
 *     RESIDENT --take_bytes--> EVICTED, the bytes stay where they are, for another storage
 *     any --free_for_good--> EVICTED, for the caller to drop
 *
 * A storage is evictable, and in the pool, iff it is resident, unlocked and not pinned.  The pool
 * keeps the order of entry (a list) and a dense array for sampling. */
#include "core/core.h"

#include <assert.h>

static void pool_enter(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_graph *g = &rt->graph;
    struct dtri_storage *s = &g->storages[storage];
    assert(!s->pool_index);
    s->pool_seq = g->next_pool_seq++;
    s->pool_prev = g->pool_last;
    s->pool_next = DTRI_NONE;
    if (g->pool_last)
        g->storages[g->pool_last].pool_next = storage;
    else
        g->pool_first = storage;
    g->pool_last = storage;
    g->dense[g->n_pool++] = storage;
    s->pool_index = (uint32_t)g->n_pool;
    if (rt->selector)
        rt->selector->ops->entered(rt->selector, storage);
}

static void pool_leave(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_graph *g = &rt->graph;
    struct dtri_storage *s = &g->storages[storage];
    assert(s->pool_index);
    if (s->pool_prev)
        g->storages[s->pool_prev].pool_next = s->pool_next;
    else
        g->pool_first = s->pool_next;
    if (s->pool_next)
        g->storages[s->pool_next].pool_prev = s->pool_prev;
    else
        g->pool_last = s->pool_prev;
    uint32_t moved = g->dense[--g->n_pool];
    g->dense[s->pool_index - 1] = moved;
    g->storages[moved].pool_index = s->pool_index;
    s->pool_index = 0;
    if (rt->selector)
        rt->selector->ops->left(rt->selector, storage);
}

void dtri_settle(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    if (s->state == DTRI_RESIDENT && !s->locks && !s->pinned && !s->pool_index)
        pool_enter(rt, storage);
}

void dtri_lock(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    assert(s->state == DTRI_RESIDENT);
    if (s->locks++ == 0 && s->pool_index)
        pool_leave(rt, storage);
}

void dtri_unlock(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    assert(s->locks > 0);
    if (--s->locks == 0)
        dtri_settle(rt, storage);
}

void dtri_pin_for_ever(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    assert(s->state == DTRI_RESIDENT);
    if (s->pool_index)
        pool_leave(rt, storage);
    s->pinned = true;
}

void dtri_become_resident(dtr_runtime *rt, uint32_t storage, void *data)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    assert(dtri_is_evicted(s));
    s->state = DTRI_RESIDENT;
    s->call = s->summed[0] = s->summed[1] = rt->graph.call;
    s->data = data;
    rt->stats.in_use_bytes += s->bytes;
    if (rt->selector)
        rt->selector->ops->returned(rt->selector, storage);
    if (rt->recording) {
        dtr_event event = {.kind = DTR_EVENT_ALLOCATION};
        event.u.allocation_ = (dtr_event_allocation){
            .storage = s->id,
            .bytes = s->bytes,
            .in_use = rt->stats.in_use_bytes,
            .offset = DTR_NONE,
        };
        dtri_emit(rt, &event, dtri_event_time(rt));
    }
}

/* Resident to evicted, and every tensor has to be made again.  The bytes are the caller's. */
static void leave_residence(dtr_runtime *rt, struct dtri_storage *s)
{
    s->data = NULL;
    s->state = DTRI_EVICTED;
    rt->stats.in_use_bytes -= s->bytes;
    for (uint32_t t = s->tensors; t; t = rt->tensors[t].next)
        rt->tensors[t].defined = false;
}

static void give_back(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    assert(s->state == DTRI_RESIDENT && !s->locks);
    if (s->pool_index)
        pool_leave(rt, storage);
    if (rt->backend.free)
        rt->backend.free(rt->backend.self, s->data, s->bytes);
    leave_residence(rt, s);
}

static void emit_eviction(dtr_runtime *rt, const struct dtri_storage *s, dtr_eviction_reason reason,
                          int64_t decision)
{
    dtr_event event = {.kind = DTR_EVENT_EVICTION};
    event.u.eviction_ = (dtr_event_eviction){
        .storage = s->id,
        .bytes = s->bytes,
        .in_use = rt->stats.in_use_bytes,
        .reason = reason,
        .decision = decision,
    };
    dtri_emit(rt, &event, dtri_event_time(rt));
}

void dtri_evict(dtr_runtime *rt, uint32_t storage, dtr_eviction_reason reason, int64_t decision)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    assert(!s->pinned);
    give_back(rt, storage);
    if (reason == DTR_EVICTED_FOR_BUDGET)
        rt->stats.evictions++;
    else if (reason == DTR_EVICTED_EAGERLY)
        rt->stats.eager_evictions++;
    if (rt->selector)
        rt->selector->ops->evicted(rt->selector, storage);
    if (rt->recording)
        emit_eviction(rt, s, reason, decision);
}

void *dtri_take_bytes(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    void *data = s->data;
    assert(s->state == DTRI_RESIDENT && s->locks && !s->pool_index);
    s->locks = 0;
    s->pinned = s->constant = false;
    leave_residence(rt, s);
    if (rt->selector)
        rt->selector->ops->evicted(rt->selector, storage);
    if (rt->recording)
        emit_eviction(rt, s, DTR_EVICTED_BY_MUTATION, DTR_NONE);
    return data;
}

void dtri_free_for_good(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    int64_t bytes = s->state == DTRI_RESIDENT ? s->bytes : 0;
    if (s->state == DTRI_RESIDENT)
        give_back(rt, storage);
    if (rt->recording) {
        dtr_event event = {.kind = DTR_EVENT_FREEING};
        event.u.freeing_ = (dtr_event_freeing){
            .storage = s->id,
            .bytes = bytes,
            .in_use = rt->stats.in_use_bytes,
        };
        dtri_emit(rt, &event, dtri_event_time(rt));
    }
}
