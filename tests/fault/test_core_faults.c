/* The core when the host or the device fails.
 *
 * A few fixed random programs run again and again while the Nth allocation, or the Nth call of the
 * backend, fails: once, or from then on; until N is past the last one.  The rest of the program
 * goes on after the fault, most of it on tensors that are not there.  After each step the runtime
 * passes its own check; at the end, with the fault gone, it takes new operators and evicts again;
 * and it gives back every block and payload. */
#include "../support.h"
#include "../program.h"
#include "fault.h"

static const int64_t sizes[] = {0, 1, 64, 64, 100, 128}, costs[] = {0, 1, 5, 5, 30};

static const struct shape shape = {
    .n_calls = 45,
    .constant = 10,
    .release = 70,
    .retain = 10,
    .require = 20,
    .pin = 8,
    .unpin = 40,
    .evict = 5,
    .make_constant = 6,
    .budget = 4,
    .view = 20,
    .several = 30,
    .unknown_cost = 40,
    .recent = 60,
    .sizes = sizes,
    .n_sizes = 6,
    .costs = costs,
    .n_costs = 5,
};

static const struct setup {
    const char *heuristic, *search;
    dtr_deallocation deallocation;
    bool reclaim;
} setups[] = {
    {"dtr", "index", DTR_DEALLOCATE_EAGER, true},
    {"dtr", "scan", DTR_DEALLOCATE_IGNORE, false},
    {"dtr-eq", "index", DTR_DEALLOCATE_EAGER, true},
    {"dtr-eq", "index", DTR_DEALLOCATE_BANISH, false},
    {"eq", "scan", DTR_DEALLOCATE_IGNORE, true},
    {"msps", "index", DTR_DEALLOCATE_BANISH, true},
    {"lru", "index", DTR_DEALLOCATE_EAGER, false},
    {"dtr-local", "sample", DTR_DEALLOCATE_EAGER, false},
    {"random", "scan", DTR_DEALLOCATE_EAGER, false},
};

#define BUDGET     420
#define N_PROGRAMS 8

/* Looks at each decision that is made after the fault: the victim has the lowest score, or one of
 * 0, at which a scan ends. */
struct watcher {
    const struct fault *fault; /* NULL: nothing fails on the host */
    int64_t seen;              /* allocations until the event before this one */
    bool trusted;              /* the decision at hand was made after the fault */
    double lowest;
    int64_t wrong;
};

static void watch_event(void *self, const dtr_event *event)
{
    struct watcher *w = self;
    if (event->kind == DTR_EVENT_DECISION)
        w->trusted = !w->fault || (w->seen > w->fault->at && !w->fault->for_ever);
    if (event->kind == DTR_EVENT_CANDIDATE && event->u.candidate_.rank == 0)
        w->lowest = event->u.candidate_.score;
    else if (event->kind == DTR_EVENT_CANDIDATE)
        w->wrong += w->trusted && w->lowest != 0.0 && event->u.candidate_.score < w->lowest;
    w->seen = w->fault ? w->fault->n : 0;
}

static dtr_status open_machine(struct machine *machine, struct device *device,
                               const struct setup *setup, struct watcher *watcher, dtr_error *error)
{
    static dtr_sink sink;
    sink = (dtr_sink){.self = watcher, .emit = watch_event};
    dtr_runtime_options options;
    dtr_backend backend = device_backend(device, true);
    dtr_runtime_options_init(&options);
    options.backend = &backend;
    options.sink = &sink;
    options.budget_bytes = BUDGET;
    options.deallocation = setup->deallocation;
    options.reclaim = setup->reclaim;
    dtr_selector_options selector = {.heuristic = setup->heuristic, .search = setup->search};
    machine->budget = BUDGET;
    machine->banishes = setup->deallocation == DTR_DEALLOCATE_BANISH;
    dtr_status status = dtr_selector_new(&selector, &options.selector, error);
    if (status == DTR_OK)
        status = dtr_runtime_new(&options, &machine->runtime, error);
    return status;
}

static void check(dtr_runtime *rt, struct fault *fault)
{
    dtr_error error;
    dtri_alloc_set_fault(NULL, NULL);
    assert_ok(dtr_runtime_check(rt, &error), &error);
    if (fault)
        dtri_alloc_set_fault(fault_now, fault);
}

/* --- the program ------------------------------------------------------------------------------ */

/* The program, and behind it one more call for what follows the fault. */
static void make_program(struct program *program, uint64_t seed)
{
    struct maker m = {.program = program};
    program_make(program, &shape, seed);
    struct step *extra = add_step(&m, STEP_CALL, program->n_vars++);
    extra->n_outputs = 1;
    extra->outputs[0] = (dtr_output){.bytes = 64, .view_of = -1};
    extra->cost = 7;
    extra->cost_known = true;
}

/* The runtime is as good as new: eight tensors without a limit, then a budget that takes one away,
 * then that one again. */
static void go_on(struct machine *machine, struct device *device, const char *where)
{
    const struct program *program = device->program;
    const struct step *extra = &program->steps[program->n - 1];
    dtr_tensor *made = &machine->handles[extra->var], tensors[8];
    dtr_error error = {0};
    dtr_stats stats;
    dtr_status status = dtr_set_budget(machine->runtime, DTR_NONE, &error);
    for (int i = 0; i < 8 && status == DTR_OK; i++) {
        device->ran[program->n - 1] = false; /* a new operator each time */
        status = do_step(machine, extra, &error);
        tensors[i] = *made;
    }
    dtr_runtime_stats(machine->runtime, &stats);
    if (status == DTR_OK)
        status = dtr_set_budget(machine->runtime, stats.in_use_bytes - 1, &error);
    for (int i = 0; i < 8 && status == DTR_OK; i++)
        status = dtr_require(machine->runtime, tensors[i], &error);
    if (status != DTR_OK)
        fail_msg("%s: cannot go on: %s %s", where, dtr_status_name(status), error.text);
    for (int i = 0; i < 8; i++)
        assert_int_equal(dtr_release(machine->runtime, tensors[i]), DTR_OK);
}

/* The program took back all its pins, so only constants are pinned, and what banishing pinned. */
static void check_locks(struct machine *machine, const struct program *program)
{
    for (int v = 0; v < program->n_vars && !machine->banishes; v++) {
        dtr_tensor_info info;
        if (dtr_tensor_info_of(machine->runtime, machine->handles[v], &info) == DTR_OK)
            assert_true(!info.pinned || info.constant);
    }
}

/* Runs the program and what follows it on an open machine. */
static void run_program(struct machine *machine, struct device *device, struct fault *fault,
                        const char *where)
{
    const struct program *program = device->program;
    for (int i = 0; i < program->n - 1; i++) {
        dtr_error error = {0};
        do_step(machine, &program->steps[i], &error); /* may fail: then the next ones are refused */
        check(machine->runtime, fault);
    }
    dtri_alloc_set_fault(NULL, NULL);
    device->fail_at = -1;
    check_locks(machine, program);
    go_on(machine, device, where);
    check(machine->runtime, NULL);
}

static void close_machine(struct machine *machine, struct device *device, const struct setup *setup,
                          const struct watcher *watcher)
{
    if (strcmp(setup->search, "sample") != 0 && strcmp(setup->heuristic, "random") != 0)
        assert_int_equal(watcher->wrong, 0);
    dtr_runtime_free(machine->runtime);
    free(machine->handles);
    assert_int_equal(device->n_blocks, 0);
    assert_int_equal(device->bytes, 0);
    assert_int_equal(device->wrong, 0);
    assert_int_equal(payloads_held, 0);
    device_done(device);
}

static const char *describe(const struct setup *setup, const char *what, int64_t at, bool for_ever)
{
    static char text[160];
    snprintf(text, sizeof text, "%s %s, deallocation %d, %s %lld fails %s", setup->heuristic,
             setup->search, setup->deallocation, what, (long long)at,
             for_ever ? "for ever" : "once");
    return text;
}

/* --- the loops -------------------------------------------------------------------------------- */

/* One run with the Nth allocation failing; false when there were not that many. */
static bool fail_allocation(const struct program *program, const struct setup *setup, int64_t at,
                            bool for_ever)
{
    struct machine machine = {0};
    struct device device;
    struct fault fault;
    struct watcher watcher = {.fault = &fault};
    dtr_error error;
    device_init(&device, program);
    device.run_limit = 5000;
    machine.handles = calloc((size_t)program->n_vars, sizeof *machine.handles);
    assert_non_null(machine.handles);
    fault_begin(&fault, at, for_ever);
    dtr_status status = open_machine(&machine, &device, setup, &watcher, &error);
    if (status == DTR_OK)
        run_program(&machine, &device, &fault, describe(setup, "allocation", at, for_ever));
    else
        assert_int_equal(status, DTR_E_NOMEM);
    bool failed = fault_end(&fault);
    close_machine(&machine, &device, setup, &watcher);
    return failed;
}

static void fail_allocations_of(uint64_t seed)
{
    struct program program;
    make_program(&program, seed);
    for (size_t s = 0; s < sizeof setups / sizeof setups[0]; s++) {
        int64_t once = 0, for_ever = 0;
        while (fail_allocation(&program, &setups[s], once, false))
            once++;
        while (fail_allocation(&program, &setups[s], for_ever, true))
            for_ever++;
        assert_true(once > 10 && for_ever > 10); /* there was something to fail */
    }
    program_free(&program);
}

/* Every allocation in turn. */
static void test_allocations(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= N_PROGRAMS; seed++)
        fail_allocations_of(seed);
}

static bool fail_backend(const struct program *program, const struct setup *setup, int64_t at,
                         bool for_ever)
{
    struct machine machine = {0};
    struct device device;
    struct watcher watcher = {0};
    dtr_error error;
    device_init(&device, program);
    device.run_limit = 5000;
    device.fail_at = at;
    device.fail_for_ever = for_ever;
    machine.handles = calloc((size_t)program->n_vars, sizeof *machine.handles);
    assert_non_null(machine.handles);
    assert_ok(open_machine(&machine, &device, setup, &watcher, &error), &error);
    int64_t before = device.calls;
    run_program(&machine, &device, NULL, describe(setup, "backend call", at, for_ever));
    bool failed = device.calls - before > at;
    close_machine(&machine, &device, setup, &watcher);
    return failed;
}

static void fail_backend_calls_of(uint64_t seed)
{
    struct program program;
    make_program(&program, seed);
    for (size_t s = 0; s < sizeof setups / sizeof setups[0]; s++) {
        int64_t at = 0;
        while (fail_backend(&program, &setups[s], at, false))
            at++;
        assert_true(at > shape.n_calls / 2);
        for (int64_t i = 0; i < at; i++)
            fail_backend(&program, &setups[s], i, true);
    }
    program_free(&program);
}

/* Every call of the backend in turn: no memory on the device, or an operator that fails. */
static void test_backend_calls(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= N_PROGRAMS; seed++)
        fail_backend_calls_of(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_backend_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
