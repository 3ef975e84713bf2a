/* The CPU backend: storages are host memory, operators are C functions.
 *
 * The payload of an operator is a struct of the caller's whose first member is a dtr_cpu_kernel;
 * the backend calls its function with the data of the inputs and outputs.  The cost of an operator
 * is what its first run took on the monotonic clock.
 *
 * Memory comes from malloc and goes back with free, so that an eviction is a real one.  The count
 * of bytes is of what was asked for from malloc, alignment included.
 *
 * Threads: one backend belongs to the thread of its runtime. */
#ifndef DTR_CPU_H
#define DTR_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the data of a storage is aligned to. */
#define DTR_CPU_ALIGNMENT 64

typedef struct dtr_cpu_kernel dtr_cpu_kernel;

/* Computes all outputs from the inputs.  Outputs do not overlap inputs, except a view's, which is
 * the data of the storage that it views and must be left alone.  Equal inputs must give equal bits.
 */
struct dtr_cpu_kernel {
    dtr_status (*run)(const dtr_cpu_kernel *kernel, void *const *inputs, void *const *outputs,
                      dtr_error *error);
};

typedef struct dtr_backend_cpu dtr_backend_cpu;

typedef struct dtr_backend_cpu_options {
    size_t size;            /* set by dtr_backend_cpu_options_init */
    int64_t capacity_bytes; /* what this device has, counted as in dtr_backend_cpu_counts; a storage
                               that does not fit is DTR_E_NOMEM.  DTR_NONE (default): no limit */
    bool poison;            /* overwrite memory with NaNs before it is given back, and fresh memory
                               before it is used, so that a stale pointer shows in the results */
} dtr_backend_cpu_options;

typedef struct dtr_backend_cpu_counts {
    int64_t in_use_bytes;
    int64_t peak_bytes;
    int64_t blocks; /* in use */
    int64_t allocations;
    int64_t frees;
} dtr_backend_cpu_counts;

DTR_API void dtr_backend_cpu_options_init(dtr_backend_cpu_options *options);
/* NULL options: the defaults. */
DTR_API dtr_status dtr_backend_cpu_new(const dtr_backend_cpu_options *options,
                                       dtr_backend_cpu **out_cpu, dtr_error *error);
/* After the runtimes that use it.  Accepts NULL. */
DTR_API void dtr_backend_cpu_free(dtr_backend_cpu *cpu);
/* For dtr_runtime_options and dtr_session_options; borrowed, valid until the free. */
DTR_API const dtr_backend *dtr_backend_cpu_backend(const dtr_backend_cpu *cpu);
DTR_API dtr_backend_cpu_counts dtr_backend_cpu_counts_of(const dtr_backend_cpu *cpu);

#ifdef __cplusplus
}
#endif
#endif
