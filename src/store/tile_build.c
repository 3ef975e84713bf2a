/* Tiles from the chunks of a run: made anew, and compared. */
#include "store/tile_priv.h"

#include "base/alloc.h"
#include "base/error.h"

/* Adds all events of a run in `from` to the tiles of `to`. */
static dtr_status add_events(struct dtri_store *from, struct dtri_store *to, int64_t run,
                             dtr_error *error)
{
    int n_kinds;
    const dtr_event_info *infos = dtr_event_infos(&n_kinds);
    dtr_status status = DTR_OK;
    for (int k = 0; k < n_kinds && status == DTR_OK; k++) {
        struct dtri_store_reader *reader;
        const int64_t *const *columns;
        int n = 1;
        status = dtri_store_reader_new(from, run, infos[k].kind, INT64_MIN, INT64_MAX,
                                       dtri_tile_wanted(infos[k].kind), &reader, error);
        if (status != DTR_OK)
            break;
        while (status == DTR_OK && n) {
            status = dtri_store_reader_next(reader, &n, &columns, error);
            if (status == DTR_OK && n)
                status = dtri_tiles_add(to, run, infos[k].kind, n, columns, error);
        }
        dtri_store_reader_free(reader);
    }
    return status == DTR_OK ? dtri_tiles_flush(to, error) : status;
}

dtr_status dtri_tiles_rebuild(struct dtri_store *store, int64_t run, int base, dtr_error *error)
{
    sqlite3_stmt *remove = NULL;
    dtr_status status =
        dtri_store_prepare(store, "DELETE FROM tile WHERE run = ?1", &remove, error);
    if (status == DTR_OK) {
        sqlite3_bind_int64(remove, 1, run);
        status = dtri_store_step(store, remove, "removing tiles", error);
    }
    sqlite3_finalize(remove);
    dtri_tiles_restart(store, run, base);
    return status == DTR_OK ? add_events(store, store, run, error) : status;
}

dtr_status dtri_tiles_build(struct dtri_store *store, int64_t run, dtr_error *error)
{
    dtr_status status = dtri_tiles_flush(store, error);
    if (status == DTR_OK && sqlite3_get_autocommit(store->db))
        status = dtri_store_exec(store, "BEGIN", error);
    return status == DTR_OK ? dtri_tiles_rebuild(store, run, 0, error) : status;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* The rows of table tile of one run in one of the two files, in order. */
struct side {
    struct dtri_store *store;
    sqlite3_stmt *rows;
    struct dtri_page_key key;
    struct dtri_tile_row row;
    bool there, damaged;
};

static dtr_status next_row(struct side *side, dtr_error *error)
{
    sqlite3_stmt *s = side->rows;
    int code = sqlite3_step(s);
    side->there = code == SQLITE_ROW;
    if (code == SQLITE_DONE)
        return DTR_OK;
    if (code != SQLITE_ROW)
        return dtri_store_fail(side->store, "reading tiles", error);
    side->key.track = sqlite3_column_int64(s, 0);
    side->key.level = sqlite3_column_int64(s, 1);
    side->key.page = sqlite3_column_int64(s, 2);
    const void *data = sqlite3_column_blob(s, 5);
    side->damaged =
        !dtri_tile_row_decode(&side->key, sqlite3_column_int64(s, 3), sqlite3_column_int64(s, 4),
                              data, (size_t)sqlite3_column_bytes(s, 5), &side->row);
    return DTR_OK;
}

static dtr_status open_side(struct side *side, struct dtri_store *store, int64_t run,
                            dtr_error *error)
{
    *side = (struct side){.store = store, .key.run = run};
    dtr_status status = dtri_store_prepare(store,
                                           "SELECT track, level, page, n, format, data FROM tile "
                                           "WHERE run = ?1 ORDER BY track, level, page",
                                           &side->rows, error);
    if (status != DTR_OK)
        return status;
    sqlite3_bind_int64(side->rows, 1, run);
    return next_row(side, error);
}

static int compare_keys(const struct side *a, const struct side *b)
{
    if (!a->there || !b->there)
        return a->there ? -1 : 1;
    if (a->key.track != b->key.track)
        return a->key.track < b->key.track ? -1 : 1;
    if (a->key.level != b->key.level)
        return a->key.level < b->key.level ? -1 : 1;
    return a->key.page < b->key.page ? -1 : a->key.page > b->key.page;
}

static bool same_row(const struct dtri_tile_row *a, const struct dtri_tile_row *b)
{
    if (a->n != b->n)
        return false;
    for (int c = 0; c < DTRI_TILE_COLUMNS; c++)
        for (int i = 0; i < a->n; i++)
            if (a->columns[c][i] != b->columns[c][i])
                return false;
    return true;
}

static dtr_status compare(struct side *stored, struct side *made, dtri_tile_fault fault, void *user,
                          int64_t *out_faults, dtr_error *error)
{
    dtr_status status = DTR_OK;
    while (status == DTR_OK && (stored->there || made->there)) {
        int order = compare_keys(stored, made);
        const struct dtri_page_key *key = order > 0 ? &made->key : &stored->key;
        const char *what = order > 0                             ? "missing"
                           : stored->damaged                     ? "damaged"
                           : order < 0                           ? "has no events"
                           : !same_row(&stored->row, &made->row) ? "differs"
                                                                 : NULL;
        if (what) {
            ++*out_faults;
            if (fault)
                fault(user, key->track, (int)key->level, key->page, what);
        }
        if (order <= 0)
            status = next_row(stored, error);
        if (status == DTR_OK && order >= 0)
            status = next_row(made, error);
    }
    return status;
}

dtr_status dtri_tiles_verify(struct dtri_store *store, int64_t run, dtri_tile_fault fault,
                             void *user, int64_t *out_faults, dtr_error *error)
{
    struct dtri_store *scratch;
    struct side stored = {0}, made = {0};
    int base, top;
    *out_faults = 0;
    if (sqlite3_table_column_metadata(store->db, "main", "tile", NULL, NULL, NULL, NULL, NULL,
                                      NULL) != SQLITE_OK)
        return DTR_OK; /* version 1 */
    dtr_status status = dtri_tiles_levels(store, run, &base, &top, error);
    if (status == DTR_OK)
        status = dtri_store_scratch(&scratch, error);
    if (status != DTR_OK)
        return status;
    status = dtri_tiles_fix_base(scratch, run, base == DTRI_TILE_NONE ? 0 : base, error);
    if (status == DTR_OK)
        status = add_events(store, scratch, run, error);
    if (status == DTR_OK)
        status = open_side(&stored, store, run, error);
    if (status == DTR_OK)
        status = open_side(&made, scratch, run, error);
    if (status == DTR_OK)
        status = compare(&stored, &made, fault, user, out_faults, error);
    sqlite3_finalize(stored.rows);
    sqlite3_finalize(made.rows);
    dtri_store_close(scratch, NULL);
    return status;
}
