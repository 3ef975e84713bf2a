/* The CPU backend: memory that really comes and goes, kernels, costs, a full device. */
#include "support.h"

#include <malloc.h>

#include "base/alloc.h"
#include "dtr/cpu.h"
#include "dtr/runtime.h"

struct add_one {
    dtr_cpu_kernel base;
    size_t n;
    int *runs;
};

static dtr_status add_one(const dtr_cpu_kernel *kernel, void *const *inputs, void *const *outputs,
                          dtr_error *error)
{
    const struct add_one *k = (const void *)kernel;
    const float *in = inputs[0];
    float *out = outputs[0];
    (void)error;
    for (size_t i = 0; i < k->n; i++)
        out[i] = in[i] + 1;
    ++*k->runs;
    return DTR_OK;
}

struct fixture {
    dtr_backend_cpu *cpu;
    dtr_runtime *runtime;
    struct add_one kernel;
    int runs;
    dtr_error error;
};

#define N     100000
#define BYTES ((int64_t)(N * sizeof(float)))

static void open_fixture(struct fixture *f, int64_t capacity, bool poison)
{
    dtr_backend_cpu_options cpu;
    dtr_runtime_options options;
    dtr_selector_options selector = {.heuristic = "lru"};
    memset(f, 0, sizeof *f);
    f->kernel = (struct add_one){{add_one}, N, &f->runs};
    dtr_backend_cpu_options_init(&cpu);
    cpu.capacity_bytes = capacity;
    cpu.poison = poison;
    assert_ok(dtr_backend_cpu_new(&cpu, &f->cpu, &f->error), &f->error);
    dtr_runtime_options_init(&options);
    options.backend = dtr_backend_cpu_backend(f->cpu);
    assert_ok(dtr_selector_new(&selector, &options.selector, &f->error), &f->error);
    assert_ok(dtr_runtime_new(&options, &f->runtime, &f->error), &f->error);
}

static void close_fixture(struct fixture *f)
{
    dtr_runtime_free(f->runtime);
    dtr_backend_cpu_counts counts = dtr_backend_cpu_counts_of(f->cpu);
    assert_int_equal(counts.in_use_bytes, 0);
    assert_int_equal(counts.allocations, counts.frees);
    dtr_backend_cpu_free(f->cpu);
}

static dtr_status run_add_one(struct fixture *f, dtr_tensor in, dtr_tensor *out)
{
    dtr_call call = {
        .name = dtr_runtime_name(f->runtime, "add_one"),
        .cost_ns = DTR_NONE,
        .payload = &f->kernel,
        .n_inputs = 1,
        .n_outputs = 1,
        .inputs = &in,
        .outputs = &(dtr_output){BYTES, -1},
    };
    return dtr_run(f->runtime, &call, out, &f->error);
}

static dtr_tensor constant(struct fixture *f, float value)
{
    dtr_tensor tensor;
    void *data;
    assert_ok(dtr_constant(f->runtime, BYTES, &tensor, &data, &f->error), &f->error);
    for (size_t i = 0; i < N; i++)
        ((float *)data)[i] = value;
    return tensor;
}

/* Evicting gives the block back to malloc, replaying makes it again with the same content. */
static void eviction_frees(void **state)
{
    struct fixture f;
    dtr_tensor a, b;
    void *data;
    (void)state;
    open_fixture(&f, DTR_NONE, true);
    a = constant(&f, 41);
    assert_ok(run_add_one(&f, a, &b), &f.error);
    dtr_backend_cpu_counts before = dtr_backend_cpu_counts_of(f.cpu);
    size_t held = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_int_equal(dtr_evict(f.runtime, b), DTR_OK);
    dtr_backend_cpu_counts after = dtr_backend_cpu_counts_of(f.cpu);
    assert_int_equal(before.blocks - after.blocks, 1);
    assert_true(before.in_use_bytes - after.in_use_bytes >= BYTES);
    if (held) /* not under a sanitizer's allocator, which keeps no such count */
        assert_true(mallinfo2().uordblks + mallinfo2().hblkhd + BYTES <= held);
    assert_ok(dtr_pin(f.runtime, b, &data, &f.error), &f.error);
    assert_int_equal(f.runs, 2);
    for (size_t i = 0; i < N; i++)
        assert_true(((float *)data)[i] == 42);
    assert_int_equal((uintptr_t)data % DTR_CPU_ALIGNMENT, 0);
    close_fixture(&f);
}

/* The first run is measured; the runtime's clock advances by that cost, again by the same on
 * replay. */
static void cost_is_measured_once(void **state)
{
    struct fixture f;
    dtr_tensor b;
    dtr_stats first, second;
    (void)state;
    open_fixture(&f, DTR_NONE, false);
    assert_ok(run_add_one(&f, constant(&f, 0), &b), &f.error);
    dtr_runtime_stats(f.runtime, &first);
    assert_true(first.model_compute_ns > 0);
    assert_int_equal(dtr_evict(f.runtime, b), DTR_OK);
    assert_ok(dtr_require(f.runtime, b, &f.error), &f.error);
    dtr_runtime_stats(f.runtime, &second);
    assert_int_equal(second.remat_compute_ns, first.model_compute_ns);
    close_fixture(&f);
}

/* A device that is full before the budget is makes the runtime evict, and the run goes on. */
static void full_device_evicts(void **state)
{
    struct fixture f;
    dtr_tensor chain[9];
    dtr_stats stats;
    (void)state;
    open_fixture(&f, 4 * (BYTES + 1024), false);
    chain[0] = constant(&f, 0);
    for (int i = 0; i < 8; i++)
        assert_ok(run_add_one(&f, chain[i], &chain[i + 1]), &f.error);
    dtr_runtime_stats(f.runtime, &stats);
    assert_true(stats.evictions >= 5);
    assert_true(dtr_backend_cpu_counts_of(f.cpu).peak_bytes <= 4 * (BYTES + 1024));
    close_fixture(&f);
}

/* A device too small for the operator alone is a clean error that says how much was asked for. */
static void too_small_device_fails(void **state)
{
    struct fixture f;
    dtr_tensor b;
    (void)state;
    open_fixture(&f, BYTES + 1024, false);
    dtr_tensor a = constant(&f, 0);
    assert_int_not_equal(run_add_one(&f, a, &b), DTR_OK);
    assert_non_null(strstr(f.error.text, "400000"));
    assert_int_equal(f.runs, 0);
    close_fixture(&f);
}

/* Options that were not set up, and a negative capacity, are refused. */
static void bad_options(void **state)
{
    dtr_backend_cpu_options options = {0};
    dtr_backend_cpu *cpu = NULL;
    dtr_error error;
    (void)state;
    assert_int_equal(dtr_backend_cpu_new(&options, &cpu, &error), DTR_E_INVALID);
    dtr_backend_cpu_options_init(&options);
    options.capacity_bytes = -5;
    assert_int_equal(dtr_backend_cpu_new(&options, &cpu, &error), DTR_E_INVALID);
    assert_null(cpu);
}

/* An operator without a kernel is an error of the caller, not a crash. */
static void no_kernel(void **state)
{
    struct fixture f;
    dtr_tensor b;
    (void)state;
    open_fixture(&f, DTR_NONE, false);
    dtr_call call = {
        .name = DTR_NONE, .cost_ns = DTR_NONE, .n_outputs = 1, .outputs = &(dtr_output){8, -1}};
    assert_int_equal(dtr_run(f.runtime, &call, &b, &f.error), DTR_E_INVALID);
    close_fixture(&f);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

/* When malloc fails there is a status and nothing is left behind. */
static void no_host_memory(void **state)
{
    dtr_backend_cpu *cpu = NULL;
    dtr_error error;
    void *data;
    (void)state;
    assert_ok(dtr_backend_cpu_new(NULL, &cpu, &error), &error);
    const dtr_backend *backend = dtr_backend_cpu_backend(cpu);
    dtri_alloc_set_fault(always, NULL);
    dtr_status status = backend->alloc(backend->self, 64, &data, &error);
    dtr_backend_cpu *second = NULL;
    dtr_status made = dtr_backend_cpu_new(NULL, &second, &error);
    dtri_alloc_set_fault(NULL, NULL);
    assert_int_equal(status, DTR_E_NOMEM);
    assert_int_equal(made, DTR_E_NOMEM);
    assert_int_equal(backend->alloc(backend->self, INT64_MAX, &data, &error), DTR_E_NOMEM);
    assert_int_equal(dtr_backend_cpu_counts_of(cpu).in_use_bytes, 0);
    dtr_backend_cpu_free(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eviction_frees),     cmocka_unit_test(cost_is_measured_once),
        cmocka_unit_test(full_device_evicts), cmocka_unit_test(too_small_device_fails),
        cmocka_unit_test(bad_options),        cmocka_unit_test(no_kernel),
        cmocka_unit_test(no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
