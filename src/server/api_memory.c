/* /api/memory: bytes in use over a window, bucket by bucket, and the budget. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "server/api.h"

struct bucket {
    int64_t min, max;
    double area; /* bytes times share of the bucket */
    int64_t evicted, eager;
};

static size_t samples_from(const struct dtri_snapshot *s, int64_t ts)
{
    size_t low = 0, high = s->n_samples;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->samples[middle].ts < ts)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void note(struct bucket *b, int64_t in_use)
{
    b->min = in_use < b->min ? in_use : b->min;
    b->max = in_use > b->max ? in_use : b->max;
}

/* `in_use` held from place x to place y, in buckets from the start of the window. */
static void hold(struct bucket *buckets, int64_t n, double x, double y, int64_t in_use)
{
    int64_t i = (int64_t)x;
    for (; i < n && (double)i < y; i++) {
        double from = x > (double)i ? x : (double)i;
        double to = y < (double)(i + 1) ? y : (double)(i + 1);
        note(&buckets[i], in_use);
        buckets[i].area += (double)in_use * (to - from);
    }
}

static void fill_levels(const struct dtri_query *q, struct bucket *buckets)
{
    const struct dtri_snapshot *s = q->snapshot;
    double scale = (double)q->buckets / (double)(q->t1 - q->t0);
    size_t i = samples_from(s, q->t0 + 1);
    int64_t in_use = i ? s->samples[i - 1].in_use : s->in_use_before;
    double at = 0;
    for (; i < s->n_samples && s->samples[i].ts <= q->t1; i++) {
        double x = (double)(s->samples[i].ts - q->t0) * scale;
        hold(buckets, q->buckets, at, x, in_use);
        in_use = s->samples[i].in_use;
        note(&buckets[dtri_query_bucket(q, s->samples[i].ts)], in_use);
        at = x;
    }
    hold(buckets, q->buckets, at, (double)q->buckets, in_use);
}

/* What an operator doubles while it runs shows in the maximum only. */
static void fill_runs(const struct dtri_query *q, struct bucket *buckets)
{
    const struct dtri_rows *rows = &q->snapshot->of[DTR_EVENT_OPERATOR_RUN];
    for (size_t i = dtri_rows_from(rows, q->t0); i < rows->n; i++) {
        const int64_t *row = dtri_snapshot_row(q->snapshot, DTR_EVENT_OPERATOR_RUN, i);
        if (row[DTRI_TS] >= q->t1)
            break;
        struct bucket *b = &buckets[dtri_query_bucket(q, row[DTRI_TS])];
        int64_t in_use = row[DTRI_AT(OPERATOR_RUN, in_use)];
        b->max = in_use > b->max ? in_use : b->max;
    }
}

static void fill_evictions(const struct dtri_query *q, struct bucket *buckets)
{
    const struct dtri_rows *rows = &q->snapshot->of[DTR_EVENT_EVICTION];
    for (size_t i = dtri_rows_from(rows, q->t0); i < rows->n; i++) {
        const int64_t *row = dtri_snapshot_row(q->snapshot, DTR_EVENT_EVICTION, i);
        if (row[DTRI_TS] > q->t1)
            break;
        struct bucket *b = &buckets[dtri_query_bucket(q, row[DTRI_TS])];
        bool chosen = row[DTRI_AT(EVICTION, reason)] == DTR_EVICTED_FOR_BUDGET;
        double sum =
            (double)(chosen ? b->evicted : b->eager) + (double)row[DTRI_AT(EVICTION, bytes)];
        *(chosen ? &b->evicted : &b->eager) = (int64_t)fmin(sum, (double)DTRI_MAX_SAFE);
    }
}

json_t *dtri_json_budgets(const struct dtri_query *q)
{
    json_t *list = json_array();
    const struct dtri_rows *rows = &q->snapshot->of[DTR_EVENT_BUDGET];
    for (size_t i = 0; i < rows->n && i < DTRI_MAX_ITEMS; i++) {
        const int64_t *row = dtri_snapshot_row(q->snapshot, DTR_EVENT_BUDGET, i);
        json_array_append_new(
            list, json_pack("[I, o]", row[DTRI_TS], dtri_json_id(row[DTRI_AT(BUDGET, budget)])));
    }
    return list;
}

dtr_status dtri_api_memory(struct dtri_query *q, json_t **out, dtr_error *error)
{
    if (q->snapshot->overview)
        return dtri_overview_memory(q, out, error);
    struct bucket *buckets = dtri_calloc((size_t)q->buckets, sizeof *buckets);
    if (!buckets)
        return dtri_fail_nomem(error, "an answer");
    for (int64_t i = 0; i < q->buckets; i++)
        buckets[i].min = INT64_MAX;
    fill_levels(q, buckets);
    fill_runs(q, buckets);
    fill_evictions(q, buckets);
    json_t *min = json_array(), *max = json_array(), *avg = json_array();
    json_t *evicted = json_array(), *eager = json_array();
    for (int64_t i = 0; i < q->buckets; i++) {
        json_array_append_new(min, json_integer(buckets[i].min));
        json_array_append_new(max, json_integer(buckets[i].max));
        json_array_append_new(avg, json_integer((json_int_t)buckets[i].area));
        json_array_append_new(evicted, json_integer(buckets[i].evicted));
        json_array_append_new(eager, json_integer(buckets[i].eager));
    }
    dtri_free(buckets);
    return dtri_json_result(json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "t0", q->t0, "t1",
                                      q->t1, "min", min, "max", max, "avg", avg, "evicted_bytes",
                                      evicted, "eager_bytes", eager, "budget",
                                      dtri_json_budgets(q)),
                            out, error);
}
