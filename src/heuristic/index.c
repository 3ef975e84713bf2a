/* The kinetic tournament: the victim of `scan` without looking at every candidate.
 *
 * A score with staleness is c / (m (T - a)), with cost c, bytes m, last access a and time T.  Its
 * inverse (m/c) T - (m/c) a is a line in T, and T only grows.  So the candidates are the leaves of
 * a binary tree whose inner nodes keep the better of their two children and until when it stays so
 * (Basch, Guibas and Hershberger, "Data structures for mobile data", 1999).  A query renews the
 * nodes on the way down whose time is over.  Scores without staleness are lines of slope 0: a plain
 * tournament.
 *
 * Same victim, to the last bit.  `scan` compares rounded doubles and breaks ties by the order of
 * the pool, so two lines closer than FUZZ are compared by their exact scores and never trusted for
 * later times; further apart, rounding cannot change the order.
 *
 * Lazy leaves.  A leaf may be too hopeful (score too low) but never too gloomy: a winner is checked
 * against its score of now, and if it was too hopeful, its leaf is put right and the tournament
 * goes on.  Scores rise when a candidate is used or its neighbours are evicted, which therefore
 * costs nothing here.  They fall when something comes back next to a candidate: selector.c then
 * resets the leaf to the candidate's own cost, the least that its cost can be.
 *
 *
 * Classes are different: when one storage comes back, the class that it leaves gets cheaper for all
 * its neighbours, who may be many.  So a leaf takes the classes' part of its cost an eighth too
 * low, and that slack is renewed only when the decreases of all classes together have used it up (a
 * heap of limits).  A winner is tightened to its true cost; the tight ones get slack again later.
 *
 * A class below 0 breaks these bounds (see eqclass.c); the selector scans while there is one. */
#include "heuristic/heuristic.h"
#include "heuristic/score.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"

#define FUZZ    0x1p-44 /* far above the rounding of a few operations on doubles, 2^-52 each */
#define EXPIRED INT64_MIN
#define FOREVER INT64_MAX

void dtri_index_done(struct dtri_index *x)
{
    dtri_free(x->leaves);
    dtri_free(x->nodes);
    dtri_free(x->leaf_of);
    dtri_free(x->queue);
    dtri_free(x->tight);
    dtri_free(x->limits);
    dtri_free(x->undo);
}

static bool is_static(const struct dtri_sel *sel)
{
    return sel->rule.formula == DTRI_FORMULA_LAST_ACCESS || !sel->rule.by_staleness;
}

/* --- comparing two leaves --------------------------------------------------------------------- */

/* The inverse of the score, nearly. */
static double inverse(const struct dtri_leaf *l, int64_t now)
{
    double stale = (double)(now - l->access);
    return stale > 0 && l->slope > 0 ? l->slope * stale : 0.0;
}

static bool better_exactly(const struct dtri_leaf *a, double score_a, const struct dtri_leaf *b,
                           double score_b)
{
    if (score_a != score_b)
        return score_a < score_b;
    return score_a == 0.0 ? a->seq < b->seq : a->seq > b->seq;
}

/* Until when `winner`, clearly better now, stays better than `loser` by more than the fuzz. */
static int64_t lasts_until(const struct dtri_leaf *winner, const struct dtri_leaf *loser,
                           double gap, int64_t now)
{
    double closing = loser->slope * (1 + FUZZ) - winner->slope;
    if (isinf(loser->slope))
        return now;
    if (!(closing > 0))
        return FOREVER;
    double steps = gap / closing * (1 - 0x1p-30);
    return steps < 0x1p62 - (double)now ? now + (int64_t)steps : FOREVER;
}

static bool same_line(const struct dtri_leaf *a, const struct dtri_leaf *b)
{
    return a->cost == b->cost && a->bytes == b->bytes && a->access == b->access;
}

static double score_now(const struct dtri_leaf *l, int64_t now)
{
    if (l->access == DTRI_NEVER)
        return 0.0;
    return dtri_quotient(l->cost, l->bytes, now - l->access);
}

static bool better_kinetic(const struct dtri_leaf *a, const struct dtri_leaf *b, int64_t now,
                           int64_t *out_expiry)
{
    double fa = inverse(a, now), fb = inverse(b, now);
    if (fa > fb * (1 + FUZZ)) {
        *out_expiry = lasts_until(a, b, fa - fb * (1 + FUZZ), now);
        return true;
    }
    if (fb > fa * (1 + FUZZ)) {
        *out_expiry = lasts_until(b, a, fb - fa * (1 + FUZZ), now);
        return false;
    }
    bool both_infinite = isinf(fa) && isinf(fb);
    *out_expiry = same_line(a, b) && (fa > 0 || a->slope == 0) ? FOREVER
                  : both_infinite                              ? FOREVER
                                                               : now;
    return better_exactly(a, score_now(a, now), b, score_now(b, now));
}

/* --- the tree --------------------------------------------------------------------------------- */

static void replay_node(struct dtri_sel *sel, struct dtri_node *node, const struct dtri_node *a,
                        const struct dtri_node *b, int64_t now)
{
    const struct dtri_leaf *leaves = sel->index.leaves;
    node->expiry = a->expiry < b->expiry ? a->expiry : b->expiry;
    if (!a->winner || !b->winner) {
        node->winner = a->winner ? a->winner : b->winner;
        return;
    }
    const struct dtri_leaf *la = &leaves[a->winner], *lb = &leaves[b->winner];
    bool a_wins;
    if (is_static(sel)) {
        a_wins = better_exactly(la, la->score, lb, lb->score);
    } else {
        int64_t expiry;
        a_wins = better_kinetic(la, lb, now, &expiry);
        if (expiry < node->expiry)
            node->expiry = expiry;
    }
    node->winner = a_wins ? a->winner : b->winner;
}

/* Renews the nodes below `at` whose time is over.  As deep as the tree: at most 32. */
static void renew(struct dtri_sel *sel, size_t at)
{
    struct dtri_index *x = &sel->index;
    int64_t now = sel->graph->clock;
    if (x->nodes[at].expiry >= now)
        return;
    if (at >= x->n_slots) { /* a leaf: wins by itself */
        uint32_t leaf = (uint32_t)(at - x->n_slots) + 1;
        bool taken = leaf < x->n_leaves && x->leaves[leaf].storage && !x->leaves[leaf].hidden;
        x->nodes[at] = (struct dtri_node){.expiry = FOREVER, .winner = taken ? leaf : 0};
        return;
    }
    renew(sel, 2 * at);
    renew(sel, 2 * at + 1);
    replay_node(sel, &x->nodes[at], &x->nodes[2 * at], &x->nodes[2 * at + 1], now);
}

static void expire(struct dtri_index *x, uint32_t leaf)
{
    for (size_t at = leaf - 1 + x->n_slots; at && x->nodes[at].expiry != EXPIRED; at /= 2)
        x->nodes[at].expiry = EXPIRED;
}

/* Room for one more leaf; a grown tree starts anew. */
static bool reserve_leaf(struct dtri_index *x)
{
    if (x->n_leaves == 0)
        x->n_leaves = 1; /* 0 is "none" */
    if (!DTRI_RESERVE(x->leaves, x->cap_leaves, x->n_leaves + 1) ||
        !DTRI_RESERVE(x->queue, x->cap_queue, x->n_leaves + 1) ||
        !DTRI_RESERVE(x->tight, x->cap_tight, x->n_leaves + 1))
        return false;
    if (x->n_leaves <= x->n_slots)
        return true;
    size_t n_slots = x->n_slots ? x->n_slots * 2 : 16;
    struct dtri_node *nodes = dtri_malloc(2 * n_slots * sizeof *nodes);
    if (!nodes)
        return false;
    for (size_t i = 0; i < 2 * n_slots; i++)
        nodes[i] = (struct dtri_node){.expiry = EXPIRED};
    dtri_free(x->nodes);
    x->nodes = nodes;
    x->n_slots = n_slots;
    return true;
}

static uint32_t leaf_of(const struct dtri_index *x, uint32_t storage)
{
    return storage < x->cap_leaf_of ? x->leaf_of[storage] : 0;
}

static uint32_t leaf_new(struct dtri_index *x, uint32_t storage)
{
    size_t old = x->cap_leaf_of;
    if (!DTRI_RESERVE(x->leaf_of, x->cap_leaf_of, (size_t)storage + 1))
        return 0;
    for (size_t i = old; i < x->cap_leaf_of; i++)
        x->leaf_of[i] = 0;
    uint32_t leaf = x->free_leaf;
    if (leaf) {
        x->free_leaf = x->leaves[leaf].next_free;
    } else {
        if (!reserve_leaf(x))
            return 0;
        leaf = (uint32_t)x->n_leaves++;
        x->leaves[leaf] = (struct dtri_leaf){0};
    }
    struct dtri_leaf *l = &x->leaves[leaf];
    *l = (struct dtri_leaf){.storage = storage,
                            .reset = true,
                            .queued = l->queued,
                            .tight = l->tight,
                            .stamp = l->stamp + 1};
    x->leaf_of[storage] = leaf;
    return leaf;
}

/* The queue holds each leaf at most once, also when it is used anew, and has room for all. */
static void enqueue(struct dtri_index *x, uint32_t leaf)
{
    if (!x->leaves[leaf].queued)
        x->queue[x->n_queue++] = leaf;
    x->leaves[leaf].queued = true;
}

static void leaf_free(struct dtri_index *x, uint32_t leaf)
{
    struct dtri_leaf *l = &x->leaves[leaf];
    x->leaf_of[l->storage] = 0;
    l->storage = 0;
    l->next_free = x->free_leaf;
    x->free_leaf = leaf;
    expire(x, leaf);
}

/* --- what the selector tells ------------------------------------------------------------------ */

void dtri_index_entered(struct dtri_sel *sel, uint32_t storage)
{
    struct dtri_index *x = &sel->index;
    uint32_t leaf = leaf_of(x, storage);
    if (!leaf)
        leaf = leaf_new(x, storage);
    if (!leaf)
        x->failed = true;
    else
        enqueue(x, leaf);
}

void dtri_index_reset(struct dtri_sel *sel, uint32_t storage)
{
    struct dtri_index *x = &sel->index;
    uint32_t leaf = leaf_of(x, storage);
    if (!leaf)
        return;
    x->leaves[leaf].reset = true;
    enqueue(x, leaf);
}

void dtri_index_gone(struct dtri_sel *sel, uint32_t storage)
{
    struct dtri_index *x = &sel->index;
    uint32_t leaf = leaf_of(x, storage);
    if (leaf)
        leaf_free(x, leaf);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void set_line(const struct dtri_sel *sel, struct dtri_leaf *l, const struct dtri_key *key)
{
    l->cost = key->cost;
    l->bytes = key->bytes;
    l->access = key->access;
    l->seq = sel->graph->storages[l->storage].pool_seq;
    if (is_static(sel))
        l->score = dtri_key_score(sel, key);
    else if (key->bytes == 0)
        l->slope = 0.0;
    else if (key->cost == 0 || key->access == DTRI_NEVER)
        l->slope = INFINITY;
    else
        l->slope = (double)key->bytes / (double)key->cost;
}

/* The least that the cost can be, without a walk: what it was, unless it may have shrunk. */
static int64_t least_cost(const struct dtri_sel *sel, const struct dtri_leaf *l)
{
    if (sel->rule.cost == DTRI_COST_NONE)
        return 1;
    int64_t local = sel->graph->storages[l->storage].local_cost;
    return l->reset || l->cost < local ? local : l->cost;
}

/* --- slack ------------------------------------------------------------------------------------ */

static void sift_up(struct dtri_limit *heap, size_t at)
{
    while (at > 0 && heap[at].limit < heap[(at - 1) / 2].limit) {
        struct dtri_limit swap = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = swap;
        at = (at - 1) / 2;
    }
}

static void sift_down(struct dtri_limit *heap, size_t n)
{
    for (size_t at = 0, child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1].limit < heap[child].limit)
            child++;
        if (heap[at].limit <= heap[child].limit)
            return;
        struct dtri_limit swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

static void add_limit(struct dtri_index *x, uint32_t leaf, int64_t limit)
{
    if (!DTRI_RESERVE(x->limits, x->cap_limits, x->n_limits + 1)) {
        x->failed = true;
        return;
    }
    x->limits[x->n_limits++] = (struct dtri_limit){limit, leaf, x->leaves[leaf].stamp};
    sift_up(x->limits, x->n_limits - 1);
}

/* Queues the leaves whose slack is used up, and the tight ones if any class got cheaper since. */
static void loosen(struct dtri_sel *sel)
{
    struct dtri_index *x = &sel->index;
    int64_t decrease = sel->classes.decrease;
    while (x->n_limits && x->limits[0].limit < decrease) {
        struct dtri_limit used_up = x->limits[0];
        x->limits[0] = x->limits[--x->n_limits];
        sift_down(x->limits, x->n_limits);
        const struct dtri_leaf *l = &x->leaves[used_up.leaf];
        if (l->storage && l->stamp == used_up.stamp)
            enqueue(x, used_up.leaf);
    }
    if (x->tight_decrease == decrease)
        return;
    while (x->n_tight) {
        uint32_t leaf = x->tight[--x->n_tight];
        x->leaves[leaf].tight = false;
        if (x->leaves[leaf].storage)
            enqueue(x, leaf);
    }
    x->tight_decrease = decrease;
}

/* A cost that holds until the classes' decreases pass a limit: the true one less the slack. */
static int64_t slack_cost(struct dtri_sel *sel, uint32_t leaf)
{
    struct dtri_index *x = &sel->index;
    uint32_t storage = x->leaves[leaf].storage;
    int64_t neighbours;
    int64_t classes = dtri_classes_cost(&sel->classes, sel->graph, storage, &neighbours);
    int64_t slack = classes < 8 ? classes : classes / 8;
    x->leaves[leaf].stamp++;
    if (slack < classes)
        add_limit(x, leaf, sel->classes.decrease + slack);
    return sel->graph->storages[storage].local_cost + classes - slack;
}

/* --- refreshing and picking ------------------------------------------------------------------- */

/* Brings the line of a queued leaf up to date, as far as that is cheap. */
static void refresh(struct dtri_sel *sel, uint32_t leaf)
{
    struct dtri_index *x = &sel->index;
    struct dtri_leaf *l = &x->leaves[leaf];
    l->queued = false;
    if (!l->storage) /* gone while it waited */
        return;
    const struct dtri_storage *s = &sel->graph->storages[l->storage];
    if (!s->pool_index) {
        leaf_free(x, leaf);
        return;
    }
    struct dtri_key key = {
        .cost = sel->rule.cost == DTRI_COST_CLASSES ? slack_cost(sel, leaf) : least_cost(sel, l),
        .bytes = sel->rule.by_bytes ? s->bytes : 1,
        .access = s->last_access,
    };
    l->reset = false;
    set_line(sel, l, &key);
    expire(x, leaf);
}

uint32_t dtri_index_pick(struct dtri_sel *sel, int64_t *out_evaluations)
{
    struct dtri_index *x = &sel->index;
    int64_t evaluations = 0;
    loosen(sel);
    while (x->n_queue)
        refresh(sel, x->queue[--x->n_queue]);
    for (;;) {
        renew(sel, 1);
        uint32_t leaf = x->nodes[1].winner;
        assert(leaf);
        struct dtri_leaf *l = &x->leaves[leaf];
        if (!sel->graph->storages[l->storage].pool_index) {
            leaf_free(x, leaf);
            continue;
        }
        struct dtri_key key;
        dtri_key_of(sel, l->storage, &key);
        evaluations++;
        if (sel->walk.failed)
            return DTRI_NONE;
        if (key.cost == l->cost && key.access == l->access) {
            *out_evaluations = evaluations;
            return l->storage;
        }
        if (sel->rule.cost == DTRI_COST_CLASSES && !l->tight) {
            l->tight = true;
            x->tight[x->n_tight++] = leaf; /* once each, so there is room */
        }
        set_line(sel, l, &key);
        expire(x, leaf);
    }
}

/* --- runners-up ------------------------------------------------------------------------------- */

static bool remember(struct dtri_index *x, uint32_t leaf)
{
    if (!DTRI_RESERVE(x->undo, x->cap_undo, x->n_undo + 1))
        return false;
    x->undo[x->n_undo++] = (struct dtri_undo){leaf, x->leaves[leaf]};
    return true;
}

/* Puts all leaves back, so that recording a run does not change how later victims are found. */
static void forget(struct dtri_index *x)
{
    while (x->n_undo) {
        const struct dtri_undo *undo = &x->undo[--x->n_undo];
        x->leaves[undo->leaf] = undo->was;
        expire(x, undo->leaf);
    }
}

static void hide(struct dtri_index *x, uint32_t leaf)
{
    x->leaves[leaf].hidden = true;
    expire(x, leaf);
}

int dtri_index_rank(struct dtri_sel *sel, uint32_t victim, struct dtri_candidate *out, int limit)
{
    struct dtri_index *x = &sel->index;
    struct dtri_key key;
    uint32_t leaf = leaf_of(x, victim);
    int n = 0;
    x->n_undo = 0;
    while (leaf && n < limit && remember(x, leaf)) {
        struct dtri_leaf *l = &x->leaves[leaf];
        bool in_pool = sel->graph->storages[l->storage].pool_index != 0;
        if (in_pool)
            dtri_key_of(sel, l->storage, &key);
        if (sel->walk.failed)
            break;
        if (in_pool && key.cost == l->cost && key.access == l->access) {
            out[n] = (struct dtri_candidate){.storage = l->storage,
                                             .score = dtri_key_score(sel, &key),
                                             .cost = key.cost,
                                             .neighbours = key.neighbours};
            n++;
        }
        if (!in_pool || (n && out[n - 1].storage == l->storage)) {
            hide(x, leaf);
        } else { /* too hopeful */
            set_line(sel, l, &key);
            expire(x, leaf);
        }
        renew(sel, 1);
        leaf = x->nodes[1].winner;
    }
    bool done = n == limit || !leaf;
    forget(x);
    return done ? n : -1;
}
