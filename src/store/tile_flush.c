/* Adding the pages in memory to the file: level by level, each page to its row, and then turned
 * into an addition to its parent. */
#include "store/tile_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The base rises when a run has more pages than SPARSE_PAGES with fewer events each than
 * SPARSE_EVENTS, counting an event once a track: a page takes about 70 bytes however empty. */
#define SPARSE_PAGES  1024
#define SPARSE_EVENTS 64
/* The base falls when a bucket holds more events than DENSE_EVENTS on average.  Looked at once a
 * run has so many events, and once more when it has 16 times as many. */
#define DENSE_EVENTS 512

/* A second page came up in the top level: its rows so far are added to a new one above. */
static dtr_status grow(struct dtri_store *store, struct dtri_tile_run *r, dtr_error *error)
{
    int n;
    const struct dtri_track_info *infos = dtri_track_infos(&n);
    dtr_status status = DTR_OK;
    for (int i = 0; i < n && status == DTR_OK; i++) {
        struct dtri_page_key key = {r->run, infos[i].id, r->top, r->top_page};
        struct dtri_page page;
        bool found;
        memset(page.n, 0, sizeof page.n);
        status = dtri_tile_add_row(store, &key, &page, &found, error);
        if (status != DTR_OK || !found)
            continue;
        dtri_page_to_parent(&key, &page);
        status = dtri_tile_write_row(store, &key, &page, &found, error);
    }
    r->top++;
    r->top_page >>= 2;
    return status;
}

/* Writes one page; *out_up: it is now an addition to its parent, still to be written. */
static dtr_status flush_slot(struct dtri_store *store, struct dtri_tile_slot *slot, bool *out_up,
                             dtr_error *error)
{
    struct dtri_tile_run *r;
    bool found;
    dtr_status status = dtri_tiles_run(store, slot->key.run, &r, error);
    if (status == DTR_OK)
        status = dtri_tile_write_row(store, &slot->key, &slot->page, &found, error);
    if (status != DTR_OK)
        return status;
    r->n_pages += !found && slot->key.level == r->base;
    if (r->empty) {
        r->empty = false;
        r->top_page = slot->key.page;
    }
    *out_up = slot->key.level < r->top;
    if (!*out_up && slot->key.page != r->top_page && r->top < DTRI_TILE_LEVEL_MAX) {
        status = grow(store, r, error);
        *out_up = true;
    }
    if (*out_up)
        dtri_page_to_parent(&slot->key, &slot->page);
    return status;
}

static int by_key(const void *a, const void *b)
{
    const struct dtri_page_key *x = &(*(struct dtri_tile_slot *const *)a)->key;
    const struct dtri_page_key *y = &(*(struct dtri_tile_slot *const *)b)->key;
    const int64_t left[] = {x->run, x->track, x->level, x->page};
    const int64_t right[] = {y->run, y->track, y->level, y->page};
    for (int i = 0; i < 4; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static dtr_status count_pages(struct dtri_store *store, struct dtri_tile_run *r, dtr_error *error)
{
    int n;
    const struct dtri_track_info *infos = dtri_track_infos(&n);
    sqlite3_stmt *count = NULL;
    dtr_status status = dtri_store_prepare(
        store, "SELECT count(*) FROM tile WHERE run = ?1 AND track = ?2 AND level = ?3", &count,
        error);
    r->n_pages = 0;
    for (int i = 0; i < n && status == DTR_OK; i++) {
        sqlite3_bind_int64(count, 1, r->run);
        sqlite3_bind_int(count, 2, infos[i].id);
        sqlite3_bind_int(count, 3, r->base);
        if (sqlite3_step(count) == SQLITE_ROW)
            r->n_pages += sqlite3_column_int64(count, 0);
        else
            status = dtri_store_fail(store, "counting tiles", error);
        sqlite3_reset(count);
    }
    sqlite3_finalize(count);
    return status;
}

/* Drops base levels while their pages are nearly empty. */
static dtr_status raise_base(struct dtri_store *store, struct dtri_tile_run *r, dtr_error *error)
{
    int n;
    const struct dtri_track_info *infos = dtri_track_infos(&n);
    dtr_status status = DTR_OK;
    while (status == DTR_OK && !r->fixed && r->base < r->top && r->n_pages > SPARSE_PAGES &&
           r->n_events < SPARSE_EVENTS * r->n_pages) {
        sqlite3_stmt *remove = NULL;
        status = dtri_store_prepare(
            store, "DELETE FROM tile WHERE run = ?1 AND track = ?2 AND level = ?3", &remove, error);
        for (int i = 0; i < n && status == DTR_OK; i++) {
            sqlite3_bind_int64(remove, 1, r->run);
            sqlite3_bind_int(remove, 2, infos[i].id);
            sqlite3_bind_int(remove, 3, r->base);
            status = dtri_store_step(store, remove, "removing tiles", error);
        }
        sqlite3_finalize(remove);
        r->base++;
        if (status == DTR_OK)
            status = count_pages(store, r, error);
    }
    return status;
}

/* One level up: writes each page, and leaves in `order` the additions to their parents, each parent
 * once. */
static dtr_status flush_level(struct dtri_store *store, struct dtri_tile_slot **order, int *n,
                              dtr_error *error)
{
    int kept = 0;
    dtr_status status = DTR_OK;
    for (int i = 0; i < *n && status == DTR_OK; i++) {
        bool up;
        status = flush_slot(store, order[i], &up, error);
        if (status != DTR_OK || !up)
            continue;
        if (kept && by_key(&order[kept - 1], &order[i]) == 0)
            dtri_page_add(&order[kept - 1]->page, &order[i]->page);
        else
            order[kept++] = order[i];
    }
    *n = kept;
    return status;
}

dtr_status dtri_tiles_flush_pages(struct dtri_store *store, dtr_error *error)
{
    struct dtri_tiles *t = store->tiles;
    struct dtri_tile_slot *order[DTRI_TILE_SLOTS];
    if (!t)
        return DTR_OK;
    dtr_status status = dtri_tiles_settle(t, error);
    if (status != DTR_OK || t->n_slots == 0)
        return status;
    if (sqlite3_get_autocommit(store->db))
        status = dtri_store_exec(store, "BEGIN", error);
    int n = t->n_slots;
    for (int i = 0; i < n; i++)
        order[i] = &t->slots[i];
    qsort(order, (size_t)n, sizeof(struct dtri_tile_slot *), by_key);
    while (n && status == DTR_OK)
        status = flush_level(store, order, &n, error);
    for (int i = 0; i < t->n_runs && status == DTR_OK; i++)
        status = raise_base(store, &t->runs[i], error);
    t->broken = status != DTR_OK;
    t->n_slots = 0;
    memset(t->hash, 0, DTRI_TILE_HASH * sizeof *t->hash);
    return status;
}

/* Makes the tiles of a run anew with a finer base, if it is dense. */
static dtr_status lower_base(struct dtri_store *store, const struct dtri_tile_run *r,
                             dtr_error *error)
{
    int base = r->base;
    double span = (double)r->ts_max - (double)r->ts_min + 1;
    while (base > DTRI_TILE_LEVEL_MIN &&
           (double)r->n_chunked * (double)(INT64_C(1) << dtri_tile_shift(base)) / span >
               DENSE_EVENTS)
        base--;
    return base == r->base ? DTR_OK : dtri_tiles_rebuild(store, r->run, base, error);
}

dtr_status dtri_tiles_flush(struct dtri_store *store, dtr_error *error)
{
    struct dtri_tiles *t = store->tiles;
    dtr_status status = dtri_tiles_flush_pages(store, error);
    for (int i = 0; t && i < t->n_runs && status == DTR_OK; i++) {
        struct dtri_tile_run *r = &t->runs[i];
        if (!r->next_look || r->n_chunked < r->next_look)
            continue;
        r->next_look = r->next_look == DTRI_TILE_LOOK ? DTRI_TILE_LOOK * 16 : 0;
        status = lower_base(store, r, error);
        if (status != DTR_OK)
            dtri_tiles_break(store);
    }
    return status;
}
