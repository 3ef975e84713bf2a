/* /api/execution: one operator run, its operator, and the chain it belongs to. */
#include "base/error.h"
#include "server/api.h"

static json_t *run_json(const struct dtri_snapshot *s, const int64_t *r)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:o, s:I}", "execution",
        r[DTRI_AT(OPERATOR_RUN, execution)], "op", r[DTRI_AT(OPERATOR_RUN, op)], "t", r[DTRI_TS],
        "dur_ns", r[DTRI_AT(OPERATOR_RUN, dur_ns)], "cost_ns", r[DTRI_AT(OPERATOR_RUN, cost_ns)],
        "replay", r[DTRI_AT(OPERATOR_RUN, replay)] == 1, "depth", r[DTRI_AT(OPERATOR_RUN, depth)],
        "name", dtri_json_text(dtri_snapshot_name(s, r[DTRI_AT(OPERATOR_RUN, name)])), "target",
        r[DTRI_AT(OPERATOR_RUN, target)]);
}

static json_t *tensor_json(const struct dtri_snapshot *s, int64_t id)
{
    const int64_t *t = dtri_index_one(&s->tensor_by_id, id);
    const struct dtri_storage_info *info =
        t ? dtri_snapshot_storage(s, t[DTRI_AT(TENSOR, storage)]) : NULL;
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:b}", "tensor", id, "storage",
                     info ? json_integer(info->id) : json_null(), "bytes",
                     info ? json_integer(info->bytes) : json_null(), "op",
                     dtri_json_op(s, t ? t[DTRI_AT(TENSOR, op)] : DTR_NONE), "view_of",
                     t ? dtri_json_id(t[DTRI_AT(TENSOR, view_of)]) : json_null(), "constant",
                     t && t[DTRI_AT(TENSOR, constant)] == 1);
}

static json_t *run_by_execution(const struct dtri_snapshot *s, int64_t execution)
{
    const int64_t *row = dtri_index_one(&s->run_by_id, execution);
    return row ? run_json(s, row) : json_null();
}

/* What `describe` makes of one column of the rows with `value`, at most DTRI_MAX_RELATED;
 * *not_shown (if not NULL) is how many more there are. */
static json_t *related(const struct dtri_snapshot *s, const struct dtri_index *index, int64_t value,
                       int column, json_t *(*describe)(const struct dtri_snapshot *, int64_t),
                       json_int_t *not_shown)
{
    json_t *list = json_array();
    size_t first, n;
    dtri_index_find(index, value, &first, &n);
    for (size_t i = first; i < first + n && i < first + DTRI_MAX_RELATED; i++)
        json_array_append_new(list, describe(s, dtri_index_row(index, i)[column]));
    if (not_shown)
        *not_shown = n > DTRI_MAX_RELATED ? (json_int_t)n - DTRI_MAX_RELATED : 0;
    return list;
}

static json_t *chain_json(const struct dtri_snapshot *s, int64_t id)
{
    const int64_t *c = id == DTR_NONE ? NULL : dtri_index_one(&s->chain_by_id, id);
    if (!c)
        return json_null();
    json_int_t not_shown;
    json_t *executions = related(s, &s->run_by_chain, id, DTRI_AT(OPERATOR_RUN, execution),
                                 run_by_execution, &not_shown);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I}", "chain", id, "t",
                     c[DTRI_TS], "dur_ns", c[DTRI_AT(CHAIN, dur_ns)], "runs",
                     c[DTRI_AT(CHAIN, runs)], "cost_ns", c[DTRI_AT(CHAIN, cost_ns)], "max_depth",
                     c[DTRI_AT(CHAIN, max_depth)], "tensor",
                     tensor_json(s, c[DTRI_AT(CHAIN, tensor)]), "cause",
                     dtri_json_op(s, c[DTRI_AT(CHAIN, cause)]), "executions", executions,
                     "not_shown", not_shown);
}

dtr_status dtri_api_execution(struct dtri_query *q, json_t **out, dtr_error *error)
{
    const struct dtri_snapshot *s = q->snapshot;
    int64_t id;
    dtr_status status = dtri_query_int(q, "execution", 0, INT64_MAX, -1, &id, error);
    if (status != DTR_OK)
        return status;
    const int64_t *r = dtri_index_one(&s->run_by_id, id);
    if (!r)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0, "there is no operator run %lld", (long long)id);
    int64_t op = r[DTRI_AT(OPERATOR_RUN, op)];
    json_int_t not_shown;
    json_t *all = related(s, &s->run_by_op, op, DTRI_AT(OPERATOR_RUN, execution), run_by_execution,
                          &not_shown);
    return dtri_json_result(
        json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:I}", "execution", run_json(s, r), "in_use",
                  r[DTRI_AT(OPERATOR_RUN, in_use)], "cause",
                  dtri_json_op(s, r[DTRI_AT(OPERATOR_RUN, cause)]), "inputs",
                  related(s, &s->operand_by_op, op, DTRI_AT(OPERAND, tensor), tensor_json, NULL),
                  "outputs",
                  related(s, &s->tensor_by_op, op, DTRI_AT(TENSOR, tensor), tensor_json, NULL),
                  "chain", chain_json(s, r[DTRI_AT(OPERATOR_RUN, chain)]), "all_executions", all,
                  "all_executions_not_shown", not_shown),
        out, error);
}
