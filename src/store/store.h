/* The database: opening, runs, and the event stream.
 *
 * A store belongs to one thread at a time.  Writing goes through transactions that the caller
 * commits; what was committed survives a kill.  The file's schema is schema/002.sql. */
#ifndef DTRI_STORE_STORE_H
#define DTRI_STORE_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "dtr/event.h"
#include "dtr/status.h"

#define DTRI_STORE_APPLICATION_ID 0x44545253
#define DTRI_STORE_VERSION        2
/* NAME ids from here on are those of call frames; below are the runtime's. */
#define DTRI_FRAME_NAMES (INT64_C(1) << 40)
#define DTRI_NULL        INT64_MIN /* an integer column without a value */

struct dtri_store;

/* Makes a new database.  An existing file is refused (DTR_E_STATE) unless `force`, which replaces
 * it. */
dtr_status dtri_store_create(const char *path, bool force, struct dtri_store **out_store,
                             dtr_error *error);
enum dtri_store_mode { DTRI_STORE_READ, DTRI_STORE_WRITE };
/* DTR_E_FORMAT: no database of ours.  DTR_E_SCHEMA: of a newer version.  A file of an older version
 * is migrated when it is opened for writing, in one transaction; a reader sees it as if it had
 * been, through temporary views.  Reading never changes the file, and does not trust what its
 * schema says: the event views are the connection's own. */
dtr_status dtri_store_open(const char *path, enum dtri_store_mode mode,
                           struct dtri_store **out_store, dtr_error *error);
/* Commits and closes.  After writing, the file stands alone: no -wal beside it.  NULL is fine. */
dtr_status dtri_store_close(struct dtri_store *store, dtr_error *error);
const char *dtri_store_path(const struct dtri_store *store);
sqlite3 *dtri_store_db(struct dtri_store *store); /* for queries; borrowed */
dtr_status dtri_store_commit(struct dtri_store *store, dtr_error *error);

/* --- runs ------------------------------------------------------------------------------------- */

/* The columns of table run after id, in order: T text, I integer, R real. */
/* clang-format off */
#define DTRI_RUN_COLUMNS(T, I, R)                                                                  \
    T(uuid) T(kind) T(program) T(trace) I(trace_hash) T(heuristic) T(search) I(seed)               \
    T(deallocation) I(no_release) I(budget_bytes) R(budget_share) I(remat_limit_ns)                \
    I(started_at_unix_ns) I(base_ts_ns) T(clock) T(result) T(why) I(clock_ns) I(model_compute_ns)  \
    I(remat_compute_ns) I(peak_bytes) I(unlimited_peak_bytes) I(constant_bytes) I(evictions)       \
    I(eager_evictions) I(rematerializations) I(score_evaluations) I(operator_runs) I(overshoots)   \
    R(slowdown) I(wall_ns) I(search_ns) I(record_ns) I(allocator_peak_bytes) I(exit_code)          \
    I(has_events) T(host) I(pid) I(rank) I(unix_offset_ns) I(unix_uncertainty_ns) T(source)
/* clang-format on */

#define DTRI_RUN_TEXT 256

/* NULL is "" for texts, DTRI_NULL for integers, NaN for reals. */
struct dtri_run {
    int64_t id;
#define DTRI_RUN_T(name) char name[DTRI_RUN_TEXT];
#define DTRI_RUN_I(name) int64_t name;
#define DTRI_RUN_R(name) double name;
    DTRI_RUN_COLUMNS(DTRI_RUN_T, DTRI_RUN_I, DTRI_RUN_R)
#undef DTRI_RUN_T
#undef DTRI_RUN_I
#undef DTRI_RUN_R
};

/* All NULL but uuid, started_at_unix_ns and what may not be NULL. */
void dtri_run_init(struct dtri_run *run, const char *kind);
void dtri_run_set_text(char *column, const char *text); /* cut to fit; text may be NULL */
void dtri_run_seal(struct dtri_run *run); /* ends every text: the run came from another process */

dtr_status dtri_store_add_run(struct dtri_store *store, struct dtri_run *run, dtr_error *error);
dtr_status dtri_store_update_run(struct dtri_store *store, const struct dtri_run *run,
                                 dtr_error *error);
/* All runs by id; the caller frees *out_runs with dtri_free. */
dtr_status dtri_store_runs(struct dtri_store *store, struct dtri_run **out_runs, int *out_n,
                           dtr_error *error);
dtr_status dtri_store_run(struct dtri_store *store, int64_t id, struct dtri_run *out_run,
                          dtr_error *error); /* DTR_E_NOT_FOUND */
/* A finished simulated run with the settings of `like`; *out_run (optional) is set if there is one.
 */
dtr_status dtri_store_find_run(struct dtri_store *store, const struct dtri_run *like,
                               struct dtri_run *out_run, bool *out_found, dtr_error *error);

dtr_status dtri_store_add_name(struct dtri_store *store, int64_t run, int64_t id, const char *text,
                               dtr_error *error);
dtr_status dtri_store_add_setting(struct dtri_store *store, int64_t run, const char *name,
                                  const char *value, const char *origin, dtr_error *error);
dtr_status dtri_store_add_loss(struct dtri_store *store, int64_t run, const char *reason,
                               int64_t count, /* DTRI_NULL: not known */
                               dtr_error *error);
dtr_status dtri_store_add_clock_sample(struct dtri_store *store, int64_t run, int64_t monotonic_ns,
                                       int64_t unix_ns, int64_t uncertainty_ns, dtr_error *error);
/* A part of the run that was recorded; texts as in the table recording_window. */
struct dtri_window {
    int64_t id, begin_ts_ns, end_ts_ns; /* end: DTRI_NULL while open */
    const char *opened_by, *closed_by;  /* closed_by may be NULL */
    int64_t skipped;
};
/* Replaces the window of the same id. */
dtr_status dtri_store_set_window(struct dtri_store *store, int64_t run,
                                 const struct dtri_window *window, dtr_error *error);
/* Whether all that happened in a run is in its file. */
struct dtri_completeness {
    int64_t lost;        /* events, of all reasons that know their count */
    bool unknown;        /* there is a reason that does not */
    int64_t overwritten; /* not lost but given up, by a flight recorder */
    int64_t windows;     /* 0: the whole run was recorded */
    int64_t skipped;     /* events outside of the windows */
};
dtr_status dtri_store_completeness(struct dtri_store *store, int64_t run,
                                   struct dtri_completeness *out, dtr_error *error);
bool dtri_is_complete(const struct dtri_completeness *c);

/* --- events ----------------------------------------------------------------------------------- */

/* Appends events of any kinds to a run: they are collected by kind and written as chunks. */
struct dtri_store_writer;
dtr_status dtri_store_writer_new(struct dtri_store *store, int64_t run,
                                 struct dtri_store_writer **out_writer, dtr_error *error);
dtr_status dtri_store_writer_add(struct dtri_store_writer *writer, const dtr_event *event,
                                 dtr_error *error);
/* Chunks from now on in format 2 (zstd) or 1, see chunk.h; 1 unless told. */
void dtri_store_writer_compress(struct dtri_store_writer *writer, bool compress);
/* Writes out chunks that are not full. */
dtr_status dtri_store_writer_flush(struct dtri_store_writer *writer, dtr_error *error);
void dtri_store_writer_free(struct dtri_store_writer *writer); /* accepts NULL; does not flush */

/* Reads the events of one kind of one run whose chunks touch [ts_min, ts_max], chunk by chunk in
 * the order of writing, which for the events of one runtime is that of seq.  Rows outside the range
 * are not filtered out. */
struct dtri_store_reader;
dtr_status dtri_store_reader_new(struct dtri_store *store, int64_t run, dtr_event_kind kind,
                                 int64_t ts_min, int64_t ts_max, uint64_t wanted,
                                 struct dtri_store_reader **out_reader, dtr_error *error);
/* The next chunk: *out_n rows, 0 at the end; columns 0 ts_ns, 1 seq, 2.. the fields.  Only columns
 * with their bit in `wanted` are filled.  Borrowed until the next call. */
dtr_status dtri_store_reader_next(struct dtri_store_reader *reader, int *out_n,
                                  const int64_t *const **out_columns, dtr_error *error);
void dtri_store_reader_free(struct dtri_store_reader *reader); /* accepts NULL */

#define DTRI_ALL_COLUMNS UINT64_MAX

/* All rows of one kind in memory, in the order of seq: rows[i * n_columns + c]. */
struct dtri_rows {
    int64_t *rows;
    size_t n, cap;
    int n_columns;
};
dtr_status dtri_store_load(struct dtri_store *store, int64_t run, dtr_event_kind kind,
                           int64_t ts_min, int64_t ts_max, struct dtri_rows *out_rows,
                           dtr_error *error);
void dtri_rows_done(struct dtri_rows *rows);

/* Registers the dtr_event_<kind> modules on a connection (vtab.c). */
int dtri_vtab_register(sqlite3 *db);

#endif
