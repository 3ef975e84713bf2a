#include "export/batch.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

void dtri_batch_done(struct dtri_batch *batch)
{
    for (int c = 0; c < batch->n_columns; c++) {
        dtri_free(batch->data[c].values);
        dtri_free(batch->data[c].ends);
        dtri_free(batch->data[c].text);
        dtri_free(batch->data[c].valid);
    }
    *batch = (struct dtri_batch){0};
}

dtr_status dtri_batch_init(struct dtri_batch *batch, const struct dtri_table *table,
                           dtr_error *error)
{
    *batch = (struct dtri_batch){0};
    batch->columns = dtri_table_columns(table, &batch->n_columns);
    for (int c = 0; c < batch->n_columns; c++) {
        struct dtri_batch_column *data = &batch->data[c];
        bool text = batch->columns[c].type == DTRI_COLUMN_TEXT;
        data->valid = dtri_malloc(DTRI_BATCH_ROWS);
        if (text)
            data->ends = dtri_malloc(DTRI_BATCH_ROWS * sizeof *data->ends);
        else
            data->values = dtri_malloc(DTRI_BATCH_ROWS * sizeof *data->values);
        if (!data->valid || (text ? !data->ends : !data->values)) {
            dtri_batch_done(batch);
            return dtri_fail_nomem(error, "a batch of rows");
        }
    }
    return DTR_OK;
}

static dtr_status add_text(struct dtri_batch *batch, struct dtri_batch_column *data,
                           const struct dtri_cell *cell, dtr_error *error)
{
    size_t size = cell->null ? 0 : cell->size;
    if (size > INT32_MAX - data->text_size)
        return dtri_fail(error, DTR_E_LIMIT, 0,
                         "a name of %zu bytes is too long for this format; csv and jsonl take it",
                         size);
    if (!DTRI_RESERVE(data->text, data->text_cap, data->text_size + size))
        return dtri_fail_nomem(error, "texts of a batch");
    if (size)
        memcpy(data->text + data->text_size, cell->text, size);
    data->text_size += size;
    batch->text_size += size;
    data->ends[batch->n_rows] = (int32_t)data->text_size;
    return DTR_OK;
}

static dtr_status add_row(struct dtri_batch *batch, const struct dtri_cell *cells, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (int c = 0; c < batch->n_columns && status == DTR_OK; c++) {
        struct dtri_batch_column *data = &batch->data[c];
        const struct dtri_cell *cell = &cells[c];
        data->valid[batch->n_rows] = !cell->null;
        data->n_nulls += cell->null;
        if (batch->columns[c].type == DTRI_COLUMN_TEXT)
            status = add_text(batch, data, cell, error);
        else if (cell->null)
            data->values[batch->n_rows] = 0;
        else if (batch->columns[c].type == DTRI_COLUMN_REAL)
            memcpy(&data->values[batch->n_rows], &cell->real, sizeof cell->real);
        else
            data->values[batch->n_rows] = cell->integer;
    }
    batch->n_rows++;
    return status;
}

dtr_status dtri_batch_fill(struct dtri_batch *batch, struct dtri_table *table, dtr_error *error)
{
    batch->n_rows = 0;
    batch->text_size = 0;
    for (int c = 0; c < batch->n_columns; c++) {
        batch->data[c].text_size = 0;
        batch->data[c].n_nulls = 0;
    }
    while (batch->n_rows < DTRI_BATCH_ROWS && batch->text_size < DTRI_BATCH_TEXT) {
        const struct dtri_cell *cells;
        dtr_status status = dtri_table_next(table, &cells, error);
        if (status != DTR_OK || !cells)
            return status;
        status = add_row(batch, cells, error);
        if (status != DTR_OK)
            return status;
    }
    return DTR_OK;
}

/* --- bytes ------------------------------------------------------------------------------------ */

void dtri_bytes_add(struct dtri_bytes *bytes, const void *data, size_t size)
{
    if (bytes->failed || !DTRI_RESERVE(bytes->data, bytes->cap, bytes->size + size)) {
        bytes->failed = true;
        return;
    }
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void dtri_bytes_int(struct dtri_bytes *bytes, uint64_t value, int width)
{
    unsigned char little[8];
    for (int i = 0; i < width; i++)
        little[i] = (unsigned char)(value >> 8 * i);
    dtri_bytes_add(bytes, little, (size_t)width);
}

void dtri_bytes_done(struct dtri_bytes *bytes)
{
    dtri_free(bytes->data);
    *bytes = (struct dtri_bytes){0};
}
