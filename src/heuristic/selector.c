/* A selector: a heuristic joined to a search, kept up to date by the core's hooks. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "heuristic/heuristic.h"
#include "heuristic/score.h"

static struct dtri_sel *sel_of(dtr_selector *selector)
{
    return (struct dtri_sel *)selector;
}

static bool uses_classes(const struct dtri_sel *sel)
{
    return sel->rule.cost == DTRI_COST_CLASSES ||
           (sel->plugin && (sel->plugin->needs & DTR_HEURISTIC_NEEDS_CLASSES));
}

static bool indexed(const struct dtri_sel *sel)
{
    return sel->search == DTRI_SEARCH_INDEX && sel->rule.formula != DTRI_FORMULA_RANDOM;
}

/* --- keys and scores -------------------------------------------------------------------------- */

void dtri_key_of(struct dtri_sel *sel, uint32_t storage, struct dtri_key *out_key)
{
    struct dtri_graph *g = sel->graph;
    const struct dtri_storage *s = &g->storages[storage];
    struct dtri_key key = {
        .cost = s->local_cost,
        .bytes = sel->rule.by_bytes ? s->bytes : 1,
        .access = s->last_access,
        .neighbours = DTR_NONE,
    };
    struct dtri_sum sum = {.latest = s->last_access};
    switch (sel->rule.cost) {
    case DTRI_COST_NONE:
        key.cost = 1;
        break;
    case DTRI_COST_LOCAL:
        break;
    case DTRI_COST_NEIGHBOURHOOD:
        dtri_walk_sum(g, &sel->walk, storage, DTRI_DOWN, &sum);
        /* fall through */
    case DTRI_COST_ANCESTORS:
        dtri_walk_sum(g, &sel->walk, storage, DTRI_UP, &sum);
        key.cost += sum.cost;
        key.neighbours = sum.count;
        break;
    case DTRI_COST_CLASSES:
        key.cost += dtri_classes_cost(&sel->classes, g, storage, &key.neighbours);
        break;
    }
    if (sel->rule.neighbourhood_access)
        key.access = sum.latest;
    *out_key = key;
}

double dtri_key_score(const struct dtri_sel *sel, const struct dtri_key *key)
{
    if (sel->rule.formula == DTRI_FORMULA_LAST_ACCESS)
        return (double)key->access;
    if (!sel->rule.by_staleness)
        return dtri_quotient(key->cost, key->bytes, 1);
    if (key->access == DTRI_NEVER)
        return 0.0; /* infinitely stale */
    return dtri_quotient(key->cost, key->bytes, sel->graph->clock - key->access);
}

double dtri_score_of(struct dtri_sel *sel, uint32_t storage, struct dtri_key *out_key)
{
    if (sel->plugin)
        return dtri_plugin_score(sel, storage, out_key);
    dtri_key_of(sel, storage, out_key);
    return dtri_key_score(sel, out_key);
}

/* --- hooks ------------------------------------------------------------------------------------ */

static void attach(dtr_selector *selector, struct dtri_graph *graph)
{
    sel_of(selector)->graph = graph;
}

static bool needs_edges(const dtr_selector *selector)
{
    const struct dtri_sel *sel = (const struct dtri_sel *)selector;
    return sel->rule.cost >= DTRI_COST_ANCESTORS || (sel->plugin && sel->plugin->needs);
}

static void created(dtr_selector *selector, uint32_t storage)
{
    struct dtri_sel *sel = sel_of(selector);
    sel->mean_bytes_sum += sel->graph->storages[storage].bytes;
    sel->mean_bytes_n++;
    if (uses_classes(sel))
        dtri_classes_created(&sel->classes, sel->graph, storage);
}

static void entered(dtr_selector *selector, uint32_t storage)
{
    if (indexed(sel_of(selector)))
        dtri_index_entered(sel_of(selector), storage);
}

static void left(dtr_selector *selector, uint32_t storage)
{
    (void)selector; /* the index notices when such a leaf wins */
    (void)storage;
}

static void evicted(dtr_selector *selector, uint32_t storage)
{
    struct dtri_sel *sel = sel_of(selector);
    if (indexed(sel)) /* while it is away, nobody tells its leaf what changes */
        dtri_index_gone(sel, storage);
    if (uses_classes(sel))
        dtri_classes_evicted(&sel->classes, sel->graph, storage);
}

/* `storage` sees something below it, or above it, come back: its sum in that direction is another.
 */
static void sum_anew(struct dtri_sel *sel, uint32_t storage, enum dtri_direction direction)
{
    sel->graph->storages[storage].summed[direction] = sel->graph->call;
    if (indexed(sel))
        dtri_index_reset(sel, storage);
}

static void sum_down_anew(void *user, uint32_t storage)
{
    sum_anew(user, storage, DTRI_DOWN);
}

static void sum_up_anew(void *user, uint32_t storage)
{
    sum_anew(user, storage, DTRI_UP);
}

/* The neighbours of `storage`: they may lose the class that they share with it.  Whoever knows the
 * class through another member only sees it shrink, for which the index keeps some slack. */
static void reset_neighbours(struct dtri_sel *sel, uint32_t storage)
{
    const struct dtri_graph *g = sel->graph;
    for (uint32_t e = g->storages[storage].parents; e; e = g->edges[e].next_parent)
        dtri_index_reset(sel, g->edges[e].parent);
    for (uint32_t e = g->storages[storage].children; e; e = g->edges[e].next_child)
        dtri_index_reset(sel, g->edges[e].child);
}

/* Tells all candidates whose cost counts `storage`, or did until just now. */
static void change_around(struct dtri_sel *sel, uint32_t storage)
{
    switch (sel->rule.cost) {
    case DTRI_COST_NEIGHBOURHOOD: /* it is a descendant of those above, an ancestor of those below
                                   */
        dtri_walk_border(sel->graph, &sel->walk, storage, DTRI_UP, sum_down_anew, sel);
        /* fall through */
    case DTRI_COST_ANCESTORS:
        dtri_walk_border(sel->graph, &sel->walk, storage, DTRI_DOWN, sum_up_anew, sel);
        break;
    case DTRI_COST_CLASSES:
        if (indexed(sel))
            reset_neighbours(sel, storage);
        break;
    case DTRI_COST_NONE:
    case DTRI_COST_LOCAL:
        break;
    }
}

static void returned(dtr_selector *selector, uint32_t storage)
{
    struct dtri_sel *sel = sel_of(selector);
    change_around(sel, storage);
    if (uses_classes(sel))
        dtri_classes_returned(&sel->classes, sel->graph, storage);
}

static void cheaper(dtr_selector *selector, uint32_t storage, int64_t cost)
{
    struct dtri_sel *sel = sel_of(selector);
    change_around(sel, storage);
    if (indexed(sel))
        dtri_index_reset(sel, storage);
    if (uses_classes(sel))
        dtri_classes_cheaper(&sel->classes, storage, cost);
}

static void gone(dtr_selector *selector, uint32_t storage)
{
    struct dtri_sel *sel = sel_of(selector);
    if (dtri_is_evicted(&sel->graph->storages[storage]))
        returned(selector, storage);
    if (indexed(sel))
        dtri_index_gone(sel, storage);
}

/* --- picking ---------------------------------------------------------------------------------- */

static uint32_t search(struct dtri_sel *sel, int64_t *out_evaluations)
{
    struct dtri_graph *g = sel->graph;
    if (sel->rule.formula == DTRI_FORMULA_RANDOM) {
        *out_evaluations = 1;
        return g->dense[dtri_rng_below(&sel->rng, g->n_pool)];
    }
    if (sel->search == DTRI_SEARCH_SAMPLE)
        return dtri_sample_pick(sel, out_evaluations);
    if (sel->search == DTRI_SEARCH_INDEX && !sel->index.failed && sel->classes.n_negative == 0)
        return dtri_index_pick(sel, out_evaluations);
    return dtri_scan_pick(sel, out_evaluations);
}

/* After a lack of memory: classes and index anew.  Classes are needed, the index is not, since
 * `scan` finds the same victim. */
static bool recover(struct dtri_sel *sel)
{
    struct dtri_graph *g = sel->graph;
    sel->walk.failed = false;
    if (sel->classes.failed) {
        if (!dtri_classes_rebuild(&sel->classes, g))
            return false;
        sel->index.failed = true;
    }
    if (sel->index.failed) {
        dtri_index_done(&sel->index);
        sel->index = (struct dtri_index){0};
        for (uint32_t s = g->pool_first; s; s = g->storages[s].pool_next)
            entered(&sel->base, s);
    }
    return true;
}

static dtr_status pick(dtr_selector *selector, uint32_t *out_storage, int64_t *out_evaluations,
                       dtr_error *error)
{
    struct dtri_sel *sel = sel_of(selector);
    *out_evaluations = 0;
    if (!recover(sel))
        return dtri_fail_nomem(error, "the search for a victim");
    uint32_t victim = search(sel, out_evaluations);
    if (sel->walk.failed)
        return dtri_fail_nomem(error, "a walk over evicted tensors");
    if (sel->nan_storage)
        return dtri_fail(error, DTR_E_HEURISTIC, 0,
                         "heuristic %s returned NaN for storage %lld (%lld bytes)", sel->rule.name,
                         (long long)sel->graph->storages[sel->nan_storage].id,
                         (long long)sel->graph->storages[sel->nan_storage].bytes);
    *out_storage = victim;
    return DTR_OK;
}

/* `scan` prefers a, of two candidates with these scores. */
static bool ranks_before(const struct dtri_sel *sel, const struct dtri_candidate *a,
                         const struct dtri_candidate *b)
{
    uint64_t seq_a = sel->graph->storages[a->storage].pool_seq;
    uint64_t seq_b = sel->graph->storages[b->storage].pool_seq;
    if (a->score != b->score)
        return a->score < b->score;
    return a->score == 0.0 ? seq_a < seq_b : seq_a > seq_b;
}

static int insert_ranked(const struct dtri_sel *sel, struct dtri_candidate *out, int n, int limit,
                         const struct dtri_candidate *candidate)
{
    int at = n;
    while (at > 1 && ranks_before(sel, candidate, &out[at - 1]))
        at--;
    if (at == limit)
        return n;
    if (n < limit)
        n++;
    memmove(&out[at + 1], &out[at], (size_t)(n - at - 1) * sizeof *out);
    out[at] = *candidate;
    return n;
}

/* A pool that is looked through faster than a tournament is played again. */
#define SMALL_POOL 16

static int rank(dtr_selector *selector, uint32_t victim, struct dtri_candidate *out, int limit)
{
    struct dtri_sel *sel = sel_of(selector);
    struct dtri_graph *g = sel->graph;
    int n = 1;
    if (sel->search == DTRI_SEARCH_INDEX && !sel->index.failed && sel->classes.n_negative == 0 &&
        g->n_pool > SMALL_POOL && sel->rule.formula != DTRI_FORMULA_RANDOM) {
        int found = dtri_index_rank(sel, victim, out, limit);
        if (found > 0)
            return found;
    }
    for (uint32_t s = g->pool_first; s; s = g->storages[s].pool_next) {
        struct dtri_key key;
        struct dtri_candidate candidate = {.storage = s};
        if (sel->rule.formula == DTRI_FORMULA_RANDOM && s != victim)
            continue; /* the others have no score */
        candidate.score = dtri_score_of(sel, s, &key);
        candidate.cost = key.cost;
        candidate.neighbours = key.neighbours;
        if (s == victim)
            out[0] = candidate;
        else
            n = insert_ranked(sel, out, n, limit, &candidate);
    }
    return n;
}

static void sel_free(dtr_selector *selector)
{
    struct dtri_sel *sel = sel_of(selector);
    dtri_plugin_unload(sel);
    dtri_walk_done(&sel->walk);
    dtri_classes_done(&sel->classes);
    dtri_index_done(&sel->index);
    dtri_free(sel);
}

static const struct dtri_selector_ops ops = {
    .attach = attach,
    .needs_edges = needs_edges,
    .created = created,
    .entered = entered,
    .left = left,
    .evicted = evicted,
    .returned = returned,
    .cheaper = cheaper,
    .gone = gone,
    .pick = pick,
    .rank = rank,
    .free = sel_free,
};

/* --- making one ------------------------------------------------------------------------------- */

static const char *const search_names[] = {
    [DTRI_SEARCH_SCAN] = "scan",
    [DTRI_SEARCH_INDEX] = "index",
    [DTRI_SEARCH_SAMPLE] = "sample",
};

static dtr_status unknown_heuristic(const char *name, dtr_error *error)
{
    char known[384] = "";
    size_t used = 0;
    for (int i = 0; dtr_heuristic_name(i); i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 dtr_heuristic_name(i));
    return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                     "there is no heuristic '%.64s'; there are %s, and plugins by path (./mine.so)",
                     name, known);
}

static bool is_path(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 3 && strcmp(name + n - 3, ".so") == 0);
}

static dtr_status set_heuristic(struct dtri_sel *sel, const dtr_selector_options *options,
                                dtr_error *error)
{
    if (!options->heuristic || !options->heuristic[0])
        return dtri_fail(error, DTR_E_INVALID, 0, "no heuristic was named");
    if (is_path(options->heuristic))
        return dtri_plugin_load(sel, options->heuristic, options->seed, error);
    const struct dtri_heuristic *found = dtri_heuristic_find(options->heuristic);
    if (!found)
        return unknown_heuristic(options->heuristic, error);
    sel->rule = *found;
    return DTR_OK;
}

static dtr_status set_search(struct dtri_sel *sel, const char *name, dtr_error *error)
{
    sel->search = sel->plugin ? DTRI_SEARCH_SCAN : DTRI_SEARCH_INDEX;
    if (!name)
        return DTR_OK;
    for (int i = 0; i < 3; i++) {
        if (strcmp(search_names[i], name) != 0)
            continue;
        if (i == DTRI_SEARCH_INDEX && sel->plugin)
            return dtri_fail(error, DTR_E_UNSUPPORTED, 0,
                             "plugins have no index, since nothing is known of how their scores "
                             "change; use --search scan or sample");
        sel->search = (enum dtri_search)i;
        return DTR_OK;
    }
    return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                     "there is no search '%.64s'; there are scan, index and sample", name);
}

dtr_status dtr_selector_new(const dtr_selector_options *options, dtr_selector **out_selector,
                            dtr_error *error)
{
    struct dtri_sel *sel = dtri_calloc(1, sizeof *sel);
    if (!sel)
        return dtri_fail_nomem(error, "a selector");
    sel->base.ops = &ops;
    dtri_rng_seed(&sel->rng, options->seed);
    dtr_status status = set_heuristic(sel, options, error);
    if (status == DTR_OK)
        status = set_search(sel, options->search, error);
    if (status != DTR_OK) {
        sel_free(&sel->base);
        return status;
    }
    *out_selector = &sel->base;
    return DTR_OK;
}

void dtr_selector_free(dtr_selector *selector)
{
    if (selector)
        selector->ops->free(selector);
}

const char *dtr_selector_heuristic(const dtr_selector *selector)
{
    return ((const struct dtri_sel *)selector)->rule.name;
}

const char *dtr_selector_search(const dtr_selector *selector)
{
    return search_names[((const struct dtri_sel *)selector)->search];
}
