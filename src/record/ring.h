/* A ring of records between one producer and one collector, perhaps in another process.
 *
 * A record is a run of 64-bit words that never wraps: a header `kind | words << 16`, then for an
 * event ts_ns, seq and its fields.  The producer owns `head`, the collector `tail`, each on its own
 * cache line.  Nothing in the shared part is a pointer, and the collector takes every length with
 * suspicion, since the producer may be a program that is going wrong. */
#ifndef DTRI_RECORD_RING_H
#define DTRI_RECORD_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "dtr/event.h"

enum dtri_record_kind { /* beside the kinds of events, which are below 64 */
                        DTRI_RECORD_NAME = 0x100, /* id, bytes, text */
                        DTRI_RECORD_MESSAGE, /* type, bytes, data: to the output, which knows the
                                                types */
                        DTRI_RECORD_WINDOW,  /* struct dtri_record_window */
                        DTRI_RECORD_DUMP, /* the program wants the flight recorder's events written
                                           */
                        DTRI_RECORD_PAD,  /* nothing, up to the end of the ring */
};

/* A recording window as the producer saw it; sent when it opens and again when it closes. */
struct dtri_record_window {
    int64_t id, begin_ts_ns, end_ts_ns; /* end: INT64_MIN while open */
    int64_t opened_by, closed_by;       /* enum dtri_window_cause; closed_by -1 while open */
    int64_t skipped;
};

enum dtri_window_cause {
    DTRI_WINDOW_START, /* of the run */
    DTRI_WINDOW_END,
    DTRI_WINDOW_PROGRAM,
    DTRI_WINDOW_SIGNAL,
    DTRI_WINDOW_DELAY,
    DTRI_WINDOW_DURATION,
    DTRI_WINDOW_STEP,
    DTRI_WINDOW_DUMP,
    DTRI_WINDOW_OUT_OF_MEMORY,
    DTRI_WINDOW_THRASH,
    DTRI_WINDOW_KILLED,
};
extern const char *const dtri_window_causes[]; /* their names in the file */

/* Why recording is off for all producers of a channel. */
enum dtri_gate { DTRI_GATE_SIGNAL = 1, DTRI_GATE_DELAY = 2, DTRI_GATE_DURATION = 4 };

enum dtri_ring_state {
    DTRI_RING_FREE,
    DTRI_RING_TAKEN, /* being set up */
    DTRI_RING_OPEN,
    DTRI_RING_CLOSED,
    DTRI_RING_DONE,
};

#define DTRI_RING_WHY 240

struct dtri_ring {                           /* shared */
    _Alignas(64) atomic_uint_least64_t head; /* words written */
    atomic_uint_least64_t dropped;           /* events that found no room */
    atomic_int_least64_t record_ns;          /* what emitting took the program, estimated */
    _Alignas(64) atomic_uint_least64_t tail; /* words read */
    _Alignas(64) atomic_uint state;          /* enum dtri_ring_state */
    int32_t pid;                             /* of the producer */
    int64_t reorder_ns;                      /* events come so late, out of order; 0: in order */
    /* The collector's answer, valid in state DONE. */
    int64_t events, lost_output;
    int32_t status;
    char why[DTRI_RING_WHY];
};

/* Words of the ring that one event needs at most, and that are always free where one begins. */
#define DTRI_RING_SLACK (4 + DTR_EVENT_MAX_FIELDS)
/* Of a name's or message's data.  A longer name is cut. */
#define DTRI_RING_MAX_BYTES      16384
#define DTRI_RING_MIN_WORDS      8192
#define DTRI_RING_MAX_REORDER_NS INT64_C(60000000000)

/* Only events between step marks begin <= value < end are recorded; begin DTR_NONE: all. */
struct dtri_steps {
    int64_t begin, end;
};

struct dtri_producer; /* private to the process that emits */

struct dtri_producer_options {
    struct dtri_ring *ring;
    uint64_t *words;
    uint64_t n_words; /* a power of two */
    const atomic_uint *gate;
    const atomic_uint *collector_gone; /* nobody drains any more */
    pid_t collector;                   /* asked for when a wait gets long */
    int lock;  /* a file that the collector has locked while it lives, or -1: ask for its pid */
    bool drop; /* when full, rather than wait */
    struct dtri_steps steps;
};

dtr_status dtri_producer_new(const struct dtri_producer_options *options,
                             struct dtri_producer **out_producer, dtr_error *error);
/* The events and names of one runtime, from the thread that uses it. */
dtr_sink dtri_producer_sink(struct dtri_producer *producer);
/* Also from the producer's thread; waits for room.  At most DTRI_RING_MAX_BYTES. */
void dtri_producer_message(struct dtri_producer *producer, int64_t type, const void *data,
                           size_t size);
/* Has the newest events written, where only these are kept. */
void dtri_producer_dump(struct dtri_producer *producer, enum dtri_window_cause cause);
/* Recording off and on; any thread. */
void dtri_producer_pause(struct dtri_producer *producer, bool pause);
/* No more will come: ends the windows and marks the ring CLOSED. */
void dtri_producer_close(struct dtri_producer *producer);
/* Waits until the collector has dealt with the closed ring; false when there is none any more. */
bool dtri_producer_wait(struct dtri_producer *producer);
struct dtri_ring *dtri_producer_ring(const struct dtri_producer *producer);
void dtri_producer_free(struct dtri_producer *producer); /* accepts NULL */
/* In a child of fork, where the producer does nothing any more. */
bool dtri_producer_is_foreign(const struct dtri_producer *producer);

/* --- the collector's side --------------------------------------------------------------------- */

/* Once before dtri_record_event; a producer does it too. */
void dtri_ring_prepare(void);

struct dtri_ring_reader {
    struct dtri_ring *ring;
    const uint64_t *words;
    uint64_t n_words;
    bool damaged; /* a record made no sense; what came after it is skipped */
};

/* The next record before `head`: its kind and words after the header, or NULL when there is none.
 * It stays until dtri_ring_advance is called with *out_words. */
const uint64_t *dtri_ring_peek(struct dtri_ring_reader *reader, uint64_t tail, uint64_t head,
                               unsigned *out_kind, uint64_t *out_words);
/* An event from a record's words; false when it is none. */
bool dtri_record_event(unsigned kind, const uint64_t *words, uint64_t n, dtr_event *out_event);
/* When an event was emitted: a span has the time of its begin, and comes at its end. */
int64_t dtri_record_moment(const dtr_event *event);
/* The data of a name or message; NULL when its length is wrong. */
const char *dtri_record_data(const uint64_t *words, uint64_t n, int64_t *out_id, size_t *out_size);

#endif
