/* The search of the paper's prototype (Kirisame et al., E.2): the best of sqrt(n) candidates drawn
 * at random, with storages below 1 % of the mean size of all tensors left out.  Where only small
 * ones are left they are taken after all; the prototype would search for ever. */
#include <math.h>

#include "heuristic/heuristic.h"

/* Moves a random candidate out of dense[from..n) to dense[from], so that draws do not repeat. */
static uint32_t draw(struct dtri_sel *sel, size_t from)
{
    struct dtri_graph *g = sel->graph;
    size_t at = from + dtri_rng_below(&sel->rng, g->n_pool - from);
    uint32_t drawn = g->dense[at], moved = g->dense[from];
    g->dense[at] = moved;
    g->storages[moved].pool_index = (uint32_t)at + 1;
    g->dense[from] = drawn;
    g->storages[drawn].pool_index = (uint32_t)from + 1;
    return drawn;
}

static bool is_small(const struct dtri_sel *sel, uint32_t storage)
{
    double mean = (double)sel->mean_bytes_sum / (double)sel->mean_bytes_n;
    return (double)sel->graph->storages[storage].bytes < 0.01 * mean;
}

uint32_t dtri_sample_pick(struct dtri_sel *sel, int64_t *out_evaluations)
{
    struct dtri_graph *g = sel->graph;
    size_t want = (size_t)ceil(sqrt((double)g->n_pool));
    uint32_t best = DTRI_NONE;
    double best_score = INFINITY;
    int64_t evaluations = 0;
    for (int with_small = 0; best == DTRI_NONE && with_small < 2; with_small++) {
        for (size_t i = 0; i < g->n_pool && (size_t)evaluations < want; i++) {
            uint32_t s = draw(sel, i);
            struct dtri_key key;
            if (!with_small && is_small(sel, s))
                continue;
            double score = dtri_score_of(sel, s, &key);
            evaluations++;
            if (score <= best_score) {
                best = s;
                best_score = score;
            }
        }
    }
    *out_evaluations = evaluations;
    return best;
}
