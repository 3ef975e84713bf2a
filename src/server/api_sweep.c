/* /api/sweep: every simulated result of a file, for slowdown against budget. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "server/api.h"

#define MAX_POINTS 20000

static json_t *point(const struct dtri_run *r)
{
    char hash[24];
    snprintf(hash, sizeof hash, "%lld", (long long)r->trace_hash);
    return json_pack(
        "{s:I, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "run", r->id,
        "trace", dtri_json_text(r->trace), "trace_hash", hash, "heuristic",
        dtri_json_text(r->heuristic), "deallocation", dtri_json_text(r->deallocation), "result",
        dtri_json_text(r->result), "budget_bytes", dtri_json_int(r->budget_bytes),
        "unlimited_peak_bytes", dtri_json_int(r->unlimited_peak_bytes), "budget_share",
        dtri_json_real(r->budget_share), "peak_bytes", dtri_json_int(r->peak_bytes), "slowdown",
        dtri_json_real(r->slowdown), "evictions", dtri_json_int(r->evictions), "rematerializations",
        dtri_json_int(r->rematerializations), "has_events", r->has_events == 1);
}

dtr_status dtri_api_sweep(struct dtri_query *q, json_t **out, dtr_error *error)
{
    struct dtri_run *runs;
    int n;
    int64_t not_shown = 0;
    dtr_status status = dtri_store_runs(q->file->store, &runs, &n, error);
    if (status != DTR_OK)
        return status;
    json_t *points = json_array();
    for (int i = 0; i < n; i++) {
        if (strcmp(runs[i].kind, "sim") != 0 || runs[i].budget_bytes == DTRI_NULL)
            continue;
        if (json_array_size(points) < MAX_POINTS)
            json_array_append_new(points, point(&runs[i]));
        else
            not_shown++;
    }
    dtri_free(runs);
    return dtri_json_result(json_pack("{s:o, s:I}", "points", points, "not_shown", not_shown), out,
                            error);
}
