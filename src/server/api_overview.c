/* The pictures of a window with more events than are looked at one by one, from the time pyramid.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "server/api.h"
#include "store/tile.h"

/* What a slice has for an execution and a name: there are many. */
#define MANY DTR_NONE

struct reader {
    const struct dtri_query *query;
    int level;
    int64_t width, from, to; /* ns, as in the file */
    struct dtri_tile_list tiles;
};

static dtr_status reader_open(struct reader *r, const struct dtri_query *q, dtr_error *error)
{
    *r = (struct reader){.query = q};
    if (__builtin_add_overflow(q->t0, q->run.base_ts_ns, &r->from) ||
        __builtin_add_overflow(q->t1, q->run.base_ts_ns, &r->to))
        return dtri_fail(error, DTR_E_INVALID, 0, "the window is out of range");
    dtr_status status = dtri_tiles_pick(q->file->store, q->run.id, r->from, r->to,
                                        q->buckets < 2 ? 2 : q->buckets, &r->level, error);
    if (status == DTR_OK && r->level == DTRI_TILE_NONE)
        return dtri_fail(
            error, DTR_E_LIMIT, 0,
            "run %lld has too many events for the page and no tiles; `dtrscope migrate "
            "%s` makes them",
            (long long)q->run.id, q->file->path);
    if (status == DTR_OK)
        r->width =
            dtri_tile_shift(r->level) < 62 ? INT64_C(1) << dtri_tile_shift(r->level) : INT64_MAX;
    return status;
}

static dtr_status read_track(struct reader *r, int64_t track, dtr_error *error)
{
    return dtri_tiles_read(r->query->file->store, r->query->run.id, track, r->level, r->from, r->to,
                           &r->tiles, error);
}

/* Begin of a tile, from the start of the run; a tile may begin before the window. */
static int64_t begin_of(const struct reader *r, const struct dtri_tile *tile)
{
    return tile->ts_ns - r->query->run.base_ts_ns;
}

/* --- memory ----------------------------------------------------------------------------------- */

struct pixel {
    int64_t least, most;
    double evicted, eager;
};

/* Between two tiles nothing changed, so what was in use at the end of the first, which is somewhere
 * between its least and most, still is. */
static void fill_levels(const struct reader *r, struct pixel *pixels)
{
    const struct dtri_query *q = r->query;
    int64_t at = 0;
    struct pixel last = {0};
    for (size_t i = 0; i < r->tiles.n; i++) {
        const struct dtri_tile *tile = &r->tiles.tiles[i];
        int64_t first = dtri_query_bucket(q, begin_of(r, tile));
        int64_t end = dtri_query_bucket(q, begin_of(r, tile) + r->width - 1);
        if (i == 0)
            last = (struct pixel){.least = tile->least, .most = tile->most};
        for (; at < first; at++)
            pixels[at] = last;
        last = (struct pixel){.least = tile->least, .most = tile->most};
        for (int64_t p = first; p <= end; p++) {
            bool shared = p < at; /* with the tile before */
            pixels[p].least = shared && pixels[p].least < last.least ? pixels[p].least : last.least;
            pixels[p].most = shared && pixels[p].most > last.most ? pixels[p].most : last.most;
        }
        at = end + 1 > at ? end + 1 : at;
    }
    for (; at < q->buckets; at++)
        pixels[at] = last;
}

static void fill_evictions(const struct reader *r, struct pixel *pixels, bool eager)
{
    for (size_t i = 0; i < r->tiles.n; i++) {
        const struct dtri_tile *tile = &r->tiles.tiles[i];
        struct pixel *p = &pixels[dtri_query_bucket(r->query, begin_of(r, tile))];
        *(eager ? &p->eager : &p->evicted) += (double)tile->total;
    }
}

static json_t *memory_json(const struct dtri_query *q, const struct pixel *pixels)
{
    json_t *min = json_array(), *max = json_array(), *avg = json_array();
    json_t *evicted = json_array(), *eager = json_array();
    for (int64_t i = 0; i < q->buckets; i++) {
        const struct pixel *p = &pixels[i];
        json_array_append_new(min, json_integer(p->least));
        json_array_append_new(max, json_integer(p->most));
        json_array_append_new(avg, json_integer(p->least + (p->most - p->least) / 2));
        json_array_append_new(evicted,
                              json_integer((json_int_t)fmin(p->evicted, (double)DTRI_MAX_SAFE)));
        json_array_append_new(eager,
                              json_integer((json_int_t)fmin(p->eager, (double)DTRI_MAX_SAFE)));
    }
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "t0", q->t0, "t1", q->t1, "min",
                     min, "max", max, "avg", avg, "evicted_bytes", evicted, "eager_bytes", eager,
                     "budget", dtri_json_budgets(q));
}

dtr_status dtri_overview_memory(struct dtri_query *q, json_t **out, dtr_error *error)
{
    struct reader r;
    struct pixel *pixels = dtri_calloc((size_t)q->buckets, sizeof *pixels);
    if (!pixels)
        return dtri_fail_nomem(error, "an answer");
    dtr_status status = reader_open(&r, q, error);
    if (status == DTR_OK)
        status = read_track(&r, DTRI_TRACK_IN_USE, error);
    if (status == DTR_OK) {
        fill_levels(&r, pixels);
        status = read_track(&r, DTRI_TRACK_EVICTED_FOR_BUDGET, error);
    }
    if (status == DTR_OK) {
        fill_evictions(&r, pixels, false);
        status = read_track(&r, DTRI_TRACK_EVICTED_OTHERWISE, error);
    }
    if (status == DTR_OK) {
        fill_evictions(&r, pixels, true);
        status = dtri_json_result(memory_json(q, pixels), out, error);
    }
    dtri_free(r.tiles.tiles);
    dtri_free(pixels);
    return status;
}

/* --- lanes ------------------------------------------------------------------------------------ */

/* A slice a tile, as long as the runs that begin in it took together, but no longer than the tile.
 */
static json_t *lane_json(const struct reader *r, bool replay)
{
    json_t *slices = json_array();
    json_int_t runs = 0;
    for (size_t i = 0; i < r->tiles.n; i++) {
        const struct dtri_tile *tile = &r->tiles.tiles[i];
        int64_t length = tile->total < r->width ? tile->total : r->width;
        runs += tile->n;
        json_array_append_new(
            slices, json_pack("[I, I, I, I, I]", begin_of(r, tile), length, tile->n, MANY, MANY));
    }
    return json_pack("{s:b, s:o, s:b, s:I, s:I, s:o}", "replay", replay, "depth",
                     replay ? json_integer(0) : json_null(), "and_deeper", replay, "runs", runs,
                     "not_shown", (json_int_t)0, "slices", slices);
}

dtr_status dtri_overview_lanes(struct dtri_query *q, json_t **out, dtr_error *error)
{
    struct reader r;
    json_t *lanes = json_array();
    dtr_status status = reader_open(&r, q, error);
    if (status == DTR_OK)
        status = read_track(&r, DTRI_TRACK_FIRST_RUN, error);
    if (status == DTR_OK) {
        json_array_append_new(lanes, lane_json(&r, false));
        status = read_track(&r, DTRI_TRACK_REPLAY, error);
    }
    if (status == DTR_OK && r.tiles.n)
        json_array_append_new(lanes, lane_json(&r, true));
    dtri_free(r.tiles.tiles);
    if (status != DTR_OK) {
        json_decref(lanes);
        return status;
    }
    return dtri_json_result(
        json_pack("{s:I, s:I, s:o, s:{}}", "t0", q->t0, "t1", q->t1, "lanes", lanes, "names"), out,
        error);
}

/* --- evictions -------------------------------------------------------------------------------- */

dtr_status dtri_overview_evictions(struct dtri_query *q, json_t **out, dtr_error *error)
{
    struct reader r;
    json_int_t total = 0;
    dtr_status status = reader_open(&r, q, error);
    if (status == DTR_OK)
        status = read_track(&r, DTRI_TRACK_EVICTED_FOR_BUDGET, error);
    json_t *ticks = json_array();
    for (size_t i = 0; status == DTR_OK && i < r.tiles.n; i++) {
        const struct dtri_tile *tile = &r.tiles.tiles[i];
        total += tile->n;
        json_array_append_new(
            ticks, json_pack("[I, I, I, n, I]", begin_of(&r, tile), tile->n, tile->total, MANY));
    }
    dtri_free(r.tiles.tiles);
    if (status != DTR_OK) {
        json_decref(ticks);
        return status;
    }
    return dtri_json_result(json_pack("{s:I, s:I, s:I, s:o, s:o}", "t0", q->t0, "t1", q->t1,
                                      "evictions", total, "ticks", ticks, "out_of_memory",
                                      dtri_json_out_of_memory(q)),
                            out, error);
}
