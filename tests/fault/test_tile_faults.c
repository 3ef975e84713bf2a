/* Writing events, tiles and all, while each allocation fails in turn: what is in the file after
 * that fits together, whatever failed.  And reading and comparing them, likewise. */
#include "../support.h"
#include "fault.h"

#include <unistd.h>

#include "store/store.h"
#include "store/stream.h"
#include "store/tile.h"

#define N_EVENTS 70000 /* so many, so close, that the tiles are made anew with a finer base */

static char path[600];

static dtr_status write_events(struct dtri_store *store, struct dtri_store_writer *writer,
                               dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (int i = 0; i < N_EVENTS && status == DTR_OK; i++) {
        dtr_event event = {.ts_ns = i / 4, .seq = i, .kind = i % 5 ? 7 : 9};
        event.u.eviction_ = (dtr_event_eviction){i, 8, i % 77, i % 2, DTR_NONE};
        status = dtri_store_writer_add(writer, &event, error);
        if (status == DTR_OK && i % 30000 == 29999)
            status = dtri_store_commit(store, error);
    }
    if (status == DTR_OK)
        status = dtri_store_writer_flush(writer, error);
    return status;
}

static dtr_status write_file(dtr_error *error)
{
    struct dtri_store *store = NULL;
    struct dtri_store_writer *writer = NULL;
    struct dtri_run run;
    unlink(path);
    dtr_status status = dtri_store_create(path, true, &store, error);
    if (status != DTR_OK)
        return status;
    dtri_run_init(&run, "sim");
    status = dtri_store_add_run(store, &run, error);
    if (status == DTR_OK)
        status = dtri_store_writer_new(store, run.id, &writer, error);
    if (status == DTR_OK) {
        dtri_store_writer_compress(writer, true);
        status = write_events(store, writer, error);
    }
    dtri_store_writer_free(writer);
    dtr_status closed = dtri_store_close(store, status == DTR_OK ? error : NULL);
    return status != DTR_OK ? status : closed;
}

static void no_fault(void *user, int64_t track, int level, int64_t page, const char *what)
{
    (void)user;
    fail_msg("track %lld level %d page %lld: %s", (long long)track, level, (long long)page, what);
}

static dtr_status verify_file(dtr_error *error)
{
    struct dtri_store *store = NULL;
    int64_t faults;
    dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &store, error);
    if (status == DTR_OK)
        status = dtri_tiles_verify(store, 1, no_fault, NULL, &faults, error);
    dtri_store_close(store, NULL);
    return status;
}

static dtr_status read_file(dtr_error *error)
{
    struct dtri_store *store = NULL;
    struct dtri_stream *stream = NULL;
    struct dtri_tile_list list = {0};
    const dtr_event *event = NULL;
    dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &store, error);
    if (status == DTR_OK)
        status =
            dtri_tiles_read(store, 1, DTRI_TRACK_IN_USE, 0, INT64_MIN, INT64_MAX, &list, error);
    if (status == DTR_OK)
        status = dtri_stream_open(store, &(struct dtri_stream_options){1, DTRI_ALL_KINDS, 0, 5000},
                                  &stream, error);
    do {
        if (status == DTR_OK)
            status = dtri_stream_next(stream, &event, error);
    } while (status == DTR_OK && event);
    dtri_stream_free(stream);
    free(list.tiles);
    dtri_store_close(store, NULL);
    return status;
}

static int64_t fail_each(dtr_status (*action)(dtr_error *), bool for_ever, bool verify)
{
    for (int64_t at = 0;; at++) {
        dtr_error error = {0}, other = {0};
        struct fault fault;
        fault_begin(&fault, at, for_ever);
        dtr_status status = action(&error);
        bool failed = fault_end(&fault);
        if (verify && access(path, F_OK) == 0 && verify_file(&other) != DTR_OK)
            assert_int_equal(at < 3, true); /* there is no schema yet */
        if (!failed) {
            assert_ok(status, &error);
            return at;
        }
        assert_int_equal(status, DTR_E_NOMEM);
        assert_true(error.text[0]);
    }
}

static void test_writing(void **state)
{
    (void)state;
    assert_true(fail_each(write_file, false, true) > 10);
    assert_true(fail_each(write_file, true, true) > 10);
}

static void test_reading(void **state)
{
    dtr_error error;
    (void)state;
    assert_ok(write_file(&error), &error);
    assert_true(fail_each(read_file, false, false) > 10);
    assert_true(fail_each(read_file, true, false) > 10);
    assert_true(fail_each(verify_file, false, false) > 10);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writing),
        cmocka_unit_test(test_reading),
    };
    snprintf(path, sizeof path, "%s", scratch("tile-faults.sqlite"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
