/* /api/storage: one storage, the tensors on it, and its stays and evictions. */
#include "base/error.h"
#include "server/api.h"

static json_t *stays_of(const struct dtri_snapshot *s, const struct dtri_storage_info *info)
{
    json_t *list = json_array();
    for (size_t i = 0; i < info->n_stays && i < DTRI_MAX_RELATED; i++) {
        const struct dtri_stay *stay = &s->stays[info->first_stay + i];
        json_array_append_new(list, json_pack("[I, I]", stay->begin, stay->end));
    }
    return list;
}

static json_t *tensors_of(const struct dtri_snapshot *s, int64_t storage)
{
    json_t *list = json_array();
    size_t first, n;
    dtri_index_find(&s->tensor_by_storage, storage, &first, &n);
    for (size_t i = first; i < first + n && i < first + DTRI_MAX_RELATED; i++) {
        const int64_t *t = dtri_index_row(&s->tensor_by_storage, i);
        json_array_append_new(list,
                              json_pack("{s:I, s:o, s:o}", "tensor", t[DTRI_AT(TENSOR, tensor)],
                                        "op", dtri_json_op(s, t[DTRI_AT(TENSOR, op)]), "view_of",
                                        dtri_json_id(t[DTRI_AT(TENSOR, view_of)])));
    }
    return list;
}

static json_t *evictions_of(const struct dtri_snapshot *s, int64_t storage)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->of[DTR_EVENT_EVICTION].n; i++) {
        const int64_t *e = dtri_snapshot_row(s, DTR_EVENT_EVICTION, i);
        if (e[DTRI_AT(EVICTION, storage)] == storage && json_array_size(list) < DTRI_MAX_RELATED)
            json_array_append_new(list, json_pack("{s:I, s:I, s:o}", "t", e[DTRI_TS], "reason",
                                                  e[DTRI_AT(EVICTION, reason)], "decision",
                                                  dtri_json_id(e[DTRI_AT(EVICTION, decision)])));
    }
    return list;
}

dtr_status dtri_api_storage(struct dtri_query *q, json_t **out, dtr_error *error)
{
    int64_t id;
    dtr_status status = dtri_query_int(q, "storage", 0, INT64_MAX, -1, &id, error);
    if (status != DTR_OK)
        return status;
    const struct dtri_storage_info *info = dtri_snapshot_storage(q->snapshot, id);
    if (!info)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0, "there is no storage %lld", (long long)id);
    size_t n = info->n_stays;
    return dtri_json_result(
        json_pack("{s:I, s:I, s:o, s:I, s:I, s:I, s:o, s:I, s:o, s:o}", "storage", id, "bytes",
                  info->bytes, "op", dtri_json_op(q->snapshot, info->op), "created", info->created,
                  "remakes", info->remakes, "remake_ns", info->remake_ns, "stays",
                  stays_of(q->snapshot, info), "stays_not_shown",
                  (json_int_t)(n > DTRI_MAX_RELATED ? n - DTRI_MAX_RELATED : 0), "tensors",
                  tensors_of(q->snapshot, id), "evictions", evictions_of(q->snapshot, id)),
        out, error);
}
