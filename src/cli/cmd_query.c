/* dtrscope query: one SELECT over a file, which it cannot change.
 *
 * The connection is read-only, an authorizer lets nothing but reading pass, and memory, time and
 * the length of values are limited: the statement may come from a stranger, and so may the file. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/common.h"
#include "cli/recipes.h"
#include "export/output.h"
#include "store/store.h"

#define MAX_SQL      (1 << 20)
#define MAX_VALUE    (64 << 20)
#define MAX_MEMORY   (INT64_C(1) << 30)
#define TABLE_ROWS   1000 /* by default, of a table for people */
#define CELL_WIDTH   60
#define CHECK_CYCLES 10000

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON, FORMAT_JSONL };
static const char *const formats[] = {"table", "csv", "json", "jsonl", NULL};

struct settings {
    int format;
    int64_t max_rows, timeout_ns, run;
    const char *recipe;
    bool list;
};

#define AT(member) offsetof(struct settings, member)

static const struct dtri_option table[] = {
    {.name = "format",
     .argument = "F",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(format),
     .choices = formats,
     .help = "table (the default), csv, json or jsonl"},
    {.name = "max-rows",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(max_rows),
     .min = 0,
     .max = INT64_MAX,
     .help = "stop after N rows; 1000 for a table, else 0: no limit"},
    {.name = "timeout",
     .argument = "TIME",
     .type = DTRI_OPTION_DURATION,
     .offset = AT(timeout_ns),
     .help = "give up after; 60s by default, 0 is never"},
    {.name = "recipe",
     .argument = "NAME",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(recipe),
     .help = "instead of SQL: one of the queries that come with dtrscope"},
    {.name = "run",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(run),
     .min = 1,
     .max = INT64_MAX,
     .help = "what :run stands for in the SQL; recipes take the first run with events without it"},
    {.name = "list", .type = DTRI_OPTION_FLAG, .offset = AT(list), .help = "list the recipes"},
    {0},
};

/* --- limits ----------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;
static int64_t deadline_ns; /* 0: none */

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static int check_time(void *unused)
{
    (void)unused;
    return interrupted || (deadline_ns && dtri_monotonic_ns() > deadline_ns);
}

/* Pragmas that only tell something, and take at most the name of a table. */
static bool is_harmless(const char *pragma)
{
    static const char *const names[] = {"table_info",   "table_xinfo",    "table_list",
                                        "index_list",   "index_info",     "database_list",
                                        "user_version", "application_id", "function_list",
                                        "module_list",  "compile_options"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (sqlite3_stricmp(pragma, names[i]) == 0)
            return true;
    return false;
}

static int authorize(void *unused, int action, const char *a, const char *b, const char *database,
                     const char *inner)
{
    (void)unused, (void)database, (void)inner;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return b && sqlite3_stricmp(b, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        return a && is_harmless(a) &&
                       (!b || (sqlite3_stricmp(a, "user_version") != 0 &&
                               sqlite3_stricmp(a, "application_id") != 0))
                   ? SQLITE_OK
                   : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

/* Connecting a virtual table looks to an authorizer like changing the schema; so they are connected
 * before there is one. */
static void connect_tables(sqlite3 *db)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    for (int i = -1; i < n; i++) {
        char sql[80];
        sqlite3_stmt *statement = NULL;
        snprintf(sql, sizeof sql, "SELECT 1 FROM dtr_%s%s", i < 0 ? "tile" : "event_",
                 i < 0 ? "" : infos[i].name);
        sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
        sqlite3_finalize(statement);
    }
}

static void set_limits(sqlite3 *db, const struct settings *settings)
{
    sqlite3_hard_heap_limit64(MAX_MEMORY);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MAX_VALUE);
    sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, MAX_SQL);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 200);
    sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_set_authorizer(db, authorize, NULL);
    deadline_ns = settings->timeout_ns ? dtri_monotonic_ns() + settings->timeout_ns : 0;
    sqlite3_progress_handler(db, CHECK_CYCLES, check_time, NULL);
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
}

/* --- values ----------------------------------------------------------------------------------- */

static void write_real(struct dtri_output *out, double real, bool json)
{
    char text[40];
    if (!isfinite(real)) {
        dtri_output_text(out, json ? "null" : isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    snprintf(text, sizeof text, "%.17g", real);
    if (!strpbrk(text, ".e"))
        snprintf(text + strlen(text), sizeof text - strlen(text), ".0");
    dtri_output_text(out, text);
}

static void write_hex(struct dtri_output *out, const unsigned char *data, int size)
{
    for (int i = 0; i < size; i++)
        dtri_output_format(out, "%02x", data[i]);
}

static void write_json(struct dtri_output *out, sqlite3_stmt *row, int column)
{
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        dtri_output_int(out, sqlite3_column_int64(row, column));
        break;
    case SQLITE_FLOAT:
        write_real(out, sqlite3_column_double(row, column), true);
        break;
    case SQLITE_TEXT:
        dtri_output_json(out, (const char *)sqlite3_column_text(row, column));
        break;
    case SQLITE_BLOB:
        dtri_output_text(out, "\"");
        write_hex(out, sqlite3_column_blob(row, column), sqlite3_column_bytes(row, column));
        dtri_output_text(out, "\"");
        break;
    default:
        dtri_output_text(out, "null");
    }
}

static void write_csv_text(struct dtri_output *out, const char *text)
{
    if (text[0] && !strpbrk(text, ",\"\r\n")) {
        dtri_output_text(out, text);
        return;
    }
    dtri_output_text(out, "\"");
    for (; *text; text++)
        dtri_output_write(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    dtri_output_text(out, "\"");
}

static void write_csv(struct dtri_output *out, sqlite3_stmt *row, int column)
{
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        dtri_output_int(out, sqlite3_column_int64(row, column));
        break;
    case SQLITE_FLOAT:
        write_real(out, sqlite3_column_double(row, column), false);
        break;
    case SQLITE_TEXT:
        write_csv_text(out, (const char *)sqlite3_column_text(row, column));
        break;
    case SQLITE_BLOB:
        write_hex(out, sqlite3_column_blob(row, column), sqlite3_column_bytes(row, column));
        break;
    default:
        break;
    }
}

/* --- a table for people ----------------------------------------------------------------------- */

/* Cells as texts, all rows of it, since widths have to be known first. */
struct cells {
    char **texts;
    size_t n, cap;
    int columns;
};

/* What a terminal shows as one line: control bytes and what is no ASCII or UTF-8 lead become ?. */
static char *cell_text(sqlite3_stmt *row, int column)
{
    char text[CELL_WIDTH + 8];
    int type = sqlite3_column_type(row, column);
    if (type == SQLITE_FLOAT)
        snprintf(text, sizeof text, "%.6g", sqlite3_column_double(row, column));
    else if (type == SQLITE_BLOB)
        snprintf(text, sizeof text, "(%d bytes)", sqlite3_column_bytes(row, column));
    else {
        const char *from =
            type == SQLITE_NULL ? "" : (const char *)sqlite3_column_text(row, column);
        snprintf(text, sizeof text, "%.*s%s", CELL_WIDTH, from ? from : "",
                 from && strlen(from) > CELL_WIDTH ? "..." : "");
        for (char *at = text; *at; at++)
            if ((unsigned char)*at < 0x20 || *at == 0x7f)
                *at = '?';
    }
    return dtri_strdup(text);
}

static bool add_row(struct cells *cells, sqlite3_stmt *row)
{
    for (int i = 0; i < cells->columns; i++) {
        if (!DTRI_RESERVE(cells->texts, cells->cap, cells->n + 1))
            return false;
        char *text = cell_text(row, i);
        if (!text)
            return false;
        cells->texts[cells->n++] = text;
    }
    return true;
}

static int width_of(const struct cells *cells, int column, const char *name)
{
    size_t width = strlen(name);
    for (size_t i = (size_t)column; i < cells->n; i += (size_t)cells->columns)
        width = strlen(cells->texts[i]) > width ? strlen(cells->texts[i]) : width;
    return (int)width;
}

static void print_cells(struct dtri_output *out, const struct cells *cells, sqlite3_stmt *statement)
{
    int widths[256], n = cells->columns < 256 ? cells->columns : 256;
    for (int c = 0; c < n; c++) {
        widths[c] = width_of(cells, c, sqlite3_column_name(statement, c));
        dtri_output_format(out, "%s%-*s", c ? "  " : "", widths[c],
                           sqlite3_column_name(statement, c));
    }
    dtri_output_text(out, "\n");
    for (size_t i = 0; i < cells->n; i += (size_t)cells->columns) {
        for (int c = 0; c < n; c++) {
            const char *text = cells->texts[i + (size_t)c];
            bool number = text[0] && strspn(text, "0123456789.-+e") == strlen(text);
            dtri_output_format(out, number ? "%s%*s" : "%s%-*s", c ? "  " : "", widths[c], text);
        }
        dtri_output_text(out, "\n");
    }
}

static void cells_done(struct cells *cells)
{
    for (size_t i = 0; i < cells->n; i++)
        dtri_free(cells->texts[i]);
    dtri_free(cells->texts);
}

/* --- running ---------------------------------------------------------------------------------- */

static void write_header(struct dtri_output *out, sqlite3_stmt *statement, int format)
{
    if (format == FORMAT_JSON)
        dtri_output_text(out, "[");
    if (format != FORMAT_CSV)
        return;
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        dtri_output_text(out, i ? "," : "");
        write_csv_text(out, sqlite3_column_name(statement, i));
    }
    dtri_output_text(out, "\n");
}

static void write_row(struct dtri_output *out, sqlite3_stmt *row, int format, bool first)
{
    int n = sqlite3_column_count(row);
    if (format == FORMAT_CSV) {
        for (int i = 0; i < n; i++) {
            dtri_output_text(out, i ? "," : "");
            write_csv(out, row, i);
        }
        dtri_output_text(out, "\n");
        return;
    }
    dtri_output_text(out, format == FORMAT_JSONL ? "{" : first ? "\n{" : ",\n{");
    for (int i = 0; i < n; i++) {
        dtri_output_text(out, i ? ", " : "");
        dtri_output_json(out, sqlite3_column_name(row, i));
        dtri_output_text(out, ": ");
        write_json(out, row, i);
    }
    dtri_output_text(out, format == FORMAT_JSONL ? "}\n" : "}");
}

static dtr_status why(struct dtri_store *store, const struct settings *settings, dtr_error *error)
{
    sqlite3 *db = dtri_store_db(store);
    int code = sqlite3_errcode(db);
    char limit[DTRI_UNITS_TEXT];
    if (code == SQLITE_INTERRUPT && interrupted)
        return dtri_fail(error, DTR_E_INTERRUPTED, 0, "interrupted");
    if (code == SQLITE_INTERRUPT)
        return dtri_fail(error, DTR_E_INTERRUPTED, 0,
                         "gave up after %s; give a longer --timeout, or ask for less",
                         dtri_format_ns(settings->timeout_ns, limit));
    if (code == SQLITE_AUTH)
        return dtri_fail(error, DTR_E_INVALID, 0, "%s: query only reads: it runs a SELECT",
                         sqlite3_errmsg(db));
    return dtri_fail(error, code == SQLITE_NOMEM ? DTR_E_NOMEM : DTR_E_INVALID, 0, "%s: %s",
                     dtri_store_path(store), sqlite3_errmsg(db));
}

static dtr_status write_rows(struct dtri_store *store, sqlite3_stmt *statement,
                             const struct settings *settings, struct dtri_output *out,
                             dtr_error *error)
{
    struct cells cells = {.columns = sqlite3_column_count(statement)};
    dtr_status status = DTR_OK;
    int64_t n = 0;
    int code;
    write_header(out, statement, settings->format);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && dtri_output_good(out)) {
        if (settings->max_rows && n == settings->max_rows) {
            fprintf(stderr,
                    "dtrscope query: there are more rows; %" PRId64
                    " are shown, --max-rows 0 shows all\n",
                    n);
            code = SQLITE_DONE;
            break;
        }
        if (settings->format != FORMAT_TABLE)
            write_row(out, statement, settings->format, n == 0);
        else if (!add_row(&cells, statement))
            status = dtri_fail_nomem(error, "the rows");
        if (status != DTR_OK)
            break;
        n++;
    }
    if (status == DTR_OK && code != SQLITE_DONE && code != SQLITE_ROW)
        status = why(store, settings, error);
    if (settings->format == FORMAT_TABLE && (n || status == DTR_OK))
        print_cells(out, &cells, statement);
    else if (settings->format == FORMAT_JSON)
        dtri_output_text(out, n ? "\n]\n" : "]\n");
    cells_done(&cells);
    return status;
}

static dtr_status prepare(struct dtri_store *store, const char *sql,
                          const struct settings *settings, sqlite3_stmt **out, dtr_error *error)
{
    const char *rest = NULL;
    sqlite3_stmt *second = NULL;
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, out, &rest) != SQLITE_OK)
        return why(store, settings, error);
    if (!*out)
        return dtri_fail(error, DTR_E_INVALID, 0, "there is no statement in the SQL");
    sqlite3_prepare_v2(dtri_store_db(store), rest, -1, &second, NULL);
    bool more = second || sqlite3_errcode(dtri_store_db(store)) != SQLITE_OK;
    sqlite3_finalize(second);
    dtr_status status = DTR_OK;
    if (more)
        status = dtri_fail(error, DTR_E_INVALID, 0, "give one statement, and nothing after it");
    else if (!sqlite3_column_count(*out))
        status = dtri_fail(error, DTR_E_INVALID, 0, "the statement returns no rows");
    int place = sqlite3_bind_parameter_index(*out, ":run");
    if (status == DTR_OK && place && settings->run)
        sqlite3_bind_int64(*out, place, settings->run);
    if (status != DTR_OK)
        sqlite3_finalize(*out);
    return status;
}

static dtr_status query(const char *path, const char *sql, const struct settings *settings,
                        dtr_error *error)
{
    struct dtri_store *store;
    sqlite3_stmt *statement = NULL;
    struct dtri_output *out;
    dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &store, error);
    if (status != DTR_OK)
        return status;
    connect_tables(dtri_store_db(store));
    set_limits(dtri_store_db(store), settings);
    status = prepare(store, sql, settings, &statement, error);
    if (status == DTR_OK) {
        status = dtri_output_open("-", false, &out, error);
        if (status == DTR_OK) {
            status = write_rows(store, statement, settings, out, error);
            dtr_status closed = dtri_output_close(out, true, status == DTR_OK ? error : NULL);
            status = status == DTR_OK ? closed : status;
        }
        sqlite3_finalize(statement);
    }
    dtri_store_close(store, NULL);
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

/* A recipe's first line is a comment that says what it answers. */
static void list_recipes(void)
{
    for (int i = 0; dtri_recipes[i].name; i++) {
        const char *sql = (const char *)dtri_recipes[i].sql;
        int length = (int)strcspn(sql, "\n");
        printf("%-22s %.*s\n", dtri_recipes[i].name, length > 3 ? length - 3 : 0, sql + 3);
    }
}

static const char *find_recipe(const char *name, dtr_error *error)
{
    for (int i = 0; dtri_recipes[i].name; i++)
        if (strcmp(dtri_recipes[i].name, name) == 0)
            return (const char *)dtri_recipes[i].sql;
    dtri_fail(error, DTR_E_NOT_FOUND, 0,
              "there is no recipe \"%s\"; `dtrscope query --list` shows them", name);
    return NULL;
}

static char *read_input(dtr_error *error)
{
    char *text = dtri_malloc(MAX_SQL + 1);
    size_t n = text ? fread(text, 1, MAX_SQL, stdin) : 0;
    if (!text)
        dtri_fail_nomem(error, "the SQL");
    else
        text[n] = 0;
    return text;
}

static int run(int argc, char **argv)
{
    struct settings settings = {.max_rows = -1, .timeout_ns = INT64_C(60000000000)};
    struct dtri_arguments arguments;
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_query;
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (settings.list) {
        list_recipes();
        return DTRI_EXIT_OK;
    }
    if (arguments.n_positionals != (settings.recipe ? 1 : 2))
        return dtri_cli_usage(command, settings.recipe
                                           ? "give one file"
                                           : "give a file and the SQL, or - to read it");
    if (settings.max_rows < 0)
        settings.max_rows = settings.format == FORMAT_TABLE ? TABLE_ROWS : 0;
    const char *sql =
        settings.recipe ? find_recipe(settings.recipe, &error) : arguments.positionals[1];
    char *input = NULL;
    if (sql && strcmp(sql, "-") == 0)
        sql = input = read_input(&error);
    dtr_status status =
        sql ? query(arguments.positionals[0], sql, &settings, &error) : error.status;
    dtri_free(input);
    return status == DTR_OK ? DTRI_EXIT_OK : dtri_cli_fail(command, &error);
}

const struct dtri_command dtri_command_query = {
    .name = "query",
    .synopsis = "FILE SQL|- [--run N] [OPTIONS], or FILE --recipe NAME",
    .summary = "run a SELECT, or one of the recipes, over a file",
    .run = run,
};
