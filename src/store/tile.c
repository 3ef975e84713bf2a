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

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/chunk.h"

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
    COUNT(SIGNATURE),
    VALUE(ALLOCATOR, ALLOCATOR, allocator, in_use),
    VALUE(BARRIER, BARRIER, barrier, dur_ns),
    COUNT(HAZARD),
};

uint64_t dtri_tile_wanted(int64_t kind)
{
    uint64_t wanted = 1;
    for (size_t f = 0; f < sizeof feeds / sizeof feeds[0]; f++)
        if (feeds[f].kind == kind)
            wanted |= UINT64_C(1) << feeds[f].value | UINT64_C(1) << feeds[f].condition;
    return wanted;
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
dtr_status dtri_tiles_settle(struct dtri_tiles *t, dtr_error *error)
{
    if (t->rolled_back) {
        if (t->hash)
            memset(t->hash, 0, DTRI_TILE_HASH * sizeof *t->hash);
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
        status = dtri_tiles_statement(
            store, &store->tiles->extent,
            /* Each subquery is one step in the order of the primary key. */
            "SELECT (SELECT level FROM tile WHERE run = ?1 AND track = f.track ORDER BY level "
            "LIMIT 1), (SELECT level FROM tile WHERE run = ?1 AND track = f.track "
            "ORDER BY level DESC LIMIT 1), (SELECT page FROM tile WHERE run = ?1 AND "
            "track = f.track ORDER BY level DESC, page DESC LIMIT 1) "
            "FROM (SELECT track FROM tile WHERE run = ?1 ORDER BY track LIMIT 1) AS f",
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
        struct dtri_tile_run *r = &store->tiles->runs[i];
        if (r->run == run)
            *r = (struct dtri_tile_run){.run = run,
                                        .base = base,
                                        .top = base,
                                        .empty = true,
                                        .fixed = r->fixed,
                                        .next_look = r->next_look};
    }
}

dtr_status dtri_tiles_run(struct dtri_store *store, int64_t run, struct dtri_tile_run **out,
                          dtr_error *error)
{
    struct dtri_tiles *t = store->tiles;
    for (int i = 0; i < t->n_runs; i++)
        if (t->runs[i].run == run) {
            *out = &t->runs[i];
            return DTR_OK;
        }
    dtr_status status = DTR_OK;
    if (t->n_runs == DTRI_TILE_RUNS) {
        status = dtri_tiles_flush(store, error);
        t->n_runs = 0;
    }
    struct dtri_tile_run state = {.run = run};
    if (status == DTR_OK)
        status = dtri_tiles_extent(store, run, &state.base, &state.top, &state.top_page, error);
    if (status != DTR_OK)
        return status;
    if (state.base == DTRI_TILE_NONE) {
        state.base = state.top = 0;
        state.empty = true;
        state.next_look = DTRI_TILE_LOOK;
    }
    t->runs[t->n_runs] = state;
    *out = &t->runs[t->n_runs++];
    return DTR_OK;
}

dtr_status dtri_tiles_fix_base(struct dtri_store *store, int64_t run, int base, dtr_error *error)
{
    struct dtri_tile_run *r;
    dtr_status status = open_tiles(store, error);
    if (status == DTR_OK)
        status = dtri_tiles_run(store, run, &r, error);
    if (status == DTR_OK) {
        r->base = r->top = base;
        r->fixed = true;
        r->next_look = 0;
    }
    return status;
}

/* --- adding ----------------------------------------------------------------------------------- */

static unsigned hash_of(const struct dtri_page_key *key)
{
    uint64_t h = (uint64_t)key->run * 0x9e3779b97f4a7c15u + (uint64_t)key->track;
    h = h * 0x9e3779b97f4a7c15u + (uint64_t)key->page * 32 + (uint64_t)key->level;
    h *= 0x9e3779b97f4a7c15u;
    return (unsigned)(h >> 48) & (DTRI_TILE_HASH - 1);
}

static dtr_status reserve_slots(struct dtri_tiles *t, dtr_error *error)
{
    if (!t->slots)
        t->slots = dtri_malloc(DTRI_TILE_SLOTS * sizeof *t->slots);
    if (!t->hash)
        t->hash = dtri_calloc(DTRI_TILE_HASH, sizeof *t->hash);
    return t->slots && t->hash ? DTR_OK : dtri_fail_nomem(error, "tiles");
}

/* The page of that key in memory; flushes all when there is no room for another. */
static dtr_status find_page(struct dtri_store *store, const struct dtri_page_key *key,
                            struct dtri_page **out_page, dtr_error *error)
{
    struct dtri_tiles *t = store->tiles;
    unsigned at = hash_of(key);
    for (; t->hash[at]; at = (at + 1) & (DTRI_TILE_HASH - 1)) {
        struct dtri_tile_slot *slot = &t->slots[t->hash[at] - 1];
        if (memcmp(&slot->key, key, sizeof *key) == 0) {
            *out_page = &slot->page;
            return DTR_OK;
        }
    }
    if (t->n_slots == DTRI_TILE_SLOTS) {
        *out_page = NULL;
        return dtri_tiles_flush_pages(store, error);
    }
    struct dtri_tile_slot *slot = &t->slots[t->n_slots++];
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
        total = dtri_add_sat(total, value);
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    dtri_page_merge(page, bucket, i - begin, total, least, most);
    return i;
}

static dtr_status add_track(struct dtri_store *store, int64_t run, int64_t track, const int64_t *ts,
                            const int64_t *values, int n, dtr_error *error)
{
    struct dtri_tile_run *r;
    struct dtri_page *page = NULL;
    struct dtri_page_key key = {run, track, 0, 0};
    dtr_status status = dtri_tiles_run(store, run, &r, error);
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
    struct dtri_tile_run *r;
    dtr_status status = dtri_tiles_run(store, run, &r, error);
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
        status = dtri_tiles_settle(store->tiles, error);
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
