/* Heuristics from shared objects: the example, one with state, and every way in which one can be
 * wrong. */
#include "../support.h"

#include "dtr/heuristic.h"
#include "sim/sim.h"

static const char *plugin_path(const char *relative)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", environment("DTRSCOPE_BUILD", "."), relative);
    return path;
}

static dtr_status simulate(const char *heuristic, const char *search,
                           struct dtri_sim_result *out_result, dtr_error *error)
{
    char log[1024];
    struct dtri_trace *trace;
    int64_t peak;
    snprintf(log, sizeof log, "%s/tests/data/random/rnd4.log",
             environment("DTRSCOPE_SOURCE", ".."));
    assert_ok(dtri_trace_read_log(log, &trace, error), error);
    assert_ok(dtri_sim_unlimited_peak(trace, &peak, error), error);
    struct dtri_sim_options options = {
        .heuristic = heuristic,
        .search = search,
        .seed = 5,
        .budget_bytes = peak / 2,
        .remat_limit_ns = DTR_NONE,
    };
    dtr_status status = dtri_sim_run(trace, &options, out_result, error);
    dtri_trace_free(trace);
    return status;
}

/* The example loads under its own name, with `scan` for a search, and evicts. */
static void test_example(void **state)
{
    struct dtri_sim_result result;
    dtr_selector *selector;
    dtr_error error;
    (void)state;
    const char *path = plugin_path("examples/plugin_oldest_big.so");
    dtr_selector_options options = {.heuristic = path};
    assert_ok(dtr_selector_new(&options, &selector, &error), &error);
    assert_string_equal(dtr_selector_heuristic(selector), "oldest-big");
    assert_string_equal(dtr_selector_search(selector), "scan");
    dtr_selector_free(selector);
    assert_ok(simulate(path, NULL, &result, &error), &error);
    assert_int_equal(result.outcome, DTRI_OUTCOME_OK);
    assert_true(result.stats.evictions > 0 && result.stats.rematerializations > 0);
    assert_ok(simulate(path, "sample", &result, &error), &error);
    assert_true(result.stats.evictions > 0);
}

/* State is made once a run and is the plugin's own. */
static void test_state(void **state)
{
    struct dtri_sim_result result, again;
    dtr_error error;
    (void)state;
    const char *path = plugin_path("tests/plugins/stateful.so");
    assert_ok(simulate(path, NULL, &result, &error), &error);
    assert_ok(simulate(path, NULL, &again, &error), &error);
    assert_true(result.stats.evictions > 0);
    assert_memory_equal(&result.stats, &again.stats, sizeof result.stats);
}

/* NaN ends the run and says which storage it was for. */
static void test_nan(void **state)
{
    struct dtri_sim_result result;
    dtr_error error;
    (void)state;
    assert_int_equal(simulate(plugin_path("tests/plugins/nan.so"), NULL, &result, &error),
                     DTR_E_HEURISTIC);
    assert_non_null(strstr(error.text, "now-and-then-nan returned NaN for storage"));
}

static void assert_does_not_load(const char *path, const char *search, dtr_status status,
                                 const char *why)
{
    dtr_selector *selector = NULL;
    dtr_error error;
    dtr_selector_options options = {.heuristic = path, .search = search};
    assert_int_equal(dtr_selector_new(&options, &selector, &error), status);
    assert_null(selector);
    if (!strstr(error.text, why))
        fail_msg("expected '%s' in: %s", why, error.text);
}

static void test_bad_plugins(void **state)
{
    (void)state;
    assert_does_not_load("./not-there.so", NULL, DTR_E_FORMAT, "not-there.so");
    assert_does_not_load(plugin_path("tests/plugins/empty.so"), NULL, DTR_E_FORMAT,
                         "exports no function dtr_heuristic_plugin_get");
    assert_does_not_load(plugin_path("tests/plugins/old.so"), NULL, DTR_E_FORMAT, "build it again");
    assert_does_not_load(plugin_path("tests/plugins/nameless.so"), NULL, DTR_E_FORMAT,
                         "name must be");
    assert_does_not_load(plugin_path("tests/plugins/stateful.so"), "index", DTR_E_UNSUPPORTED,
                         "no index");
}

/* A name that is none lists those that are. */
static void test_unknown_names(void **state)
{
    (void)state;
    for (int i = 0; dtr_heuristic_name(i); i++)
        assert_does_not_load("drt", NULL, DTR_E_NOT_FOUND, dtr_heuristic_name(i));
    assert_does_not_load("", NULL, DTR_E_INVALID, "no heuristic");
    assert_does_not_load("dtr", "bisect", DTR_E_NOT_FOUND, "scan, index and sample");
    assert_null(dtr_heuristic_description("drt"));
    assert_null(dtr_heuristic_name(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),       cmocka_unit_test(test_state),
        cmocka_unit_test(test_nan),           cmocka_unit_test(test_bad_plugins),
        cmocka_unit_test(test_unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
