/* The events of one run in memory, indexed for the questions that the page asks.
 *
 * Made once a run and file state: a page asks for windows of the same run many times a second, and
 * decoding its chunks each time would cost more than the answer.  A run that is still being
 * recorded gets a new snapshot when its file has grown.  The size is bounded: of a run with more
 * than DTRI_SNAPSHOT_EVENTS events a snapshot holds one window, or, where the window has too many
 * itself, an overview: marks and budgets only, the rest is drawn from tiles.
 *
 * All times are relative to the run's start.  Immutable once made.  Nothing in a file is believed:
 * ids are looked up, never used as an index. */
#ifndef DTRI_SERVER_SNAPSHOT_H
#define DTRI_SERVER_SNAPSHOT_H

#include "store/store.h"

#define DTRI_SNAPSHOT_EVENTS 8000000 /* unless the user says otherwise */
#define DTRI_SNAPSHOT_KINDS  32

/* Columns of the rows, by name: DTRI_AT(OPERATOR_RUN, dur_ns) is COLUMN_OPERATOR_RUN_dur_ns. */
#define DTRI_COLUMNS_OF(KIND)                                                                      \
    enum { COLUMN_##KIND##_first = 1, DTR_FIELDS_##KIND(DTRI_COLUMN_##KIND) COLUMN_##KIND##_end };
#define DTRI_COLUMN_STORAGE(name, unit, meaning)       COLUMN_STORAGE_##name,
#define DTRI_COLUMN_TENSOR(name, unit, meaning)        COLUMN_TENSOR_##name,
#define DTRI_COLUMN_OPERATOR(name, unit, meaning)      COLUMN_OPERATOR_##name,
#define DTRI_COLUMN_OPERAND(name, unit, meaning)       COLUMN_OPERAND_##name,
#define DTRI_COLUMN_OPERATOR_RUN(name, unit, meaning)  COLUMN_OPERATOR_RUN_##name,
#define DTRI_COLUMN_CHAIN(name, unit, meaning)         COLUMN_CHAIN_##name,
#define DTRI_COLUMN_ALLOCATION(name, unit, meaning)    COLUMN_ALLOCATION_##name,
#define DTRI_COLUMN_FREEING(name, unit, meaning)       COLUMN_FREEING_##name,
#define DTRI_COLUMN_EVICTION(name, unit, meaning)      COLUMN_EVICTION_##name,
#define DTRI_COLUMN_DECISION(name, unit, meaning)      COLUMN_DECISION_##name,
#define DTRI_COLUMN_CANDIDATE(name, unit, meaning)     COLUMN_CANDIDATE_##name,
#define DTRI_COLUMN_BUDGET(name, unit, meaning)        COLUMN_BUDGET_##name,
#define DTRI_COLUMN_OUT_OF_MEMORY(name, unit, meaning) COLUMN_OUT_OF_MEMORY_##name,
#define DTRI_COLUMN_MARK(name, unit, meaning)          COLUMN_MARK_##name,
#define DTRI_COLUMN_SIGNATURE(name, unit, meaning)     COLUMN_SIGNATURE_##name,
DTRI_COLUMNS_OF(STORAGE)
DTRI_COLUMNS_OF(TENSOR)
DTRI_COLUMNS_OF(OPERATOR)
DTRI_COLUMNS_OF(OPERAND)
DTRI_COLUMNS_OF(OPERATOR_RUN)
DTRI_COLUMNS_OF(CHAIN)
DTRI_COLUMNS_OF(ALLOCATION)
DTRI_COLUMNS_OF(FREEING)
DTRI_COLUMNS_OF(EVICTION)
DTRI_COLUMNS_OF(DECISION)
DTRI_COLUMNS_OF(CANDIDATE)
DTRI_COLUMNS_OF(BUDGET)
DTRI_COLUMNS_OF(OUT_OF_MEMORY)
DTRI_COLUMNS_OF(MARK)
DTRI_COLUMNS_OF(SIGNATURE)
#define DTRI_AT(KIND, name) COLUMN_##KIND##_##name
#define DTRI_TS             0
#define DTRI_SEQ            1

/* Rows of one kind ordered by one column, for looking up. */
struct dtri_index {
    const struct dtri_rows *rows;
    int column;
    uint32_t *order; /* row numbers, by that column, then as they stand */
};

/* Bytes in use after an allocation, a freeing or an eviction. */
struct dtri_sample {
    int64_t ts, seq, in_use;
};

/* From an allocation until the eviction or freeing that ended it (or the end of the run).  Where
 * the allocation was not recorded, from the begin of the run. */
struct dtri_stay {
    int64_t storage, begin, end, bytes;
    bool before; /* the allocation was before recording began */
};

struct dtri_storage_info {
    int64_t id, bytes, op; /* op: what made its root tensor, or DTR_NONE */
    int64_t created, remakes, remake_ns;
    size_t first_stay, n_stays;
    bool before; /* it was there before recording began, or nothing recorded says what it is */
};

struct dtri_snapshot {
    int64_t version;                          /* of the file: see dtri_snapshot_version */
    int64_t begin, end;                       /* of the run */
    int64_t from, to;                         /* what it holds: events that begin within */
    bool overview;                            /* no events but marks, budgets and out of memory */
    int64_t in_use_before;                    /* bytes in use before the first sample */
    struct dtri_rows of[DTRI_SNAPSHOT_KINDS]; /* by kind, in the order of ts; no candidates,
                                                 references and pins */
    struct dtri_index op_by_id, tensor_by_id, tensor_by_op, tensor_by_storage, operand_by_op,
        run_by_id, run_by_op, run_by_chain, chain_by_id, decision_by_id, eviction_by_decision,
        signature_by_op;
    struct dtri_sample *samples; /* by ts, seq */
    size_t n_samples;
    struct dtri_stay *stays; /* by storage, begin */
    size_t n_stays;
    struct dtri_storage_info *storages; /* by id */
    size_t n_storages;
    char **names; /* by NAME id; holes are NULL */
    size_t n_names;
};

/* Changes when the run's events or result do. */
dtr_status dtri_snapshot_version(struct dtri_store *store, int64_t run, int64_t *out_version,
                                 dtr_error *error);

/* How large a run is, without its events. */
struct dtri_extent {
    int64_t n;          /* events that a snapshot would hold */
    int64_t begin, end; /* of their times, relative to the run's start */
};
dtr_status dtri_snapshot_extent(struct dtri_store *store, const struct dtri_run *run,
                                struct dtri_extent *out_extent, dtr_error *error);
/* About how many events a window has: those of all chunks that touch it. */
dtr_status dtri_snapshot_count(struct dtri_store *store, const struct dtri_run *run, int64_t from,
                               int64_t to, int64_t *out_n, dtr_error *error);
enum dtri_snapshot_part { DTRI_SNAPSHOT_WHOLE, DTRI_SNAPSHOT_WINDOW, DTRI_SNAPSHOT_OVERVIEW };
/* `from` and `to` count for a window. */
dtr_status dtri_snapshot_new(struct dtri_store *store, const struct dtri_run *run,
                             const struct dtri_extent *extent, enum dtri_snapshot_part part,
                             int64_t from, int64_t to, struct dtri_snapshot **out_snapshot,
                             dtr_error *error);
void dtri_snapshot_free(struct dtri_snapshot *snapshot); /* accepts NULL */

/* The i-th row of a kind. */
const int64_t *dtri_snapshot_row(const struct dtri_snapshot *s, dtr_event_kind kind, size_t i);
/* First place in `rows` whose ts is not below `ts`. */
size_t dtri_rows_from(const struct dtri_rows *rows, int64_t ts);
/* All rows with `value`: *out_n of them, starting at place *out_first of the index. */
void dtri_index_find(const struct dtri_index *index, int64_t value, size_t *out_first,
                     size_t *out_n);
const int64_t *dtri_index_row(const struct dtri_index *index, size_t place);
/* The first row with `value`, or NULL. */
const int64_t *dtri_index_one(const struct dtri_index *index, int64_t value);
const struct dtri_storage_info *dtri_snapshot_storage(const struct dtri_snapshot *s, int64_t id);
/* The name of a NAME id or of an operator; "" when there is none. */
const char *dtri_snapshot_name(const struct dtri_snapshot *s, int64_t name);
const char *dtri_snapshot_op_name(const struct dtri_snapshot *s, int64_t op);

#endif
