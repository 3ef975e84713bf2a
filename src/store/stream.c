#include "store/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/store_priv.h"

/* --- the stream ------------------------------------------------------------------------------- */

/* Where one kind stands.  `n` is 0 at its end. */
struct lane {
    const dtr_event_info *info;
    struct dtri_store_reader *reader;
    const int64_t *const *columns;
    int n, at;
};

struct dtri_stream {
    struct lane *lanes;
    int n_lanes;
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
    dtri_free(stream);
}

/* To the next row of the lane that begins in the range. */
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

dtr_status dtri_stream_open(struct dtri_store *store, const struct dtri_stream_options *options,
                            struct dtri_stream **out_stream, dtr_error *error)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    struct dtri_stream *stream = dtri_calloc(1, sizeof *stream);
    struct lane *lanes = dtri_calloc((size_t)n, sizeof *lanes);
    if (!stream || !lanes) {
        dtri_free(stream);
        dtri_free(lanes);
        return dtri_fail_nomem(error, "a stream of events");
    }
    stream->lanes = lanes;
    stream->ts_min = options->ts_min;
    stream->ts_max = options->ts_max;
    dtr_status status = DTR_OK;
    for (int i = 0; i < n && status == DTR_OK; i++) {
        if (!(options->kinds & DTRI_KIND_BIT(infos[i].kind)))
            continue;
        struct lane *lane = &lanes[stream->n_lanes++];
        lane->info = &infos[i];
        status = dtri_store_reader_new(store, options->run, infos[i].kind, options->ts_min,
                                       options->ts_max, DTRI_ALL_COLUMNS, &lane->reader, error);
        if (status == DTR_OK)
            status = advance(stream, lane, error);
    }
    if (status != DTR_OK) {
        dtri_stream_free(stream);
        return status;
    }
    *out_stream = stream;
    return DTR_OK;
}

dtr_status dtri_stream_next(struct dtri_stream *stream, const dtr_event **out_event,
                            dtr_error *error)
{
    struct lane *first = NULL;
    for (int i = 0; i < stream->n_lanes; i++) {
        struct lane *lane = &stream->lanes[i];
        if (lane->n && (!first || lane->columns[1][lane->at] < first->columns[1][first->at]))
            first = lane;
    }
    *out_event = NULL;
    if (!first)
        return DTR_OK;
    dtr_event *event = &stream->event;
    event->kind = first->info->kind;
    event->ts_ns = first->columns[0][first->at];
    event->seq = first->columns[1][first->at];
    for (int i = 0; i < first->info->n_fields; i++)
        event->u.raw[i] = first->columns[2 + i][first->at];
    *out_event = event;
    return advance(stream, first, error);
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
