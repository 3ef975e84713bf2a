#include "record/ring.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#define SAMPLE   64 /* one event in so many is timed */
#define LOOK_NS  50000000
#define MAX_KIND 64

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RARELY      __attribute__((noinline, cold)) /* keeps its registers out of the hot path */

const char *const dtri_window_causes[] = {
    "start", "end",  "program",       "signal", "delay",  "duration",
    "step",  "dump", "out of memory", "thrash", "killed",
};

/* Why emitting needs a second look. */
enum attention {
    PAUSED = 1,  /* by the program */
    STEPS = 2,   /* steps were chosen, so marks must be looked at */
    SHUT = 4,    /* a window is closed */
    FOREIGN = 8, /* in a child after fork */
};

struct dtri_producer {
    uint64_t *words;
    uint64_t mask, head, tail_seen;
    struct dtri_ring *ring;
    const atomic_uint *gate;
    atomic_uint attention;
    bool drop, orphan;
    uint64_t emitted, dropped;
    int64_t sampled_ns, waited_ns;
    /* windows */
    struct dtri_record_window window;
    struct dtri_steps steps;
    bool in_step, windowed, any;
    int64_t skipped, last_ts_ns;
    /* the other side */
    const atomic_uint *collector_gone;
    pid_t collector;
    int lock;
    struct dtri_producer *next, **link; /* list of all, for fork */
};

/* --- forks ------------------------------------------------------------------------------------ */

static struct dtri_producer *producers;
static pthread_mutex_t producers_lock = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&producers_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&producers_lock);
}

/* The rings are the parent's: here they must not be written any more. */
static void in_child(void)
{
    for (struct dtri_producer *p = producers; p; p = p->next)
        atomic_fetch_or_explicit(&p->attention, FOREIGN, memory_order_relaxed);
    pthread_mutex_init(&producers_lock, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

bool dtri_producer_is_foreign(const struct dtri_producer *p)
{
    return atomic_load_explicit(&p->attention, memory_order_relaxed) & FOREIGN;
}

/* --- room ------------------------------------------------------------------------------------- */

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* A process that ended keeps its number until somebody collects it, but no locks. */
static bool is_gone(const struct dtri_producer *p)
{
    if (p->collector == getpid())
        return false;
    if (p->lock < 0)
        return kill(p->collector, 0) != 0 && errno == ESRCH;
    if (flock(p->lock, LOCK_SH | LOCK_NB) != 0)
        return false;
    flock(p->lock, LOCK_UN);
    return true;
}

static bool collector_lives(struct dtri_producer *p)
{
    if (!p->orphan && (atomic_load_explicit(p->collector_gone, memory_order_relaxed) || is_gone(p)))
        p->orphan = true;
    return !p->orphan;
}

/* Waits until `need` words are free.  False when nobody drains the ring any more. */
static bool wait_for(struct dtri_producer *p, uint64_t need)
{
    int64_t begin = dtri_monotonic_ns(), looked = begin;
    for (;;) {
        p->tail_seen = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
        if (p->head + need - p->tail_seen <= p->mask + 1)
            break;
        if (dtri_monotonic_ns() - looked > LOOK_NS || p->orphan) {
            looked = dtri_monotonic_ns();
            if (!collector_lives(p))
                return false;
        }
        nap(20000);
    }
    p->waited_ns += dtri_monotonic_ns() - begin;
    return true;
}

static RARELY void count_drop(struct dtri_producer *p)
{
    atomic_store_explicit(&p->ring->dropped, ++p->dropped, memory_order_relaxed);
}

/* Makes the next `need` words of the ring free and contiguous. */
static RARELY bool make_room(struct dtri_producer *p, uint64_t need, bool drop)
{
    uint64_t size = p->mask + 1, at = p->head & p->mask;
    uint64_t pad = at + need > size ? size - at : 0;
    p->tail_seen = atomic_load_explicit(&p->ring->tail, memory_order_acquire);
    if (p->head + pad + need - p->tail_seen > size && (drop || !wait_for(p, pad + need)))
        return false;
    if (pad) {
        p->words[at] = DTRI_RECORD_PAD | pad << 16;
        p->head += pad;
        atomic_store_explicit(&p->ring->head, p->head, memory_order_release);
    }
    return true;
}

static bool has_room(const struct dtri_producer *p, uint64_t need)
{
    return (p->head & p->mask) + need <= p->mask + 1 &&
           p->head + need - p->tail_seen <= p->mask + 1;
}

/* --- events ----------------------------------------------------------------------------------- */

/* Words of a record, by kind; 0: no such kind. */
static uint8_t words_of[MAX_KIND];

static void count_words(void)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    for (int i = 0; i < n; i++)
        words_of[infos[i].kind] = (uint8_t)(3 + infos[i].n_fields);
}

/* All that an event may have, word by word: its fields were stored just now, each on its own, and a
 * wider load would have to wait until they are all out of the store buffer. */
static inline void copy_fields(uint64_t *to, const int64_t *from)
{
#define COPY(i)                                                                                    \
    do {                                                                                           \
        uint64_t word = (uint64_t)from[i];                                                         \
        __asm__("" : "+r"(word)); /* keeps the compiler from joining two */                        \
        to[i] = word;                                                                              \
    } while (0)
    COPY(0);
    COPY(1);
    COPY(2);
    COPY(3);
    COPY(4);
    COPY(5);
    COPY(6);
    COPY(7);
    COPY(8);
    COPY(9);
    COPY(10);
    COPY(11);
    _Static_assert(DTR_EVENT_MAX_FIELDS == 12, "one COPY a field");
#undef COPY
}

void dtri_ring_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_words);
}

static inline void put(struct dtri_producer *p, const dtr_event *event)
{
    if (UNLIKELY(!has_room(p, DTRI_RING_SLACK)) && !make_room(p, DTRI_RING_SLACK, p->drop)) {
        count_drop(p);
        return;
    }
    uint64_t n = words_of[event->kind & (MAX_KIND - 1)];
    uint64_t *words = p->words + (p->head & p->mask);
    words[0] = (uint64_t)event->kind | n << 16;
    words[1] = (uint64_t)event->ts_ns;
    words[2] = (uint64_t)event->seq;
    copy_fields(words + 3, event->u.raw);
    p->head += n;
    atomic_store_explicit(&p->ring->head, p->head, memory_order_release);
}

static RARELY void put_timed(struct dtri_producer *p, const dtr_event *event)
{
    int64_t begin = dtri_clock_ns(), waited = p->waited_ns;
    if (!p->any) {
        p->any = true;
        p->window.begin_ts_ns = event->ts_ns;
    }
    put(p, event);
    p->sampled_ns += dtri_clock_ns() - begin - (p->waited_ns - waited);
    atomic_store_explicit(&p->ring->record_ns, p->sampled_ns * SAMPLE + p->waited_ns,
                          memory_order_relaxed);
}

/* What says what things are, without which later events could not be understood. */
static bool is_definition(int64_t kind)
{
    const uint64_t kinds = 1 << DTR_EVENT_STORAGE | 1 << DTR_EVENT_TENSOR |
                           1 << DTR_EVENT_OPERATOR | 1 << DTR_EVENT_OPERAND |
                           1 << DTR_EVENT_BUDGET | 1 << DTR_EVENT_FRAME | 1 << DTR_EVENT_ORIGIN |
                           1 << DTR_EVENT_PIN | 1 << DTR_EVENT_SIGNATURE;
    return kinds >> kind & 1;
}

static void put_record(struct dtri_producer *p, unsigned kind, const void *head, size_t head_size,
                       const void *data, size_t size)
{
    uint64_t n = 1 + (head_size + size + 7) / 8;
    if (!has_room(p, n + DTRI_RING_SLACK) && !make_room(p, n + DTRI_RING_SLACK, false))
        return;
    uint64_t *words = p->words + (p->head & p->mask);
    words[0] = kind | n << 16;
    words[n - 1] = 0;
    if (head_size)
        memcpy(words + 1, head, head_size);
    if (size)
        memcpy((char *)(words + 1) + head_size, data, size);
    p->head += n;
    atomic_store_explicit(&p->ring->head, p->head, memory_order_release);
}

/* --- windows ---------------------------------------------------------------------------------- */

/* Why recording is off now, as a cause; -1 when it is on. */
static int shut_by(const struct dtri_producer *p, unsigned attention)
{
    unsigned gate = atomic_load_explicit(p->gate, memory_order_relaxed);
    if (attention & PAUSED)
        return DTRI_WINDOW_PROGRAM;
    if (gate & DTRI_GATE_SIGNAL)
        return DTRI_WINDOW_SIGNAL;
    if (gate & DTRI_GATE_DURATION)
        return DTRI_WINDOW_DURATION;
    if (gate & DTRI_GATE_DELAY)
        return DTRI_WINDOW_DELAY;
    return attention & STEPS && !p->in_step ? DTRI_WINDOW_STEP : -1;
}

static void send_window(struct dtri_producer *p)
{
    put_record(p, DTRI_RECORD_WINDOW, &p->window, sizeof p->window, NULL, 0);
}

static void close_window(struct dtri_producer *p, int64_t ts_ns, int cause)
{
    atomic_fetch_or_explicit(&p->attention, SHUT, memory_order_relaxed);
    if (!p->windowed && !p->any) { /* nothing was recorded yet: no window ends */
        p->window = (struct dtri_record_window){.id = -1, .closed_by = cause};
        p->windowed = true;
        return;
    }
    p->windowed = true;
    p->window.end_ts_ns = ts_ns;
    p->window.closed_by = cause;
    send_window(p);
}

static void open_window(struct dtri_producer *p, int64_t ts_ns)
{
    atomic_fetch_and_explicit(&p->attention, ~(unsigned)SHUT, memory_order_relaxed);
    p->window = (struct dtri_record_window){
        .id = p->window.id + 1,
        .begin_ts_ns = ts_ns,
        .end_ts_ns = INT64_MIN,
        .opened_by = p->window.closed_by, /* the same thing opens that closed */
        .closed_by = -1,
        .skipped = p->skipped,
    };
    p->skipped = 0;
    send_window(p);
}

static void look_for_step(struct dtri_producer *p, const dtr_event *event)
{
    if (event->kind == DTR_EVENT_MARK && event->u.mark_.mark == DTR_MARK_ITERATION)
        p->in_step = event->u.mark_.value >= p->steps.begin && event->u.mark_.value < p->steps.end;
}

static RARELY void emit_with_attention(struct dtri_producer *p, const dtr_event *event)
{
    unsigned attention = atomic_load_explicit(&p->attention, memory_order_relaxed);
    if (attention & FOREIGN)
        return;
    if (attention & STEPS)
        look_for_step(p, event);
    int cause = shut_by(p, attention);
    if (cause >= 0 && !(attention & SHUT))
        close_window(p, dtri_record_moment(event), cause);
    else if (cause < 0 && attention & SHUT)
        open_window(p, dtri_record_moment(event));
    if (cause >= 0 && !is_definition(event->kind)) {
        p->skipped++;
        p->last_ts_ns = dtri_record_moment(event);
        return;
    }
    if (cause < 0 && !p->any) {
        p->any = true;
        if (!p->windowed)
            p->window.begin_ts_ns = event->ts_ns;
    }
    put(p, event);
}

static void emit(void *self, const dtr_event *event)
{
    struct dtri_producer *p = self;
    if (UNLIKELY(atomic_load_explicit(p->gate, memory_order_relaxed) |
                 atomic_load_explicit(&p->attention, memory_order_relaxed)))
        emit_with_attention(p, event);
    else if (UNLIKELY(p->emitted++ % SAMPLE == 0))
        put_timed(p, event);
    else
        put(p, event);
}

static void name(void *self, int64_t id, const char *text)
{
    struct dtri_producer *p = self;
    size_t size = strlen(text);
    if (dtri_producer_is_foreign(p))
        return;
    if (size > DTRI_RING_MAX_BYTES)
        size = DTRI_RING_MAX_BYTES;
    put_record(p, DTRI_RECORD_NAME, (int64_t[]){id, (int64_t)size}, 16, text, size);
}

/* --- life ------------------------------------------------------------------------------------- */

dtr_status dtri_producer_new(const struct dtri_producer_options *options,
                             struct dtri_producer **out_producer, dtr_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct dtri_producer *p = dtri_calloc(1, sizeof *p);
    if (!p)
        return dtri_fail_nomem(error, "a ring of events");
    pthread_once(&once, watch_forks);
    dtri_ring_prepare();
    p->words = options->words;
    p->mask = options->n_words - 1;
    p->ring = options->ring;
    p->head = p->tail_seen = atomic_load(&p->ring->head);
    p->gate = options->gate;
    p->drop = options->drop;
    p->collector_gone = options->collector_gone;
    p->collector = options->collector;
    p->lock = options->lock;
    p->steps = options->steps;
    p->window.end_ts_ns = INT64_MIN;
    p->window.opened_by = DTRI_WINDOW_START;
    if (p->steps.begin != DTR_NONE)
        atomic_init(&p->attention, STEPS);
    pthread_mutex_lock(&producers_lock);
    p->next = producers;
    p->link = &producers;
    if (producers)
        producers->link = &p->next;
    producers = p;
    pthread_mutex_unlock(&producers_lock);
    *out_producer = p;
    return DTR_OK;
}

struct dtri_ring *dtri_producer_ring(const struct dtri_producer *p)
{
    return p->ring;
}

void dtri_producer_free(struct dtri_producer *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&producers_lock);
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    pthread_mutex_unlock(&producers_lock);
    dtri_free(p);
}

dtr_sink dtri_producer_sink(struct dtri_producer *producer)
{
    return (dtr_sink){.self = producer, .emit = emit, .name = name};
}

void dtri_producer_message(struct dtri_producer *p, int64_t type, const void *data, size_t size)
{
    if (dtri_producer_is_foreign(p) || size > DTRI_RING_MAX_BYTES)
        return;
    put_record(p, DTRI_RECORD_MESSAGE, (int64_t[]){type, (int64_t)size}, 16, data, size);
}

void dtri_producer_dump(struct dtri_producer *p, enum dtri_window_cause cause)
{
    if (!dtri_producer_is_foreign(p))
        put_record(p, DTRI_RECORD_DUMP, &(int64_t){(int64_t)cause}, 8, NULL, 0);
}

void dtri_producer_pause(struct dtri_producer *p, bool pause)
{
    if (pause)
        atomic_fetch_or_explicit(&p->attention, PAUSED, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&p->attention, ~(unsigned)PAUSED, memory_order_relaxed);
}

/* The last window's row also tells what was left out after it. */
static void end_windows(struct dtri_producer *p)
{
    unsigned attention = atomic_load_explicit(&p->attention, memory_order_relaxed);
    if (!p->windowed)
        return;
    if (!(attention & SHUT)) {
        p->window.closed_by = DTRI_WINDOW_END;
        send_window(p);
    } else if (p->skipped) {
        if (p->window.id < 0)
            p->window = (struct dtri_record_window){
                0, p->last_ts_ns, p->last_ts_ns, DTRI_WINDOW_END, DTRI_WINDOW_END, 0};
        p->window.skipped += p->skipped;
        send_window(p);
    }
}

void dtri_producer_close(struct dtri_producer *p)
{
    if (dtri_producer_is_foreign(p))
        return;
    end_windows(p);
    atomic_store_explicit(&p->ring->state, DTRI_RING_CLOSED, memory_order_release);
}

bool dtri_producer_wait(struct dtri_producer *p)
{
    int64_t looked = dtri_monotonic_ns();
    while (atomic_load_explicit(&p->ring->state, memory_order_acquire) != DTRI_RING_DONE) {
        if (dtri_monotonic_ns() - looked > LOOK_NS) {
            looked = dtri_monotonic_ns();
            if (!collector_lives(p))
                return false;
        }
        nap(200000);
    }
    return true;
}

/* --- the collector's side --------------------------------------------------------------------- */

/* The program may write there at any time: what was checked must not be read again. */
static uint64_t read_once(const uint64_t *word)
{
    return *(const volatile uint64_t *)word;
}

const uint64_t *dtri_ring_peek(struct dtri_ring_reader *reader, uint64_t tail, uint64_t head,
                               unsigned *out_kind, uint64_t *out_words)
{
    if (tail == head || reader->damaged)
        return NULL;
    uint64_t at = tail & (reader->n_words - 1), header = read_once(reader->words + at);
    uint64_t n = header >> 16;
    if (head - tail > reader->n_words || n < 1 || n > head - tail || n > reader->n_words - at) {
        reader->damaged = true;
        return NULL;
    }
    *out_kind = header & 0xffff;
    *out_words = n;
    return reader->words + at + 1;
}

bool dtri_record_event(unsigned kind, const uint64_t *words, uint64_t n, dtr_event *out_event)
{
    if (kind >= MAX_KIND || !words_of[kind] || n != words_of[kind])
        return false;
    out_event->kind = kind;
    out_event->ts_ns = (int64_t)words[0];
    out_event->seq = (int64_t)words[1];
    memcpy(out_event->u.raw, words + 2, (n - 3) * sizeof *words);
    return true;
}

int64_t dtri_record_moment(const dtr_event *event)
{
    int64_t ts_ns = event->ts_ns, dur_ns = 0;
    if (event->kind == DTR_EVENT_OPERATOR_RUN)
        dur_ns = event->u.operator_run_.dur_ns;
    else if (event->kind == DTR_EVENT_CHAIN)
        dur_ns = event->u.chain_.dur_ns;
    return __builtin_add_overflow(ts_ns, dur_ns, &ts_ns) ? event->ts_ns : ts_ns;
}

const char *dtri_record_data(const uint64_t *words, uint64_t n, int64_t *out_id, size_t *out_size)
{
    uint64_t size = n < 3 ? UINT64_MAX : read_once(words + 1);
    if (size > DTRI_RING_MAX_BYTES || size > (n - 3) * 8)
        return NULL;
    *out_id = (int64_t)words[0];
    *out_size = (size_t)size;
    return (const char *)(words + 2);
}
