/* The device seam: all that a runtime knows about the place where operators run.
 *
 * A backend is a filled-in struct of functions.  All calls come from the thread that uses the
 * runtime, one at a time, and must not call back into the runtime.  Pointers returned by `alloc`
 * are the backend's; the runtime hands them back to `run` and `free` and never looks through them.
 */
#ifndef DTR_BACKEND_H
#define DTR_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One execution of an operator. */
typedef struct dtr_op_call {
    int64_t op;      /* id, as in events */
    int64_t name;    /* NAME id */
    void *payload;   /* what the caller attached to the operator; borrowed */
    int64_t cost_ns; /* the operator's cost if it is known already, else DTR_NONE */
    bool replay;     /* false on the first run */
    int n_inputs;
    int n_outputs;
    void *const *inputs;  /* data of each input's storage */
    void *const *outputs; /* data of each output's storage; a view's is that of the storage it
                             views. An output that is resident already gets a scratch block, so
                             writing all outputs is always right. */
} dtr_op_call;

typedef struct dtr_backend {
    void *self; /* first argument of every call */

    /* Memory for one storage; *out_data may stay NULL if the backend keeps no bytes.
     * DTR_E_NOMEM: the device has none left, although the budget does; the runtime evicts more and
     * tries again.  Anything else ends the operation.  NULL slot: nothing is kept (simulation). */
    dtr_status (*alloc)(void *self, int64_t bytes, void **out_data, dtr_error *error);
    /* Gives back what alloc returned.  Cannot fail.  NULL slot: nothing to do. */
    void (*free)(void *self, void *data, int64_t bytes);
    /* Runs an operator and stores its cost in ns, as heuristics shall count it, in *out_cost_ns
     * (>= 0).  The runtime keeps the cost of the first run.  An operator must be pure: equal inputs
     * give equal outputs, whenever it is replayed. */
    dtr_status (*run)(void *self, const dtr_op_call *call, int64_t *out_cost_ns, dtr_error *error);
    /* Monotonic host time in ns, for the time stamps of events.  NULL slot: events carry the
     * runtime's logical clock, and nothing of the host's time is measured. */
    int64_t (*now_ns)(void *self);
    /* What the allocator itself counts: bytes it holds now and the most it ever held, scratch and
     * rounding included.  NULL slot: not known. */
    void (*memory)(void *self, int64_t *out_in_use_bytes, int64_t *out_peak_bytes);
} dtr_backend;

/* The backend of the simulator: keeps no memory, runs nothing, takes the cost that the caller gave.
 * Static storage; any number of runtimes on any threads. */
DTR_API const dtr_backend *dtr_backend_virtual(void);

#ifdef __cplusplus
}
#endif
#endif
