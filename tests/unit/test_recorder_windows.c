/* Recording windows and the flight recorder: what is recorded lies inside a window, what is left
 * out is counted, and of what is kept the newest is there. */
#include "../support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "dtr/recorder.h"

#define MAX_EVENTS  400000
#define MAX_WINDOWS 4096

/* --- an output in memory ---------------------------------------------------------------------- */

struct memory {
    dtr_event *events;
    atomic_long n;
    dtr_recorder_window windows[MAX_WINDOWS];
    int n_windows; /* the highest id + 1 */
    int told;
    useconds_t nap_us; /* at each commit */
};

static dtr_status keep_event(void *self, const dtr_event *event, dtr_error *error)
{
    struct memory *m = self;
    (void)error;
    if (m->n == MAX_EVENTS)
        return DTR_E_FULL;
    m->events[m->n] = *event;
    m->n++;
    return DTR_OK;
}

static dtr_status keep_name(void *self, int64_t id, const char *text, dtr_error *error)
{
    (void)self, (void)id, (void)text, (void)error;
    return DTR_OK;
}

static dtr_status keep_commit(void *self, dtr_error *error)
{
    struct memory *m = self;
    (void)error;
    if (m->nap_us)
        usleep(m->nap_us);
    return DTR_OK;
}

static dtr_status keep_window(void *self, const dtr_recorder_window *window, dtr_error *error)
{
    struct memory *m = self;
    (void)error;
    m->told++;
    assert_true(window->id >= 0 && window->id < MAX_WINDOWS && window->id <= m->n_windows);
    if (window->id == m->n_windows)
        m->n_windows++;
    m->windows[window->id] = *window;
    return DTR_OK;
}

struct fixture {
    struct memory memory;
    dtr_recorder_options options;
    dtr_recorder *recorder;
    dtr_recorder_stats stats;
    dtr_sink sink;
    int64_t emitted, definitions;
};

static void init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    f->memory.events = malloc(MAX_EVENTS * sizeof *f->memory.events);
    assert_non_null(f->memory.events);
    dtr_recorder_options_init(&f->options);
    f->options.commit_interval_ns = 1000000;
}

static void open_recorder(struct fixture *f)
{
    dtr_error error;
    dtr_recorder_output output = {.self = &f->memory,
                                  .event = keep_event,
                                  .name = keep_name,
                                  .commit = keep_commit,
                                  .window = keep_window};
    assert_ok(dtr_recorder_open(&f->options, &output, &f->recorder, &error), &error);
    assert_ok(dtr_recorder_sink(f->recorder, &f->sink, &error), &error);
}

static void done(struct fixture *f)
{
    free(f->memory.events);
}

static void emit_span(struct fixture *f, int64_t ts_ns, int64_t dur_ns)
{
    dtr_event event = {.kind = DTR_EVENT_OPERATOR_RUN, .ts_ns = ts_ns, .seq = f->emitted++};
    event.u.operator_run_.dur_ns = dur_ns;
    f->sink.emit(f->sink.self, &event);
}

static void emit_at(struct fixture *f, dtr_event_kind kind, int64_t ts_ns, int64_t value)
{
    dtr_event event = {.kind = kind, .ts_ns = ts_ns, .seq = f->emitted++};
    event.u.raw[0] = kind == DTR_EVENT_MARK ? DTR_MARK_ITERATION : value;
    event.u.raw[2] = value;
    f->definitions += kind == DTR_EVENT_TENSOR;
    f->sink.emit(f->sink.self, &event);
}

/* --- what is held of windows ------------------------------------------------------------------ */

static bool is_definition(const dtr_event *event)
{
    return event->kind == DTR_EVENT_TENSOR;
}

/* When it was emitted: a span comes at its end. */
static int64_t moment(const dtr_event *event)
{
    return event->ts_ns +
           (event->kind == DTR_EVENT_OPERATOR_RUN ? event->u.operator_run_.dur_ns : 0);
}

static bool inside(const struct memory *m, int64_t ts_ns)
{
    for (int i = 0; i < m->n_windows; i++)
        if (ts_ns >= m->windows[i].begin_ts_ns &&
            (m->windows[i].end_ts_ns == INT64_MIN || ts_ns <= m->windows[i].end_ts_ns))
            return true;
    return false;
}

static int64_t skipped(const struct memory *m)
{
    int64_t sum = 0;
    for (int i = 0; i < m->n_windows; i++)
        sum += m->windows[i].skipped;
    return sum;
}

static void assert_windows(struct fixture *f)
{
    const struct memory *m = &f->memory;
    assert_int_equal(f->stats.status, DTR_OK);
    assert_int_equal(f->stats.lost_ring + f->stats.lost_output, 0);
    assert_int_equal(m->n, f->stats.events);
    assert_int_equal(m->n + skipped(m), f->emitted);
    int64_t definitions = 0, last = -1;
    for (long i = 0; i < m->n; i++) {
        definitions += is_definition(&m->events[i]);
        assert_true(m->events[i].seq > last);
        last = m->events[i].seq;
        if (m->n_windows && !is_definition(&m->events[i]) && !inside(m, moment(&m->events[i])))
            fail_msg("event %lld at %lld is in no window", (long long)m->events[i].seq,
                     (long long)m->events[i].ts_ns);
    }
    assert_int_equal(definitions, f->definitions);
    for (int i = 0; i < m->n_windows; i++) {
        assert_non_null(m->windows[i].opened_by);
        assert_true(m->windows[i].closed_by || i == m->n_windows - 1);
        assert_true(m->windows[i].end_ts_ns == INT64_MIN ||
                    m->windows[i].begin_ts_ns <= m->windows[i].end_ts_ns);
    }
}

/* --- the program pauses ----------------------------------------------------------------------- */

/* Random pauses among events, of which spans begin before they are emitted. */
static void pauses(uint64_t seed, int64_t ring_events, bool spans)
{
    struct fixture f;
    struct dtri_rng rng;
    dtri_rng_seed(&rng, seed);
    init(&f);
    f.options.ring_events = ring_events;
    open_recorder(&f);
    bool paused = false;
    for (int64_t i = 0; i < 20000; i++) {
        if (dtri_rng_below(&rng, 50) == 0) {
            paused = dtri_rng_below(&rng, 2);
            dtr_recorder_pause(f.recorder, paused);
        }
        int64_t now = 1000 + i * 10, dur = (int64_t)dtri_rng_below(&rng, 60);
        int what = (int)dtri_rng_below(&rng, 4);
        if (what == 0)
            emit_at(&f, DTR_EVENT_TENSOR, now, i);
        else if (what == 1 && spans)
            emit_span(&f, now - dur, dur);
        else
            emit_at(&f, DTR_EVENT_FREEING, now, i);
    }
    dtr_recorder_close(f.recorder, &f.stats);
    assert_windows(&f);
    assert_true(f.memory.n_windows > 10);
    for (int i = 0; i < f.memory.n_windows; i++) {
        const dtr_recorder_window *w = &f.memory.windows[i];
        assert_string_equal(w->opened_by, i ? "program" : w->skipped ? "program" : "start");
        if (i < f.memory.n_windows - 1)
            assert_string_equal(w->closed_by, "program");
    }
    done(&f);
}

static void test_pauses(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        pauses(seed, seed % 2 ? 65536 : 64, false);
}

static void test_pauses_among_spans(void **state)
{
    (void)state;
    for (uint64_t seed = 11; seed <= 16; seed++)
        pauses(seed, seed % 2 ? 65536 : 64, true);
}

/* Paused from the beginning to the end: nothing but definitions, all of the rest counted. */
static void test_never_recording(void **state)
{
    struct fixture f;
    (void)state;
    init(&f);
    open_recorder(&f);
    dtr_recorder_pause(f.recorder, true);
    for (int64_t i = 0; i < 1000; i++)
        emit_at(&f, i % 3 ? DTR_EVENT_FREEING : DTR_EVENT_TENSOR, i, i);
    dtr_recorder_close(f.recorder, &f.stats);
    assert_windows(&f);
    assert_int_equal(f.stats.events, 334);
    assert_int_equal(skipped(&f.memory), 666);
    done(&f);
}

/* A pause that nobody notices is none. */
static void test_no_pause(void **state)
{
    struct fixture f;
    (void)state;
    init(&f);
    open_recorder(&f);
    for (int64_t i = 0; i < 1000; i++) {
        dtr_recorder_pause(f.recorder, true);
        dtr_recorder_pause(f.recorder, false);
        emit_at(&f, DTR_EVENT_FREEING, i, i);
    }
    dtr_recorder_close(f.recorder, &f.stats);
    assert_windows(&f);
    assert_int_equal(f.memory.n_windows, 0);
    assert_int_equal(f.stats.events, 1000);
    done(&f);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void steps(int64_t begin, int64_t end, int64_t n_steps)
{
    struct fixture f;
    init(&f);
    f.options.step_begin = begin;
    f.options.step_end = end;
    open_recorder(&f);
    int64_t wanted = 0;
    for (int64_t step = 0; step < n_steps; step++) {
        emit_at(&f, DTR_EVENT_MARK, step * 1000, step);
        for (int64_t i = 1; i < 100; i++)
            emit_at(&f, i % 5 ? DTR_EVENT_FREEING : DTR_EVENT_TENSOR, step * 1000 + i, i);
        wanted += step >= begin && step < end ? 100 : 19;
    }
    dtr_recorder_close(f.recorder, &f.stats);
    assert_windows(&f);
    assert_int_equal(f.stats.events, wanted);
    if (begin == 0 && end >= n_steps) {
        assert_int_equal(f.memory.n_windows, 0); /* all of it */
    } else if (begin < n_steps) {
        const dtr_recorder_window *w = &f.memory.windows[0];
        assert_int_equal(f.memory.n_windows, 1);
        assert_string_equal(w->opened_by, begin ? "step" : "start");
        assert_string_equal(w->closed_by, end < n_steps ? "step" : "end");
        assert_int_equal(w->begin_ts_ns, begin * 1000);
        assert_int_equal(w->skipped, f.emitted - wanted);
    }
    done(&f);
}

static void test_steps(void **state)
{
    (void)state;
    steps(3, 5, 10);
    steps(3, INT64_MAX, 10);
    steps(0, 2, 10);
    steps(0, 100, 10);
    steps(20, 30, 10);
}

/* --- time ------------------------------------------------------------------------------------- */

static void timed(int64_t delay_ms, int64_t duration_ms)
{
    struct fixture f;
    init(&f);
    f.options.delay_ns = delay_ms * 1000000;
    f.options.duration_ns = duration_ms * 1000000;
    int64_t begin = dtri_monotonic_ns();
    open_recorder(&f);
    while (dtri_monotonic_ns() - begin < 350000000 && f.emitted < MAX_EVENTS) {
        int64_t now = dtri_monotonic_ns();
        emit_at(&f, f.emitted % 4 ? DTR_EVENT_FREEING : DTR_EVENT_TENSOR, now, now);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    dtr_recorder_close(f.recorder, &f.stats);
    assert_windows(&f);
    assert_int_equal(f.memory.n_windows, 1);
    const dtr_recorder_window *w = &f.memory.windows[0];
    assert_string_equal(w->opened_by, delay_ms ? "delay" : "start");
    assert_string_equal(w->closed_by, duration_ms ? "duration" : "end");
    if (delay_ms)
        assert_true(w->begin_ts_ns >= begin + delay_ms * 1000000);
    done(&f);
}

static void test_time(void **state)
{
    (void)state;
    timed(40, 0);
    timed(0, 100);
    timed(40, 200);
}

/* --- the newest ------------------------------------------------------------------------------- */

/* N events and k more: the newest N are there, and k were overwritten. */
static void keep(int64_t n, int64_t more)
{
    struct fixture f;
    init(&f);
    f.options.keep_events = n;
    open_recorder(&f);
    for (int64_t i = 0; i < n + more; i++)
        emit_at(&f, i % 7 ? DTR_EVENT_FREEING : DTR_EVENT_CANDIDATE, i, i);
    dtr_recorder_close(f.recorder, &f.stats);
    int64_t kept = n + more < n ? n + more : n;
    assert_int_equal(f.stats.overwritten, more);
    assert_int_equal(f.stats.events, kept);
    assert_int_equal(f.memory.n, kept);
    for (int64_t i = 0; i < kept; i++)
        assert_int_equal(f.memory.events[i].seq, more + i);
    assert_int_equal(f.memory.n_windows, 1);
    assert_int_equal(f.memory.windows[0].begin_ts_ns, more);
    assert_int_equal(f.memory.windows[0].end_ts_ns, n + more - 1);
    assert_string_equal(f.memory.windows[0].opened_by, "dump");
    assert_string_equal(f.memory.windows[0].closed_by, "end");
    done(&f);
}

static void test_newest(void **state)
{
    (void)state;
    keep(1, 0);
    keep(1, 5);
    keep(1000, 0);
    keep(1000, 1);
    keep(1000, 54321);
    keep(100000, 100001); /* many blocks */
}

/* By age: what is left is no older than the newest by more. */
static void test_newest_time(void **state)
{
    struct fixture f;
    (void)state;
    init(&f);
    f.options.keep_ns = 500;
    open_recorder(&f);
    for (int64_t i = 0; i < 10000; i++)
        emit_at(&f, DTR_EVENT_FREEING, i, i);
    dtr_recorder_close(f.recorder, &f.stats);
    assert_int_equal(f.memory.n, 501);
    assert_int_equal(f.stats.overwritten, 10000 - 501);
    assert_int_equal(f.memory.events[0].ts_ns, 9499);
    done(&f);
}

static bool wait_events(struct memory *m, long n)
{
    for (int i = 0; i < 20000 && m->n < n; i++)
        usleep(500);
    return m->n >= n;
}

/* Several dumps of one run: by call, by running out of memory, at the end. */
static void test_dumps(void **state)
{
    static const char *const causes[] = {"program", "out of memory", "end"};
    struct fixture f;
    (void)state;
    init(&f);
    f.options.keep_events = 100;
    open_recorder(&f);
    for (int64_t i = 0; i < 150; i++)
        emit_at(&f, DTR_EVENT_FREEING, f.emitted, i);
    dtr_recorder_dump(f.recorder);
    assert_true(wait_events(&f.memory, 100));
    for (int64_t i = 0; i < 120; i++)
        emit_at(&f, DTR_EVENT_FREEING, f.emitted, i);
    emit_at(&f, DTR_EVENT_OUT_OF_MEMORY, f.emitted, 0);
    assert_true(wait_events(&f.memory, 200));
    for (int64_t i = 0; i < 10; i++)
        emit_at(&f, DTR_EVENT_FREEING, f.emitted, i);
    dtr_recorder_close(f.recorder, &f.stats);
    assert_int_equal(f.memory.n_windows, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(f.memory.windows[i].opened_by, "dump");
        assert_string_equal(f.memory.windows[i].closed_by, causes[i]);
    }
    assert_int_equal(f.stats.events, 210);
    assert_int_equal(f.stats.overwritten, f.emitted - 210);
    assert_int_equal(f.memory.events[199].kind, DTR_EVENT_OUT_OF_MEMORY);
    done(&f);
}

/* Paused now and then: what was left out is told with the dumps, or behind the last. */
static void keep_and_pause(int64_t dumps)
{
    struct fixture f;
    init(&f);
    f.options.keep_events = 50;
    open_recorder(&f);
    for (int64_t i = 0; i < 4000; i++) {
        dtr_recorder_pause(f.recorder, i / 100 % 2 == 1);
        emit_at(&f, i % 5 ? DTR_EVENT_FREEING : DTR_EVENT_TENSOR, i, i);
        if (dumps && i % (4000 / dumps) == 99) {
            dtr_recorder_dump(f.recorder);
            usleep(5000);
        }
    }
    dtr_recorder_close(f.recorder, &f.stats);
    assert_int_equal(skipped(&f.memory), 20 * 80);
    assert_int_equal(f.stats.events + f.stats.overwritten + skipped(&f.memory), f.emitted);
    done(&f);
}

/* Nothing was kept, since all was paused. */
static void keep_nothing(void)
{
    struct fixture f;
    init(&f);
    f.options.keep_events = 50;
    open_recorder(&f);
    dtr_recorder_pause(f.recorder, true);
    for (int64_t i = 0; i < 70; i++)
        emit_at(&f, DTR_EVENT_FREEING, i, i);
    dtr_recorder_close(f.recorder, &f.stats);
    assert_int_equal(f.stats.events, 0);
    assert_int_equal(skipped(&f.memory), 70);
    done(&f);
}

static void test_dumps_and_pauses(void **state)
{
    (void)state;
    keep_and_pause(0);
    keep_and_pause(4);
    keep_nothing();
}

/* A span that began before the dump before it does not make the two overlap. */
static void test_dumps_among_spans(void **state)
{
    struct fixture f;
    (void)state;
    init(&f);
    f.options.keep_events = 10;
    open_recorder(&f);
    emit_at(&f, DTR_EVENT_FREEING, 1000, 0);
    dtr_recorder_dump(f.recorder);
    assert_true(wait_events(&f.memory, 1));
    emit_span(&f, 500, 600);
    dtr_recorder_close(f.recorder, &f.stats);
    assert_int_equal(f.memory.n_windows, 2);
    assert_int_equal(f.memory.windows[0].end_ts_ns, 1000);
    assert_int_equal(f.memory.windows[1].begin_ts_ns, 1100);
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_pauses_among_spans),
        cmocka_unit_test(test_no_pause),
        cmocka_unit_test(test_never_recording),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_newest),
        cmocka_unit_test(test_newest_time),
        cmocka_unit_test(test_dumps),
        cmocka_unit_test(test_dumps_among_spans),
        cmocka_unit_test(test_dumps_and_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
