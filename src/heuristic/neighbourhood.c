/* Walks over evicted storages: the exact neighbourhood e* of the paper (C.2), computed when asked.
 *
 * An operator that waits for its first run is there already: its outputs count as evicted, and its
 * views add to the cost of their storage.  The published simulator keeps its sums, and sees what is
 * new only in a sum that began anew after the program called that operator: because the candidate
 * came back, or something at the border of its neighbourhood did (selector.c notes both), or
 * because it took over the sum of a storage that was evicted since and had seen it.  So a walk sees
 * what is new only behind a storage whose sum began in the call at hand.  Storages that were
 * reached without that, and are reached again with it, are walked a second time.
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

/* A storage to go on from, and whether the walk sees there what the call at hand made new. */
static bool push(struct dtri_walk *w, uint32_t storage, bool sees_new)
{
    if (!DTRI_RESERVE(w->stack, w->cap, w->n + 1)) {
        w->failed = true;
        return false;
    }
    w->stack[w->n++] = (struct dtri_step){storage, sees_new};
    return true;
}

static void add(struct dtri_sum *sum, const struct dtri_storage *s, bool sees_new)
{
    sum->cost += s->local_cost - (sees_new ? 0 : s->waiting_cost);
    sum->count++;
    if (s->last_access > sum->latest)
        sum->latest = s->last_access;
}

/* Starts at `storage` and goes on over evicted ones; `sum` and `found` as in the header, NULL: no.
 */
static void walk(struct dtri_graph *g, struct dtri_walk *w, uint32_t storage,
                 enum dtri_direction direction, struct dtri_sum *sum,
                 void (*found)(void *, uint32_t), void *user)
{
    uint32_t blind = dtri_visit_begin(g), seeing = dtri_visit_begin(g);
    struct dtri_step at = {storage, g->storages[storage].summed[direction] == g->call};
    w->n = 0;
    g->storages[storage].visit = seeing;
    for (;;) {
        for (uint32_t e = first_edge(&g->storages[at.storage], direction); e;
             e = next_edge(&g->edges[e], direction)) {
            uint32_t to = far_end(&g->edges[e], direction);
            struct dtri_storage *s = &g->storages[to];
            if (!dtri_is_evicted(s)) {
                if (found)
                    found(user, to);
                continue;
            }
            if (s->state == DTRI_UNCOMPUTED && !at.sees_new)
                continue;
            bool sees = at.sees_new || s->summed[direction] == g->call;
            if (s->visit == seeing || (s->visit == blind && !sees))
                continue;
            if (sum && s->visit != blind)
                add(sum, s, sees);
            s->visit = sees ? seeing : blind;
            if (!push(w, to, sees))
                return;
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
