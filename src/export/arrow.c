/* Apache Arrow, as an IPC file (Feather version 2), which is also a stream with a frame around it:
 * INT64, DOUBLE and UTF-8 columns, a record batch for every batch of rows, no compression and no
 * dictionaries, so that what is read can be mapped.
 *
 * Memory is a batch, and 24 bytes a batch for the footer. */
#include <endian.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/batch.h"
#include "export/flatbuffer.h"
#include "export/metadata.h"

#define MAGIC "ARROW1"

/* Numbers of the format's own enums. */
enum { VERSION_5 = 4 };
enum { HEADER_SCHEMA = 1, HEADER_RECORD_BATCH = 3 };
enum { TYPE_INT = 2, TYPE_FLOATING_POINT = 3, TYPE_UTF8 = 5 };
enum { PRECISION_DOUBLE = 2 };

#define MAX_BUFFERS (3 * DTRI_TABLE_COLUMNS)

struct writer {
    struct dtri_output *out;
    struct dtri_batch batch;
    struct dtri_flat flat;
    int64_t *blocks; /* of the record batches: offset, size of the message's head, of its body */
    size_t n_blocks, blocks_cap;
};

static void write_padding(struct dtri_output *out, int64_t size)
{
    static const char zeros[8];
    dtri_output_write(out, zeros, (size_t)(-size & 7));
}

static void write_int(struct dtri_output *out, uint32_t value)
{
    value = htole32(value);
    dtri_output_write(out, &value, sizeof value);
}

static dtr_status no_memory(dtr_error *error)
{
    return dtri_fail_nomem(error, "a message of an Arrow file");
}

/* --- the schema ------------------------------------------------------------------------------- */

static dtri_flat_ref add_type(struct dtri_flat *f, enum dtri_column_type type, int *out_number)
{
    dtri_flat_begin(f);
    if (type == DTRI_COLUMN_INTEGER) {
        dtri_flat_int(f, 0, 64, 4);
        dtri_flat_int(f, 1, 1, 1); /* with a sign */
        *out_number = TYPE_INT;
    } else if (type == DTRI_COLUMN_REAL) {
        dtri_flat_int(f, 0, PRECISION_DOUBLE, 2);
        *out_number = TYPE_FLOATING_POINT;
    } else {
        *out_number = TYPE_UTF8;
    }
    return dtri_flat_end(f);
}

static dtri_flat_ref add_column(struct dtri_flat *f, const struct dtri_column *column)
{
    int number;
    dtri_flat_ref type = add_type(f, column->type, &number);
    dtri_flat_ref name = dtri_flat_text(f, column->name);
    dtri_flat_ref children = dtri_flat_refs(f, NULL, 0);
    dtri_flat_begin(f);
    dtri_flat_refer(f, 0, name);
    dtri_flat_int(f, 1, column->optional, 1);
    dtri_flat_int(f, 2, number, 1);
    dtri_flat_refer(f, 3, type);
    dtri_flat_refer(f, 5, children);
    return dtri_flat_end(f);
}

static dtr_status add_metadata(struct dtri_flat *f, const struct dtri_export *job,
                               dtri_flat_ref *out_pairs, dtr_error *error)
{
    struct dtri_metadata metadata;
    dtr_status status = dtri_metadata_init(&metadata, job, error);
    if (status != DTR_OK)
        return status;
    dtri_flat_ref *pairs = dtri_calloc(metadata.n, sizeof *pairs);
    for (size_t i = 0; pairs && i < metadata.n; i++) {
        dtri_flat_ref key = dtri_flat_text(f, metadata.pairs[i].key);
        dtri_flat_ref value = dtri_flat_text(f, metadata.pairs[i].value);
        dtri_flat_begin(f);
        dtri_flat_refer(f, 0, key);
        dtri_flat_refer(f, 1, value);
        pairs[i] = dtri_flat_end(f);
    }
    if (pairs)
        *out_pairs = dtri_flat_refs(f, pairs, metadata.n);
    else
        status = no_memory(error);
    dtri_free(pairs);
    dtri_metadata_done(&metadata);
    return status;
}

static dtr_status add_schema(struct writer *w, const struct dtri_export *job,
                             dtri_flat_ref *out_schema, dtr_error *error)
{
    dtri_flat_ref fields[DTRI_TABLE_COLUMNS], pairs = 0;
    dtr_status status = add_metadata(&w->flat, job, &pairs, error);
    if (status != DTR_OK)
        return status;
    for (int c = 0; c < w->batch.n_columns; c++)
        fields[c] = add_column(&w->flat, &w->batch.columns[c]);
    dtri_flat_ref columns = dtri_flat_refs(&w->flat, fields, (size_t)w->batch.n_columns);
    dtri_flat_begin(&w->flat);
    dtri_flat_int(&w->flat, 0, 0, 2); /* little-endian */
    dtri_flat_refer(&w->flat, 1, columns);
    dtri_flat_refer(&w->flat, 2, pairs);
    *out_schema = dtri_flat_end(&w->flat);
    return DTR_OK;
}

/* --- messages --------------------------------------------------------------------------------- */

/* The head of a message; *out_size is what it takes in the file. */
static dtr_status write_message(struct writer *w, int header_type, dtri_flat_ref header,
                                int64_t body, int64_t *out_size, dtr_error *error)
{
    size_t size;
    dtri_flat_begin(&w->flat);
    dtri_flat_int(&w->flat, 3, body, 8);
    dtri_flat_refer(&w->flat, 2, header);
    dtri_flat_int(&w->flat, 0, VERSION_5, 2);
    dtri_flat_int(&w->flat, 1, header_type, 1);
    dtri_flat_ref message = dtri_flat_end(&w->flat);
    const unsigned char *data = dtri_flat_finish(&w->flat, message, &size);
    if (!data)
        return no_memory(error);
    write_int(w->out, UINT32_MAX);
    write_int(w->out, (uint32_t)size);
    dtri_output_write(w->out, data, size);
    *out_size = 8 + (int64_t)size;
    w->flat.size = 0;
    return DTR_OK;
}

static dtr_status write_schema(struct writer *w, const struct dtri_export *job, dtr_error *error)
{
    dtri_flat_ref schema;
    int64_t size;
    dtr_status status = add_schema(w, job, &schema, error);
    return status == DTR_OK ? write_message(w, HEADER_SCHEMA, schema, 0, &size, error) : status;
}

/* --- record batches --------------------------------------------------------------------------- */

struct layout {
    int64_t nodes[2 * DTRI_TABLE_COLUMNS]; /* rows and NULLs of each column */
    int64_t buffers[2 * MAX_BUFFERS];      /* offset and size of each */
    size_t n_buffers;
    int64_t size;
};

static void add_buffer(struct layout *layout, int64_t size)
{
    layout->buffers[2 * layout->n_buffers] = layout->size;
    layout->buffers[2 * layout->n_buffers++ + 1] = size;
    layout->size += (size + 7) & ~INT64_C(7);
}

static void lay_out(const struct dtri_batch *batch, struct layout *layout)
{
    int64_t n = batch->n_rows;
    *layout = (struct layout){0};
    for (int c = 0; c < batch->n_columns; c++) {
        const struct dtri_batch_column *data = &batch->data[c];
        layout->nodes[2 * c] = n;
        layout->nodes[2 * c + 1] = data->n_nulls;
        add_buffer(layout, data->n_nulls ? (n + 7) / 8 : 0);
        if (data->ends) {
            add_buffer(layout, 4 * (n + 1));
            add_buffer(layout, (int64_t)data->text_size);
        } else {
            add_buffer(layout, 8 * n);
        }
    }
}

static void write_valid(struct dtri_output *out, const struct dtri_batch_column *data, int n)
{
    for (int i = 0; i < n; i += 8) {
        unsigned char bits = 0;
        for (int k = 0; k < 8 && i + k < n; k++)
            bits |= (unsigned char)(data->valid[i + k] << k);
        dtri_output_write(out, &bits, 1);
    }
    write_padding(out, (n + 7) / 8);
}

static void write_column(struct dtri_output *out, const struct dtri_batch_column *data, int n)
{
    if (data->n_nulls)
        write_valid(out, data, n);
    if (!data->ends) {
        for (int i = 0; i < n; i++) {
            uint64_t little = htole64((uint64_t)data->values[i]);
            dtri_output_write(out, &little, sizeof little);
        }
        return;
    }
    write_int(out, 0);
    for (int i = 0; i < n; i++)
        write_int(out, (uint32_t)data->ends[i]);
    write_padding(out, 4 * ((int64_t)n + 1));
    dtri_output_write(out, data->text, data->text_size);
    write_padding(out, (int64_t)data->text_size);
}

static dtr_status write_batch(struct writer *w, dtr_error *error)
{
    struct layout layout;
    int64_t offset = dtri_output_size(w->out), head;
    lay_out(&w->batch, &layout);
    dtri_flat_ref nodes = dtri_flat_structs(&w->flat, layout.nodes, 2, (size_t)w->batch.n_columns);
    dtri_flat_ref buffers = dtri_flat_structs(&w->flat, layout.buffers, 2, layout.n_buffers);
    dtri_flat_begin(&w->flat);
    dtri_flat_int(&w->flat, 0, w->batch.n_rows, 8);
    dtri_flat_refer(&w->flat, 1, nodes);
    dtri_flat_refer(&w->flat, 2, buffers);
    dtri_flat_ref batch = dtri_flat_end(&w->flat);
    dtr_status status = write_message(w, HEADER_RECORD_BATCH, batch, layout.size, &head, error);
    if (status != DTR_OK)
        return status;
    for (int c = 0; c < w->batch.n_columns; c++)
        write_column(w->out, &w->batch.data[c], w->batch.n_rows);
    if (!DTRI_RESERVE(w->blocks, w->blocks_cap, 3 * (w->n_blocks + 1)))
        return no_memory(error);
    int64_t *block = w->blocks + 3 * w->n_blocks++;
    block[0] = offset;
    block[1] = head; /* 32 bits and as many of padding */
    block[2] = layout.size;
    return DTR_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static dtr_status write_footer(struct writer *w, const struct dtri_export *job, dtr_error *error)
{
    dtri_flat_ref schema;
    size_t size;
    write_int(w->out, UINT32_MAX); /* the stream ends */
    write_int(w->out, 0);
    dtr_status status = add_schema(w, job, &schema, error);
    if (status != DTR_OK)
        return status;
    dtri_flat_ref none = dtri_flat_structs(&w->flat, NULL, 3, 0);
    dtri_flat_ref blocks = dtri_flat_structs(&w->flat, w->blocks, 3, w->n_blocks);
    dtri_flat_begin(&w->flat);
    dtri_flat_int(&w->flat, 0, VERSION_5, 2);
    dtri_flat_refer(&w->flat, 1, schema);
    dtri_flat_refer(&w->flat, 2, none);
    dtri_flat_refer(&w->flat, 3, blocks);
    dtri_flat_ref footer = dtri_flat_end(&w->flat);
    const unsigned char *data = dtri_flat_finish(&w->flat, footer, &size);
    if (!data)
        return no_memory(error);
    dtri_output_write(w->out, data, size);
    write_int(w->out, (uint32_t)size);
    dtri_output_text(w->out, MAGIC);
    return DTR_OK;
}

static dtr_status write_rows(struct writer *w, const struct dtri_export *job,
                             struct dtri_table *table, dtr_error *error)
{
    dtr_status status = dtri_batch_init(&w->batch, table, error);
    if (status == DTR_OK) {
        dtri_output_write(w->out, MAGIC "\0", 8);
        status = write_schema(w, job, error);
    }
    while (status == DTR_OK && dtri_output_good(w->out)) {
        status = dtri_batch_fill(&w->batch, table, error);
        if (status != DTR_OK || w->batch.n_rows == 0)
            break;
        status = write_batch(w, error);
    }
    return status == DTR_OK ? write_footer(w, job, error) : status;
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct writer w = {.out = out};
    struct dtri_table *table;
    dtr_status status = dtri_table_open(job, job->table, &table, error);
    if (status != DTR_OK)
        return status;
    status = write_rows(&w, job, table, error);
    dtri_flat_done(&w.flat);
    dtri_batch_done(&w.batch);
    dtri_free(w.blocks);
    dtri_table_free(table);
    return status;
}

const struct dtri_export_format dtri_export_arrow = {
    .name = "arrow",
    .extension = "arrow",
    .summary = "an Apache Arrow IPC file, one table a file; many tables make a directory",
    .table = true,
    .write = write,
};
