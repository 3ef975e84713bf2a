/* Opening a session: settings, selector, where events go, runtime; closing it: results.
 *
 * The file is written by a collector: that of `dtrscope record`, when DTR_CHANNEL tells where it
 * listens, or one of the session's own. */
#include "dtr/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "session/collect.h"
#include "session/filename.h"
#include "session/own.h"
#include "session/settings.h"
#include "session/stacks.h"
#include "store/store_run.h"

#define N_SETTINGS 32

struct dtr_session {
    dtr_runtime *runtime;
    dtr_backend backend;
    struct dtri_channel *channel;
    struct dtri_own *own; /* NULL under `dtrscope record`; else the channel is of it */
    struct dtri_producer *producer;
    struct dtri_stacks *stacks;
    struct dtri_message_run message;
    dtr_sink sink;
    int64_t begin_ns;
    int stack_depth;
    pid_t pid;
    dtr_status result;
    char why[DTRI_RUN_TEXT];
};

/* Where each setting's value came from. */
struct origin {
    const char *text;
    const char *origin;
};

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
        {"output", options->record}, {"remat-limit", options->remat_limit},
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
    int64_t limit_ns, ratio;
    return dtri_parse_remat_limit(settings->remat_limit, &limit_ns, &ratio, error);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void describe_run(dtr_session *s, const dtr_session_options *options,
                         const struct dtri_settings *settings, const dtr_selector *selector)
{
    struct dtri_run *run = &s->message.run;
    dtri_run_init(run, "live");
    dtri_run_set_text(run->program, options->program);
    dtri_run_set_text(run->deallocation, dtri_settings_policies[settings->deallocation]);
    if (settings->budget.kind == DTRI_BUDGET_BYTES) {
        run->budget_bytes = settings->budget.bytes;
        dtri_run_set_text(run->heuristic, dtr_selector_heuristic(selector));
        dtri_run_set_text(run->search, dtr_selector_search(selector));
    }
    run->seed = settings->seed;
    int64_t limit_ns, ratio;
    dtri_parse_remat_limit(settings->remat_limit, &limit_ns, &ratio, NULL);
    run->remat_limit_ns = limit_ns == DTR_NONE ? DTRI_NULL : limit_ns;
    run->base_ts_ns = s->begin_ns;
    run->has_events = 1;
    run->pid = getpid();
    run->rank = dtri_launcher_rank();
    if (run->rank == DTR_NONE)
        run->rank = DTRI_NULL;
    gethostname(run->host, sizeof run->host - 1);
}

/* --- where events go -------------------------------------------------------------------------- */

static void send_clock(dtr_session *s)
{
    int64_t values[3];
    dtri_clock_pair(&values[0], &values[1], &values[2]);
    dtri_producer_message(s->producer, DTRI_MESSAGE_CLOCK, values, sizeof values);
}

static void send_setting(dtr_session *s, const char *name, const struct origin *origin)
{
    char data[2048];
    int n =
        snprintf(data, sizeof data, "%s%c%.1024s%c%s", name, 0, origin->text, 0, origin->origin);
    dtri_producer_message(s->producer, DTRI_MESSAGE_SETTING, data, (size_t)n + 1);
}

static void send_header(dtr_session *s, const struct origin *origins)
{
    int64_t clock, wall, uncertainty;
    dtri_clock_pair(&clock, &wall, &uncertainty);
    s->message.run.unix_offset_ns = wall - clock;
    s->message.run.unix_uncertainty_ns = uncertainty;
    dtri_producer_message(s->producer, DTRI_MESSAGE_RUN, &s->message, sizeof s->message);
    dtri_producer_message(s->producer, DTRI_MESSAGE_CLOCK, (int64_t[]){clock, wall, uncertainty},
                          3 * sizeof(int64_t));
    for (int i = 0; dtri_settings_table[i].name; i++)
        send_setting(s, dtri_settings_table[i].name, &origins[i]);
}

/* A collector in this process. */
static dtr_status own_collector(dtr_session *s, const struct dtri_settings *settings,
                                dtr_error *error)
{
    dtr_status status = dtri_own_open(s->message.path, settings, &s->own, error);
    if (status == DTR_OK)
        s->channel = dtri_own_channel(s->own);
    return status;
}

/* The collector may be in another directory. */
static void make_absolute(char path[DTRI_COLLECT_PATH])
{
    char whole[DTRI_COLLECT_PATH];
    size_t length = strlen(path);
    if (path[0] == '/' || !getcwd(whole, sizeof whole))
        return;
    size_t used = strlen(whole);
    if (used + 1 + length >= sizeof whole)
        return;
    whole[used] = '/';
    memcpy(whole + used + 1, path, length + 1);
    memcpy(path, whole, used + length + 2);
}

static dtr_status open_stacks(dtr_session *s, const dtr_session_options *options, int depth,
                              dtr_error *error)
{
    const struct dtri_stack_source source = {options->stack, options->describe,
                                             options->stack_self};
    dtr_status status =
        dtri_stacks_new(&s->sink, depth, options->stack ? &source : NULL, &s->stacks, error);
    if (status != DTR_OK)
        return status;
    s->stack_depth = depth;
    s->sink = dtri_stacks_sink(s->stacks);
    return DTR_OK;
}

static dtr_status open_recorder(dtr_session *s, const dtr_session_options *options,
                                const struct dtri_settings *settings, const struct origin *origins,
                                dtr_error *error)
{
    const char *channel = getenv("DTR_CHANNEL");
    dtr_error not_there;
    dtr_status status = DTR_E_IO;
    if (channel && channel[0])
        status = dtri_channel_attach(channel, &s->channel, &not_there);
    if (status == DTR_E_IO) /* nobody listens there */
        status = own_collector(s, settings, error);
    else if (status != DTR_OK)
        return dtri_fail(error, status, 0, "DTR_CHANNEL: %.400s", not_there.text);
    else
        make_absolute(s->message.path);
    if (status == DTR_OK)
        status = dtri_channel_producer(s->channel, 0, &s->producer, error);
    if (status != DTR_OK)
        return status;
    send_header(s, origins);
    s->sink = dtri_producer_sink(s->producer);
    return settings->stacks ? open_stacks(s, options, (int)settings->stacks, error) : DTR_OK;
}

static dtr_status open_runtime(dtr_session *s, const struct dtri_settings *settings,
                               dtr_selector *selector, dtr_error *error)
{
    dtr_runtime_options runtime;
    dtr_runtime_options_init(&runtime);
    runtime.backend = &s->backend;
    runtime.sink = s->producer ? &s->sink : NULL;
    runtime.selector = selector;
    if (settings->budget.kind == DTRI_BUDGET_BYTES)
        runtime.budget_bytes = settings->budget.bytes;
    dtri_parse_remat_limit(settings->remat_limit, &runtime.remat_limit_ns, &runtime.remat_ratio,
                           NULL);
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
    if (settings.clock == 1 && !dtri_clock_use_tsc())
        status = dtri_fail(error, DTR_E_INVALID, 0,
                           "DTR_CLOCK: the counter of this processor does not run evenly; leave it "
                           "monotonic");
    s->begin_ns = dtri_clock_ns();
    describe_run(s, options, &settings, selector);
    if (status == DTR_OK && settings.record[0])
        status =
            dtri_filename_expand(settings.record, s->message.path, sizeof s->message.path, error);
    if (status == DTR_OK && settings.record[0])
        status = open_recorder(s, options, &settings, origins, error);
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
    s->pid = getpid();
    dtr_status status = open_parts(s, options, error);
    if (status != DTR_OK) {
        dtr_session_set_result(s, status, error ? error->text : NULL);
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

int dtr_session_stack_depth(const dtr_session *session)
{
    return session->stack_depth;
}

void dtr_session_pause(dtr_session *s, bool pause)
{
    if (s->producer)
        dtri_producer_pause(s->producer, pause);
}

void dtr_session_dump(dtr_session *s)
{
    if (s->producer)
        dtri_producer_dump(s->producer, DTRI_WINDOW_PROGRAM);
}

void dtr_session_set_result(dtr_session *s, dtr_status result, const char *why)
{
    s->result = result;
    dtri_run_set_text(s->why, why);
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

static void collect_results(dtr_session *s)
{
    struct dtri_run *run = &s->message.run;
    run->wall_ns = dtri_clock_ns() - s->begin_ns;
    run->record_ns = 0;
    dtri_run_set_text(run->result, result_name(s->result));
    dtri_run_set_text(run->why, s->why);
    if (s->runtime) {
        dtr_stats stats;
        dtr_runtime_stats(s->runtime, &stats);
        dtri_run_set_stats(run, &stats);
        run->search_ns = stats.search_ns;
        run->record_ns = stats.describe_ns;
    }
    if (s->backend.memory) {
        int64_t in_use;
        s->backend.memory(s->backend.self, &in_use, &run->allocator_peak_bytes);
    }
}

/* What the collector answered to the closed ring. */
static dtr_status read_answer(dtr_session *s, dtr_recorder_stats *out, dtr_error *error)
{
    struct dtri_ring *ring = dtri_producer_ring(s->producer);
    out->events = ring->events;
    out->lost_ring = (int64_t)atomic_load(&ring->dropped);
    out->lost_output = ring->lost_output;
    out->record_ns = atomic_load(&ring->record_ns);
    out->status = (dtr_status)ring->status;
    snprintf(out->why, sizeof out->why, "%.*s", DTRI_RING_WHY, ring->why);
    if (out->status == DTR_OK)
        return DTR_OK;
    return dtri_fail(error, out->status, 0, "%lld events were not recorded: %.240s",
                     (long long)out->lost_output, out->why);
}

/* Says how the run ended and waits until that is in the file. */
static dtr_status end_recording(dtr_session *s, dtr_recorder_stats *out, dtr_error *error)
{
    collect_results(s);
    if (s->result == DTR_E_THRASHED)
        dtri_producer_dump(s->producer, DTRI_WINDOW_THRASH);
    send_clock(s);
    dtri_producer_message(s->producer, DTRI_MESSAGE_RESULT, &s->message.run, sizeof s->message.run);
    dtri_producer_close(s->producer);
    bool answered = dtri_producer_wait(s->producer);
    dtr_status status =
        answered ? read_answer(s, out, error)
                 : dtri_fail(error, DTR_E_IO, 0,
                             "`dtrscope record`, which was writing %s, is gone; the end of the run "
                             "is not recorded",
                             s->message.path);
    dtri_channel_release(s->channel, s->producer, answered);
    s->producer = NULL;
    return status;
}

static dtr_status close_recorder(dtr_session *s, dtr_recorder_stats *out, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (s->producer && s->pid == getpid())
        status = end_recording(s, out, error);
    else if (s->producer) /* a child: threads and files are the parent's */
        dtri_channel_release(s->channel, s->producer, false);
    if (!s->own)
        dtri_channel_free(s->channel);
    dtr_status closed = dtri_own_close(s->own, status == DTR_OK ? error : NULL);
    return status == DTR_OK ? closed : status;
}

dtr_status dtr_session_stop_recording(dtr_session *s, dtr_recorder_stats *out_stats,
                                      dtr_error *error)
{
    dtr_recorder_stats recorded = {0};
    if (s->runtime && s->result == DTR_OK)
        dtr_mark_emit(s->runtime, DTR_MARK_END, DTR_NONE, DTR_NONE);
    dtr_status status = close_recorder(s, &recorded, error);
    if (s->runtime)
        dtr_runtime_stop_recording(s->runtime);
    s->own = NULL;
    s->channel = NULL;
    if (out_stats)
        *out_stats = recorded;
    return status;
}

dtr_status dtr_session_close(dtr_session *s, dtr_recorder_stats *out_stats, dtr_error *error)
{
    if (!s)
        return DTR_OK;
    dtr_status status = dtr_session_stop_recording(s, out_stats, error);
    dtr_runtime_free(s->runtime);
    dtri_stacks_free(s->stacks);
    dtri_free(s);
    return status;
}
