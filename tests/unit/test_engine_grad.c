/* Gradients against finite differences: for every operator, the gradient, and the gradient of the
 * gradient.
 *
 * A case is a function of some arrays.  Its result is weighed element by element and summed up to a
 * loss; the second loss weighs the gradients of the first one. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "dtr/engine.h"

#define MAX_INPUTS   3
#define MAX_ELEMENTS 64

struct grad_case {
    const char *name;
    dtr_array *(*function)(dtr_engine *e, dtr_array **in);
    int n_inputs;
    dtr_shape shapes[MAX_INPUTS];
    float low, high; /* range of the inputs; both 0: -1 to 1 */
};

static const int32_t IDS[] = {2, 0, 2, 4, 1, 2};

static dtr_array *f_add(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_add(in[0], in[1]);
}

static dtr_array *f_sub(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_sub(in[0], in[1]);
}

static dtr_array *f_mul(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_mul(in[0], in[1]);
}

static dtr_array *f_square(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_mul(in[0], in[0]);
}

static dtr_array *f_div(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_div(in[0], in[1]);
}

static dtr_array *f_affine(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_affine(in[0], -1.5f, 0.25f);
}

static dtr_array *f_exp(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_exp(in[0]);
}

static dtr_array *f_log(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_log(in[0]);
}

static dtr_array *f_sqrt(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_sqrt(in[0]);
}

/* Moved so that no input comes near the kink. */
static dtr_array *f_relu(dtr_engine *e, dtr_array **in)
{
    float kinks[6] = {0.5f, -0.5f, 0.5f, -0.5f, 0.5f, -0.5f};
    return dtr_relu(dtr_add(dtr_scale(in[0], 0.4f), dtr_array_floats(e, DTR_SHAPE(2, 3), kinks)));
}

static dtr_array *f_gelu(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_gelu(in[0]);
}

static dtr_array *f_matmul(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_matmul(in[0], in[1]);
}

static dtr_array *f_matmul_ta(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_matmul_transposed(in[0], true, in[1], false);
}

static dtr_array *f_matmul_tb(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_matmul_transposed(in[0], false, in[1], true);
}

static dtr_array *f_matmul_tab(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_matmul_transposed(in[0], true, in[1], true);
}

static dtr_array *f_sum(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_sum(in[0], DTR_AXIS(0) | DTR_AXIS(2));
}

static dtr_array *f_sum_keep(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_sum_keep(in[0], DTR_AXIS(1));
}

static dtr_array *f_mean(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_mean(in[0], DTR_ALL_AXES);
}

static dtr_array *f_broadcast(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_broadcast(in[0], DTR_SHAPE(2, 3, 4));
}

static dtr_array *f_reshape(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_reshape(in[0], DTR_SHAPE(4, -1));
}

static dtr_array *f_permute(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_permute(in[0], (int[]){2, 0, 1});
}

static dtr_array *f_transpose(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_transpose(in[0], 0, -1);
}

/* One of the three parts is used twice, one not at all. */
static dtr_array *f_split(dtr_engine *e, dtr_array **in)
{
    dtr_array *parts[3];
    (void)e;
    dtr_split(in[0], 1, 3, parts);
    return dtr_mul(dtr_mul(parts[0], parts[2]), parts[0]);
}

static dtr_array *f_concat(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_concat(in, 3, 1);
}

static dtr_array *f_slice(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_slice(in[0], 2, 1, 2);
}

static dtr_array *f_softmax(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_softmax(in[0], false);
}

static dtr_array *f_softmax_causal(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_softmax(in[0], true);
}

static dtr_array *f_layer_norm(dtr_engine *e, dtr_array **in)
{
    (void)e;
    return dtr_layer_norm(dtr_scale(in[0], 2), in[1], in[2]);
}

static dtr_array *f_embedding(dtr_engine *e, dtr_array **in)
{
    return dtr_embedding(in[0], dtr_array_integers(e, DTR_SHAPE(2, 3), IDS));
}

static dtr_array *f_scatter_add(dtr_engine *e, dtr_array **in)
{
    return dtr_scatter_add(in[0], dtr_array_integers(e, DTR_SHAPE(2, 3), IDS), 5);
}

static dtr_array *f_cross_entropy(dtr_engine *e, dtr_array **in)
{
    return dtr_cross_entropy(in[0], dtr_array_integers(e, DTR_SHAPE(6), IDS));
}

static dtr_array *f_dropout(dtr_engine *e, dtr_array **in)
{
    int32_t seed[2] = {7, 9};
    return dtr_dropout(dtr_exp(in[0]), 0.4f, dtr_array_integers(e, DTR_SHAPE(2), seed));
}

/* clang-format off */
#define S(...) DTR_SHAPE(__VA_ARGS__)
/* clang-format on */
static const struct grad_case *all_cases(size_t *out_n)
{
    static struct grad_case cases[40];
    size_t n = 0;
    const struct grad_case list[] = {
        {"add", f_add, 2, {S(2, 3), S(2, 3)}, 0, 0},
        {"add, broadcast", f_add, 2, {S(2, 1, 3), S(4, 1)}, 0, 0},
        {"sub, broadcast", f_sub, 2, {S(2, 3), S(3)}, 0, 0},
        {"sub, scalar", f_sub, 2, {DTR_SCALAR, S(3)}, 0, 0},
        {"mul", f_mul, 2, {S(2, 3), S(2, 3)}, 0, 0},
        {"mul, broadcast", f_mul, 2, {S(2, 3, 2), S(3, 1)}, 0, 0},
        {"square", f_square, 1, {S(5)}, 0, 0},
        {"div", f_div, 2, {S(2, 3), S(3)}, 0.7f, 1.5f},
        {"affine", f_affine, 1, {S(4)}, 0, 0},
        {"exp", f_exp, 1, {S(4)}, 0, 0},
        {"log", f_log, 1, {S(4)}, 0.7f, 1.5f},
        {"sqrt", f_sqrt, 1, {S(4)}, 0.7f, 1.5f},
        {"relu", f_relu, 1, {S(2, 3)}, 0, 0},
        {"gelu", f_gelu, 1, {S(8)}, -2, 2},
        {"matmul", f_matmul, 2, {S(2, 3), S(3, 4)}, 0, 0},
        {"matmul, a transposed", f_matmul_ta, 2, {S(3, 2), S(3, 4)}, 0, 0},
        {"matmul, b transposed", f_matmul_tb, 2, {S(2, 3), S(4, 3)}, 0, 0},
        {"matmul, both transposed", f_matmul_tab, 2, {S(3, 2), S(4, 3)}, 0, 0},
        {"matmul, batch", f_matmul_tb, 2, {S(2, 2, 2, 3), S(2, 2, 2, 3)}, 0, 0},
        {"matmul, one matrix for all", f_matmul, 2, {S(2, 2, 3), S(3, 2)}, 0, 0},
        {"sum", f_sum, 1, {S(2, 3, 2)}, 0, 0},
        {"sum, axes kept", f_sum_keep, 1, {S(2, 3, 2)}, 0, 0},
        {"mean", f_mean, 1, {S(2, 3)}, 0, 0},
        {"broadcast", f_broadcast, 1, {S(3, 1)}, 0, 0},
        {"reshape", f_reshape, 1, {S(2, 3, 2)}, 0, 0},
        {"permute", f_permute, 1, {S(2, 3, 4)}, 0, 0},
        {"transpose", f_transpose, 1, {S(2, 3, 4)}, 0, 0},
        {"split", f_split, 1, {S(2, 6)}, 0, 0},
        {"concat", f_concat, 3, {S(2, 1), S(2, 3), S(2, 2)}, 0, 0},
        {"slice", f_slice, 1, {S(2, 2, 4)}, 0, 0},
        {"softmax", f_softmax, 1, {S(3, 4)}, 0, 0},
        {"softmax, causal", f_softmax_causal, 1, {S(2, 3, 3)}, 0, 0},
        {"layer norm", f_layer_norm, 3, {S(3, 6), S(6), S(6)}, 0, 0},
        {"embedding", f_embedding, 1, {S(5, 2)}, 0, 0},
        {"scatter_add", f_scatter_add, 1, {S(2, 3, 2)}, 0, 0},
        {"cross entropy", f_cross_entropy, 1, {S(6, 5)}, 0, 0},
        {"dropout", f_dropout, 1, {S(3, 4)}, 0, 0},
    };
    for (; n < sizeof list / sizeof list[0]; n++)
        cases[n] = list[n];
    *out_n = n;
    return cases;
}

/* --- evaluating one --------------------------------------------------------------------------- */

typedef float values[MAX_INPUTS][MAX_ELEMENTS];

static int64_t size_of(const dtr_shape *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->n_dims; i++)
        n *= shape->dims[i];
    return n;
}

/* The sum of all elements, each with another weight. */
static dtr_array *weighed(dtr_engine *e, dtr_array *a, uint64_t seed)
{
    float weights[MAX_ELEMENTS];
    struct dtri_rng rng;
    int64_t n = dtr_array_size(a);
    assert_true(n <= MAX_ELEMENTS);
    dtri_rng_seed(&rng, seed);
    for (int64_t i = 0; i < n; i++)
        weights[i] = (float)(dtri_rng_unit(&rng) * 2 - 1);
    return dtr_sum(dtr_mul(a, dtr_array_floats(e, dtr_array_shape(a), weights)), DTR_ALL_AXES);
}

static dtr_array *first_loss(dtr_engine *e, const struct grad_case *c, const values x,
                             dtr_array **out_in)
{
    for (int i = 0; i < c->n_inputs; i++)
        out_in[i] = dtr_variable(dtr_array_floats(e, c->shapes[i], x[i]));
    return weighed(e, c->function(e, out_in), 11);
}

static dtr_array *second_loss(dtr_engine *e, const struct grad_case *c, const values x,
                              dtr_array **out_in)
{
    dtr_array *grads[MAX_INPUTS], *sum = dtr_array_full(e, DTR_SCALAR, 0);
    dtr_array *loss = first_loss(e, c, x, out_in);
    dtr_grad(loss, out_in, c->n_inputs, grads, true);
    for (int i = 0; i < c->n_inputs; i++)
        sum = dtr_add(sum, weighed(e, grads[i], 21 + (uint64_t)i));
    return sum;
}

typedef dtr_array *(*loss_function)(dtr_engine *, const struct grad_case *, const values,
                                    dtr_array **);

static double loss_at(dtr_engine *e, const struct grad_case *c, const values x, loss_function loss)
{
    dtr_array *in[MAX_INPUTS];
    dtr_scope_enter(e);
    double value = dtr_array_item(loss(e, c, x, in));
    dtr_scope_leave(e, NULL);
    return value;
}

static void gradients_at(dtr_engine *e, const struct grad_case *c, const values x,
                         loss_function loss, values out)
{
    dtr_array *in[MAX_INPUTS], *grads[MAX_INPUTS];
    dtr_scope_enter(e);
    dtr_array *value = loss(e, c, x, in);
    dtr_grad(value, in, c->n_inputs, grads, false);
    for (int i = 0; i < c->n_inputs; i++)
        dtr_array_read(grads[i], out[i], size_of(&c->shapes[i]));
    dtr_scope_leave(e, NULL);
}

#define STEP 0.01f

static void compare(dtr_engine *e, const struct grad_case *c, loss_function loss, const char *what)
{
    values x, grads;
    struct dtri_rng rng;
    dtr_error error = {0};
    bool plain = c->low == 0 && c->high == 0;
    float low = plain ? -1 : c->low, high = plain ? 1 : c->high;
    dtri_rng_seed(&rng, 5);
    for (int i = 0; i < c->n_inputs; i++)
        for (int64_t j = 0; j < size_of(&c->shapes[i]); j++)
            x[i][j] = low + (high - low) * (float)dtri_rng_unit(&rng);
    gradients_at(e, c, x, loss, grads);
    assert_ok(dtr_engine_status(e, &error), &error);
    for (int i = 0; i < c->n_inputs; i++)
        for (int64_t j = 0; j < size_of(&c->shapes[i]); j++) {
            float at = x[i][j];
            x[i][j] = at + STEP;
            double above = loss_at(e, c, x, loss);
            x[i][j] = at - STEP;
            double below = loss_at(e, c, x, loss);
            x[i][j] = at;
            double expected = (above - below) / (2 * (double)STEP);
            if (!(fabs(grads[i][j] - expected) <= 2e-3 * (1 + fabs(expected))))
                fail_msg("%s, %s: input %d, element %lld: %g, and %g by differences", c->name, what,
                         i, (long long)j, (double)grads[i][j], expected);
        }
    assert_ok(dtr_engine_status(e, &error), &error);
}

static dtr_engine *open_engine(void)
{
    dtr_engine *e;
    dtr_engine_options options;
    dtr_error error = {0};
    dtr_engine_options_init(&options);
    options.poison = true;
    assert_ok(dtr_engine_open(&options, &e, &error), &error);
    return e;
}

/* The gradient of every operator is what finite differences say. */
static void test_gradients(void **state)
{
    size_t n;
    const struct grad_case *cases = all_cases(&n);
    dtr_engine *e = open_engine();
    (void)state;
    for (size_t i = 0; i < n; i++)
        compare(e, &cases[i], first_loss, "gradient");
    assert_int_equal(dtr_engine_close(e, NULL), DTR_OK);
}

/* And so is the gradient of a function of that gradient. */
static void test_gradients_of_gradients(void **state)
{
    size_t n;
    const struct grad_case *cases = all_cases(&n);
    dtr_engine *e = open_engine();
    (void)state;
    for (size_t i = 0; i < n; i++)
        compare(e, &cases[i], second_loss, "gradient of the gradient");
    assert_int_equal(dtr_engine_close(e, NULL), DTR_OK);
}

/* A third derivative: of x^4 at 2, through two gradients that keep the graph. */
static void test_third_derivative(void **state)
{
    dtr_engine *e = open_engine();
    float two = 2;
    (void)state;
    dtr_array *x = dtr_variable(dtr_array_floats(e, DTR_SCALAR, &two));
    dtr_array *square = dtr_mul(x, x), *y = dtr_mul(square, square);
    const float expected[3] = {32, 48, 48};
    for (int i = 0; i < 3; i++) {
        dtr_grad(y, &x, 1, &y, true);
        assert_float_equal(dtr_array_item(y), expected[i], 0);
    }
    dtr_engine_close(e, NULL);
}

/* No gradient flows through a detached array. */
static void test_detach(void **state)
{
    dtr_engine *e = open_engine();
    float three = 3;
    (void)state;
    dtr_array *x = dtr_variable(dtr_array_floats(e, DTR_SCALAR, &three)), *g;
    dtr_grad(dtr_mul(x, dtr_detach(x)), &x, 1, &g, false);
    assert_float_equal(dtr_array_item(g), 3, 0);
    dtr_engine_close(e, NULL);
}

/* What the loss does not depend on has a gradient of zeros. */
static void test_independent(void **state)
{
    dtr_engine *e = open_engine();
    float ones[2] = {1, 1}, out[2] = {5, 5};
    (void)state;
    dtr_array *x = dtr_variable(dtr_array_floats(e, DTR_SHAPE(2), ones));
    dtr_array *other = dtr_variable(dtr_array_floats(e, DTR_SHAPE(2), ones)), *g;
    dtr_grad(dtr_sum(x, DTR_ALL_AXES), &other, 1, &g, false);
    assert_int_equal(dtr_array_read(g, out, 2), DTR_OK);
    assert_float_equal(out[0], 0, 0);
    assert_float_equal(out[1], 0, 0);
    dtr_engine_close(e, NULL);
}

/* Gradients of arrays on the way, not only of leaves, and of several at once. */
static void test_inner_gradient(void **state)
{
    dtr_engine *e = open_engine();
    float three = 3;
    (void)state;
    dtr_array *x = dtr_variable(dtr_array_floats(e, DTR_SCALAR, &three));
    dtr_array *square = dtr_mul(x, x), *grads[2];
    dtr_grad(dtr_mul(square, square), (dtr_array *[]){x, square}, 2, grads, false);
    assert_float_equal(dtr_array_item(grads[0]), 108, 0);
    assert_float_equal(dtr_array_item(grads[1]), 18, 0);
    dtr_engine_close(e, NULL);
}

/* A chain far deeper than the C stack would allow for recursion. */
static void test_deep_chain(void **state)
{
    dtr_engine *e = open_engine();
    float one = 1;
    (void)state;
    dtr_array *x = dtr_variable(dtr_array_floats(e, DTR_SCALAR, &one)), *y = x, *g;
    for (int i = 0; i < 20000; i++)
        y = dtr_affine(y, -1, 1);
    dtr_grad(y, &x, 1, &g, false);
    assert_float_equal(dtr_array_item(g), 1, 0);
    dtr_engine_close(e, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),        cmocka_unit_test(test_gradients_of_gradients),
        cmocka_unit_test(test_third_derivative), cmocka_unit_test(test_detach),
        cmocka_unit_test(test_independent),      cmocka_unit_test(test_inner_gradient),
        cmocka_unit_test(test_deep_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
