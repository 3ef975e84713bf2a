/* The engine as an object: scopes, what the runtime is left to forget, failures that stick. */
#include "support.h"

#include <math.h>

#include "base/alloc.h"
#include "dtr/engine.h"

static dtr_engine *open_engine(const char *budget)
{
    dtr_engine *e;
    dtr_engine_options options;
    dtr_error error = {0};
    dtr_engine_options_init(&options);
    options.budget = budget;
    options.poison = true;
    assert_ok(dtr_engine_open(&options, &e, &error), &error);
    return e;
}

static void assert_failed(dtr_engine *e, dtr_status status, const char *word)
{
    dtr_error error = {0};
    assert_int_equal(dtr_engine_status(e, &error), status);
    if (!strstr(error.text, word))
        fail_msg("\"%s\" does not say \"%s\"", error.text, word);
    dtr_engine_close(e, NULL);
}

/* Arrays go with their scope, but for the one that is handed out and the ones that are kept. */
static void test_scopes(void **state)
{
    dtr_engine *e = open_engine(NULL);
    dtr_stats stats;
    (void)state;
    dtr_scope_enter(e);
    dtr_array *kept = dtr_array_keep(dtr_array_full(e, DTR_SHAPE(100), 1));
    dtr_scope_enter(e);
    dtr_array *a = dtr_array_full(e, DTR_SHAPE(100), 2);
    dtr_array *result = dtr_scope_leave(e, dtr_add(dtr_mul(a, a), kept));
    dtr_runtime_stats(dtr_engine_runtime(e), &stats);
    assert_int_equal(stats.in_use_bytes, 800);
    assert_float_equal(dtr_array_item(dtr_slice(result, 0, 50, 1)), 5, 0);
    dtr_scope_leave(e, NULL);
    dtr_runtime_stats(dtr_engine_runtime(e), &stats);
    assert_int_equal(stats.in_use_bytes, 400);
    dtr_array_drop(kept);
    dtr_runtime_stats(dtr_engine_runtime(e), &stats);
    assert_int_equal(stats.in_use_bytes, 0);
    assert_int_equal(stats.operators, 0);
    assert_int_equal(dtr_engine_close(e, NULL), DTR_OK);
}

/* A step of training leaves no more behind than parameters and state: neither objects at the
 * runtime nor bytes at the allocator grow. */
static void test_nothing_stays(void **state)
{
    dtr_engine *e = open_engine(NULL);
    dtr_stats first = {0}, later;
    int64_t blocks = 0;
    (void)state;
    dtr_array *w = dtr_parameter_normal(e, DTR_SHAPE(8, 8), 0.3f);
    dtr_optimizer *adam = dtr_optimizer_adam(e, 0.01f, 0.9f, 0.999f, 1e-8f);
    for (int step = 0; step < 10; step++) {
        dtr_engine_step_begin(e, step);
        dtr_array *x = dtr_array_full(e, DTR_SHAPE(4, 8), 1);
        dtr_optimizer_step(adam, dtr_mean(dtr_gelu(dtr_matmul(x, w)), DTR_ALL_AXES));
        dtr_engine_step_end(e);
        dtr_runtime_stats(dtr_engine_runtime(e), &later);
        if (step == 1) {
            first = later;
            blocks = dtr_engine_memory(e).blocks;
        }
    }
    assert_int_equal(blocks, 3);
    assert_int_equal(dtr_engine_memory(e).blocks, blocks);
    assert_int_equal(later.in_use_bytes, 3 * 64 * 4);
    assert_int_equal(later.operators, first.operators);
    assert_int_equal(later.storages, first.storages);
    assert_int_equal(dtr_engine_close(e, NULL), DTR_OK);
}

/* One step of Adam and of SGD with momentum, by hand. */
static void test_updates(void **state)
{
    (void)state;
    for (int adam = 0; adam < 2; adam++) {
        dtr_engine *e = open_engine(NULL);
        double w = 1, m = 0, v = 0;
        dtr_array *parameter = dtr_parameter_full(e, DTR_SHAPE(1), 1);
        dtr_optimizer *optimizer = adam ? dtr_optimizer_adam(e, 0.1f, 0.9f, 0.99f, 1e-8f)
                                        : dtr_optimizer_sgd(e, 0.1f, 0.9f);
        for (int step = 1; step <= 5; step++) {
            dtr_engine_step_begin(e, step);
            dtr_optimizer_step(optimizer, dtr_sum(dtr_mul(parameter, parameter), DTR_ALL_AXES));
            dtr_engine_step_end(e);
            double g = 2 * w;
            if (adam) {
                m = 0.9 * m + 0.1 * g;
                v = 0.99 * v + 0.01 * g * g;
                w -= 0.1 * m / (1 - pow(0.9, step)) / (sqrt(v / (1 - pow(0.99, step))) + 1e-8);
            } else {
                m = 0.9 * m + g;
                w -= 0.1 * m;
            }
            assert_true(fabs((double)dtr_array_item(parameter) - w) < 1e-5);
        }
        assert_int_equal(dtr_engine_close(e, NULL), DTR_OK);
    }
}

/* Shapes that do not fit are refused with both of them; what follows changes nothing. */
static void test_errors_stick(void **state)
{
    dtr_engine *e = open_engine(NULL);
    float value = 7;
    (void)state;
    dtr_array *a = dtr_array_full(e, DTR_SHAPE(2, 3), 1), *b = dtr_array_full(e, DTR_SHAPE(4), 1);
    dtr_array *bad = dtr_add(a, b), *parts[3];
    assert_int_equal(dtr_array_tensor(bad), DTR_NO_TENSOR);
    assert_true(isnan(dtr_array_item(dtr_mean(dtr_matmul(bad, a), DTR_ALL_AXES))));
    dtr_split(bad, 5, 3, parts);
    dtr_array_drop(dtr_concat(parts, 3, 7));
    dtr_array_drop(dtr_layer_norm(parts[0], parts[1], dtr_softmax(bad, true)));
    dtr_array_drop(dtr_cross_entropy(bad, dtr_embedding(bad, bad)));
    dtr_array_drop(dtr_dropout(bad, 2, dtr_dropout_seed(e)));
    dtr_array_drop(dtr_parameter_normal(e, DTR_SHAPE(2), 1));
    assert_int_equal(dtr_engine_n_parameters(e), 0);
    assert_int_equal(dtr_optimizer_step(dtr_optimizer_sgd(e, 1, 0), bad), DTR_E_INVALID);
    assert_int_equal(dtr_array_read(a, &value, 1), DTR_E_INVALID);
    assert_float_equal(value, 7, 0);
    assert_failed(e, DTR_E_INVALID, "add: the shapes [2, 3] and [4]");
}

/* Every operator refuses operands that it has no meaning for. */
static void test_bad_operands(void **state)
{
    const int32_t ids[2] = {0, 9};
    (void)state;
    for (int i = 0;; i++) {
        dtr_engine *e = open_engine(NULL);
        dtr_array *a = dtr_array_full(e, DTR_SHAPE(2, 3), 1), *parts[DTR_MAX_PARTS];
        dtr_array *n = dtr_array_integers(e, DTR_SHAPE(2), ids), *out = NULL;
        const char *words[] = {
            "matmul: the shapes [2, 3] and [2, 3]",
            "[2, 3] cannot be seen as [4, 2]",
            "[2, 3] cannot be seen as [-1, -1]",
            "[2, 3] cannot be seen as [-1, 4]",
            "[2, 3] cannot be broadcast to [3, 2]",
            "permute: 0 is no axis, or comes twice",
            "transpose: there is no axis 2",
            "split: 3 elements do not make 2 equal parts",
            "slice: 3 elements from 1 on are not within 3",
            "concat: part 1 differs",
            "softmax: [2, 3] is not made of square matrices",
            "mul: operand 0 must hold floats",
            "embedding: operand 1 must hold integers",
            "embedding: integer 1 is 9; it must be at least 0 and below 2",
            "dropout needs a rate",
            "cannot have the shape [0, 3]",
            "the loss has 6 elements",
            "cross entropy: the shapes",
            "layer norm: the shapes",
            "scatter_add: the shapes",
            "array 0 is neither a parameter, nor a variable",
        };
        if (i == sizeof words / sizeof words[0]) {
            dtr_engine_close(e, NULL);
            break;
        }
        /* clang-format off */
        switch (i) {
        case 0: out = dtr_matmul(a, a); break;
        case 1: out = dtr_reshape(a, DTR_SHAPE(4, 2)); break;
        case 2: out = dtr_reshape(a, DTR_SHAPE(-1, -1)); break;
        case 3: out = dtr_reshape(a, DTR_SHAPE(-1, 4)); break;
        case 4: out = dtr_broadcast(a, DTR_SHAPE(3, 2)); break;
        case 5: out = dtr_permute(a, (int[]){0, 0}); break;
        case 6: out = dtr_transpose(a, 0, 2); break;
        case 7: dtr_split(a, -1, 2, parts); out = parts[1]; break;
        case 8: out = dtr_slice(a, 1, 1, 3); break;
        case 9: out = dtr_concat((dtr_array *[]){a, dtr_transpose(a, 0, 1)}, 2, 0); break;
        case 10: out = dtr_softmax(a, true); break;
        case 11: out = dtr_mul(n, n); break;
        case 12: out = dtr_embedding(a, a); break;
        case 13: out = dtr_embedding(a, n); break;
        case 14: out = dtr_dropout(a, 1, n); break;
        case 15: out = dtr_array_full(e, DTR_SHAPE(0, 3), 1); break;
        case 16: dtr_grad(a, NULL, 0, NULL, false); out = dtr_add(a, a); break;
        case 17: out = dtr_cross_entropy(a, a); break;
        case 18: out = dtr_layer_norm(a, a, a); break;
        case 19: out = dtr_scatter_add(dtr_transpose(a, 0, 1), n, 4); break;
        case 20: dtr_grad(dtr_sum(a, DTR_ALL_AXES), &a, 1, parts, false); out = parts[0]; break;
        }
        /* clang-format on */
        assert_int_equal(dtr_array_tensor(out), DTR_NO_TENSOR);
        assert_failed(e, DTR_E_INVALID, words[i]);
    }
}

/* A second gradient through the same operators says what to do about it. */
static void test_spent(void **state)
{
    dtr_engine *e = open_engine(NULL);
    float one = 1;
    (void)state;
    dtr_array *x = dtr_variable(dtr_array_floats(e, DTR_SCALAR, &one)), *g;
    dtr_array *y = dtr_mul(x, x);
    assert_int_equal(dtr_grad(y, &x, 1, &g, true), DTR_OK);
    assert_int_equal(dtr_grad(y, &x, 1, &g, false), DTR_OK);
    assert_int_equal(dtr_grad(y, &x, 1, &g, false), DTR_E_STATE);
    assert_failed(e, DTR_E_STATE, "create_graph");
}

/* A budget that one operator alone exceeds: a sentence with the need and the budget. */
static void test_out_of_memory(void **state)
{
    dtr_engine *e = open_engine("1000");
    (void)state;
    dtr_array *a = dtr_array_full(e, DTR_SHAPE(200), 1);
    dtr_array *sum = dtr_add(a, a);
    assert_int_equal(dtr_array_tensor(sum), DTR_NO_TENSOR);
    assert_failed(
        e, DTR_E_OUT_OF_MEMORY,
        "add does not fit: its inputs and outputs alone are 1600 bytes and the budget is 1000");
}

/* Settings that make no sense do not open an engine. */
static void test_bad_settings(void **state)
{
    dtr_engine *e = NULL;
    dtr_engine_options options;
    dtr_error error = {0};
    (void)state;
    dtr_engine_options_init(&options);
    options.heuristic = "dtr-wrong";
    assert_int_not_equal(dtr_engine_open(&options, &e, &error), DTR_OK);
    assert_non_null(strstr(error.text, "dtr-wrong"));
    assert_null(e);
    options.size = 1;
    assert_int_equal(dtr_engine_open(&options, &e, &error), DTR_E_INVALID);
}

/* --- failing allocations ---------------------------------------------------------------------- */

struct fault {
    int64_t seen, at;
};

static bool fail_one(void *user)
{
    struct fault *fault = user;
    return fault->seen++ == fault->at;
}

static dtr_status train_two_steps(dtr_engine *e)
{
    dtr_array *w = dtr_parameter_normal(e, DTR_SHAPE(4, 4), 0.3f);
    dtr_array *x = dtr_array_full(e, DTR_SHAPE(3, 4), 1), *parts[2];
    dtr_optimizer *adam = dtr_optimizer_adam(e, 0.01f, 0.9f, 0.999f, 1e-8f);
    for (int step = 0; step < 2; step++) {
        dtr_engine_step_begin(e, step);
        dtr_scope_enter(e);
        dtr_split(dtr_matmul(x, w), 1, 2, parts);
        dtr_array *loss = dtr_mean(dtr_mul(parts[0], parts[1]), DTR_ALL_AXES);
        dtr_optimizer_step(adam, dtr_scope_leave(e, loss));
        dtr_engine_step_end(e);
    }
    return dtr_engine_status(e, NULL);
}

/* Each allocation fails once, in turn: there is never a crash or a leak, and the engine either
 * managed without or says that memory is out. */
static void test_no_memory(void **state)
{
    struct fault fault = {0};
    int failures = 0;
    (void)state;
    for (fault.at = 0; fault.seen >= fault.at; fault.at++) {
        dtr_engine *e = NULL;
        dtr_error error = {0};
        fault.seen = 0;
        dtri_alloc_set_fault(fail_one, &fault);
        dtr_status status = dtr_engine_open(NULL, &e, &error);
        if (status == DTR_OK) {
            status = train_two_steps(e);
            dtr_engine_close(e, NULL);
        }
        dtri_alloc_set_fault(NULL, NULL);
        if (status != DTR_OK && status != DTR_E_NOMEM && status != DTR_E_OUT_OF_MEMORY)
            fail_msg("allocation %lld: %s", (long long)fault.at, dtr_status_name(status));
        failures += status != DTR_OK;
    }
    assert_true(failures > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scopes),        cmocka_unit_test(test_nothing_stays),
        cmocka_unit_test(test_updates),       cmocka_unit_test(test_errors_stick),
        cmocka_unit_test(test_bad_operands),  cmocka_unit_test(test_spent),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
