/* The recorder: nothing lost and order kept with many threads, losses counted to the last event,
 * forks, failing outputs, and what is left on disk after a kill and on a full disk. */
#include "../support.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store_run.h"

#define N_THREADS 4
#define N_EVENTS  40000

static dtr_event freeing(int64_t thread, int64_t i)
{
    dtr_event event = {.ts_ns = i, .seq = i, .kind = DTR_EVENT_FREEING};
    event.u.freeing_ = (dtr_event_freeing){.storage = i, .bytes = thread, .in_use = 3 * i};
    return event;
}

/* --- an output in memory ---------------------------------------------------------------------- */

struct memory {
    int64_t next[N_THREADS]; /* the number that has to come next from each thread */
    int64_t events, names, commits, out_of_order, before_its_name;
    int64_t fail_at; /* event at which it fails; -1 never */
    int nap_us;      /* at the first event, so that rings fill up */
    bool named[N_THREADS];
};

static dtr_status keep_event(void *self, const dtr_event *event, dtr_error *error)
{
    struct memory *m = self;
    int64_t thread = event->u.freeing_.bytes;
    if (m->nap_us && m->events == 0)
        usleep((useconds_t)m->nap_us);
    if (m->events == m->fail_at) {
        snprintf(error->text, sizeof error->text, "the disk is full of %s", "cats");
        return DTR_E_FULL;
    }
    m->out_of_order += event->seq < m->next[thread];
    m->before_its_name += !m->named[thread];
    m->next[thread] = event->seq + 1;
    m->events++;
    return DTR_OK;
}

static dtr_status keep_name(void *self, int64_t id, const char *text, dtr_error *error)
{
    struct memory *m = self;
    (void)error;
    m->named[id] = strcmp(text, "a thread") == 0;
    m->names++;
    return DTR_OK;
}

static dtr_status keep_commit(void *self, dtr_error *error)
{
    struct memory *m = self;
    (void)error;
    m->commits++;
    return DTR_OK;
}

static dtr_status no_commit(void *self, dtr_error *error)
{
    (void)self, (void)error;
    return DTR_OK;
}

static dtr_recorder_output memory_output(struct memory *memory)
{
    return (dtr_recorder_output){
        .self = memory, .event = keep_event, .name = keep_name, .commit = keep_commit};
}

/* --- threads ---------------------------------------------------------------------------------- */

struct producer {
    dtr_recorder *recorder;
    int64_t number;
    pthread_t thread;
    bool failed;
};

static void *produce(void *user)
{
    struct producer *p = user;
    dtr_sink sink;
    dtr_error error;
    p->failed = dtr_recorder_sink(p->recorder, &sink, &error) != DTR_OK;
    if (p->failed)
        return NULL;
    sink.name(sink.self, p->number, "a thread");
    for (int64_t i = 0; i < N_EVENTS; i++) {
        dtr_event event = freeing(p->number, i);
        sink.emit(sink.self, &event);
    }
    return NULL;
}

static dtr_recorder_stats record(struct memory *memory, bool drop, int64_t ring_events)
{
    struct producer producers[N_THREADS];
    dtr_recorder_options options;
    dtr_recorder_stats stats;
    dtr_recorder *recorder;
    dtr_error error;
    dtr_recorder_options_init(&options);
    options.drop_when_full = drop;
    options.ring_events = ring_events;
    options.commit_interval_ns = 1000000;
    dtr_recorder_output output = memory_output(memory);
    assert_ok(dtr_recorder_open(&options, &output, &recorder, &error), &error);
    for (int i = 0; i < N_THREADS; i++) {
        producers[i] = (struct producer){.recorder = recorder, .number = i};
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_join(producers[i].thread, NULL), 0);
        assert_false(producers[i].failed);
    }
    dtr_recorder_close(recorder, &stats);
    return stats;
}

/* Rings far too small for the flood: producers wait, nothing is lost, names come first. */
static void test_nothing_lost(void **state)
{
    struct memory memory = {.fail_at = -1};
    (void)state;
    dtr_recorder_stats stats = record(&memory, false, 256);
    assert_int_equal(stats.status, DTR_OK);
    assert_int_equal(stats.events, N_THREADS * N_EVENTS);
    assert_int_equal(stats.lost_ring + stats.lost_output, 0);
    assert_int_equal(memory.events, stats.events);
    assert_int_equal(memory.out_of_order, 0);
    assert_int_equal(memory.before_its_name, 0);
    assert_int_equal(memory.names, N_THREADS);
    assert_true(memory.commits > 0 && stats.record_ns > 0);
}

/* Dropping: what arrived and what is counted as lost is what was emitted, and order is kept. */
static void test_drops_are_counted(void **state)
{
    struct memory memory = {.fail_at = -1, .nap_us = 50000};
    (void)state;
    dtr_recorder_stats stats = record(&memory, true, 64);
    assert_true(stats.lost_ring > 0);
    assert_int_equal(stats.events + stats.lost_ring, N_THREADS * N_EVENTS);
    assert_int_equal(memory.events, stats.events);
    assert_int_equal(memory.out_of_order, 0);
}

/* The output fails half-way: the reason is kept, the rest is counted, the program is not stopped.
 */
static void test_output_fails(void **state)
{
    struct memory memory = {.fail_at = 1000};
    (void)state;
    dtr_recorder_stats stats = record(&memory, false, 1024);
    assert_int_equal(stats.status, DTR_E_FULL);
    assert_string_equal(stats.why, "the disk is full of cats");
    assert_true(stats.events <= 1000); /* what was not committed is lost with the rest */
    assert_int_equal(stats.events + stats.lost_output, N_THREADS * N_EVENTS);
}

/* A child of fork has no writer thread: its sinks are silent and do not wait for room. */
static void test_fork(void **state)
{
    struct memory memory = {.fail_at = -1};
    dtr_recorder_options options;
    dtr_recorder_stats stats;
    dtr_recorder *recorder;
    dtr_error error;
    dtr_sink sink;
    int status;
    (void)state;
    dtr_recorder_options_init(&options);
    options.ring_events = 64;
    dtr_recorder_output output = memory_output(&memory);
    assert_ok(dtr_recorder_open(&options, &output, &recorder, &error), &error);
    assert_ok(dtr_recorder_sink(recorder, &sink, &error), &error);
    dtr_event event = freeing(0, 0);
    sink.emit(sink.self, &event);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 1000; i++) /* more than the ring takes */
            sink.emit(sink.self, &event);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    dtr_recorder_close(recorder, &stats);
    assert_int_equal(stats.events, 1);
}

/* A sink whose events come up to 1000 ns late: they arrive in order of time, but for one that comes
 * later still, and all of them arrive. */
struct ordered {
    int64_t last_ts_ns, n, backwards;
};

static dtr_status keep_order(void *self, const dtr_event *event, dtr_error *error)
{
    struct ordered *o = self;
    (void)error;
    o->backwards += event->ts_ns < o->last_ts_ns;
    o->last_ts_ns = event->ts_ns > o->last_ts_ns ? event->ts_ns : o->last_ts_ns;
    o->n++;
    return DTR_OK;
}

static void test_late_sink(void **state)
{
    struct ordered ordered = {0};
    struct memory memory = {.fail_at = -1};
    dtr_recorder_output output = memory_output(&memory);
    dtr_recorder_options options;
    dtr_recorder_stats stats;
    dtr_recorder *recorder;
    dtr_error error;
    dtr_sink sink;
    (void)state;
    output.self = &ordered;
    output.event = keep_order;
    output.name = NULL;
    output.commit = no_commit;
    dtr_recorder_options_init(&options);
    assert_ok(dtr_recorder_open(&options, &output, &recorder, &error), &error);
    assert_int_equal(dtr_recorder_late_sink(recorder, 0, &sink, &error), DTR_E_INVALID);
    assert_ok(dtr_recorder_late_sink(recorder, 1000, &sink, &error), &error);
    for (int64_t i = 0; i < 20000; i++) {
        dtr_event event = freeing(0, i);
        event.ts_ns = 10 * i + (i * 7919) % 900; /* less than the window apart from its neighbours */
        if (i == 15000)
            event.ts_ns = 5;
        sink.emit(sink.self, &event);
    }
    dtr_recorder_close(recorder, &stats);
    assert_int_equal(stats.events, 20000);
    assert_int_equal(ordered.n, 20000);
    assert_int_equal(ordered.backwards, 1);
    assert_int_equal(stats.late, 1);
}

static void test_bad_options(void **state)
{
    static const int64_t bad[] = {0, -1, 63, 100, INT64_C(1) << 40};
    struct memory memory = {0};
    dtr_recorder_output output = memory_output(&memory);
    dtr_recorder_options options;
    dtr_recorder *recorder;
    dtr_error error;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dtr_recorder_options_init(&options);
        options.ring_events = bad[i];
        assert_int_equal(dtr_recorder_open(&options, &output, &recorder, &error), DTR_E_INVALID);
    }
    dtr_recorder_close(NULL, NULL);
}

/* --- into a database -------------------------------------------------------------------------- */

/* Records freeings until `n` are out or somebody kills the process; the exit status is the
 * recorder's status, negated.  `pages` limits the database as a full disk would; 0: no limit. */
static _Noreturn void record_into(const char *path, int64_t n, int pages)
{
    char pragma[64];
    struct dtri_store_output to = {0};
    struct dtri_run run;
    dtr_recorder_options options;
    dtr_recorder_stats stats;
    dtr_recorder *recorder;
    dtr_error error;
    dtr_sink sink;
    dtri_run_init(&run, "live");
    dtr_recorder_options_init(&options);
    options.commit_interval_ns = 2000000;
    if (dtri_store_create(path, true, &to.store, &error) != DTR_OK ||
        dtri_store_add_run(to.store, &run, &error) != DTR_OK ||
        dtri_store_commit(to.store, &error) != DTR_OK ||
        dtri_store_writer_new(to.store, run.id, &to.writer, &error) != DTR_OK)
        _exit(100);
    snprintf(pragma, sizeof pragma, "PRAGMA max_page_count = %d", pages);
    if (pages && sqlite3_exec(dtri_store_db(to.store), pragma, NULL, NULL, NULL) != SQLITE_OK)
        _exit(104);
    to.run = run.id;
    dtr_recorder_output output = dtri_store_output(&to);
    if (dtr_recorder_open(&options, &output, &recorder, &error) != DTR_OK ||
        dtr_recorder_sink(recorder, &sink, &error) != DTR_OK)
        _exit(101);
    for (int64_t i = 0; i < n; i++) {
        dtr_event event = freeing(i * 7919 % 1000003, i);
        sink.emit(sink.self, &event);
        if (n <= 1000000 && i % 5000 == 0)
            usleep(3000); /* something gets committed before the limit, however slow the writer */
    }
    dtr_recorder_close(recorder, &stats);
    bool counted = stats.events + stats.lost_output == n && stats.lost_ring == 0;
    _exit(!counted || (stats.status != DTR_OK && !stats.why[0]) ? 102 : -stats.status);
}

static int64_t integer_of(struct dtri_store *store, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* The file is whole, and what is in it is a beginning of what was emitted, without a hole. */
static int64_t assert_whole(const char *path)
{
    struct dtri_store *store;
    dtr_error error;
    sqlite3_stmt *statement;
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    assert_int_equal(
        sqlite3_prepare_v2(dtri_store_db(store), "PRAGMA integrity_check", -1, &statement, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    int64_t n = integer_of(store, "SELECT count(*) FROM dtr_event_freeing");
    int64_t last = integer_of(store, "SELECT ifnull(max(storage), -1) FROM dtr_event_freeing");
    assert_int_equal(last, n - 1);
    dtri_store_close(store, NULL);
    return n;
}

/* kill -9 while it records: what was committed is there. */
static void test_kill(void **state)
{
    char path[600];
    int status;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("killed.sqlite"));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        record_into(path, INT64_MAX / 2, 0);
    usleep(400000);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(assert_whole(path) > 0);
}

/* The disk fills up.  The recorder says so and counts, the program goes on to its end, and the file
 * is whole. */
static void fill_disk(const char *path, int64_t file_bytes, int pages, dtr_status expected)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {(rlim_t)file_bytes, (rlim_t)file_bytes};
        signal(SIGXFSZ, SIG_IGN);
        if (file_bytes && setrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(103);
        record_into(path, 1000000, pages);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), -expected);
    int64_t n = assert_whole(path);
    assert_true(n > 0 && n < 1000000);
}

/* SQLite cannot get another page, as when the disk has none. */
static void test_full_disk(void **state)
{
    (void)state;
    fill_disk(scratch("full.sqlite"), 0, 200, DTR_E_FULL);
}

/* The system refuses to let a file grow, in the middle of a write. */
static void test_file_limit(void **state)
{
    (void)state;
    fill_disk(scratch("limit.sqlite"), 512 * 1024, 0, DTR_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_lost), cmocka_unit_test(test_drops_are_counted),
        cmocka_unit_test(test_output_fails), cmocka_unit_test(test_fork),
        cmocka_unit_test(test_late_sink),
        cmocka_unit_test(test_bad_options),  cmocka_unit_test(test_kill),
        cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_file_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
