/* What the readers of an import share: names, frames, lanes, and the way to the records. */
#ifndef DTRI_IMPORT_CONTEXT_H
#define DTRI_IMPORT_CONTEXT_H

#include <stdbool.h>

#include "base/intern.h"
#include "dtr/event.h"
#include "import/frames.h"
#include "import/import.h"
#include "import/live.h"
#include "import/spool.h"
#include "store/store.h"

/* What is left out or mended, one row a reason: L lost (a row of table loss), N only told. */
/* clang-format off */
#define DTRI_IMPORT_REASONS(L, N)                                                                  \
    L(FLOW, "flow events (arrows between others)")                                                 \
    L(COUNTER, "counter events")                                                                   \
    L(INSTANT, "instant events other than [memory]")                                               \
    L(PHASE, "events of a phase that is not read (async, object, sample)")                         \
    L(MALFORMED, "events without a usable name, time, address or size")                            \
    L(NO_BEGIN, "ends without a begin")                                                            \
    L(NO_END, "begins without an end")                                                             \
    L(CUT, "the file ends early")                                                                  \
    L(ACTION, "memory actions that are not known")                                                 \
    L(NO_FREE, "freeings that are not in the file: their address was allocated again")             \
    L(STACKS, "call stacks, after 8 million different frames")                                      \
    L(TWICE, "freeings of what was free already")                                                  \
    L(BLOCK, "blocks in use at the end that were freed before")                                    \
    N(BEFORE, "storages allocated before the recording, put at its start")                         \
    N(TOTALS, "totals of bytes in use that disagree with allocations and freeings")                \
    N(BACKWARDS, "times that go back, moved to the time before")                                   \
    N(METADATA, "metadata events besides names of processes")                                      \
    N(LONG_TEXT, "names cut to 8191 bytes")                                                        \
    N(PENDING, "requests to free (the freeing is when it was completed)")                          \
    N(THREADS, "threads whose events are together in one run")                                     \
    N(PROCESSES, "events of processes after the first 1000, together in one run")
/* clang-format on */

enum dtri_import_reason {
#define DTRI_REASON_ENUM(name, text) DTRI_REASON_##name,
    DTRI_IMPORT_REASONS(DTRI_REASON_ENUM, DTRI_REASON_ENUM)
#undef DTRI_REASON_ENUM
        DTRI_N_REASONS
};

/* How a run begins and ends: known when all its records were read once. */
struct dtri_import_span {
    bool any, memory, has_total; /* records with a time; with an address; with a total */
    int64_t first_ns, last_ns;
    struct dtri_live_block *before; /* allocated before the first record; storage is not set */
    size_t n_before, cap_before;
    int64_t before_bytes, base, rest; /* rest: of the base, what no block of `before` explains */
    int64_t reserved;                 /* before the first record */
};

/* A run to be. */
struct dtri_import_lane {
    int64_t pid;     /* DTRI_NULL: not known */
    int64_t program; /* number of its text in names, or DTR_NONE */
    int64_t counts[DTRI_N_REASONS];
    struct dtri_import_span span;
};

/* Begins of a thread that have no end yet, in the pass over the records. */
struct dtri_import_thread {
    uint32_t lane;
    struct dtri_record *stack;
    size_t n, cap;
};

struct dtri_import {
    const char *path, *output;
    struct dtri_intern names; /* of all runs; at most DTRI_IMPORT_MAX_NAMES */
    struct dtri_frames frames;
    struct dtri_import_lane *lanes;
    size_t n_lanes, cap_lanes;
    struct dtri_import_thread *threads;
    size_t n_threads, cap_threads;
    struct dtri_spool *spool;
    bool logical;           /* times are ordinals */
    int64_t unix_offset_ns; /* DTRI_NULL: not known */
    int64_t rank;           /* DTRI_NULL: not known */
};

#define DTRI_IMPORT_MAX_NAMES (4u << 20)
#define DTRI_IMPORT_MAX_LANES 1000u

/* Numbers a name; past the limit all are "(other names)". */
dtr_status dtri_import_name(struct dtri_import *import, const char *text, int64_t *out_id,
                            dtr_error *error);
/* A new lane. */
dtr_status dtri_import_add_lane(struct dtri_import *import, uint32_t *out_lane, dtr_error *error);

dtr_status dtri_import_add_thread(struct dtri_import *import, uint32_t lane, dtr_error *error);
/* In both passes: a record of a begin, and of an end, which takes the begin it belongs to; false
 * when there is none. */
dtr_status dtri_import_begin_span(struct dtri_import *import, const struct dtri_record *record,
                                  dtr_error *error);
bool dtri_import_end_span(struct dtri_import *import, const struct dtri_record *record,
                          struct dtri_record *out_begin);

/* Each reads import->path into lanes and records. */
dtr_status dtri_import_chrome(struct dtri_import *import, dtr_error *error);
dtr_status dtri_import_snapshot(struct dtri_import *import, dtr_error *error);

/* The first pass over the records: fills the spans. */
dtr_status dtri_import_measure(struct dtri_import *import, dtr_error *error);
/* The second: makes runs of the lanes, in a store that is open. */
dtr_status dtri_import_write(struct dtri_import *import, struct dtri_store *store,
                             struct dtri_import_result *result, dtr_error *error);
/* Simulates an operator log without a budget into the store. */
dtr_status dtri_import_simrd(const char *path, struct dtri_store *store, dtr_error *error);

const char *dtri_import_reason_text(int reason);
bool dtri_import_reason_is_loss(int reason);

/* Bounds of what a reader lets through, so that sums of two do not run over. */
#define DTRI_IMPORT_MAX_NS    (INT64_C(1) << 61) /* after or before 1970, and as a duration */
#define DTRI_IMPORT_MAX_BYTES (INT64_C(1) << 50)

/* a + b, or the limit on the side where it runs over. */
static inline int64_t dtri_import_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN + 1 : INT64_MAX;
    return sum;
}

#endif
