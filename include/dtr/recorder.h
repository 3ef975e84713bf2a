/* The recorder: takes events from runtimes on any threads into one output.
 *
 * Each sink has a ring of its own, written by the thread that uses the runtime and drained by one
 * writer thread.  Emitting takes no lock, allocates nothing and makes no system call.  A full ring
 * either makes the program wait (the default) or drops events; what is lost, for that or because
 * the output failed, is counted.  After a fork the child records nothing, and may close what it
 * inherited without harm to the parent's.
 *
 * Recording can be shut and opened again: between windows, only what says what things are (storage,
 * tensor, operator, operand, pin, budget, frame, origin) and names are recorded. */
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

/* A part of the run that was recorded: all events that were emitted in it, of which spans may have
 * begun before.  Told when it opens (end_ts_ns INT64_MIN, closed_by NULL)
 * and again, with the same id, when it closes.  Causes: start, end, program, signal, delay,
 * duration, step, dump, out of memory, thrash, killed. */
typedef struct dtr_recorder_window {
    int64_t id; /* 0, 1, ... of one sink */
    int64_t begin_ts_ns, end_ts_ns;
    const char *opened_by, *closed_by;
    int64_t skipped; /* events left out on purpose before it, and after the last one behind it */
} dtr_recorder_window;

/* Where a recorder puts events.  All calls come from the writer thread; a failure is remembered and
 * what follows is counted as lost, with what was not committed yet.  `window` may be NULL. */
typedef struct dtr_recorder_output {
    void *self;
    dtr_status (*event)(void *self, const dtr_event *event, dtr_error *error);
    dtr_status (*name)(void *self, int64_t id, const char *text, dtr_error *error);
    dtr_status (*commit)(void *self, dtr_error *error);
    dtr_status (*window)(void *self, const dtr_recorder_window *window, dtr_error *error);
} dtr_recorder_output;

typedef struct dtr_recorder_options {
    size_t size;                  /* set by dtr_recorder_options_init */
    int64_t ring_events;          /* room of one ring, at 64 bytes an event; default 65536 */
    bool drop_when_full;          /* rather than wait */
    int64_t commit_interval_ns;   /* default 1 s */
    int64_t delay_ns;             /* the first window opens so long after the start */
    int64_t duration_ns;          /* and closes so long after it could open; 0: never */
    int64_t step_begin, step_end; /* only iterations begin <= mark < end; DTR_NONE: all */
    int64_t keep_events, keep_ns; /* flight recorder: keep only the newest until a dump, at most so
                                     many and so old; DTR_NONE: no such limit, both: everything */
} dtr_recorder_options;

typedef struct dtr_recorder_stats {
    int64_t events;      /* handed to the output and committed */
    int64_t lost_ring;   /* dropped because a ring was full */
    int64_t lost_output; /* lost because the output failed */
    int64_t overwritten; /* by newer ones, in a flight recorder */
    int64_t late;        /* recorded, but later than their sink's window */
    int64_t record_ns;   /* on the programs' threads, estimated from a sample of the events */
    dtr_status status;   /* DTR_OK, or why the output failed */
    char why[DTR_ERROR_TEXT_BYTES];
} dtr_recorder_stats;

DTR_API void dtr_recorder_options_init(dtr_recorder_options *options);
/* Starts the writer thread.  `output` is copied; what it points to is borrowed until close. */
DTR_API dtr_status dtr_recorder_open(const dtr_recorder_options *options,
                                     const dtr_recorder_output *output, dtr_recorder **out_recorder,
                                     dtr_error *error);
/* A sink for one runtime; any thread may ask for one.  It lives until it is given back or the
 * recorder is closed.  DTR_E_LIMIT when 1024 are open. */
DTR_API dtr_status dtr_recorder_sink(dtr_recorder *recorder, dtr_sink *out_sink, dtr_error *error);
/* A sink whose events come late and out of order, as the records of a device do: they are put in
 * order of time as far as `window_ns` (at most 60 s) reaches back; what comes later still is
 * recorded as it comes, and counted.  At most 65536 events wait. */
DTR_API dtr_status dtr_recorder_late_sink(dtr_recorder *recorder, int64_t window_ns,
                                          dtr_sink *out_sink, dtr_error *error);
/* Gives a sink back, for threads that come and go: what it emitted is recorded, and its ring goes
 * to the next.  Waits until it is drained. */
DTR_API void dtr_recorder_sink_done(dtr_recorder *recorder, dtr_sink *sink);
/* Shuts recording for all sinks, or opens it again; any thread. */
DTR_API void dtr_recorder_pause(dtr_recorder *recorder, bool pause);
/* Has the events that a flight recorder keeps written, soon.  May be called from a signal handler.
 */
DTR_API void dtr_recorder_dump(dtr_recorder *recorder);
/* Drains all rings, commits, ends the thread and frees.  No sink may be used any more.  Accepts
 * NULL.  *out_stats (optional) are the final counts. */
DTR_API void dtr_recorder_close(dtr_recorder *recorder, dtr_recorder_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
