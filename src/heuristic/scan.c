/* The reference search: every candidate, in the order in which they entered the pool.  The last one
 * with a score not above the best so far wins, and a score of exactly 0 ends the scan, as in the
 * published simulator. */
#include <math.h>

#include "heuristic/heuristic.h"

uint32_t dtri_scan_pick(struct dtri_sel *sel, int64_t *out_evaluations)
{
    struct dtri_graph *g = sel->graph;
    uint32_t best = DTRI_NONE;
    double best_score = INFINITY;
    int64_t evaluations = 0;
    for (uint32_t s = g->pool_first; s; s = g->storages[s].pool_next) {
        struct dtri_key key;
        double score = dtri_score_of(sel, s, &key);
        evaluations++;
        if (score <= best_score) {
            best = s;
            best_score = score;
        }
        if (score == 0.0)
            break;
    }
    *out_evaluations = evaluations;
    return best;
}
