/* Inside the selectors: what a heuristic's score is made of, and the searches.
 *
 * Every built-in heuristic but `lru` and `random` is one quotient,
 *
 *     cost / (bytes or 1) / (staleness or 1),
 *
 * and they differ in which cost, and in which factors are there.  A heuristic is therefore a row of
 * a table (registry.c); the costs are computed by neighbourhood.c and eqclass.c, and the searches
 * (scan.c, sample.c, index.c) work on any row. */
#ifndef DTRI_HEURISTIC_HEURISTIC_H
#define DTRI_HEURISTIC_HEURISTIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "core/core.h"
#include "dtr/heuristic.h"

enum dtri_cost_kind {
    DTRI_COST_NONE,          /* 1 */
    DTRI_COST_LOCAL,         /* own cost */
    DTRI_COST_ANCESTORS,     /* own, and that of evicted ancestors */
    DTRI_COST_NEIGHBOURHOOD, /* own, evicted ancestors and evicted descendants */
    DTRI_COST_CLASSES,       /* own, and the classes of evicted neighbours */
};

enum dtri_formula {
    DTRI_FORMULA_QUOTIENT,
    DTRI_FORMULA_LAST_ACCESS,
    DTRI_FORMULA_RANDOM,
    DTRI_FORMULA_PLUGIN,
};

struct dtri_heuristic {
    const char *name;
    const char *description;
    enum dtri_formula formula;
    enum dtri_cost_kind cost;
    bool by_bytes, by_staleness;
    bool neighbourhood_access; /* staleness counts from the latest access in the neighbourhood */
};

/* What a score is computed from, for one candidate at one time. */
struct dtri_key {
    int64_t cost;
    int64_t bytes;      /* 1 where the heuristic does not look at the size */
    int64_t access;     /* effective last access */
    int64_t neighbours; /* evicted storages counted in the cost; DTR_NONE: not looked at */
};

/* --- neighbourhood.c: sums over evicted storages ---------------------------------------------- */

struct dtri_step {
    uint32_t storage;
    bool sees_new; /* see neighbourhood.c */
};

struct dtri_walk {
    struct dtri_step *stack;
    size_t n, cap;
    bool failed; /* out of memory: the sum or border was not complete */
};

struct dtri_sum {
    int64_t cost;
    int64_t count;
    int64_t latest; /* newest last access, DTRI_NEVER if there is none */
};

enum dtri_direction { DTRI_UP, DTRI_DOWN }; /* towards inputs, towards outputs */

/* Adds up the evicted storages that can be reached from `storage` over evicted ones. */
void dtri_walk_sum(struct dtri_graph *g, struct dtri_walk *walk, uint32_t storage,
                   enum dtri_direction direction, struct dtri_sum *sum);
/* Calls `found` for every storage that is not evicted at the border of that walk; one that borders
 * twice may be found twice. */
void dtri_walk_border(struct dtri_graph *g, struct dtri_walk *walk, uint32_t storage,
                      enum dtri_direction direction, void (*found)(void *user, uint32_t storage),
                      void *user);
void dtri_walk_done(struct dtri_walk *walk);

/* --- eqclass.c: classes of evicted storages --------------------------------------------------- */

struct dtri_class {
    int64_t value;
    uint32_t first; /* member */
    uint32_t n;     /* members; 0: the slot is free */
    uint32_t visit;
    uint32_t next_free;
};

struct dtri_member {
    uint32_t class; /* 0: in none */
    uint32_t prev, next;
};

struct dtri_classes {
    struct dtri_class *classes;
    size_t n_classes, cap_classes;
    struct dtri_member *members; /* by storage */
    size_t cap_members;
    uint32_t free_class, visit;
    uint32_t
        n_negative;   /* classes below 0, which a view made while its storage is away can cause */
    int64_t decrease; /* sum of all that was ever taken off a class's value */
    bool failed;
};

void dtri_classes_done(struct dtri_classes *classes);
/* Makes the classes usable again after `failed`; false when there still is no memory. */
bool dtri_classes_rebuild(struct dtri_classes *, struct dtri_graph *);
void dtri_classes_created(struct dtri_classes *, struct dtri_graph *, uint32_t storage);
void dtri_classes_evicted(struct dtri_classes *, struct dtri_graph *, uint32_t storage);
void dtri_classes_returned(struct dtri_classes *, struct dtri_graph *, uint32_t storage);
void dtri_classes_cheaper(struct dtri_classes *, uint32_t storage, int64_t cost);
/* Sum over the distinct classes of the evicted neighbours of a resident storage. */
int64_t dtri_classes_cost(struct dtri_classes *, const struct dtri_graph *, uint32_t storage,
                          int64_t *out_neighbours);

/* --- index.c: the kinetic tournament ---------------------------------------------------------- */

struct dtri_leaf {
    double slope; /* bytes / cost: how fast the inverse score grows */
    double score; /* where it does not depend on the time */
    int64_t cost, bytes, access;
    uint64_t seq;
    uint32_t storage; /* 0: the leaf is empty */
    uint32_t next_free;
    uint32_t stamp; /* of the entry in `limits` that counts */
    bool queued;    /* waits to be refreshed; kept when the leaf is used anew */
    bool reset;     /* its cost may have shrunk since it was computed */
    bool tight;     /* is in the list of tight leaves; kept when the leaf is used anew */
    bool hidden;    /* while runners-up are sought: it does not take part */
};

/* A leaf whose cost was taken too low by some slack, which is used up once the decreases of all
 * classes together pass `limit`. */
struct dtri_limit {
    int64_t limit;
    uint32_t leaf, stamp;
};

struct dtri_undo {
    uint32_t leaf;
    struct dtri_leaf was;
};

struct dtri_node {
    int64_t expiry;  /* the winner stands until then */
    uint32_t winner; /* leaf, 0 is none */
};

struct dtri_index {
    struct dtri_leaf *leaves;  /* slot 0 is none */
    struct dtri_node *nodes;   /* heap order from 1; leaves are nodes n_slots.. */
    uint32_t *leaf_of;         /* by storage */
    uint32_t *queue;           /* leaves to refresh */
    uint32_t *tight;           /* leaves without slack, since they won in the last pick */
    struct dtri_limit *limits; /* heap, the least first */
    struct dtri_undo *undo;    /* leaves as they were before runners-up were sought */
    size_t n_leaves, cap_leaves, n_slots, cap_leaf_of, n_queue, cap_queue;
    size_t n_tight, cap_tight, n_limits, cap_limits, n_undo, cap_undo;
    int64_t tight_decrease; /* classes.decrease when they became tight */
    uint32_t free_leaf;
    bool failed;
};

/* --- selector.c ------------------------------------------------------------------------------- */

enum dtri_search { DTRI_SEARCH_SCAN, DTRI_SEARCH_INDEX, DTRI_SEARCH_SAMPLE };

struct dtri_sel {
    struct dtr_selector base;
    struct dtri_graph *graph;
    struct dtri_heuristic rule;
    enum dtri_search search;
    struct dtri_rng rng;
    struct dtri_walk walk;
    struct dtri_classes classes;
    struct dtri_index index;
    const dtr_heuristic_plugin *plugin;
    void *plugin_state, *plugin_library;
    char *plugin_name;
    int64_t mean_bytes_sum, mean_bytes_n; /* over all storages ever made, for `sample` */
    uint32_t nan_storage;                 /* a candidate to which the plugin gave NaN, or 0 */
};

/* The key of a candidate now, and the score that belongs to a key. */
void dtri_key_of(struct dtri_sel *sel, uint32_t storage, struct dtri_key *out_key);
double dtri_key_score(const struct dtri_sel *sel, const struct dtri_key *key);
/* Both at once, plugins included. */
double dtri_score_of(struct dtri_sel *sel, uint32_t storage, struct dtri_key *out_key);

const struct dtri_heuristic *dtri_heuristic_find(const char *name);

/* The searches.  All return the victim (0 only when memory ran out) and count scores computed. */
uint32_t dtri_scan_pick(struct dtri_sel *sel, int64_t *out_evaluations);
uint32_t dtri_sample_pick(struct dtri_sel *sel, int64_t *out_evaluations);
uint32_t dtri_index_pick(struct dtri_sel *sel, int64_t *out_evaluations);
/* After a pick that chose `victim`: it and the next best, out[0..limit), as `scan` would go on.
 * Returns how many there are, and leaves the index as it was; -1 when there was no memory. */
int dtri_index_rank(struct dtri_sel *sel, uint32_t victim, struct dtri_candidate *out, int limit);
void dtri_index_entered(struct dtri_sel *sel, uint32_t storage);
/* The cost of `storage`, if it has a leaf, may have shrunk. */
void dtri_index_reset(struct dtri_sel *sel, uint32_t storage);
void dtri_index_gone(struct dtri_sel *sel, uint32_t storage);
void dtri_index_done(struct dtri_index *index);

/* plugin.c */
dtr_status dtri_plugin_load(struct dtri_sel *sel, const char *path, uint64_t seed,
                            dtr_error *error);
void dtri_plugin_unload(struct dtri_sel *sel);
double dtri_plugin_score(struct dtri_sel *sel, uint32_t storage, struct dtri_key *out_key);

#endif
