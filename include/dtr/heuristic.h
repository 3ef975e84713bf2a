/* Heuristics: the built-in ones by name, and the plugin interface for your own.
 *
 * A heuristic returns a cost for an evictable storage; the lowest is evicted, and of equal ones the
 * storage that entered the pool last.  A selector is a heuristic joined to a search: `scan`
 * computes every candidate's score (the reference), `index` finds the same victim in logarithmic
 * time, and `sample` looks at sqrt(n) random candidates, as the prototype of the paper does. */
#ifndef DTR_HEURISTIC_H
#define DTR_HEURISTIC_H

#include <stdint.h>

#include "dtr/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a heuristic may know of a candidate.  Times are on the logical clock, which is 1 at the
 * start and grows by the cost of every operator run. */
typedef struct dtr_factors {
    int64_t storage;          /* id, as in events */
    int64_t bytes;            /* size of the storage */
    int64_t local_cost_ns;    /* sum of the costs of the distinct operators that made its tensors */
    int64_t last_access_ns;   /* INT64_MIN before the first access */
    int64_t clock_ns;         /* now */
    int64_t staleness_ns;     /* clock - last access; INT64_MAX before the first access */
    int64_t ancestor_cost_ns; /* over evicted storages reached through inputs (NEEDS_ANCESTORS) */
    int64_t
        descendant_cost_ns; /* over evicted storages reached through outputs (NEEDS_DESCENDANTS) */
    int64_t class_cost_ns;  /* over the distinct classes of evicted neighbours (NEEDS_CLASSES) */
    int64_t neighbours;     /* evicted storages counted above; DTR_NONE where nothing was asked */
    int64_t latest_neighbour_access_ns; /* newest last access among those evicted neighbours and the
                                           storage itself (NEEDS_ANCESTORS or NEEDS_DESCENDANTS) */
    int64_t references;                 /* external references to the storage's tensors */
} dtr_factors;

#define DTR_HEURISTIC_NEEDS_ANCESTORS   1u
#define DTR_HEURISTIC_NEEDS_DESCENDANTS 2u
#define DTR_HEURISTIC_NEEDS_CLASSES     4u

#define DTR_HEURISTIC_PLUGIN_VERSION 1u

/* A plugin is a shared object that exports
 *
 *     const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void);
 *
 * All functions are called from the thread that uses the runtime; the simulator calls `create` once
 * per run and runs in several threads at once, so keep state in what `create` returns. */
typedef struct dtr_heuristic_plugin {
    uint32_t version; /* DTR_HEURISTIC_PLUGIN_VERSION */
    uint32_t size;    /* sizeof(dtr_heuristic_plugin) */
    const char *name; /* shown in files and pictures: [a-z0-9-]+ */
    uint32_t needs;   /* DTR_HEURISTIC_NEEDS_*: only these factors are computed, others are 0 */
    /* NULL slots: no state. */
    void *(*create)(uint64_t seed); /* NULL result: out of memory */
    void (*destroy)(void *state);
    /* The cost of a candidate, any double but NaN, which ends the run with DTR_E_HEURISTIC. */
    double (*cost)(void *state, const dtr_factors *factors);
} dtr_heuristic_plugin;

typedef const dtr_heuristic_plugin *(*dtr_heuristic_plugin_get_fn)(void);
#define DTR_HEURISTIC_PLUGIN_SYMBOL "dtr_heuristic_plugin_get"

/* The built-in heuristics: name and one line of description, in the order in which to show them.
 * Returns NULL when `index` is past the end.  Static storage; any thread. */
DTR_API const char *dtr_heuristic_name(int index);
DTR_API const char *dtr_heuristic_description(const char *name);

typedef struct dtr_selector dtr_selector;

typedef struct dtr_selector_options {
    const char
        *heuristic;     /* a built-in name, or the path of a plugin (it has a '/' or ends in .so) */
    const char *search; /* "scan", "index" or "sample"; NULL: index, or scan where the heuristic
                           has no index (plugins) */
    uint64_t seed;      /* for `random` and `sample` */
} dtr_selector_options;

/* Makes a selector for one runtime.  An unknown name gives DTR_E_NOT_FOUND and a text that lists
 * the known ones; a plugin that does not load gives DTR_E_FORMAT and the loader's reason.  The
 * caller owns *out_selector until a runtime takes it; free accepts NULL. */
DTR_API dtr_status dtr_selector_new(const dtr_selector_options *options,
                                    dtr_selector **out_selector, dtr_error *error);
DTR_API void dtr_selector_free(dtr_selector *selector);
/* Names in force: the plugin's own name, and the search chosen.  Borrowed from the selector. */
DTR_API const char *dtr_selector_heuristic(const dtr_selector *selector);
DTR_API const char *dtr_selector_search(const dtr_selector *selector);

#ifdef __cplusplus
}
#endif
#endif
