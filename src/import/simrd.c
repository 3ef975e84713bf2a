/* Operator logs: the program as it was logged, without a budget. */
#include "import/context.h"
#include "store/store_run.h"

dtr_status dtri_import_simrd(const char *path, struct dtri_store *store, dtr_error *error)
{
    struct dtri_trace *trace = NULL;
    struct dtri_sim_options options = {.budget_bytes = DTR_NONE, .remat_limit_ns = DTR_NONE};
    struct dtri_sim_result result;
    struct dtri_run run;
    int64_t peak = 0;
    dtr_status status = dtri_trace_read_log(path, &trace, error);
    if (status != DTR_OK)
        return status;
    options.deallocation = DTR_DEALLOCATE_EAGER;
    status = dtri_sim_unlimited_peak(trace, &peak, error);
    if (status == DTR_OK) {
        dtri_run_init(&run, "import");
        dtri_run_set_sim(&run, trace, &options, peak);
        dtri_run_set_text(run.search, "");
        dtri_run_set_text(run.source, path);
        run.has_events = 1;
        status = dtri_store_add_run(store, &run, error);
    }
    if (status == DTR_OK)
        status = dtri_store_record_into(store, &run, trace, &options, &result, error);
    dtri_trace_free(trace);
    return status;
}
