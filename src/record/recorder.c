/* The recorder of one process: a channel of its own, and a collector that feeds one output. */
#include "dtr/recorder.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "record/collector.h"

struct sink {
    struct dtri_producer *producer;
    struct sink *next;
};

struct dtr_recorder {
    dtr_recorder_output output;
    struct dtri_channel *channel;
    struct dtri_collector *collector;
    pthread_mutex_t lock; /* guards `sinks` */
    struct sink *sinks;
    pid_t pid;
    dtr_recorder_stats stats; /* the writer's; read after it ended */
};

/* The sinks share the output, and so its first failure. */
static dtr_status note(dtr_recorder *r, dtr_status status, const dtr_error *error)
{
    if (status != DTR_OK && r->stats.status == DTR_OK) {
        r->stats.status = status;
        memcpy(r->stats.why, error->text, sizeof r->stats.why);
    }
    return r->stats.status;
}

/* --- to the output ---------------------------------------------------------------------------- */

static dtr_status pass_event(void *self, unsigned stream, const dtr_event *event, dtr_error *error)
{
    dtr_recorder *r = self;
    (void)stream;
    return r->stats.status != DTR_OK
               ? r->stats.status
               : note(r, r->output.event(r->output.self, event, error), error);
}

static dtr_status pass_name(void *self, unsigned stream, int64_t id, const char *text,
                            dtr_error *error)
{
    dtr_recorder *r = self;
    (void)stream;
    return r->stats.status != DTR_OK
               ? r->stats.status
               : note(r, r->output.name(r->output.self, id, text, error), error);
}

static dtr_status pass_commit(void *self, unsigned stream, dtr_error *error)
{
    dtr_recorder *r = self;
    (void)stream;
    return r->stats.status != DTR_OK ? r->stats.status
                                     : note(r, r->output.commit(r->output.self, error), error);
}

static dtr_status pass_window(void *self, unsigned stream, const struct dtri_record_window *window,
                              dtr_error *error)
{
    dtr_recorder *r = self;
    dtr_recorder_window told = {
        .id = window->id,
        .begin_ts_ns = window->begin_ts_ns,
        .end_ts_ns = window->end_ts_ns,
        .opened_by = dtri_window_causes[window->opened_by],
        .closed_by = window->closed_by < 0 ? NULL : dtri_window_causes[window->closed_by],
        .skipped = window->skipped,
    };
    (void)stream;
    return r->output.window ? r->output.window(r->output.self, &told, error) : DTR_OK;
}

static dtr_status add_up(void *self, unsigned stream, const struct dtri_stream_end *end,
                         dtr_error *error)
{
    dtr_recorder *r = self;
    (void)stream, (void)error;
    r->stats.events += end->events;
    r->stats.lost_ring += end->lost_ring;
    r->stats.lost_output += end->lost_output;
    r->stats.overwritten += end->overwritten;
    r->stats.late += end->late;
    r->stats.record_ns += end->record_ns;
    return DTR_OK;
}

/* --- life ------------------------------------------------------------------------------------- */

void dtr_recorder_options_init(dtr_recorder_options *options)
{
    *options = (dtr_recorder_options){
        .size = sizeof *options,
        .ring_events = 65536,
        .commit_interval_ns = 1000000000,
        .step_begin = DTR_NONE,
        .step_end = DTR_NONE,
        .keep_events = DTR_NONE,
        .keep_ns = DTR_NONE,
    };
}

static dtr_status check(const dtr_recorder_options *o, dtr_error *error)
{
    int64_t slots = o->ring_events;
    if (o->size != sizeof *o || slots < 64 || slots > 1 << 26 || (slots & (slots - 1)))
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "a ring has room for %lld events; it must be a power of two from 64 to "
                         "67108864",
                         (long long)slots);
    if (o->delay_ns < 0 || o->duration_ns < 0 || o->keep_events == 0 || o->keep_events < DTR_NONE ||
        o->keep_ns < DTR_NONE)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "a recorder cannot have a negative delay, duration or age, or keep no "
                         "event");
    return DTR_OK;
}

static dtr_status start(dtr_recorder *r, const dtr_recorder_options *options, dtr_error *error)
{
    struct dtri_channel_options channel = {
        .ring_events = options->ring_events,
        .drop = options->drop_when_full,
        .steps = {options->step_begin, options->step_end},
    };
    dtr_status status = dtri_channel_create(&channel, &r->channel, error);
    struct dtri_collector_options collector = {
        .channel = r->channel,
        .output = {.self = r,
                   .event = pass_event,
                   .name = pass_name,
                   .commit = pass_commit,
                   .window = pass_window,
                   .closed = add_up},
        .commit_interval_ns = options->commit_interval_ns,
        .delay_ns = options->delay_ns,
        .duration_ns = options->duration_ns,
        .keep_events = options->keep_events,
        .keep_ns = options->keep_ns,
    };
    return status == DTR_OK ? dtri_collector_start(&collector, &r->collector, error) : status;
}

dtr_status dtr_recorder_open(const dtr_recorder_options *options, const dtr_recorder_output *output,
                             dtr_recorder **out_recorder, dtr_error *error)
{
    dtr_status status = check(options, error);
    if (status != DTR_OK)
        return status;
    dtr_recorder *r = dtri_calloc(1, sizeof *r);
    if (!r)
        return dtri_fail_nomem(error, "the recorder");
    r->output = *output;
    r->pid = getpid();
    pthread_mutex_init(&r->lock, NULL);
    status = start(r, options, error);
    if (status != DTR_OK) {
        dtri_channel_free(r->channel);
        pthread_mutex_destroy(&r->lock);
        dtri_free(r);
        return status;
    }
    *out_recorder = r;
    return DTR_OK;
}

static dtr_status add_sink(dtr_recorder *r, int64_t reorder_ns, dtr_sink *out_sink,
                           dtr_error *error)
{
    if (r->pid != getpid())
        return dtri_fail(error, DTR_E_STATE, 0,
                         "a child of fork cannot record with its parent's recorder; open another");
    struct sink *sink = dtri_calloc(1, sizeof *sink);
    if (!sink)
        return dtri_fail_nomem(error, "a ring of events");
    dtr_status status = dtri_channel_producer(r->channel, reorder_ns, &sink->producer, error);
    if (status != DTR_OK) {
        dtri_free(sink);
        return status;
    }
    pthread_mutex_lock(&r->lock);
    sink->next = r->sinks;
    r->sinks = sink;
    pthread_mutex_unlock(&r->lock);
    *out_sink = dtri_producer_sink(sink->producer);
    return DTR_OK;
}

dtr_status dtr_recorder_sink(dtr_recorder *r, dtr_sink *out_sink, dtr_error *error)
{
    return add_sink(r, 0, out_sink, error);
}

dtr_status dtr_recorder_late_sink(dtr_recorder *r, int64_t window_ns, dtr_sink *out_sink,
                                  dtr_error *error)
{
    if (window_ns < 1 || window_ns > DTRI_RING_MAX_REORDER_NS)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "a sink cannot be %lld ns late; 1 ns to 60 s are possible",
                         (long long)window_ns);
    return add_sink(r, window_ns, out_sink, error);
}

/* In a child of fork the lock may be taken for ever, and there are no other threads. */
static void lock(dtr_recorder *r)
{
    if (r->pid == getpid())
        pthread_mutex_lock(&r->lock);
}

static void unlock(dtr_recorder *r)
{
    if (r->pid == getpid())
        pthread_mutex_unlock(&r->lock);
}

void dtr_recorder_sink_done(dtr_recorder *r, dtr_sink *out_sink)
{
    lock(r);
    struct sink **link = &r->sinks, *sink;
    while (*link && (*link)->producer != out_sink->self)
        link = &(*link)->next;
    sink = *link;
    if (sink)
        *link = sink->next;
    unlock(r);
    *out_sink = (dtr_sink){0};
    if (!sink)
        return;
    dtri_producer_close(sink->producer);
    bool drained = r->pid == getpid() && dtri_producer_wait(sink->producer);
    dtri_channel_release(r->channel, sink->producer, drained);
    dtri_free(sink);
}

void dtr_recorder_pause(dtr_recorder *r, bool pause)
{
    lock(r);
    for (struct sink *sink = r->sinks; sink; sink = sink->next)
        dtri_producer_pause(sink->producer, pause);
    unlock(r);
}

void dtr_recorder_dump(dtr_recorder *r)
{
    dtri_collector_dump(r->collector, DTRI_WINDOW_PROGRAM);
}

void dtr_recorder_close(dtr_recorder *r, dtr_recorder_stats *out_stats)
{
    if (!r)
        return;
    for (struct sink *sink = r->sinks; sink; sink = sink->next)
        dtri_producer_close(sink->producer);
    if (r->pid == getpid()) { /* in a child after fork there is no such thread */
        dtri_collector_stop(r->collector);
        pthread_mutex_destroy(&r->lock);
    }
    while (r->sinks) {
        struct sink *sink = r->sinks;
        r->sinks = sink->next;
        dtri_channel_release(r->channel, sink->producer, false);
        dtri_free(sink);
    }
    dtri_channel_free(r->channel);
    if (out_stats)
        *out_stats = r->stats;
    dtri_free(r);
}
