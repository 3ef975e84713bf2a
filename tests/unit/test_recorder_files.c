/* Several runs in one file: their commits, and what the failure of one is to the others. */
#include "../support.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "session/collect.h"
#include "store/stream.h"

struct fixture {
    char path[512];
    struct dtri_collect *collect;
    struct dtri_collector_output out;
    int64_t seq[4];
    dtr_error error;
};

static void begin_run(struct fixture *f, unsigned stream)
{
    struct dtri_message_run message = {0};
    dtri_run_init(&message.run, "live");
    message.run.has_events = 1;
    memcpy(message.path, f->path, sizeof f->path);
    assert_ok(
        f->out.message(f->out.self, stream, DTRI_MESSAGE_RUN, &message, sizeof message, &f->error),
        &f->error);
}

static void init(struct fixture *f, const char *name)
{
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "%s", scratch(name));
    assert_ok(dtri_collect_new(DTRI_COLLECT_REPLACE, &f->collect, &f->error), &f->error);
    f->out = dtri_collect_output(f->collect);
}

static dtr_status emit(struct fixture *f, unsigned stream, dtr_event_kind kind)
{
    int64_t seq = f->seq[stream];
    dtr_event event = {.kind = kind, .ts_ns = seq * 7919 % 10007, .seq = seq};
    for (int i = 0; i < 3; i++) /* hard to pack */
        event.u.raw[i] = (int64_t)((uint64_t)(seq + i) * UINT64_C(0x9e3779b97f4a7c15) >> 2);
    dtr_status status = f->out.event(f->out.self, stream, &event, &f->error);
    f->seq[stream] += status == DTR_OK;
    return status;
}

static void end_run(struct fixture *f, unsigned stream, dtr_status status, int64_t lost)
{
    struct dtri_run run;
    struct dtri_stream_end end = {.status = status, .lost_output = lost};
    dtri_run_init(&run, "live");
    dtri_run_set_text(run.result, "ok");
    f->out.message(f->out.self, stream, DTRI_MESSAGE_RESULT, &run, sizeof run, &f->error);
    assert_ok(f->out.closed(f->out.self, stream, &end, &f->error), &f->error);
}

static void done(struct fixture *f)
{
    dtri_collect_free(f->collect);
    unlink(f->path);
}

static struct dtri_store *look(struct fixture *f)
{
    struct dtri_store *store;
    assert_ok(dtri_store_open(f->path, DTRI_STORE_READ, &store, &f->error), &f->error);
    return store;
}

static int64_t number_of(struct dtri_store *store, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* Events of a run from 0 on without a hole, or -1. */
static int64_t unbroken(struct fixture *f, struct dtri_store *store, int64_t run)
{
    const struct dtri_stream_options options = {run, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX};
    struct dtri_stream *stream;
    const dtr_event *event;
    int64_t n = 0;
    assert_ok(dtri_stream_open(store, &options, &stream, &f->error), &f->error);
    for (;; n++) {
        assert_ok(dtri_stream_next(stream, &event, &f->error), &f->error);
        if (!event || event->seq != n)
            break;
    }
    dtri_stream_free(stream);
    if (event)
        print_error("run %lld: %lld follows %lld\n", (long long)run, (long long)event->seq,
                    (long long)n - 1);
    return event ? -1 : n;
}

/* One run commits while another has written a part of what came: a kill must not find that part
 * alone. */
static void test_commits_are_whole(void **state)
{
    struct fixture f;
    (void)state;
    init(&f, "whole.sqlite");
    begin_run(&f, 0);
    begin_run(&f, 1);
    for (int i = 0; i < 6000; i++)
        assert_ok(emit(&f, 1, i % 50 ? DTR_EVENT_FREEING : DTR_EVENT_ALLOCATION), &f.error);
    assert_ok(emit(&f, 0, DTR_EVENT_FREEING), &f.error);
    assert_ok(f.out.commit(f.out.self, 0, &f.error), &f.error);
    struct dtri_store *store = look(&f);
    assert_int_equal(unbroken(&f, store, 1), 1);
    assert_int_equal(unbroken(&f, store, 2), 6000);
    dtri_store_close(store, NULL);
    end_run(&f, 0, DTR_OK, 0);
    end_run(&f, 1, DTR_OK, 0);
    done(&f);
}

static void limit_files(rlim_t bytes, struct rlimit *old)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    if (old)
        *old = limit;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The file cannot grow while one run writes: what another had not committed is lost with it, and
 * both say so, to the event; a third, all of which was committed, and a new one go on. */
static void test_one_file_fails(void **state)
{
    struct fixture f;
    struct rlimit old;
    (void)state;
    init(&f, "fails.sqlite");
    for (unsigned i = 0; i < 3; i++)
        begin_run(&f, i);
    for (int i = 0; i < 100; i++)
        assert_ok(emit(&f, 2, DTR_EVENT_FREEING), &f.error);
    assert_ok(f.out.commit(f.out.self, 2, &f.error), &f.error);
    for (int i = 0; i < 5000; i++)
        assert_ok(emit(&f, 1, DTR_EVENT_FREEING), &f.error);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(900 << 10, &old);
    dtr_status status = DTR_OK;
    while (status == DTR_OK && f.seq[0] < 10000000)
        status = emit(&f, 0, DTR_EVENT_FREEING);
    assert_int_not_equal(status, DTR_OK);
    limit_files(old.rlim_cur, NULL);
    assert_int_not_equal(emit(&f, 1, DTR_EVENT_FREEING), DTR_OK);
    assert_ok(emit(&f, 2, DTR_EVENT_FREEING), &f.error);
    end_run(&f, 0, DTR_E_IO, f.seq[0]);
    end_run(&f, 1, DTR_E_IO, f.seq[1]);
    begin_run(&f, 3);
    assert_ok(emit(&f, 3, DTR_EVENT_FREEING), &f.error);
    end_run(&f, 2, DTR_OK, 0);
    end_run(&f, 3, DTR_OK, 0);
    assert_ok(dtri_collect_finish(f.collect, 0, NULL, NULL, &f.error), &f.error);
    struct dtri_store *store = look(&f);
    assert_int_equal(number_of(store, "SELECT count FROM loss WHERE run = 1"), f.seq[0]);
    assert_int_equal(number_of(store, "SELECT count FROM loss WHERE run = 2"), 5000);
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss"), 2);
    assert_int_equal(number_of(store, "SELECT count(*) FROM run WHERE result = 'ok'"), 4);
    assert_int_equal(unbroken(&f, store, 1), 0);
    assert_int_equal(unbroken(&f, store, 2), 0);
    assert_int_equal(unbroken(&f, store, 3), 101);
    assert_int_equal(unbroken(&f, store, 4), 1);
    dtri_store_close(store, NULL);
    done(&f);
}

/* What one program says wrong costs the others nothing. */
static void test_nonsense_stays_with_its_run(void **state)
{
    struct fixture f;
    (void)state;
    init(&f, "nonsense.sqlite");
    begin_run(&f, 0);
    begin_run(&f, 1);
    for (int i = 0; i < 5000; i++)
        assert_ok(emit(&f, 1, DTR_EVENT_FREEING), &f.error);
    assert_int_not_equal(
        f.out.message(f.out.self, 0, DTRI_MESSAGE_SETTING, "a\0b\0nobody", 11, &f.error), DTR_OK);
    assert_int_not_equal(emit(&f, 0, DTR_EVENT_FREEING), DTR_OK);
    assert_ok(emit(&f, 1, DTR_EVENT_FREEING), &f.error);
    end_run(&f, 0, DTR_E_IO, 1);
    end_run(&f, 1, DTR_OK, 0);
    assert_ok(dtri_collect_finish(f.collect, 0, NULL, NULL, &f.error), &f.error);
    struct dtri_store *store = look(&f);
    assert_int_equal(unbroken(&f, store, 2), 5001);
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss WHERE run = 2"), 0);
    assert_int_equal(number_of(store, "SELECT count FROM loss WHERE run = 1"), 1);
    dtri_store_close(store, NULL);
    done(&f);
}

static int remove_directory(void **state)
{
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch(""));
    return rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commits_are_whole),
        cmocka_unit_test(test_one_file_fails),
        cmocka_unit_test(test_nonsense_stays_with_its_run),
    };
    return cmocka_run_group_tests(tests, NULL, remove_directory);
}
