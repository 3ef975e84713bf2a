/* /api/residency: which storages are resident when, a page of rows; those resident at some time in
 * the window.
 *
 * In the order of `sort`: by creation (the picture of the published paper), bytes, or re-makes.
 * Stays that touch the same pixel are joined and say how many they stand for. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "server/api.h"

typedef const struct dtri_storage_info *info_ptr;

/* Constants last: they stay all the time. */
static int by_creation(const void *a, const void *b)
{
    const struct dtri_storage_info *x = *(const info_ptr *)a, *y = *(const info_ptr *)b;
    if ((x->op == DTR_NONE) != (y->op == DTR_NONE))
        return x->op == DTR_NONE ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_bytes(const void *a, const void *b)
{
    const struct dtri_storage_info *x = *(const info_ptr *)a, *y = *(const info_ptr *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return by_creation(a, b);
}

static int by_remakes(const void *a, const void *b)
{
    const struct dtri_storage_info *x = *(const info_ptr *)a, *y = *(const info_ptr *)b;
    if (x->remakes != y->remakes)
        return x->remakes > y->remakes ? -1 : 1;
    return by_bytes(a, b);
}

static const struct {
    const char *name;
    int (*compare)(const void *, const void *);
} orders[] = {{"remakes", by_remakes}, {"bytes", by_bytes}, {"created", by_creation}};

static int (*order_of(const struct dtri_query *q))(const void *, const void *)
{
    const char *name = q->param(q->request, "sort");
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        if (strcmp(name ? name : "remakes", orders[i].name) == 0)
            return orders[i].compare;
    return NULL;
}

static bool resident_in_window(const struct dtri_query *q, const struct dtri_storage_info *info)
{
    for (size_t i = info->first_stay; i < info->first_stay + info->n_stays; i++) {
        const struct dtri_stay *stay = &q->snapshot->stays[i];
        if (stay->end >= q->t0 && stay->begin <= q->t1)
            return true;
    }
    return false;
}

/* Bars of one storage: [begin, end, stays joined, stays before it]. */
static json_t *bars_of(const struct dtri_query *q, const struct dtri_storage_info *info,
                       int64_t *not_shown)
{
    const struct dtri_snapshot *s = q->snapshot;
    int64_t pixel_ns = (q->t1 - q->t0) / q->buckets;
    json_t *bars = json_array();
    struct dtri_stay bar = {0};
    int64_t n = 0, before = 0;
    for (size_t i = info->first_stay; i < info->first_stay + info->n_stays; i++) {
        const struct dtri_stay *stay = &s->stays[i];
        if (stay->end < q->t0 || stay->begin > q->t1)
            continue;
        if (n && (double)stay->begin - (double)bar.end < (double)pixel_ns) {
            bar.end = stay->end;
            n++;
            continue;
        }
        if (n)
            json_array_append_new(bars, json_pack("[I, I, I, I]", bar.begin, bar.end, n, before));
        if (json_array_size(bars) >= DTRI_MAX_BUCKETS) {
            *not_shown += (int64_t)(info->first_stay + info->n_stays - i);
            return bars;
        }
        bar = *stay;
        n = 1;
        before = (int64_t)(i - info->first_stay);
    }
    if (n)
        json_array_append_new(bars, json_pack("[I, I, I, I]", bar.begin, bar.end, n, before));
    return bars;
}

/* Rows until their bars reach the limit of one answer. */
static json_t *rows_of(const struct dtri_query *q, const info_ptr *storages, size_t from, size_t to,
                       int64_t *not_shown)
{
    json_t *rows = json_array();
    size_t n_bars = 0;
    for (size_t i = from; i < to && n_bars < 4 * DTRI_MAX_ITEMS; i++) {
        const struct dtri_storage_info *info = storages[i];
        json_t *bars = bars_of(q, info, not_shown);
        n_bars += json_array_size(bars);
        json_array_append_new(rows,
                              json_pack("{s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "storage", info->id,
                                        "bytes", info->bytes, "remakes", info->remakes, "remake_ns",
                                        info->remake_ns, "before", info->before, "op",
                                        dtri_json_op(q->snapshot, info->op), "bars", bars));
    }
    return rows;
}

dtr_status dtri_api_residency(struct dtri_query *q, json_t **out, dtr_error *error)
{
    const struct dtri_snapshot *s = q->snapshot;
    int64_t offset, limit, not_shown = 0;
    int (*compare)(const void *, const void *) = order_of(q);
    if (!compare)
        return dtri_fail(error, DTR_E_INVALID, 0, "parameter sort is remakes, bytes or created");
    dtr_status status = dtri_query_int(q, "offset", 0, INT32_MAX, 0, &offset, error);
    if (status == DTR_OK)
        status = dtri_query_int(q, "limit", 1, DTRI_MAX_RELATED, 40, &limit, error);
    if (status != DTR_OK)
        return status;
    info_ptr *storages = dtri_malloc((s->n_storages + 1) * sizeof *storages);
    if (!storages)
        return dtri_fail_nomem(error, "an answer");
    size_t n = 0;
    for (size_t i = 0; i < s->n_storages; i++)
        if (s->storages[i].bytes > 0 && resident_in_window(q, &s->storages[i]))
            storages[n++] = &s->storages[i];
    qsort(storages, n, sizeof *storages, compare);
    size_t from = (size_t)offset;
    if (from >= n) /* the window got smaller: its last page, rather than none */
        from = n ? (n - 1) / (size_t)limit * (size_t)limit : 0;
    size_t to = from + (size_t)limit < n ? from + (size_t)limit : n;
    json_t *rows = rows_of(q, storages, from, to, &not_shown);
    dtri_free(storages);
    return dtri_json_result(json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "t0", q->t0, "t1", q->t1,
                                      "total", (json_int_t)n, "offset", (json_int_t)from,
                                      "not_shown", not_shown, "rows", rows),
                            out, error);
}
