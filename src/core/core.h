/* Inside the core: storages, tensors, operators, the pool, and the seam to the selector.
 *
 * All objects live in growing arrays and refer to each other by 32-bit slot.  A slot is reused
 * after its object is gone; `id` is unique for the run and is what events carry.  Slot 0 of every
 * array is never used, so that 0 means "none".
 *
 * Identities that dtr_runtime_check() holds (src/core/check.c):
 *  - in_use = sum of bytes over resident storages;
 *  - a storage is in the pool iff it is resident, has no lock and is not pinned;
 *  - pool order = order of pool_seq; pool_index is its place in `dense`;
 *  - refs of a storage = sum over its tensors; consumers of a tensor = occurrences as an input;
 *  - a tensor is defined only on a resident storage; a pinned storage is resident;
 *  - edges mirror inputs and outputs, with their multiplicity. */
#ifndef DTRI_CORE_CORE_H
#define DTRI_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/intern.h"
#include "dtr/runtime.h"

#define DTRI_NONE  0u
#define DTRI_NEVER INT64_MIN /* last access before the first one */

/* Sum over operators of cost x outputs may not exceed this, so that no sum of costs overflows. */
#define DTRI_MAX_WEIGHT (INT64_C(1) << 61)

enum dtri_state {
    DTRI_GONE = 0,   /* the slot is free */
    DTRI_UNCOMPUTED, /* its operator is about to run for the first time; counts as evicted */
    DTRI_RESIDENT,
    DTRI_EVICTED,
    DTRI_BANISHED, /* given up for good; the slot stays while its operator has other outputs */
};

struct dtri_storage {
    int64_t id;
    int64_t bytes;
    int64_t local_cost;  /* sum of the costs of the distinct operators that made its tensors */
    int64_t last_access; /* logical clock, DTRI_NEVER at first */
    uint64_t pool_seq;   /* when it entered the pool; breaks ties */
    void *data;          /* the backend's; only while resident */
    uint32_t pool_prev, pool_next;
    uint32_t pool_index;        /* place in dense + 1; 0: not in the pool */
    uint32_t locks;             /* by running operators and by user pins */
    uint32_t refs;              /* external references to its tensors */
    uint32_t tensors;           /* first of the list; the root */
    uint32_t parents, children; /* edge lists */
    uint32_t visit;             /* mark of the traversal that saw it last */
    uint32_t call;        /* the program's call in which it was made, or became resident last */
    int64_t waiting_cost; /* part of local_cost: of a view whose operator has not run yet */
    uint32_t summed[2];   /* for selectors: the call in which its sums up and down began anew */
    uint8_t state;        /* enum dtri_state */
    bool pinned;          /* for ever */
    bool constant;
    int32_t cause; /* NAME id of why it is one, or DTR_NONE */
};

struct dtri_tensor {
    int64_t id;
    uint32_t storage;
    uint32_t op;
    uint32_t next; /* on the same storage */
    uint32_t refs;
    uint32_t consumers;
    uint32_t generation; /* of the slot; part of the handle */
    uint32_t output;     /* index among the operator's outputs */
    bool alive;
    bool defined;
};

struct dtri_op {
    int64_t id;
    int64_t cost; /* DTR_NONE until known */
    int64_t name;
    void *payload;
    void (*payload_free)(void *);
    uint32_t links; /* into the link arena: inputs, then outputs (tensors) */
    uint32_t n_inputs, n_outputs;
    bool alive;
    bool constant;
    bool ran; /* its first run is over */
};

/* parent --> child between storages, once however often an operator asks for it. */
struct dtri_edge {
    uint32_t parent, child;
    uint32_t next_parent;            /* next in child's list of parents */
    uint32_t next_child, prev_child; /* in parent's list of children */
    uint32_t count;                  /* (input, output) pairs that ask for it */
};

/* The part of a runtime that selectors read. */
struct dtri_graph {
    struct dtri_storage *storages;
    struct dtri_edge *edges;
    size_t n_storages; /* slots used, the free ones and slot 0 included */
    size_t cap_storages;
    uint32_t *dense; /* the pool in arbitrary order; the `sample` search may permute it */
    size_t n_pool, cap_pool;
    uint32_t pool_first, pool_last; /* the pool in the order of entry */
    uint64_t next_pool_seq;
    int64_t clock;
    uint32_t call;  /* the program's operator calls so far, modulo 2^32 */
    uint32_t visit; /* last traversal mark given out */
};

/* A fresh traversal mark: no storage carries it yet. */
static inline uint32_t dtri_visit_begin(struct dtri_graph *g)
{
    if (++g->visit == 0) { /* wrapped round: old marks would look fresh */
        for (size_t i = 0; i < g->n_storages; i++)
            g->storages[i].visit = 0;
        g->visit = 1;
    }
    return g->visit;
}

static inline bool dtri_is_evicted(const struct dtri_storage *storage)
{
    return storage->state == DTRI_EVICTED || storage->state == DTRI_UNCOMPUTED;
}

/* A ranked candidate with what its score was made of. */
struct dtri_candidate {
    uint32_t storage;
    double score;
    int64_t cost;
    int64_t neighbours; /* DTR_NONE: not looked at */
};

/* A selector, as the core sees it.  The core calls the hooks whenever the graph changes; all of
 * them see the graph after the change, unless stated.  Hooks do not fail: a selector that runs out
 * of memory remembers it, and the next pick makes up for it or fails. */
struct dtri_selector_ops {
    void (*attach)(struct dtr_selector *, struct dtri_graph *graph);
    bool (*needs_edges)(const struct dtr_selector *);
    void (*created)(struct dtr_selector *, uint32_t storage); /* uncomputed, its edges in place */
    void (*entered)(struct dtr_selector *, uint32_t storage); /* the pool */
    void (*left)(struct dtr_selector *, uint32_t storage);
    void (*evicted)(struct dtr_selector *, uint32_t storage);
    void (*returned)(struct dtr_selector *,
                     uint32_t storage); /* resident again, or for the first time */
    /* Before its local cost shrinks by `cost` or it loses an edge. */
    void (*cheaper)(struct dtr_selector *, uint32_t storage, int64_t cost);
    void (*gone)(struct dtr_selector *, uint32_t storage); /* before its slot and edges are freed */
    /* The victim among a pool that is not empty. */
    dtr_status (*pick)(struct dtr_selector *, uint32_t *out_storage, int64_t *out_evaluations,
                       dtr_error *error);
    /* The victim and the next best, at most `n`, best first; for the record, not counted as
     * evaluations.  `victim` comes first whatever its score. */
    int (*rank)(struct dtr_selector *, uint32_t victim, struct dtri_candidate *out, int n);
    void (*free)(struct dtr_selector *);
};

/* First member of every selector. */
struct dtr_selector {
    const struct dtri_selector_ops *ops;
};

/* One operator run in progress. */
struct dtri_frame {
    uint32_t op;
    uint32_t target;        /* tensor that was asked for */
    uint32_t pending_begin; /* input positions not locked yet: pending[pending_begin..] */
    uint32_t pending_next;
    uint32_t pending_end;
};

/* The rematerialization in progress. */
struct dtri_chain {
    int64_t id; /* DTR_NONE: there is none */
    int64_t begin_ns;
    int64_t runs, cost, max_depth;
    uint32_t target;
    size_t base; /* its first frame; the frame below, if any, is the operator that asked */
};

struct dtr_runtime {
    struct dtri_graph graph;
    dtr_backend backend;
    dtr_sink sink;
    bool recording;   /* the sink has an emit */
    int64_t event_ns; /* time of the last look at the clock; DTR_NONE: time has passed since */
    dtr_selector *selector;
    dtr_deallocation deallocation;
    bool reclaim, allow_overshoot, edges;
    bool
        above_budget; /* a new budget could not be met, or an operator overshot, since all fitted */
    int n_runners_up;
    int64_t budget, remat_limit, remat_ratio;
    /* While a barrier brings tensors back: how much may be in use, and the count of replays at
     * which that grows; DTR_NONE when there is none. */
    int64_t relax_bytes, relax_at;

    struct dtri_tensor *tensors;
    size_t n_tensors, cap_tensors;
    struct dtri_op *ops;
    size_t n_ops, cap_ops;
    uint32_t *links;
    size_t n_links, cap_links;
    uint32_t link_free[32]; /* free blocks by the power of two of their size */
    size_t cap_edges, n_edges;
    uint32_t free_storage, free_tensor, free_op, free_edge;

    struct dtri_frame *frames;
    size_t n_frames, cap_frames;
    uint32_t *pending;
    size_t n_pending, cap_pending;
    void **data; /* input and output pointers of the operator being run */
    size_t cap_data;
    uint32_t *work; /* operators that may be dead; room for one entry a tensor */
    size_t n_work, cap_work;
    int64_t weight;       /* sum over operators of cost x outputs: bounds every sum of costs */
    uint32_t check_delay; /* public calls until the next check, in builds with checks */
    struct dtri_candidate *ranked;
    struct dtri_chain chain;

    struct dtri_intern names;
    int64_t next_storage_id, next_tensor_id, next_op_id, next_run_id, next_chain_id,
        next_decision_id, next_seq;
    dtr_stats stats;
};

/* --- graph.c: slots, links, edges; no policy ------------------------------------------------- */

/* Room for one operator with its outputs, inputs and edges, so that what follows cannot fail. */
bool dtri_reserve(dtr_runtime *rt, size_t n_inputs, size_t n_outputs);
uint32_t dtri_storage_new(dtr_runtime *rt, int64_t bytes);
uint32_t dtri_tensor_new(dtr_runtime *rt, uint32_t storage, uint32_t op, uint32_t output);
uint32_t dtri_op_new(dtr_runtime *rt, uint32_t n_inputs, uint32_t n_outputs);
void dtri_storage_drop(dtr_runtime *rt, uint32_t storage); /* frees the slot and its edges */
void dtri_tensor_drop(dtr_runtime *rt, uint32_t tensor);   /* takes it off its storage */
void dtri_op_drop(dtr_runtime *rt, uint32_t op);           /* frees the slot, links and payload */
/* Sets the cost of an operator and adds it to each storage that its outputs live on, once. */
void dtri_set_cost(dtr_runtime *rt, struct dtri_op *op, int64_t cost);
void dtri_edge_add(dtr_runtime *rt, uint32_t parent, uint32_t child);
void dtri_edge_remove(dtr_runtime *rt, uint32_t parent, uint32_t child);
void dtri_parents_cut(dtr_runtime *rt, uint32_t storage);
void dtri_edges_cut(dtr_runtime *rt, uint32_t storage); /* both ways */

static inline uint32_t *dtri_op_inputs(dtr_runtime *rt, const struct dtri_op *op)
{
    return rt->links + op->links;
}

static inline uint32_t *dtri_op_outputs(dtr_runtime *rt, const struct dtri_op *op)
{
    return rt->links + op->links + op->n_inputs;
}

static inline struct dtri_storage *dtri_storage_at(dtr_runtime *rt, uint32_t storage)
{
    return &rt->graph.storages[storage];
}

/* --- state.c: every change of a storage's state ----------------------------------------------- */

/* Pool membership follows from state, locks and pins; these are the only functions that change one
 * of the three. */
void dtri_lock(dtr_runtime *rt, uint32_t storage);
void dtri_unlock(dtr_runtime *rt, uint32_t storage);
void dtri_pin_for_ever(dtr_runtime *rt, uint32_t storage);
/* Resident, with `data`; not put into the pool yet, see dtri_settle. */
void dtri_become_resident(dtr_runtime *rt, uint32_t storage, void *data);
/* Puts a storage into the pool if it is evictable. */
void dtri_settle(dtr_runtime *rt, uint32_t storage);
void dtri_evict(dtr_runtime *rt, uint32_t storage, dtr_eviction_reason reason, int64_t decision);
/* Gives the bytes back without a way back; the slot stays for the caller to drop. */
void dtri_free_for_good(dtr_runtime *rt, uint32_t storage);

/* Resident and locked only by the operator that has just changed it in place: its bytes go to that
 * operator's output.  Returns its data; drops its locks.  A constant ceases to be one. */
void *dtri_take_bytes(dtr_runtime *rt, uint32_t storage);

/* --- runtime.c -------------------------------------------------------------------------------- */

dtr_tensor dtri_handle_of(const dtr_runtime *rt, uint32_t tensor);
/* The slot of a handle, or DTRI_NONE when its tensor is gone. */
uint32_t dtri_slot_of(const dtr_runtime *rt, dtr_tensor handle);
dtr_status dtri_no_such_tensor(dtr_error *error);
dtr_status dtri_check_call(const dtr_runtime *rt, const dtr_call *call, dtr_error *error);
/* Registers an operator whose arguments were checked and whose room was reserved. */
uint32_t dtri_register_op(dtr_runtime *rt, const dtr_call *call, bool constant);
/* Cuts the storage of `tensor`, resident and without views, off the operators that made it and
 * gives it a constant's operator.  Room for one operator with the inputs of its maker must be
 * reserved. */
void dtri_become_constant(dtr_runtime *rt, uint32_t tensor);
void dtri_emit_reference(dtr_runtime *rt, const struct dtri_tensor *t, int delta);
void dtri_emit_pin(dtr_runtime *rt, const struct dtri_tensor *t, int change);
/* Checks the invariants, in builds with checks. */
void dtri_self_check(dtr_runtime *rt);

/* --- budget.c --------------------------------------------------------------------------------- */

/* Evicts until `needed` more bytes fit.  `op` is for the events; 0 when nothing runs. */
dtr_status dtri_make_room(dtr_runtime *rt, int64_t needed, uint32_t op, dtr_error *error);
/* Evicts one storage, chosen by the heuristic, whatever the budget. */
dtr_status dtri_evict_one(dtr_runtime *rt, int64_t needed, uint32_t op, dtr_error *error);

/* Whether an operator may run above the budget: nothing is left to evict, or a barrier has replayed
 * so much that evicting more would not end. */
bool dtri_may_overshoot(dtr_runtime *rt, int64_t needed);
/* ": " and what holds most of the memory, and how many storages, for an error. */
void dtri_describe_held(const dtr_runtime *rt, char *text, size_t size);
void dtri_overshoot(dtr_runtime *rt, int64_t needed, uint32_t op); /* reports it */
/* What to say when nothing is left to evict. */
dtr_status dtri_out_of_memory(dtr_runtime *rt, uint32_t op, int64_t needed, dtr_error *error);
void dtri_emit_out_of_memory(dtr_runtime *rt, uint32_t op, int64_t needed, bool overshoot);

/* --- run.c ------------------------------------------------------------------------------------ */

/* Runs the operator of `target` after bringing back what is missing.  Iterative: a chain of a
 * million operators takes frames on the heap, never the C stack. */
dtr_status dtri_materialize(dtr_runtime *rt, uint32_t target, dtr_error *error);

/* --- release.c -------------------------------------------------------------------------------- */

/* What follows when a storage lost a reference or a lock: eager eviction, banishing. */
void dtri_deallocate(dtr_runtime *rt, uint32_t storage);
/* Banishes the storages of an operator's inputs that wait for it. */
void dtri_banish_inputs(dtr_runtime *rt, uint32_t op);
/* Forgets `op` and whatever only it kept alive, if nothing can ask for its outputs. */
void dtri_reclaim(dtr_runtime *rt, uint32_t op);
/* Forgets `op` whatever its state, for a call that failed.  Nothing may use its outputs. */
void dtri_forget(dtr_runtime *rt, uint32_t op);

/* --- emit.c ----------------------------------------------------------------------------------- */

/* Time for events: the backend's, or the logical clock where it has none.  Reading a clock costs
 * more than an event, so what happens between two looks at it, without the program or an operator
 * running in between, gets the time of the first. */
int64_t dtri_event_time(dtr_runtime *rt);
int64_t dtri_now(dtr_runtime *rt);      /* looks, for durations */
void dtri_time_passed(dtr_runtime *rt); /* the next event has to look */
bool dtri_has_host_time(const dtr_runtime *rt);
/* Emits `event` with time `ts_ns` and the next seq; kind and fields are filled in by the caller. */
void dtri_emit(dtr_runtime *rt, dtr_event *event, int64_t ts_ns);

#endif
