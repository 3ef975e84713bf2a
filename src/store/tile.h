/* The time pyramid: for each track, buckets of 2^18 ns * 4^level with the count of the events that
 * begin in them and the sum, least and most of their value.
 *
 * Levels are of absolute ts_ns: bucket number = floor(ts_ns / width).  A page is 256 neighbouring
 * buckets of one track and level, a row of table tile; empty buckets and pages are not stored.  All
 * tracks of a run have the same levels: from `base` to `top`, the first in which all lie in one
 * page.  The base is 0, or higher when the events are so sparse that most pages would hold only a
 * few, or below 0 when they are so dense (a logical clock) that a bucket would hold thousands.
 *
 * Written by the store's writer: a chunk that goes to the file adds to pages in memory, and a
 * commit adds those to the rows.  So a committed file's pyramid counts exactly the events in its
 * chunks, in whatever order they came. */
#ifndef DTRI_STORE_TILE_H
#define DTRI_STORE_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtr/event.h"
#include "dtr/status.h"

struct dtri_store;

/* The tracks: T(NAME, name, id, unit, meaning).  A unit of none: the track only counts.  Ids are
 * stored in files: those of event kinds are the kind's, others are from 1000; never reuse one. */
/* clang-format off */
#define DTRI_TRACKS(T)                                                                             \
    T(STORAGE, storage, 1, "bytes", "storages that came to be, with their size")                   \
    T(TENSOR, tensor, 2, NULL, "tensors that came to be")                                          \
    T(OPERATOR, operator, 3, NULL, "operators called for the first time")                          \
    T(OPERAND, operand, 4, NULL, "inputs of operators called for the first time")                  \
    T(FIRST_RUN, first_run, 5, "ns", "first runs of operators, with their duration")               \
    T(CHAIN, chain, 6, "ns", "rematerializations, with their duration")                            \
    T(ALLOCATION, allocation, 7, "bytes", "storages that became resident, with their size")        \
    T(FREEING, freeing, 8, "bytes", "storages freed for good, with the bytes given back")          \
    T(EVICTED_FOR_BUDGET, evicted_for_budget, 9, "bytes", "evictions for the budget")              \
    T(DECISION, decision, 10, "ns", "victims chosen, with the host time of the choice")            \
    T(CANDIDATE, candidate, 11, NULL, "candidates of decisions")                                   \
    T(REFERENCE, reference, 12, NULL, "external references that came or went")                     \
    T(PIN, pin, 13, NULL, "tensors pinned, unpinned or made constants")                            \
    T(BUDGET, budget, 14, "bytes", "changes of the budget, with the new one")                      \
    T(OUT_OF_MEMORY, out_of_memory, 15, "bytes", "operators that did not fit, with their need")    \
    T(MARK, mark, 16, NULL, "marks of iterations, phases and ranges")                              \
    T(OVERHEAD, overhead, 17, "ns", "host time that dtrscope itself took")                         \
    T(FRAME, frame, 18, NULL, "frames of call stacks")                                             \
    T(ORIGIN, origin, 19, NULL, "origins of operators")                                            \
    T(SIGNATURE, signature, 20, NULL, "signatures of operators")                                   \
    T(ALLOCATOR, allocator, 21, "bytes", "looks at the allocator, with what it holds")             \
    T(BARRIER, barrier, 22, "ns", "barriers, with their duration")                                 \
    T(HAZARD, hazard, 23, NULL, "what cannot be replayed safely")                                  \
    T(REPLAY, replay, 1000, "ns", "replays of operators, with their duration")                     \
    T(EVICTED_OTHERWISE, evicted_otherwise, 1001, "bytes", "evictions for other reasons")          \
    T(IN_USE, in_use, 1002, "bytes", "bytes in use after each allocation, freeing and eviction")
/* clang-format on */

enum dtri_track {
#define DTRI_TRACK_ENUM(NAME, name, id, unit, meaning) DTRI_TRACK_##NAME = (id),
    DTRI_TRACKS(DTRI_TRACK_ENUM)
#undef DTRI_TRACK_ENUM
};

struct dtri_track_info {
    int id;
    const char *name, *unit, *meaning; /* unit may be NULL */
};
const struct dtri_track_info *dtri_track_infos(int *out_n);
const struct dtri_track_info *dtri_track_info_of(int64_t id); /* NULL: none of ours */

#define DTRI_TILE_SHIFT     18 /* log2 of the width of a bucket of level 0, in ns */
#define DTRI_TILE_PAGE      256
#define DTRI_TILE_LEVEL_MIN (-9)   /* buckets of 1 ns */
#define DTRI_TILE_LEVEL_MAX 22     /* two buckets hold all times from 0 on */
#define DTRI_TILE_NONE      (-100) /* no level */

/* log2 of a bucket's width in ns. */
static inline int dtri_tile_shift(int level)
{
    return DTRI_TILE_SHIFT + 2 * level;
}

/* One bucket that is not empty.  A negative value (DTR_NONE, that is) counts as 0; `total` stops at
 * INT64_MAX.  Tracks without a unit have 0 in total, least and most. */
struct dtri_tile {
    int64_t ts_ns; /* where it begins */
    int64_t n, total, least, most;
};

/* --- reading ---------------------------------------------------------------------------------- */

/* The finest level of which at most `max_buckets` (>= 2) buckets touch [ts_min, ts_max], whether or
 * not a run has it. */
int dtri_tile_level(int64_t ts_min, int64_t ts_max, int64_t max_buckets);

/* *out_base is DTRI_TILE_NONE when the run has no tiles: no events, or a file of version 1. */
dtr_status dtri_tiles_levels(struct dtri_store *store, int64_t run, int *out_base, int *out_top,
                             dtr_error *error);

/* What to draw [ts_min, ts_max] from: the finest level of the run with at most `max_buckets`, or
 * DTRI_TILE_NONE when the tiles are too coarse (or missing) and the events themselves should be
 * read from their chunks. */
dtr_status dtri_tiles_pick(struct dtri_store *store, int64_t run, int64_t ts_min, int64_t ts_max,
                           int64_t max_buckets, int *out_level, dtr_error *error);

/* Zero-initialize; free `tiles` with dtri_free.  The memory is kept from one read to the next. */
struct dtri_tile_list {
    struct dtri_tile *tiles;
    size_t n, cap;
};

/* The buckets that touch [ts_min, ts_max], in order of time; replaces the list.  A level above the
 * run's top is put together from the top; one below its base gives DTR_E_NOT_FOUND.
 * DTR_E_FORMAT names a damaged page. */
dtr_status dtri_tiles_read(struct dtri_store *store, int64_t run, int64_t track, int level,
                           int64_t ts_min, int64_t ts_max, struct dtri_tile_list *list,
                           dtr_error *error);

/* --- from the events -------------------------------------------------------------------------- */

/* Makes the tiles of a run anew from its chunks; the caller commits. */
dtr_status dtri_tiles_build(struct dtri_store *store, int64_t run, dtr_error *error);

/* Compares a run's tiles with what its chunks say, in bounded memory (a temporary file), and tells
 * of each page that is "missing", "differs", "damaged" or "has no events".  The store may be open
 * for reading.  *out_faults counts them.  A file of version 1 has no tiles to be wrong. */
typedef void (*dtri_tile_fault)(void *user, int64_t track, int level, int64_t page,
                                const char *what);
dtr_status dtri_tiles_verify(struct dtri_store *store, int64_t run, dtri_tile_fault fault,
                             void *user, int64_t *out_faults, dtr_error *error);

#endif
