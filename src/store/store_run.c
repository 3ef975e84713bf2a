#include "store/store_run.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

static dtr_status output_event(void *self, const dtr_event *event, dtr_error *error)
{
    struct dtri_store_output *output = self;
    return dtri_store_writer_add(output->writer, event, error);
}

static dtr_status output_name(void *self, int64_t id, const char *text, dtr_error *error)
{
    struct dtri_store_output *output = self;
    return dtri_store_add_name(output->store, output->run, id, text, error);
}

static dtr_status output_commit(void *self, dtr_error *error)
{
    struct dtri_store_output *output = self;
    dtr_status status = dtri_store_writer_flush(output->writer, error);
    return status == DTR_OK ? dtri_store_commit(output->store, error) : status;
}

dtr_recorder_output dtri_store_output(struct dtri_store_output *output)
{
    return (dtr_recorder_output){
        .self = output,
        .event = output_event,
        .name = output_name,
        .commit = output_commit,
    };
}

void dtri_run_set_stats(struct dtri_run *run, const dtr_stats *stats)
{
    int64_t model = stats->model_compute_ns, remat = stats->remat_compute_ns;
    run->clock_ns = stats->clock_ns;
    run->model_compute_ns = model;
    run->remat_compute_ns = remat;
    run->peak_bytes = stats->peak_bytes;
    run->constant_bytes = stats->constant_bytes;
    run->evictions = stats->evictions;
    run->eager_evictions = stats->eager_evictions;
    run->rematerializations = stats->rematerializations;
    run->score_evaluations = stats->score_evaluations;
    run->operator_runs = stats->operator_runs;
    run->overshoots = stats->overshoots;
    run->slowdown = model > 0 ? (double)(model + remat) / (double)model : 1.0;
}

void dtri_run_set_sim(struct dtri_run *run, const struct dtri_trace *trace,
                      const struct dtri_sim_options *options, int64_t unlimited_peak)
{
    static const char *const policies[] = {"eager", "ignore", "banish"};
    dtri_run_set_text(run->trace, trace->source);
    dtri_run_set_text(run->heuristic, options->heuristic);
    dtri_run_set_text(run->search, options->search ? options->search : "index");
    dtri_run_set_text(run->deallocation, policies[options->deallocation]);
    run->trace_hash = (int64_t)trace->hash;
    run->seed = (int64_t)options->seed;
    run->no_release = options->no_release;
    run->budget_bytes = options->budget_bytes == DTR_NONE ? DTRI_NULL : options->budget_bytes;
    run->remat_limit_ns = options->remat_limit_ns == DTR_NONE ? DTRI_NULL : options->remat_limit_ns;
    run->unlimited_peak_bytes = unlimited_peak;
}

void dtri_run_set_sim_result(struct dtri_run *run, const struct dtri_sim_result *result)
{
    dtri_run_set_stats(run, &result->stats);
    dtri_run_set_text(run->result, dtri_outcome_name(result->outcome));
    dtri_run_set_text(run->why, result->why);
}

/* --- a simulation with its events ------------------------------------------------------------- */

/* Events of a simulation go straight into the writer: there is no program to keep from waiting. */
struct direct {
    struct dtri_store_output output;
    dtr_status status;
    dtr_error error;
};

static void direct_emit(void *self, const dtr_event *event)
{
    struct direct *direct = self;
    if (direct->status == DTR_OK)
        direct->status = output_event(&direct->output, event, &direct->error);
}

static void direct_name(void *self, int64_t id, const char *text)
{
    struct direct *direct = self;
    if (direct->status == DTR_OK)
        direct->status = output_name(&direct->output, id, text, &direct->error);
}

dtr_status dtri_store_record_into(struct dtri_store *store, struct dtri_run *run,
                                  const struct dtri_trace *trace,
                                  const struct dtri_sim_options *options,
                                  struct dtri_sim_result *out_result, dtr_error *error)
{
    struct direct direct = {.output = {.store = store, .run = run->id}};
    struct dtri_sim_options recorded = *options;
    dtr_sink sink = {.self = &direct, .emit = direct_emit, .name = direct_name};
    dtr_status status = dtri_store_writer_new(store, run->id, &direct.output.writer, error);
    if (status != DTR_OK)
        return status;
    recorded.sink = &sink;
    status = dtri_sim_run(trace, &recorded, out_result, error);
    if (status == DTR_OK && direct.status != DTR_OK) {
        *error = direct.error;
        status = direct.status;
    }
    if (status == DTR_OK)
        status = dtri_store_writer_flush(direct.output.writer, error);
    dtri_store_writer_free(direct.output.writer);
    if (status == DTR_OK) {
        dtri_run_set_sim_result(run, out_result);
        status = dtri_store_update_run(store, run, error);
    }
    return status;
}

dtr_status dtri_store_record_sim(const char *path, bool force, const struct dtri_trace *trace,
                                 const struct dtri_sim_options *options, int64_t unlimited_peak,
                                 struct dtri_sim_result *out_result, dtr_error *error)
{
    struct dtri_store *store;
    struct dtri_run run;
    dtr_status status = dtri_store_create(path, force, &store, error);
    if (status != DTR_OK)
        return status;
    dtri_run_init(&run, "sim");
    dtri_run_set_sim(&run, trace, options, unlimited_peak);
    run.has_events = 1;
    status = dtri_store_add_run(store, &run, error);
    if (status == DTR_OK)
        status = dtri_store_record_into(store, &run, trace, options, out_result, error);
    dtr_error close_error = {0};
    dtr_status closed = dtri_store_close(store, &close_error);
    if (status == DTR_OK && closed != DTR_OK && error)
        *error = close_error;
    return status == DTR_OK ? closed : status;
}
