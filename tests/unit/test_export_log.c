/* The operator log of a program that runs its operators itself is the trace that the file holds. */
#include "../support.h"

#include <stdbool.h>

#include "dtr/host.h"
#include "dtr/session.h"
#include "export/export.h"
#include "store/store_trace.h"
#include "trace/trace.h"

static char file[600], text[600];
static dtr_session *session;
static dtr_runtime *rt;

/* An operator of the host; in place on inputs[0] when `in_place`. */
static dtr_tensor adopt(const dtr_tensor *inputs, int n, bool in_place, bool constant)
{
    dtr_output output = {.bytes = 100, .view_of = -1};
    dtr_tensor out = DTR_NO_TENSOR;
    dtr_error error;
    dtr_call call = {.name = dtr_runtime_name(rt, in_place ? "add_" : "tanh"),
                     .mutates = in_place,
                     .n_inputs = n,
                     .n_outputs = 1,
                     .inputs = inputs,
                     .outputs = &output};
    dtr_host_run run = {.cost_ns = 70,
                        .dur_ns = 70,
                        .takes = in_place ? (int[]){0} : NULL,
                        .signature = DTR_NONE,
                        .constant = constant};
    assert_ok(dtr_hold(rt, inputs, n, 100, &error), &error);
    assert_ok(dtr_adopt(rt, &call, &run, &out, &error), &error);
    return out;
}

static int begin(void **state)
{
    dtr_session_options options;
    dtr_error error = {0};
    (void)state;
    unsetenv("DTR_CHANNEL");
    snprintf(file, sizeof file, "%s", scratch("run.dtr.sqlite"));
    snprintf(text, sizeof text, "%s", scratch("run.log"));
    dtr_session_options_init(&options);
    options.backend = dtr_backend_virtual();
    options.program = "test_export_log";
    options.record = file;
    assert_ok(dtr_session_open(&options, &session, &error), &error);
    rt = dtr_session_runtime(session);
    return 0;
}

static int end(void **state)
{
    (void)state;
    remove(file);
    remove(text);
    return 0;
}

static void write_log(void)
{
    struct dtri_store *store;
    struct dtri_run run;
    struct dtri_export job;
    struct dtri_output *output;
    dtr_error error = {0};
    assert_ok(dtri_store_open(file, DTRI_STORE_READ, &store, &error), &error);
    assert_ok(dtri_store_run(store, 1, &run, &error), &error);
    assert_ok(dtri_export_init(&job, store, &run, &error), &error);
    assert_ok(dtri_output_open(text, false, &output, &error), &error);
    assert_ok(dtri_export_find("simrd")->write(&job, output, &error), &error);
    assert_ok(dtri_output_close(output, true, &error), &error);
    dtri_export_done(&job);
    dtri_store_close(store, NULL);
}

static void close_and_compare(void)
{
    struct dtri_trace *recorded, *exported;
    dtr_error error = {0};
    assert_ok(dtr_session_close(session, NULL, &error), &error);
    write_log();
    assert_ok(dtri_store_read_trace(file, &recorded, &error), &error);
    assert_ok(dtri_trace_read_log(text, &exported, &error), &error);
    assert_int_equal(recorded->n_ops, exported->n_ops);
    assert_int_equal(recorded->n_steps, exported->n_steps);
    for (size_t i = 0; i < recorded->n_steps; i++) {
        assert_int_equal(recorded->steps[i].kind, exported->steps[i].kind);
        assert_int_equal(recorded->steps[i].arg, exported->steps[i].arg);
    }
    dtri_trace_free(recorded);
    dtri_trace_free(exported);
}

static void an_operator_in_place_takes_what_it_replaces(void **state)
{
    dtr_tensor weight;
    dtr_error error;
    (void)state;
    assert_ok(dtr_adopt_constant(rt, 100, NULL, &weight, &error), &error);
    dtr_tensor made = adopt(&weight, 1, false, false);
    dtr_tensor other = adopt(&made, 1, false, false);
    made = adopt((dtr_tensor[]){made, other}, 2, true, false);
    dtr_release(rt, other);
    adopt(&made, 1, false, false);
    close_and_compare();
}

/* It was released, but not what was computed from it, which then depends on it for ever. */
static void a_released_tensor_becomes_a_constant(void **state)
{
    dtr_tensor weight;
    dtr_error error;
    (void)state;
    assert_ok(dtr_adopt_constant(rt, 100, NULL, &weight, &error), &error);
    dtr_tensor made = adopt(&weight, 1, false, false);
    dtr_tensor kept = adopt(&made, 1, false, false);
    dtr_release(rt, made);
    for (int i = 0; i < 3; i++)
        adopt(&kept, 1, false, false);
    assert_ok(dtr_isolate(rt, weight, DTR_NONE, &error), &error);
    adopt(&weight, 1, true, true);
    close_and_compare();
}

static void what_follows_an_operator_that_failed_keeps_its_order(void **state)
{
    dtr_tensor weight;
    dtr_output output = {.bytes = 1000, .view_of = -1};
    dtr_tensor out;
    dtr_error error;
    (void)state;
    assert_ok(dtr_adopt_constant(rt, 100, NULL, &weight, &error), &error);
    dtr_tensor made = adopt(&weight, 1, false, false);
    dtr_tensor other = adopt(&made, 1, false, false);
    assert_ok(dtr_set_budget(rt, 500, &error), &error);
    dtr_call call = {.name = dtr_runtime_name(rt, "large"),
                     .cost_ns = 70,
                     .n_inputs = 1,
                     .n_outputs = 1,
                     .inputs = &made,
                     .outputs = &output};
    assert_int_equal(dtr_run(rt, &call, &out, &error), DTR_E_OUT_OF_MEMORY);
    dtr_release(rt, made);
    dtr_retain(rt, other);
    dtr_release(rt, other);
    dtr_mark_emit(rt, DTR_MARK_ITERATION, DTR_NONE, 1);
    adopt(&other, 1, true, false);
    close_and_compare();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_operator_in_place_takes_what_it_replaces, begin, end),
        cmocka_unit_test_setup_teardown(a_released_tensor_becomes_a_constant, begin, end),
        cmocka_unit_test_setup_teardown(what_follows_an_operator_that_failed_keeps_its_order, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
