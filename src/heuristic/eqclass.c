/* Classes of evicted storages (Kirisame et al., 4.1 and C.2): the cheap stand-in for e*.
 *
 * An evicted storage founds a class of its own cost and merges it with the classes of its evicted
 * neighbours; a storage that comes back takes its cost along and leaves, and the class is not
 * split. The paper uses union-find with splitting approximated by fresh nodes.  Here a class lists
 * its members, and a merge moves the members of the smaller class to the larger: O(log n) moves a
 * storage amortized, a look-up is one load, nothing is left behind by storages that come and go,
 * and the index can find whom a change concerns. */
#include "heuristic/heuristic.h"

#include <assert.h>

#include "base/alloc.h"

void dtri_classes_done(struct dtri_classes *c)
{
    dtri_free(c->classes);
    dtri_free(c->members);
}

static bool reserve(struct dtri_classes *c, uint32_t storage)
{
    size_t old = c->cap_members;
    if (!DTRI_RESERVE(c->members, c->cap_members, (size_t)storage + 1)) {
        c->failed = true;
        return false;
    }
    for (size_t i = old; i < c->cap_members; i++)
        c->members[i] = (struct dtri_member){0};
    return true;
}

static void change_value(struct dtri_classes *c, uint32_t class, int64_t delta)
{
    struct dtri_class *k = &c->classes[class];
    c->n_negative -= k->value < 0;
    k->value += delta;
    c->n_negative += k->value < 0;
    if (delta < 0)
        c->decrease -= delta;
}

static void join(struct dtri_classes *c, uint32_t class, uint32_t storage)
{
    struct dtri_class *k = &c->classes[class];
    c->members[storage] = (struct dtri_member){.class = class, .next = k->first};
    if (k->first)
        c->members[k->first].prev = storage;
    k->first = storage;
    k->n++;
}

static void leave(struct dtri_classes *c, uint32_t storage)
{
    struct dtri_member *m = &c->members[storage];
    struct dtri_class *k = &c->classes[m->class];
    if (m->prev)
        c->members[m->prev].next = m->next;
    else
        k->first = m->next;
    if (m->next)
        c->members[m->next].prev = m->prev;
    if (--k->n == 0) {
        c->n_negative -= k->value < 0;
        k->value = 0;
        k->next_free = c->free_class;
        c->free_class = m->class;
    }
    m->class = 0;
}

/* A class of one. */
static uint32_t found(struct dtri_classes *c, uint32_t storage, int64_t value)
{
    uint32_t class = c->free_class;
    if (class) {
        c->free_class = c->classes[class].next_free;
    } else {
        if (c->n_classes == 0)
            c->n_classes = 1; /* 0 is "none" */
        if (!DTRI_RESERVE(c->classes, c->cap_classes, c->n_classes + 1)) {
            c->failed = true;
            return 0;
        }
        class = (uint32_t)c->n_classes++;
    }
    c->classes[class] = (struct dtri_class){0};
    join(c, class, storage);
    change_value(c, class, value);
    return class;
}

/* Both classes as one; returns which. */
static uint32_t merge(struct dtri_classes *c, uint32_t a, uint32_t b)
{
    if (c->classes[a].n < c->classes[b].n) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    int64_t value = c->classes[b].value;
    while (c->classes[b].first) {
        uint32_t member = c->classes[b].first;
        leave(c, member); /* the last one frees the class, which then has no first */
        join(c, a, member);
    }
    change_value(c, a, value);
    return a;
}

/* After a lack of memory the books have holes: starts them anew from what is evicted now.  Storages
 * that were joined by one that came back since are apart again. */
bool dtri_classes_rebuild(struct dtri_classes *c, struct dtri_graph *g)
{
    c->failed = false;
    if (g->n_storages > 1 && !reserve(c, (uint32_t)g->n_storages - 1))
        return false;
    for (size_t i = 0; i < c->cap_members; i++)
        c->members[i] = (struct dtri_member){0};
    c->n_classes = 0;
    c->free_class = 0;
    c->n_negative = 0;
    for (uint32_t s = 1; s < g->n_storages && !c->failed; s++)
        if (dtri_is_evicted(&g->storages[s]))
            found(c, s, g->storages[s].state == DTRI_EVICTED ? g->storages[s].local_cost : 0);
    for (uint32_t s = 1; s < g->n_storages && !c->failed; s++) {
        if (!dtri_is_evicted(&g->storages[s]))
            continue;
        for (uint32_t e = g->storages[s].children; e; e = g->edges[e].next_child) {
            uint32_t a = c->members[s].class, b = c->members[g->edges[e].child].class;
            if (b && a != b)
                merge(c, a, b);
        }
    }
    return !c->failed;
}

void dtri_classes_created(struct dtri_classes *c, struct dtri_graph *g, uint32_t storage)
{
    (void)g;
    if (!c->failed && reserve(c, storage))
        found(c, storage, 0);
}

void dtri_classes_evicted(struct dtri_classes *c, struct dtri_graph *g, uint32_t storage)
{
    const struct dtri_storage *s = &g->storages[storage];
    if (c->failed || !reserve(c, storage))
        return;
    uint32_t class = found(c, storage, s->local_cost);
    if (!class)
        return;
    for (uint32_t e = s->parents; e; e = g->edges[e].next_parent) {
        uint32_t other = g->edges[e].parent;
        if (dtri_is_evicted(&g->storages[other]) && c->members[other].class != class)
            class = merge(c, class, c->members[other].class);
    }
    for (uint32_t e = s->children; e; e = g->edges[e].next_child) {
        uint32_t other = g->edges[e].child;
        if (dtri_is_evicted(&g->storages[other]) && c->members[other].class != class)
            class = merge(c, class, c->members[other].class);
    }
}

void dtri_classes_returned(struct dtri_classes *c, struct dtri_graph *g, uint32_t storage)
{
    if (c->failed)
        return;
    uint32_t class = c->members[storage].class;
    assert(class);
    if (c->classes[class].n > 1) /* nobody looks at the value of a class that ends here */
        change_value(c, class, -g->storages[storage].local_cost);
    leave(c, storage);
}

void dtri_classes_cheaper(struct dtri_classes *c, uint32_t storage, int64_t cost)
{
    if (!c->failed && storage < c->cap_members && c->members[storage].class)
        change_value(c, c->members[storage].class, -cost);
}

static int64_t count_class(struct dtri_classes *c, uint32_t storage)
{
    struct dtri_class *k = &c->classes[c->members[storage].class];
    if (k->visit == c->visit)
        return 0;
    k->visit = c->visit;
    return k->value;
}

int64_t dtri_classes_cost(struct dtri_classes *c, const struct dtri_graph *g, uint32_t storage,
                          int64_t *out_neighbours)
{
    const struct dtri_storage *s = &g->storages[storage];
    int64_t cost = 0, neighbours = 0;
    if (c->failed)
        return 0;
    if (++c->visit == 0) { /* wrapped round */
        for (size_t i = 1; i < c->n_classes; i++)
            c->classes[i].visit = 0;
        c->visit = 1;
    }
    for (uint32_t e = s->parents; e; e = g->edges[e].next_parent) {
        uint32_t other = g->edges[e].parent;
        if (dtri_is_evicted(&g->storages[other])) {
            cost += count_class(c, other);
            neighbours++;
        }
    }
    for (uint32_t e = s->children; e; e = g->edges[e].next_child) {
        uint32_t other = g->edges[e].child;
        if (dtri_is_evicted(&g->storages[other])) {
            cost += count_class(c, other);
            neighbours++;
        }
    }
    *out_neighbours = neighbours;
    return cost;
}
