/* Walks over evicted storages: the exact neighbourhood e* of the paper (C.2), computed when asked.
 *
 * An output that waits for its operator's first run counts as evicted, but only for candidates
 * whose sum began anew after the program called that operator: when they came back themselves, or
 * when something at the border of their neighbourhood did (selector.c notes both).  The published
 * simulator keeps its sums in between, and a later call does not change them.
 *
 * Keeping the sums up to date instead, as the published simulator does, costs at every eviction and
 * rematerialization; computing them only for the few candidates that an index looks at costs less,
 * and cannot go out of date. */
#include "heuristic/heuristic.h"

#include "base/alloc.h"

/* The edge lists of one direction: first edge of a storage, next edge, far end. */
static uint32_t first_edge(const struct dtri_storage *s, enum dtri_direction direction)
{
    return direction == DTRI_UP ? s->parents : s->children;
}

static uint32_t next_edge(const struct dtri_edge *e, enum dtri_direction direction)
{
    return direction == DTRI_UP ? e->next_parent : e->next_child;
}

static uint32_t far_end(const struct dtri_edge *e, enum dtri_direction direction)
{
    return direction == DTRI_UP ? e->parent : e->child;
}

/* Starts at `storage` and goes on over evicted ones; `sum` and `found` as in the header, NULL: no.
 */
static void walk(struct dtri_graph *g, struct dtri_walk *w, uint32_t storage,
                 enum dtri_direction direction, struct dtri_sum *sum,
                 void (*found)(void *, uint32_t), void *user)
{
    uint32_t mark = dtri_visit_begin(g);
    uint32_t at = storage, since = g->storages[storage].summed[direction];
    w->n = 0;
    g->storages[storage].visit = mark;
    for (;;) {
        for (uint32_t e = first_edge(&g->storages[at], direction); e;
             e = next_edge(&g->edges[e], direction)) {
            uint32_t to = far_end(&g->edges[e], direction);
            struct dtri_storage *s = &g->storages[to];
            if (!dtri_is_evicted(s)) {
                if (found)
                    found(user, to);
                continue;
            }
            if (s->visit == mark || (s->state == DTRI_UNCOMPUTED && s->call != since))
                continue;
            s->visit = mark;
            if (sum) {
                sum->cost += s->local_cost;
                sum->count++;
                if (s->last_access > sum->latest)
                    sum->latest = s->last_access;
            }
            if (!DTRI_RESERVE(w->stack, w->cap, w->n + 1)) {
                w->failed = true;
                return;
            }
            w->stack[w->n++] = to;
        }
        if (w->n == 0)
            return;
        at = w->stack[--w->n];
    }
}

void dtri_walk_sum(struct dtri_graph *g, struct dtri_walk *w, uint32_t storage,
                   enum dtri_direction direction, struct dtri_sum *sum)
{
    walk(g, w, storage, direction, sum, NULL, NULL);
}

void dtri_walk_border(struct dtri_graph *g, struct dtri_walk *w, uint32_t storage,
                      enum dtri_direction direction, void (*found)(void *, uint32_t), void *user)
{
    walk(g, w, storage, direction, NULL, found, user);
}

void dtri_walk_done(struct dtri_walk *w)
{
    dtri_free(w->stack);
}
