/* The reorder window against a stable sort, and its limits: what is later than the window is
 * marked, and memory is bounded. */
#include "../support.h"

#include <stdbool.h>

#include "base/rng.h"
#include "record/reorder.h"

static struct dtri_rng rng;

static int64_t below(int64_t n)
{
    return (int64_t)dtri_rng_below(&rng, (uint64_t)n);
}

static dtr_event event_at(int64_t ts, int64_t number)
{
    return (dtr_event){.ts_ns = ts, .seq = number, .kind = DTR_EVENT_PIN};
}

static struct dtri_reorder *make(int64_t window, size_t max)
{
    struct dtri_reorder *reorder;
    dtr_error error;
    assert_ok(dtri_reorder_new(window, max, &reorder, &error), &error);
    return reorder;
}

/* By time, then arrival. */
static int by_time(const void *a, const void *b)
{
    const dtr_event *x = a, *y = b;
    return x->ts_ns != y->ts_ns ? (x->ts_ns > y->ts_ns) - (x->ts_ns < y->ts_ns)
                                : (x->seq > y->seq) - (x->seq < y->seq);
}

/* Pushes all and pops what is ready; returns how many came out. */
static size_t drive(struct dtri_reorder *r, const dtr_event *in, size_t n, dtr_event *out,
                    bool *late)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(dtri_reorder_push(r, &in[i]));
        while (dtri_reorder_pop(r, &out[n_out], &late[n_out]))
            n_out++;
    }
    dtri_reorder_end(r);
    while (dtri_reorder_pop(r, &out[n_out], &late[n_out]))
        n_out++;
    return n_out;
}

/* Events no later than the window come out sorted, however many there are. */
static void test_sorts(void **state)
{
    enum { MOST = 5000 };
    static dtr_event in[MOST], out[MOST];
    static bool late[MOST];
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t n = (size_t)below(MOST);
        int64_t window = below(1000), ts = below(1000000) - 500000;
        for (size_t i = 0; i < n; i++) {
            ts += below(20);
            in[i] = event_at(ts - below(window + 1), (int64_t)i);
        }
        struct dtri_reorder *r = make(window, MOST + 1);
        assert_int_equal(drive(r, in, n, out, late), n);
        assert_int_equal(dtri_reorder_late(r), 0);
        qsort(in, n, sizeof *in, by_time);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(out[i].seq, in[i].seq);
            assert_false(late[i]);
        }
        dtri_reorder_free(r);
    }
}

/* Anything goes: all come out once, in order but for those marked, never more held than allowed. */
static void test_late(void **state)
{
    enum { MOST = 3000 };
    static dtr_event in[MOST], out[MOST];
    static bool late[MOST], seen[MOST];
    int64_t n_late = 0;
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t n = 1 + (size_t)below(MOST), max = 1 + (size_t)below(100);
        memset(seen, 0, sizeof seen);
        for (size_t i = 0; i < n; i++) {
            int64_t ts = below(50) ? (int64_t)i * 10 - below(300)
                                   : (int64_t)dtri_rng_next(&rng) >> below(64);
            in[i] = event_at(ts, (int64_t)i);
        }
        struct dtri_reorder *r = make(below(500), max);
        assert_int_equal(drive(r, in, n, out, late), n);
        int64_t newest = INT64_MIN, marked = 0;
        for (size_t i = 0; i < n; i++) {
            assert_false(seen[out[i].seq]);
            seen[out[i].seq] = true;
            assert_int_equal(late[i], out[i].ts_ns < newest);
            newest = out[i].ts_ns > newest ? out[i].ts_ns : newest;
            marked += late[i];
        }
        assert_int_equal(dtri_reorder_late(r), marked);
        n_late += marked;
        dtri_reorder_free(r);
    }
    assert_true(n_late > 0);
}

/* What is inside the window waits, until the buffer is full. */
static void test_waits(void **state)
{
    struct dtri_reorder *r = make(10, 3);
    dtr_event event;
    bool late;
    (void)state;
    const int64_t times[] = {100, 110, 105};
    for (int i = 0; i < 2; i++) {
        event = event_at(times[i], i);
        assert_true(dtri_reorder_push(r, &event));
        assert_false(dtri_reorder_pop(r, &event, &late));
    }
    event = event_at(times[2], 2);
    assert_true(dtri_reorder_push(r, &event));
    assert_false(dtri_reorder_push(r, &event));
    assert_true(dtri_reorder_pop(r, &event, &late));
    assert_int_equal(event.ts_ns, 100);
    assert_false(dtri_reorder_pop(r, &event, &late));
    event = event_at(121, 3);
    assert_true(dtri_reorder_push(r, &event));
    for (int i = 0; i < 2; i++) {
        assert_true(dtri_reorder_pop(r, &event, &late));
        assert_int_equal(event.ts_ns, i ? 110 : 105);
    }
    assert_false(dtri_reorder_pop(r, &event, &late));
    event = event_at(104, 4);
    assert_true(dtri_reorder_push(r, &event));
    assert_true(dtri_reorder_pop(r, &event, &late));
    assert_true(late);
    dtri_reorder_free(r);
    dtri_reorder_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorts),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_waits),
    };
    dtri_rng_seed(&rng, 21);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
