/* dtrscope info: what is in a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/common.h"
#include "store/store.h"

static const struct dtri_option table[] = {{0}};

static void print_time(const char *label, int64_t unix_ns)
{
    char text[64];
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    printf("  %-14s %s\n", label, text);
}

static void print_budget(const struct dtri_run *run)
{
    char text[DTRI_UNITS_TEXT];
    if (run->budget_bytes == DTRI_NULL)
        printf("  %-14s none\n", "budget");
    else
        printf("  %-14s %s (%" PRId64 "), heuristic %s, search %s, %s deallocation\n", "budget",
               dtri_format_bytes(run->budget_bytes, text), run->budget_bytes, run->heuristic,
               run->search, run->deallocation);
}

static dtr_status print_query(struct dtri_store *store, int64_t run, const char *sql,
                              void (*print)(sqlite3_stmt *), dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL) != SQLITE_OK)
        return dtri_fail(error, DTR_E_FORMAT, 0, "%s: %s", dtri_store_path(store),
                         sqlite3_errmsg(dtri_store_db(store)));
    sqlite3_bind_int64(statement, 1, run);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        print(statement);
    dtr_status status = DTR_OK;
    if (code != SQLITE_DONE)
        status = dtri_fail(error, DTR_E_FORMAT, 0, "%s: %s", dtri_store_path(store),
                           sqlite3_errmsg(dtri_store_db(store)));
    sqlite3_finalize(statement);
    return status;
}

static const char *text_at(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text && text[0] ? text : "not set";
}

static void print_setting(sqlite3_stmt *row)
{
    printf("    %-14s %-24s (%s)\n", text_at(row, 0), text_at(row, 1), text_at(row, 2));
}

static void print_loss(sqlite3_stmt *row)
{
    const char *reason = text_at(row, 0);
    const char *label = strcmp(reason, "overwritten") == 0 ? "given up" : "LOST";
    if (sqlite3_column_type(row, 1) == SQLITE_NULL)
        printf("  %-14s an unknown number of events: %s\n", label, reason);
    else
        printf("  %-14s %lld events: %s\n", label, (long long)sqlite3_column_int64(row, 1), reason);
}

/* Times count from the start of the run. */
static void print_window(sqlite3_stmt *row)
{
    char begin[DTRI_UNITS_TEXT], end[DTRI_UNITS_TEXT] = "the last event";
    dtri_format_ns(sqlite3_column_int64(row, 0), begin);
    if (sqlite3_column_type(row, 1) != SQLITE_NULL)
        dtri_format_ns(sqlite3_column_int64(row, 1), end);
    printf("  %-14s %s to %s (%s to %s)", "recorded", begin, end, text_at(row, 2), text_at(row, 3));
    if (sqlite3_column_int64(row, 4))
        printf(", %lld events left out", (long long)sqlite3_column_int64(row, 4));
    putchar('\n');
}

static void print_place(const struct dtri_run *run)
{
    char text[DTRI_UNITS_TEXT];
    if (strcmp(run->kind, "live") == 0) {
        printf("  %-14s %s, process %" PRId64, "where", run->host[0] ? run->host : "unknown host",
               run->pid);
        if (run->rank != DTRI_NULL)
            printf(", rank %" PRId64, run->rank);
        putchar('\n');
    }
    if (run->source[0])
        printf("  %-14s %s\n", "from", run->source);
    if (strcmp(run->clock, "monotonic") == 0 && run->unix_offset_ns == DTRI_NULL)
        printf("  %-14s unaligned: its times cannot be compared with those of other runs\n",
               "clock");
    else if (run->unix_offset_ns != DTRI_NULL)
        printf("  %-14s times + %" PRId64 " ns are Unix time, within %s\n", "clock",
               run->unix_offset_ns, dtri_format_ns(run->unix_uncertainty_ns, text));
}

static void print_completeness(const struct dtri_run *run, const struct dtri_completeness *c)
{
    if (strcmp(run->result, "running") == 0)
        puts("  complete       no: the run has not ended, or was killed");
    else
        printf("  complete       %s\n", c->lost || c->unknown ? "no: see above"
                                        : dtri_is_complete(c)
                                            ? "yes, no event was lost"
                                            : "of what was to be recorded: see above");
}

static void print_kind(sqlite3_stmt *row)
{
    const dtr_event_info *info = dtr_event_info_of(sqlite3_column_int64(row, 0));
    printf("    %-14s %12lld events %14lld bytes\n", info ? info->name : "unknown",
           (long long)sqlite3_column_int64(row, 1), (long long)sqlite3_column_int64(row, 2));
}

static dtr_status print_run(struct dtri_store *store, const struct dtri_run *run, dtr_error *error)
{
    char text[DTRI_UNITS_TEXT];
    struct dtri_completeness complete;
    printf("run %" PRId64 " (%s): %s%s%s\n", run->id, run->kind, run->result,
           run->why[0] ? ", " : "", run->why);
    printf("  %-14s %s\n", run->program[0] ? "program" : "trace",
           run->program[0] ? run->program : run->trace);
    print_time("started", run->started_at_unix_ns);
    print_place(run);
    print_budget(run);
    if (run->peak_bytes != DTRI_NULL)
        printf("  %-14s %s (%" PRId64 ")\n", "peak", dtri_format_bytes(run->peak_bytes, text),
               run->peak_bytes);
    if (run->exit_code != DTRI_NULL)
        printf("  %-14s %" PRId64 "\n", "exit code", run->exit_code);
    dtr_status status = print_query(store, run->id, "SELECT reason, count FROM loss WHERE run = ?1",
                                    print_loss, error);
    if (status == DTR_OK)
        status = print_query(store, run->id,
                             "SELECT w.begin_ts_ns - r.base_ts_ns, w.end_ts_ns - r.base_ts_ns, "
                             "w.opened_by, coalesce(w.closed_by, 'end'), w.skipped FROM "
                             "recording_window AS w JOIN run AS r ON r.id = w.run WHERE w.run = ?1 "
                             "ORDER BY w.id",
                             print_window, error);
    if (status == DTR_OK)
        status = dtri_store_completeness(store, run->id, &complete, error);
    if (status == DTR_OK && run->has_events == 1) {
        print_completeness(run, &complete);
        puts("  events");
        status =
            print_query(store, run->id,
                        "SELECT kind, sum(n), sum(length(data)) FROM event_chunk WHERE run = ?1 "
                        "GROUP BY kind ORDER BY kind",
                        print_kind, error);
    }
    if (status == DTR_OK && strcmp(run->kind, "live") == 0) {
        puts("  settings");
        status = print_query(store, run->id,
                             "SELECT name, value, origin FROM setting WHERE run = ?1 ORDER BY name",
                             print_setting, error);
    }
    return status;
}

/* Sweeps hold hundreds of runs: those with events are shown in full, the rest counted. */
static dtr_status print_file(struct dtri_store *store, dtr_error *error)
{
    struct dtri_run *runs;
    int n, without = 0;
    dtr_status status = dtri_store_runs(store, &runs, &n, error);
    if (status != DTR_OK)
        return status;
    printf("%s: schema version %d, %d run%s\n", dtri_store_path(store), DTRI_STORE_VERSION, n,
           n == 1 ? "" : "s");
    for (int i = 0; i < n && status == DTR_OK; i++) {
        if (runs[i].has_events == 1)
            status = print_run(store, &runs[i], error);
        else
            without++;
    }
    if (without)
        printf("%d simulated run%s of a sweep, results only; `dtrscope sweep` prints them\n",
               without, without == 1 ? "" : "s");
    dtri_free(runs);
    return status;
}

static int run(int argc, char **argv)
{
    struct dtri_arguments arguments;
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_info;
    if (dtri_options_parse(table, NULL, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals != 1)
        return dtri_cli_usage(command, "give one file");
    struct dtri_store *store = NULL;
    dtr_status status = dtri_store_open(arguments.positionals[0], DTRI_STORE_READ, &store, &error);
    if (status == DTR_OK)
        status = print_file(store, &error);
    dtri_store_close(store, NULL);
    return status == DTR_OK ? DTRI_EXIT_OK : dtri_cli_fail(command, &error);
}

const struct dtri_command dtri_command_info = {
    .name = "info",
    .synopsis = "FILE",
    .summary = "what is in a file: runs, settings with their origin, events, losses",
    .run = run,
};
