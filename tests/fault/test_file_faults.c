/* Reading a log and writing a database while each allocation fails in turn, once or from then on:
 * a clear error, nothing leaked (the address sanitizer looks), and success once nothing fails. */
#include "../support.h"
#include "fault.h"

#include "store/store.h"
#include "trace/trace.h"

static dtr_status read_log(dtr_error *error)
{
    static char path[1024];
    struct dtri_trace *trace = NULL;
    snprintf(path, sizeof path, "%s/tests/data/random/rnd2.log",
             environment("DTRSCOPE_SOURCE", ".."));
    dtr_status status = dtri_trace_read_log(path, &trace, error);
    assert_true((status == DTR_OK) == (trace != NULL));
    dtri_trace_free(trace);
    return status;
}

/* A run with 5,000 events, more than one chunk of a kind, committed and closed. */
static dtr_status write_events(struct dtri_store *store, struct dtri_store_writer *writer,
                               dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (int i = 0; i < 5000 && status == DTR_OK; i++) {
        dtr_event event = {.ts_ns = 10 * i, .seq = i, .kind = DTR_EVENT_FREEING};
        event.u.freeing_ = (dtr_event_freeing){.storage = i, .bytes = 8, .in_use = i % 77};
        status = dtri_store_writer_add(writer, &event, error);
    }
    if (status == DTR_OK)
        status = dtri_store_writer_flush(writer, error);
    if (status == DTR_OK)
        status = dtri_store_commit(store, error);
    return status;
}

static dtr_status write_store(dtr_error *error)
{
    struct dtri_store *store = NULL;
    struct dtri_store_writer *writer = NULL;
    struct dtri_run run;
    dtr_status status = dtri_store_create(scratch("faults.sqlite"), true, &store, error);
    if (status != DTR_OK)
        return status;
    dtri_run_init(&run, "sim");
    status = dtri_store_add_run(store, &run, error);
    if (status == DTR_OK)
        status = dtri_store_writer_new(store, run.id, &writer, error);
    if (status == DTR_OK)
        status = write_events(store, writer, error);
    dtri_store_writer_free(writer);
    dtr_status closed = dtri_store_close(store, status == DTR_OK ? error : NULL);
    return status != DTR_OK ? status : closed;
}

static dtr_status read_store(dtr_error *error)
{
    struct dtri_store *store = NULL;
    struct dtri_rows rows = {0};
    dtr_status status = dtri_store_open(scratch("faults.sqlite"), DTRI_STORE_READ, &store, error);
    if (status != DTR_OK)
        return status;
    status = dtri_store_load(store, 1, DTR_EVENT_FREEING, INT64_MIN, INT64_MAX, &rows, error);
    if (status == DTR_OK)
        assert_int_equal(rows.n, 5000);
    dtri_rows_done(&rows);
    dtri_store_close(store, NULL);
    return status;
}

/* Fails each allocation of `action` in turn until none is left to fail; how many there were. */
static int64_t fail_each(dtr_status (*action)(dtr_error *), bool for_ever)
{
    for (int64_t at = 0;; at++) {
        dtr_error error = {0};
        struct fault fault;
        fault_begin(&fault, at, for_ever);
        dtr_status status = action(&error);
        if (!fault_end(&fault)) {
            assert_ok(status, &error);
            return at;
        }
        assert_int_equal(status, DTR_E_NOMEM);
        assert_true(error.text[0]);
    }
}

static void test_reading_a_log(void **state)
{
    (void)state;
    assert_true(fail_each(read_log, false) > 100);
    assert_true(fail_each(read_log, true) > 100);
}

static void test_writing_a_store(void **state)
{
    (void)state;
    assert_true(fail_each(write_store, false) > 2);
    assert_true(fail_each(write_store, true) > 2);
}

static void test_reading_a_store(void **state)
{
    (void)state;
    dtr_error error;
    assert_ok(write_store(&error), &error);
    assert_true(fail_each(read_store, false) > 2);
    assert_true(fail_each(read_store, true) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_a_log),
        cmocka_unit_test(test_writing_a_store),
        cmocka_unit_test(test_reading_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
