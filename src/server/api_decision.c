/* /api/decision: one choice of a victim, its candidates, and what became of the victim. */
#include <string.h>

#include "base/error.h"
#include "server/api.h"

static double real_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static json_t *storage_json(const struct dtri_snapshot *s, int64_t id)
{
    const struct dtri_storage_info *info = dtri_snapshot_storage(s, id);
    return json_pack("{s:I, s:o, s:I}", "storage", id, "op",
                     dtri_json_op(s, info ? info->op : DTR_NONE), "bytes",
                     info ? info->bytes : (int64_t)0);
}

static json_t *candidate_json(const struct dtri_snapshot *s, const int64_t *c)
{
    return json_pack("{s:I, s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "rank",
                     c[DTRI_AT(CANDIDATE, rank)], "storage",
                     storage_json(s, c[DTRI_AT(CANDIDATE, storage)]), "score",
                     dtri_json_real(real_of(c[DTRI_AT(CANDIDATE, score)])), "cost_ns",
                     c[DTRI_AT(CANDIDATE, cost_ns)], "local_cost_ns",
                     c[DTRI_AT(CANDIDATE, local_cost_ns)], "bytes", c[DTRI_AT(CANDIDATE, bytes)],
                     "staleness_ns", dtri_json_id(c[DTRI_AT(CANDIDATE, staleness_ns)]),
                     "neighbours", dtri_json_id(c[DTRI_AT(CANDIDATE, neighbours)]));
}

/* Candidates are emitted with the time of their decision, so one look-up in the store finds them.
 */
static dtr_status candidates_of(const struct dtri_query *q, const int64_t *decision, json_t **out,
                                dtr_error *error)
{
    struct dtri_rows rows = {0};
    int64_t ts = (int64_t)((uint64_t)decision[DTRI_TS] + (uint64_t)q->run.base_ts_ns);
    dtr_status status =
        dtri_store_load(q->file->store, q->run.id, DTR_EVENT_CANDIDATE, ts, ts, &rows, error);
    if (status != DTR_OK)
        return status;
    json_t *list = json_array();
    for (size_t i = 0; i < rows.n && json_array_size(list) < DTRI_MAX_RELATED; i++) {
        const int64_t *c = rows.rows + i * (size_t)rows.n_columns;
        if (c[DTRI_AT(CANDIDATE, decision)] == decision[DTRI_AT(DECISION, decision)])
            json_array_append_new(list, candidate_json(q->snapshot, c));
    }
    dtri_rows_done(&rows);
    *out = list;
    return DTR_OK;
}

/* The first replay of `op` that was emitted after `event`, or NULL. */
static const int64_t *replay_after(const struct dtri_snapshot *s, int64_t op, const int64_t *event)
{
    size_t first, n;
    dtri_index_find(&s->run_by_op, op, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        const int64_t *row = dtri_index_row(&s->run_by_op, i);
        if (row[DTRI_SEQ] > event[DTRI_SEQ] && row[DTRI_AT(OPERATOR_RUN, replay)] == 1)
            return row;
    }
    return NULL;
}

static const int64_t *freed_after(const struct dtri_snapshot *s, int64_t storage,
                                  const int64_t *event)
{
    const struct dtri_rows *rows = &s->of[DTR_EVENT_FREEING];
    for (size_t i = dtri_rows_from(rows, event[DTRI_TS]); i < rows->n; i++) {
        const int64_t *row = dtri_snapshot_row(s, DTR_EVENT_FREEING, i);
        if (row[DTRI_AT(FREEING, storage)] == storage && row[DTRI_SEQ] > event[DTRI_SEQ])
            return row;
    }
    return NULL;
}

static json_t *remade_json(const struct dtri_snapshot *s, const int64_t *evicted,
                           const int64_t *run)
{
    int64_t id = run[DTRI_AT(OPERATOR_RUN, chain)];
    const int64_t *chain = dtri_index_one(&s->chain_by_id, id);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "what", "remade", "t",
                     run[DTRI_TS], "after_ns", run[DTRI_TS] - evicted[DTRI_TS], "execution",
                     run[DTRI_AT(OPERATOR_RUN, execution)], "cost_ns",
                     run[DTRI_AT(OPERATOR_RUN, cost_ns)], "chain", dtri_json_id(id), "chain_runs",
                     chain ? json_integer(chain[DTRI_AT(CHAIN, runs)]) : json_null(),
                     "chain_cost_ns",
                     chain ? json_integer(chain[DTRI_AT(CHAIN, cost_ns)]) : json_null(), "cause",
                     dtri_json_op(s, run[DTRI_AT(OPERATOR_RUN, cause)]));
}

static json_t *fate_json(const struct dtri_snapshot *s, const int64_t *evicted)
{
    int64_t storage = evicted[DTRI_AT(EVICTION, storage)];
    const struct dtri_storage_info *info = dtri_snapshot_storage(s, storage);
    const int64_t *run = info ? replay_after(s, info->op, evicted) : NULL;
    const int64_t *freed = freed_after(s, storage, evicted);
    if (run)
        return remade_json(s, evicted, run);
    if (freed)
        return json_pack("{s:s, s:I, s:I}", "what", "freed", "t", freed[DTRI_TS], "after_ns",
                         freed[DTRI_TS] - evicted[DTRI_TS]);
    return json_pack("{s:s}", "what", "never");
}

/* The decision `by` places away in the order of time, or null. */
static json_t *neighbour(const struct dtri_snapshot *s, const int64_t *decision, ptrdiff_t by)
{
    const struct dtri_rows *rows = &s->of[DTR_EVENT_DECISION];
    ptrdiff_t place = (decision - rows->rows) / rows->n_columns + by;
    if (place < 0 || place >= (ptrdiff_t)rows->n)
        return json_null();
    return json_integer(
        dtri_snapshot_row(s, DTR_EVENT_DECISION, (size_t)place)[DTRI_AT(DECISION, decision)]);
}

dtr_status dtri_api_decision(struct dtri_query *q, json_t **out, dtr_error *error)
{
    const struct dtri_snapshot *s = q->snapshot;
    int64_t id;
    json_t *candidates = NULL;
    dtr_status status = dtri_query_int(q, "decision", 0, INT64_MAX, -1, &id, error);
    if (status != DTR_OK)
        return status;
    const int64_t *d = dtri_index_one(&s->decision_by_id, id);
    if (!d)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0, "there is no decision %lld", (long long)id);
    status = candidates_of(q, d, &candidates, error);
    if (status != DTR_OK)
        return status;
    const int64_t *evicted = dtri_index_one(&s->eviction_by_decision, id);
    return dtri_json_result(
        json_pack("{s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o}",
                  "decision", id, "t", d[DTRI_TS], "victim",
                  storage_json(s, d[DTRI_AT(DECISION, storage)]), "op",
                  dtri_json_op(s, d[DTRI_AT(DECISION, op)]), "needed", d[DTRI_AT(DECISION, needed)],
                  "in_use", d[DTRI_AT(DECISION, in_use)], "budget", d[DTRI_AT(DECISION, budget)],
                  "n_candidates", d[DTRI_AT(DECISION, candidates)], "evaluations",
                  d[DTRI_AT(DECISION, evaluations)], "tied", d[DTRI_AT(DECISION, tied)] == 1,
                  "search_ns", dtri_json_id(d[DTRI_AT(DECISION, search_ns)]), "candidates",
                  candidates, "fate", evicted ? fate_json(s, evicted) : json_null(), "previous",
                  neighbour(s, d, -1), "next", neighbour(s, d, 1)),
        out, error);
}
