/* Training under a budget gives the same bits as training without one.
 *
 * A network with views, operators with several outputs, dropout and attention is trained for 20
 * steps in this process, on poisoned memory; charlm, the example, is run as a program.  For every
 * heuristic, both optimizers and several budgets, all losses and all parameters are equal to those
 * of the run without a budget, the peak stays within the budget, and evictions took place. */
#include "support.h"

#include <sys/wait.h>

#include "dtr/engine.h"

static const char *const HEURISTICS[] = {"dtr",  "dtr-eq", "dtr-local", "lru",
                                         "size", "msps",   "random"};
#define N_HEURISTICS (int)(sizeof HEURISTICS / sizeof HEURISTICS[0])

/* Percent of the peak without a budget; each heuristic gets one with SGD and one with Adam. */
static const int SHARES[] = {75, 60};
#define N_SHARES (int)(sizeof SHARES / sizeof SHARES[0])

/* --- in this process -------------------------------------------------------------------------- */

#define STEPS      20
#define ROWS       32
#define WIDTH      16
#define MAX_VALUES 8192
#define N_LAYERS   6

struct outcome {
    int n_values;
    float values[MAX_VALUES]; /* losses, then parameters */
    dtr_stats stats;
    dtr_backend_cpu_counts memory;
};

struct weights {
    dtr_array *rows, *layers[N_LAYERS], *gain, *bias, *last;
};

/* One layer of attention over the rows, with what is worth testing in it: parts of a split of which
 * one outlives the others, views of views, a mask that depends on a seed. */
static dtr_array *mix(dtr_engine *e, dtr_array *x, dtr_array *weight)
{
    dtr_array *parts[3];
    dtr_scope_enter(e);
    dtr_split(dtr_matmul(x, weight), 1, 3, parts);
    dtr_array *heads[3];
    for (int i = 0; i < 3; i++) {
        dtr_array *apart =
            dtr_reshape(dtr_reshape(parts[i], DTR_SHAPE(-1)), DTR_SHAPE(ROWS, 2, WIDTH / 2));
        heads[i] = dtr_transpose(apart, 0, 1);
    }
    dtr_array *scores = dtr_softmax(dtr_matmul_transposed(heads[0], false, heads[1], true), true);
    dtr_array *mixed = dtr_transpose(dtr_matmul(scores, heads[2]), 0, 1);
    dtr_array *dropped = dtr_dropout(mixed, 0.2f, dtr_dropout_seed(e));
    return dtr_scope_leave(e, dtr_add(x, dtr_reshape(dropped, DTR_SHAPE(ROWS, WIDTH))));
}

static dtr_array *loss_of(dtr_engine *e, const struct weights *w)
{
    int32_t targets[ROWS];
    for (int i = 0; i < ROWS; i++)
        targets[i] = i % 5;
    dtr_array *x = dtr_gelu(w->rows);
    for (int i = 0; i < N_LAYERS; i++)
        x = mix(e, x, w->layers[i]);
    x = dtr_matmul(dtr_relu(dtr_layer_norm(x, w->gain, w->bias)), w->last);
    return dtr_cross_entropy(dtr_slice(x, 1, 0, 5),
                             dtr_array_integers(e, DTR_SHAPE(ROWS), targets));
}

static void read_values(struct outcome *o, dtr_array *a)
{
    int n = (int)dtr_array_size(a);
    assert_true(o->n_values + n <= MAX_VALUES);
    dtr_array_read(a, o->values + o->n_values, n);
    o->n_values += n;
}

static void train(dtr_engine *e, bool adam, struct outcome *o)
{
    struct weights w;
    w.rows = dtr_parameter_normal(e, DTR_SHAPE(ROWS, WIDTH), 1);
    for (int i = 0; i < N_LAYERS; i++)
        w.layers[i] = dtr_parameter_normal(e, DTR_SHAPE(WIDTH, 3 * WIDTH), 0.2f);
    w.gain = dtr_parameter_full(e, DTR_SHAPE(WIDTH), 1);
    w.bias = dtr_parameter_full(e, DTR_SHAPE(WIDTH), 0);
    w.last = dtr_parameter_normal(e, DTR_SHAPE(WIDTH, 8), 0.5f);
    dtr_optimizer *optimizer = adam ? dtr_optimizer_adam(e, 0.03f, 0.9f, 0.999f, 1e-8f)
                                    : dtr_optimizer_sgd(e, 0.05f, 0.9f);
    for (int step = 0; step < STEPS; step++) {
        dtr_engine_step_begin(e, step);
        dtr_array *loss = loss_of(e, &w);
        read_values(o, loss);
        dtr_optimizer_step(optimizer, loss);
        dtr_engine_step_end(e);
    }
    for (int i = 0; i < dtr_engine_n_parameters(e); i++)
        read_values(o, dtr_engine_parameter(e, i));
}

/* A budget of 0: none. */
static void run(const char *heuristic, const char *deallocation, int64_t budget, bool adam,
                struct outcome *o)
{
    dtr_engine *e;
    dtr_engine_options options;
    dtr_error error = {0};
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)budget);
    dtr_engine_options_init(&options);
    options.heuristic = heuristic;
    options.deallocation = deallocation;
    options.budget = budget ? text : NULL;
    options.poison = true;
    o->n_values = 0;
    assert_ok(dtr_engine_open(&options, &e, &error), &error);
    train(e, adam, o);
    assert_ok(dtr_engine_status(e, &error), &error);
    assert_ok(dtr_runtime_check(dtr_engine_runtime(e), &error), &error);
    dtr_runtime_stats(dtr_engine_runtime(e), &o->stats);
    o->memory = dtr_engine_memory(e);
    assert_int_equal(dtr_engine_close(e, NULL), DTR_OK);
}

static void check_under(const struct outcome *free_run, const char *heuristic,
                        const char *deallocation, int share, bool adam)
{
    static struct outcome o;
    int64_t budget = free_run->stats.peak_bytes * share / 100;
    run(heuristic, deallocation, budget, adam, &o);
    assert_int_equal(o.n_values, free_run->n_values);
    if (memcmp(o.values, free_run->values, (size_t)o.n_values * sizeof(float)) != 0)
        fail_msg("%s, %s, %d %%, %s: other bits", heuristic, deallocation, share,
                 adam ? "adam" : "sgd");
    assert_in_range(o.stats.peak_bytes, 1, budget);
    assert_true(o.stats.evictions > 0 && o.stats.rematerializations > 0);
    /* What the allocator held beyond that is the headers of its blocks. */
    assert_true(o.memory.peak_bytes < free_run->memory.peak_bytes);
    assert_true(o.memory.peak_bytes - budget < 256 * 80);
    assert_true(o.memory.frees > free_run->memory.frees);
}

/* Losses and parameters do not depend on budget and heuristic, to the last bit. */
static void test_same_bits(void **state)
{
    static struct outcome free_run;
    (void)state;
    for (int adam = 0; adam < 2; adam++) {
        run("dtr-eq", "eager", 0, adam, &free_run);
        assert_int_equal(free_run.stats.evictions, 0);
        assert_true(free_run.values[STEPS - 1] < free_run.values[0]);
        for (int i = 0; i < N_HEURISTICS; i++)
            check_under(&free_run, HEURISTICS[i], "eager", SHARES[(i + adam) % N_SHARES], adam);
    }
}

/* Nor on what happens to storages that nobody holds any more. */
static void test_same_bits_ignoring(void **state)
{
    static struct outcome free_run;
    (void)state;
    run("dtr-eq", "eager", 0, true, &free_run);
    for (int i = 0; i < N_HEURISTICS; i++)
        check_under(&free_run, HEURISTICS[i], "ignore", 75, true);
}

/* --- the example ------------------------------------------------------------------------------ */

struct printed {
    char hash[32];
    long long peak, evictions;
    int status;
    char text[16384];
};

static const char *charlm(void)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/examples/charlm", environment("DTRSCOPE_BUILD", "."));
    return path;
}

static void run_charlm(const char *variables, const char *optimizer, struct printed *p)
{
    char command[1024];
    snprintf(command, sizeof command,
             "env -u DTR_BUDGET %s %s --layers 2 --dim 16 --heads 2 --context 16 --batch 4 "
             "--steps 20 --print-hash --optimizer %s '%s/CMakeLists.txt' 2>&1",
             variables, charlm(), optimizer, environment("DTRSCOPE_SOURCE", "."));
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(p->text, 1, sizeof p->text - 1, pipe);
    p->text[n] = 0;
    p->status = pclose(pipe);
    const char *hash = strstr(p->text, "hash "), *peak = strstr(p->text, "peak ");
    const char *runs = strstr(p->text, "operator runs, ");
    p->hash[0] = 0;
    p->peak = p->evictions = -1;
    if (hash)
        sscanf(hash, "hash %31s", p->hash);
    if (peak)
        sscanf(peak, "peak %lld", &p->peak);
    if (runs)
        sscanf(runs, "operator runs, %lld", &p->evictions);
}

/* The hash over all losses and parameters that charlm prints is the same under any budget. */
static void test_charlm(void **state)
{
    static struct printed free_run, p;
    const char *const optimizers[] = {"sgd", "adam"};
    char variables[128];
    (void)state;
    for (int o = 0; o < 2; o++) {
        run_charlm("", optimizers[o], &free_run);
        if (free_run.status != 0 || free_run.evictions != 0)
            fail_msg("%s", free_run.text);
        for (int i = 0; i < N_HEURISTICS; i++) {
            long long budget = free_run.peak * SHARES[(i + o) % N_SHARES] / 100;
            snprintf(variables, sizeof variables, "DTR_BUDGET=%lld DTR_HEURISTIC=%s", budget,
                     HEURISTICS[i]);
            run_charlm(variables, optimizers[o], &p);
            if (p.status != 0 || strcmp(p.hash, free_run.hash) != 0 || p.evictions <= 0 ||
                p.peak > budget)
                fail_msg("%s, %s: not as without a budget:\n%s", variables, optimizers[o], p.text);
        }
    }
}

/* The losses of mlp, up to its summary, in `out`. */
static void run_mlp(const char *variables, char *out, size_t size)
{
    char command[1024];
    snprintf(command, sizeof command, "env -u DTR_BUDGET %s '%s/examples/mlp' 2>&1", variables,
             environment("DTRSCOPE_BUILD", "."));
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    out[fread(out, 1, size - 1, pipe)] = 0;
    assert_int_equal(pclose(pipe), 0);
}

/* The smallest example prints the same losses in 60 % of the memory. */
static void test_mlp(void **state)
{
    static char free_run[4096], tight[4096];
    (void)state;
    run_mlp("", free_run, sizeof free_run);
    run_mlp("DTR_BUDGET=3MB", tight, sizeof tight);
    char *summary = strstr(free_run, "peak "), *other = strstr(tight, "peak ");
    assert_non_null(summary);
    assert_non_null(other);
    assert_non_null(strstr(summary, " 0 evictions"));
    assert_null(strstr(other, " 0 evictions"));
    *summary = *other = 0;
    assert_non_null(strstr(free_run, "step 50  loss "));
    assert_string_equal(free_run, tight);
}

/* A budget that cannot be met ends with code 1 and a sentence that names it and the need. */
static void test_charlm_out_of_memory(void **state)
{
    static struct printed p;
    (void)state;
    run_charlm("DTR_BUDGET=150000", "sgd", &p);
    if (!WIFEXITED(p.status) || WEXITSTATUS(p.status) != 1 || !strstr(p.text, "charlm: ") ||
        !strstr(p.text, "the budget of 150000") || !strstr(p.text, " needs "))
        fail_msg("%d: %s", p.status, p.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_same_bits_ignoring),
        cmocka_unit_test(test_charlm),
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_charlm_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
