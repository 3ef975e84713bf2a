/* The runtime's contract, one sentence a test, on the virtual device. */
#include "../support.h"

#include <stdbool.h>

#include "dtr/runtime.h"

/* --- helpers ---------------------------------------------------------------------------------- */

static dtr_runtime *new_runtime(const char *heuristic, int64_t budget, dtr_deallocation policy,
                                bool reclaim)
{
    dtr_runtime_options options;
    dtr_runtime *rt;
    dtr_error error;
    dtr_runtime_options_init(&options);
    options.backend = dtr_backend_virtual();
    options.budget_bytes = budget;
    options.deallocation = policy;
    options.reclaim = reclaim;
    dtr_selector_options selector = {.heuristic = heuristic};
    assert_ok(dtr_selector_new(&selector, &options.selector, &error), &error);
    assert_ok(dtr_runtime_new(&options, &rt, &error), &error);
    return rt;
}

static dtr_status try_run(dtr_runtime *rt, int n_inputs, const dtr_tensor *inputs, int n_outputs,
                          const dtr_output *outputs, dtr_tensor *out, dtr_error *error)
{
    dtr_call call = {.name = DTR_NONE,
                     .cost_ns = 10,
                     .n_inputs = n_inputs,
                     .n_outputs = n_outputs,
                     .inputs = inputs,
                     .outputs = outputs};
    return dtr_run(rt, &call, out, error);
}

/* One output of its own from at most two inputs; 0 is no input. */
static dtr_tensor run(dtr_runtime *rt, dtr_tensor a, dtr_tensor b, int64_t bytes)
{
    dtr_tensor inputs[2] = {a, b}, out;
    dtr_error error;
    assert_ok(try_run(rt, (a != 0) + (b != 0), inputs, 1, &(dtr_output){bytes, -1}, &out, &error),
              &error);
    return out;
}

static dtr_tensor constant(dtr_runtime *rt, int64_t bytes)
{
    dtr_tensor tensor;
    dtr_error error;
    assert_ok(dtr_constant(rt, bytes, &tensor, NULL, &error), &error);
    return tensor;
}

static dtr_tensor_info info_of(dtr_runtime *rt, dtr_tensor tensor)
{
    dtr_tensor_info info;
    assert_int_equal(dtr_tensor_info_of(rt, tensor, &info), DTR_OK);
    return info;
}

static void done(dtr_runtime *rt)
{
    dtr_error error;
    assert_ok(dtr_runtime_check(rt, &error), &error);
    dtr_runtime_free(rt);
}

/* --- banishing -------------------------------------------------------------------------------- */

/* A storage that a view has to be replayed from stays, although the view's own storage is resident
 * again by way of another operator. */
static void test_banish_keeps_what_a_view_needs(void **state)
{
    dtr_runtime *rt = new_runtime("lru", 1000, DTR_DEALLOCATE_BANISH, false);
    dtr_error error;
    dtr_tensor parent, base, view;
    (void)state;
    parent = run(rt, 0, 0, 8);
    base = run(rt, 0, 0, 8);
    dtr_tensor inputs[2] = {base, parent};
    assert_ok(try_run(rt, 2, inputs, 1, &(dtr_output){0, 0}, &view, &error), &error);
    assert_int_equal(dtr_evict(rt, base), DTR_OK);
    assert_ok(dtr_require(rt, base, &error), &error);
    assert_true(info_of(rt, view).resident && !info_of(rt, view).defined);
    assert_int_equal(dtr_release(rt, parent), DTR_OK);
    assert_ok(dtr_require(rt, view, &error), &error);
    assert_true(info_of(rt, view).defined);
    done(rt);
}

/* An operator that is replayed for one output leaves the banished other one alone. */
static void test_replay_beside_a_banished_sibling(void **state)
{
    dtr_runtime *rt = new_runtime("lru", 1000, DTR_DEALLOCATE_BANISH, false);
    dtr_tensor input = constant(rt, 8), pair[2];
    dtr_error error;
    dtr_stats before, after;
    (void)state;
    const dtr_output outputs[2] = {{16, -1}, {32, -1}};
    assert_ok(try_run(rt, 1, &input, 2, outputs, pair, &error), &error);
    assert_int_equal(dtr_release(rt, pair[0]), DTR_OK); /* nobody depends on it: freed for good */
    assert_int_equal(dtr_retain(rt, pair[0]), DTR_E_INVALID);
    dtr_runtime_stats(rt, &before);
    assert_int_equal(before.banished, 1);
    assert_int_equal(before.in_use_bytes, 8 + 32);
    assert_int_equal(dtr_evict(rt, pair[1]), DTR_OK);
    assert_ok(dtr_require(rt, pair[1], &error), &error);
    dtr_runtime_stats(rt, &after);
    assert_int_equal(after.in_use_bytes, 8 + 32);
    done(rt);
}

/* What depends on a banished storage is pinned for ever, and can be made a constant. */
static void test_banish_pins_children(void **state)
{
    dtr_runtime *rt = new_runtime("dtr", 100, DTR_DEALLOCATE_BANISH, false);
    dtr_error error;
    (void)state;
    dtr_tensor parent = run(rt, 0, 0, 10), child = run(rt, parent, 0, 20);
    assert_int_equal(dtr_release(rt, parent), DTR_OK);
    assert_true(info_of(rt, child).pinned);
    assert_int_equal(dtr_evict(rt, child), DTR_E_STATE);
    assert_ok(dtr_make_constant(rt, child, &error), &error);
    assert_true(info_of(rt, child).constant);
    done(rt);
}

/* --- eager, ignore, reclaim ------------------------------------------------------------------- */

static void test_eager(void **state)
{
    dtr_runtime *rt = new_runtime("lru", 100, DTR_DEALLOCATE_EAGER, false);
    dtr_error error;
    dtr_stats stats;
    (void)state;
    dtr_tensor a = run(rt, 0, 0, 10), b = run(rt, a, 0, 10);
    assert_int_equal(dtr_release(rt, a), DTR_OK);
    assert_false(info_of(rt, a).resident);
    assert_int_equal(dtr_release(rt, a), DTR_E_STATE); /* more often than retained */
    assert_int_equal(dtr_evict(rt, b), DTR_OK);
    assert_ok(dtr_require(rt, b, &error), &error); /* replays a as well */
    dtr_runtime_stats(rt, &stats);
    assert_int_equal(stats.rematerializations, 2);
    assert_int_equal(stats.remat_compute_ns, 20);
    assert_int_equal(stats.clock_ns, 1 + 40);
    assert_int_equal(stats.eager_evictions, 1);
    assert_int_equal(stats.evictions, 0);
    done(rt);
}

static void test_ignore(void **state)
{
    dtr_runtime *rt = new_runtime("lru", 100, DTR_DEALLOCATE_IGNORE, false);
    (void)state;
    dtr_tensor a = run(rt, 0, 0, 10);
    assert_int_equal(dtr_release(rt, a), DTR_OK);
    assert_true(info_of(rt, a).resident);
    done(rt);
}

/* A handle whose tensor was reclaimed is refused, also when its slot is in use again. */
static void test_stale_handles(void **state)
{
    dtr_runtime *rt = new_runtime("lru", 100, DTR_DEALLOCATE_EAGER, true);
    dtr_error error;
    dtr_tensor out;
    (void)state;
    dtr_tensor a = run(rt, 0, 0, 10);
    assert_int_equal(dtr_release(rt, a), DTR_OK);
    dtr_tensor b = run(rt, 0, 0, 10);
    assert_int_equal((uint32_t)a, (uint32_t)b);
    assert_int_not_equal(a, b);
    assert_int_equal(dtr_retain(rt, a), DTR_E_INVALID);
    assert_int_equal(dtr_require(rt, a, &error), DTR_E_INVALID);
    assert_int_equal(dtr_evict(rt, a), DTR_E_INVALID);
    assert_int_equal(try_run(rt, 1, &a, 1, &(dtr_output){1, -1}, &out, &error), DTR_E_INVALID);
    assert_int_equal(dtr_retain(rt, DTR_NO_TENSOR), DTR_E_INVALID);
    assert_int_equal(dtr_retain(rt, UINT64_MAX), DTR_E_INVALID);
    done(rt);
}

/* A loop of training steps takes no more room at the thousandth step than at the tenth. */
static void test_reclaim_is_bounded(void **state)
{
    dtr_runtime *rt = new_runtime("dtr-eq", 200, DTR_DEALLOCATE_EAGER, true);
    dtr_error error;
    dtr_stats tenth, last;
    (void)state;
    dtr_tensor weight = constant(rt, 10);
    for (int step = 0; step < 1000; step++) {
        dtr_tensor a = run(rt, weight, 0, 50), b = run(rt, a, weight, 50), c = run(rt, b, a, 50);
        dtr_tensor next = run(rt, c, weight, 10);
        assert_ok(dtr_make_constant(rt, next, &error), &error);
        const dtr_tensor old[] = {a, b, c, weight};
        for (int i = 0; i < 4; i++)
            assert_int_equal(dtr_release(rt, old[i]), DTR_OK);
        weight = next;
        dtr_runtime_stats(rt, step == 10 ? &tenth : &last);
    }
    assert_int_equal(last.tensors, tenth.tensors);
    assert_int_equal(last.operators, tenth.operators);
    assert_int_equal(last.in_use_bytes, tenth.in_use_bytes);
    done(rt);
}

/* --- the budget ------------------------------------------------------------------------------- */

/* Constants and pins are never evicted; what does not fit then is out of memory, with the numbers.
 */
static void test_out_of_memory(void **state)
{
    dtr_runtime *rt = new_runtime("dtr", 100, DTR_DEALLOCATE_EAGER, false);
    dtr_error error;
    dtr_tensor out;
    (void)state;
    dtr_tensor fixed = constant(rt, 40), pinned = run(rt, fixed, 0, 40);
    assert_ok(dtr_pin(rt, pinned, NULL, &error), &error);
    assert_int_equal(try_run(rt, 1, &fixed, 1, &(dtr_output){30, -1}, &out, &error),
                     DTR_E_OUT_OF_MEMORY);
    assert_non_null(strstr(error.text, "nothing is left to evict"));
    assert_int_equal(try_run(rt, 1, &fixed, 1, &(dtr_output){61, -1}, &out, &error),
                     DTR_E_OUT_OF_MEMORY);
    assert_non_null(strstr(error.text, "inputs and outputs alone are 101 bytes"));
    assert_int_equal(dtr_unpin(rt, pinned), DTR_OK);
    assert_int_equal(dtr_unpin(rt, pinned), DTR_E_STATE);
    out = run(rt, fixed, 0, 60); /* now it fits: the other one goes */
    assert_false(info_of(rt, pinned).resident);
    done(rt);
}

/* With leave to overshoot, the same operator runs and is counted. */
static void test_overshoot(void **state)
{
    dtr_runtime_options options;
    dtr_runtime *rt;
    dtr_error error;
    dtr_stats stats;
    (void)state;
    dtr_runtime_options_init(&options);
    options.backend = dtr_backend_virtual();
    options.budget_bytes = 50;
    options.allow_overshoot = true;
    dtr_selector_options selector = {.heuristic = "dtr"};
    assert_ok(dtr_selector_new(&selector, &options.selector, &error), &error);
    assert_ok(dtr_runtime_new(&options, &rt, &error), &error);
    run(rt, constant(rt, 20), 0, 80);
    dtr_runtime_stats(rt, &stats);
    assert_int_equal(stats.overshoots, 1);
    assert_int_equal(stats.peak_bytes, 100);
    done(rt);
}

/* A lower budget evicts at once; one that cannot be met is in force all the same. */
static void test_set_budget(void **state)
{
    dtr_runtime *rt = new_runtime("size", 100, DTR_DEALLOCATE_EAGER, false);
    dtr_error error;
    dtr_tensor out;
    (void)state;
    dtr_tensor fixed = constant(rt, 30), big = run(rt, fixed, 0, 40), small = run(rt, fixed, 0, 10);
    assert_ok(dtr_set_budget(rt, 60, &error), &error);
    assert_false(info_of(rt, big).resident);
    assert_true(info_of(rt, small).resident);
    assert_int_equal(dtr_set_budget(rt, 20, &error), DTR_E_OUT_OF_MEMORY);
    assert_int_equal(dtr_set_budget(rt, 0, &error), DTR_E_INVALID);
    assert_int_equal(dtr_set_budget(rt, -7, &error), DTR_E_INVALID);
    assert_int_equal(try_run(rt, 0, NULL, 1, &(dtr_output){1, -1}, &out, &error),
                     DTR_E_OUT_OF_MEMORY);
    assert_ok(dtr_set_budget(rt, DTR_NONE, &error), &error);
    run(rt, fixed, 0, INT64_C(1) << 40);
    done(rt);
}

/* --- arguments -------------------------------------------------------------------------------- */

static void test_bad_calls(void **state)
{
    static const dtr_output bad[] = {{-1, -1}, {8, 0}, {0, 1}, {0, -2}};
    dtr_runtime *rt = new_runtime("dtr", DTR_NONE, DTR_DEALLOCATE_EAGER, false);
    dtr_tensor input = constant(rt, 8), out;
    dtr_error error;
    dtr_stats before, after;
    (void)state;
    dtr_runtime_stats(rt, &before);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(try_run(rt, 1, &input, 1, &bad[i], &out, &error), DTR_E_INVALID);
    assert_int_equal(try_run(rt, 1, &input, 0, bad, &out, &error), DTR_E_INVALID);
    assert_int_equal(try_run(rt, -1, &input, 1, bad, &out, &error), DTR_E_INVALID);
    dtr_call call = {.name = 5, .cost_ns = 1, .n_outputs = 1, .outputs = &(dtr_output){1, -1}};
    assert_int_equal(dtr_run(rt, &call, &out, &error), DTR_E_INVALID);
    call.name = DTR_NONE;
    call.cost_ns = INT64_MAX;
    assert_int_equal(dtr_run(rt, &call, &out, &error), DTR_E_LIMIT);
    assert_int_equal(dtr_constant(rt, -8, &out, NULL, &error), DTR_E_INVALID);
    dtr_runtime_stats(rt, &after);
    assert_memory_equal(&before, &after, sizeof before);
    done(rt);
}

/* make_constant refuses what shares its storage, and is content with what is one already. */
static void test_make_constant(void **state)
{
    dtr_runtime *rt = new_runtime("dtr", 100, DTR_DEALLOCATE_EAGER, true);
    dtr_error error;
    dtr_tensor view;
    (void)state;
    dtr_tensor a = run(rt, 0, 0, 10);
    assert_ok(try_run(rt, 1, &a, 1, &(dtr_output){0, 0}, &view, &error), &error);
    assert_int_equal(dtr_make_constant(rt, a, &error), DTR_E_STATE);
    assert_int_equal(dtr_make_constant(rt, view, &error), DTR_E_STATE);
    assert_int_equal(dtr_release(rt, view), DTR_OK);
    assert_ok(dtr_make_constant(rt, a, &error), &error);
    assert_ok(dtr_make_constant(rt, a, &error), &error);
    assert_int_equal(dtr_evict(rt, a), DTR_E_STATE);
    assert_true(info_of(rt, a).constant);
    done(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_banish_keeps_what_a_view_needs),
        cmocka_unit_test(test_replay_beside_a_banished_sibling),
        cmocka_unit_test(test_banish_pins_children),
        cmocka_unit_test(test_eager),
        cmocka_unit_test(test_ignore),
        cmocka_unit_test(test_stale_handles),
        cmocka_unit_test(test_reclaim_is_bounded),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_overshoot),
        cmocka_unit_test(test_set_budget),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_make_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
