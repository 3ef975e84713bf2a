/* What happens when nobody holds a storage any more: eager eviction, banishing, reclaiming.
 *
 * Eager eviction and banishing are policies of DTR (Kirisame et al., section 2 and C.5). Reclaiming
 * is bookkeeping: an operator whose outputs nobody can ask for again is forgotten, so that a
 * program that runs for ever needs bounded memory.  It cascades over a work list, not over the C
 * stack. */
#include "core/core.h"

#include <assert.h>

static uint32_t storage_of(const dtr_runtime *rt, uint32_t tensor)
{
    return rt->tensors[tensor].storage;
}

static uint32_t maker_of(dtr_runtime *rt, uint32_t storage)
{
    return rt->tensors[dtri_storage_at(rt, storage)->tensors].op;
}

/* --- banishing -------------------------------------------------------------------------------- */

/* A tensor on `child`, although resident, has to be made again from `parent`: a view whose storage
 * came back by another of its operators. */
static bool has_undefined_view(dtr_runtime *rt, uint32_t child, uint32_t parent)
{
    for (uint32_t t = dtri_storage_at(rt, child)->tensors; t; t = rt->tensors[t].next) {
        const struct dtri_op *o = &rt->ops[rt->tensors[t].op];
        const uint32_t *inputs = dtri_op_inputs(rt, o);
        for (uint32_t i = 0; i < o->n_inputs && !rt->tensors[t].defined; i++)
            if (storage_of(rt, inputs[i]) == parent)
                return true;
    }
    return false;
}

static bool has_evicted_child(dtr_runtime *rt, uint32_t storage)
{
    const struct dtri_graph *g = &rt->graph;
    for (uint32_t e = g->storages[storage].children; e; e = g->edges[e].next_child) {
        uint32_t child = g->edges[e].child;
        if (dtri_is_evicted(&g->storages[child]) || has_undefined_view(rt, child, storage))
            return true;
    }
    return false;
}

static void try_banish(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_graph *g = &rt->graph;
    struct dtri_storage *s = &g->storages[storage];
    if (s->refs || s->locks || (s->state != DTRI_RESIDENT && s->state != DTRI_EVICTED) ||
        has_evicted_child(rt, storage))
        return;
    for (uint32_t e = s->children; e; e = g->edges[e].next_child)
        if (g->storages[g->edges[e].child].state == DTRI_RESIDENT)
            dtri_pin_for_ever(rt, g->edges[e].child);
    if (rt->selector)
        rt->selector->ops->gone(rt->selector, storage);
    dtri_free_for_good(rt, storage);
    s->state = DTRI_BANISHED;
    dtri_edges_cut(rt, storage);
    rt->stats.banished++;
}

void dtri_banish_inputs(dtr_runtime *rt, uint32_t op)
{
    const struct dtri_op *o = &rt->ops[op];
    const uint32_t *inputs = dtri_op_inputs(rt, o);
    for (uint32_t i = 0; i < o->n_inputs; i++)
        try_banish(rt, storage_of(rt, inputs[i]));
}

void dtri_deallocate(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    if (s->refs)
        return;
    if (rt->deallocation == DTR_DEALLOCATE_EAGER && s->state == DTRI_RESIDENT && !s->locks &&
        !s->pinned)
        dtri_evict(rt, storage, DTR_EVICTED_EAGERLY, DTR_NONE);
    else if (rt->deallocation == DTR_DEALLOCATE_BANISH)
        try_banish(rt, storage);
    if (rt->reclaim)
        dtri_reclaim(rt, maker_of(rt, storage));
}

/* --- reclaiming ------------------------------------------------------------------------------- */

/* Nothing can ask for an output: no reference, no operator that takes it, no bytes to give back by
 * the ordinary way (but a constant's, which has no other way). */
static bool is_dead(dtr_runtime *rt, const struct dtri_op *o)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        const struct dtri_tensor *t = &rt->tensors[outputs[i]];
        const struct dtri_storage *s = dtri_storage_at(rt, t->storage);
        if (t->refs || t->consumers)
            return false;
        if (s->tensors == outputs[i] && (s->locks || s->state == DTRI_UNCOMPUTED ||
                                         (s->state == DTRI_RESIDENT && !o->constant)))
            return false;
    }
    return true;
}

static void drop_storage(dtr_runtime *rt, uint32_t storage, uint32_t root)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    if (s->state != DTRI_BANISHED) {
        if (rt->selector)
            rt->selector->ops->gone(rt->selector, storage);
        dtri_free_for_good(rt, storage);
        s->state = DTRI_EVICTED;
    }
    dtri_tensor_drop(rt, root);
    dtri_storage_drop(rt, storage);
}

/* A view goes, the storage stays: it has one operator less, and the edges that this one asked for.
 */
static void drop_view(dtr_runtime *rt, const struct dtri_op *o, uint32_t view,
                      bool first_on_storage)
{
    uint32_t storage = storage_of(rt, view);
    const uint32_t *inputs = dtri_op_inputs(rt, o);
    int64_t cost = first_on_storage && o->cost != DTR_NONE ? o->cost : 0;
    if (rt->selector)
        rt->selector->ops->cheaper(rt->selector, storage, cost);
    dtri_storage_at(rt, storage)->local_cost -= cost;
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        uint32_t parent = storage_of(rt, inputs[i]);
        if (parent == storage)
            continue;
        if (rt->selector)
            rt->selector->ops->cheaper(rt->selector, parent, 0);
        dtri_edge_remove(rt, parent, storage);
    }
    dtri_tensor_drop(rt, view);
}

static void drop_outputs(dtr_runtime *rt, const struct dtri_op *o)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        uint32_t tensor = outputs[i], storage = storage_of(rt, tensor);
        if (dtri_storage_at(rt, storage)->tensors == tensor) {
            drop_storage(rt, storage, tensor);
            continue;
        }
        bool first = true;
        for (uint32_t j = 0; j < i; j++) /* dropped slots keep their storage number */
            first = first && storage_of(rt, outputs[j]) != storage;
        drop_view(rt, o, tensor, first);
    }
}

static void drop_op(dtr_runtime *rt, uint32_t op)
{
    struct dtri_op *o = &rt->ops[op];
    const uint32_t *inputs = dtri_op_inputs(rt, o);
    drop_outputs(rt, o);
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        struct dtri_tensor *t = &rt->tensors[inputs[i]];
        if (--t->consumers == 0 && !t->refs)
            rt->work[rt->n_work++] = t->op;
    }
    if (o->cost != DTR_NONE)
        rt->weight -= o->cost * (int64_t)o->n_outputs;
    dtri_op_drop(rt, op);
}

void dtri_reclaim(dtr_runtime *rt, uint32_t op)
{
    rt->work[rt->n_work++] = op;
    while (rt->n_work) {
        op = rt->work[--rt->n_work];
        if (rt->ops[op].alive && is_dead(rt, &rt->ops[op])) {
            drop_op(rt, op);
            rt->stats.reclaimed++;
        }
    }
}

void dtri_forget(dtr_runtime *rt, uint32_t op)
{
    drop_op(rt, op);
    if (rt->reclaim && rt->n_work)
        dtri_reclaim(rt, rt->work[--rt->n_work]);
    rt->n_work = 0;
}
