/* Filling the time pyramid.
 *
 * Pages that changed are kept in memory as what is to be added to their rows, only those of the
 * run's base level: a fixed number of slots, found by a hash.  Flushing goes level by level: each
 * page is added to its row, and then is itself turned into an addition to its parent, so that it
 * needs no more memory than before.  Nothing depends on the order in which events come.
 *
 * The top level grows when a second page appears in it: the first one's rows are then added to the
 * level above.  The base level rises when its pages turn out to be nearly empty, so that a run of
 * few events in a long time has no row for each of them; and it falls, early in a run, when its
 * buckets turn out to be so full that a window of too few of them would be slow to read from the
 * events.  That makes the tiles anew. */
#include "store/tile_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/chunk.h"

#define N_SLOTS 512
#define N_HASH  2048 /* a power of 2 */
#define N_RUNS  8
/* The base rises when a run has more pages than SPARSE_PAGES with fewer events each than
 * SPARSE_EVENTS, counting an event once a track: a page takes about 70 bytes however empty. */
#define SPARSE_PAGES  1024
#define SPARSE_EVENTS 64
/* The base falls when a bucket holds more events than DENSE_EVENTS on average.  Looked at once a
 * run has so many events, and once more when it has 16 times as many. */
#define DENSE_EVENTS 512
#define DENSE_LOOK   65536

struct slot {
    struct dtri_page_key key;
    struct dtri_page page;
};

struct run_state {
    int64_t run;
    int base, top;
    int64_t top_page;
    bool empty, fixed;
    int64_t n_events, n_pages; /* of the base level, since the file was opened; once a track */
    int64_t n_chunked;         /* events, each once */
    int64_t ts_min, ts_max;
    int64_t next_look; /* n_chunked at which the base may fall; 0: never again */
};

struct dtri_tiles {
    struct slot *slots;
    uint16_t *hash; /* 1 + index of a slot, 0 free */
    int n_slots;
    struct run_state runs[N_RUNS];
    int n_runs;
    bool rolled_back, broken;
    sqlite3_stmt *read, *write, *extent;
};

/* --- tracks ----------------------------------------------------------------------------------- */

dtr_status dtri_tracks_insert(struct dtri_store *store, dtr_error *error)
{
    int n;
    const struct dtri_track_info *infos = dtri_track_infos(&n);
    sqlite3_stmt *statement = NULL;
    dtr_status status = dtri_store_prepare(
        store, "INSERT OR REPLACE INTO track VALUES (?1, ?2, ?3, ?4)", &statement, error);
    for (int i = 0; i < n && status == DTR_OK; i++) {
        sqlite3_bind_int(statement, 1, infos[i].id);
        sqlite3_bind_text(statement, 2, infos[i].name, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 3, infos[i].unit, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 4, infos[i].meaning, -1, SQLITE_STATIC);
        status = dtri_store_step(store, statement, "writing the tracks", error);
    }
    sqlite3_finalize(statement);
    return status;
}

/* Which events go to which track: column 0 for the value means that the track only counts, column
 * 0 for the condition that there is none. */
struct feed {
    int kind, track;
    int value, condition;
    int64_t equal;
    bool other; /* those for which the condition does not hold */
};

#define COLUMN(name, field) (2 + (int)(offsetof(dtr_event_##name, field) / sizeof(int64_t)))
#define COUNT(NAME)                                                                                \
    {                                                                                              \
        DTR_EVENT_##NAME, DTRI_TRACK_##NAME, 0, 0, 0, false                                        \
    }
#define VALUE(NAME, TRACK, name, field)                                                            \
    {                                                                                              \
        DTR_EVENT_##NAME, DTRI_TRACK_##TRACK, COLUMN(name, field), 0, 0, false                     \
    }

static const struct feed feeds[] = {
    VALUE(STORAGE, STORAGE, storage, bytes),
    COUNT(TENSOR),
    COUNT(OPERATOR),
    COUNT(OPERAND),
    {DTR_EVENT_OPERATOR_RUN, DTRI_TRACK_FIRST_RUN, COLUMN(operator_run, dur_ns),
     COLUMN(operator_run, replay), 0, false},
    {DTR_EVENT_OPERATOR_RUN, DTRI_TRACK_REPLAY, COLUMN(operator_run, dur_ns),
     COLUMN(operator_run, replay), 0, true},
    VALUE(CHAIN, CHAIN, chain, dur_ns),
    VALUE(ALLOCATION, ALLOCATION, allocation, bytes),
    VALUE(ALLOCATION, IN_USE, allocation, in_use),
    VALUE(FREEING, FREEING, freeing, bytes),
    VALUE(FREEING, IN_USE, freeing, in_use),
    {DTR_EVENT_EVICTION, DTRI_TRACK_EVICTED_FOR_BUDGET, COLUMN(eviction, bytes),
     COLUMN(eviction, reason), DTR_EVICTED_FOR_BUDGET, false},
    {DTR_EVENT_EVICTION, DTRI_TRACK_EVICTED_OTHERWISE, COLUMN(eviction, bytes),
     COLUMN(eviction, reason), DTR_EVICTED_FOR_BUDGET, true},
    VALUE(EVICTION, IN_USE, eviction, in_use),
    VALUE(DECISION, DECISION, decision, search_ns),
    COUNT(CANDIDATE),
    COUNT(REFERENCE),
    COUNT(PIN),
    VALUE(BUDGET, BUDGET, budget, budget),
    VALUE(OUT_OF_MEMORY, OUT_OF_MEMORY, out_of_memory, needed),
    COUNT(MARK),
    VALUE(OVERHEAD, OVERHEAD, overhead, dur_ns),
    COUNT(FRAME),
    COUNT(ORIGIN),
};

uint64_t dtri_tile_wanted(int64_t kind)
{
    uint64_t wanted = 1;
    for (size_t f = 0; f < sizeof feeds / sizeof feeds[0]; f++)
        if (feeds[f].kind == kind)
            wanted |= UINT64_C(1) << feeds[f].value | UINT64_C(1) << feeds[f].condition;
    return wanted;
}

/* --- pages ------------------------------------------------------------------------------------ */

static int64_t add_sat(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

void dtri_page_merge(struct dtri_page *page, int bucket, int64_t n, int64_t total, int64_t least,
                     int64_t most)
{
    if (page->n[bucket] == 0) {
        page->total[bucket] = total;
        page->least[bucket] = least;
        page->most[bucket] = most;
    } else {
        page->total[bucket] = add_sat(page->total[bucket], total);
        page->least[bucket] = least < page->least[bucket] ? least : page->least[bucket];
        page->most[bucket] = most > page->most[bucket] ? most : page->most[bucket];
    }
    page->n[bucket] = add_sat(page->n[bucket], n);
}

static void merge_pages(struct dtri_page *page, const struct dtri_page *more)
{
    for (int b = 0; b < DTRI_TILE_PAGE; b++)
        if (more->n[b])
            dtri_page_merge(page, b, more->n[b], more->total[b], more->least[b], more->most[b]);
}

/* Turns a page into what it adds to its parent. */
static void to_parent(struct dtri_page_key *key, struct dtri_page *page)
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

static dtr_status statement(struct dtri_store *store, sqlite3_stmt **at, const char *sql,
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
static dtr_status add_row(struct dtri_store *store, const struct dtri_page_key *key,
                          struct dtri_page *page, bool *out_found, dtr_error *error)
{
    struct dtri_tile_row row;
    sqlite3_stmt **read = &store->tiles->read;
    dtr_status status = statement(store, read,
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
static dtr_status write_row(struct dtri_store *store, const struct dtri_page_key *key,
                            const struct dtri_page *more, bool *out_found, dtr_error *error)
{
    unsigned char packed[DTRI_CHUNK_BYTES(DTRI_TILE_COLUMNS, DTRI_TILE_PAGE)];
    int64_t columns[DTRI_TILE_COLUMNS][DTRI_TILE_PAGE];
    const int64_t *at[DTRI_TILE_COLUMNS];
    struct dtri_page page = *more;
    int n = 0;
    dtr_status status = add_row(store, key, &page, out_found, error);
    if (status == DTR_OK)
        status =
            statement(store, &store->tiles->write,
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

/* --- the state -------------------------------------------------------------------------------- */

static void on_rollback(void *tiles)
{
    ((struct dtri_tiles *)tiles)->rolled_back = true;
}

static dtr_status open_tiles(struct dtri_store *store, dtr_error *error)
{
    if (store->tiles)
        return DTR_OK;
    store->tiles = dtri_calloc(1, sizeof *store->tiles);
    if (!store->tiles)
        return dtri_fail_nomem(error, "tiles");
    sqlite3_rollback_hook(store->db, on_rollback, store->tiles);
    return DTR_OK;
}

void dtri_tiles_free(struct dtri_store *store)
{
    struct dtri_tiles *t = store->tiles;
    if (!t)
        return;
    sqlite3_rollback_hook(store->db, NULL, NULL);
    sqlite3_finalize(t->read);
    sqlite3_finalize(t->write);
    sqlite3_finalize(t->extent);
    dtri_free(t->slots);
    dtri_free(t->hash);
    dtri_free(t);
    store->tiles = NULL;
}

/* Forgets everything when the transaction that it belonged to was rolled back. */
static dtr_status settle(struct dtri_tiles *t, dtr_error *error)
{
    if (t->rolled_back) {
        if (t->hash)
            memset(t->hash, 0, N_HASH * sizeof *t->hash);
        t->n_slots = t->n_runs = 0;
        t->rolled_back = t->broken = false;
    }
    return t->broken ? dtri_fail(error, DTR_E_STATE, 0,
                                 "the tiles could not be written before; roll the transaction back")
                     : DTR_OK;
}

dtr_status dtri_tiles_extent(struct dtri_store *store, int64_t run, int *out_base, int *out_top,
                             int64_t *out_top_page, dtr_error *error)
{
    dtr_status status = open_tiles(store, error);
    if (status == DTR_OK)
        status = statement(
            store, &store->tiles->extent,
            "SELECT (SELECT level FROM tile WHERE run = ?1 AND track = f.track ORDER BY level "
            "LIMIT 1), l.level, l.page FROM (SELECT track FROM tile WHERE run = ?1 ORDER BY track "
            "LIMIT 1) AS f CROSS JOIN tile AS l ON l.run = ?1 AND l.track = f.track "
            "ORDER BY l.level DESC, l.page LIMIT 1",
            error);
    if (status != DTR_OK)
        return status;
    sqlite3_stmt *s = store->tiles->extent;
    sqlite3_bind_int64(s, 1, run);
    int code = sqlite3_step(s);
    *out_base = *out_top = DTRI_TILE_NONE;
    if (code == SQLITE_ROW) {
        int64_t base = sqlite3_column_int64(s, 0), top = sqlite3_column_int64(s, 1);
        *out_top_page = sqlite3_column_int64(s, 2);
        if (base < DTRI_TILE_LEVEL_MIN || top > DTRI_TILE_LEVEL_MAX || base > top)
            status =
                dtri_fail(error, DTR_E_FORMAT, 0, "%s: table tile is damaged: it has level %lld",
                          store->path, (long long)(base < DTRI_TILE_LEVEL_MIN ? base : top));
        *out_base = (int)base;
        *out_top = (int)top;
    } else if (code != SQLITE_DONE) {
        status = dtri_store_fail(store, "reading tiles", error);
    }
    sqlite3_reset(s);
    return status;
}

void dtri_tiles_restart(struct dtri_store *store, int64_t run, int base)
{
    for (int i = 0; store->tiles && i < store->tiles->n_runs; i++) {
        struct run_state *r = &store->tiles->runs[i];
        if (r->run == run)
            *r = (struct run_state){.run = run,
                                    .base = base,
                                    .top = base,
                                    .empty = true,
                                    .fixed = r->fixed,
                                    .next_look = r->next_look};
    }
}

static dtr_status find_run(struct dtri_store *store, int64_t run, struct run_state **out,
                           dtr_error *error)
{
    struct dtri_tiles *t = store->tiles;
    for (int i = 0; i < t->n_runs; i++)
        if (t->runs[i].run == run) {
            *out = &t->runs[i];
            return DTR_OK;
        }
    dtr_status status = DTR_OK;
    if (t->n_runs == N_RUNS) {
        status = dtri_tiles_flush(store, error);
        t->n_runs = 0;
    }
    struct run_state state = {.run = run};
    if (status == DTR_OK)
        status = dtri_tiles_extent(store, run, &state.base, &state.top, &state.top_page, error);
    if (status != DTR_OK)
        return status;
    if (state.base == DTRI_TILE_NONE) {
        state.base = state.top = 0;
        state.empty = true;
        state.next_look = DENSE_LOOK;
    }
    t->runs[t->n_runs] = state;
    *out = &t->runs[t->n_runs++];
    return DTR_OK;
}

dtr_status dtri_tiles_fix_base(struct dtri_store *store, int64_t run, int base, dtr_error *error)
{
    struct run_state *r;
    dtr_status status = open_tiles(store, error);
    if (status == DTR_OK)
        status = find_run(store, run, &r, error);
    if (status == DTR_OK) {
        r->base = r->top = base;
        r->fixed = true;
        r->next_look = 0;
    }
    return status;
}

/* --- flushing --------------------------------------------------------------------------------- */

/* A second page came up in the top level: its rows so far are added to a new one above. */
static dtr_status grow(struct dtri_store *store, struct run_state *r, dtr_error *error)
{
    int n;
    const struct dtri_track_info *infos = dtri_track_infos(&n);
    dtr_status status = DTR_OK;
    for (int i = 0; i < n && status == DTR_OK; i++) {
        struct dtri_page_key key = {r->run, infos[i].id, r->top, r->top_page};
        struct dtri_page page;
        bool found;
        memset(page.n, 0, sizeof page.n);
        status = add_row(store, &key, &page, &found, error);
        if (status != DTR_OK || !found)
            continue;
        to_parent(&key, &page);
        status = write_row(store, &key, &page, &found, error);
    }
    r->top++;
    r->top_page >>= 2;
    return status;
}

/* Writes one page; *out_up: it is now an addition to its parent, still to be written. */
static dtr_status flush_slot(struct dtri_store *store, struct slot *slot, bool *out_up,
                             dtr_error *error)
{
    struct run_state *r;
    bool found;
    dtr_status status = find_run(store, slot->key.run, &r, error);
    if (status == DTR_OK)
        status = write_row(store, &slot->key, &slot->page, &found, error);
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
        to_parent(&slot->key, &slot->page);
    return status;
}

static int by_key(const void *a, const void *b)
{
    const struct dtri_page_key *x = &(*(struct slot *const *)a)->key;
    const struct dtri_page_key *y = &(*(struct slot *const *)b)->key;
    const int64_t left[] = {x->run, x->track, x->level, x->page};
    const int64_t right[] = {y->run, y->track, y->level, y->page};
    for (int i = 0; i < 4; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static dtr_status count_pages(struct dtri_store *store, struct run_state *r, dtr_error *error)
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
static dtr_status raise_base(struct dtri_store *store, struct run_state *r, dtr_error *error)
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
static dtr_status flush_level(struct dtri_store *store, struct slot **order, int *n,
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
            merge_pages(&order[kept - 1]->page, &order[i]->page);
        else
            order[kept++] = order[i];
    }
    *n = kept;
    return status;
}

static dtr_status flush_pages(struct dtri_store *store, dtr_error *error)
{
    struct dtri_tiles *t = store->tiles;
    struct slot *order[N_SLOTS];
    if (!t)
        return DTR_OK;
    dtr_status status = settle(t, error);
    if (status != DTR_OK || t->n_slots == 0)
        return status;
    if (sqlite3_get_autocommit(store->db))
        status = dtri_store_exec(store, "BEGIN", error);
    int n = t->n_slots;
    for (int i = 0; i < n; i++)
        order[i] = &t->slots[i];
    qsort(order, (size_t)n, sizeof(struct slot *), by_key);
    while (n && status == DTR_OK)
        status = flush_level(store, order, &n, error);
    for (int i = 0; i < t->n_runs && status == DTR_OK; i++)
        status = raise_base(store, &t->runs[i], error);
    t->broken = status != DTR_OK;
    t->n_slots = 0;
    memset(t->hash, 0, N_HASH * sizeof *t->hash);
    return status;
}

/* Makes the tiles of a run anew with a finer base, if it is dense. */
static dtr_status lower_base(struct dtri_store *store, const struct run_state *r, dtr_error *error)
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
    dtr_status status = flush_pages(store, error);
    for (int i = 0; t && i < t->n_runs && status == DTR_OK; i++) {
        struct run_state *r = &t->runs[i];
        if (!r->next_look || r->n_chunked < r->next_look)
            continue;
        r->next_look = r->next_look == DENSE_LOOK ? DENSE_LOOK * 16 : 0;
        status = lower_base(store, r, error);
        if (status != DTR_OK)
            dtri_tiles_break(store);
    }
    return status;
}

/* --- adding ----------------------------------------------------------------------------------- */

static unsigned hash_of(const struct dtri_page_key *key)
{
    uint64_t h = (uint64_t)key->run * 0x9e3779b97f4a7c15u + (uint64_t)key->track;
    h = h * 0x9e3779b97f4a7c15u + (uint64_t)key->page * 32 + (uint64_t)key->level;
    h *= 0x9e3779b97f4a7c15u;
    return (unsigned)(h >> 48) & (N_HASH - 1);
}

static dtr_status reserve_slots(struct dtri_tiles *t, dtr_error *error)
{
    if (!t->slots)
        t->slots = dtri_malloc(N_SLOTS * sizeof *t->slots);
    if (!t->hash)
        t->hash = dtri_calloc(N_HASH, sizeof *t->hash);
    return t->slots && t->hash ? DTR_OK : dtri_fail_nomem(error, "tiles");
}

/* The page of that key in memory; flushes all when there is no room for another. */
static dtr_status find_page(struct dtri_store *store, const struct dtri_page_key *key,
                            struct dtri_page **out_page, dtr_error *error)
{
    struct dtri_tiles *t = store->tiles;
    unsigned at = hash_of(key);
    for (; t->hash[at]; at = (at + 1) & (N_HASH - 1)) {
        struct slot *slot = &t->slots[t->hash[at] - 1];
        if (memcmp(&slot->key, key, sizeof *key) == 0) {
            *out_page = &slot->page;
            return DTR_OK;
        }
    }
    if (t->n_slots == N_SLOTS) {
        *out_page = NULL;
        return flush_pages(store, error);
    }
    struct slot *slot = &t->slots[t->n_slots++];
    t->hash[at] = (uint16_t)t->n_slots;
    slot->key = *key;
    memset(slot->page.n, 0, sizeof slot->page.n);
    *out_page = &slot->page;
    return DTR_OK;
}

/* The events from `i` on that lie in the bucket of event i; returns the place of the first that
 * does not. */
static int add_bucket(struct dtri_page *page, int bucket, int shift, const int64_t *ts,
                      const int64_t *values, int i, int n)
{
    int64_t number = ts[i] >> shift, total = 0, least = INT64_MAX, most = 0;
    int begin = i;
    if (!values) {
        while (i < n && ts[i] >> shift == number)
            i++;
        least = 0;
    }
    for (; values && i < n && ts[i] >> shift == number; i++) {
        int64_t value = values[i] < 0 ? 0 : values[i];
        total = add_sat(total, value);
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    dtri_page_merge(page, bucket, i - begin, total, least, most);
    return i;
}

static dtr_status add_track(struct dtri_store *store, int64_t run, int64_t track, const int64_t *ts,
                            const int64_t *values, int n, dtr_error *error)
{
    struct run_state *r;
    struct dtri_page *page = NULL;
    struct dtri_page_key key = {run, track, 0, 0};
    dtr_status status = find_run(store, run, &r, error);
    for (int i = 0; i < n && status == DTR_OK;) {
        int shift = dtri_tile_shift(r->base);
        int64_t number = ts[i] >> shift;
        if (!page || number >> 8 != key.page) {
            key.level = r->base;
            key.page = number >> 8;
            status = find_page(store, &key, &page, error);
            if (!page) /* flushed, the base may have risen: again */
                continue;
        }
        i = add_bucket(page, (int)(number & (DTRI_TILE_PAGE - 1)), shift, ts, values, i, n);
    }
    if (status == DTR_OK)
        r->n_events += n;
    return status;
}

/* Those rows of a chunk that a feed's condition chooses. */
static int choose(const struct feed *feed, int n, const int64_t *const *columns, int64_t *ts,
                  int64_t *values)
{
    const int64_t *tested = columns[feed->condition], *value = columns[feed->value];
    int chosen = 0;
    for (int i = 0; i < n; i++) {
        ts[chosen] = columns[0][i];
        values[chosen] = value[i];
        chosen += (tested[i] == feed->equal) != feed->other;
    }
    return chosen;
}

/* How dense the events are, as long as it matters. */
static dtr_status count_chunk(struct dtri_store *store, int64_t run, const int64_t *ts, int n,
                              dtr_error *error)
{
    struct run_state *r;
    dtr_status status = find_run(store, run, &r, error);
    if (status != DTR_OK || !r->next_look)
        return status;
    for (int i = 0; i < n; i++) {
        r->ts_min = (!r->n_chunked && !i) || ts[i] < r->ts_min ? ts[i] : r->ts_min;
        r->ts_max = (!r->n_chunked && !i) || ts[i] > r->ts_max ? ts[i] : r->ts_max;
    }
    r->n_chunked += n;
    return DTR_OK;
}

dtr_status dtri_tiles_add(struct dtri_store *store, int64_t run, int64_t kind, int n,
                          const int64_t *const *columns, dtr_error *error)
{
    int64_t ts[DTRI_CHUNK_EVENTS], values[DTRI_CHUNK_EVENTS];
    dtr_status status = open_tiles(store, error);
    if (status == DTR_OK)
        status = settle(store->tiles, error);
    if (status == DTR_OK)
        status = reserve_slots(store->tiles, error);
    if (status == DTR_OK)
        status = count_chunk(store, run, columns[0], n, error);
    for (size_t f = 0; f < sizeof feeds / sizeof feeds[0] && status == DTR_OK; f++) {
        const struct feed *feed = &feeds[f];
        if (feed->kind != kind)
            continue;
        if (feed->condition) {
            int chosen = choose(feed, n, columns, ts, values);
            status = add_track(store, run, feed->track, ts, values, chosen, error);
        } else {
            status = add_track(store, run, feed->track, columns[0],
                               feed->value ? columns[feed->value] : NULL, n, error);
        }
    }
    if (status != DTR_OK)
        dtri_tiles_break(store);
    return status;
}

void dtri_tiles_break(struct dtri_store *store)
{
    if (store->tiles)
        store->tiles->broken = true;
}
