/* /api/lanes: operator runs of a window, first runs in one lane and replays in one a depth.
 *
 * Level of detail: runs that begin within the pixel that the slice before them still fills join it.
 * A joined slice says how many it stands for and goes by the name of the longest. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "server/api.h"

struct slice {
    int64_t t, end, n, longest_ns;
    const int64_t *row; /* the longest */
};

struct lane {
    struct slice *slices;
    size_t n, cap;
    int64_t runs, not_shown;
};

static dtr_status add(struct lane *lane, const int64_t *row, int64_t pixel_ns, dtr_error *error)
{
    int64_t t = row[DTRI_TS], dur = row[DTRI_AT(OPERATOR_RUN, dur_ns)], end;
    if (dur < 0 || __builtin_add_overflow(t, dur, &end))
        end = t;
    lane->runs++;
    struct slice *last = lane->n ? &lane->slices[lane->n - 1] : NULL;
    if (last && t < last->t + pixel_ns && (last->end - last->t < pixel_ns) && dur < pixel_ns) {
        last->n++;
        last->end = end > last->end ? end : last->end;
        if (dur > last->longest_ns) {
            last->longest_ns = dur;
            last->row = row;
        }
        return DTR_OK;
    }
    if (lane->n == DTRI_MAX_ITEMS) {
        lane->not_shown++;
        return DTR_OK;
    }
    if (!DTRI_RESERVE(lane->slices, lane->cap, lane->n + 1))
        return dtri_fail_nomem(error, "slices");
    lane->slices[lane->n++] = (struct slice){t, end, 1, dur, row};
    return DTR_OK;
}

static size_t lane_of(const int64_t *row)
{
    int64_t depth = row[DTRI_AT(OPERATOR_RUN, depth)];
    if (row[DTRI_AT(OPERATOR_RUN, replay)] == 0)
        return 0;
    depth = depth < 0 ? 0 : depth;
    return 1 + (size_t)(depth < DTRI_MAX_LANES - 1 ? depth : DTRI_MAX_LANES - 1);
}

static dtr_status collect(const struct dtri_query *q, struct lane *lanes, dtr_error *error)
{
    const struct dtri_rows *rows = &q->snapshot->of[DTR_EVENT_OPERATOR_RUN];
    int64_t pixel_ns = (q->t1 - q->t0) / q->buckets + 1;
    size_t i = dtri_rows_from(rows, q->t0);
    /* The runs that began before the window and reach into it: at most one on a device that runs
     * one operator at a time, a few more are looked at. */
    i = i > 16 ? i - 16 : 0;
    for (; i < rows->n; i++) {
        const int64_t *row = dtri_snapshot_row(q->snapshot, DTR_EVENT_OPERATOR_RUN, i);
        if (row[DTRI_TS] >= q->t1)
            break;
        if (row[DTRI_TS] < q->t0 &&
            (double)row[DTRI_TS] + (double)row[DTRI_AT(OPERATOR_RUN, dur_ns)] <= (double)q->t0)
            continue;
        dtr_status status = add(&lanes[lane_of(row)], row, pixel_ns, error);
        if (status != DTR_OK)
            return status;
    }
    return DTR_OK;
}

static json_t *lane_json(const struct dtri_snapshot *s, const struct lane *lane, size_t number,
                         json_t *names)
{
    json_t *slices = json_array();
    for (size_t i = 0; i < lane->n; i++) {
        const struct slice *slice = &lane->slices[i];
        int64_t name = slice->row[DTRI_AT(OPERATOR_RUN, name)];
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)name);
        json_object_set_new(names, key, dtri_json_text(dtri_snapshot_name(s, name)));
        json_array_append_new(
            slices, json_pack("[I, I, I, I, I]", slice->t, slice->end - slice->t, slice->n,
                              slice->row[DTRI_AT(OPERATOR_RUN, execution)], name));
    }
    return json_pack("{s:b, s:o, s:b, s:I, s:I, s:o}", "replay", number > 0, "depth",
                     number ? json_integer((json_int_t)number - 1) : json_null(), "and_deeper",
                     number == DTRI_MAX_LANES, "runs", lane->runs, "not_shown", lane->not_shown,
                     "slices", slices);
}

dtr_status dtri_api_lanes(struct dtri_query *q, json_t **out, dtr_error *error)
{
    if (q->snapshot->overview)
        return dtri_overview_lanes(q, out, error);
    struct lane lanes[DTRI_MAX_LANES + 1] = {0};
    json_t *list = json_array(), *names = json_object();
    dtr_status status = collect(q, lanes, error);
    for (size_t i = 0; i <= DTRI_MAX_LANES; i++) {
        if (status == DTR_OK && (lanes[i].n || i < 1))
            json_array_append_new(list, lane_json(q->snapshot, &lanes[i], i, names));
        dtri_free(lanes[i].slices);
    }
    if (status != DTR_OK) {
        json_decref(list);
        json_decref(names);
        return status;
    }
    return dtri_json_result(
        json_pack("{s:I, s:I, s:o, s:o}", "t0", q->t0, "t1", q->t1, "lanes", list, "names", names),
        out, error);
}
