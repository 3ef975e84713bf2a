/* The DTR runtime: operators under a memory budget.
 *
 * A program calls operators and holds tensors; the runtime keeps the bytes of storages within the
 * budget by evicting some and replaying the operators that made them when they are needed again
 * (Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021).  A live run and a simulation
 * use this same code; they differ in the backend.
 *
 * Words.  A storage owns bytes and is what gets evicted; tensors are views on it, its root tensor
 * is the one made first.  An operator has inputs and several outputs and is pure.  An external
 * reference is the program's hold on a tensor; a tensor starts with one.  A pin keeps a storage
 * resident.  A constant has no operator to replay and is never evicted.
 *
 * Handles.  A dtr_tensor is a number, not a pointer: using one after its last reference went and
 * its metadata was reclaimed gives DTR_E_INVALID, never a crash.
 *
 * Threads: one runtime belongs to one thread at a time; different runtimes are independent.
 *
 * Failure.  A call that fails leaves the runtime usable: locks taken on the way are dropped, and
 * what was evicted or brought back stays so.  DTR_E_OUT_OF_MEMORY and DTR_E_THRASHED are the two
 * expected ways for a run to end under a budget. */
#ifndef DTR_RUNTIME_H
#define DTR_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/backend.h"
#include "dtr/event.h"
#include "dtr/heuristic.h"
#include "dtr/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dtr_runtime dtr_runtime;
typedef uint64_t dtr_tensor;
#define DTR_NO_TENSOR ((dtr_tensor)0)

/* What happens to a storage whose last external reference goes. */
typedef enum dtr_deallocation {
    DTR_DEALLOCATE_EAGER = 0,  /* evicted at once if resident and not pinned; can be replayed */
    DTR_DEALLOCATE_IGNORE = 1, /* nothing: the heuristic finds it in time */
    DTR_DEALLOCATE_BANISH =
        2, /* freed for good once no dependant is evicted; its children are pinned */
} dtr_deallocation;

typedef struct dtr_runtime_options {
    size_t size;                /* set by dtr_runtime_options_init */
    const dtr_backend *backend; /* borrowed until the runtime is freed; not NULL */
    const dtr_sink *sink;       /* borrowed likewise; NULL: no events */
    dtr_selector *selector; /* taken, also when dtr_runtime_new fails; NULL only without a budget */
    int64_t budget_bytes;   /* DTR_NONE: no limit */
    dtr_deallocation deallocation;
    int64_t remat_limit_ns;  /* DTR_E_THRASHED once replays cost more than this; DTR_NONE: never */
    int64_t remat_ratio;     /* likewise once they cost so many times what first runs have, and more
                                than 10 s; DTR_NONE: never */
    bool reclaim;            /* forget operators and tensors that nothing can ask for any more, and
                                free constants without references.  A program that runs for long
                                needs it; the published simulator does not do it. */
    bool allow_overshoot;    /* run an operator that does not fit although nothing is evictable,
                                and report it, rather than fail */
    int decision_candidates; /* candidate events per decision beside the victim; default 5 */
} dtr_runtime_options;

/* Defaults: eager, no budget, no limit, no reclaiming. */
DTR_API void dtr_runtime_options_init(dtr_runtime_options *options);
DTR_API dtr_status dtr_runtime_new(const dtr_runtime_options *options, dtr_runtime **out_runtime,
                                   dtr_error *error);
/* Frees all storages that are left, through the backend.  Accepts NULL. */
DTR_API void dtr_runtime_free(dtr_runtime *runtime);

/* A NAME id for an operator, phase or range; equal texts give equal ids.  DTR_NONE when the host
 * has no memory left. */
DTR_API int64_t dtr_runtime_name(dtr_runtime *runtime, const char *text);

/* A constant of `bytes` bytes: allocated within the budget, pinned, with one reference.  *out_data
 * (optional) is where to put its content; it stays valid while the constant exists. */
DTR_API dtr_status dtr_constant(dtr_runtime *runtime, int64_t bytes, dtr_tensor *out_tensor,
                                void **out_data, dtr_error *error);

typedef struct dtr_output {
    int64_t bytes; /* size of the new storage; 0 for a view */
    int view_of;   /* index of the input that it is a view of, or -1 for a storage of its own */
} dtr_output;

typedef struct dtr_call {
    int64_t name;    /* from dtr_runtime_name */
    int64_t cost_ns; /* known cost (simulation), or DTR_NONE: what the backend reports on the first
                        run */
    void *payload;   /* for the backend; kept until the operator is dropped */
    void (*payload_free)(void *payload); /* called once with payload; may be NULL */
    bool mutates;                        /* the operator stands for an in-place one */
    int n_inputs;
    int n_outputs;             /* at least 1 */
    const dtr_tensor *inputs;  /* borrowed for the call; an input may occur several times */
    const dtr_output *outputs; /* borrowed for the call */
} dtr_call;

/* Calls an operator: brings back missing inputs, evicts until its outputs fit, runs it.  On success
 * out_tensors[n_outputs] have one external reference each.  The payload is taken in any case. */
DTR_API dtr_status dtr_run(dtr_runtime *runtime, const dtr_call *call, dtr_tensor *out_tensors,
                           dtr_error *error);

/* One more / one less external reference.  Releasing more often than retained is DTR_E_STATE. */
DTR_API dtr_status dtr_retain(dtr_runtime *runtime, dtr_tensor tensor);
DTR_API dtr_status dtr_release(dtr_runtime *runtime, dtr_tensor tensor);

/* Brings a tensor back if it is missing.  It may be evicted again by the next call. */
DTR_API dtr_status dtr_require(dtr_runtime *runtime, dtr_tensor tensor, dtr_error *error);
/* Brings it back and keeps its storage resident until the matching unpin.  *out_data (optional) is
 * the data of its storage, valid while pinned. */
DTR_API dtr_status dtr_pin(dtr_runtime *runtime, dtr_tensor tensor, void **out_data,
                           dtr_error *error);
DTR_API dtr_status dtr_unpin(dtr_runtime *runtime, dtr_tensor tensor);
/* Evicts a tensor's storage now; DTR_E_STATE if it is pinned, in use, or a constant. */
DTR_API dtr_status dtr_evict(dtr_runtime *runtime, dtr_tensor tensor);
/* Brings a tensor back and turns its storage into a constant: pinned for ever, its operators
 * dropped, so that what they needed can go.  For parameters after an optimizer step.  DTR_E_STATE
 * when other views of the storage are in use. */
DTR_API dtr_status dtr_make_constant(dtr_runtime *runtime, dtr_tensor tensor, dtr_error *error);

typedef struct dtr_tensor_info {
    int64_t tensor; /* id, as in events */
    int64_t storage;
    int64_t bytes;      /* of the storage */
    int64_t references; /* external, of this tensor */
    bool resident;      /* its storage has its bytes */
    bool defined;       /* and this tensor's own operator has run since */
    bool pinned;
    bool constant;
} dtr_tensor_info;

DTR_API dtr_status dtr_tensor_info_of(dtr_runtime *runtime, dtr_tensor tensor,
                                      dtr_tensor_info *out_info);

/* A new budget (DTR_NONE: no limit).  Evicts at once what exceeds it; DTR_E_OUT_OF_MEMORY when that
 * is not possible, and then the new budget is in force all the same. */
DTR_API dtr_status dtr_set_budget(dtr_runtime *runtime, int64_t budget_bytes, dtr_error *error);
DTR_API int64_t dtr_runtime_budget(const dtr_runtime *runtime);
/* Emits a mark.  `name` and `value` may be DTR_NONE. */
DTR_API void dtr_mark_emit(dtr_runtime *runtime, dtr_mark mark, int64_t name, int64_t value);

/* The counters of a run: X(name, unit, meaning). */
#define DTR_STATS_LIST(X)                                                                          \
    X(clock_ns, NS, "logical clock: 1 + cost of all operator runs")                                \
    X(model_compute_ns, NS, "cost of first runs")                                                  \
    X(remat_compute_ns, NS, "cost of replays")                                                     \
    X(in_use_bytes, BYTES, "bytes of resident storages")                                           \
    X(peak_bytes, BYTES, "most bytes in use at once, doubled outputs included")                    \
    X(constant_bytes, BYTES, "bytes of constants, ever made")                                      \
    X(operator_runs, COUNT, "first runs and replays")                                              \
    X(rematerializations, COUNT, "replays")                                                        \
    X(evictions, COUNT, "evictions for the budget")                                                \
    X(eager_evictions, COUNT, "evictions because the last reference went")                         \
    X(banished, COUNT, "storages freed for good by banishing")                                     \
    X(reclaimed, COUNT, "operators forgotten because nothing can ask for them")                    \
    X(score_evaluations, COUNT, "scores computed to choose victims")                               \
    X(overshoots, COUNT, "operators that ran above the budget")                                    \
    X(barriers, COUNT, "times that all tensors became constants")                                  \
    X(hazards, COUNT, "tensors and operators that cannot be replayed safely")                      \
    X(search_ns, NS, "host time spent choosing victims (0 on a virtual clock)")                    \
    X(describe_ns, NS, "host time spent ranking candidates for the record (0 on a virtual clock)") \
    X(storages, COUNT, "storages known now")                                                       \
    X(tensors, COUNT, "tensors known now")                                                         \
    X(operators, COUNT, "operators known now")                                                     \
    X(candidates, COUNT, "evictable storages now")

typedef struct dtr_stats {
#define DTR_STATS_MEMBER(name, unit, meaning) int64_t name;
    DTR_STATS_LIST(DTR_STATS_MEMBER)
#undef DTR_STATS_MEMBER
} dtr_stats;

DTR_API void dtr_runtime_stats(const dtr_runtime *runtime, dtr_stats *out_stats);

/* From now on nothing is emitted; the runtime goes on. */
DTR_API void dtr_runtime_stop_recording(dtr_runtime *runtime);

/* Holds every object against its invariants (bytes in use = sum over resident storages, a pinned
 * storage is never evicted, ...).  DTR_OK, or DTR_E_STATE and a sentence that names the object.
 * Debug builds call it after each public call on small runtimes. */
DTR_API dtr_status dtr_runtime_check(const dtr_runtime *runtime, dtr_error *error);

#ifdef __cplusplus
}
#endif
#endif
