/* Pages of the time pyramid, and the rows that keep them. */
#include "store/tile_priv.h"

#include <string.h>

#include "base/error.h"
#include "store/chunk.h"

void dtri_page_merge(struct dtri_page *page, int bucket, int64_t n, int64_t total, int64_t least,
                     int64_t most)
{
    if (page->n[bucket] == 0) {
        page->total[bucket] = total;
        page->least[bucket] = least;
        page->most[bucket] = most;
    } else {
        page->total[bucket] = dtri_add_sat(page->total[bucket], total);
        page->least[bucket] = least < page->least[bucket] ? least : page->least[bucket];
        page->most[bucket] = most > page->most[bucket] ? most : page->most[bucket];
    }
    page->n[bucket] = dtri_add_sat(page->n[bucket], n);
}

void dtri_page_add(struct dtri_page *page, const struct dtri_page *more)
{
    for (int b = 0; b < DTRI_TILE_PAGE; b++)
        if (more->n[b])
            dtri_page_merge(page, b, more->n[b], more->total[b], more->least[b], more->most[b]);
}

/* Turns a page into what it adds to its parent. */
void dtri_page_to_parent(struct dtri_page_key *key, struct dtri_page *page)
{
    static const int quarter = DTRI_TILE_PAGE / 4;
    struct dtri_page child = *page;
    int first = (int)(key->page & 3) * quarter;
    memset(page->n, 0, sizeof page->n);
    for (int b = 0; b < DTRI_TILE_PAGE; b++)
        if (child.n[b])
            dtri_page_merge(page, first + b / 4, child.n[b], child.total[b], child.least[b],
                            child.most[b]);
    key->level++;
    key->page >>= 2;
}

dtr_status dtri_tile_damaged(const struct dtri_store *store, const struct dtri_page_key *key,
                             dtr_error *error)
{
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "%s: page %lld of level %lld of track %lld of run %lld in table tile is "
                     "damaged; the events are not in it, and `dtrscope check` looks at them",
                     store->path, (long long)key->page, (long long)key->level,
                     (long long)key->track, (long long)key->run);
}

/* --- rows ------------------------------------------------------------------------------------- */

dtr_status dtri_tiles_statement(struct dtri_store *store, sqlite3_stmt **at, const char *sql,
                                dtr_error *error)
{
    return *at ? DTR_OK : dtri_store_prepare(store, sql, at, error);
}

static void bind_key(sqlite3_stmt *to, const struct dtri_page_key *key)
{
    sqlite3_bind_int64(to, 1, key->run);
    sqlite3_bind_int64(to, 2, key->track);
    sqlite3_bind_int64(to, 3, key->level);
    sqlite3_bind_int64(to, 4, key->page);
}

/* Adds the row of the file, if there is one, to the page. */
dtr_status dtri_tile_add_row(struct dtri_store *store, const struct dtri_page_key *key,
                             struct dtri_page *page, bool *out_found, dtr_error *error)
{
    struct dtri_tile_row row;
    sqlite3_stmt **read = &store->tiles->read;
    dtr_status status =
        dtri_tiles_statement(store, read,
                             "SELECT n, format, data FROM tile WHERE run = ?1 AND track = ?2 "
                             "AND level = ?3 AND page = ?4",
                             error);
    if (status != DTR_OK)
        return status;
    bind_key(*read, key);
    int code = sqlite3_step(*read);
    *out_found = code == SQLITE_ROW;
    if (code == SQLITE_ROW) {
        const void *data = sqlite3_column_blob(*read, 2);
        if (dtri_tile_row_decode(key, sqlite3_column_int64(*read, 0),
                                 sqlite3_column_int64(*read, 1), data,
                                 (size_t)sqlite3_column_bytes(*read, 2), &row))
            for (int i = 0; i < row.n; i++)
                dtri_page_merge(page, (int)row.columns[0][i], row.columns[1][i], row.columns[2][i],
                                row.columns[3][i], row.columns[4][i]);
        else
            status = dtri_tile_damaged(store, key, error);
    } else if (code != SQLITE_DONE) {
        status = dtri_store_fail(store, "reading tiles", error);
    }
    sqlite3_reset(*read);
    return status;
}

/* Adds the page to its row in the file.  The page itself stays as it is. */
dtr_status dtri_tile_write_row(struct dtri_store *store, const struct dtri_page_key *key,
                               const struct dtri_page *more, bool *out_found, dtr_error *error)
{
    unsigned char packed[DTRI_CHUNK_BYTES(DTRI_TILE_COLUMNS, DTRI_TILE_PAGE)];
    int64_t columns[DTRI_TILE_COLUMNS][DTRI_TILE_PAGE];
    const int64_t *at[DTRI_TILE_COLUMNS];
    struct dtri_page page = *more;
    int n = 0;
    dtr_status status = dtri_tile_add_row(store, key, &page, out_found, error);
    if (status == DTR_OK)
        status = dtri_tiles_statement(
            store, &store->tiles->write,
            "INSERT OR REPLACE INTO tile VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", error);
    if (status != DTR_OK)
        return status;
    for (int b = 0; b < DTRI_TILE_PAGE; b++) {
        if (!page.n[b])
            continue;
        columns[0][n] = b;
        columns[1][n] = page.n[b];
        columns[2][n] = page.total[b];
        columns[3][n] = page.least[b];
        columns[4][n++] = page.most[b];
    }
    for (int c = 0; c < DTRI_TILE_COLUMNS; c++)
        at[c] = columns[c];
    size_t size = dtri_chunk_pack(at, dtri_tile_columns(key->track), n, packed);
    sqlite3_stmt *write = store->tiles->write;
    bind_key(write, key);
    sqlite3_bind_int(write, 5, n);
    sqlite3_bind_int(write, 6, DTRI_CHUNK_FORMAT);
    sqlite3_bind_blob64(write, 7, packed, size, SQLITE_STATIC);
    return dtri_store_step(store, write, "writing tiles", error);
}
