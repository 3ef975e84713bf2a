/* The invariants of a runtime, each checked against a slow, obvious count. */
#include "core/core.h"

#include "base/alloc.h"
#include "base/error.h"

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return dtri_fail(error, DTR_E_STATE, 0, __VA_ARGS__);                                  \
    } while (0)

static long long ll(int64_t value)
{
    return (long long)value;
}

static dtr_status check_storage(const dtr_runtime *rt, uint32_t slot, dtr_error *error)
{
    const struct dtri_graph *g = &rt->graph;
    const struct dtri_storage *s = &g->storages[slot];
    bool resident = s->state == DTRI_RESIDENT;
    bool evictable = resident && !s->locks && !s->pinned;
    CHECK(evictable == (s->pool_index != 0), "storage %lld: pool membership is wrong", ll(s->id));
    CHECK(!s->pool_index || (s->pool_index <= g->n_pool && g->dense[s->pool_index - 1] == slot),
          "storage %lld: its place in the dense pool is wrong", ll(s->id));
    CHECK(!s->pinned || resident || s->state == DTRI_BANISHED,
          "storage %lld is pinned and not resident", ll(s->id));
    CHECK(!s->locks || resident, "storage %lld is locked and not resident", ll(s->id));
    CHECK(s->tensors, "storage %lld has no root tensor", ll(s->id));
    int64_t refs = 0;
    for (uint32_t t = s->tensors; t; t = rt->tensors[t].next) {
        const struct dtri_tensor *tensor = &rt->tensors[t];
        CHECK(tensor->alive && tensor->storage == slot, "storage %lld lists tensor %lld of another",
              ll(s->id), ll(tensor->id));
        CHECK(!tensor->defined || resident, "tensor %lld is defined on a storage without bytes",
              ll(tensor->id));
        refs += tensor->refs;
    }
    CHECK(refs == s->refs, "storage %lld: %lld references counted, %lld kept", ll(s->id), ll(refs),
          ll(s->refs));
    for (uint32_t e = s->parents; e; e = g->edges[e].next_parent)
        CHECK(g->edges[e].child == slot && g->edges[e].parent != slot && g->edges[e].count,
              "storage %lld has a wrong edge", ll(s->id));
    return DTR_OK;
}

static dtr_status check_storages(const dtr_runtime *rt, dtr_error *error)
{
    int64_t in_use = 0, n = 0, in_pool = 0;
    for (uint32_t slot = 1; slot < rt->graph.n_storages; slot++) {
        const struct dtri_storage *s = &rt->graph.storages[slot];
        if (s->state == DTRI_GONE)
            continue;
        dtr_status status = check_storage(rt, slot, error);
        if (status != DTR_OK)
            return status;
        n++;
        in_pool += s->pool_index != 0;
        if (s->state == DTRI_RESIDENT)
            in_use += s->bytes;
    }
    CHECK(in_use == rt->stats.in_use_bytes, "%lld bytes are resident, %lld are in use", ll(in_use),
          ll(rt->stats.in_use_bytes));
    CHECK(n == rt->stats.storages, "%lld storages counted, %lld kept", ll(n),
          ll(rt->stats.storages));
    CHECK(in_pool == (int64_t)rt->graph.n_pool, "%lld storages in the pool, %lld kept", ll(in_pool),
          ll((int64_t)rt->graph.n_pool));
    CHECK(rt->budget == DTR_NONE || in_use <= rt->budget || rt->above_budget,
          "%lld bytes are in use above the budget of %lld", ll(in_use), ll(rt->budget));
    return DTR_OK;
}

static dtr_status check_pool_order(const dtr_runtime *rt, dtr_error *error)
{
    const struct dtri_graph *g = &rt->graph;
    size_t n = 0;
    uint32_t previous = DTRI_NONE;
    for (uint32_t s = g->pool_first; s; previous = s, s = g->storages[s].pool_next, n++) {
        CHECK(g->storages[s].pool_prev == previous, "the pool's list is broken");
        CHECK(!previous || g->storages[previous].pool_seq < g->storages[s].pool_seq,
              "the pool is out of order at storage %lld", ll(g->storages[s].id));
        CHECK(n < g->n_pool, "the pool's list is longer than its count");
    }
    CHECK(n == g->n_pool && g->pool_last == previous, "the pool's list is not its dense array");
    return DTR_OK;
}

/* Recounts consumers and edges from the operators' inputs and outputs. */
static dtr_status check_ops(const dtr_runtime *rt, uint32_t *consumers, dtr_error *error)
{
    int64_t pairs = 0, counted = 0;
    for (uint32_t slot = 1; slot < rt->n_ops; slot++) {
        const struct dtri_op *o = &rt->ops[slot];
        if (!o->alive)
            continue;
        const uint32_t *links = rt->links + o->links;
        for (uint32_t j = 0; j < o->n_outputs; j++) {
            const struct dtri_tensor *out = &rt->tensors[links[o->n_inputs + j]];
            CHECK(out->alive && out->op == slot && out->output == j,
                  "operator %lld and its output %u disagree", ll(o->id), j);
        }
        for (uint32_t i = 0; i < o->n_inputs; i++) {
            consumers[links[i]]++;
            const struct dtri_tensor *in = &rt->tensors[links[i]];
            CHECK(in->alive, "operator %lld takes a tensor that is gone", ll(o->id));
            for (uint32_t j = 0; j < o->n_outputs; j++) {
                uint32_t to = rt->tensors[links[o->n_inputs + j]].storage;
                const struct dtri_storage *a = &rt->graph.storages[in->storage],
                                          *b = &rt->graph.storages[to];
                pairs +=
                    in->storage != to && a->state != DTRI_BANISHED && b->state != DTRI_BANISHED;
            }
        }
    }
    for (uint32_t t = 1; t < rt->n_tensors; t++)
        CHECK(!rt->tensors[t].alive || rt->tensors[t].consumers == consumers[t],
              "tensor %lld: %u consumers counted, %u kept", ll(rt->tensors[t].id), consumers[t],
              rt->tensors[t].consumers);
    if (!rt->edges)
        return DTR_OK;
    for (uint32_t slot = 1; slot < rt->graph.n_storages; slot++)
        if (rt->graph.storages[slot].state != DTRI_GONE)
            for (uint32_t e = rt->graph.storages[slot].parents; e;
                 e = rt->graph.edges[e].next_parent)
                counted += rt->graph.edges[e].count;
    CHECK(pairs == counted, "%lld edges follow from the operators, %lld are kept", ll(pairs),
          ll(counted));
    return DTR_OK;
}

dtr_status dtr_runtime_check(const dtr_runtime *rt, dtr_error *error)
{
    dtr_status status = check_storages(rt, error);
    if (status == DTR_OK)
        status = check_pool_order(rt, error);
    if (status != DTR_OK)
        return status;
    uint32_t *consumers = dtri_calloc(rt->n_tensors + 1, sizeof *consumers);
    if (!consumers)
        return dtri_fail_nomem(error, "the invariant check");
    status = check_ops(rt, consumers, error);
    dtri_free(consumers);
    return status;
}
