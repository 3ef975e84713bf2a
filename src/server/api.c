/* Opening what a query asks for, and the JSON that several endpoints share. */
#include "server/api.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/tile.h"

/* --- parameters --- */

dtr_status dtri_query_int(const struct dtri_query *query, const char *name, int64_t min,
                          int64_t max, int64_t fallback, int64_t *out, dtr_error *error)
{
    const char *text = query->param(query->request, name);
    int64_t value = fallback;
    if (text) {
        char *end;
        errno = 0;
        value = strtoll(text, &end, 10);
        if (errno || end == text || *end)
            return dtri_fail(error, DTR_E_INVALID, 0, "parameter %s is not a whole number", name);
    }
    if (value < min || value > max)
        return dtri_fail(error, DTR_E_INVALID, 0, "parameter %s has to be there, within %lld..%lld",
                         name, (long long)min, (long long)max);
    *out = value;
    return DTR_OK;
}

static dtr_status read_window(struct dtri_query *q, int64_t begin, int64_t end, dtr_error *error)
{
    if (end <= begin)
        end = begin + 1;
    dtr_status status =
        dtri_query_int(q, "t0", -DTRI_MAX_SAFE, DTRI_MAX_SAFE, begin, &q->t0, error);
    if (status == DTR_OK)
        status = dtri_query_int(q, "t1", -DTRI_MAX_SAFE, DTRI_MAX_SAFE, end, &q->t1, error);
    if (status == DTR_OK)
        status = dtri_query_int(q, "buckets", 1, DTRI_MAX_BUCKETS, 1000, &q->buckets, error);
    if (status == DTR_OK && q->t0 >= q->t1)
        status = dtri_fail(error, DTR_E_INVALID, 0, "t0 has to be before t1");
    return status;
}

int64_t dtri_query_bucket(const struct dtri_query *q, int64_t ts)
{
    if (ts <= q->t0)
        return 0;
    if (ts >= q->t1)
        return q->buckets - 1;
    double share = (double)(ts - q->t0) / (double)(q->t1 - q->t0);
    int64_t bucket = (int64_t)(share * (double)q->buckets);
    return bucket < q->buckets ? bucket : q->buckets - 1;
}

/* --- files, runs, snapshots --- */

/* Chunks are counted whole, so that even a small window may seem to have so many. */
#define FEW_EVENTS 200000

static int64_t window_events(const struct dtri_query *q)
{
    return q->max_events / 8;
}

static bool is_of(const struct dtri_snapshot *s, int64_t its_run, const struct dtri_query *q,
                  int64_t version)
{
    return s && its_run == q->run.id && s->version == version;
}

static dtr_status make(struct dtri_query *q, const struct dtri_extent *extent,
                       enum dtri_snapshot_part part, int64_t from, int64_t to, dtr_error *error)
{
    struct dtri_file *file = q->file;
    bool overview = part == DTRI_SNAPSHOT_OVERVIEW;
    struct dtri_snapshot **where = overview ? &file->overview : &file->snapshot;
    dtri_snapshot_free(*where);
    *where = NULL;
    dtr_status status =
        dtri_snapshot_new(file->store, &q->run, extent, part, from, to, where, error);
    *(overview ? &file->overview_run : &file->snapshot_run) = q->run.id;
    q->snapshot = *where;
    return status;
}

/* The window, and half as much on either side where that is not too much: the next question is
 * often about a place nearby. */
static dtr_status make_window(struct dtri_query *q, const struct dtri_extent *extent,
                              dtr_error *error)
{
    int64_t n = 0, half = (q->t1 - q->t0) / 2; /* times are far from overflowing: read_window */
    dtr_status status =
        dtri_snapshot_count(q->file->store, &q->run, q->t0 - half, q->t1 + half, &n, error);
    if (status != DTR_OK)
        return status;
    if (n > 2 * window_events(q) && n > FEW_EVENTS)
        half = 0;
    return make(q, extent, DTRI_SNAPSHOT_WINDOW, q->t0 - half, q->t1 + half, error);
}

/* Whether tiles are fine enough to draw the window from. */
static bool has_tiles(const struct dtri_query *q)
{
    int64_t from, to;
    int level = DTRI_TILE_NONE;
    dtr_error ignored;
    return !__builtin_add_overflow(q->t0, q->run.base_ts_ns, &from) &&
           !__builtin_add_overflow(q->t1, q->run.base_ts_ns, &to) &&
           dtri_tiles_pick(q->file->store, q->run.id, from, to, q->buckets < 2 ? 2 : q->buckets,
                           &level, &ignored) == DTR_OK &&
           level != DTRI_TILE_NONE;
}

/* Of a run that is too large: the window, or an overview.  What is asked without a window (a
 * decision, a storage) is looked for in the window that is at hand: the one that is on the screen.
 */
static dtr_status open_part(struct dtri_query *q, const struct dtri_extent *extent, int64_t version,
                            enum dtri_need need, dtr_error *error)
{
    struct dtri_file *file = q->file;
    int64_t n = 0;
    dtr_status status = read_window(q, extent->begin, extent->end, error);
    if (status != DTR_OK)
        return status;
    bool at_hand = is_of(file->snapshot, file->snapshot_run, q, version);
    bool anywhere = need == DTRI_NEED_EVENTS && !q->param(q->request, "t0");
    if (at_hand && (anywhere || (file->snapshot->from <= q->t0 && file->snapshot->to >= q->t1))) {
        q->snapshot = file->snapshot;
        return DTR_OK;
    }
    status = dtri_snapshot_count(file->store, &q->run, q->t0, q->t1, &n, error);
    if (status != DTR_OK)
        return status;
    if (n <= window_events(q) || (n <= q->max_events && !has_tiles(q)))
        return make_window(q, extent, error);
    if (need == DTRI_NEED_EVENTS)
        return dtri_fail(
            error, DTR_E_LIMIT, 0,
            "there are %lld events in this window of run %lld, too many to look at one "
            "by one; zoom in to at most %lld",
            (long long)n, (long long)q->run.id, (long long)window_events(q));
    q->snapshot = file->overview;
    return is_of(file->overview, file->overview_run, q, version)
               ? DTR_OK
               : make(q, extent, DTRI_SNAPSHOT_OVERVIEW, INT64_MIN, INT64_MAX, error);
}

static dtr_status open_snapshot(struct dtri_query *q, enum dtri_need need, dtr_error *error)
{
    struct dtri_file *file = q->file;
    struct dtri_extent extent = {0};
    int64_t version;
    if (q->run.has_events != 1)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                         "run %lld is a result of a sweep, without events; `dtrscope sim --record` "
                         "records one with them",
                         (long long)q->run.id);
    dtr_status status = dtri_snapshot_version(file->store, q->run.id, &version, error);
    if (status != DTR_OK)
        return status;
    if (is_of(file->snapshot, file->snapshot_run, q, version) &&
        file->snapshot->from == INT64_MIN) {
        q->snapshot = file->snapshot;
        return read_window(q, q->snapshot->begin, q->snapshot->end, error);
    }
    status = dtri_snapshot_extent(file->store, &q->run, &extent, error);
    if (status == DTR_OK && extent.n > q->max_events)
        return open_part(q, &extent, version, need, error);
    if (status == DTR_OK)
        status = make(q, &extent, DTRI_SNAPSHOT_WHOLE, 0, 0, error);
    return status == DTR_OK ? read_window(q, q->snapshot->begin, q->snapshot->end, error) : status;
}

dtr_status dtri_query_open(struct dtri_query *q, enum dtri_need need, dtr_error *error)
{
    int64_t file = 0, run = 0;
    if (need == DTRI_NEED_NOTHING)
        return DTR_OK;
    dtr_status status = dtri_query_int(q, "file", 0, q->n_files - 1, 0, &file, error);
    if (status != DTR_OK)
        return status;
    q->file = &q->files[file];
    pthread_mutex_lock(&q->file->lock);
    if (need == DTRI_NEED_FILE)
        return DTR_OK;
    status = dtri_query_int(q, "run", 1, INT64_MAX, 0, &run, error);
    if (status == DTR_OK)
        status = dtri_store_run(q->file->store, run, &q->run, error);
    if (status == DTR_OK)
        status = open_snapshot(q, need, error);
    return status;
}

/* --- JSON --- */

json_t *dtri_json_int(int64_t value)
{
    return value == DTRI_NULL ? json_null() : json_integer(value);
}

json_t *dtri_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *dtri_json_id(int64_t id)
{
    return id == DTR_NONE ? json_null() : json_integer(id);
}

/* Text from files may be no UTF-8, which JSON cannot hold: such bytes become '?'. */
json_t *dtri_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char *copy = dtri_strdup(text);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = copy ? json_string(copy) : NULL;
    dtri_free(copy);
    return value;
}

/* These may be beyond 2^53, where a browser's numbers are not exact: they travel as text. */
static int set_large(json_t *o, const char *name, int64_t value)
{
    char text[24];
    if (value == DTRI_NULL)
        return json_object_set_new(o, name, json_null());
    snprintf(text, sizeof text, "%lld", (long long)value);
    return json_object_set_new(o, name, json_string(text));
}

json_t *dtri_json_run(const struct dtri_run *run)
{
    json_t *o = json_object();
    int bad = json_object_set_new(o, "id", json_integer(run->id));
#define SET_T(name)                                                                                \
    bad |= json_object_set_new(o, #name, run->name[0] ? dtri_json_text(run->name) : json_null());
#define SET_I(name) bad |= json_object_set_new(o, #name, dtri_json_int(run->name));
#define SET_R(name) bad |= json_object_set_new(o, #name, dtri_json_real(run->name));
    DTRI_RUN_COLUMNS(SET_T, SET_I, SET_R)
#undef SET_T
#undef SET_I
#undef SET_R
    bad |= set_large(o, "trace_hash", run->trace_hash);
    bad |= set_large(o, "seed", run->seed);
    bad |= set_large(o, "started_at_unix_ns", run->started_at_unix_ns);
    bad |= set_large(o, "base_ts_ns", run->base_ts_ns);
    if (bad) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *dtri_json_op(const struct dtri_snapshot *s, int64_t op)
{
    if (op == DTR_NONE)
        return json_null();
    const int64_t *row = dtri_index_one(&s->signature_by_op, op);
    return json_pack("{s:I, s:o, s:o}", "op", op, "name",
                     dtri_json_text(dtri_snapshot_op_name(s, op)), "signature",
                     row ? dtri_json_text(dtri_snapshot_name(s, row[DTRI_AT(SIGNATURE, name)]))
                         : json_null());
}

dtr_status dtri_json_result(json_t *value, json_t **out, dtr_error *error)
{
    if (!value)
        return dtri_fail_nomem(error, "an answer");
    *out = value;
    return DTR_OK;
}
