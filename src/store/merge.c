#include "store/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/chunk.h"
#include "store/store_priv.h"
#include "store/tile.h"

#define COMMIT_BYTES (INT64_C(64) << 20)
#define MAX_BLOB     (INT64_C(1) << 20) /* far above any chunk or page */

/* Tables that hang on a run, with their columns after `run`: t text, i integer, b blob. */
static const struct table {
    const char *name, *columns, *types, *order;
} tables[] = {
    {"setting", "name, value, origin", "ttt", "name"},
    {"name", "id, text", "it", "id"},
    {"loss", "reason, count", "ti", "reason"},
    {"clock_sample", "monotonic_ns, unix_ns, uncertainty_ns", "iii", "rowid"},
    {"recording_window", "id, begin_ts_ns, end_ts_ns, opened_by, closed_by, skipped", "iiitti",
     "id"},
    {"event_chunk", "kind, ts_min, ts_max, seq_min, seq_max, n, format, data", "iiiiiiib", "id"},
    {"tile", "track, level, page, n, format, data", "iiiiib", "track, level, page"},
};
#define N_TABLES ((int)(sizeof tables / sizeof tables[0]))
#define CHUNKS   5 /* its place */

/* Runs of one host that share a monotonic clock share its offset. */
struct host {
    char name[DTRI_RUN_TEXT];
    struct dtri_alignment alignment;
};

struct merge {
    struct dtri_store *out, *in;
    const struct dtri_merge_options *options;
    struct dtri_merge_stats stats;
    struct host *hosts;
    size_t n_hosts, cap_hosts;
    int64_t uncommitted;
};

/* --- rows ------------------------------------------------------------------------------------- */

static dtr_status bind_column(struct merge *m, sqlite3_stmt *to, int place, char type,
                              sqlite3_stmt *from, int column, dtr_error *error)
{
    if (sqlite3_column_type(from, column) == SQLITE_NULL) {
        sqlite3_bind_null(to, place);
        return DTR_OK;
    }
    int size = 0;
    if (type == 'i') {
        sqlite3_bind_int64(to, place, sqlite3_column_int64(from, column));
    } else {
        const void *data = type == 'b' ? sqlite3_column_blob(from, column)
                                       : (const void *)sqlite3_column_text(from, column);
        size = sqlite3_column_bytes(from, column);
        if (size > MAX_BLOB)
            return dtri_fail(error, DTR_E_FORMAT, 0,
                             "%s holds a value of %d bytes where none is so long; `dtrscope check` "
                             "says more",
                             dtri_store_path(m->in), size);
        if (type == 'b')
            sqlite3_bind_blob(to, place, data, size, SQLITE_STATIC);
        else
            sqlite3_bind_text(to, place, data, size, SQLITE_STATIC);
    }
    m->uncommitted += size + 16;
    return DTR_OK;
}

static dtr_status check_chunk(const struct merge *m, sqlite3_stmt *row, dtr_error *error)
{
    int64_t n = sqlite3_column_int64(row, 5);
    if (n >= 1 && n <= DTRI_CHUNK_EVENTS && sqlite3_column_type(row, 7) == SQLITE_BLOB)
        return DTR_OK;
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "%s: an event chunk is damaged; `dtrscope check` says which",
                     dtri_store_path(m->in));
}

static dtr_status commit_some(struct merge *m, dtr_error *error)
{
    if (m->uncommitted < COMMIT_BYTES)
        return DTR_OK;
    m->uncommitted = 0;
    return dtri_store_commit(m->out, error);
}

static dtr_status copy_row(struct merge *m, const struct table *table, sqlite3_stmt *from,
                           sqlite3_stmt *to, int64_t run, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (table == &tables[CHUNKS]) {
        status = check_chunk(m, from, error);
        m->stats.events += sqlite3_column_int64(from, 5);
    }
    sqlite3_bind_int64(to, 1, run);
    for (int i = 0; table->types[i] && status == DTR_OK; i++)
        status = bind_column(m, to, 2 + i, table->types[i], from, i, error);
    if (status == DTR_OK && sqlite3_get_autocommit(m->out->db))
        status = dtri_store_exec(m->out, "BEGIN", error);
    if (status == DTR_OK)
        status = dtri_store_step(m->out, to, "copying a row", error);
    m->stats.rows++;
    return status == DTR_OK ? commit_some(m, error) : status;
}

static dtr_status copy_table(struct merge *m, const struct table *table, int64_t old_run,
                             int64_t new_run, dtr_error *error)
{
    char select[512], insert[512];
    sqlite3_stmt *from = NULL, *to = NULL;
    int code = SQLITE_DONE, n = (int)strlen(table->types);
    snprintf(select, sizeof select, "SELECT %s FROM %s WHERE run = ?1 ORDER BY %s", table->columns,
             table->name, table->order);
    int used = snprintf(insert, sizeof insert, "INSERT INTO %s (run, %s) VALUES (?1", table->name,
                        table->columns);
    for (int i = 0; i < n; i++)
        used += snprintf(insert + used, sizeof insert - (size_t)used, ", ?%d", 2 + i);
    snprintf(insert + used, sizeof insert - (size_t)used, ")");
    dtr_status status = dtri_store_prepare(m->in, select, &from, error);
    if (status == DTR_OK)
        status = dtri_store_prepare(m->out, insert, &to, error);
    if (status == DTR_OK)
        sqlite3_bind_int64(from, 1, old_run);
    while (status == DTR_OK && (code = sqlite3_step(from)) == SQLITE_ROW)
        status = copy_row(m, table, from, to, new_run, error);
    if (status == DTR_OK && code != SQLITE_DONE)
        status = dtri_store_fail(m->in, "reading rows", error);
    sqlite3_finalize(from);
    sqlite3_finalize(to);
    return status;
}

/* --- runs ------------------------------------------------------------------------------------- */

static dtr_status is_known(struct merge *m, const struct dtri_run *run, bool *out_known,
                           dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    dtr_status status =
        dtri_store_prepare(m->out, "SELECT 1 FROM run WHERE uuid = ?1", &statement, error);
    if (status != DTR_OK)
        return status;
    sqlite3_bind_text(statement, 1, run->uuid, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    *out_known = code == SQLITE_ROW;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = dtri_store_fail(m->out, "looking for a run", error);
    sqlite3_finalize(statement);
    if (status == DTR_OK && *out_known && !m->options->skip_known)
        status = dtri_fail(error, DTR_E_STATE, 0,
                           "run %lld of %s (%s) is in a file before it already; leave one out, or "
                           "give --skip-known",
                           (long long)run->id, dtri_store_path(m->in), run->uuid);
    return status;
}

static dtr_status share_clock(struct merge *m, const struct dtri_run *run,
                              struct dtri_alignment *alignment, dtr_error *error)
{
    if (!alignment->known || !run->host[0])
        return DTR_OK;
    for (size_t i = 0; i < m->n_hosts; i++)
        if (strcmp(m->hosts[i].name, run->host) == 0 &&
            dtri_clock_is_shared(&m->hosts[i].alignment, alignment)) {
            *alignment = m->hosts[i].alignment;
            return DTR_OK;
        }
    if (!DTRI_RESERVE(m->hosts, m->cap_hosts, m->n_hosts + 1))
        return dtri_fail_nomem(error, "the list of hosts");
    struct host *host = &m->hosts[m->n_hosts++];
    memcpy(host->name, run->host, sizeof host->name);
    host->alignment = *alignment;
    return DTR_OK;
}

static dtr_status align(struct merge *m, int64_t old_run, struct dtri_run *run, dtr_error *error)
{
    struct dtri_alignment alignment;
    bool live = strcmp(run->clock, "monotonic") == 0;
    dtr_status status = dtri_clock_alignment(m->in, old_run, &alignment, error);
    run->unix_offset_ns = run->unix_uncertainty_ns = DTRI_NULL;
    if (status != DTR_OK || m->options->align == DTRI_ALIGN_NONE || !live)
        return status;
    if (!alignment.known && m->options->align == DTRI_ALIGN_CLOCK)
        return dtri_fail(
            error, DTR_E_STATE, 0,
            "run %lld of %s has no clock samples, so it cannot be put on one clock with "
            "the others; --align auto leaves it unaligned",
            (long long)old_run, dtri_store_path(m->in));
    status = share_clock(m, run, &alignment, error);
    if (status != DTR_OK || !alignment.known) {
        m->stats.unaligned_runs += status == DTR_OK;
        return status;
    }
    run->unix_offset_ns = alignment.offset_ns;
    run->unix_uncertainty_ns = alignment.uncertainty_ns;
    return DTR_OK;
}

static dtr_status copy_run(struct merge *m, struct dtri_run *run, dtr_error *error)
{
    int64_t old = run->id;
    bool known;
    dtr_status status = is_known(m, run, &known, error);
    if (status != DTR_OK || known) {
        m->stats.skipped_runs += known && status == DTR_OK;
        return status;
    }
    status = align(m, old, run, error);
    if (!run->source[0])
        dtri_run_set_text(run->source, dtri_store_path(m->in));
    if (status == DTR_OK)
        status = dtri_store_add_run(m->out, run, error);
    for (int i = 0; i < N_TABLES && status == DTR_OK; i++)
        status = copy_table(m, &tables[i], old, run->id, error);
    int base = DTRI_TILE_NONE, top;
    if (status == DTR_OK)
        status = dtri_tiles_levels(m->out, run->id, &base, &top, error);
    if (status == DTR_OK && base == DTRI_TILE_NONE) /* an older file */
        status = dtri_tiles_build(m->out, run->id, error);
    m->stats.runs++;
    m->stats.rows++;
    return status;
}

static dtr_status copy_file(struct merge *m, const char *path, dtr_error *error)
{
    struct dtri_run *runs = NULL;
    int n = 0;
    dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &m->in, error);
    if (status != DTR_OK)
        return status;
    status = dtri_store_runs(m->in, &runs, &n, error);
    for (int i = 0; i < n && status == DTR_OK; i++)
        status = copy_run(m, &runs[i], error);
    dtri_free(runs);
    dtri_store_close(m->in, NULL);
    m->in = NULL;
    m->stats.files++;
    return status;
}

/* --- the file --------------------------------------------------------------------------------- */

static dtr_status fill(struct merge *m, const char *path, const char *const *inputs, int n_inputs,
                       dtr_error *error)
{
    dtr_status status = dtri_store_create(path, true, &m->out, error);
    if (status != DTR_OK)
        return status;
    for (int i = 0; i < n_inputs && status == DTR_OK; i++)
        status = copy_file(m, inputs[i], error);
    dtr_status closed = dtri_store_close(m->out, status == DTR_OK ? error : NULL);
    return status == DTR_OK ? closed : status;
}

static void remove_all(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[4200];
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

dtr_status dtri_merge(const char *output, bool force, const char *const *inputs, int n_inputs,
                      const struct dtri_merge_options *options, struct dtri_merge_stats *out_stats,
                      dtr_error *error)
{
    char part[4096];
    struct merge m = {.options = options};
    if (!force && access(output, F_OK) == 0)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s exists; give another name, or --force to replace it", output);
    if ((size_t)snprintf(part, sizeof part, "%s.%ld.part", output, (long)getpid()) >= sizeof part)
        return dtri_fail(error, DTR_E_LIMIT, 0, "the path of the file is too long");
    dtr_status status = fill(&m, part, inputs, n_inputs, error);
    dtri_free(m.hosts);
    if (status == DTR_OK && rename(part, output) != 0)
        status = dtri_fail(error, DTR_E_IO, errno, "cannot write %s: %s", output, strerror(errno));
    if (status != DTR_OK)
        remove_all(part);
    *out_stats = m.stats;
    return status;
}
