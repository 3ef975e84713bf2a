/* Slots, links and edges.  No policy and no events here: others decide, this keeps the books.
 *
 * Everything that can fail is in dtri_reserve, which makes room for one whole operator; what
 * follows it cannot run out of memory, so an operator is either registered completely or not at
 * all. */
#include "core/core.h"

#include <assert.h>

#include "base/alloc.h"

static int size_class(uint32_t n)
{
    return n <= 1 ? 0 : 32 - __builtin_clz(n - 1);
}

bool dtri_reserve(dtr_runtime *rt, size_t n_inputs, size_t n_outputs)
{
    struct dtri_graph *g = &rt->graph;
    size_t n_links = n_inputs + n_outputs;
    size_t n_edges = rt->edges ? n_inputs * n_outputs : 0;
    /* Links are handed out in powers of two, hence the doubling; one slot more for the ghost that
     * dtr_make_constant leaves behind. */
    return DTRI_RESERVE(g->storages, g->cap_storages, g->n_storages + n_outputs + 1) &&
           DTRI_RESERVE(g->dense, g->cap_pool, g->n_storages + n_outputs + 1) &&
           DTRI_RESERVE(rt->tensors, rt->cap_tensors, rt->n_tensors + n_outputs + 1) &&
           DTRI_RESERVE(rt->ops, rt->cap_ops, rt->n_ops + 1) &&
           DTRI_RESERVE(rt->links, rt->cap_links, rt->n_links + 2 * n_links) &&
           DTRI_RESERVE(g->edges, rt->cap_edges, rt->n_edges + n_edges) &&
           DTRI_RESERVE(rt->work, rt->cap_work, rt->n_tensors + n_outputs + 2) &&
           DTRI_RESERVE(rt->data, rt->cap_data, n_links);
}

uint32_t dtri_storage_new(dtr_runtime *rt, int64_t bytes)
{
    struct dtri_graph *g = &rt->graph;
    uint32_t slot = rt->free_storage;
    if (slot)
        rt->free_storage = g->storages[slot].pool_next;
    else
        slot = (uint32_t)g->n_storages++;
    g->storages[slot] = (struct dtri_storage){
        .id = rt->next_storage_id++,
        .bytes = bytes,
        .last_access = DTRI_NEVER,
        .cause = DTR_NONE,
        .call = g->call,
        .state = DTRI_UNCOMPUTED,
    };
    rt->stats.storages++;
    return slot;
}

void dtri_storage_drop(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    assert(s->state != DTRI_GONE && s->state != DTRI_RESIDENT && !s->pool_index && !s->tensors);
    dtri_edges_cut(rt, storage);
    s->state = DTRI_GONE;
    s->pool_next = rt->free_storage;
    rt->free_storage = storage;
    rt->stats.storages--;
}

uint32_t dtri_tensor_new(dtr_runtime *rt, uint32_t storage, uint32_t op, uint32_t output)
{
    uint32_t slot = rt->free_tensor, generation = 1;
    if (slot) {
        rt->free_tensor = rt->tensors[slot].next;
        generation = rt->tensors[slot].generation + 1;
    } else {
        slot = (uint32_t)rt->n_tensors++;
    }
    rt->tensors[slot] = (struct dtri_tensor){
        .id = rt->next_tensor_id++,
        .storage = storage,
        .op = op,
        .output = output,
        .generation = generation,
        .alive = true,
    };
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    if (!s->tensors) {
        s->tensors = slot;
    } else { /* behind the root */
        rt->tensors[slot].next = rt->tensors[s->tensors].next;
        rt->tensors[s->tensors].next = slot;
    }
    rt->stats.tensors++;
    return slot;
}

void dtri_tensor_drop(dtr_runtime *rt, uint32_t tensor)
{
    struct dtri_tensor *t = &rt->tensors[tensor];
    assert(t->alive);
    uint32_t *link = &dtri_storage_at(rt, t->storage)->tensors;
    while (*link != tensor)
        link = &rt->tensors[*link].next;
    *link = t->next;
    t->alive = false;
    t->next = rt->free_tensor;
    rt->free_tensor = tensor;
    rt->stats.tensors--;
}

static uint32_t links_new(dtr_runtime *rt, uint32_t n)
{
    int class = size_class(n);
    uint32_t links = rt->link_free[class];
    if (links) {
        rt->link_free[class] = rt->links[links];
    } else {
        links = (uint32_t)rt->n_links;
        rt->n_links += (size_t)1 << class;
    }
    return links;
}

uint32_t dtri_op_new(dtr_runtime *rt, uint32_t n_inputs, uint32_t n_outputs)
{
    uint32_t slot = rt->free_op;
    if (slot)
        rt->free_op = rt->ops[slot].links;
    else
        slot = (uint32_t)rt->n_ops++;
    rt->ops[slot] = (struct dtri_op){
        .id = rt->next_op_id++,
        .cost = DTR_NONE,
        .name = DTR_NONE,
        .links = links_new(rt, n_inputs + n_outputs),
        .n_inputs = n_inputs,
        .n_outputs = n_outputs,
        .alive = true,
    };
    rt->stats.operators++;
    return slot;
}

void dtri_op_drop(dtr_runtime *rt, uint32_t op)
{
    struct dtri_op *o = &rt->ops[op];
    assert(o->alive);
    if (o->payload_free)
        o->payload_free(o->payload);
    int class = size_class(o->n_inputs + o->n_outputs);
    rt->links[o->links] = rt->link_free[class];
    rt->link_free[class] = o->links;
    o->alive = false;
    o->links = rt->free_op;
    rt->free_op = op;
    rt->stats.operators--;
}

void dtri_set_cost(dtr_runtime *rt, struct dtri_op *o, int64_t cost)
{
    const uint32_t *outputs = dtri_op_outputs(rt, o);
    uint32_t mark = dtri_visit_begin(&rt->graph);
    o->cost = cost;
    rt->weight += cost * (int64_t)o->n_outputs;
    for (uint32_t i = 0; i < o->n_outputs; i++) {
        struct dtri_storage *s = dtri_storage_at(rt, rt->tensors[outputs[i]].storage);
        if (s->visit != mark)
            s->local_cost += cost;
        s->visit = mark;
    }
}

/* A child has few parents, a parent may have thousands of children: look from the child. */
static uint32_t edge_find(const struct dtri_graph *g, uint32_t parent, uint32_t child)
{
    uint32_t edge = g->storages[child].parents;
    while (edge && g->edges[edge].parent != parent)
        edge = g->edges[edge].next_parent;
    return edge;
}

void dtri_edge_add(dtr_runtime *rt, uint32_t parent, uint32_t child)
{
    struct dtri_graph *g = &rt->graph;
    if (!rt->edges || parent == child)
        return;
    uint32_t edge = edge_find(g, parent, child);
    if (edge) {
        g->edges[edge].count++;
        return;
    }
    edge = rt->free_edge;
    if (edge)
        rt->free_edge = g->edges[edge].next_child;
    else
        edge = (uint32_t)rt->n_edges++;
    struct dtri_storage *p = &g->storages[parent], *c = &g->storages[child];
    g->edges[edge] = (struct dtri_edge){
        .parent = parent,
        .child = child,
        .next_parent = c->parents,
        .next_child = p->children,
        .count = 1,
    };
    if (p->children)
        g->edges[p->children].prev_child = edge;
    p->children = edge;
    c->parents = edge;
}

static void edge_unlink(dtr_runtime *rt, uint32_t edge)
{
    struct dtri_graph *g = &rt->graph;
    struct dtri_edge *e = &g->edges[edge];
    uint32_t *link = &g->storages[e->child].parents;
    while (*link != edge)
        link = &g->edges[*link].next_parent;
    *link = e->next_parent;
    if (e->prev_child)
        g->edges[e->prev_child].next_child = e->next_child;
    else
        g->storages[e->parent].children = e->next_child;
    if (e->next_child)
        g->edges[e->next_child].prev_child = e->prev_child;
    e->next_child = rt->free_edge;
    rt->free_edge = edge;
}

void dtri_edge_remove(dtr_runtime *rt, uint32_t parent, uint32_t child)
{
    if (!rt->edges || parent == child)
        return;
    uint32_t edge = edge_find(&rt->graph, parent, child);
    if (edge && --rt->graph.edges[edge].count == 0)
        edge_unlink(rt, edge);
}

void dtri_parents_cut(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    while (s->parents)
        edge_unlink(rt, s->parents);
}

void dtri_edges_cut(dtr_runtime *rt, uint32_t storage)
{
    struct dtri_storage *s = dtri_storage_at(rt, storage);
    dtri_parents_cut(rt, storage);
    while (s->children)
        edge_unlink(rt, s->children);
}
