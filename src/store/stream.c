#include "store/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/store_priv.h"

/* --- the stream ------------------------------------------------------------------------------- */

/* Where one kind stands. */
struct lane {
    const dtr_event_info *info;
    struct dtri_store_reader *reader;
    const int64_t *const *columns;
    int n, at;
};

/* The lanes that have an event are a heap by its seq, then the order of the kinds.  Events of one
 * kind come in runs, so mostly the first lane stays the first and two comparisons tell. */
struct waiting {
    int64_t seq;
    int lane;
};

struct dtri_stream {
    struct lane *lanes;
    struct waiting *heap;
    int n_lanes, n_waiting;
    bool taken; /* the first lane's event was handed out */
    int64_t ts_min, ts_max;
    dtr_event event;
};

void dtri_stream_free(struct dtri_stream *stream)
{
    if (!stream)
        return;
    for (int i = 0; stream->lanes && i < stream->n_lanes; i++)
        dtri_store_reader_free(stream->lanes[i].reader);
    dtri_free(stream->lanes);
    dtri_free(stream->heap);
    dtri_free(stream);
}

/* To the next row of the lane that begins in the range; `n` is 0 at its end. */
static dtr_status advance(struct dtri_stream *stream, struct lane *lane, dtr_error *error)
{
    for (;;) {
        if (++lane->at >= lane->n) {
            lane->at = 0;
            dtr_status status =
                dtri_store_reader_next(lane->reader, &lane->n, &lane->columns, error);
            if (status != DTR_OK || lane->n == 0)
                return status;
        }
        int64_t ts = lane->columns[0][lane->at];
        if (ts >= stream->ts_min && ts <= stream->ts_max)
            return DTR_OK;
    }
}

static bool before(struct waiting a, struct waiting b)
{
    return a.seq != b.seq ? a.seq < b.seq : a.lane < b.lane;
}

/* Puts what was or is to be the first where it belongs. */
static void sift_down(struct dtri_stream *stream, struct waiting entry)
{
    struct waiting *heap = stream->heap;
    int at = 0;
    for (int child; (child = 2 * at + 1) < stream->n_waiting; at = child) {
        child += child + 1 < stream->n_waiting && before(heap[child + 1], heap[child]);
        if (!before(heap[child], entry))
            break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

static void sift_up(struct dtri_stream *stream, struct waiting entry)
{
    struct waiting *heap = stream->heap;
    int at = stream->n_waiting++;
    for (; at && before(entry, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
}

static dtr_status open_lane(struct dtri_store *store, struct dtri_stream *stream,
                            const struct dtri_stream_options *options, const dtr_event_info *info,
                            dtr_error *error)
{
    struct lane *lane = &stream->lanes[stream->n_lanes++];
    lane->info = info;
    dtr_status status =
        dtri_store_reader_new(store, options->run, info->kind, options->ts_min, options->ts_max,
                              DTRI_ALL_COLUMNS, &lane->reader, error);
    if (status == DTR_OK)
        status = advance(stream, lane, error);
    if (status == DTR_OK && lane->n)
        sift_up(stream, (struct waiting){lane->columns[1][lane->at], stream->n_lanes - 1});
    return status;
}

dtr_status dtri_stream_open(struct dtri_store *store, const struct dtri_stream_options *options,
                            struct dtri_stream **out_stream, dtr_error *error)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    struct dtri_stream *stream = dtri_calloc(1, sizeof *stream);
    if (!stream)
        return dtri_fail_nomem(error, "a stream of events");
    stream->lanes = dtri_calloc((size_t)n, sizeof *stream->lanes);
    stream->heap = dtri_calloc((size_t)n, sizeof *stream->heap);
    stream->ts_min = options->ts_min;
    stream->ts_max = options->ts_max;
    dtr_status status =
        stream->lanes && stream->heap ? DTR_OK : dtri_fail_nomem(error, "a stream of events");
    for (int i = 0; i < n && status == DTR_OK; i++)
        if (options->kinds & DTRI_KIND_BIT(infos[i].kind))
            status = open_lane(store, stream, options, &infos[i], error);
    if (status == DTR_OK)
        *out_stream = stream;
    else
        dtri_stream_free(stream);
    return status;
}

/* Behind the event that was handed out, in the lane that it came from. */
static dtr_status step(struct dtri_stream *stream, dtr_error *error)
{
    int first = stream->heap[0].lane;
    struct lane *lane = &stream->lanes[first];
    dtr_status status = advance(stream, lane, error);
    if (status != DTR_OK)
        return status;
    stream->taken = false;
    if (lane->n)
        sift_down(stream, (struct waiting){lane->columns[1][lane->at], first});
    else if (--stream->n_waiting)
        sift_down(stream, stream->heap[stream->n_waiting]);
    return DTR_OK;
}

dtr_status dtri_stream_next(struct dtri_stream *stream, const dtr_event **out_event,
                            dtr_error *error)
{
    *out_event = NULL;
    dtr_status status = stream->taken ? step(stream, error) : DTR_OK;
    if (status != DTR_OK || !stream->n_waiting)
        return status;
    const struct lane *lane = &stream->lanes[stream->heap[0].lane];
    dtr_event *event = &stream->event;
    event->kind = lane->info->kind;
    event->ts_ns = lane->columns[0][lane->at];
    event->seq = lane->columns[1][lane->at];
    for (int i = 0; i < lane->info->n_fields; i++)
        event->u.raw[i] = lane->columns[2 + i][lane->at];
    stream->taken = true;
    *out_event = event;
    return DTR_OK;
}

/* --- names ------------------------------------------------------------------------------------ */

struct name {
    int64_t id;
    char *text;
};

struct dtri_names {
    struct name *names; /* by id */
    size_t n, cap;
};

void dtri_names_free(struct dtri_names *names)
{
    if (!names)
        return;
    for (size_t i = 0; i < names->n; i++)
        dtri_free(names->names[i].text);
    dtri_free(names->names);
    dtri_free(names);
}

dtr_status dtri_names_load(struct dtri_store *store, int64_t run, struct dtri_names **out_names,
                           dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    int code = SQLITE_DONE;
    struct dtri_names *names = dtri_calloc(1, sizeof *names);
    if (!names)
        return dtri_fail_nomem(error, "the names of a run");
    dtr_status status = dtri_store_prepare(
        store, "SELECT id, text FROM name WHERE run = ?1 ORDER BY id", &statement, error);
    sqlite3_bind_int64(statement, 1, run);
    while (status == DTR_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 1);
        char *copy = dtri_strdup(text ? text : "");
        if (!copy || !DTRI_RESERVE(names->names, names->cap, names->n + 1)) {
            dtri_free(copy);
            status = dtri_fail_nomem(error, "the names of a run");
            break;
        }
        names->names[names->n++] = (struct name){sqlite3_column_int64(statement, 0), copy};
    }
    if (status == DTR_OK && code != SQLITE_DONE)
        status = dtri_store_fail(store, "reading names", error);
    sqlite3_finalize(statement);
    if (status == DTR_OK)
        *out_names = names;
    else
        dtri_names_free(names);
    return status;
}

static int by_id(const void *key, const void *element)
{
    int64_t id = *(const int64_t *)key, other = ((const struct name *)element)->id;
    return (id > other) - (id < other);
}

const char *dtri_names_text(const struct dtri_names *names, int64_t id)
{
    if (id == DTR_NONE)
        return "";
    const struct name *found =
        names->n ? bsearch(&id, names->names, names->n, sizeof *names->names, by_id) : NULL;
    return found ? found->text : "?";
}
