/* Operators that the program runs itself, under a runtime's budget.
 *
 * With dtr_run the runtime runs everything, first runs included.  A host, such as a framework with
 * operators of its own, runs each operator for the first time itself and tells the runtime of it;
 * the runtime evicts, and asks the backend for replays only:
 *
 *     dtr_hold(rt, inputs, n, bytes_expected)     inputs are there, and stay; there is room
 *     ... the host runs the operator ...
 *     dtr_adopt(rt, call, run, outputs)           or, when it failed, dtr_unhold(rt, inputs, n)
 *
 * A host's tensors are whole storages: views are its own business.  An in-place operator makes a
 * new storage that takes the bytes of the old one, which becomes evicted: a replay works on a copy,
 * so that what was computed from the old content can still be replayed (copy on write, Kirisame et
 * al., ICLR 2021, section 4.1).
 *
 * Threads: as for the runtime.  The host may let go of it while its operator runs: what is held
 * stays, whatever other threads do with the runtime in the meantime. */
#ifndef DTR_HOST_H
#define DTR_HOST_H

#include "dtr/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Brings back each tensor, keeps all their storages in place, and evicts until `bytes` more fit.  A
 * tensor may occur several times.  With 0 bytes only what is missing can fail for want of memory.
 * Reserves the host memory for adopting an operator with these inputs and up to n + 8 outputs, if
 * that comes next.  On failure nothing is held. */
DTR_API dtr_status dtr_hold(dtr_runtime *runtime, const dtr_tensor *tensors, int n, int64_t bytes,
                            dtr_error *error);
/* Lets go of them. */
DTR_API void dtr_unhold(dtr_runtime *runtime, const dtr_tensor *tensors, int n);

/* How the host ran an operator. */
typedef struct dtr_host_run {
    int64_t begin_ns, dur_ns; /* as the backend's now_ns tells it; for the record */
    int64_t cost_ns;          /* as heuristics shall count it; >= 0 */
    void *const *data;        /* per output: what the backend's `run` and `free` shall get for it;
                                 NULL entry: what was that of the input whose bytes it took */
    const int *takes;         /* per output: index of the input that it replaced in place, or -1;
                                 NULL: none */
    int64_t signature;        /* NAME id of a text of its types and shapes, or DTR_NONE */
    bool constant; /* the outputs become constants and the operator is forgotten: it cannot
                      be replayed, or changed a constant */
} dtr_host_run;

/* Registers an operator that the host has run on inputs that it holds, and lets go of them.  Each
 * output gets one reference; one that took an input's bytes gets that of the input, whose own
 * handle must not be used any more.  call->cost_ns is not looked at; views are refused.
 *
 * DTR_E_STATE: an input whose bytes are taken is not held, is held by another as well, or is a
 * constant that other operators take (dtr_barrier first) or that is taken without run->constant;
 * dtr_can_take tells before the operator runs.  After DTR_E_STATE, DTR_E_INVALID and DTR_E_NOMEM
 * nothing has changed and the inputs are still held.  DTR_E_OUT_OF_MEMORY: all is registered, but
 * more bytes are in use than the budget allows and nothing is left to evict; with allow_overshoot
 * that is reported and not an error. */
DTR_API dtr_status dtr_adopt(dtr_runtime *runtime, const dtr_call *call, const dtr_host_run *run,
                             dtr_tensor *out_tensors, dtr_error *error);
/* Whether an operator that holds `tensor` `n_held` times may take its bytes.  Otherwise a barrier
 * makes it a constant that nothing depends on, which the host may change without telling. */
DTR_API bool dtr_can_take(dtr_runtime *runtime, dtr_tensor tensor, int n_held);

/* A constant that exists already: a tensor of the host that no operator made.  Evicts for it what
 * it can; its bytes count in any case. */
DTR_API dtr_status dtr_adopt_constant(dtr_runtime *runtime, int64_t bytes, void *data,
                                      dtr_tensor *out_tensor, dtr_error *error);

/* How many inputs of operators a tensor is: whether something may be replayed from it. */
DTR_API int64_t dtr_dependents(dtr_runtime *runtime, dtr_tensor tensor);

/* Brings back every tensor that has a reference and makes it a constant; forgets every operator and
 * the bytes that nobody refers to.  Afterwards nothing depends on anything: tensors may be changed
 * or outlive the runtime's care.  May exceed the budget, which is reported as an overshoot: when
 * nothing is left to evict, or up to what stays in the end, and, since evicting what comes next
 * would not end, by an eighth more each time as many operators were replayed as there are.  The
 * limit on replays does not end it.  `cause` (a NAME id or DTR_NONE) is for the record. DTR_E_STATE
 * when a storage has views.  After another failure some tensors are constants and others not. */
DTR_API dtr_status dtr_barrier(dtr_runtime *runtime, int64_t cause, dtr_error *error);

/* Has nothing depend on one constant, so that it may be changed.  What was computed from it
 * directly is brought back and becomes constant, or, when that is less, everything does as in a
 * barrier. Recorded as a barrier if something had to be done.  DTR_E_STATE when `tensor` is no
 * constant. */
DTR_API dtr_status dtr_isolate(dtr_runtime *runtime, dtr_tensor tensor, int64_t cause,
                               dtr_error *error);

/* Says why a tensor is a constant (a NAME id), which an error for want of memory repeats.  A
 * barrier says it of what it makes constant. */
DTR_API void dtr_set_cause(dtr_runtime *runtime, dtr_tensor tensor, int64_t cause);

/* Bytes that dtr_isolate would make constant; a host may rather keep a copy of the old content,
 * under the old handle, and adopt the storage anew.  0 when nothing depends on it. */
DTR_API int64_t dtr_isolation_bytes(dtr_runtime *runtime, dtr_tensor tensor);

/* Evicts everything that can be evicted; returns how many storages that were. */
DTR_API int64_t dtr_evict_all(dtr_runtime *runtime);

/* Emits what a host alone knows: that something cannot be replayed safely and why (`tensor` may be
 * DTR_NO_TENSOR); what the allocator counts. */
DTR_API void dtr_hazard_emit(dtr_runtime *runtime, dtr_tensor tensor, int64_t cause);
DTR_API void dtr_allocator_emit(dtr_runtime *runtime);

#ifdef __cplusplus
}
#endif
#endif
