#include "record/collector.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "record/flight.h"
#include "record/reorder.h"
#include "record/guard.h"

#define NAP_MIN_NS     200000 /* while all rings are empty */
#define NAP_MAX_NS     3200000
#define TAIL_WORDS     8192 /* a waiting producer may go on after so many */
#define TURN_WORDS     262144
#define NO_DUMP        (-1)
#define REORDER_EVENTS 65536
/* When only an age is given, so that memory is bounded all the same. */
#define KEEP_EVENTS_MAX (INT64_C(1) << 22)

struct stream {
    struct dtri_ring_reader reader;
    struct dtri_flight *flight;
    struct dtri_reorder *reorder;
    struct dtri_stream_end end;
    int64_t uncommitted, n_dumps;
    struct dtri_record_window told,
        dumped;      /* of a flight recorder: the program's, the last dump's */
    int64_t skipped; /* left out on purpose since that dump */
    bool mapped, open, dirty;
};

struct dtri_collector {
    struct dtri_collector_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    atomic_int dump;
    int64_t start_ns, committed_ns;
    unsigned n_streams;
    struct stream streams[DTRI_CHANNEL_RINGS];
};

/* --- to the output ---------------------------------------------------------------------------- */

/* Remembers the first failure.  What was not committed is not in the file. */
static void note(struct stream *s, dtr_status status, const dtr_error *error)
{
    if (status == DTR_OK || s->end.status != DTR_OK)
        return;
    s->end.status = status;
    snprintf(s->end.why, sizeof s->end.why, "%.*s", DTRI_RING_WHY - 1, error->text);
    s->end.lost_output += s->uncommitted;
    s->uncommitted = 0;
}

static void hand_over(struct dtri_collector *c, struct stream *s, const dtr_event *event)
{
    const struct dtri_collector_output *out = &c->options.output;
    dtr_error error = {0};
    s->uncommitted++;
    s->dirty = true;
    if (s->end.status == DTR_OK)
        note(s, out->event(out->self, (unsigned)(s - c->streams), event, &error), &error);
    if (s->end.status != DTR_OK) {
        s->end.lost_output += s->uncommitted;
        s->uncommitted = 0;
    }
}

static void commit(struct dtri_collector *c, struct stream *s)
{
    const struct dtri_collector_output *out = &c->options.output;
    dtr_error error = {0};
    if (s->dirty && s->end.status == DTR_OK)
        note(s, out->commit(out->self, (unsigned)(s - c->streams), &error), &error);
    s->dirty = false;
    if (s->end.status == DTR_OK)
        s->end.events += s->uncommitted;
    else
        s->end.lost_output += s->uncommitted;
    s->uncommitted = 0;
}

static void send_window(struct dtri_collector *c, struct stream *s,
                        const struct dtri_record_window *window)
{
    const struct dtri_collector_output *out = &c->options.output;
    dtr_error error = {0};
    s->dirty = true;
    if (out->window && s->end.status == DTR_OK)
        note(s, out->window(out->self, (unsigned)(s - c->streams), window, &error), &error);
}

/* --- the newest events ------------------------------------------------------------------------ */

static void dump(struct dtri_collector *c, struct stream *s, int cause)
{
    struct dtri_record_window window = {.id = s->n_dumps,
                                        .end_ts_ns = INT64_MIN,
                                        .begin_ts_ns = INT64_MAX,
                                        .opened_by = DTRI_WINDOW_DUMP,
                                        .closed_by = cause,
                                        .skipped = s->skipped};
    dtr_event event;
    if (!s->flight)
        return;
    while (dtri_flight_pop(s->flight, &event)) {
        int64_t at = dtri_record_moment(&event);
        window.begin_ts_ns = at < window.begin_ts_ns ? at : window.begin_ts_ns;
        window.end_ts_ns = at > window.end_ts_ns ? at : window.end_ts_ns;
        hand_over(c, s, &event);
    }
    s->end.overwritten = dtri_flight_overwritten(s->flight);
    if (window.end_ts_ns == INT64_MIN)
        return;
    s->n_dumps++;
    s->skipped = 0;
    s->dumped = window;
    send_window(c, s, &window);
}

/* In a flight recorder windows are dumps; what the program's own ones left out is told with these.
 */
static void add_skipped(struct stream *s, const struct dtri_record_window *window)
{
    bool again = window->id == s->told.id;
    int64_t more = window->skipped;
    if (again && __builtin_sub_overflow(more, s->told.skipped, &more))
        more = 0;
    if (more > 0 && __builtin_add_overflow(s->skipped, more, &s->skipped))
        s->skipped = INT64_MAX;
    s->told = *window;
}

/* And what was left out after the last one, behind it. */
static void dump_the_rest(struct dtri_collector *c, struct stream *s, int cause)
{
    dump(c, s, cause);
    if (!s->flight || !s->skipped)
        return;
    if (!s->n_dumps)
        s->dumped = (struct dtri_record_window){
            0, s->told.begin_ts_ns, s->told.begin_ts_ns, DTRI_WINDOW_DUMP, cause, 0};
    if (__builtin_add_overflow(s->dumped.skipped, s->skipped, &s->dumped.skipped))
        s->dumped.skipped = INT64_MAX;
    send_window(c, s, &s->dumped);
}

static void keep(struct dtri_collector *c, struct stream *s, const dtr_event *event)
{
    if (!dtri_flight_push(s->flight, event))
        s->end.lost_ring++;
    if (event->kind == DTR_EVENT_OUT_OF_MEMORY)
        dump(c, s, DTRI_WINDOW_OUT_OF_MEMORY);
}

static void accept(struct dtri_collector *c, struct stream *s, const dtr_event *event)
{
    if (s->flight)
        keep(c, s, event);
    else
        hand_over(c, s, event);
}

/* --- events that come late ----------------------------------------------------------------------
 */

static void let_go(struct dtri_collector *c, struct stream *s)
{
    dtr_event event;
    bool late;
    while (dtri_reorder_pop(s->reorder, &event, &late))
        accept(c, s, &event);
}

static void wait_its_turn(struct dtri_collector *c, struct stream *s, const dtr_event *event)
{
    dtri_reorder_push(s->reorder, event); /* there is room: what was ready went */
    let_go(c, s);
}

static void end_waiting(struct dtri_collector *c, struct stream *s)
{
    if (!s->reorder)
        return;
    dtri_reorder_end(s->reorder);
    let_go(c, s);
    s->end.late = dtri_reorder_late(s->reorder);
    dtri_reorder_free(s->reorder);
    s->reorder = NULL;
}

/* --- from the rings --------------------------------------------------------------------------- */

/* A copy, since the program may still change what is in the ring. */
static bool take_data(struct dtri_collector *c, struct stream *s, unsigned kind,
                      const uint64_t *words, uint64_t n)
{
    const struct dtri_collector_output *out = &c->options.output;
    unsigned stream = (unsigned)(s - c->streams);
    char copy[DTRI_RING_MAX_BYTES + 1];
    dtr_error error = {0};
    dtr_status status = DTR_OK;
    int64_t id;
    size_t size;
    const char *data = dtri_record_data(words, n, &id, &size);
    if (!data)
        return false;
    memcpy(copy, data, size);
    copy[size] = 0;
    s->dirty = true;
    if (kind == DTRI_RECORD_NAME && out->name && s->end.status == DTR_OK)
        status = out->name(out->self, stream, id, copy, &error);
    else if (kind == DTRI_RECORD_MESSAGE && out->message)
        status = out->message(out->self, stream, id, copy, size, &error);
    note(s, status, &error);
    return true;
}

static bool take_window(struct dtri_collector *c, struct stream *s, const uint64_t *words,
                        uint64_t n)
{
    struct dtri_record_window window;
    if (n != 1 + sizeof window / 8)
        return false;
    memcpy(&window, words, sizeof window);
    if (window.opened_by < 0 || window.opened_by > DTRI_WINDOW_KILLED || window.closed_by < -1 ||
        window.closed_by > DTRI_WINDOW_KILLED)
        return false;
    if (s->flight)
        add_skipped(s, &window);
    else
        send_window(c, s, &window);
    return true;
}

static bool take_dump(struct dtri_collector *c, struct stream *s, const uint64_t *words, uint64_t n)
{
    uint64_t cause = DTRI_WINDOW_KILLED + 1;
    if (n == 2)
        memcpy(&cause, words, sizeof cause);
    if (cause > DTRI_WINDOW_KILLED)
        return false;
    dump(c, s, (int)cause);
    return true;
}

static bool take(struct dtri_collector *c, struct stream *s, unsigned kind, const uint64_t *words,
                 uint64_t n)
{
    dtr_event event;
    switch (kind) {
    case DTRI_RECORD_PAD:
        return true;
    case DTRI_RECORD_NAME:
    case DTRI_RECORD_MESSAGE:
        return take_data(c, s, kind, words, n);
    case DTRI_RECORD_WINDOW:
        return take_window(c, s, words, n);
    case DTRI_RECORD_DUMP:
        return take_dump(c, s, words, n);
    default:
        if (!dtri_record_event(kind, words, n, &event))
            return false;
        if (s->reorder)
            wait_its_turn(c, s, &event);
        else
            accept(c, s, &event);
        return true;
    }
}

/* Takes what is in a ring, up to `most` words. */
static uint64_t drain(struct dtri_collector *c, struct stream *s, uint64_t most)
{
    struct dtri_ring *ring = s->reader.ring;
    uint64_t begin = atomic_load_explicit(&ring->tail, memory_order_relaxed), tail = begin, n;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire), told = tail;
    const uint64_t *words;
    unsigned kind;
    while (tail - begin < most && (words = dtri_ring_peek(&s->reader, tail, head, &kind, &n))) {
        if (!take(c, s, kind, words, n)) {
            s->reader.damaged = true;
            break;
        }
        tail += n;
        if (tail - told >= TAIL_WORDS) {
            atomic_store_explicit(&ring->tail, tail, memory_order_release);
            told = tail;
        }
    }
    if (s->reader.damaged) {
        s->end.damaged = true;
        tail = head;
    }
    atomic_store_explicit(&ring->tail, tail, memory_order_release);
    return tail - begin;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void open_stream(struct dtri_collector *c, struct stream *s)
{
    const struct dtri_collector_options *o = &c->options;
    dtr_error error = {0};
    s->end = (struct dtri_stream_end){0};
    s->uncommitted = s->n_dumps = s->skipped = 0;
    s->told = (struct dtri_record_window){.id = -1};
    s->open = true;
    s->reader.damaged = false;
    int64_t reorder_ns = s->reader.ring->reorder_ns;
    if (reorder_ns > 0 && reorder_ns <= DTRI_RING_MAX_REORDER_NS)
        note(s, dtri_reorder_new(reorder_ns, REORDER_EVENTS, &s->reorder, &error), &error);
    if (o->keep_events == DTR_NONE && o->keep_ns == DTR_NONE)
        return;
    note(s,
         dtri_flight_new(o->keep_events == DTR_NONE ? KEEP_EVENTS_MAX : o->keep_events, o->keep_ns,
                         &s->flight, &error),
         &error);
}

/* A count of the program's, which is 0 and damage if it cannot be. */
static int64_t sane(struct stream *s, int64_t count)
{
    if (count >= 0 && count <= INT64_MAX / 4)
        return count;
    s->end.damaged = true;
    return 0;
}

/* The program's side is over: what is left is written, and the output told. */
static void finish(struct dtri_collector *c, struct stream *s, bool died)
{
    const struct dtri_collector_output *out = &c->options.output;
    struct dtri_ring *ring = s->reader.ring;
    dtr_error error = {0};
    drain(c, s, UINT64_MAX);
    end_waiting(c, s);
    dump_the_rest(c, s, died ? DTRI_WINDOW_KILLED : DTRI_WINDOW_END);
    commit(c, s);
    dtri_flight_free(s->flight);
    s->flight = NULL;
    s->open = false;
    s->end.died = died;
    s->end.lost_ring += sane(s, (int64_t)atomic_load(&ring->dropped));
    s->end.record_ns = sane(s, atomic_load(&ring->record_ns));
    dtr_status status = s->end.status;
    if (out->closed)
        status = out->closed(out->self, (unsigned)(s - c->streams), &s->end, &error);
    ring->events = s->end.events;
    ring->lost_output = s->end.lost_output;
    ring->status = s->end.status != DTR_OK ? s->end.status : status;
    snprintf(ring->why, sizeof ring->why, "%.*s", DTRI_RING_WHY - 1,
             s->end.status != DTR_OK ? s->end.why : error.text);
    if (died)
        dtri_channel_give_back(c->options.channel, ring);
    else
        atomic_store_explicit(&ring->state, DTRI_RING_DONE, memory_order_release);
}

static void find_streams(struct dtri_collector *c)
{
    unsigned n = atomic_load_explicit(&c->options.channel->header->n_rings, memory_order_acquire);
    dtr_error error;
    for (; c->n_streams < n && c->n_streams < DTRI_CHANNEL_RINGS; c->n_streams++) {
        struct stream *s = &c->streams[c->n_streams];
        if (dtri_channel_map(c->options.channel, c->n_streams, &s->reader, &error) != DTR_OK)
            return; /* tried again the next time */
        s->mapped = true;
    }
}

static uint64_t look_at(struct dtri_collector *c, struct stream *s, uint64_t most)
{
    unsigned state = atomic_load_explicit(&s->reader.ring->state, memory_order_acquire);
    if (state != DTRI_RING_OPEN && state != DTRI_RING_CLOSED)
        return 0;
    if (!s->open)
        open_stream(c, s);
    uint64_t n = drain(c, s, most);
    if (state == DTRI_RING_CLOSED && n < most) {
        finish(c, s, false);
        n++;
    }
    return n;
}

static bool is_dead(pid_t pid)
{
    return pid != getpid() && kill(pid, 0) != 0 && errno == ESRCH;
}

/* Once an interval: commit, and see which programs ended without a word. */
static void tend(struct dtri_collector *c)
{
    for (unsigned i = 0; i < c->n_streams; i++) {
        struct stream *s = &c->streams[i];
        if (!s->open)
            continue;
        commit(c, s);
        if (is_dead(s->reader.ring->pid))
            finish(c, s, true);
    }
}

static void run_timers(struct dtri_collector *c, int64_t now)
{
    atomic_uint *gate = &c->options.channel->header->gate;
    int64_t begin = c->start_ns + c->options.delay_ns;
    if (c->options.delay_ns && now >= begin)
        atomic_fetch_and(gate, ~(unsigned)DTRI_GATE_DELAY);
    if (c->options.duration_ns && now >= begin + c->options.duration_ns)
        atomic_fetch_or(gate, DTRI_GATE_DURATION);
}

static void run_dump(struct dtri_collector *c)
{
    int cause = atomic_exchange(&c->dump, NO_DUMP);
    if (cause == NO_DUMP)
        return;
    for (unsigned i = 0; i < c->n_streams; i++)
        if (c->streams[i].open) {
            drain(c, &c->streams[i], UINT64_MAX);
            dump(c, &c->streams[i], cause);
            commit(c, &c->streams[i]);
        }
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Waits for the end, or a nap; true when it is time to end. */
static bool rest(struct dtri_collector *c, int64_t nap_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + nap_ns;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&c->lock);
    if (!c->stop && nap_ns)
        pthread_cond_timedwait(&c->wake, &c->lock, &until);
    bool stop = c->stop;
    pthread_mutex_unlock(&c->lock);
    return stop;
}

static void *collect(void *self)
{
    struct dtri_collector *c = self;
    int64_t nap = NAP_MIN_NS;
    for (bool stop = false; !stop;) {
        uint64_t n = 0;
        dtri_guard_enter();
        find_streams(c);
        for (unsigned i = 0; i < c->n_streams; i++)
            n += look_at(c, &c->streams[i], TURN_WORDS);
        int64_t now = dtri_monotonic_ns();
        run_timers(c, now);
        run_dump(c);
        if (now - c->committed_ns >= c->options.commit_interval_ns) {
            tend(c);
            c->committed_ns = now;
        }
        dtri_guard_leave();
        /* Looking at a ring that is being filled slows its producer down, which needs the same
         * cache line: a ring with little in it is left alone for a while. */
        nap = n ? NAP_MIN_NS : nap < NAP_MAX_NS ? nap * 2 : nap;
        stop = rest(c, n > c->options.channel->ring_words / 16 ? 0 : nap);
    }
    dtri_guard_enter();
    find_streams(c);
    for (unsigned i = 0; i < c->n_streams; i++) {
        struct stream *s = &c->streams[i];
        look_at(c, s, UINT64_MAX);
        if (s->open)
            finish(c, s, true);
        dtri_channel_unmap(c->options.channel, &s->reader);
    }
    dtri_guard_leave();
    return NULL;
}

dtr_status dtri_collector_start(const struct dtri_collector_options *options,
                                struct dtri_collector **out_collector, dtr_error *error)
{
    struct dtri_collector *c = dtri_calloc(1, sizeof *c);
    pthread_condattr_t attributes;
    sigset_t all, old;
    if (!c)
        return dtri_fail_nomem(error, "the recorder");
    c->options = *options;
    c->start_ns = c->committed_ns = dtri_monotonic_ns();
    atomic_init(&c->dump, NO_DUMP);
    if (options->delay_ns)
        atomic_fetch_or(&options->channel->header->gate, DTRI_GATE_DELAY);
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int code = pthread_create(&c->thread, NULL, collect, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code) {
        pthread_cond_destroy(&c->wake);
        pthread_mutex_destroy(&c->lock);
        dtri_free(c);
        return dtri_fail(error, DTR_E_IO, code, "cannot start the writer thread: %s",
                         strerror(code));
    }
    *out_collector = c;
    return DTR_OK;
}

void dtri_collector_dump(struct dtri_collector *c, int cause)
{
    atomic_store(&c->dump, cause);
}

void dtri_collector_toggle(struct dtri_collector *c)
{
    atomic_fetch_xor(&c->options.channel->header->gate, DTRI_GATE_SIGNAL);
}

void dtri_collector_stop(struct dtri_collector *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    dtri_free(c);
}
