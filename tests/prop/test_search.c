/* `index` evicts what `scan` evicts, and the runtime's books are right.
 *
 * Every random program runs on two runtimes at once, which differ in the search alone.  After each
 * step their events have to be equal, field by field, but for how many scores were computed; and a
 * twin that knows nothing but the events keeps the accounts a second time, the slow way: what is
 * resident, defined, pinned and held, the budget, and every counter. */
#include "../support.h"
#include "../program.h"

#include "base/alloc.h"

/* --- the twin --------------------------------------------------------------------------------- */

struct twin_storage {
    int64_t bytes;
    int64_t locks; /* by pins of the program */
    bool resident, constant, gone;
};

struct twin_tensor {
    int64_t storage, op, refs;
    bool defined;
    bool root; /* made the storage */
};

struct twin_op {
    int64_t inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
    int64_t n_inputs, n_outputs;
};

struct twin {
    struct twin_storage *storages;
    struct twin_tensor *tensors;
    struct twin_op *ops;
    size_t cap_storages, cap_tensors, cap_ops;
    int64_t n_storages, n_tensors, n_ops;
    dtr_stats stats;
    int64_t budget;
    int64_t decided; /* the victim of the last decision, until it is evicted */
};

static void twin_done(struct twin *w)
{
    dtri_free(w->storages);
    dtri_free(w->tensors);
    dtri_free(w->ops);
}

static int64_t twin_resident(const struct twin *w)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < w->n_storages; i++)
        if (w->storages[i].resident)
            bytes += w->storages[i].bytes;
    return bytes;
}

static void twin_lose(struct twin *w, int64_t storage)
{
    w->storages[storage].resident = false;
    for (int64_t t = 0; t < w->n_tensors; t++)
        if (w->tensors[t].storage == storage)
            w->tensors[t].defined = false;
}

static void twin_peak(struct twin *w, int64_t bytes)
{
    if (bytes > w->stats.peak_bytes)
        w->stats.peak_bytes = bytes;
}

static void on_storage(struct twin *w, const dtr_event_storage *e)
{
    assert_int_equal(e->storage, w->n_storages); /* ids count up and are never used twice */
    assert_true(DTRI_RESERVE(w->storages, w->cap_storages, (size_t)w->n_storages + 1));
    w->storages[w->n_storages++] = (struct twin_storage){.bytes = e->bytes};
}

static void on_operator(struct twin *w, const dtr_event_operator *e)
{
    assert_true(e->op >= w->n_ops && e->n_inputs <= MAX_INPUTS && e->n_outputs <= MAX_OUTPUTS);
    assert_true(DTRI_RESERVE(w->ops, w->cap_ops, (size_t)e->op + 1));
    while (w->n_ops <= e->op) /* constants take ids, too */
        w->ops[w->n_ops++] = (struct twin_op){0};
    w->ops[e->op] = (struct twin_op){.n_inputs = e->n_inputs, .n_outputs = e->n_outputs};
}

static void on_tensor(struct twin *w, const dtr_event_tensor *e)
{
    assert_int_equal(e->tensor, w->n_tensors);
    assert_true(DTRI_RESERVE(w->tensors, w->cap_tensors, (size_t)w->n_tensors + 1));
    w->tensors[w->n_tensors++] = (struct twin_tensor){
        .storage = e->storage, .op = e->op, .refs = 1, .root = e->view_of == DTR_NONE};
    if (e->constant)
        w->storages[e->storage].constant = true;
    if (e->view_of != DTR_NONE)
        assert_int_equal(w->tensors[e->view_of].storage, e->storage);
    if (e->op != DTR_NONE)
        w->ops[e->op].outputs[e->output] = e->tensor;
}

/* The budget's promise: all inputs there, and everything within the budget while it runs. */
static void on_run(struct twin *w, const dtr_event_operator_run *e)
{
    const struct twin_op *op = &w->ops[e->op];
    int64_t needed = 0;
    for (int64_t i = 0; i < op->n_inputs; i++)
        assert_true(w->tensors[op->inputs[i]].defined);
    for (int64_t i = 0; i < op->n_outputs; i++) {
        struct twin_tensor *t = &w->tensors[op->outputs[i]];
        needed += t->root ? w->storages[t->storage].bytes : 0;
        t->defined = !w->storages[t->storage].gone; /* its allocation, if any, comes next */
    }
    assert_int_equal(e->in_use, twin_resident(w) + needed);
    assert_true(w->budget == DTR_NONE || e->in_use <= w->budget || needed == 0);
    twin_peak(w, e->in_use);
    w->stats.clock_ns += e->cost_ns;
    w->stats.operator_runs++;
    w->stats.rematerializations += e->replay;
    *(e->replay ? &w->stats.remat_compute_ns : &w->stats.model_compute_ns) += e->cost_ns;
}

static void on_allocation(struct twin *w, const dtr_event_allocation *e)
{
    struct twin_storage *s = &w->storages[e->storage];
    assert_false(s->resident || s->gone);
    assert_int_equal(e->bytes, s->bytes);
    s->resident = true;
    assert_int_equal(e->in_use, twin_resident(w));
    if (s->constant) { /* made without an operator run */
        twin_peak(w, e->in_use);
        for (int64_t t = w->n_tensors - 1; t >= 0; t--)
            if (w->tensors[t].storage == e->storage)
                w->tensors[t].defined = true;
    }
}

static void on_freeing(struct twin *w, const dtr_event_freeing *e)
{
    struct twin_storage *s = &w->storages[e->storage];
    assert_int_equal(s->locks, 0);
    assert_int_equal(e->bytes, s->resident ? s->bytes : 0);
    twin_lose(w, e->storage);
    s->gone = true;
    assert_int_equal(e->in_use, twin_resident(w));
}

static void on_eviction(struct twin *w, const dtr_event_eviction *e)
{
    struct twin_storage *s = &w->storages[e->storage];
    assert_true(s->resident && !s->constant);
    assert_int_equal(s->locks, 0);
    twin_lose(w, e->storage);
    assert_int_equal(e->in_use, twin_resident(w));
    if (e->reason == DTR_EVICTED_FOR_BUDGET)
        assert_int_equal(e->storage, w->decided);
    w->stats.evictions += e->reason == DTR_EVICTED_FOR_BUDGET;
    w->stats.eager_evictions += e->reason == DTR_EVICTED_EAGERLY;
    w->decided = DTR_NONE;
}

/* A victim is resident and no input of the operator that wants the space. */
static void on_decision(struct twin *w, const dtr_event_decision *e)
{
    assert_true(w->storages[e->storage].resident);
    assert_true(e->budget == w->budget && e->in_use == twin_resident(w));
    assert_true(e->in_use + e->needed > e->budget);
    bool announced = e->op != DTR_NONE && e->op < w->n_ops; /* constants are not */
    for (int64_t i = 0; announced && i < w->ops[e->op].n_inputs; i++)
        assert_true(w->tensors[w->ops[e->op].inputs[i]].storage != e->storage);
    w->decided = e->storage;
}

static void on_pin(struct twin *w, const dtr_event_pin *e)
{
    struct twin_tensor *t = &w->tensors[e->tensor];
    struct twin_storage *s = &w->storages[t->storage];
    assert_true(s->resident);
    if (e->change == 2) {
        s->constant = true;
        w->stats.constant_bytes += s->bytes;
        t->op = DTR_NONE;
    } else {
        s->locks += e->change;
        assert_true(s->locks >= 0);
    }
}

static void on_reference(struct twin *w, const dtr_event_reference *e)
{
    w->tensors[e->tensor].refs += e->delta;
    assert_int_equal(w->tensors[e->tensor].refs, e->n_references);
}

static void twin_event(struct twin *w, const dtr_event *e)
{
    switch (e->kind) {
    case DTR_EVENT_STORAGE:
        on_storage(w, &e->u.storage_);
        break;
    case DTR_EVENT_OPERATOR:
        on_operator(w, &e->u.operator_);
        break;
    case DTR_EVENT_OPERAND:
        w->ops[e->u.operand_.op].inputs[e->u.operand_.position] = e->u.operand_.tensor;
        break;
    case DTR_EVENT_TENSOR:
        on_tensor(w, &e->u.tensor_);
        break;
    case DTR_EVENT_OPERATOR_RUN:
        on_run(w, &e->u.operator_run_);
        break;
    case DTR_EVENT_ALLOCATION:
        on_allocation(w, &e->u.allocation_);
        break;
    case DTR_EVENT_FREEING:
        on_freeing(w, &e->u.freeing_);
        break;
    case DTR_EVENT_EVICTION:
        on_eviction(w, &e->u.eviction_);
        break;
    case DTR_EVENT_DECISION:
        on_decision(w, &e->u.decision_);
        break;
    case DTR_EVENT_PIN:
        on_pin(w, &e->u.pin_);
        break;
    case DTR_EVENT_REFERENCE:
        on_reference(w, &e->u.reference_);
        break;
    case DTR_EVENT_BUDGET:
        w->budget = e->u.budget_.budget;
        break;
    }
}

/* --- two runtimes side by side ---------------------------------------------------------------- */

struct lane {
    struct device device;
    struct machine machine;
    dtr_sink sink;
    dtr_event *events; /* since the last step */
    size_t n, cap;
};

static void keep_event(void *self, const dtr_event *event)
{
    struct lane *lane = self;
    if (!DTRI_RESERVE(lane->events, lane->cap, lane->n + 1))
        abort();
    lane->events[lane->n++] = *event;
}

/* One way to run a program. */
struct setup {
    const char *heuristic;
    dtr_deallocation deallocation;
    bool reclaim, with_blocks;
    int64_t budget;
    uint64_t seed; /* for messages */
};

static void lane_open(struct lane *lane, const struct program *program, const struct setup *setup,
                      const char *search)
{
    dtr_error error;
    dtr_runtime_options options;
    *lane = (struct lane){0};
    device_init(&lane->device, program);
    lane->device.run_limit = 40 * (int64_t)program->n + 1000;
    lane->sink = (dtr_sink){.self = lane, .emit = keep_event};
    dtr_backend backend = device_backend(&lane->device, setup->with_blocks);
    dtr_runtime_options_init(&options);
    options.backend = &backend;
    options.sink = &lane->sink;
    options.budget_bytes = setup->budget;
    options.deallocation = setup->deallocation;
    options.reclaim = setup->reclaim;
    dtr_selector_options selector = {.heuristic = setup->heuristic, .search = search};
    assert_ok(dtr_selector_new(&selector, &options.selector, &error), &error);
    assert_ok(dtr_runtime_new(&options, &lane->machine.runtime, &error), &error);
    lane->machine.budget = setup->budget;
    lane->machine.handles = calloc((size_t)program->n_vars, sizeof(dtr_tensor));
    assert_non_null(lane->machine.handles);
}

static void lane_close(struct lane *lane)
{
    dtr_runtime_free(lane->machine.runtime);
    assert_int_equal(lane->device.n_blocks, 0);
    assert_int_equal(lane->device.bytes, 0);
    assert_int_equal(lane->device.wrong, 0);
    device_done(&lane->device);
    free(lane->machine.handles);
    dtri_free(lane->events);
}

static bool same_event(const dtr_event *a, const dtr_event *b)
{
    if (a->kind != b->kind || a->ts_ns != b->ts_ns || a->seq != b->seq)
        return false;
    dtr_event x = *a;
    if (a->kind == DTR_EVENT_DECISION) /* the one thing in which searches differ */
        x.u.decision_.evaluations = b->u.decision_.evaluations;
    size_t n = (size_t)dtr_event_info_of(a->kind)->n_fields;
    return memcmp(x.u.raw, b->u.raw, n * sizeof x.u.raw[0]) == 0;
}

static const char *describe(const struct setup *setup, int step)
{
    static char text[200];
    snprintf(text, sizeof text, "seed %llu, %s, deallocation %d, reclaim %d, budget %lld, step %d",
             (unsigned long long)setup->seed, setup->heuristic, setup->deallocation, setup->reclaim,
             (long long)setup->budget, step);
    return text;
}

static void compare_events(const struct lane *a, const struct lane *b, const struct setup *setup,
                           int step)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (!same_event(&a->events[i], &b->events[i]))
            fail_msg("%s: event %zu differs: %s of storage %lld, scan %s of %lld",
                     describe(setup, step), i, dtr_event_info_of(a->events[i].kind)->name,
                     (long long)a->events[i].u.raw[1], dtr_event_info_of(b->events[i].kind)->name,
                     (long long)b->events[i].u.raw[1]);
    if (a->n != b->n)
        fail_msg("%s: %zu events, scan has %zu", describe(setup, step), a->n, b->n);
}

static void compare_stats(const struct lane *a, const struct lane *b)
{
    dtr_stats x, y;
    dtr_runtime_stats(a->machine.runtime, &x);
    dtr_runtime_stats(b->machine.runtime, &y);
    x.score_evaluations = y.score_evaluations;
    assert_memory_equal(&x, &y, sizeof x);
}

/* What the runtime says of itself against what follows from its events. */
static void check_books(const struct lane *lane, const struct twin *twin, const struct setup *setup,
                        int step)
{
    dtr_error error;
    dtr_stats stats;
    const dtr_stats *w = &twin->stats;
    dtr_runtime *rt = lane->machine.runtime;
    if (dtr_runtime_check(rt, &error) != DTR_OK)
        fail_msg("%s: %s", describe(setup, step), error.text);
    dtr_runtime_stats(rt, &stats);
    assert_int_equal(stats.clock_ns, 1 + w->clock_ns);
    assert_int_equal(stats.model_compute_ns, w->model_compute_ns);
    assert_int_equal(stats.remat_compute_ns, w->remat_compute_ns);
    assert_int_equal(stats.in_use_bytes, twin_resident(twin));
    assert_int_equal(stats.peak_bytes, w->peak_bytes);
    assert_int_equal(stats.operator_runs, w->operator_runs);
    assert_int_equal(stats.rematerializations, w->rematerializations);
    assert_int_equal(stats.evictions, w->evictions);
    assert_int_equal(stats.eager_evictions, w->eager_evictions);
    if (setup->with_blocks)
        assert_int_equal(lane->device.bytes, stats.in_use_bytes);
    for (int v = 0; v < lane->device.program->n_vars; v++) {
        dtr_tensor_info info;
        if (dtr_tensor_info_of(rt, lane->machine.handles[v], &info) != DTR_OK)
            continue;
        const struct twin_tensor *t = &twin->tensors[info.tensor];
        const struct twin_storage *s = &twin->storages[t->storage];
        assert_int_equal(info.storage, t->storage);
        assert_int_equal(info.bytes, s->bytes);
        assert_int_equal(info.references, t->refs);
        assert_int_equal(info.resident, s->resident);
        assert_int_equal(info.defined, t->defined);
        assert_int_equal(info.constant, s->constant);
        if (setup->deallocation != DTR_DEALLOCATE_BANISH) /* which pins what it leaves behind */
            assert_int_equal(info.pinned, s->locks > 0 || s->constant);
    }
}

/* Runs a program on both; returns how many victims were chosen. */
static int64_t run_both(const struct program *program, const struct setup *setup)
{
    struct lane index, scan;
    struct twin twin = {.budget = DTR_NONE, .decided = DTR_NONE};
    lane_open(&index, program, setup, "index");
    lane_open(&scan, program, setup, "scan");
    for (int i = 0; i < program->n; i++) {
        dtr_error error;
        dtr_status a = do_step(&index.machine, &program->steps[i], &error);
        dtr_status b = do_step(&scan.machine, &program->steps[i], &error);
        compare_events(&index, &scan, setup, i);
        assert_int_equal(a, b);
        for (size_t e = 0; e < index.n; e++)
            twin_event(&twin, &index.events[e]);
        index.n = scan.n = 0;
        check_books(&index, &twin, setup, i);
        compare_stats(&index, &scan);
        if (index.device.runs >= index.device.run_limit)
            break;
    }
    int64_t victims = twin.stats.evictions;
    twin_done(&twin);
    lane_close(&index);
    lane_close(&scan);
    assert_int_equal(payloads_held, 0);
    return victims;
}

/* Bytes in use at most when nothing limits them. */
static int64_t unlimited_peak(const struct program *program)
{
    struct lane lane;
    struct setup setup = {.heuristic = "lru", .budget = DTR_NONE};
    dtr_error error;
    dtr_stats stats;
    lane_open(&lane, program, &setup, "scan");
    for (int i = 0; i < program->n; i++)
        do_step(&lane.machine, &program->steps[i], &error);
    dtr_runtime_stats(lane.machine.runtime, &stats);
    lane_close(&lane);
    return stats.peak_bytes;
}

/* --- the programs ----------------------------------------------------------------------------- */

static const int64_t few_sizes[] = {0, 1, 64, 64, 64, 128}, few_costs[] = {0, 1, 1, 1, 2};
static const int64_t equal[] = {10};
static const int64_t wide_sizes[] = {1, 7, 100, 1000, 4096, 65536, INT64_C(1) << 40};
static const int64_t wide_costs[] = {0, 1, 999, 1000, 1001, 123456789, INT64_C(1) << 42};

#define N(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* Palettes with many ties (few values), with nothing but ties, and with values far apart. */
static const struct shape shapes[] = {
    {.constant = 10,
     .release = 75,
     .retain = 10,
     .require = 15,
     .pin = 5,
     .unpin = 40,
     .evict = 3,
     .make_constant = 3,
     .budget = 2,
     .view = 20,
     .several = 25,
     .unknown_cost = 30,
     .mutates = 10,
     .recent = 60,
     .sizes = few_sizes,
     .n_sizes = N(few_sizes),
     .costs = few_costs,
     .n_costs = N(few_costs)},
    {.constant = 5,
     .release = 60,
     .require = 10,
     .view = 10,
     .several = 20,
     .recent = 80,
     .use_released = 10,
     .sizes = equal,
     .n_sizes = 1,
     .costs = equal,
     .n_costs = 1},
    {.constant = 10,
     .release = 80,
     .retain = 5,
     .require = 20,
     .pin = 3,
     .unpin = 50,
     .evict = 2,
     .make_constant = 2,
     .budget = 1,
     .view = 15,
     .several = 30,
     .unknown_cost = 50,
     .recent = 50,
     .use_released = 5,
     .sizes = wide_sizes,
     .n_sizes = N(wide_sizes),
     .costs = wide_costs,
     .n_costs = N(wide_costs)},
};

static const char *deterministic(int i)
{
    int n = 0;
    for (int h = 0; dtr_heuristic_name(h); h++)
        if (strcmp(dtr_heuristic_name(h), "random") != 0 && n++ == i)
            return dtr_heuristic_name(h);
    return NULL;
}

/* One program under one heuristic with every deallocation, reclaiming or not. */
static int64_t run_variants(const struct program *program, const char *heuristic, int64_t peak,
                            uint64_t seed)
{
    int64_t victims = 0;
    for (int variant = 0; variant < 6; variant++) {
        uint64_t mixed = mix(mix(seed, (uint64_t)variant), (uint64_t)heuristic[0]);
        struct setup setup = {
            .heuristic = heuristic,
            .deallocation = (dtr_deallocation)(variant / 2),
            .reclaim = variant % 2,
            .with_blocks = seed % 2,
            .budget = peak * (int64_t)(15 + mixed % 80) / 100 + 1,
            .seed = seed,
        };
        victims += run_both(program, &setup);
    }
    return victims;
}

/* Many small programs: every heuristic, every deallocation, with and without reclaiming. */
static void test_small_programs(void **state)
{
    uint64_t rounds = strtoull(environment("DTR_PROP_ROUNDS", "200"), NULL, 10);
    uint64_t first = strtoull(environment("DTR_PROP_SEED", "1"), NULL, 10);
    int64_t victims = 0;
    (void)state;
    for (uint64_t seed = first; seed < first + rounds; seed++) {
        struct shape shape = shapes[seed % N(shapes)];
        struct program program;
        shape.n_calls = 10 + (int)(seed * 7 % 50);
        program_make(&program, &shape, seed);
        int64_t peak = unlimited_peak(&program);
        for (int h = 0; deterministic(h); h++)
            victims += run_variants(&program, deterministic(h), peak, seed);
        program_free(&program);
    }
    print_message("%lld victims chosen\n", (long long)victims);
    assert_true(victims > (int64_t)rounds * 100); /* or the budgets were no budgets */
}

/* A few large ones, whose tournament trees are deep.  The twin would be too slow for them; the
 * runtime's own check runs now and then. */
static void test_large_programs(void **state)
{
    (void)state;
    for (int h = 0; deterministic(h); h++) {
        struct shape shape = shapes[h % N(shapes)];
        struct program program;
        struct lane index, scan;
        dtr_error error;
        dtr_stats stats;
        struct setup setup = {
            .heuristic = deterministic(h),
            .deallocation = h % 2 ? DTR_DEALLOCATE_IGNORE : DTR_DEALLOCATE_EAGER,
            .reclaim = h % 4 < 2,
            .with_blocks = true,
            .seed = 1000 + (uint64_t)h,
        };
        shape.n_calls = 2000;
        shape.release = 96;
        shape.use_released = 0;
        program_make(&program, &shape, setup.seed);
        setup.budget = unlimited_peak(&program) * 70 / 100;
        lane_open(&index, &program, &setup, "index");
        lane_open(&scan, &program, &setup, "scan");
        index.device.run_limit = scan.device.run_limit = 3 * (int64_t)shape.n_calls;
        for (int i = 0; i < program.n && index.device.runs < index.device.run_limit; i++) {
            dtr_status a = do_step(&index.machine, &program.steps[i], &error);
            dtr_status b = do_step(&scan.machine, &program.steps[i], &error);
            compare_events(&index, &scan, &setup, i);
            assert_int_equal(a, b);
            index.n = scan.n = 0;
            if (i % 100 == 0)
                assert_ok(dtr_runtime_check(index.machine.runtime, &error), &error);
        }
        compare_stats(&index, &scan);
        dtr_runtime_stats(index.machine.runtime, &stats);
        assert_true(stats.evictions > 0);
        lane_close(&index);
        lane_close(&scan);
        program_free(&program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_programs),
        cmocka_unit_test(test_large_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
