/* /api/evictions: evictions by budget in a window, those of one pixel together, and out of memory.
 */
#include "base/error.h"
#include "server/api.h"

struct tick {
    int64_t bucket, n;
    double bytes;
    const int64_t *row; /* the largest */
};

static void append(json_t *ticks, const struct tick *t)
{
    if (t->n)
        json_array_append_new(ticks, json_pack("[I, I, I, o, I]", t->row[DTRI_TS], t->n,
                                               (json_int_t)t->bytes,
                                               dtri_json_id(t->row[DTRI_AT(EVICTION, decision)]),
                                               t->row[DTRI_AT(EVICTION, storage)]));
}

static json_t *collect(const struct dtri_query *q, int64_t *total)
{
    const struct dtri_rows *rows = &q->snapshot->of[DTR_EVENT_EVICTION];
    json_t *ticks = json_array();
    struct tick tick = {.bucket = -1};
    for (size_t i = dtri_rows_from(rows, q->t0); i < rows->n; i++) {
        const int64_t *row = dtri_snapshot_row(q->snapshot, DTR_EVENT_EVICTION, i);
        if (row[DTRI_TS] >= q->t1)
            break;
        if (row[DTRI_AT(EVICTION, reason)] != DTR_EVICTED_FOR_BUDGET)
            continue;
        int64_t bucket = dtri_query_bucket(q, row[DTRI_TS]);
        if (bucket != tick.bucket) {
            append(ticks, &tick);
            tick = (struct tick){bucket, 0, 0, row};
        }
        tick.n++;
        tick.bytes += (double)row[DTRI_AT(EVICTION, bytes)];
        if (row[DTRI_AT(EVICTION, bytes)] > tick.row[DTRI_AT(EVICTION, bytes)])
            tick.row = row;
        (*total)++;
    }
    append(ticks, &tick);
    return ticks;
}

json_t *dtri_json_out_of_memory(const struct dtri_query *q)
{
    const struct dtri_rows *rows = &q->snapshot->of[DTR_EVENT_OUT_OF_MEMORY];
    json_t *list = json_array();
    for (size_t i = dtri_rows_from(rows, q->t0); i < rows->n; i++) {
        const int64_t *row = dtri_snapshot_row(q->snapshot, DTR_EVENT_OUT_OF_MEMORY, i);
        if (row[DTRI_TS] > q->t1 || json_array_size(list) == DTRI_MAX_BUCKETS)
            break;
        json_array_append_new(list,
                              json_pack("{s:I, s:o, s:I, s:I, s:b}", "t", row[DTRI_TS], "op",
                                        dtri_json_op(q->snapshot, row[DTRI_AT(OUT_OF_MEMORY, op)]),
                                        "needed", row[DTRI_AT(OUT_OF_MEMORY, needed)], "in_use",
                                        row[DTRI_AT(OUT_OF_MEMORY, in_use)], "overshoot",
                                        row[DTRI_AT(OUT_OF_MEMORY, overshoot)] != 0));
    }
    return list;
}

dtr_status dtri_api_evictions(struct dtri_query *q, json_t **out, dtr_error *error)
{
    if (q->snapshot->overview)
        return dtri_overview_evictions(q, out, error);
    int64_t total = 0;
    json_t *ticks = collect(q, &total);
    return dtri_json_result(json_pack("{s:I, s:I, s:I, s:o, s:o}", "t0", q->t0, "t1", q->t1,
                                      "evictions", total, "ticks", ticks, "out_of_memory",
                                      dtri_json_out_of_memory(q)),
                            out, error);
}
