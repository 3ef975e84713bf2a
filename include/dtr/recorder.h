/* The recorder: takes events from runtimes on any threads into one database.
 *
 * Each sink has a ring of its own, written by the thread that uses the runtime and drained by one
 * writer thread, which packs events and commits them at least once a second.  Emitting takes no
 * lock and allocates nothing.  What is committed survives a kill.  A full ring either makes the
 * program wait (the default) or drops events; events that are lost, for that or for a full disk,
 * are counted and the count is in the file.  After a fork the child records nothing. */
#ifndef DTR_RECORDER_H
#define DTR_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/event.h"
#include "dtr/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dtr_recorder dtr_recorder;

/* Where a recorder puts events.  All calls come from the writer thread; a failure is remembered and
 * what follows is counted as lost. */
typedef struct dtr_recorder_output {
    void *self;
    dtr_status (*event)(void *self, const dtr_event *event, dtr_error *error);
    dtr_status (*name)(void *self, int64_t id, const char *text, dtr_error *error);
    dtr_status (*commit)(void *self, dtr_error *error);
} dtr_recorder_output;

typedef struct dtr_recorder_options {
    size_t size;                /* set by dtr_recorder_options_init */
    int64_t ring_events;        /* slots of one ring, a power of two; default 65536 */
    bool drop_when_full;        /* rather than wait */
    int64_t commit_interval_ns; /* default 1 s */
} dtr_recorder_options;

typedef struct dtr_recorder_stats {
    int64_t events;      /* handed to the output */
    int64_t lost_ring;   /* dropped because a ring was full */
    int64_t lost_output; /* lost because the output failed */
    int64_t record_ns;   /* on the programs' threads, estimated from a sample of the events */
    dtr_status status;   /* DTR_OK, or why the output failed */
    char why[DTR_ERROR_TEXT_BYTES];
} dtr_recorder_stats;

DTR_API void dtr_recorder_options_init(dtr_recorder_options *options);
/* Starts the writer thread.  `output` is copied; what it points to is borrowed until close. */
DTR_API dtr_status dtr_recorder_open(const dtr_recorder_options *options,
                                     const dtr_recorder_output *output, dtr_recorder **out_recorder,
                                     dtr_error *error);
/* A sink for one runtime; any thread may ask for one.  It lives until the recorder is closed. */
DTR_API dtr_status dtr_recorder_sink(dtr_recorder *recorder, dtr_sink *out_sink, dtr_error *error);
/* Drains all rings, commits, ends the thread and frees.  No sink may be used any more.  Accepts
 * NULL.  *out_stats (optional) are the final counts. */
DTR_API void dtr_recorder_close(dtr_recorder *recorder, dtr_recorder_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
