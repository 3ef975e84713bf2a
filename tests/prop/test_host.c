/* Random programs whose operators the host runs, against a model that never evicts.
 *
 * A variable's content is one number, the hash of the operator's salt and of its inputs.  Programs
 * make constants, run operators with one to four inputs and one to three outputs, in place or not,
 * let them fail, release variables while operators hold them, evict everything, and call barriers;
 * allocations fail now and then.  Whatever is looked at has the value that the model expects, the
 * budget holds unless it was overshot, and nothing is left at the end. */
#include "support.h"

#include "../fault/fault.h"
#include "base/rng.h"
#include "dtr/host.h"

#define MAX_VARIABLES 24
#define N_STEPS       400
#define POISON        UINT64_C(0xdeaddeaddeaddead)

struct block {
    uint64_t value;
};

struct payload {
    uint64_t salt;
    int *live;
};

struct variable {
    dtr_tensor tensor;
    uint64_t expected;
    int64_t bytes;
};

struct world {
    dtr_runtime *rt;
    struct dtri_rng rng;
    struct variable variables[MAX_VARIABLES];
    int n, blocks, payloads, refusals;
    bool refuse, faulty; /* the device, the host has no memory now and then */
    int64_t now;
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static int below(struct world *w, int n)
{
    return (int)(dtri_rng_next(&w->rng) % (uint64_t)n);
}

static struct block *block_new(struct world *w)
{
    struct block *b = malloc(sizeof *b);
    assert_non_null(b);
    b->value = POISON;
    w->blocks++;
    return b;
}

/* --- the backend: replays only ---------------------------------------------------------------- */

static dtr_status backend_alloc(void *self, int64_t bytes, void **out_data, dtr_error *error)
{
    struct world *w = self;
    (void)bytes;
    if (w->refuse && below(w, 20) == 0) {
        w->refusals++;
        snprintf(error->text, sizeof error->text, "refused");
        return DTR_E_NOMEM;
    }
    *out_data = block_new(w);
    return DTR_OK;
}

static void backend_free(void *self, void *data, int64_t bytes)
{
    struct world *w = self;
    (void)bytes;
    ((struct block *)data)->value = POISON;
    free(data);
    w->blocks--;
}

static dtr_status backend_run(void *self, const dtr_op_call *call, int64_t *out_cost_ns,
                              dtr_error *error)
{
    const struct payload *p = call->payload;
    uint64_t h = p->salt;
    (void)self, (void)error;
    assert_true(call->replay);
    for (int i = 0; i < call->n_inputs; i++) {
        assert_true(((struct block *)call->inputs[i])->value != POISON);
        h = mix(h, ((struct block *)call->inputs[i])->value);
    }
    for (int i = 0; i < call->n_outputs; i++)
        ((struct block *)call->outputs[i])->value = mix(h, (uint64_t)i);
    *out_cost_ns = 5;
    return DTR_OK;
}

static int64_t backend_now(void *self)
{
    return ++((struct world *)self)->now;
}

static void payload_free(void *payload)
{
    --*((struct payload *)payload)->live;
    free(payload);
}

/* --- what a program does ---------------------------------------------------------------------- */

static bool expected_failure(dtr_status status)
{
    return status == DTR_E_OUT_OF_MEMORY || status == DTR_E_NOMEM;
}

static void add_variable(struct world *w, dtr_tensor tensor, uint64_t expected, int64_t bytes)
{
    assert_true(w->n < MAX_VARIABLES);
    w->variables[w->n++] = (struct variable){tensor, expected, bytes};
}

static void make_constant(struct world *w)
{
    dtr_error error = {0};
    struct block *b = block_new(w);
    b->value = dtri_rng_next(&w->rng);
    dtr_tensor tensor;
    dtr_status status = dtr_adopt_constant(w->rt, 16, b, &tensor, &error);
    if (w->faulty && status == DTR_E_NOMEM) {
        backend_free(w, b, 16);
        return;
    }
    assert_ok(status, &error);
    add_variable(w, tensor, b->value, 16);
}

static void release(struct world *w, int i)
{
    assert_int_equal(dtr_release(w->rt, w->variables[i].tensor), DTR_OK);
    w->variables[i] = w->variables[--w->n];
}

/* Looks at a variable's bytes.  The caller holds it. */
static struct block *look(struct world *w, const struct variable *v)
{
    dtr_error error = {0};
    void *data;
    assert_ok(dtr_pin(w->rt, v->tensor, &data, &error), &error);
    assert_int_equal(((struct block *)data)->value, v->expected);
    assert_int_equal(dtr_unpin(w->rt, v->tensor), DTR_OK);
    return data;
}

static void read_variable(struct world *w, const struct variable *v)
{
    dtr_error error = {0};
    dtr_status status = dtr_hold(w->rt, &v->tensor, 1, 0, &error);
    if (expected_failure(status))
        return;
    assert_ok(status, &error);
    look(w, v);
    dtr_unhold(w->rt, &v->tensor, 1);
}

static void barrier(struct world *w)
{
    dtr_error error = {0};
    bool refuse = w->refuse;
    w->refuse = false;
    dtr_status status = dtr_barrier(w->rt, dtr_runtime_name(w->rt, "test"), &error);
    w->refuse = refuse;
    if (w->faulty && status == DTR_E_NOMEM)
        return;
    assert_ok(status, &error);
    for (int i = 0; i < w->n; i++) {
        dtr_tensor_info info;
        assert_int_equal(dtr_tensor_info_of(w->rt, w->variables[i].tensor, &info), DTR_OK);
        assert_true(info.constant);
        assert_int_equal(dtr_dependents(w->rt, w->variables[i].tensor), 0);
    }
    dtr_stats stats;
    dtr_runtime_stats(w->rt, &stats);
    assert_int_equal(stats.tensors, w->n);
    assert_int_equal(stats.candidates, 0);
    assert_int_equal(w->payloads, 0);
}

/* False when there was no memory for it. */
static bool isolate(struct world *w, dtr_tensor tensor)
{
    dtr_error error = {0};
    bool refuse = w->refuse;
    w->refuse = false;
    dtr_status status = dtr_isolate(w->rt, tensor, DTR_NONE, &error);
    w->refuse = refuse;
    if (w->faulty && status == DTR_E_NOMEM)
        return false;
    assert_ok(status, &error);
    assert_int_equal(dtr_dependents(w->rt, tensor), 0);
    return true;
}

static void run_operator(struct world *w)
{
    dtr_error error = {0};
    int n_in = 1 + below(w, 4), n_out = 1 + below(w, 3), chosen[4], takes[3] = {-1, -1, -1};
    dtr_tensor inputs[4], outputs[3];
    void *data[3] = {0};
    dtr_output sizes[3];
    if (w->n == 0 || w->n + n_out > MAX_VARIABLES)
        return;
    for (int i = 0; i < n_in; i++) {
        chosen[i] = below(w, w->n);
        inputs[i] = w->variables[chosen[i]].tensor;
    }
    bool in_place = below(w, 3) == 0, constant = false;
    if (in_place && dtr_dependents(w->rt, inputs[0]) > 0) {
        dtr_tensor_info info;
        assert_int_equal(dtr_tensor_info_of(w->rt, inputs[0], &info), DTR_OK);
        if (info.constant && !isolate(w, inputs[0]))
            return;
    }
    dtr_status status = dtr_hold(w->rt, inputs, n_in, 16, &error);
    if (expected_failure(status))
        return;
    assert_ok(status, &error);
    if (below(w, 10) == 0) { /* the operator fails */
        dtr_unhold(w->rt, inputs, n_in);
        return;
    }
    uint64_t h = dtri_rng_next(&w->rng);
    struct payload *payload = malloc(sizeof *payload);
    assert_non_null(payload);
    *payload = (struct payload){h, &w->payloads};
    w->payloads++;
    int n_held = 0;
    for (int i = 0; i < n_in; i++) {
        n_held += inputs[i] == inputs[0];
        h = mix(h, look(w, &w->variables[chosen[i]])->value);
    }
    for (int i = 0; i < n_out; i++)
        sizes[i] = (dtr_output){.bytes = 8 + 8 * below(w, 3), .view_of = -1};
    if (in_place) {
        dtr_tensor_info info;
        assert_int_equal(dtr_tensor_info_of(w->rt, inputs[0], &info), DTR_OK);
        assert_true(dtr_can_take(w->rt, inputs[0], n_held));
        constant = info.constant;
        takes[0] = 0;
        sizes[0].bytes = info.bytes;
        look(w, &w->variables[chosen[0]])->value = mix(h, 0);
    }
    for (int i = in_place; i < n_out; i++) {
        struct block *b = block_new(w);
        b->value = mix(h, (uint64_t)i);
        data[i] = b;
    }
    int gone = -1;
    if (!in_place && below(w, 6) == 0) { /* its last reference goes while the operator runs */
        gone = chosen[0];
        assert_int_equal(dtr_release(w->rt, inputs[0]), DTR_OK);
    }
    dtr_call call = {.name = dtr_runtime_name(w->rt, "op"),
                     .payload = payload,
                     .payload_free = payload_free,
                     .mutates = in_place,
                     .n_inputs = n_in,
                     .n_outputs = n_out,
                     .inputs = inputs,
                     .outputs = sizes};
    dtr_host_run run = {.begin_ns = w->now,
                        .dur_ns = 5,
                        .cost_ns = 1 + below(w, 20),
                        .data = data,
                        .takes = takes,
                        .signature = DTR_NONE,
                        .constant = constant};
    status = dtr_adopt(w->rt, &call, &run, outputs, &error);
    if (status != DTR_E_OUT_OF_MEMORY) /* then all is registered nevertheless */
        assert_ok(status, &error);
    if (in_place)
        w->variables[chosen[0]] = (struct variable){outputs[0], mix(h, 0), sizes[0].bytes};
    for (int i = in_place; i < n_out; i++)
        add_variable(w, outputs[i], mix(h, (uint64_t)i), sizes[i].bytes);
    if (gone >= 0)
        w->variables[gone] = w->variables[--w->n];
}

static void step(struct world *w)
{
    int choice = below(w, 100);
    if (choice < 12 && w->n < MAX_VARIABLES)
        make_constant(w);
    else if (choice < 60)
        run_operator(w);
    else if (choice < 78 && w->n > 0)
        release(w, below(w, w->n));
    else if (choice < 94 && w->n > 0)
        read_variable(w, &w->variables[below(w, w->n)]);
    else if (choice < 97)
        dtr_evict_all(w->rt);
    else
        barrier(w);
}

static void run_program(uint64_t seed, const char *heuristic, int64_t budget, bool overshoot,
                        bool refuse, dtr_deallocation deallocation, int fault_at, dtr_stats *sums)
{
    dtr_error error = {0};
    struct world w = {.refuse = refuse};
    dtri_rng_seed(&w.rng, seed);
    dtr_backend backend = {&w, backend_alloc, backend_free, backend_run, backend_now, NULL};
    dtr_selector *selector;
    dtr_selector_options choice = {.heuristic = heuristic, .seed = seed};
    assert_ok(dtr_selector_new(&choice, &selector, &error), &error);
    dtr_runtime_options options;
    dtr_runtime_options_init(&options);
    options.backend = &backend;
    options.selector = selector;
    options.budget_bytes = budget;
    options.reclaim = true;
    options.allow_overshoot = overshoot;
    options.deallocation = deallocation;
    assert_ok(dtr_runtime_new(&options, &w.rt, &error), &error);
    w.faulty = fault_at >= 0;
    for (int i = 0; i < N_STEPS; i++) {
        struct fault fault;
        if (w.faulty)
            fault_begin(&fault, (fault_at + 7 * i) % 11, i % 3 == 0);
        step(&w);
        if (w.faulty)
            fault_end(&fault);
        if (i % 16 == 0)
            assert_ok(dtr_runtime_check(w.rt, &error), &error);
        if (i % 40 == 39)
            barrier(&w);
    }
    w.faulty = false;
    for (int i = 0; i < w.n; i++)
        read_variable(&w, &w.variables[i]);
    dtr_stats stats;
    dtr_runtime_stats(w.rt, &stats);
    sums->evictions += stats.evictions;
    sums->rematerializations += stats.rematerializations;
    sums->overshoots += w.refusals;
    barrier(&w);
    while (w.n > 0)
        release(&w, 0);
    dtr_runtime_stats(w.rt, &stats);
    assert_int_equal(stats.in_use_bytes, 0);
    assert_int_equal(stats.storages, 0);
    assert_int_equal(stats.operators, 0);
    assert_int_equal(w.blocks, 0);
    assert_int_equal(w.payloads, 0);
    dtr_runtime_free(w.rt);
}

static void test_random_programs(void **state)
{
    static const char *const heuristics[] = {"dtr", "dtr-eq", "dtr-local", "lru", "size", "random"};
    dtr_stats sums = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 240; seed++)
        run_program(seed, heuristics[seed % 6],
                    seed % 5 == 4 ? DTR_NONE : 200 + 40 * (int64_t)(seed % 4), seed % 2,
                    seed % 3 == 0, seed % 7 == 6 ? DTR_DEALLOCATE_IGNORE : DTR_DEALLOCATE_EAGER, -1,
                    &sums);
    assert_true(sums.evictions > 1000);
    assert_true(sums.rematerializations > 1000);
    assert_true(sums.overshoots > 10); /* allocations refused */
}

static void test_without_memory(void **state)
{
    dtr_stats sums = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 110; seed++)
        run_program(seed, seed % 2 ? "dtr-eq" : "dtr", 280, seed % 3, false, DTR_DEALLOCATE_EAGER,
                    (int)(seed % 11), &sums);
    assert_true(sums.rematerializations > 500);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void setup_with(struct world *w, int64_t budget, const char *heuristic)
{
    dtr_error error = {0};
    static dtr_backend backend;
    dtr_runtime_options options;
    dtr_selector_options choice = {.heuristic = heuristic};
    backend = (dtr_backend){w, backend_alloc, backend_free, backend_run, NULL, NULL};
    dtr_runtime_options_init(&options);
    options.backend = &backend;
    options.reclaim = true;
    options.budget_bytes = budget;
    assert_ok(dtr_selector_new(&choice, &options.selector, &error), &error);
    assert_ok(dtr_runtime_new(&options, &w->rt, &error), &error);
}

static void setup(struct world *w, int64_t budget)
{
    setup_with(w, budget, "dtr-eq");
}

static dtr_status adopt(struct world *w, dtr_tensor *inputs, int n, int take, bool constant,
                        dtr_tensor *out, dtr_error *error)
{
    struct payload *payload = malloc(sizeof *payload);
    assert_non_null(payload);
    *payload = (struct payload){1, &w->payloads};
    w->payloads++;
    void *data[1] = {take < 0 ? block_new(w) : NULL};
    if (data[0])
        ((struct block *)data[0])->value = 1;
    dtr_output size = {.bytes = 16, .view_of = -1};
    dtr_call call = {.name = DTR_NONE,
                     .payload = payload,
                     .payload_free = payload_free,
                     .n_inputs = n,
                     .n_outputs = 1,
                     .inputs = inputs,
                     .outputs = &size};
    dtr_host_run run = {
        .cost_ns = 1, .data = data, .takes = &take, .signature = DTR_NONE, .constant = constant};
    dtr_status status = dtr_adopt(w->rt, &call, &run, out, error);
    if (status != DTR_OK && status != DTR_E_OUT_OF_MEMORY && take < 0) {
        free(data[0]);
        w->blocks--;
    }
    return status;
}

static void test_refusals(void **state)
{
    struct world w = {0};
    dtr_error error = {0};
    dtr_tensor a, b, c, gone = 77;
    (void)state;
    setup(&w, 48);
    assert_ok(dtr_adopt_constant(w.rt, 16, block_new(&w), &a, &error), &error);
    assert_int_equal(dtr_hold(w.rt, &gone, 1, 0, &error), DTR_E_INVALID);
    assert_int_equal(adopt(&w, &a, 1, -1, false, &b, &error), DTR_E_STATE); /* not held */
    assert_ok(dtr_hold(w.rt, &a, 1, 16, &error), &error);
    assert_ok(adopt(&w, &a, 1, -1, false, &b, &error), &error);
    assert_int_equal(dtr_dependents(w.rt, a), 1);
    assert_int_equal(dtr_isolate(w.rt, b, DTR_NONE, &error), DTR_E_STATE); /* no constant */
    /* A constant that something depends on is not to be changed, */
    assert_ok(dtr_hold(w.rt, &a, 1, 0, &error), &error);
    assert_false(dtr_can_take(w.rt, a, 1));
    assert_int_equal(adopt(&w, &a, 1, 0, true, &c, &error), DTR_E_STATE);
    /* nor is what another operator holds, */
    assert_ok(dtr_hold(w.rt, &b, 1, 0, &error), &error);
    assert_ok(dtr_hold(w.rt, &b, 1, 0, &error), &error);
    assert_false(dtr_can_take(w.rt, b, 1));
    dtr_unhold(w.rt, &b, 1);
    assert_true(dtr_can_take(w.rt, b, 1));
    /* and a constant does not become something that can be evicted. */
    assert_ok(dtr_barrier(w.rt, DTR_NONE, &error), &error);
    assert_true(dtr_can_take(w.rt, a, 1));
    assert_int_equal(adopt(&w, &a, 1, 0, false, &c, &error), DTR_E_STATE);
    assert_ok(adopt(&w, &a, 1, 0, true, &c, &error), &error);
    dtr_unhold(w.rt, &b, 1);
    /* Room that cannot be made: nothing is held afterwards. */
    assert_int_equal(dtr_hold(w.rt, &c, 1, 100, &error), DTR_E_OUT_OF_MEMORY);
    assert_true(dtr_can_take(w.rt, c, 0) == false);
    assert_ok(dtr_hold(w.rt, &c, 1, 0, &error), &error);
    assert_true(dtr_can_take(w.rt, c, 1));
    dtr_unhold(w.rt, &c, 1);
    dtr_runtime_free(w.rt);
    assert_int_equal(w.blocks, 0);
    assert_int_equal(w.payloads, 0);
}

/* A constant of 16 bytes. */
static dtr_tensor constant(struct world *w)
{
    dtr_error error = {0};
    dtr_tensor tensor;
    struct block *b = block_new(w);
    b->value = 1;
    assert_ok(dtr_adopt_constant(w->rt, 16, b, &tensor, &error), &error);
    return tensor;
}

static dtr_tensor computed(struct world *w, dtr_tensor from)
{
    dtr_error error = {0};
    dtr_tensor tensor;
    assert_ok(dtr_hold(w->rt, &from, 1, 16, &error), &error);
    assert_ok(adopt(w, &from, 1, -1, false, &tensor, &error), &error);
    return tensor;
}

/* What takes no memory works above the budget; what does is told who has it all. */
static void test_above_the_budget(void **state)
{
    enum { KINDS = 3 };
    static const char *const why[KINDS] = {"weights", "inputs", "tables"};
    struct world w = {0};
    dtr_error error = {0};
    dtr_tensor x = DTR_NO_TENSOR;
    (void)state;
    setup(&w, 40);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i <= kind; i++) {
            x = constant(&w);
            dtr_set_cause(w.rt, x, dtr_runtime_name(w.rt, why[kind]));
        }
    assert_ok(dtr_hold(w.rt, &x, 1, 0, &error), &error);
    dtr_unhold(w.rt, &x, 1);
    assert_int_equal(dtr_hold(w.rt, &x, 1, 8, &error), DTR_E_OUT_OF_MEMORY);
    assert_non_null(strstr(error.text, ": 48 in tables (3), 32 in inputs (2), 16 in weights (1);"));
    dtr_runtime_free(w.rt);
    assert_int_equal(w.blocks, 0);
}

/* A barrier that does not fit exceeds the budget by what stays, and by little of what it replays on
 * the way. */
static void test_barrier_peak(void **state)
{
    enum { CHAINS = 40, LENGTH = 60 };
    struct world w = {0};
    dtr_error error = {0};
    dtr_tensor ends[CHAINS];
    dtr_stats stats;
    (void)state;
    setup(&w, 16 * 12);
    dtr_tensor x = constant(&w);
    for (int i = 0; i < CHAINS; i++) {
        ends[i] = computed(&w, x);
        for (int j = 1; j < LENGTH; j++) {
            dtr_tensor next = computed(&w, ends[i]);
            assert_int_equal(dtr_release(w.rt, ends[i]), DTR_OK);
            ends[i] = next;
        }
    }
    assert_ok(dtr_barrier(w.rt, DTR_NONE, &error), &error);
    dtr_runtime_stats(w.rt, &stats);
    assert_int_equal(stats.in_use_bytes, 16 * (CHAINS + 1));
    assert_true(stats.rematerializations > CHAINS);
    assert_true(stats.peak_bytes <= stats.in_use_bytes * 5 / 4);
    dtr_runtime_free(w.rt);
    assert_int_equal(w.blocks, 0);
}

/* What isolating would keep, without doing it: what is computed from a tensor directly, or all that
 * there is if that is less. */
static void test_isolation_bytes(void **state)
{
    struct world w = {0};
    (void)state;
    setup(&w, 1000);
    dtr_tensor x = constant(&w), y[5], z[5];
    assert_int_equal(dtr_isolation_bytes(w.rt, x), 0);
    for (int i = 0; i < 5; i++) {
        y[i] = computed(&w, x);
        z[i] = computed(&w, y[i]);
    }
    assert_int_equal(dtr_isolation_bytes(w.rt, x), 5 * 16);
    for (int i = 0; i < 5; i++) /* all that is left is one chain's end */
        assert_int_equal(dtr_release(w.rt, y[i]), DTR_OK);
    for (int i = 1; i < 5; i++)
        assert_int_equal(dtr_release(w.rt, z[i]), DTR_OK);
    assert_int_equal(dtr_isolation_bytes(w.rt, x), 16);
    assert_int_equal(dtr_isolation_bytes(w.rt, y[1]), 0);
    dtr_runtime_free(w.rt);
    assert_int_equal(w.blocks, 0);
}

/* --- depth ------------------------------------------------------------------------------------ */

static void test_deep_chain_in_place(void **state)
{
    struct world w = {0};
    dtr_error error = {0};
    dtr_tensor x;
    (void)state;
    setup(&w, DTR_NONE);
    struct block *first = block_new(&w);
    first->value = 1;
    assert_ok(dtr_adopt_constant(w.rt, 16, first, &x, &error), &error);
    assert_ok(dtr_hold(w.rt, &x, 1, 0, &error), &error);
    dtr_tensor y;
    assert_ok(adopt(&w, &x, 1, -1, false, &y, &error), &error);
    for (int i = 0; i < 100000; i++) {
        assert_ok(dtr_hold(w.rt, &y, 1, 0, &error), &error);
        assert_ok(adopt(&w, &y, 1, 0, false, &y, &error), &error);
    }
    assert_int_equal(dtr_evict_all(w.rt), 1);
    assert_ok(dtr_require(w.rt, y, &error), &error);
    dtr_stats stats;
    dtr_runtime_stats(w.rt, &stats);
    assert_int_equal(stats.rematerializations, 100001);
    assert_int_equal(dtr_release(w.rt, y), DTR_OK);
    dtr_runtime_free(w.rt);
    assert_int_equal(w.blocks, 0);
}

/* --- size ------------------------------------------------------------------------------------- */

/* Forwards through a chain of operators, which all stay, and back. */
static void train_step(struct world *w, dtr_tensor x)
{
    enum { DEPTH = 30 };
    dtr_error error = {0};
    dtr_tensor chain[DEPTH + 1] = {x}, gradient = x;
    for (int i = 0; i < DEPTH; i++) {
        assert_ok(dtr_hold(w->rt, &chain[i], 1, 16, &error), &error);
        assert_ok(adopt(w, &chain[i], 1, -1, false, &chain[i + 1], &error), &error);
    }
    for (int i = DEPTH; i > 0; i--) {
        dtr_tensor inputs[] = {chain[i], gradient}, made;
        assert_ok(dtr_hold(w->rt, inputs, 2, 16, &error), &error);
        assert_ok(adopt(w, inputs, 2, -1, false, &made, &error), &error);
        if (gradient != x)
            assert_int_equal(dtr_release(w->rt, gradient), DTR_OK);
        assert_int_equal(dtr_release(w->rt, chain[i]), DTR_OK);
        gradient = made;
    }
    assert_int_equal(dtr_release(w->rt, gradient), DTR_OK);
}

/* A run may go on for days: once it repeats itself, it needs no more host memory. */
static void steady(const char *heuristic, int64_t budget)
{
    enum { WARM = 150 };
    struct world w = {0};
    struct fault count;
    dtr_error error = {0};
    dtr_tensor x;
    setup_with(&w, budget, heuristic);
    struct block *first = block_new(&w);
    first->value = 1;
    assert_ok(dtr_adopt_constant(w.rt, 16, first, &x, &error), &error);
    for (int i = 0; i < WARM; i++)
        train_step(&w, x);
    fault_begin(&count, INT64_MAX, false);
    for (int i = 0; i < 4 * WARM; i++) /* arrays that grow would double */
        train_step(&w, x);
    fault_end(&count);
    if (count.n)
        fail_msg("%s, budget %lld: %lld more allocations", heuristic, (long long)budget,
                 (long long)count.n);
    dtr_runtime_free(w.rt);
    assert_int_equal(w.blocks, 0);
}

static void test_steady(void **state)
{
    static const char *const heuristics[] = {"dtr", "dtr-eq", "dtr-local", "lru", "size", "random"};
    (void)state;
    for (size_t h = 0; h < sizeof heuristics / sizeof *heuristics; h++) {
        steady(heuristics[h], DTR_NONE);
        steady(heuristics[h], 16 * 100);
        steady(heuristics[h], 16 * 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_above_the_budget),
        cmocka_unit_test(test_barrier_peak),
        cmocka_unit_test(test_isolation_bytes),
        cmocka_unit_test(test_deep_chain_in_place),
        cmocka_unit_test(test_steady),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
