/* Statistics of one recorded run, computed from its events. */
#ifndef DTRI_ANALYZE_STATS_H
#define DTRI_ANALYZE_STATS_H

#include "store/store.h"

#define DTRI_TOP 10

/* A tensor's operator that was replayed, and what that cost. */
struct dtri_remade {
    int64_t op;
    int64_t name;   /* NAME id */
    int64_t tensor; /* the one asked for most recently */
    int64_t replays, cost_ns;
    char text[96]; /* the operator's name */
};

#define DTRI_NOTES 32

/* Why histories were cut, or why something is kept; all of one cause. */
struct dtri_note {
    int64_t name;
    int64_t count, tensors, replays, ns; /* the last three of barriers */
    bool hazard;
    char text[160];
};

struct dtri_run_stats {
    /* Host time, or logical time of a simulated run. */
    int64_t first_ns, replay_ns, search_ns, record_ns, other_ns, total_ns;
    int64_t first_runs, replays;
    int64_t evictions, eager_evictions, other_evictions, freed;
    int64_t peak_in_use, peak_resident; /* with and without doubled outputs */
    int64_t chains, deepest_chain, longest_chain_runs;
    int64_t decisions, tied_decisions, candidates; /* candidates: sum over decisions */
    int64_t out_of_memory, overshoots;
    struct dtri_remade top[DTRI_TOP]; /* by replays, then cost */
    int n_top;
    struct dtri_note notes[DTRI_NOTES]; /* barriers, then hazards, each the most frequent first;
                                           causes beyond are counted in the last one */
    int n_notes;
    int64_t allocator_looks, widest_gap; /* most bytes of the allocator beyond those counted */
};

dtr_status dtri_stats_compute(struct dtri_store *store, const struct dtri_run *run,
                              struct dtri_run_stats *out_stats, dtr_error *error);

#endif
