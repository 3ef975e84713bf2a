/* Collecting: one thread drains all rings of a channel into an output, commits it at an interval,
 * runs the timers of recording windows, and keeps the newest events only where that is asked for.
 */
#ifndef DTRI_RECORD_COLLECTOR_H
#define DTRI_RECORD_COLLECTOR_H

#include "record/channel.h"

/* What became of one stream: the events of one sink, in one ring. */
struct dtri_stream_end {
    int64_t events;      /* handed to the output, and committed */
    int64_t lost_ring;   /* found the ring full */
    int64_t lost_output; /* the output failed */
    int64_t overwritten; /* by newer ones, where only the newest are kept */
    int64_t late;        /* came after younger ones had been handed over; they are in the file */
    int64_t record_ns;   /* on the program's thread, estimated */
    bool died;           /* the program ended without closing its sink */
    bool damaged;        /* the ring held nonsense; how much was lost is not known */
    dtr_status status;   /* DTR_OK, or why the output failed */
    char why[DTRI_RING_WHY];
};

/* All calls come from the collector's thread.  `stream` numbers the ring; after `closed` the number
 * may come again for another sink.  After a failure nothing but `message`, which may still say how
 * the run ended, and `closed` is called for the stream.
 * Any but `event` and `commit` may be NULL. */
struct dtri_collector_output {
    void *self;
    dtr_status (*event)(void *self, unsigned stream, const dtr_event *event, dtr_error *error);
    dtr_status (*name)(void *self, unsigned stream, int64_t id, const char *text, dtr_error *error);
    dtr_status (*message)(void *self, unsigned stream, int64_t type, const void *data, size_t size,
                          dtr_error *error);
    dtr_status (*window)(void *self, unsigned stream, const struct dtri_record_window *window,
                         dtr_error *error);
    dtr_status (*commit)(void *self, unsigned stream, dtr_error *error);
    /* Everything came.  What it returns is what the program hears when it closes its sink. */
    dtr_status (*closed)(void *self, unsigned stream, const struct dtri_stream_end *end,
                         dtr_error *error);
};

struct dtri_collector_options {
    struct dtri_channel *channel; /* borrowed */
    struct dtri_collector_output output;
    int64_t commit_interval_ns;
    int64_t delay_ns;             /* recording begins so long after the start; 0: at once */
    int64_t duration_ns;          /* and ends so long after it began; 0: never */
    int64_t keep_events, keep_ns; /* keep only the newest until a dump; DTR_NONE: all */
};

struct dtri_collector;
/* Starts the thread; it blocks all signals. */
dtr_status dtri_collector_start(const struct dtri_collector_options *options,
                                struct dtri_collector **out_collector, dtr_error *error);
/* Has the newest events written, with `cause`.  Both may be called from a signal handler. */
void dtri_collector_dump(struct dtri_collector *collector, int cause);
/* Recording off, or on again. */
void dtri_collector_toggle(struct dtri_collector *collector);
/* Drains what is there, closes all streams, ends the thread and frees.  Accepts NULL. */
void dtri_collector_stop(struct dtri_collector *collector);

#endif
