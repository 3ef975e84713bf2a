/* The recorder under load: a consumer that stalls, threads that come and go, more sinks than there
 * are, names of all kinds, children of fork. */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtr/recorder.h"
#include "record/ring.h"

/* --- an output that only counts --------------------------------------------------------------- */

struct counter {
    atomic_long events, names, wrong;
    atomic_bool stall; /* until it is false */
    int64_t next[8];   /* seq that has to come next, by thread */
    void (*hear_name)(struct counter *counter, int64_t id, const char *text);
};

static dtr_status count_event(void *self, const dtr_event *event, dtr_error *error)
{
    struct counter *c = self;
    (void)error;
    while (c->stall)
        usleep(1000);
    int64_t thread = event->u.freeing_.storage & 7;
    c->wrong += event->seq < c->next[thread];
    c->next[thread] = event->seq + 1;
    c->events++;
    return DTR_OK;
}

static dtr_status count_name(void *self, int64_t id, const char *text, dtr_error *error)
{
    struct counter *c = self;
    (void)error;
    c->names++;
    if (c->hear_name)
        c->hear_name(c, id, text);
    return DTR_OK;
}

static dtr_status commit(void *self, dtr_error *error)
{
    (void)self, (void)error;
    return DTR_OK;
}

static dtr_recorder *open_recorder(struct counter *counter, int64_t ring_events, bool drop)
{
    dtr_recorder_options options;
    dtr_recorder *recorder;
    dtr_error error;
    dtr_recorder_output output = {
        .self = counter, .event = count_event, .name = count_name, .commit = commit};
    dtr_recorder_options_init(&options);
    options.ring_events = ring_events;
    options.drop_when_full = drop;
    options.commit_interval_ns = 1000000;
    assert_ok(dtr_recorder_open(&options, &output, &recorder, &error), &error);
    return recorder;
}

static void emit(const dtr_sink *sink, int64_t thread, int64_t seq)
{
    dtr_event event = {.kind = DTR_EVENT_FREEING, .ts_ns = seq, .seq = seq};
    event.u.freeing_ = (dtr_event_freeing){.storage = thread, .bytes = 1, .in_use = 2};
    sink->emit(sink->self, &event);
}

static int64_t resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* --- a consumer that stalls ------------------------------------------------------------------- */

#define STALLED  4
#define FLOOD    200000
#define RING     4096
#define RING_CAP (RING * 64 + (1 << 20)) /* of one sink, with some room */

struct producer {
    dtr_recorder *recorder;
    int64_t number, n;
    atomic_bool done;
    pthread_t thread;
};

static void *flood(void *user)
{
    struct producer *p = user;
    dtr_sink sink;
    dtr_error error;
    assert_ok(dtr_recorder_sink(p->recorder, &sink, &error), &error);
    for (int64_t i = 0; i < p->n; i++)
        emit(&sink, p->number, i);
    p->done = true;
    return NULL;
}

static void start_floods(struct producer *p, dtr_recorder *recorder)
{
    for (int i = 0; i < STALLED; i++) {
        p[i] = (struct producer){.recorder = recorder, .number = i, .n = FLOOD};
        assert_int_equal(pthread_create(&p[i].thread, NULL, flood, &p[i]), 0);
    }
}

/* Dropping: memory stays what the rings have, and every event is recorded or counted. */
static void test_stall_drops(void **state)
{
    struct counter counter = {.stall = true};
    struct producer p[STALLED];
    dtr_recorder_stats stats;
    (void)state;
    dtr_recorder *recorder = open_recorder(&counter, RING, true);
    int64_t before = resident_bytes();
    start_floods(p, recorder);
    for (int i = 0; i < STALLED; i++)
        pthread_join(p[i].thread, NULL);
    int64_t grown = resident_bytes() - before;
#if !defined __SANITIZE_THREAD__ && !defined __SANITIZE_ADDRESS__
    assert_true(grown <= STALLED * RING_CAP);
#endif
    counter.stall = false;
    dtr_recorder_close(recorder, &stats);
    assert_true(stats.lost_ring > 0);
    assert_int_equal(stats.events + stats.lost_ring, STALLED * FLOOD);
    assert_int_equal(stats.events, counter.events);
    assert_int_equal(stats.lost_output, 0);
    assert_int_equal(counter.wrong, 0);
}

/* Blocking: the program stands still while the consumer does, and nothing is lost. */
static void test_stall_blocks(void **state)
{
    struct counter counter = {.stall = true};
    struct producer p[STALLED];
    dtr_recorder_stats stats;
    (void)state;
    dtr_recorder *recorder = open_recorder(&counter, RING, false);
    start_floods(p, recorder);
    usleep(200000);
    for (int i = 0; i < STALLED; i++)
        assert_false(p[i].done);
    counter.stall = false;
    for (int i = 0; i < STALLED; i++)
        pthread_join(p[i].thread, NULL);
    dtr_recorder_close(recorder, &stats);
    assert_int_equal(stats.events, STALLED * FLOOD);
    assert_int_equal(stats.lost_ring + stats.lost_output, 0);
    assert_int_equal(counter.wrong, 0);
}

/* --- sinks that come and go ------------------------------------------------------------------- */

static void *come_and_go(void *user)
{
    struct producer *p = user;
    dtr_sink sink;
    dtr_error error;
    if (dtr_recorder_sink(p->recorder, &sink, &error) != DTR_OK)
        return NULL;
    sink.name(sink.self, p->number, "a thread");
    for (int64_t i = 0; i < p->n; i++)
        emit(&sink, 0, INT64_MAX / 2 + i); /* the order of threads is nobody's */
    dtr_recorder_sink_done(p->recorder, &sink);
    p->done = true;
    return NULL;
}

/* 2,000 threads, twenty at a time: their rings are used again, and all they said is there. */
static void test_threads_come_and_go(void **state)
{
    struct counter counter = {0};
    struct producer p[20];
    dtr_recorder_stats stats;
    int64_t expected = 0;
    (void)state;
    dtr_recorder *recorder = open_recorder(&counter, 1024, false);
    for (int64_t round = 0; round < 100; round++) {
        for (int i = 0; i < 20; i++) {
            p[i] = (struct producer){.recorder = recorder, .number = i, .n = (round * i) % 37};
            expected += p[i].n;
            assert_int_equal(pthread_create(&p[i].thread, NULL, come_and_go, &p[i]), 0);
        }
        for (int i = 0; i < 20; i++) {
            pthread_join(p[i].thread, NULL);
            assert_true(p[i].done);
        }
    }
    dtr_recorder_close(recorder, &stats);
    assert_int_equal(stats.events, expected);
    assert_int_equal(counter.events, expected);
    assert_int_equal(counter.names, 2000);
}

static void test_too_many_sinks(void **state)
{
    static dtr_sink sinks[1025];
    struct counter counter = {0};
    dtr_recorder_stats stats;
    dtr_error error;
    (void)state;
    dtr_recorder *recorder = open_recorder(&counter, 64, false);
    for (int i = 0; i < 1024; i++) {
        assert_ok(dtr_recorder_sink(recorder, &sinks[i], &error), &error);
        emit(&sinks[i], 0, i);
    }
    assert_int_equal(dtr_recorder_sink(recorder, &sinks[1024], &error), DTR_E_LIMIT);
    dtr_recorder_sink_done(recorder, &sinks[500]);
    assert_ok(dtr_recorder_sink(recorder, &sinks[500], &error), &error);
    emit(&sinks[500], 0, 1024);
    dtr_recorder_close(recorder, &stats);
    assert_int_equal(stats.events, 1025);
}

/* --- names ------------------------------------------------------------------------------------ */

static char long_name[3 * DTRI_RING_MAX_BYTES];

static void hear_name(struct counter *c, int64_t id, const char *text)
{
    char expected[32];
    size_t length = strlen(text);
    if (id < 256) { /* every byte a name can have */
        c->wrong += length != 1 || (unsigned char)text[0] != id;
    } else if (id == 256) {
        c->wrong += length != 0;
    } else if (id == 257) {
        c->wrong += length != DTRI_RING_MAX_BYTES || strncmp(text, long_name, length) != 0;
    } else if (id == 258) {
        c->wrong += length != DTRI_RING_MAX_BYTES || strncmp(text, long_name, length) != 0;
    } else {
        snprintf(expected, sizeof expected, "name %lld", (long long)id);
        c->wrong += strcmp(text, expected) != 0;
    }
}

/* A small ring has them all, of every length and byte; the too long are cut. */
static void names(bool drop)
{
    struct counter counter = {.hear_name = hear_name};
    char text[32] = {0};
    dtr_error error;
    dtr_sink sink;
    memset(long_name, 'x', sizeof long_name - 1);
    dtr_recorder *recorder = open_recorder(&counter, 64, drop);
    assert_ok(dtr_recorder_sink(recorder, &sink, &error), &error);
    for (int byte = 1; byte < 256; byte++) {
        text[0] = (char)byte;
        sink.name(sink.self, byte, text);
    }
    sink.name(sink.self, 256, "");
    for (int i = 0; i < 50; i++)
        sink.name(sink.self, 257, long_name);
    sink.name(sink.self, 258, long_name + sizeof long_name - 1 - DTRI_RING_MAX_BYTES);
    for (int64_t id = 1000; id < 101000; id++) {
        snprintf(text, sizeof text, "name %lld", (long long)id);
        sink.name(sink.self, id, text);
    }
    dtr_recorder_close(recorder, NULL);
    assert_int_equal(counter.names, 255 + 1 + 51 + 100000);
    assert_int_equal(counter.wrong, 0);
}

static void test_names(void **state)
{
    (void)state;
    names(false);
    names(true);
}

/* --- forks ------------------------------------------------------------------------------------ */

/* In a child, an inherited recorder can be used and closed, and says that it records nothing. */
static _Noreturn void be_a_child(dtr_recorder *recorder, dtr_sink *sink, int i)
{
    dtr_sink other;
    dtr_error error;
    for (int j = 0; j < 10000; j++)
        emit(sink, 0, j);
    sink->name(sink->self, 1, "in a child");
    if (dtr_recorder_sink(recorder, &other, &error) != DTR_E_STATE)
        _exit(1);
    dtr_recorder_pause(recorder, true);
    dtr_recorder_dump(recorder);
    if (i % 2)
        dtr_recorder_sink_done(recorder, sink);
    dtr_recorder_close(recorder, NULL);
    _exit(0);
}

static void *keep_asking(void *user)
{
    struct producer *p = user;
    dtr_sink sink;
    dtr_error error;
    while (!p->done)
        if (dtr_recorder_sink(p->recorder, &sink, &error) == DTR_OK)
            dtr_recorder_sink_done(p->recorder, &sink);
    return NULL;
}

/* Forks while another thread opens and closes sinks, whose locks a child must not wait for. */
static void test_forks(void **state)
{
    struct counter counter = {0};
    struct producer busy = {0};
    dtr_recorder_stats stats;
    dtr_error error;
    dtr_sink sink;
    int code;
    (void)state;
    dtr_recorder *recorder = open_recorder(&counter, 64, false);
    busy.recorder = recorder;
    assert_ok(dtr_recorder_sink(recorder, &sink, &error), &error);
    assert_int_equal(pthread_create(&busy.thread, NULL, keep_asking, &busy), 0);
    for (int i = 0; i < 100; i++) {
        emit(&sink, 0, i);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(20);
            be_a_child(recorder, &sink, i);
        }
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    }
    busy.done = true;
    pthread_join(busy.thread, NULL);
    dtr_recorder_close(recorder, &stats);
    assert_int_equal(stats.events, 100);
    assert_int_equal(counter.names, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stall_drops),
        cmocka_unit_test(test_stall_blocks),
        cmocka_unit_test(test_threads_come_and_go),
        cmocka_unit_test(test_too_many_sinks),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_forks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
