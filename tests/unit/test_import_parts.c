/* The parts of the import: numbers, the sorter, the table of blocks, call stacks, and what happens
 * when memory runs out anywhere in it. */
#include "../fault/fault.h"
#include "../support.h"

#include <dirent.h>
#include <unistd.h>

#include "dtr/event.h"
#include "import/frames.h"
#include "import/import.h"
#include "import/json.h"
#include "import/live.h"
#include "import/spool.h"

static void expect_integer(const char *text, int scale, int64_t expected)
{
    int64_t value = -77;
    if (!dtri_json_integer(text, scale, &value) || value != expected)
        fail_msg("%s * 10^%d is %lld, not %lld", text, scale, (long long)value,
                 (long long)expected);
}

static void test_integers_are_exact(void **state)
{
    static const char *const none[] = {"",   "-",   ".",     "x",    "1x",
                                       "1e", "1e+", "1.2.3", "1e99", "0x1"};
    int64_t value = 5;
    (void)state;
    expect_integer("0", 3, 0);
    expect_integer("-0.0004", 3, 0);
    expect_integer("12", 0, 12);
    expect_integer("-12.0006", 3, -12001);
    expect_integer("0.06", 0, 0);
    expect_integer("0.5", 0, 1);
    expect_integer("1e3", 3, 1000000);
    expect_integer("1.5E-3", 3, 2);
    expect_integer("1700000000123456.789", 3, INT64_C(1700000000123456789));
    expect_integer("1700000000123456.7894999", 3, INT64_C(1700000000123456789));
    expect_integer("9223372036854775799", 0, INT64_C(9223372036854775799));
    expect_integer("0.0000000000000000000000001", 3, 0);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (dtri_json_integer(none[i], 3, &value))
            fail_msg("'%s' was taken for %lld", none[i], (long long)value);
    assert_int_equal(value, 5);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* More records than fit into memory, in a shuffled order, twice. */
static void test_sorter(void **state)
{
    enum { N = 1300000 };
    const struct dtri_record *record;
    struct dtri_spool *spool;
    dtr_error error;
    uint32_t random = 1;
    (void)state;
    assert_ok(dtri_spool_new(environment("TMPDIR", "/tmp"), &spool, &error), &error);
    for (int i = 0; i < N; i++) {
        struct dtri_record r = {.lane = next_random(&random) % 3,
                                .time = (int64_t)(next_random(&random) % 1000) - 500,
                                .a = i};
        assert_ok(dtri_spool_add(spool, &r, &error), &error);
    }
    for (int pass = 0; pass < 2; pass++) {
        struct dtri_record last = {.time = INT64_MIN};
        int64_t sum = 0;
        int n = 0;
        assert_ok(dtri_spool_read(spool, &error), &error);
        for (;; n++) {
            assert_ok(dtri_spool_next(spool, &record, &error), &error);
            if (!record)
                break;
            bool ordered = record->lane != last.lane   ? record->lane > last.lane
                           : record->time != last.time ? record->time > last.time
                                                       : record->order > last.order;
            if (!ordered || record->order != record->a)
                fail_msg("record %d of pass %d is out of order", n, pass);
            sum += record->a;
            last = *record;
        }
        assert_int_equal(n, N);
        assert_int_equal(sum, (int64_t)N * (N - 1) / 2);
    }
    dtri_spool_free(spool);
}

/* The table against an array, with addresses that collide. */
static void test_blocks(void **state)
{
    enum { ADDRESSES = 700 };
    static int64_t bytes[ADDRESSES]; /* 0: free */
    struct dtri_live live = {0};
    uint32_t random = 2;
    size_t n = 0;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        int at = (int)(next_random(&random) % ADDRESSES);
        int64_t address = at * INT64_C(0x100000000);
        const struct dtri_live_block *found = dtri_live_find(&live, address);
        assert_int_equal(found != NULL, bytes[at] != 0);
        if (found)
            assert_int_equal(found->bytes, bytes[at]);
        struct dtri_live_block block = {address, i + 1, i};
        if (bytes[at]) {
            assert_true(dtri_live_take(&live, address, &block));
            assert_int_equal(block.bytes, bytes[at]);
            bytes[at] = 0;
            n--;
        } else {
            assert_false(dtri_live_take(&live, address, &block));
            assert_true(dtri_live_add(&live, &block));
            bytes[at] = i + 1;
            n++;
        }
        assert_int_equal(live.n, n);
    }
    dtri_live_clear(&live);
    assert_null(dtri_live_find(&live, 0));
    dtri_live_done(&live);
}

static void test_frames(void **state)
{
    struct dtri_frames frames = {0};
    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1000; i++) {
            int64_t outer = dtri_frames_add(&frames, DTR_NONE, i % 10);
            assert_int_equal(dtri_frames_parent(&frames, outer), DTR_NONE);
            int64_t inner = dtri_frames_add(&frames, outer, i);
            assert_int_equal(dtri_frames_parent(&frames, inner), outer);
            assert_int_equal(frames.frames[inner].name, i);
        }
    assert_int_equal(frames.n, 1010);
    dtri_frames_done(&frames);
}

/* --- faults ----------------------------------------------------------------------------------- */

static int count_files(const char *path)
{
    char directory[512];
    int n = 0;
    snprintf(directory, sizeof directory, "%s", path);
    *strrchr(directory, '/') = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static dtr_status import_file(const char *name, dtr_error *error)
{
    char path[1024], output[512];
    struct dtri_import_result result;
    snprintf(path, sizeof path, "%s/tests/data/%s", environment("DTRSCOPE_SOURCE", ".."), name);
    snprintf(output, sizeof output, "%s", scratch("faults.sqlite"));
    struct dtri_import_options options = {.path = path, .output = output};
    dtr_status status = dtri_import_file(&options, &result, error);
    int files = count_files(output);
    if (files != (status == DTR_OK))
        fail_msg("%s: %d files after status %d", name, files, status);
    unlink(output);
    return status;
}

static void fail_each(const char *name, bool for_ever)
{
    struct fault fault;
    dtr_error error = {0};
    for (int64_t at = 0;; at++) {
        fault_begin(&fault, at, for_ever);
        dtr_status status = import_file(name, &error);
        if (!fault_end(&fault)) {
            assert_ok(status, &error);
            assert_true(at > 20);
            return;
        }
#ifdef DTR_CHECKS
        if (status == DTR_OK) /* it was the invariant check that got no memory, and left off */
            continue;
#endif
        if (status == DTR_OK || !error.text[0])
            fail_msg("%s: allocation %lld failed: status %d, '%s'", name, (long long)at, status,
                     error.text);
    }
}

static void test_no_memory(void **state)
{
    static const char *const names[] = {"import/snapshot0.pickle", "import/snapshot5.pickle",
                                        "import/trace.json", "fuzz/chain.log"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fail_each(names[i], false);
        fail_each(names[i], true);
    }
    rmdir(scratch(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_sorter),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
