/* What recording one event costs the program: bench_record MODE N ROUNDS
 *
 * Modes: `ring`, `ring-tsc`, `ring-monotonic` (the recorder without a clock, and with one time
 * stamp an event), `mutex-tsc`, `mutex-monotonic` (a queue under a lock, for comparison),
 * `clock-tsc`, `clock-monotonic` (the time stamp alone).  A thread drains all along; its output
 * throws away. With `sustained-` before it, the events come without a pause, so that whoever is
 * faster waits. Prints the least and the median of the rounds in ns an event. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "dtr/recorder.h"

/* Bursts that fit the queues, with time to drain between them: what emitting costs while nobody has
 * to wait. */
#define BURST    16384
#define PAUSE_US 5000

static inline void make_event(dtr_event *event, int64_t i, int64_t ts_ns)
{
    dtr_event_decision *decision = &event->u.decision_;
    event->ts_ns = ts_ns;
    event->seq = i;
    event->kind = DTR_EVENT_DECISION;
    decision->decision = i;
    decision->storage = i * 7919 & 65535;
    decision->op = i;
    decision->needed = 4096;
    decision->in_use = i * 4096 & 1048575;
    decision->budget = 1 << 30;
    decision->candidates = 100;
    decision->evaluations = i & 15;
    decision->tied = 0;
    decision->search_ns = i & 1023;
}

/* --- the recorder ----------------------------------------------------------------------------- */

static dtr_status drop_event(void *self, const dtr_event *event, dtr_error *error)
{
    (void)error;
    *(int64_t *)self += event->u.decision_.decision;
    return DTR_OK;
}

static dtr_status drop_name(void *self, int64_t id, const char *text, dtr_error *error)
{
    (void)self, (void)id, (void)text, (void)error;
    return DTR_OK;
}

static dtr_status drop_commit(void *self, dtr_error *error)
{
    (void)self, (void)error;
    return DTR_OK;
}

static double ring_round(int64_t n, int64_t burst, bool stamp)
{
    int64_t sum = 0;
    dtr_recorder_output output = {
        .self = &sum, .event = drop_event, .name = drop_name, .commit = drop_commit};
    dtr_recorder_options options;
    dtr_recorder *recorder;
    dtr_error error;
    dtr_sink sink;
    dtr_recorder_options_init(&options);
    if (dtr_recorder_open(&options, &output, &recorder, &error) != DTR_OK ||
        dtr_recorder_sink(recorder, &sink, &error) != DTR_OK) {
        fprintf(stderr, "bench_record: %s\n", error.text);
        exit(1);
    }
    for (int64_t i = 0; i < 100000; i++) { /* touch the ring's pages */
        dtr_event event;
        make_event(&event, i, i);
        sink.emit(sink.self, &event);
    }
    int64_t ns = 0;
    for (int64_t done = 0; done < n; done += burst) {
        int64_t begin = dtri_monotonic_ns();
        for (int64_t i = done; i < done + burst; i++) {
            dtr_event event;
            make_event(&event, i, stamp ? dtri_clock_ns() : i);
            sink.emit(sink.self, &event);
        }
        ns += dtri_monotonic_ns() - begin;
        if (burst < n)
            usleep(PAUSE_US);
    }
    dtr_recorder_close(recorder, NULL);
    return (double)ns / (double)n;
}

/* --- a queue under a lock --------------------------------------------------------------------- */

#define SLOTS 65536

static struct queue {
    pthread_mutex_t lock;
    uint64_t head, tail;
    bool stop;
    dtr_event slots[SLOTS];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *drain_queue(void *self)
{
    static dtr_event batch[1024];
    int64_t *sum = self;
    for (bool stop = false;;) {
        pthread_mutex_lock(&queue.lock);
        size_t n = 0;
        while (queue.tail != queue.head && n < 1024)
            batch[n++] = queue.slots[queue.tail++ % SLOTS];
        stop = queue.stop && queue.tail == queue.head;
        pthread_mutex_unlock(&queue.lock);
        for (size_t i = 0; i < n; i++)
            *sum += batch[i].u.decision_.decision;
        if (stop)
            return NULL;
        if (!n)
            usleep(200);
    }
}

static void enqueue(int64_t i)
{
    dtr_event event;
    make_event(&event, i, dtri_clock_ns());
    for (bool done = false; !done;) {
        pthread_mutex_lock(&queue.lock);
        done = queue.head - queue.tail < SLOTS;
        if (done)
            queue.slots[queue.head++ % SLOTS] = event;
        pthread_mutex_unlock(&queue.lock);
        if (!done)
            sched_yield();
    }
}

static double mutex_round(int64_t n, int64_t burst)
{
    pthread_t thread;
    int64_t sum = 0;
    queue.stop = false;
    pthread_create(&thread, NULL, drain_queue, &sum);
    int64_t ns = 0;
    for (int64_t done = 0; done < n; done += burst) {
        int64_t begin = dtri_monotonic_ns();
        for (int64_t i = done; i < done + burst; i++)
            enqueue(i);
        ns += dtri_monotonic_ns() - begin;
        if (burst < n)
            usleep(PAUSE_US);
    }
    pthread_mutex_lock(&queue.lock);
    queue.stop = true;
    pthread_mutex_unlock(&queue.lock);
    pthread_join(thread, NULL);
    return (double)ns / (double)n;
}

static double clock_round(int64_t n)
{
    int64_t sum = 0, begin = dtri_monotonic_ns();
    for (int64_t i = 0; i < n; i++)
        sum += dtri_clock_ns();
    int64_t ns = dtri_monotonic_ns() - begin;
    __asm__ volatile("" : : "r"(sum));
    return (double)ns / (double)n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: bench_record MODE N ROUNDS\n");
        return 2;
    }
    const char *mode = argv[1];
    int64_t n = atoll(argv[2]) / BURST * BURST, burst = BURST;
    int rounds = atoi(argv[3]);
    double times[64];
    if (strncmp(mode, "sustained-", 10) == 0) {
        mode += 10;
        burst = n;
    }
    if (strstr(mode, "-tsc") && !dtri_clock_use_tsc()) {
        puts("none none");
        return 0;
    }
    for (int i = 0; i < rounds && i < 64; i++)
        times[i] = strncmp(mode, "ring", 4) == 0 ? ring_round(n, burst, strcmp(mode, "ring") != 0)
                   : strncmp(mode, "mutex", 5) == 0 ? mutex_round(n, burst)
                                                    : clock_round(n);
    qsort(times, (size_t)rounds, sizeof *times, by_value);
    printf("%.2f %.2f\n", times[0], times[rounds / 2]);
    return 0;
}
