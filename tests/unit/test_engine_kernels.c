/* Results of operators against plain loops in double. */
#include "support.h"

#include <math.h>

#include "base/rng.h"
#include "dtr/engine.h"

#define MAX_ELEMENTS 4096

struct fixture {
    dtr_engine *e;
    struct dtri_rng rng;
};

static int setup(void **state)
{
    static struct fixture f;
    dtr_engine_options options;
    dtr_error error = {0};
    dtr_engine_options_init(&options);
    options.poison = true;
    assert_ok(dtr_engine_open(&options, &f.e, &error), &error);
    dtri_rng_seed(&f.rng, 3);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    dtr_error error = {0};
    assert_ok(dtr_engine_status(f->e, &error), &error);
    assert_int_equal(dtr_engine_close(f->e, NULL), DTR_OK);
    return 0;
}

/* Random numbers from -2 to 2, in `out` and as an array. */
static dtr_array *draw(struct fixture *f, dtr_shape shape, float *out)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n_dims; i++)
        n *= shape.dims[i];
    assert_true(n <= MAX_ELEMENTS);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(dtri_rng_unit(&f->rng) * 4 - 2);
    return dtr_array_floats(f->e, shape, out);
}

static void expect(dtr_array *a, const double *expected, int64_t n)
{
    static float got[MAX_ELEMENTS];
    assert_int_equal(dtr_array_size(a), n);
    assert_int_equal(dtr_array_read(a, got, n), DTR_OK);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-5 * (1 + fabs(expected[i]))))
            fail_msg("element %lld is %g, not %g", (long long)i, (double)got[i], expected[i]);
}

/* A product of batches, for all four ways to transpose. */
static void test_matmul(void **state)
{
    struct fixture *f = *state;
    enum { BATCH = 3, M = 5, N = 7, K = 4 };
    static float a[BATCH * M * K], b[BATCH * K * N];
    static double c[BATCH * M * N];
    for (int t = 0; t < 4; t++) {
        bool ta = t & 1, tb = t & 2;
        dtr_array *x = draw(f, ta ? DTR_SHAPE(BATCH, K, M) : DTR_SHAPE(BATCH, M, K), a);
        dtr_array *y = draw(f, tb ? DTR_SHAPE(BATCH, N, K) : DTR_SHAPE(BATCH, K, N), b);
        memset(c, 0, sizeof c);
        for (int i = 0; i < BATCH; i++)
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++)
                    for (int k = 0; k < K; k++)
                        c[(i * M + m) * N + n] +=
                            (double)a[i * M * K + (ta ? k * M + m : m * K + k)] *
                            (double)b[i * K * N + (tb ? n * K + k : k * N + n)];
        expect(dtr_matmul_transposed(x, ta, y, tb), c, BATCH * M * N);
    }
}

/* Softmax, plain and causal, also where the exponential alone would overflow. */
static void test_softmax(void **state)
{
    struct fixture *f = *state;
    enum { N = 6 };
    float a[N * N], large[N * N];
    for (int causal = 0; causal < 2; causal++) {
        double y[N * N] = {0};
        dtr_array *x = draw(f, DTR_SHAPE(N, N), a);
        for (int i = 0; i < N; i++) {
            int live = causal ? i + 1 : N;
            double sum = 0;
            for (int j = 0; j < live; j++)
                sum += exp(a[i * N + j]);
            for (int j = 0; j < live; j++)
                y[i * N + j] = exp(a[i * N + j]) / sum;
        }
        expect(dtr_softmax(x, causal), y, N * N);
        for (int i = 0; i < N * N; i++)
            large[i] = roundf(a[i]) + 1000;
        for (int i = 0; i < N * N; i++)
            a[i] = roundf(a[i]);
        float small[N * N], got[N * N];
        dtr_array_read(dtr_softmax(dtr_array_floats(f->e, DTR_SHAPE(N, N), a), causal), small,
                       N * N);
        dtr_array_read(dtr_softmax(dtr_array_floats(f->e, DTR_SHAPE(N, N), large), causal), got,
                       N * N);
        assert_memory_equal(small, got, sizeof got);
    }
}

/* Layer norm, and the loss over rows. */
static void test_rows(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 5, N = 9 };
    float a[ROWS * N], gain[N], bias[N];
    double y[ROWS * N], loss = 0;
    const int32_t targets[ROWS] = {0, 8, 3, 3, 5};
    dtr_array *x = draw(f, DTR_SHAPE(ROWS, N), a);
    dtr_array *g = draw(f, DTR_SHAPE(N), gain), *b = draw(f, DTR_SHAPE(N), bias);
    for (int i = 0; i < ROWS; i++) {
        double sum = 0, squares = 0, exps = 0;
        for (int j = 0; j < N; j++) {
            sum += a[i * N + j];
            exps += exp(a[i * N + j]);
        }
        for (int j = 0; j < N; j++)
            squares += pow(a[i * N + j] - sum / N, 2);
        for (int j = 0; j < N; j++)
            y[i * N + j] = (a[i * N + j] - sum / N) / sqrt(squares / N + 1e-5) * (double)gain[j] +
                           (double)bias[j];
        loss += (log(exps) - (double)a[i * N + targets[i]]) / ROWS;
    }
    expect(dtr_layer_norm(x, g, b), y, ROWS * N);
    expect(dtr_cross_entropy(x, dtr_array_integers(f->e, DTR_SHAPE(ROWS), targets)), &loss, 1);
}

/* Functions of one element. */
static void test_elementwise(void **state)
{
    struct fixture *f = *state;
    enum { N = 64 };
    float a[N];
    double gelu[N], relu[N], ratio[N], root[N];
    dtr_array *x = draw(f, DTR_SHAPE(N), a);
    for (int i = 0; i < N; i++) {
        double v = a[i];
        gelu[i] = v * 0.5 * erfc(-v / sqrt(2));
        relu[i] = v > 0 ? v : 0;
        ratio[i] = log(exp(v) + 3) / (2 * v - 9);
        root[i] = sqrt(v * v);
    }
    expect(dtr_gelu(x), gelu, N);
    expect(dtr_relu(x), relu, N);
    expect(dtr_div(dtr_log(dtr_affine(dtr_exp(x), 1, 3)), dtr_affine(x, 2, -9)), ratio, N);
    expect(dtr_sqrt(dtr_mul(x, x)), root, N);
}

/* Four axes in another order, parts cut out and joined, sums over axes, broadcast operands. */
static void test_moving(void **state)
{
    struct fixture *f = *state;
    enum { A = 2, B = 3, C = 4, D = 5 };
    static float a[A * B * C * D], row[B * D];
    static double moved[A * B * C * D], swapped[A * B * C * D], sums[B * D],
        together[A * B * C * D];
    dtr_array *parts[4], *x = draw(f, DTR_SHAPE(A, B, C, D), a);
    dtr_array *r = draw(f, DTR_SHAPE(B, 1, D), row);
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < A; i++)
        for (int j = 0; j < B; j++)
            for (int k = 0; k < C; k++)
                for (int l = 0; l < D; l++) {
                    int at = ((i * B + j) * C + k) * D + l;
                    moved[((l * A + i) * C + k) * B + j] = a[at];
                    swapped[((i * B + j) * C + (C - 1 - k)) * D + l] = a[at];
                    sums[j * D + l] += a[at];
                    together[at] = (double)a[at] - (double)row[j * D + l];
                }
    expect(dtr_permute(x, (int[]){3, 0, 2, 1}), moved, A * B * C * D);
    dtr_split(x, 2, 4, parts);
    expect(dtr_concat((dtr_array *[]){parts[3], parts[2], parts[1], parts[0]}, 4, -2), swapped,
           A * B * C * D);
    for (int k = 0; k < C; k++)
        parts[k] = dtr_slice(x, 2, C - 1 - k, 1);
    expect(dtr_concat(parts, C, 2), swapped, A * B * C * D);
    expect(dtr_sum(x, DTR_AXIS(0) | DTR_AXIS(2)), sums, B * D);
    expect(dtr_sub(x, r), together, A * B * C * D);
}

/* A table's rows by number, and back with sums. */
static void test_table(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 4, WIDTH = 3, N = 6 };
    const int32_t ids[N] = {3, 1, 3, 0, 3, 1};
    float table[ROWS * WIDTH];
    double found[N * WIDTH], back[ROWS * WIDTH] = {0};
    dtr_array *i = dtr_array_integers(f->e, DTR_SHAPE(2, 3), ids);
    dtr_array *rows = dtr_embedding(draw(f, DTR_SHAPE(ROWS, WIDTH), table), i);
    for (int n = 0; n < N; n++)
        for (int w = 0; w < WIDTH; w++) {
            found[n * WIDTH + w] = table[ids[n] * WIDTH + w];
            back[ids[n] * WIDTH + w] += table[ids[n] * WIDTH + w];
        }
    expect(rows, found, N * WIDTH);
    expect(dtr_scatter_add(rows, i, ROWS), back, ROWS * WIDTH);
}

/* Dropout keeps the share that it should, scales it, and depends on the seed alone. */
static void test_dropout(void **state)
{
    struct fixture *f = *state;
    enum { N = 4000 };
    static float once[N], again[N], other[N];
    dtr_array *ones = dtr_array_full(f->e, DTR_SHAPE(N), 1);
    dtr_array *seed = dtr_dropout_seed(f->e);
    dtr_array_read(dtr_dropout(ones, 0.25f, seed), once, N);
    dtr_array_read(dtr_dropout(ones, 0.25f, seed), again, N);
    dtr_array_read(dtr_dropout(ones, 0.25f, dtr_dropout_seed(f->e)), other, N);
    assert_memory_equal(once, again, sizeof once);
    assert_memory_not_equal(once, other, sizeof once);
    int kept = 0;
    for (int i = 0; i < N; i++) {
        assert_true(once[i] == 0 || once[i] == 1 / (1 - 0.25f));
        kept += once[i] != 0;
    }
    assert_in_range(kept, N * 72 / 100, N * 78 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_matmul, setup, teardown),
        cmocka_unit_test_setup_teardown(test_softmax, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_elementwise, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moving, setup, teardown),
        cmocka_unit_test_setup_teardown(test_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dropout, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
