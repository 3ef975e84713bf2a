/* A run as plain tables, row by row: one for each kind of event, and those of few rows.
 *
 * For formats that hold tables.  Names are texts and valid UTF-8, times count from the base time of
 * the run, and what DTR_NONE says is a NULL.  The column `run` is left out: there is one. */
#ifndef DTRI_EXPORT_TABLE_H
#define DTRI_EXPORT_TABLE_H

#include "export/export.h"

enum dtri_column_type { DTRI_COLUMN_INTEGER, DTRI_COLUMN_REAL, DTRI_COLUMN_TEXT };

struct dtri_column {
    const char *name;
    enum dtri_column_type type;
    bool optional; /* may be NULL */
};

struct dtri_cell {
    bool null;
    int64_t integer;
    double real;
    const char *text; /* `size` bytes and a NUL, which is not in between */
    size_t size;
};

#define DTRI_TABLE_COLUMNS 64 /* at most */

/* The names of all tables, NULL after the last: those of few rows, then the kinds of events. */
const char *dtri_table_name(int place);
bool dtri_table_is_kind(const char *name);
/* False for a kind that the job does not ask for. */
bool dtri_table_wanted(const struct dtri_export *job, const char *name);

struct dtri_table;
dtr_status dtri_table_open(const struct dtri_export *job, const char *name,
                           struct dtri_table **out_table, dtr_error *error);
const struct dtri_column *dtri_table_columns(const struct dtri_table *table, int *out_n);
/* *out_cells is a row, borrowed until the next call, or NULL at the end. */
dtr_status dtri_table_next(struct dtri_table *table, const struct dtri_cell **out_cells,
                           dtr_error *error);
void dtri_table_free(struct dtri_table *table); /* accepts NULL */

#endif
