/* Apache Parquet, a small part of it, which all readers know: flat columns, required or optional,
 * of INT64, DOUBLE or UTF-8 BYTE_ARRAY; a row group for every batch of rows, one data page (version
 * 1) a column, PLAIN values, definition levels RLE or bit-packed, zstd.  Integers have their least
 * and most in the statistics, so that readers can skip row groups by time.
 *
 * Memory is a batch and its pages, and the footer: some 60 bytes a column and row group. */
#include <endian.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/batch.h"
#include "export/metadata.h"
#include "export/thrift.h"

#define MAGIC      "PAR1"
#define ZSTD_LEVEL 1

/* Numbers of the format's own enums. */
enum { TYPE_INT64 = 2, TYPE_DOUBLE = 5, TYPE_BYTE_ARRAY = 6 };
enum { REQUIRED = 0, OPTIONAL = 1 };
enum { ENCODING_PLAIN = 0, ENCODING_RLE = 3 };
enum { CODEC_ZSTD = 6 };
enum { CONVERTED_UTF8 = 0 };

struct writer {
    struct dtri_output *out;
    struct dtri_batch batch;
    ZSTD_CCtx *zstd;
    struct dtri_bytes page, packed; /* a page's body, and the same compressed */
    struct dtri_thrift groups;      /* the row groups, as elements of the footer's list */
    size_t n_groups;
    int64_t n_rows;
    int64_t group_bytes, group_packed; /* of the row group being written */
};

static int type_of(const struct dtri_column *column)
{
    return column->type == DTRI_COLUMN_TEXT   ? TYPE_BYTE_ARRAY
           : column->type == DTRI_COLUMN_REAL ? TYPE_DOUBLE
                                              : TYPE_INT64;
}

/* --- pages ------------------------------------------------------------------------------------ */

/* One bit a row, 1 for a value: a run where all are equal, else groups of eight. */
static void add_levels(struct dtri_bytes *page, const struct dtri_batch_column *data, int n)
{
    struct dtri_bytes levels = {0};
    bool equal = data->n_nulls == 0 || data->n_nulls == n;
    uint64_t head = equal ? (uint64_t)n << 1 : ((uint64_t)n + 7) / 8 << 1 | 1;
    for (; head > 0x7f; head >>= 7)
        dtri_bytes_int(&levels, head | 0x80, 1);
    dtri_bytes_int(&levels, head, 1);
    if (equal)
        dtri_bytes_int(&levels, data->n_nulls == 0, 1);
    for (int i = 0; i < n && !equal; i += 8) {
        unsigned bits = 0;
        for (int k = 0; k < 8 && i + k < n; k++)
            bits |= (unsigned)data->valid[i + k] << k;
        dtri_bytes_int(&levels, bits, 1);
    }
    dtri_bytes_int(page, levels.size, 4);
    dtri_bytes_add(page, levels.data, levels.size);
    page->failed = page->failed || levels.failed;
    dtri_bytes_done(&levels);
}

static void add_values(struct dtri_bytes *page, const struct dtri_batch_column *data, int n)
{
    int32_t begin = 0;
    for (int i = 0; i < n; i++) {
        if (data->ends && data->valid[i]) {
            dtri_bytes_int(page, (uint64_t)(data->ends[i] - begin), 4);
            dtri_bytes_add(page, data->text + begin, (size_t)(data->ends[i] - begin));
            begin = data->ends[i];
        } else if (data->valid[i]) {
            uint64_t little = htole64((uint64_t)data->values[i]);
            dtri_bytes_add(page, &little, sizeof little);
        }
    }
}

static dtr_status compress(struct writer *w, dtr_error *error)
{
    size_t bound = ZSTD_compressBound(w->page.size);
    w->packed.size = 0;
    if (w->page.failed || !DTRI_RESERVE(w->packed.data, w->packed.cap, bound))
        return dtri_fail_nomem(error, "a page of a Parquet file");
    size_t size = ZSTD_compressCCtx(w->zstd, w->packed.data, w->packed.cap, w->page.data,
                                    w->page.size, ZSTD_LEVEL);
    if (ZSTD_isError(size))
        return dtri_fail(error, DTR_E_IO, 0, "cannot compress: %s", ZSTD_getErrorName(size));
    w->packed.size = size;
    return DTR_OK;
}

static void add_page_header(struct dtri_thrift *t, const struct writer *w)
{
    dtri_thrift_begin(t, 0);
    dtri_thrift_int(t, 1, DTRI_THRIFT_I32, 0); /* a data page */
    dtri_thrift_int(t, 2, DTRI_THRIFT_I32, (int64_t)w->page.size);
    dtri_thrift_int(t, 3, DTRI_THRIFT_I32, (int64_t)w->packed.size);
    dtri_thrift_begin(t, 5);
    dtri_thrift_int(t, 1, DTRI_THRIFT_I32, w->batch.n_rows);
    dtri_thrift_int(t, 2, DTRI_THRIFT_I32, ENCODING_PLAIN);
    dtri_thrift_int(t, 3, DTRI_THRIFT_I32, ENCODING_RLE);
    dtri_thrift_int(t, 4, DTRI_THRIFT_I32, ENCODING_RLE);
    dtri_thrift_end(t);
    dtri_thrift_end(t);
}

/* --- row groups ------------------------------------------------------------------------------- */

static void add_statistics(struct dtri_thrift *t, const struct dtri_batch *batch, int column)
{
    const struct dtri_batch_column *data = &batch->data[column];
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int i = 0; data->values && i < batch->n_rows; i++) {
        if (!data->valid[i])
            continue;
        least = data->values[i] < least ? data->values[i] : least;
        most = data->values[i] > most ? data->values[i] : most;
    }
    dtri_thrift_begin(t, 12);
    dtri_thrift_int(t, 3, DTRI_THRIFT_I64, data->n_nulls);
    if (batch->columns[column].type == DTRI_COLUMN_INTEGER && least <= most) {
        uint64_t bounds[] = {htole64((uint64_t)most), htole64((uint64_t)least)};
        dtri_thrift_binary(t, 5, &bounds[0], 8);
        dtri_thrift_binary(t, 6, &bounds[1], 8);
    }
    dtri_thrift_end(t);
}

static void add_chunk(struct writer *w, int column, int64_t offset, int64_t bytes, int64_t packed)
{
    struct dtri_thrift *t = &w->groups;
    const struct dtri_column *info = &w->batch.columns[column];
    dtri_thrift_begin(t, 0);
    dtri_thrift_int(t, 2, DTRI_THRIFT_I64, offset);
    dtri_thrift_begin(t, 3);
    dtri_thrift_int(t, 1, DTRI_THRIFT_I32, type_of(info));
    dtri_thrift_list(t, 2, DTRI_THRIFT_I32, 2);
    dtri_thrift_element(t, ENCODING_PLAIN);
    dtri_thrift_element(t, ENCODING_RLE);
    dtri_thrift_list(t, 3, DTRI_THRIFT_BINARY, 1);
    dtri_thrift_text_element(t, info->name);
    dtri_thrift_int(t, 4, DTRI_THRIFT_I32, CODEC_ZSTD);
    dtri_thrift_int(t, 5, DTRI_THRIFT_I64, w->batch.n_rows);
    dtri_thrift_int(t, 6, DTRI_THRIFT_I64, bytes);
    dtri_thrift_int(t, 7, DTRI_THRIFT_I64, packed);
    dtri_thrift_int(t, 9, DTRI_THRIFT_I64, offset);
    add_statistics(t, &w->batch, column);
    dtri_thrift_end(t);
    dtri_thrift_end(t);
}

static dtr_status write_chunk(struct writer *w, int column, dtr_error *error)
{
    const struct dtri_batch_column *data = &w->batch.data[column];
    struct dtri_thrift header = {0};
    int64_t offset = dtri_output_size(w->out);
    w->page.size = 0;
    if (w->batch.columns[column].optional)
        add_levels(&w->page, data, w->batch.n_rows);
    add_values(&w->page, data, w->batch.n_rows);
    dtr_status status = compress(w, error);
    if (status == DTR_OK) {
        add_page_header(&header, w);
        if (header.bytes.failed)
            status = dtri_fail_nomem(error, "a page of a Parquet file");
    }
    if (status == DTR_OK) {
        int64_t bytes = (int64_t)(header.bytes.size + w->page.size);
        int64_t packed = (int64_t)(header.bytes.size + w->packed.size);
        dtri_output_write(w->out, header.bytes.data, header.bytes.size);
        dtri_output_write(w->out, w->packed.data, w->packed.size);
        add_chunk(w, column, offset, bytes, packed);
        w->group_bytes += bytes;
        w->group_packed += packed;
    }
    dtri_bytes_done(&header.bytes);
    return status;
}

static dtr_status write_group(struct writer *w, dtr_error *error)
{
    struct dtri_thrift *t = &w->groups;
    int64_t offset = dtri_output_size(w->out);
    dtr_status status = DTR_OK;
    w->group_bytes = w->group_packed = 0;
    dtri_thrift_begin(t, 0);
    dtri_thrift_list(t, 1, DTRI_THRIFT_STRUCT, (size_t)w->batch.n_columns);
    for (int c = 0; c < w->batch.n_columns && status == DTR_OK; c++)
        status = write_chunk(w, c, error);
    dtri_thrift_int(t, 2, DTRI_THRIFT_I64, w->group_bytes);
    dtri_thrift_int(t, 3, DTRI_THRIFT_I64, w->batch.n_rows);
    dtri_thrift_int(t, 5, DTRI_THRIFT_I64, offset);
    dtri_thrift_int(t, 6, DTRI_THRIFT_I64, w->group_packed);
    dtri_thrift_end(t);
    w->n_groups++;
    w->n_rows += w->batch.n_rows;
    return status;
}

/* --- the footer ------------------------------------------------------------------------------- */

static void add_schema(struct dtri_thrift *t, const struct dtri_column *columns, int n)
{
    dtri_thrift_list(t, 2, DTRI_THRIFT_STRUCT, (size_t)n + 1);
    dtri_thrift_begin(t, 0);
    dtri_thrift_text(t, 4, "schema");
    dtri_thrift_int(t, 5, DTRI_THRIFT_I32, n);
    dtri_thrift_end(t);
    for (int c = 0; c < n; c++) {
        dtri_thrift_begin(t, 0);
        dtri_thrift_int(t, 1, DTRI_THRIFT_I32, type_of(&columns[c]));
        dtri_thrift_int(t, 3, DTRI_THRIFT_I32, columns[c].optional ? OPTIONAL : REQUIRED);
        dtri_thrift_text(t, 4, columns[c].name);
        if (columns[c].type == DTRI_COLUMN_TEXT) {
            dtri_thrift_int(t, 6, DTRI_THRIFT_I32, CONVERTED_UTF8);
            dtri_thrift_begin(t, 10);
            dtri_thrift_begin(t, 1); /* of the union of logical types: a string */
            dtri_thrift_end(t);
            dtri_thrift_end(t);
        }
        dtri_thrift_end(t);
    }
}

static void add_metadata(struct dtri_thrift *t, const struct dtri_metadata *metadata)
{
    dtri_thrift_list(t, 5, DTRI_THRIFT_STRUCT, metadata->n);
    for (size_t i = 0; i < metadata->n; i++) {
        dtri_thrift_begin(t, 0);
        dtri_thrift_text(t, 1, metadata->pairs[i].key);
        dtri_thrift_text(t, 2, metadata->pairs[i].value);
        dtri_thrift_end(t);
    }
}

/* Least and most compare as the types say. */
static void add_orders(struct dtri_thrift *t, int n)
{
    dtri_thrift_list(t, 7, DTRI_THRIFT_STRUCT, (size_t)n);
    for (int c = 0; c < n; c++) {
        dtri_thrift_begin(t, 0);
        dtri_thrift_begin(t, 1);
        dtri_thrift_end(t);
        dtri_thrift_end(t);
    }
}

static dtr_status write_footer(struct writer *w, const struct dtri_export *job, dtr_error *error)
{
    struct dtri_metadata metadata;
    struct dtri_thrift t = {0};
    dtr_status status = dtri_metadata_init(&metadata, job, error);
    if (status != DTR_OK)
        return status;
    dtri_thrift_begin(&t, 0);
    dtri_thrift_int(&t, 1, DTRI_THRIFT_I32, 1);
    add_schema(&t, w->batch.columns, w->batch.n_columns);
    dtri_thrift_int(&t, 3, DTRI_THRIFT_I64, w->n_rows);
    dtri_thrift_list(&t, 4, DTRI_THRIFT_STRUCT, w->n_groups);
    dtri_bytes_add(&t.bytes, w->groups.bytes.data, w->groups.bytes.size);
    add_metadata(&t, &metadata);
    dtri_thrift_text(&t, 6, "dtrscope version " DTR_VERSION);
    add_orders(&t, w->batch.n_columns);
    dtri_thrift_end(&t);
    size_t size = t.bytes.size;
    dtri_bytes_int(&t.bytes, size, 4);
    dtri_bytes_add(&t.bytes, MAGIC, 4);
    if (t.bytes.failed || w->groups.bytes.failed)
        status = dtri_fail_nomem(error, "the footer of a Parquet file");
    else
        dtri_output_write(w->out, t.bytes.data, t.bytes.size);
    dtri_bytes_done(&t.bytes);
    dtri_metadata_done(&metadata);
    return status;
}

static dtr_status write_rows(struct writer *w, const struct dtri_export *job,
                             struct dtri_table *table, dtr_error *error)
{
    w->zstd = ZSTD_createCCtx();
    dtr_status status =
        w->zstd ? dtri_batch_init(&w->batch, table, error) : dtri_fail_nomem(error, "a compressor");
    if (status == DTR_OK)
        dtri_output_text(w->out, MAGIC);
    while (status == DTR_OK && dtri_output_good(w->out)) {
        status = dtri_batch_fill(&w->batch, table, error);
        if (status != DTR_OK || w->batch.n_rows == 0)
            break;
        status = write_group(w, error);
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
    ZSTD_freeCCtx(w.zstd);
    dtri_bytes_done(&w.page);
    dtri_bytes_done(&w.packed);
    dtri_bytes_done(&w.groups.bytes);
    dtri_batch_done(&w.batch);
    dtri_table_free(table);
    return status;
}

const struct dtri_export_format dtri_export_parquet = {
    .name = "parquet",
    .extension = "parquet",
    .summary = "Apache Parquet with zstd, one table a file; many tables make a directory",
    .table = true,
    .write = write,
};
