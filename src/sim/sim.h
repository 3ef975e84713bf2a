/* Replay of a trace on the core, on a virtual clock. */
#ifndef DTRI_SIM_SIM_H
#define DTRI_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/runtime.h"
#include "trace/trace.h"

enum dtri_outcome { DTRI_OUTCOME_OK, DTRI_OUTCOME_OUT_OF_MEMORY, DTRI_OUTCOME_THRASHED };

const char *dtri_outcome_name(enum dtri_outcome outcome); /* "ok", "out_of_memory", "thrashed" */

struct dtri_sim_options {
    const char *heuristic; /* name or plugin path; may be NULL without a budget */
    const char *search;    /* NULL: the heuristic's default */
    uint64_t seed;
    int64_t budget_bytes; /* DTR_NONE: unlimited */
    dtr_deallocation deallocation;
    bool no_release;        /* leave out all releases; what is held at the end stays the same */
    bool reclaim;           /* forget what nobody can ask for; always so for a recorded live run */
    int64_t remat_limit_ns; /* DTR_NONE: none */
    const dtr_sink *sink;   /* borrowed; NULL: no events */
};

struct dtri_sim_result {
    enum dtri_outcome outcome;
    dtr_stats stats;
    double slowdown;                /* cost of all runs over the cost of first runs */
    char why[DTR_ERROR_TEXT_BYTES]; /* for an outcome that is not ok */
};

/* Runs out of memory and thrashing are outcomes; a status other than DTR_OK is a bad option, a
 * failing heuristic or a lack of host memory.  Any number of threads may replay one trace. */
dtr_status dtri_sim_run(const struct dtri_trace *trace, const struct dtri_sim_options *options,
                        struct dtri_sim_result *out_result, dtr_error *error);

/* Peak of the trace without a budget: what shares are shares of.  What nobody can ask for again is
 * freed in it, constants too: by reclaiming for a recorded run, by banishing for an operator log,
 * as in the published evaluation. */
dtr_status dtri_sim_unlimited_peak(const struct dtri_trace *trace, int64_t *out_bytes,
                                   dtr_error *error);

#endif
