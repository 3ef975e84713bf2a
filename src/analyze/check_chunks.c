/* How the events lie in the file: chunks and tiles. */
#include <string.h>

#include "analyze/check.h"
#include "base/alloc.h"
#include "base/error.h"
#include "store/chunk.h"
#include "store/tile.h"

#define MAX_COLUMNS (2 + DTR_EVENT_MAX_FIELDS)

struct chunk {
    int64_t id, kind, ts_min, ts_max, seq_min, seq_max, n, format;
    const void *data;
    size_t size;
};

static void find_range(const int64_t *values, int n, int64_t *out_min, int64_t *out_max)
{
    *out_min = *out_max = values[0];
    for (int i = 1; i < n; i++) {
        *out_min = values[i] < *out_min ? values[i] : *out_min;
        *out_max = values[i] > *out_max ? values[i] : *out_max;
    }
}

/* True when its events can be read. */
static bool check_chunk(struct dtri_check *c, const struct chunk *chunk,
                        struct dtri_chunk_codec *codec, int64_t **columns)
{
    const dtr_event_info *info = dtr_event_info_of(chunk->kind);
    int64_t ts_min, ts_max, seq_min, seq_max;
    if (!info) { /* of a newer program, perhaps: no reader looks for it */
        dtri_found(c, DTRI_FINDING_CHUNK_KIND, NULL, "chunk %lld is of kind %lld, which is none",
                   (long long)chunk->id, (long long)chunk->kind);
        return true;
    }
    if (dtri_chunk_decode(codec, chunk->format, chunk->data, chunk->size, 2 + info->n_fields,
                          chunk->n, UINT64_MAX, columns) != DTR_OK) {
        dtri_found(c, DTRI_FINDING_CHUNK_DATA, NULL,
                   "chunk %lld (%s, %lld events in %zu bytes, format %lld) does not unpack",
                   (long long)chunk->id, info->name, (long long)chunk->n, chunk->size,
                   (long long)chunk->format);
        return false;
    }
    c->stats.events += chunk->n;
    find_range(columns[0], (int)chunk->n, &ts_min, &ts_max);
    find_range(columns[1], (int)chunk->n, &seq_min, &seq_max);
    if (ts_min != chunk->ts_min || ts_max != chunk->ts_max)
        dtri_found(c, DTRI_FINDING_CHUNK_RANGE, NULL,
                   "chunk %lld (%s) has times from %lld to %lld and says %lld to %lld",
                   (long long)chunk->id, info->name, (long long)ts_min, (long long)ts_max,
                   (long long)chunk->ts_min, (long long)chunk->ts_max);
    if (seq_min != chunk->seq_min || seq_max != chunk->seq_max)
        dtri_found(c, DTRI_FINDING_CHUNK_RANGE, NULL,
                   "chunk %lld (%s) has numbers from %lld to %lld and says %lld to %lld",
                   (long long)chunk->id, info->name, (long long)seq_min, (long long)seq_max,
                   (long long)chunk->seq_min, (long long)chunk->seq_max);
    return true;
}

static void read_chunk(sqlite3_stmt *row, struct chunk *chunk)
{
    int64_t *values[] = {&chunk->id,      &chunk->kind,    &chunk->ts_min, &chunk->ts_max,
                         &chunk->seq_min, &chunk->seq_max, &chunk->n,      &chunk->format};
    for (int i = 0; i < 8; i++)
        *values[i] = sqlite3_column_int64(row, i);
    chunk->data = sqlite3_column_blob(row, 8);
    chunk->size = (size_t)sqlite3_column_bytes(row, 8);
}

static dtr_status check_all(struct dtri_check *c, sqlite3_stmt *chunks, int64_t **columns,
                            bool *out_readable, dtr_error *error)
{
    struct dtri_chunk_codec codec = {0};
    struct chunk chunk;
    int code;
    while ((code = sqlite3_step(chunks)) == SQLITE_ROW) {
        read_chunk(chunks, &chunk);
        *out_readable = check_chunk(c, &chunk, &codec, columns) && *out_readable;
    }
    dtri_chunk_codec_done(&codec);
    return code == SQLITE_DONE
               ? DTR_OK
               : dtri_fail(error, DTR_E_FORMAT, 0, "%s: reading chunks: %s",
                           dtri_store_path(c->store), sqlite3_errmsg(dtri_store_db(c->store)));
}

static void tile_fault(void *user, int64_t track, int level, int64_t page, const char *what)
{
    const struct dtri_track_info *info = dtri_track_info_of(track);
    dtri_found(user, DTRI_FINDING_TILE, NULL, "page %lld of level %d of track %s %s",
               (long long)page, level, info ? info->name : "that is none", what);
}

/* Version 1 had none. */
static bool has_tiles(struct dtri_store *store)
{
    sqlite3_stmt *version = NULL;
    bool has = sqlite3_prepare_v2(dtri_store_db(store), "PRAGMA user_version", -1, &version,
                                  NULL) == SQLITE_OK &&
               sqlite3_step(version) == SQLITE_ROW && sqlite3_column_int64(version, 0) >= 2;
    sqlite3_finalize(version);
    return has;
}

dtr_status dtri_check_chunks(struct dtri_check *c, const struct dtri_run *run, bool *out_readable,
                             dtr_error *error)
{
    int64_t *columns[MAX_COLUMNS], faults;
    sqlite3_stmt *chunks = NULL;
    int64_t *values = dtri_malloc((size_t)MAX_COLUMNS * DTRI_CHUNK_EVENTS * sizeof *values);
    if (!values)
        return dtri_fail_nomem(error, "the check");
    for (int i = 0; i < MAX_COLUMNS; i++)
        columns[i] = values + (size_t)i * DTRI_CHUNK_EVENTS;
    dtr_status status = DTR_OK;
    if (sqlite3_prepare_v2(dtri_store_db(c->store),
                           "SELECT id, kind, ts_min, ts_max, seq_min, seq_max, n, format, data "
                           "FROM event_chunk WHERE run = ?1 ORDER BY id",
                           -1, &chunks, NULL) != SQLITE_OK)
        status = dtri_fail(error, DTR_E_FORMAT, 0, "%s: %s", dtri_store_path(c->store),
                           sqlite3_errmsg(dtri_store_db(c->store)));
    *out_readable = true;
    if (status == DTR_OK) {
        sqlite3_bind_int64(chunks, 1, run->id);
        status = check_all(c, chunks, columns, out_readable, error);
    }
    sqlite3_finalize(chunks);
    dtri_free(values);
    if (status == DTR_OK && *out_readable && has_tiles(c->store))
        status = dtri_tiles_verify(c->store, run->id, tile_fault, c, &faults, error);
    return status;
}
