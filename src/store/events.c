/* The event stream: collecting events by kind into chunks, and reading chunks back. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/chunk.h"
#include "store/store_priv.h"

#define MAX_COLUMNS (2 + DTR_EVENT_MAX_FIELDS)

/* --- writing ---------------------------------------------------------------------------------- */

/* Events of one kind that are not written yet. */
struct bucket {
    const dtr_event_info *info;
    int64_t *columns[MAX_COLUMNS];
    int n;
};

struct dtri_store_writer {
    struct dtri_store *store;
    int64_t run;
    struct bucket *buckets; /* one a kind, in the order of the list */
    struct bucket *by_kind[64];
    int n_buckets;
    unsigned char *packed;
    bool compress;
    struct dtri_chunk_codec codec;
};

void dtri_store_writer_free(struct dtri_store_writer *w)
{
    if (!w)
        return;
    for (int i = 0; w->buckets && i < w->n_buckets; i++)
        dtri_free(w->buckets[i].columns[0]);
    dtri_free(w->buckets);
    dtri_free(w->packed);
    dtri_chunk_codec_done(&w->codec);
    dtri_free(w);
}

dtr_status dtri_store_writer_new(struct dtri_store *store, int64_t run,
                                 struct dtri_store_writer **out_writer, dtr_error *error)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    struct dtri_store_writer *w = dtri_calloc(1, sizeof *w);
    if (!w)
        return dtri_fail_nomem(error, "an event writer");
    w->store = store;
    w->run = run;
    w->n_buckets = n;
    w->buckets = dtri_calloc((size_t)n, sizeof *w->buckets);
    w->packed = dtri_malloc(DTRI_CHUNK_BYTES(MAX_COLUMNS, DTRI_CHUNK_EVENTS));
    if (!w->buckets || !w->packed) {
        dtri_store_writer_free(w);
        return dtri_fail_nomem(error, "an event writer");
    }
    for (int i = 0; i < n; i++) {
        w->buckets[i].info = &infos[i];
        w->by_kind[infos[i].kind] = &w->buckets[i];
    }
    *out_writer = w;
    return DTR_OK;
}

void dtri_store_writer_compress(struct dtri_store_writer *w, bool compress)
{
    w->compress = compress;
}

static void range(const int64_t *values, int n, int64_t *out_min, int64_t *out_max)
{
    int64_t min = values[0], max = values[0];
    for (int i = 1; i < n; i++) {
        min = values[i] < min ? values[i] : min;
        max = values[i] > max ? values[i] : max;
    }
    *out_min = min;
    *out_max = max;
}

/* A statement to insert a chunk, inside a transaction. */
static dtr_status ready_to_insert(struct dtri_store *store, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (sqlite3_get_autocommit(store->db))
        status = dtri_store_exec(store, "BEGIN", error);
    if (status == DTR_OK && !store->insert_chunk)
        status = dtri_store_prepare(
            store, "INSERT INTO event_chunk VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            &store->insert_chunk, error);
    return status;
}

/* The events of a bucket, packed; borrowed until the next. */
static dtr_status pack(struct dtri_store_writer *w, const struct bucket *b, int n,
                       const unsigned char **out_data, size_t *out_size, dtr_error *error)
{
    *out_size =
        dtri_chunk_pack((const int64_t *const *)b->columns, 2 + b->info->n_fields, n, w->packed);
    *out_data = w->packed;
    if (w->compress &&
        dtri_chunk_compress(&w->codec, w->packed, *out_size, out_data, out_size) != DTR_OK)
        return dtri_fail_nomem(error, "compressing events");
    return DTR_OK;
}

static dtr_status write_chunk(struct dtri_store_writer *w, struct bucket *b, dtr_error *error)
{
    struct dtri_store *store = w->store;
    const unsigned char *data;
    size_t size;
    int64_t ts_min, ts_max, seq_min, seq_max;
    int n = b->n;
    range(b->columns[0], n, &ts_min, &ts_max);
    range(b->columns[1], n, &seq_min, &seq_max);
    b->n = 0;
    dtr_status status = ready_to_insert(store, error);
    if (status == DTR_OK)
        status = dtri_tiles_add(store, w->run, b->info->kind, n, (const int64_t *const *)b->columns,
                                error);
    if (status != DTR_OK)
        return status;
    status = pack(w, b, n, &data, &size, error);
    const int64_t integers[] = {
        w->run,  b->info->kind, ts_min, ts_max,
        seq_min, seq_max,       n,      w->compress ? DTRI_CHUNK_FORMAT_ZSTD : DTRI_CHUNK_FORMAT};
    for (int i = 0; i < 8; i++)
        sqlite3_bind_int64(store->insert_chunk, i + 1, integers[i]);
    if (status == DTR_OK) {
        sqlite3_bind_blob64(store->insert_chunk, 9, data, size, SQLITE_STATIC);
        status = dtri_store_step(store, store->insert_chunk, "writing events", error);
    }
    if (status != DTR_OK)
        dtri_tiles_break(store);
    return status;
}

static bool bucket_reserve(struct bucket *b)
{
    if (b->columns[0])
        return true;
    int64_t *values =
        dtri_malloc((size_t)(2 + b->info->n_fields) * DTRI_CHUNK_EVENTS * sizeof *values);
    for (int c = 0; values && c < 2 + b->info->n_fields; c++)
        b->columns[c] = values + (size_t)c * DTRI_CHUNK_EVENTS;
    return values != NULL;
}

dtr_status dtri_store_writer_add(struct dtri_store_writer *w, const dtr_event *event,
                                 dtr_error *error)
{
    struct bucket *b = event->kind > 0 && event->kind < 64 ? w->by_kind[event->kind] : NULL;
    if (!b)
        return dtri_fail(error, DTR_E_INVALID, 0, "an event of unknown kind %lld",
                         (long long)event->kind);
    if (!bucket_reserve(b))
        return dtri_fail_nomem(error, "events waiting to be written");
    b->columns[0][b->n] = event->ts_ns;
    b->columns[1][b->n] = event->seq;
    for (int i = 0; i < b->info->n_fields; i++)
        b->columns[2 + i][b->n] = event->u.raw[i];
    return ++b->n == DTRI_CHUNK_EVENTS ? write_chunk(w, b, error) : DTR_OK;
}

dtr_status dtri_store_writer_flush(struct dtri_store_writer *w, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (int i = 0; i < w->n_buckets && status == DTR_OK; i++)
        if (w->buckets[i].n)
            status = write_chunk(w, &w->buckets[i], error);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct dtri_store_reader {
    struct dtri_store *store;
    sqlite3_stmt *statement;
    int n_columns;
    uint64_t wanted;
    int64_t *columns[MAX_COLUMNS];
    struct dtri_chunk_codec codec;
};

void dtri_store_reader_free(struct dtri_store_reader *r)
{
    if (!r)
        return;
    sqlite3_finalize(r->statement);
    dtri_chunk_codec_done(&r->codec);
    dtri_free(r->columns[0]);
    dtri_free(r);
}

dtr_status dtri_store_reader_new(struct dtri_store *store, int64_t run, dtr_event_kind kind,
                                 int64_t ts_min, int64_t ts_max, uint64_t wanted,
                                 struct dtri_store_reader **out_reader, dtr_error *error)
{
    const dtr_event_info *info = dtr_event_info_of(kind);
    struct dtri_store_reader *r = dtri_calloc(1, sizeof *r);
    if (!r)
        return dtri_fail_nomem(error, "an event reader");
    r->store = store;
    r->n_columns = 2 + info->n_fields;
    r->wanted = wanted;
    int64_t *values = dtri_malloc((size_t)r->n_columns * DTRI_CHUNK_EVENTS * sizeof *values);
    dtr_status status = values ? DTR_OK : dtri_fail_nomem(error, "an event reader");
    for (int c = 0; values && c < r->n_columns; c++)
        r->columns[c] = values + (size_t)c * DTRI_CHUNK_EVENTS;
    if (status == DTR_OK) /* without the limit, SQLite is free to forget the order */
        status = dtri_store_prepare(
            store,
            "SELECT c.n, c.format, c.data, c.id FROM (SELECT id FROM event_chunk "
            "WHERE run = ?1 AND kind = ?2 AND ts_max >= ?3 AND ts_min <= ?4 "
            "ORDER BY id LIMIT -1) AS o CROSS JOIN event_chunk AS c ON c.id = o.id",
            &r->statement, error);
    if (status != DTR_OK) {
        dtri_store_reader_free(r);
        return status;
    }
    sqlite3_bind_int64(r->statement, 1, run);
    sqlite3_bind_int64(r->statement, 2, kind);
    sqlite3_bind_int64(r->statement, 3, ts_min);
    sqlite3_bind_int64(r->statement, 4, ts_max);
    *out_reader = r;
    return DTR_OK;
}

dtr_status dtri_store_reader_next(struct dtri_store_reader *r, int *out_n,
                                  const int64_t *const **out_columns, dtr_error *error)
{
    int code = sqlite3_step(r->statement);
    *out_n = 0;
    if (code == SQLITE_DONE)
        return DTR_OK;
    if (code != SQLITE_ROW)
        return dtri_store_fail(r->store, "reading events", error);
    int64_t n = sqlite3_column_int64(r->statement, 0);
    const void *data = sqlite3_column_blob(r->statement, 2);
    size_t size = (size_t)sqlite3_column_bytes(r->statement, 2);
    dtr_status status = dtri_chunk_decode(&r->codec, sqlite3_column_int64(r->statement, 1), data,
                                          size, r->n_columns, n, r->wanted, r->columns);
    if (status == DTR_E_NOMEM)
        return dtri_fail_nomem(error, "reading events");
    if (status != DTR_OK)
        return dtri_fail(error, DTR_E_FORMAT, 0, "%s: event chunk %lld is damaged", r->store->path,
                         (long long)sqlite3_column_int64(r->statement, 3));
    *out_n = (int)n;
    *out_columns = (const int64_t *const *)r->columns;
    return DTR_OK;
}

/* --- all rows of a kind ----------------------------------------------------------------------- */

/* Stable by seq.  Chunks of one writer are in order already, so this mostly just looks. */
static void sort_rows(struct dtri_rows *rows);

dtr_status dtri_store_load(struct dtri_store *store, int64_t run, dtr_event_kind kind,
                           int64_t ts_min, int64_t ts_max, struct dtri_rows *out_rows,
                           dtr_error *error)
{
    struct dtri_store_reader *reader;
    struct dtri_rows rows = {.n_columns = 2 + dtr_event_info_of(kind)->n_fields};
    dtr_status status =
        dtri_store_reader_new(store, run, kind, ts_min, ts_max, DTRI_ALL_COLUMNS, &reader, error);
    if (status != DTR_OK)
        return status;
    for (;;) {
        int n;
        const int64_t *const *columns;
        status = dtri_store_reader_next(reader, &n, &columns, error);
        if (status != DTR_OK || n == 0)
            break;
        size_t width = (size_t)rows.n_columns;
        if (!DTRI_RESERVE(rows.rows, rows.cap, (rows.n + (size_t)n) * width)) {
            status = dtri_fail_nomem(error, "events of a run");
            break;
        }
        for (int i = 0; i < n; i++) {
            if (columns[0][i] < ts_min || columns[0][i] > ts_max)
                continue;
            for (size_t c = 0; c < width; c++)
                rows.rows[rows.n * width + c] = columns[c][i];
            rows.n++;
        }
    }
    dtri_store_reader_free(reader);
    if (status == DTR_OK) {
        sort_rows(&rows);
        *out_rows = rows;
    } else {
        dtri_rows_done(&rows);
    }
    return status;
}

static int by_seq(const void *a, const void *b)
{
    int64_t x = ((const int64_t *)a)[1], y = ((const int64_t *)b)[1];
    return (x > y) - (x < y);
}

static void sort_rows(struct dtri_rows *rows)
{
    size_t width = (size_t)rows->n_columns;
    for (size_t i = 1; i < rows->n; i++)
        if (rows->rows[i * width + 1] < rows->rows[(i - 1) * width + 1]) {
            qsort(rows->rows, rows->n, width * sizeof *rows->rows, by_seq);
            return;
        }
}

void dtri_rows_done(struct dtri_rows *rows)
{
    dtri_free(rows->rows);
    *rows = (struct dtri_rows){0};
}
