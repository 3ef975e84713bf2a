/* Runs and the low-rate tables.  SQL for table run is made from the list of its columns. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/store_priv.h"

enum column_type { COLUMN_T, COLUMN_I, COLUMN_R };

static const struct column {
    const char *name;
    enum column_type type;
    size_t offset;
} columns[] = {
#define COLUMN_ENTRY(type, name) {#name, type, offsetof(struct dtri_run, name)},
#define ENTRY_T(name)            COLUMN_ENTRY(COLUMN_T, name)
#define ENTRY_I(name)            COLUMN_ENTRY(COLUMN_I, name)
#define ENTRY_R(name)            COLUMN_ENTRY(COLUMN_R, name)
    DTRI_RUN_COLUMNS(ENTRY_T, ENTRY_I, ENTRY_R)};
#define N_COLUMNS ((int)(sizeof columns / sizeof columns[0]))
#define SQL_BYTES 4096

static void make_uuid(char *out)
{
    uint64_t words[2] = {0};
    /* SQLite's numbers are the same in all children of a fork. */
    if (getrandom(words, sizeof words, GRND_NONBLOCK) != (ssize_t)sizeof words)
        sqlite3_randomness(sizeof words, words);
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, words[0], words[1]);
}

void dtri_run_init(struct dtri_run *run, const char *kind)
{
    struct timespec now;
    memset(run, 0, sizeof *run);
    for (int i = 0; i < N_COLUMNS; i++) {
        char *at = (char *)run + columns[i].offset;
        if (columns[i].type == COLUMN_I)
            *(int64_t *)(void *)at = DTRI_NULL;
        else if (columns[i].type == COLUMN_R)
            *(double *)(void *)at = NAN;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    run->started_at_unix_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    make_uuid(run->uuid);
    dtri_run_set_text(run->kind, kind);
    dtri_run_set_text(run->clock, strcmp(kind, "live") == 0 ? "monotonic" : "logical");
    dtri_run_set_text(run->deallocation, "eager");
    dtri_run_set_text(run->result, "running");
    run->no_release = run->base_ts_ns = run->has_events = 0;
}

void dtri_run_set_text(char *column, const char *text)
{
    snprintf(column, DTRI_RUN_TEXT, "%s", text ? text : "");
}

void dtri_run_seal(struct dtri_run *run)
{
    for (int i = 0; i < N_COLUMNS; i++)
        if (columns[i].type == COLUMN_T)
            ((char *)run)[columns[i].offset + DTRI_RUN_TEXT - 1] = 0;
}

static void bind_run(sqlite3_stmt *statement, const struct dtri_run *run)
{
    for (int i = 0; i < N_COLUMNS; i++) {
        const char *at = (const char *)run + columns[i].offset;
        int64_t integer;
        double real;
        switch (columns[i].type) {
        case COLUMN_T:
            if (*at)
                sqlite3_bind_text(statement, i + 1, at, -1, SQLITE_TRANSIENT);
            break;
        case COLUMN_I:
            memcpy(&integer, at, sizeof integer);
            if (integer != DTRI_NULL)
                sqlite3_bind_int64(statement, i + 1, integer);
            break;
        case COLUMN_R:
            memcpy(&real, at, sizeof real);
            if (!isnan(real))
                sqlite3_bind_double(statement, i + 1, real);
            break;
        }
    }
}

static void read_run(sqlite3_stmt *statement, struct dtri_run *run)
{
    memset(run, 0, sizeof *run);
    run->id = sqlite3_column_int64(statement, 0);
    for (int i = 0; i < N_COLUMNS; i++) {
        char *at = (char *)run + columns[i].offset;
        bool null = sqlite3_column_type(statement, i + 1) == SQLITE_NULL;
        int64_t integer = null ? DTRI_NULL : sqlite3_column_int64(statement, i + 1);
        double real = null ? NAN : sqlite3_column_double(statement, i + 1);
        if (columns[i].type == COLUMN_T)
            dtri_run_set_text(at, (const char *)sqlite3_column_text(statement, i + 1));
        else if (columns[i].type == COLUMN_I)
            memcpy(at, &integer, sizeof integer);
        else
            memcpy(at, &real, sizeof real);
    }
}

static dtr_status begin(struct dtri_store *store, dtr_error *error)
{
    return sqlite3_get_autocommit(store->db) ? dtri_store_exec(store, "BEGIN", error) : DTR_OK;
}

/* Runs a statement made from the list of columns, with the run bound to ?1, ?2, ... */
static dtr_status write_run(struct dtri_store *store, const char *sql, const struct dtri_run *run,
                            dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    dtr_status status = begin(store, error);
    if (status == DTR_OK)
        status = dtri_store_prepare(store, sql, &statement, error);
    if (status != DTR_OK)
        return status;
    bind_run(statement, run);
    status = dtri_store_step(store, statement, "writing a run", error);
    sqlite3_finalize(statement);
    return status;
}

dtr_status dtri_store_add_run(struct dtri_store *store, struct dtri_run *run, dtr_error *error)
{
    char sql[SQL_BYTES];
    size_t used = (size_t)snprintf(sql, sizeof sql, "INSERT INTO run (id");
    for (int i = 0; i < N_COLUMNS; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, ", %s", columns[i].name);
    used += (size_t)snprintf(sql + used, sizeof sql - used, ") VALUES (NULL");
    for (int i = 0; i < N_COLUMNS; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, ", ?%d", i + 1);
    snprintf(sql + used, sizeof sql - used, ")");
    dtr_status status = write_run(store, sql, run, error);
    if (status == DTR_OK)
        run->id = sqlite3_last_insert_rowid(store->db);
    return status;
}

dtr_status dtri_store_update_run(struct dtri_store *store, const struct dtri_run *run,
                                 dtr_error *error)
{
    char sql[SQL_BYTES];
    size_t used = (size_t)snprintf(sql, sizeof sql, "UPDATE run SET ");
    for (int i = 0; i < N_COLUMNS; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, "%s%s = ?%d", i ? ", " : "",
                                 columns[i].name, i + 1);
    snprintf(sql + used, sizeof sql - used, " WHERE id = %" PRId64, run->id);
    return write_run(store, sql, run, error);
}

static dtr_status select_runs(struct dtri_store *store, const char *where, sqlite3_stmt **out,
                              dtr_error *error)
{
    char sql[SQL_BYTES];
    size_t used = (size_t)snprintf(sql, sizeof sql, "SELECT id");
    for (int i = 0; i < N_COLUMNS; i++)
        used += (size_t)snprintf(sql + used, sizeof sql - used, ", %s", columns[i].name);
    snprintf(sql + used, sizeof sql - used, " FROM run %s ORDER BY id", where);
    return dtri_store_prepare(store, sql, out, error);
}

dtr_status dtri_store_runs(struct dtri_store *store, struct dtri_run **out_runs, int *out_n,
                           dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    struct dtri_run *runs = NULL;
    size_t n = 0, cap = 0;
    int code = SQLITE_DONE;
    dtr_status status = select_runs(store, "", &statement, error);
    while (status == DTR_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!DTRI_RESERVE(runs, cap, n + 1))
            status = dtri_fail_nomem(error, "the list of runs");
        else
            read_run(statement, &runs[n++]);
    }
    if (status == DTR_OK && code != SQLITE_DONE)
        status = dtri_store_fail(store, "reading runs", error);
    sqlite3_finalize(statement);
    if (status != DTR_OK) {
        dtri_free(runs);
        return status;
    }
    *out_runs = runs;
    *out_n = (int)n;
    return DTR_OK;
}

dtr_status dtri_store_run(struct dtri_store *store, int64_t id, struct dtri_run *out_run,
                          dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    dtr_status status = select_runs(store, "WHERE id = ?1", &statement, error);
    if (status != DTR_OK)
        return status;
    sqlite3_bind_int64(statement, 1, id);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        read_run(statement, out_run);
    else if (code == SQLITE_DONE)
        status = dtri_fail(error, DTR_E_NOT_FOUND, 0, "%s has no run %" PRId64, store->path, id);
    else
        status = dtri_store_fail(store, "reading a run", error);
    sqlite3_finalize(statement);
    return status;
}

dtr_status dtri_store_find_run(struct dtri_store *store, const struct dtri_run *like,
                               struct dtri_run *out_run, bool *out_found, dtr_error *error)
{
    static const char *const keys[] = {"trace_hash",   "heuristic",     "search",
                                       "seed",         "deallocation",  "no_release",
                                       "budget_bytes", "remat_limit_ns"};
    char where[SQL_BYTES] = "WHERE kind = 'sim' AND result IN ('ok', 'out_of_memory', 'thrashed')";
    size_t used = strlen(where);
    for (int i = 0; i < N_COLUMNS; i++)
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            if (strcmp(columns[i].name, keys[k]) == 0)
                used += (size_t)snprintf(where + used, sizeof where - used, " AND %s IS ?%d",
                                         keys[k], i + 1);
    sqlite3_stmt *statement = NULL;
    dtr_status status = select_runs(store, where, &statement, error);
    if (status != DTR_OK)
        return status;
    bind_run(statement, like);
    int code = sqlite3_step(statement);
    *out_found = code == SQLITE_ROW;
    if (*out_found && out_run)
        read_run(statement, out_run);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = dtri_store_fail(store, "looking for a run", error);
    sqlite3_finalize(statement);
    return status;
}

/* --- small tables ----------------------------------------------------------------------------- */

dtr_status dtri_store_add_name(struct dtri_store *store, int64_t run, int64_t id, const char *text,
                               dtr_error *error)
{
    dtr_status status = begin(store, error);
    if (status == DTR_OK && !store->insert_name)
        status = dtri_store_prepare(store, "INSERT OR REPLACE INTO name VALUES (?1, ?2, ?3)",
                                    &store->insert_name, error);
    if (status != DTR_OK)
        return status;
    sqlite3_bind_int64(store->insert_name, 1, run);
    sqlite3_bind_int64(store->insert_name, 2, id);
    sqlite3_bind_text(store->insert_name, 3, text, -1, SQLITE_TRANSIENT);
    return dtri_store_step(store, store->insert_name, "writing a name", error);
}

/* One row of a small table: run, and values of which texts come first, integers after. */
static dtr_status add_row(struct dtri_store *store, const char *sql, int64_t run,
                          const char *const *texts, int n_texts, const int64_t *integers,
                          int n_integers, dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    dtr_status status = begin(store, error);
    if (status == DTR_OK)
        status = dtri_store_prepare(store, sql, &statement, error);
    if (status != DTR_OK)
        return status;
    sqlite3_bind_int64(statement, 1, run);
    for (int i = 0; i < n_texts; i++)
        if (texts[i])
            sqlite3_bind_text(statement, 2 + i, texts[i], -1, SQLITE_TRANSIENT);
    for (int i = 0; i < n_integers; i++)
        if (integers[i] != DTRI_NULL)
            sqlite3_bind_int64(statement, 2 + n_texts + i, integers[i]);
    status = dtri_store_step(store, statement, "writing a row", error);
    sqlite3_finalize(statement);
    return status;
}

dtr_status dtri_store_add_setting(struct dtri_store *store, int64_t run, const char *name,
                                  const char *value, const char *origin, dtr_error *error)
{
    return add_row(store, "INSERT OR REPLACE INTO setting VALUES (?1, ?2, ?3, ?4)", run,
                   (const char *[]){name, value, origin}, 3, NULL, 0, error);
}

dtr_status dtri_store_add_loss(struct dtri_store *store, int64_t run, const char *reason,
                               int64_t count, dtr_error *error)
{
    return add_row(store,
                   "INSERT INTO loss VALUES (?1, ?2, ?3) "
                   "ON CONFLICT (run, reason) DO UPDATE SET count = count + excluded.count",
                   run, &reason, 1, &count, 1, error);
}

dtr_status dtri_store_add_clock_sample(struct dtri_store *store, int64_t run, int64_t monotonic_ns,
                                       int64_t unix_ns, int64_t uncertainty_ns, dtr_error *error)
{
    return add_row(store, "INSERT INTO clock_sample VALUES (?1, ?2, ?3, ?4)", run, NULL, 0,
                   (int64_t[]){monotonic_ns, unix_ns, uncertainty_ns}, 3, error);
}

dtr_status dtri_store_set_window(struct dtri_store *store, int64_t run,
                                 const struct dtri_window *window, dtr_error *error)
{
    return add_row(store,
                   "INSERT OR REPLACE INTO recording_window (run, opened_by, closed_by, id, "
                   "begin_ts_ns, end_ts_ns, skipped) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                   run, (const char *[]){window->opened_by, window->closed_by}, 2,
                   (int64_t[]){window->id, window->begin_ts_ns, window->end_ts_ns, window->skipped},
                   4, error);
}

dtr_status dtri_store_completeness(struct dtri_store *store, int64_t run,
                                   struct dtri_completeness *out, dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    dtr_status status = dtri_store_prepare(
        store,
        "SELECT coalesce(sum(count) FILTER (WHERE reason != 'overwritten'), 0), "
        "count(*) FILTER (WHERE count IS NULL), "
        "coalesce(sum(count) FILTER (WHERE reason = 'overwritten'), 0), "
        "(SELECT count(*) FROM recording_window WHERE run = ?1), "
        "(SELECT coalesce(sum(skipped), 0) FROM recording_window WHERE run = ?1) "
        "FROM loss WHERE run = ?1",
        &statement, error);
    if (status != DTR_OK)
        return status;
    sqlite3_bind_int64(statement, 1, run);
    if (sqlite3_step(statement) == SQLITE_ROW)
        *out = (struct dtri_completeness){
            .lost = sqlite3_column_int64(statement, 0),
            .unknown = sqlite3_column_int64(statement, 1) != 0,
            .overwritten = sqlite3_column_int64(statement, 2),
            .windows = sqlite3_column_int64(statement, 3),
            .skipped = sqlite3_column_int64(statement, 4),
        };
    else
        status = dtri_store_fail(store, "reading losses", error);
    sqlite3_finalize(statement);
    return status;
}

bool dtri_is_complete(const struct dtri_completeness *c)
{
    return !c->lost && !c->unknown && !c->overwritten && !c->windows;
}
