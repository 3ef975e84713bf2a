/* Rings and the writer thread.
 *
 * A ring is single-producer, single-consumer: the producer owns `head`, the writer `tail`, each on
 * its own cache line; the producer keeps a copy of `tail` and looks again only when the ring seems
 * full.  A name travels through the ring as an event of kind 0 that carries a heap copy of the
 * text, so that it comes before the events that use it.
 *
 * The list of rings only grows, under a mutex that the hot path never takes.  The cost of emitting
 * is estimated by timing one event in 64 (and every wait), since timing each would double it. */
#include "dtr/recorder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"

#define LINE   64
#define SAMPLE 64
#define NAP_NS 200000 /* the writer's when all rings are empty */

struct ring {
    _Alignas(LINE) atomic_uint_least64_t head;
    uint64_t tail_seen;
    uint64_t emitted, dropped_here;
    int64_t sampled_ns, waited_ns;
    _Alignas(LINE) atomic_uint_least64_t tail;
    _Alignas(LINE) atomic_uint_least64_t dropped;
    atomic_int_least64_t record_ns;
    uint64_t mask;
    bool drop;
    unsigned fork_generation;
    struct ring *next;
    dtr_event *slots;
    void *block; /* what the allocator gave; the ring is aligned within it */
};

struct dtr_recorder {
    dtr_recorder_options options;
    dtr_recorder_output output;
    pthread_t thread;
    pthread_mutex_t lock; /* guards `rings` and `stop` with `wake` */
    pthread_cond_t wake;
    struct ring *rings;
    bool stop;
    dtr_recorder_stats stats; /* the writer's; read after it ended */
};

/* Grows in a child after fork; rings made before it are dead there. */
static atomic_uint fork_generation;

static void in_child(void)
{
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* --- the producer's side ---------------------------------------------------------------------- */

/* A free slot, or NULL when the event is to be dropped. */
static dtr_event *claim(struct ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (ring->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed))
        return NULL;
    if (head - ring->tail_seen > ring->mask) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - ring->tail_seen > ring->mask && ring->drop) {
            atomic_store_explicit(&ring->dropped, ++ring->dropped_here, memory_order_relaxed);
            return NULL;
        }
        int64_t begin = now_ns();
        while (head - ring->tail_seen > ring->mask) {
            nap(20000);
            ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        }
        ring->waited_ns += now_ns() - begin;
    }
    return &ring->slots[head & ring->mask];
}

static void publish(struct ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

static void push(struct ring *ring, const dtr_event *event)
{
    dtr_event *slot = claim(ring);
    if (!slot)
        return;
    *slot = *event;
    publish(ring);
}

static void emit(void *self, const dtr_event *event)
{
    struct ring *ring = self;
    if (ring->emitted++ % SAMPLE) {
        push(ring, event);
        return;
    }
    int64_t begin = now_ns(), waited = ring->waited_ns;
    push(ring, event);
    ring->sampled_ns += now_ns() - begin - (ring->waited_ns - waited);
    atomic_store_explicit(&ring->record_ns, ring->sampled_ns * SAMPLE + ring->waited_ns,
                          memory_order_relaxed);
}

static void name(void *self, int64_t id, const char *text)
{
    struct ring *ring = self;
    char *copy = dtri_strdup(text);
    dtr_event *slot = copy ? claim(ring) : NULL;
    if (!slot) {
        dtri_free(copy); /* shows as an id without a text */
        return;
    }
    slot->kind = 0;
    slot->u.raw[0] = id;
    memcpy(&slot->u.raw[1], &copy, sizeof copy);
    publish(ring);
}

/* --- the writer's side ------------------------------------------------------------------------ */

static void failed(dtr_recorder *r, dtr_status status, const dtr_error *error)
{
    if (r->stats.status != DTR_OK)
        return;
    r->stats.status = status;
    memcpy(r->stats.why, error->text, sizeof r->stats.why);
}

static void hand_over(dtr_recorder *r, const dtr_event *event)
{
    dtr_error error = {0};
    dtr_status status = DTR_OK;
    bool is_name = event->kind == 0;
    char *text = NULL;
    if (is_name)
        memcpy(&text, &event->u.raw[1], sizeof text);
    if (r->stats.status == DTR_OK)
        status = is_name ? r->output.name(r->output.self, event->u.raw[0], text, &error)
                         : r->output.event(r->output.self, event, &error);
    if (status != DTR_OK)
        failed(r, status, &error);
    if (!is_name && r->stats.status == DTR_OK)
        r->stats.events++;
    else if (!is_name)
        r->stats.lost_output++;
    dtri_free(text);
}

static uint64_t drain(dtr_recorder *r, struct ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    for (uint64_t at = tail; at != head; at++) {
        hand_over(r, &ring->slots[at & ring->mask]);
        if ((at & 1023) == 1023) /* let a waiting producer go on */
            atomic_store_explicit(&ring->tail, at + 1, memory_order_release);
    }
    atomic_store_explicit(&ring->tail, head, memory_order_release);
    return head - tail;
}

static void commit(dtr_recorder *r)
{
    dtr_error error = {0};
    if (r->stats.status != DTR_OK)
        return;
    dtr_status status = r->output.commit(r->output.self, &error);
    if (status != DTR_OK)
        failed(r, status, &error);
}

/* Waits for the end or a nap; true when it is time to end. */
static bool rest(dtr_recorder *r)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += NAP_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&r->lock);
    if (!r->stop)
        pthread_cond_timedwait(&r->wake, &r->lock, &until);
    bool stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return stop;
}

static void *write_events(void *self)
{
    dtr_recorder *r = self;
    int64_t committed = now_ns();
    for (bool stop = false;;) {
        uint64_t n = 0;
        pthread_mutex_lock(&r->lock);
        struct ring *rings = r->rings; /* the list only grows at its front */
        pthread_mutex_unlock(&r->lock);
        for (struct ring *ring = rings; ring; ring = ring->next)
            n += drain(r, ring);
        if (now_ns() - committed >= r->options.commit_interval_ns) {
            commit(r);
            committed = now_ns();
        }
        if (n)
            continue;
        if (stop)
            break;
        stop = rest(r);
    }
    commit(r);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

void dtr_recorder_options_init(dtr_recorder_options *options)
{
    *options = (dtr_recorder_options){
        .size = sizeof *options,
        .ring_events = 65536,
        .commit_interval_ns = 1000000000,
    };
}

dtr_status dtr_recorder_open(const dtr_recorder_options *options, const dtr_recorder_output *output,
                             dtr_recorder **out_recorder, dtr_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int64_t slots = options->ring_events;
    if (options->size != sizeof *options || slots < 64 || slots > 1 << 26 || (slots & (slots - 1)))
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "a ring has %lld slots; it must be a power of two from 64 to 67108864",
                         (long long)slots);
    pthread_once(&once, watch_forks);
    dtr_recorder *r = dtri_calloc(1, sizeof *r);
    if (!r)
        return dtri_fail_nomem(error, "the recorder");
    r->options = *options;
    r->output = *output;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    int code = pthread_create(&r->thread, NULL, write_events, r);
    if (code) {
        pthread_cond_destroy(&r->wake);
        pthread_mutex_destroy(&r->lock);
        dtri_free(r);
        return dtri_fail(error, DTR_E_IO, code, "cannot start the writer thread: %s",
                         strerror(code));
    }
    *out_recorder = r;
    return DTR_OK;
}

dtr_status dtr_recorder_sink(dtr_recorder *r, dtr_sink *out_sink, dtr_error *error)
{
    void *block = dtri_calloc(1, sizeof(struct ring) + LINE);
    dtr_event *slots = dtri_malloc((size_t)r->options.ring_events * sizeof *slots);
    if (!block || !slots) {
        dtri_free(block);
        dtri_free(slots);
        return dtri_fail_nomem(error, "a ring of events");
    }
    struct ring *ring = (struct ring *)(((uintptr_t)block + LINE - 1) & ~(uintptr_t)(LINE - 1));
    ring->block = block;
    ring->slots = slots;
    ring->mask = (uint64_t)r->options.ring_events - 1;
    ring->drop = r->options.drop_when_full;
    ring->fork_generation = atomic_load(&fork_generation);
    pthread_mutex_lock(&r->lock);
    ring->next = r->rings;
    r->rings = ring;
    pthread_mutex_unlock(&r->lock);
    *out_sink = (dtr_sink){.self = ring, .emit = emit, .name = name};
    return DTR_OK;
}

void dtr_recorder_close(dtr_recorder *r, dtr_recorder_stats *out_stats)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    while (r->rings) {
        struct ring *ring = r->rings;
        r->rings = ring->next;
        r->stats.lost_ring += (int64_t)atomic_load(&ring->dropped);
        r->stats.record_ns += atomic_load(&ring->record_ns);
        dtri_free(ring->slots);
        dtri_free(ring->block);
    }
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    if (out_stats)
        *out_stats = r->stats;
    dtri_free(r);
}
