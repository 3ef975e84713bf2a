/* The file around the events: database, schema, rows of the small tables. */
#include "analyze/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

extern const unsigned char dtri_schema[];

static const struct {
    const char *name, *meaning;
} kinds[] = {
#define FINDING_ENTRY(NAME, name, meaning) {name, meaning},
    DTRI_FINDINGS(FINDING_ENTRY)};

const char *dtri_finding_name(enum dtri_finding_kind kind)
{
    return kinds[kind].name;
}

const char *dtri_finding_meaning(enum dtri_finding_kind kind)
{
    return kinds[kind].meaning;
}

void dtri_found(struct dtri_check *c, enum dtri_finding_kind kind, const dtr_event *event,
                const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    c->stats.findings++;
    const struct dtri_finding finding = {.kind = kind,
                                         .run = c->run,
                                         .seq = event ? event->seq : DTR_NONE,
                                         .ts_ns = event ? event->ts_ns : DTR_NONE,
                                         .text = text};
    c->told(c->user, &finding);
}

/* --- asking the database ---------------------------------------------------------------------- */

/* A finding for each row that the statement returns: its columns are the parts of the sentence. The
 * file may be damaged in such a way that it cannot be asked; that is a finding too. */
static void find_rows(struct dtri_check *c, enum dtri_finding_kind kind, const char *sql,
                      const char *what)
{
    sqlite3 *db = dtri_store_db(c->store);
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code != SQLITE_ROW)
            break;
        char text[300] = "";
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *part = (const char *)sqlite3_column_text(statement, i);
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%.100s", i ? ", " : "",
                     part ? part : "NULL");
        }
        dtri_found(c, kind, NULL, "%s: %s", what, text);
    }
    if (code != SQLITE_DONE)
        dtri_found(c, DTRI_FINDING_INTEGRITY, NULL, "%s could not be looked for: %s", what,
                   sqlite3_errmsg(db));
    sqlite3_finalize(statement);
}

static bool check_integrity(struct dtri_check *c)
{
    int64_t before = c->stats.findings;
    find_rows(
        c, DTRI_FINDING_INTEGRITY,
        "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check != 'ok' LIMIT 20",
        "SQLite");
    return c->stats.findings == before;
}

/* Every column of the present version has to be there; views and what others added do not matter.
 */
static dtr_status check_schema(struct dtri_check *c, dtr_error *error)
{
    sqlite3 *model = NULL;
    sqlite3_stmt *columns = NULL, *here = NULL;
    int code = sqlite3_open(":memory:", &model);
    if (code == SQLITE_OK)
        code = sqlite3_exec(model, (const char *)dtri_schema, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(model,
                                  "SELECT t.name, c.name FROM sqlite_schema AS t, "
                                  "pragma_table_info(t.name) AS c WHERE t.type = 'table'",
                                  -1, &columns, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(dtri_store_db(c->store),
                                  "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", -1, &here,
                                  NULL);
    while (code == SQLITE_OK && sqlite3_step(columns) == SQLITE_ROW) {
        const char *table = (const char *)sqlite3_column_text(columns, 0);
        const char *column = (const char *)sqlite3_column_text(columns, 1);
        sqlite3_bind_text(here, 1, table, -1, SQLITE_STATIC);
        sqlite3_bind_text(here, 2, column, -1, SQLITE_STATIC);
        if (sqlite3_step(here) != SQLITE_ROW)
            dtri_found(c, DTRI_FINDING_SCHEMA, NULL, "column %s of table %s is missing", column,
                       table);
        sqlite3_reset(here);
    }
    sqlite3_finalize(columns);
    sqlite3_finalize(here);
    sqlite3_close(model);
    return code == SQLITE_OK ? DTR_OK : dtri_fail_nomem(error, "the schema");
}

static void check_rows(struct dtri_check *c)
{
    static const char *const tables[] = {"setting",          "name",        "loss", "clock_sample",
                                         "recording_window", "event_chunk", "tile"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char sql[200];
        snprintf(sql, sizeof sql,
                 "SELECT DISTINCT '%s', run FROM %s WHERE run NOT IN (SELECT id FROM run) LIMIT 20",
                 tables[i], tables[i]);
        find_rows(c, DTRI_FINDING_ORPHAN, sql, "rows of a run that is not there (table, run)");
    }
    find_rows(c, DTRI_FINDING_RUN_ROW, "SELECT uuid FROM run GROUP BY uuid HAVING count(*) > 1",
              "runs that are the same run");
    find_rows(c, DTRI_FINDING_RUN_ROW,
              "SELECT id, result FROM run WHERE result NOT IN "
              "('running', 'ok', 'out_of_memory', 'thrashed', 'failed', 'killed')",
              "an unknown result (run, result)");
    find_rows(c, DTRI_FINDING_RUN_ROW,
              "SELECT id FROM run WHERE has_events = 0 AND id IN (SELECT run FROM event_chunk)",
              "a run with events that says it has none");
    find_rows(c, DTRI_FINDING_RUN_ROW,
              "SELECT id, slowdown FROM run WHERE model_compute_ns > 0 AND abs(slowdown - "
              "(model_compute_ns + remat_compute_ns) * 1.0 / model_compute_ns) > 1e-9 * slowdown",
              "a slowdown that is not its quotient (run, slowdown)");
    find_rows(c, DTRI_FINDING_SETTING,
              "SELECT run, name, origin FROM setting WHERE origin NOT IN "
              "('default', 'program', 'environment', 'command line')",
              "a setting of unknown origin (run, name, origin)");
    find_rows(c, DTRI_FINDING_CLOCK,
              "SELECT run, monotonic_ns FROM (SELECT run, monotonic_ns, lag(monotonic_ns) OVER "
              "(PARTITION BY run ORDER BY rowid) AS before FROM clock_sample) "
              "WHERE monotonic_ns < before",
              "clock samples that go backwards (run, ns)");
    find_rows(c, DTRI_FINDING_CLOCK,
              "SELECT run, uncertainty_ns FROM clock_sample WHERE uncertainty_ns < 0",
              "a negative uncertainty (run, ns)");
    find_rows(c, DTRI_FINDING_WINDOW,
              "SELECT run, id FROM (SELECT run, id, begin_ts_ns, end_ts_ns, skipped, "
              "lag(end_ts_ns, 1, begin_ts_ns) OVER w AS before, lag(id, 1, -1) OVER w AS previous "
              "FROM recording_window WINDOW w AS (PARTITION BY run ORDER BY id)) "
              "WHERE before IS NULL OR begin_ts_ns < before OR end_ts_ns < begin_ts_ns OR "
              "skipped < 0 OR id != previous + 1",
              "windows that overlap or do not count up (run, id)");
    find_rows(c, DTRI_FINDING_LOSSES, "SELECT run, reason, count FROM loss WHERE count < 0",
              "a negative loss (run, reason, count)");
}

/* --- runs ------------------------------------------------------------------------------------- */

static dtr_status check_run(struct dtri_check *c, const struct dtri_run *run, dtr_error *error)
{
    struct dtri_completeness complete;
    bool readable = true;
    c->run = run->id;
    c->stats.runs++;
    dtr_status status = dtri_store_completeness(c->store, run->id, &complete, error);
    if (status != DTR_OK || run->has_events != 1)
        return status;
    bool ended = strcmp(run->result, "running") != 0 && strcmp(run->result, "killed") != 0;
    if (!dtri_is_complete(&complete) || !ended)
        c->stats.incomplete_runs++;
    status = dtri_check_chunks(c, run, &readable, error);
    if (status == DTR_OK && readable)
        status = dtri_check_events(c, run, error);
    return status;
}

static dtr_status check_runs(struct dtri_check *c, int64_t only, dtr_error *error)
{
    struct dtri_run *runs = NULL;
    int n = 0;
    bool any = false;
    dtr_status status = dtri_store_runs(c->store, &runs, &n, error);
    for (int i = 0; i < n && status == DTR_OK; i++) {
        if (only && runs[i].id != only)
            continue;
        any = true;
        status = check_run(c, &runs[i], error);
    }
    dtri_free(runs);
    if (status == DTR_OK && only && !any)
        status = dtri_fail(error, DTR_E_NOT_FOUND, 0, "%s has no run %lld",
                           dtri_store_path(c->store), (long long)only);
    return status;
}

dtr_status dtri_check(struct dtri_store *store, int64_t run, dtri_check_told told, void *user,
                      struct dtri_check_stats *out_stats, dtr_error *error)
{
    struct dtri_check c = {.store = store, .told = told, .user = user};
    bool whole = check_integrity(&c);
    int64_t before = c.stats.findings;
    dtr_status status = check_schema(&c, error);
    if (status == DTR_OK && c.stats.findings == before) { /* else there is nothing to ask */
        check_rows(&c);
        status = check_runs(&c, run, error);
        if (status != DTR_OK && !whole) { /* no wonder; the finding says it */
            c.run = 0;
            dtri_found(&c, DTRI_FINDING_INTEGRITY, NULL, "the check could not go on: %s",
                       error ? error->text : "");
            status = DTR_OK;
        }
    }
    *out_stats = c.stats;
    return status;
}
