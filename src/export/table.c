#include "export/table.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/utf8.h"

/* --- which there are -------------------------------------------------------------------------- */

/* A column of a table of few rows: T text, I integer, R real, C a time of the run's clock. */
struct plain_column {
    const char *name;
    char type;
};

struct plain_table {
    const char *name, *run, *order; /* run: the column that says which run a row is of */
    struct plain_column columns[DTRI_TABLE_COLUMNS];
};

#define COLUMN_T(name) {#name, 'T'},
#define COLUMN_I(name) {#name, 'I'},
#define COLUMN_R(name) {#name, 'R'},

static const struct plain_table plain_tables[] = {
    {"run", "id", "id", {{"id", 'I'}, DTRI_RUN_COLUMNS(COLUMN_T, COLUMN_I, COLUMN_R)}},
    {"setting", "run", "name", {{"name", 'T'}, {"value", 'T'}, {"origin", 'T'}}},
    {"name", "run", "id", {{"id", 'I'}, {"text", 'T'}}},
    {"loss", "run", "reason", {{"reason", 'T'}, {"count", 'I'}}},
    {"clock_sample",
     "run",
     "rowid",
     {{"monotonic_ns", 'C'}, {"unix_ns", 'I'}, {"uncertainty_ns", 'I'}}},
    {"recording_window",
     "run",
     "id",
     {{"id", 'I'},
      {"begin_ts_ns", 'C'},
      {"end_ts_ns", 'C'},
      {"opened_by", 'T'},
      {"closed_by", 'T'},
      {"skipped", 'I'}}},
};
#define N_PLAIN ((int)(sizeof plain_tables / sizeof plain_tables[0]))

static const struct plain_table *find_plain(const char *name)
{
    for (int i = 0; i < N_PLAIN; i++)
        if (strcmp(plain_tables[i].name, name) == 0)
            return &plain_tables[i];
    return NULL;
}

static const dtr_event_info *find_kind(const char *name)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(infos[i].name, name) == 0)
            return &infos[i];
    return NULL;
}

const char *dtri_table_name(int place)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    if (place < N_PLAIN)
        return plain_tables[place].name;
    return place - N_PLAIN < n ? infos[place - N_PLAIN].name : NULL;
}

bool dtri_table_is_kind(const char *name)
{
    return find_kind(name) != NULL;
}

bool dtri_table_wanted(const struct dtri_export *job, const char *name)
{
    const dtr_event_info *info = find_kind(name);
    return !info || job->kinds & DTRI_KIND_BIT(info->kind);
}

/* --- opening ---------------------------------------------------------------------------------- */

struct dtri_table {
    const struct dtri_export *job;
    const dtr_event_info *info;      /* of a kind of event, with `stream` */
    const struct plain_table *plain; /* else, with `rows` */
    struct dtri_stream *stream;
    sqlite3_stmt *rows;
    bool ended;
    int n_columns;
    struct dtri_column columns[DTRI_TABLE_COLUMNS];
    struct dtri_cell cells[DTRI_TABLE_COLUMNS];
    char *texts[DTRI_TABLE_COLUMNS]; /* of columns whose text had to be made valid */
    size_t caps[DTRI_TABLE_COLUMNS];
};

void dtri_table_free(struct dtri_table *table)
{
    if (!table)
        return;
    dtri_stream_free(table->stream);
    sqlite3_finalize(table->rows);
    for (int i = 0; i < DTRI_TABLE_COLUMNS; i++)
        dtri_free(table->texts[i]);
    dtri_free(table);
}

static void add_column(struct dtri_table *table, const char *name, enum dtri_column_type type,
                       bool optional)
{
    table->columns[table->n_columns++] = (struct dtri_column){name, type, optional};
}

static dtr_status open_kind(struct dtri_table *table, dtr_error *error)
{
    add_column(table, "ts_ns", DTRI_COLUMN_INTEGER, false);
    add_column(table, "seq", DTRI_COLUMN_INTEGER, false);
    for (int i = 0; i < table->info->n_fields; i++) {
        const dtr_field_info *field = &table->info->fields[i];
        add_column(table, field->name,
                   field->unit == DTR_UNIT_NAME   ? DTRI_COLUMN_TEXT
                   : field->unit == DTR_UNIT_REAL ? DTRI_COLUMN_REAL
                                                  : DTRI_COLUMN_INTEGER,
                   dtri_export_none(field, DTR_NONE));
    }
    return dtri_export_open(table->job, DTRI_KIND_BIT(table->info->kind), &table->stream, error);
}

static dtr_status query_failed(struct dtri_table *table, dtr_error *error)
{
    sqlite3 *db = dtri_store_db(table->job->store);
    return dtri_fail(error, DTR_E_FORMAT, sqlite3_extended_errcode(db), "%s: reading table %s: %s",
                     dtri_store_path(table->job->store), table->plain->name, sqlite3_errmsg(db));
}

static dtr_status open_plain(struct dtri_table *table, dtr_error *error)
{
    char sql[2048] = "SELECT ";
    size_t used = strlen(sql);
    const struct plain_table *plain = table->plain;
    for (int i = 0; plain->columns[i].name; i++) {
        char type = plain->columns[i].type;
        add_column(table, plain->columns[i].name,
                   type == 'T'   ? DTRI_COLUMN_TEXT
                   : type == 'R' ? DTRI_COLUMN_REAL
                                 : DTRI_COLUMN_INTEGER,
                   true);
        used += (size_t)snprintf(sql + used, sizeof sql - used, "%s%s", i ? ", " : "",
                                 plain->columns[i].name);
    }
    snprintf(sql + used, sizeof sql - used, " FROM %s WHERE %s = ?1 ORDER BY %s", plain->name,
             plain->run, plain->order);
    if (sqlite3_prepare_v2(dtri_store_db(table->job->store), sql, -1, &table->rows, NULL) !=
            SQLITE_OK ||
        sqlite3_bind_int64(table->rows, 1, table->job->run->id) != SQLITE_OK)
        return query_failed(table, error);
    return DTR_OK;
}

dtr_status dtri_table_open(const struct dtri_export *job, const char *name,
                           struct dtri_table **out_table, dtr_error *error)
{
    struct dtri_table *table = dtri_calloc(1, sizeof *table);
    if (!table)
        return dtri_fail_nomem(error, "a table");
    table->job = job;
    table->info = find_kind(name);
    table->plain = find_plain(name);
    dtr_status status = table->info ? open_kind(table, error)
                        : table->plain
                            ? open_plain(table, error)
                            : dtri_fail(error, DTR_E_NOT_FOUND, 0, "there is no table %.64s", name);
    if (status == DTR_OK)
        *out_table = table;
    else
        dtri_table_free(table);
    return status;
}

const struct dtri_column *dtri_table_columns(const struct dtri_table *table, int *out_n)
{
    *out_n = table->n_columns;
    return table->columns;
}

/* --- rows ------------------------------------------------------------------------------------- */

static dtr_status set_text(struct dtri_table *table, int column, const char *text, dtr_error *error)
{
    struct dtri_cell *cell = &table->cells[column];
    cell->text = text;
    if (dtri_utf8_valid(text, &cell->size))
        return DTR_OK;
    if (!DTRI_RESERVE(table->texts[column], table->caps[column], DTRI_UTF8_GROWTH * cell->size + 1))
        return dtri_fail_nomem(error, "a name");
    cell->size = dtri_utf8_clean(text, table->texts[column]);
    table->texts[column][cell->size] = '\0';
    cell->text = table->texts[column];
    return DTR_OK;
}

/* Modulo 2^64, as the store's differences are: a damaged file gives odd numbers, no overflow. */
static int64_t rebased(const struct dtri_table *table, int64_t ts_ns)
{
    return (int64_t)((uint64_t)ts_ns - (uint64_t)table->job->run->base_ts_ns);
}

static dtr_status fill_event(struct dtri_table *table, const dtr_event *event, dtr_error *error)
{
    struct dtri_cell *cells = table->cells;
    dtr_status status = DTR_OK;
    cells[0].integer = rebased(table, event->ts_ns);
    cells[1].integer = event->seq;
    for (int i = 0; i < table->info->n_fields && status == DTR_OK; i++) {
        const dtr_field_info *field = &table->info->fields[i];
        struct dtri_cell *cell = &cells[2 + i];
        int64_t raw = event->u.raw[i];
        cell->null = raw == DTR_NONE && table->columns[2 + i].optional;
        cell->integer = raw;
        if (field->unit == DTR_UNIT_REAL)
            memcpy(&cell->real, &raw, sizeof raw);
        else if (field->unit == DTR_UNIT_NAME && !cell->null)
            status = set_text(table, 2 + i, dtri_names_text(table->job->names, raw), error);
    }
    return status;
}

/* A monotonic sample lies on the clock of the events only when that is the monotonic one. */
static bool on_clock(const struct dtri_table *table, char type)
{
    return type == 'C' && (strcmp(table->plain->name, "clock_sample") != 0 ||
                           strcmp(table->job->run->clock, "monotonic") == 0);
}

static dtr_status fill_plain(struct dtri_table *table, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (int i = 0; i < table->n_columns && status == DTR_OK; i++) {
        struct dtri_cell *cell = &table->cells[i];
        char type = table->plain->columns[i].type;
        const char *text;
        cell->null = sqlite3_column_type(table->rows, i) == SQLITE_NULL;
        if (cell->null)
            continue;
        if (type == 'R')
            cell->real = sqlite3_column_double(table->rows, i);
        else if (type != 'T')
            cell->integer = sqlite3_column_int64(table->rows, i);
        else if ((text = (const char *)sqlite3_column_text(table->rows, i)) != NULL)
            status = set_text(table, i, text, error);
        else
            status = dtri_fail_nomem(error, "a text");
        if (on_clock(table, type))
            cell->integer = rebased(table, cell->integer);
    }
    return status;
}

dtr_status dtri_table_next(struct dtri_table *table, const struct dtri_cell **out_cells,
                           dtr_error *error)
{
    dtr_status status = DTR_OK;
    *out_cells = NULL;
    if (table->info) {
        const dtr_event *event;
        status = dtri_export_next(table->job, table->stream, &event, error);
        if (status != DTR_OK || !event)
            return status;
        status = fill_event(table, event, error);
    } else {
        int code = table->ended ? SQLITE_DONE : sqlite3_step(table->rows);
        table->ended = code == SQLITE_DONE; /* another step would begin anew */
        if (table->ended)
            return DTR_OK;
        status = code == SQLITE_ROW ? fill_plain(table, error) : query_failed(table, error);
    }
    if (status == DTR_OK)
        *out_cells = table->cells;
    return status;
}
