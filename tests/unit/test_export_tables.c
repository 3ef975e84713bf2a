/* Exports of tables when memory runs out: every allocation fails in turn, and nothing is left
 * behind, neither memory nor a file. */
#include "support.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/alloc.h"
#include "export/directory.h"
#include "export/export.h"

static char database[512], target[512];
static struct dtri_store *store;
static struct dtri_run run;

static int setup(void **state)
{
    dtr_error error = {0};
    struct dtri_store_writer *writer;
    (void)state;
    snprintf(database, sizeof database, "%s", scratch("run.dtr.sqlite"));
    snprintf(target, sizeof target, "%s", scratch("out"));
    assert_ok(dtri_store_create(database, true, &store, &error), &error);
    dtri_run_init(&run, "sim");
    run.has_events = 1;
    dtri_run_set_text(run.clock, "logical");
    dtri_run_set_text(run.result, "ok");
    assert_ok(dtri_store_add_run(store, &run, &error), &error);
    assert_ok(dtri_store_add_name(store, run.id, 0, "good", &error), &error);
    assert_ok(dtri_store_add_name(store, run.id, 1, "\xff" "bad\"\n", &error), &error);
    assert_ok(dtri_store_add_loss(store, run.id, "ring full", 3, &error), &error);
    assert_ok(dtri_store_writer_new(store, run.id, &writer, &error), &error);
    for (int i = 0; i < 10; i++) {
        dtr_event event = {.ts_ns = i, .seq = i, .kind = DTR_EVENT_MARK};
        event.u.mark_ = (dtr_event_mark){DTR_MARK_RANGE_BEGIN, i % 3 - 1, -1};
        assert_ok(dtri_store_writer_add(writer, &event, &error), &error);
    }
    assert_ok(dtri_store_writer_flush(writer, &error), &error);
    dtri_store_writer_free(writer);
    assert_ok(dtri_store_close(store, &error), &error);
    assert_ok(dtri_store_open(database, DTRI_STORE_READ, &store, &error), &error);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dtri_store_close(store, NULL);
    unlink(database);
    *strrchr(database, '/') = '\0';
    assert_int_equal(rmdir(database), 0); /* so nothing else is in it */
    return 0;
}

static bool fail_nth(void *user)
{
    int *left = user;
    return (*left)-- == 0;
}

static dtr_status export_one(const struct dtri_export_format *format, struct dtri_export *job,
                             dtr_error *error)
{
    struct dtri_output *output;
    job->kinds = DTRI_KIND_BIT(DTR_EVENT_MARK);
    job->table = "mark";
    if (format->write_file)
        return format->write_file(job, target, false, error);
    dtr_status status = dtri_output_open(target, false, &output, error);
    if (status != DTR_OK)
        return status;
    status = format->write(job, output, error);
    dtr_status closed = dtri_output_close(output, status == DTR_OK, error);
    return status == DTR_OK ? closed : status;
}

static dtr_status export_all(const char *name, bool directory, dtr_error *error)
{
    const struct dtri_export_format *format = dtri_export_find(name);
    struct dtri_export job;
    dtr_status status = dtri_export_init(&job, store, &run, error);
    if (status != DTR_OK)
        return status;
    status = directory ? dtri_export_directory(&job, format, target, false, error)
                       : export_one(format, &job, error);
    dtri_export_done(&job);
    return status;
}

static void fail_in_turn(const char *name)
{
    dtr_status status = DTR_E_NOMEM;
    int n = 0;
    for (; status != DTR_OK; n++) {
        int left = n;
        dtr_error error = {0};
        assert_true(n < 10000);
        dtri_alloc_set_fault(fail_nth, &left);
        status = export_all(name, false, &error);
        dtri_alloc_set_fault(NULL, NULL);
        if (status == DTR_OK)
            break;
        assert_true(status == DTR_E_NOMEM || status == DTR_E_IO);
        assert_true(error.text[0] != '\0');
        assert_int_not_equal(access(target, F_OK), 0);
    }
    assert_true(n > 3);
    assert_int_equal(unlink(target), 0);
}

static void no_allocation_of_a_format_is_taken_for_granted(void **state)
{
    static const char *const names[] = {"csv", "jsonl", "parquet", "arrow", "sqlite"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fail_in_turn(names[i]);
}

static void a_directory_that_cannot_be_finished_does_not_appear(void **state)
{
    (void)state;
    for (int n = 0; n < 60; n++) {
        int left = n;
        dtr_error error = {0};
        dtri_alloc_set_fault(fail_nth, &left);
        dtr_status status = export_all("arrow", true, &error);
        dtri_alloc_set_fault(NULL, NULL);
        assert_int_equal(status, DTR_E_NOMEM);
        assert_int_not_equal(access(target, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation_of_a_format_is_taken_for_granted),
        cmocka_unit_test(a_directory_that_cannot_be_finished_does_not_appear),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
