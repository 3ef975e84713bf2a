/* Holds the facts of a file against each other.
 *
 * What a gap in the event stream (a loss, the time between two recording windows, the past of a
 * flight recorder) may explain is not damage: after a gap, what is resident, pinned or held is
 * learnt anew from the events.  Memory: some 60 bytes for each storage, tensor and operator. */
#ifndef DTRI_ANALYZE_CHECK_H
#define DTRI_ANALYZE_CHECK_H

#include "store/store.h"

/* The kinds of damage: F(NAME, name, meaning). */
/* clang-format off */
#define DTRI_FINDINGS(F)                                                                           \
    F(INTEGRITY, "integrity", "SQLite finds the database damaged")                                 \
    F(SCHEMA, "schema", "a table or column is missing")                                            \
    F(RUN_ROW, "run-row", "a row of table run contradicts itself or another run")                  \
    F(ORPHAN, "orphan", "a row belongs to a run that is not there")                                \
    F(SETTING, "setting", "a setting has an unknown origin")                                       \
    F(CLOCK, "clock", "clock samples do not rise, or are uncertain by less than nothing")          \
    F(WINDOW, "window", "recording windows overlap, or events lie outside of them")                \
    F(CHUNK_KIND, "chunk-kind", "a chunk is of a kind that is not known")                          \
    F(CHUNK_DATA, "chunk-data", "a chunk does not unpack")                                         \
    F(CHUNK_RANGE, "chunk-range", "a chunk's ranges are not those of its events")                  \
    F(TILE, "tile", "the time pyramid does not sum up to the events")                              \
    F(SEQ, "seq", "two events have the same number")                                               \
    F(GAP, "gap", "event numbers are missing and no loss says why")                                \
    F(LOSSES, "losses", "more events are missing than the losses add up to")                       \
    F(TIME, "time", "time goes backwards")                                                         \
    F(DURATION, "duration", "something took less than no time")                                    \
    F(CODE, "code", "a code has no meaning")                                                       \
    F(NAME, "name", "a name has no text")                                                          \
    F(UNKNOWN_ID, "unknown-id", "an event names something that no event introduced")               \
    F(DUPLICATE_ID, "duplicate-id", "two things have the same id")                                 \
    F(OPERANDS, "operands", "an operator's inputs are not those that it says")                     \
    F(OUTPUTS, "outputs", "an operator's outputs are not those that it says")                      \
    F(SIZE, "size", "bytes are not those of the storage")                                          \
    F(IN_USE, "bytes-in-use", "bytes in use are not allocations less frees and evictions")         \
    F(RUN_IN_USE, "run-in-use", "bytes in use during an operator run do not add up")               \
    F(ALLOCATED_TWICE, "allocated-twice", "a storage that is resident is allocated")               \
    F(FREED_TWICE, "freed-twice", "a storage that was freed for good is used")                     \
    F(NOT_RESIDENT, "not-resident", "a storage that is not resident is evicted")                   \
    F(READ_EVICTED, "read-evicted", "an operator read a storage that is not resident")             \
    F(EVICTED_PINNED, "evicted-pinned", "a pinned storage or a constant is evicted")               \
    F(FIRST_RUN, "first-run", "an operator's runs are not one first run and then replays")         \
    F(CAUSE, "cause", "a replay has no cause, or another than the run that needed it")             \
    F(DEPTH, "depth", "depths in a chain do not fit each other")                                   \
    F(CHAIN, "chain", "a chain's sums are not those of its runs")                                  \
    F(TARGET, "target", "a run was for a tensor that its operator does not make")                  \
    F(DECISION, "decision", "an eviction for the budget and its decision contradict each other")   \
    F(CANDIDATE, "candidate", "a decision's candidates contradict it")                             \
    F(BUDGET, "budget", "a decision speaks of another budget than the one in force")               \
    F(REFERENCE, "reference", "references do not add up")                                          \
    F(PIN, "pin", "a tensor is unpinned that was not pinned")                                      \
    F(RANGE, "range", "a range ends that did not begin")                                           \
    F(FRAME, "frame", "a call stack has no beginning")                                             \
    F(COUNTS, "counts", "the run's totals are not those of its events")                            \
    F(PEAK, "peak", "the run's peak is not that of its events")                                    \
    F(END, "end", "a run that ended well has no end mark")
/* clang-format on */

enum dtri_finding_kind {
#define DTRI_FINDING_ENUM(NAME, name, meaning) DTRI_FINDING_##NAME,
    DTRI_FINDINGS(DTRI_FINDING_ENUM)
#undef DTRI_FINDING_ENUM
        DTRI_N_FINDINGS
};

const char *dtri_finding_name(enum dtri_finding_kind kind);
const char *dtri_finding_meaning(enum dtri_finding_kind kind);

struct dtri_finding {
    enum dtri_finding_kind kind;
    int64_t run;        /* 0: of no run */
    int64_t seq, ts_ns; /* of the event, DTR_NONE where there is none */
    const char *text;   /* borrowed for the call */
};

struct dtri_check_stats {
    int64_t runs, events, findings;
    int64_t incomplete_runs; /* not all of their events are in the file */
};

typedef void (*dtri_check_told)(void *user, const struct dtri_finding *finding);

/* Checks the file, or one run of it with `run` != 0.  A damaged file is a finding, not an error; an
 * error means that the check could not go on. */
dtr_status dtri_check(struct dtri_store *store, int64_t run, dtri_check_told told, void *user,
                      struct dtri_check_stats *out_stats, dtr_error *error);

/* --- between the files of the check ----------------------------------------------------------- */

struct dtri_check {
    struct dtri_store *store;
    dtri_check_told told;
    void *user;
    struct dtri_check_stats stats;
    int64_t run;
};

void dtri_found(struct dtri_check *check, enum dtri_finding_kind kind, const dtr_event *event,
                const char *format, ...) DTR_PRINTF(4, 5);
/* The chunks and tiles of a run; *out_readable: its events can be streamed. */
dtr_status dtri_check_chunks(struct dtri_check *check, const struct dtri_run *run,
                             bool *out_readable, dtr_error *error);
dtr_status dtri_check_events(struct dtri_check *check, const struct dtri_run *run,
                             dtr_error *error);

#endif
