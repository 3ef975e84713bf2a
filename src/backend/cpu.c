/* Host memory and C functions as a device.
 *
 * A block is one allocation: padding, a header that says where the allocation began and how long it
 * is, and the data at the next multiple of DTR_CPU_ALIGNMENT.  aligned_alloc would do without the
 * header, but not through the hook that lets tests fail an allocation.
 *
 * The counts are kept here and not taken from the core, so that each can be held against the other.
 * One thread; no state is shared between backends. */
#include "dtr/cpu.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "dtr/event.h"

struct dtr_backend_cpu {
    dtr_backend backend;
    int64_t capacity_bytes; /* DTR_NONE: no limit */
    bool poison;
    dtr_backend_cpu_counts counts;
};

/* Just below the data of a block. */
struct header {
    void *allocation;
    size_t bytes; /* of the whole allocation */
};

#define OVERHEAD (sizeof(struct header) + DTR_CPU_ALIGNMENT - 1)

/* As float32 a NaN, as an integer far out of any range. */
#define POISON 0xff

static int64_t now_ns(void *self)
{
    (void)self;
    return dtri_clock_ns();
}

static struct header *header_of(void *data)
{
    return (struct header *)data - 1;
}

static bool fits(const dtr_backend_cpu *cpu, int64_t bytes)
{
    int64_t limit = cpu->capacity_bytes == DTR_NONE ? INT64_MAX : cpu->capacity_bytes;
    return bytes <= INT64_MAX - (int64_t)OVERHEAD &&
           bytes + (int64_t)OVERHEAD <= limit - cpu->counts.in_use_bytes;
}

static dtr_status alloc_block(void *self, int64_t bytes, void **out_data, dtr_error *error)
{
    dtr_backend_cpu *cpu = self;
    size_t total = (size_t)bytes + OVERHEAD;
    void *allocation = fits(cpu, bytes) ? dtri_malloc(total) : NULL;
    if (!allocation)
        return dtri_fail(error, DTR_E_NOMEM, 0,
                         "the CPU backend has no memory for %lld bytes: %lld are in use",
                         (long long)bytes, (long long)cpu->counts.in_use_bytes);
    uintptr_t at = (uintptr_t)allocation + OVERHEAD;
    char *data = (char *)allocation + (OVERHEAD - at % DTR_CPU_ALIGNMENT);
    *header_of(data) = (struct header){allocation, total};
    if (cpu->poison)
        memset(data, POISON, (size_t)bytes);
    dtr_backend_cpu_counts *counts = &cpu->counts;
    counts->in_use_bytes += (int64_t)total;
    counts->blocks++;
    counts->allocations++;
    if (counts->in_use_bytes > counts->peak_bytes)
        counts->peak_bytes = counts->in_use_bytes;
    *out_data = data;
    return DTR_OK;
}

static void free_block(void *self, void *data, int64_t bytes)
{
    dtr_backend_cpu *cpu = self;
    struct header header = *header_of(data);
    assert(header.bytes == (size_t)bytes + OVERHEAD);
    if (cpu->poison)
        memset(data, POISON, (size_t)bytes);
    cpu->counts.in_use_bytes -= (int64_t)header.bytes;
    cpu->counts.blocks--;
    cpu->counts.frees++;
    dtri_free(header.allocation);
}

static dtr_status run(void *self, const dtr_op_call *call, int64_t *out_cost_ns, dtr_error *error)
{
    const dtr_cpu_kernel *kernel = call->payload;
    if (!kernel)
        return dtri_fail(error, DTR_E_INVALID, 0, "operator %lld has no kernel to run",
                         (long long)call->op);
    int64_t begin = now_ns(self);
    dtr_status status = kernel->run(kernel, call->inputs, call->outputs, error);
    if (status == DTR_OK)
        *out_cost_ns = call->cost_ns != DTR_NONE ? call->cost_ns : now_ns(self) - begin;
    return status;
}

static void memory(void *self, int64_t *out_in_use_bytes, int64_t *out_peak_bytes)
{
    const dtr_backend_cpu *cpu = self;
    *out_in_use_bytes = cpu->counts.in_use_bytes;
    *out_peak_bytes = cpu->counts.peak_bytes;
}

void dtr_backend_cpu_options_init(dtr_backend_cpu_options *options)
{
    *options = (dtr_backend_cpu_options){.size = sizeof *options, .capacity_bytes = DTR_NONE};
}

dtr_status dtr_backend_cpu_new(const dtr_backend_cpu_options *options, dtr_backend_cpu **out_cpu,
                               dtr_error *error)
{
    dtr_backend_cpu_options defaults;
    dtr_backend_cpu_options_init(&defaults);
    if (!options)
        options = &defaults;
    if (options->size != sizeof *options ||
        (options->capacity_bytes < 0 && options->capacity_bytes != DTR_NONE))
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "a CPU backend needs options set up by dtr_backend_cpu_options_init and a "
                         "capacity that is not negative");
    dtr_backend_cpu *cpu = dtri_calloc(1, sizeof *cpu);
    if (!cpu)
        return dtri_fail_nomem(error, "a CPU backend");
    cpu->capacity_bytes = options->capacity_bytes;
    cpu->poison = options->poison;
    cpu->backend = (dtr_backend){
        .self = cpu,
        .alloc = alloc_block,
        .free = free_block,
        .run = run,
        .now_ns = now_ns,
        .memory = memory,
    };
    *out_cpu = cpu;
    return DTR_OK;
}

void dtr_backend_cpu_free(dtr_backend_cpu *cpu)
{
    assert(!cpu || cpu->counts.blocks == 0);
    dtri_free(cpu);
}

const dtr_backend *dtr_backend_cpu_backend(const dtr_backend_cpu *cpu)
{
    return &cpu->backend;
}

dtr_backend_cpu_counts dtr_backend_cpu_counts_of(const dtr_backend_cpu *cpu)
{
    return cpu->counts;
}
