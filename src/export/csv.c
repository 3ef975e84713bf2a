/* CSV (RFC 4180, lines end with LF): one table a file with a header.  A NULL is an empty field, an
 * empty text a quoted one.  Reals have the 17 digits that give them back; inf and nan are words. */
#include <math.h>
#include <string.h>

#include "export/table.h"

static void write_text(struct dtri_output *out, const struct dtri_cell *cell)
{
    if (cell->size && !cell->text[strcspn(cell->text, ",\"\r\n")]) {
        dtri_output_write(out, cell->text, cell->size);
        return;
    }
    const char *at = cell->text;
    dtri_output_write(out, "\"", 1);
    for (;;) {
        size_t n = strcspn(at, "\"");
        dtri_output_write(out, at, n);
        at += n;
        if (!*at)
            break;
        dtri_output_write(out, "\"\"", 2);
        at++;
    }
    dtri_output_write(out, "\"", 1);
}

static void write_cell(struct dtri_output *out, enum dtri_column_type type,
                       const struct dtri_cell *cell)
{
    if (cell->null)
        return;
    if (type == DTRI_COLUMN_INTEGER)
        dtri_output_int(out, cell->integer);
    else if (type == DTRI_COLUMN_TEXT)
        write_text(out, cell);
    else if (isfinite(cell->real))
        dtri_output_format(out, "%.17g", cell->real);
    else
        dtri_output_text(out, isnan(cell->real) ? "nan" : cell->real > 0 ? "inf" : "-inf");
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct dtri_table *table;
    const struct dtri_cell *cells;
    int n;
    dtr_status status = dtri_table_open(job, job->table, &table, error);
    if (status != DTR_OK)
        return status;
    const struct dtri_column *columns = dtri_table_columns(table, &n);
    for (int i = 0; i < n; i++) {
        dtri_output_text(out, i ? "," : "");
        dtri_output_text(out, columns[i].name);
    }
    dtri_output_text(out, "\n");
    while ((status = dtri_table_next(table, &cells, error)) == DTR_OK && cells &&
           dtri_output_good(out)) {
        for (int i = 0; i < n; i++) {
            if (i)
                dtri_output_write(out, ",", 1);
            write_cell(out, columns[i].type, &cells[i]);
        }
        dtri_output_write(out, "\n", 1);
    }
    dtri_table_free(table);
    return status;
}

const struct dtri_export_format dtri_export_csv = {
    .name = "csv",
    .extension = "csv",
    .summary = "comma-separated values, one table a file; many tables make a directory",
    .table = true,
    .write = write,
};
