/* Opening a session: settings, selector, recorder, runtime; closing it: results.
 *
 * The recorder's writer thread owns the database from opening to closing; the session writes the
 * run's row before the thread starts and after it ended. */
#include "dtr/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "session/settings.h"
#include "store/store_run.h"

#define N_SETTINGS 10

struct dtr_session {
    dtr_runtime *runtime;
    dtr_backend backend;
    dtr_recorder *recorder;
    struct dtri_store *store;
    struct dtri_store_output output;
    struct dtri_run run;
    dtr_sink sink;
    int64_t begin_ns;
    dtr_status result;
    char why[DTRI_RUN_TEXT];
};

/* Where each setting's value came from. */
struct origin {
    const char *text;
    const char *origin;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void dtr_session_options_init(dtr_session_options *options)
{
    *options = (dtr_session_options){.size = sizeof *options};
}

/* --- settings --------------------------------------------------------------------------------- */

static const char *program_choice(const dtr_session_options *options, const char *name)
{
    const struct {
        const char *name, *value;
    } choices[] = {
        {"budget", options->budget}, {"heuristic", options->heuristic},
        {"search", options->search}, {"policy", options->deallocation},
        {"output", options->record},
    };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        if (strcmp(choices[i].name, name) == 0)
            return choices[i].value;
    return NULL;
}

static dtr_status read_settings(const dtr_session_options *options, struct dtri_settings *settings,
                                struct origin *origins, dtr_error *error)
{
    for (int i = 0; dtri_settings_table[i].name; i++) {
        const struct dtri_option *row = &dtri_settings_table[i];
        const char *chosen = program_choice(options, row->name);
        const char *set = getenv(row->environment);
        origins[i] = (struct origin){dtri_settings_defaults[i], "default"};
        if (chosen)
            origins[i] = (struct origin){chosen, "program"};
        if (set && set[0])
            origins[i] = (struct origin){set, "environment"};
        dtr_error why = {0};
        dtr_status status = dtri_option_set(row, settings, origins[i].text, &why);
        if (status != DTR_OK)
            return dtri_fail(error, status, 0, "%s: %.400s",
                             strcmp(origins[i].origin, "environment") == 0
                                 ? row->environment
                                 : "the program's settings",
                             why.text);
    }
    if (settings->budget.kind > DTRI_BUDGET_BYTES)
        return dtri_fail(
            error, DTR_E_INVALID, 0,
            "DTR_BUDGET: a live run has no unlimited peak to take a share of; give bytes, "
            "or record without a budget first and look at its peak");
    return DTR_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static void describe_run(dtr_session *s, const dtr_session_options *options,
                         const struct dtri_settings *settings, const dtr_selector *selector)
{
    struct dtri_run *run = &s->run;
    dtri_run_init(run, "live");
    dtri_run_set_text(run->program, options->program);
    dtri_run_set_text(run->deallocation, dtri_settings_policies[settings->deallocation]);
    if (settings->budget.kind == DTRI_BUDGET_BYTES) {
        run->budget_bytes = settings->budget.bytes;
        dtri_run_set_text(run->heuristic, dtr_selector_heuristic(selector));
        dtri_run_set_text(run->search, dtr_selector_search(selector));
    }
    run->seed = settings->seed;
    run->remat_limit_ns = settings->remat_limit_ns ? settings->remat_limit_ns : DTRI_NULL;
    run->base_ts_ns = s->begin_ns;
    run->has_events = 1;
}

static dtr_status write_header(dtr_session *s, const struct origin *origins, dtr_error *error)
{
    dtr_status status = dtri_store_add_run(s->store, &s->run, error);
    for (int i = 0; dtri_settings_table[i].name && status == DTR_OK; i++)
        status = dtri_store_add_setting(s->store, s->run.id, dtri_settings_table[i].name,
                                        origins[i].text, origins[i].origin, error);
    if (status == DTR_OK)
        status = dtri_store_add_clock_sample(s->store, s->run.id, clock_ns(CLOCK_MONOTONIC),
                                             clock_ns(CLOCK_REALTIME), DTRI_NULL, error);
    return status == DTR_OK ? dtri_store_commit(s->store, error) : status;
}

static dtr_status open_recorder(dtr_session *s, const struct dtri_settings *settings,
                                const struct origin *origins, dtr_error *error)
{
    dtr_recorder_options recorder;
    dtr_recorder_options_init(&recorder);
    recorder.ring_events = settings->ring_events;
    recorder.drop_when_full = settings->ring_full == 1;
    /* A further session adds its run to the file of the first. */
    dtr_status status = access(settings->record, F_OK) == 0
                            ? dtri_store_open(settings->record, DTRI_STORE_WRITE, &s->store, error)
                            : dtri_store_create(settings->record, false, &s->store, error);
    if (status == DTR_OK)
        status = write_header(s, origins, error);
    s->output = (struct dtri_store_output){.store = s->store, .run = s->run.id};
    if (status == DTR_OK)
        status = dtri_store_writer_new(s->store, s->run.id, &s->output.writer, error);
    if (status != DTR_OK)
        return status;
    dtr_recorder_output output = dtri_store_output(&s->output);
    status = dtr_recorder_open(&recorder, &output, &s->recorder, error);
    return status == DTR_OK ? dtr_recorder_sink(s->recorder, &s->sink, error) : status;
}

static dtr_status open_runtime(dtr_session *s, const struct dtri_settings *settings,
                               dtr_selector *selector, dtr_error *error)
{
    dtr_runtime_options runtime;
    dtr_runtime_options_init(&runtime);
    runtime.backend = &s->backend;
    runtime.sink = s->recorder ? &s->sink : NULL;
    runtime.selector = selector;
    if (settings->budget.kind == DTRI_BUDGET_BYTES)
        runtime.budget_bytes = settings->budget.bytes;
    if (settings->remat_limit_ns)
        runtime.remat_limit_ns = settings->remat_limit_ns;
    runtime.deallocation = (dtr_deallocation)settings->deallocation;
    runtime.allow_overshoot = settings->overshoot;
    runtime.reclaim = true;
    return dtr_runtime_new(&runtime, &s->runtime, error);
}

static dtr_status open_parts(dtr_session *s, const dtr_session_options *options, dtr_error *error)
{
    struct dtri_settings settings;
    struct origin origins[N_SETTINGS];
    dtr_selector *selector = NULL;
    memset(&settings, 0, sizeof settings);
    dtr_status status = read_settings(options, &settings, origins, error);
    if (status != DTR_OK)
        return status;
    dtr_selector_options choice = {
        .heuristic = settings.heuristic,
        .search = settings.search ? dtri_settings_searches[settings.search] : NULL,
        .seed = (uint64_t)settings.seed,
    };
    status = dtr_selector_new(&choice, &selector, error);
    if (status != DTR_OK)
        return status;
    describe_run(s, options, &settings, selector);
    if (settings.record[0])
        status = open_recorder(s, &settings, origins, error);
    if (status != DTR_OK) {
        dtr_selector_free(selector);
        return status;
    }
    return open_runtime(s, &settings, selector, error);
}

dtr_status dtr_session_open(const dtr_session_options *options, dtr_session **out_session,
                            dtr_error *error)
{
    if (options->size != sizeof *options || !options->backend)
        return dtri_fail(
            error, DTR_E_INVALID, 0,
            "a session needs options set up by dtr_session_options_init, and a backend");
    dtr_session *s = dtri_calloc(1, sizeof *s);
    if (!s)
        return dtri_fail_nomem(error, "a session");
    s->backend = *options->backend;
    s->begin_ns = clock_ns(CLOCK_MONOTONIC);
    dtr_status status = open_parts(s, options, error);
    if (status != DTR_OK) {
        s->result = status;
        dtr_session_close(s, NULL, NULL);
        return status;
    }
    *out_session = s;
    return DTR_OK;
}

dtr_runtime *dtr_session_runtime(dtr_session *session)
{
    return session->runtime;
}

void dtr_session_set_result(dtr_session *s, dtr_status result, const char *why)
{
    s->result = result;
    snprintf(s->why, sizeof s->why, "%s", why ? why : "");
}

/* --- closing ---------------------------------------------------------------------------------- */

static const char *result_name(dtr_status result)
{
    switch (result) {
    case DTR_OK:
        return "ok";
    case DTR_E_OUT_OF_MEMORY:
        return "out_of_memory";
    case DTR_E_THRASHED:
        return "thrashed";
    default:
        return "failed";
    }
}

static void collect_results(dtr_session *s, const dtr_recorder_stats *recorded)
{
    struct dtri_run *run = &s->run;
    run->wall_ns = clock_ns(CLOCK_MONOTONIC) - s->begin_ns;
    run->record_ns = recorded->record_ns;
    dtri_run_set_text(run->result, result_name(s->result));
    dtri_run_set_text(run->why, s->why);
    if (s->runtime) {
        dtr_stats stats;
        dtr_runtime_stats(s->runtime, &stats);
        dtri_run_set_stats(run, &stats);
        run->search_ns = stats.search_ns;
        run->record_ns += stats.describe_ns;
    }
    if (s->backend.memory) {
        int64_t in_use;
        s->backend.memory(s->backend.self, &in_use, &run->allocator_peak_bytes);
    }
}

static dtr_status write_losses(dtr_session *s, const dtr_recorder_stats *recorded, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (recorded->lost_ring)
        status = dtri_store_add_loss(s->store, s->run.id, "ring full", recorded->lost_ring, error);
    if (recorded->lost_output && status == DTR_OK)
        status = dtri_store_add_loss(
            s->store, s->run.id,
            recorded->status == DTR_E_FULL ? "disk full" : "the file could not be written",
            recorded->lost_output, error);
    return status;
}

static dtr_status finish_file(dtr_session *s, const dtr_recorder_stats *recorded, dtr_error *error)
{
    if (!s->store || !s->run.id)
        return dtri_store_close(s->store, error);
    collect_results(s, recorded);
    dtr_status status = dtri_store_update_run(s->store, &s->run, error);
    if (status == DTR_OK)
        status = write_losses(s, recorded, error);
    if (status == DTR_OK)
        status = dtri_store_add_clock_sample(s->store, s->run.id, clock_ns(CLOCK_MONOTONIC),
                                             clock_ns(CLOCK_REALTIME), DTRI_NULL, error);
    dtr_status closed = dtri_store_close(s->store, status == DTR_OK ? error : NULL);
    if (recorded->status != DTR_OK)
        return dtri_fail(error, recorded->status, 0, "%lld events were not recorded: %.400s",
                         (long long)recorded->lost_output, recorded->why);
    return status == DTR_OK ? closed : status;
}

dtr_status dtr_session_close(dtr_session *s, dtr_recorder_stats *out_stats, dtr_error *error)
{
    dtr_recorder_stats recorded = {0};
    if (!s)
        return DTR_OK;
    if (s->runtime && s->result == DTR_OK)
        dtr_mark_emit(s->runtime, DTR_MARK_END, DTR_NONE, DTR_NONE);
    dtr_recorder_close(s->recorder, &recorded);
    dtri_store_writer_free(s->output.writer);
    dtr_status status = finish_file(s, &recorded, error);
    dtr_runtime_free(s->runtime);
    dtri_free(s);
    if (out_stats)
        *out_stats = recorded;
    return status;
}
