/* Reading the time pyramid. */
#include "store/tile_priv.h"

#include "base/alloc.h"
#include "base/error.h"

int dtri_tile_level(int64_t ts_min, int64_t ts_max, int64_t max_buckets)
{
    int level = DTRI_TILE_LEVEL_MIN;
    for (; level < DTRI_TILE_LEVEL_MAX; level++) {
        int shift = dtri_tile_shift(level);
        if ((uint64_t)(ts_max >> shift) - (uint64_t)(ts_min >> shift) < (uint64_t)max_buckets)
            break;
    }
    return level;
}

dtr_status dtri_tiles_levels(struct dtri_store *store, int64_t run, int *out_base, int *out_top,
                             dtr_error *error)
{
    int64_t page;
    dtr_status status = dtri_tiles_flush(store, error);
    return status == DTR_OK ? dtri_tiles_extent(store, run, out_base, out_top, &page, error)
                            : status;
}

dtr_status dtri_tiles_pick(struct dtri_store *store, int64_t run, int64_t ts_min, int64_t ts_max,
                           int64_t max_buckets, int *out_level, dtr_error *error)
{
    int base, top, level = dtri_tile_level(ts_min, ts_max, max_buckets);
    dtr_status status = dtri_tiles_levels(store, run, &base, &top, error);
    if (status != DTR_OK)
        return status;
    /* There is a level with a quarter of the buckets or more, but for windows below the base. */
    *out_level = base != DTRI_TILE_NONE && level >= base ? level : DTRI_TILE_NONE;
    return DTR_OK;
}

/* Appends a bucket, or adds it to the last one when that begins at the same time. */
static bool append(struct dtri_tile_list *list, const struct dtri_tile *tile)
{
    struct dtri_tile *last = list->n ? &list->tiles[list->n - 1] : NULL;
    if (last && last->ts_ns == tile->ts_ns) {
        last->n = dtri_add_sat(last->n, tile->n);
        last->total = dtri_add_sat(last->total, tile->total);
        last->least = tile->least < last->least ? tile->least : last->least;
        last->most = tile->most > last->most ? tile->most : last->most;
        return true;
    }
    if (!DTRI_RESERVE(list->tiles, list->cap, list->n + 1))
        return false;
    list->tiles[list->n++] = *tile;
    return true;
}

/* The buckets of one row as those of `level`, which is theirs or above. */
static dtr_status take_row(struct dtri_store *store, sqlite3_stmt *rows, struct dtri_page_key *key,
                           int level, int64_t first, int64_t last, struct dtri_tile_list *list,
                           dtr_error *error)
{
    struct dtri_tile_row row;
    int down = 2 * (level - (int)key->level), shift = dtri_tile_shift(level);
    key->page = sqlite3_column_int64(rows, 0);
    const void *data = sqlite3_column_blob(rows, 3);
    if (!dtri_tile_row_decode(key, sqlite3_column_int64(rows, 1), sqlite3_column_int64(rows, 2),
                              data, (size_t)sqlite3_column_bytes(rows, 3), &row))
        return dtri_tile_damaged(store, key, error);
    for (int i = 0; i < row.n; i++) {
        int64_t number =
            (int64_t)((uint64_t)key->page * DTRI_TILE_PAGE + (uint64_t)row.columns[0][i]) >> down;
        const struct dtri_tile tile = {(int64_t)((uint64_t)number << shift), row.columns[1][i],
                                       row.columns[2][i], row.columns[3][i], row.columns[4][i]};
        if (number >= first && number <= last && !append(list, &tile))
            return dtri_fail_nomem(error, "tiles");
    }
    return DTR_OK;
}

dtr_status dtri_tiles_read(struct dtri_store *store, int64_t run, int64_t track, int level,
                           int64_t ts_min, int64_t ts_max, struct dtri_tile_list *list,
                           dtr_error *error)
{
    int base, top, code = SQLITE_DONE;
    sqlite3_stmt *rows = NULL;
    list->n = 0;
    dtr_status status = dtri_tiles_levels(store, run, &base, &top, error);
    if (status != DTR_OK || base == DTRI_TILE_NONE)
        return status;
    if (level < base || level > DTRI_TILE_LEVEL_MAX)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                         "%s: run %lld has tiles of the levels %d and up, and level %d is wanted",
                         store->path, (long long)run, base, level);
    struct dtri_page_key key = {run, track, level < top ? level : top, 0};
    int shift = dtri_tile_shift((int)key.level);
    int64_t first = ts_min >> dtri_tile_shift(level), last = ts_max >> dtri_tile_shift(level);
    status = dtri_store_prepare(store,
                                "SELECT page, n, format, data FROM tile WHERE run = ?1 AND "
                                "track = ?2 AND level = ?3 AND page BETWEEN ?4 AND ?5 "
                                "ORDER BY page",
                                &rows, error);
    sqlite3_bind_int64(rows, 1, run);
    sqlite3_bind_int64(rows, 2, track);
    sqlite3_bind_int64(rows, 3, key.level);
    sqlite3_bind_int64(rows, 4, (int64_t)((uint64_t)first << 2 * (level - (int)key.level)) >> 8);
    sqlite3_bind_int64(rows, 5, ts_max >> shift >> 8);
    while (status == DTR_OK && (code = sqlite3_step(rows)) == SQLITE_ROW)
        status = take_row(store, rows, &key, level, first, last, list, error);
    if (status == DTR_OK && code != SQLITE_DONE)
        status = dtri_store_fail(store, "reading tiles", error);
    sqlite3_finalize(rows);
    return status;
}
