/* The events of one run, in the order of seq, against what came before them.
 *
 * A gap in seq starts a new epoch: of what a thing was before it, nothing is believed any more. */
#include <inttypes.h>
#include <string.h>

#include "analyze/check.h"
#include "analyze/id_map.h"
#include "base/alloc.h"
#include "base/error.h"
#include "store/stream.h"

struct storage {
    int64_t bytes, root;
    int32_t locks;
    uint32_t epoch; /* in which the flags below were learnt; 0: never */
    bool introduced, resident, gone, constant;
    int64_t
        taken_before_run; /* the count of the run in which an in-place operator took its bytes */
};

struct tensor {
    int64_t storage, op, refs, locks;
    uint32_t epoch;
    bool introduced, constant;
};

struct op {
    uint32_t epoch; /* in which it was introduced; its operands and outputs follow at once */
    int64_t n_inputs, n_outputs, inputs_seen, outputs_seen, own_bytes, first_input;
    bool introduced, ran;
};

/* Inputs of operators, kept as a list: the first is in the operator. */
struct operand {
    int64_t tensor, next;
};

#define MAX_DEPTH                                                                                  \
    64 /* of chains whose causes are followed; deeper ones are followed at the end                 \
        */

struct chain {
    int64_t runs, cost, max_depth, last_depth, cause;
    int64_t waiting[MAX_DEPTH]; /* operator that has to run at this depth, or DTR_NONE */
    bool judged;
};

struct window {
    int64_t begin, end;
};

struct events {
    struct dtri_check *check;
    struct window *windows; /* by begin */
    size_t n_windows, cap_windows;
    const struct dtri_run *run;
    struct dtri_id_map storages, tensors, ops, operands, chains, frames, names, decisions;
    uint32_t epoch;
    int64_t last_seq, last_ts, n, missing;
    int64_t in_use, budget; /* INT64_MIN: not known */
    bool complete, whole_from_start, no_memory;
    bool imported; /* another tool's events, as late as they came */
    /* the decision whose eviction is to come */
    int64_t decision, victim, listed, candidates, depth_of_ranges;
    double score;
    bool tied, tie_seen;
    /* totals */
    int64_t evictions, eager, replays, runs, overshoots, evaluations, first_cost, replay_cost, peak;
    bool end_mark;
    struct op *reading;      /* operator whose operands come */
    int64_t next_operand_id; /* of the list */
};

#define UNKNOWN INT64_MIN

#define FOUND(x, kind, event, ...) dtri_found((x)->check, DTRI_FINDING_##kind, event, __VA_ARGS__)

/* --- things by id ----------------------------------------------------------------------------- */

static void *get(struct events *x, struct dtri_id_map *map, int64_t id)
{
    bool is_new;
    void *value = dtri_id_add(map, id, &is_new);
    if (!value)
        x->no_memory = true;
    return value;
}

/* Nothing was missed so far, so whatever is named must have been introduced. */
static bool all_seen(const struct events *x)
{
    return x->epoch == 1 && x->whole_from_start;
}

static struct storage *storage_of(struct events *x, const dtr_event *e, int64_t id)
{
    struct storage *s = get(x, &x->storages, id);
    if (s && !s->introduced && all_seen(x)) {
        FOUND(x, UNKNOWN_ID, e, "storage %" PRId64 " was never introduced", id);
        s->introduced = true; /* told once */
        s->bytes = UNKNOWN;
    }
    if (s && !s->introduced)
        s->bytes = UNKNOWN;
    if (s && s->epoch != x->epoch) {
        s->locks = 0;
        s->resident = false;
    }
    return s;
}

/* Whether the flags of a storage hold now. */
static bool is_known(const struct events *x, const struct storage *s)
{
    return s->epoch == x->epoch;
}

static struct tensor *tensor_of(struct events *x, const dtr_event *e, int64_t id)
{
    struct tensor *t = get(x, &x->tensors, id);
    if (t && !t->introduced && all_seen(x)) {
        FOUND(x, UNKNOWN_ID, e, "tensor %" PRId64 " was never introduced", id);
        t->introduced = true;
        t->storage = DTR_NONE;
    }
    return t;
}

static bool is_complete(const struct op *o)
{
    return o->inputs_seen == o->n_inputs && o->outputs_seen == o->n_outputs;
}

static struct op *op_of(struct events *x, const dtr_event *e, int64_t id)
{
    struct op *o = get(x, &x->ops, id);
    if (o && !o->introduced && all_seen(x)) {
        FOUND(x, UNKNOWN_ID, e, "operator %" PRId64 " was never introduced", id);
        o->introduced = true;
        o->n_inputs = o->n_outputs = UNKNOWN;
    }
    if (o && o->epoch != x->epoch && !is_complete(o))
        o->n_inputs = o->n_outputs = UNKNOWN; /* the rest is missing */
    return o;
}

static void check_size(struct events *x, const dtr_event *e, const struct storage *s, int64_t id,
                       int64_t bytes)
{
    if (s->introduced && s->bytes != UNKNOWN && s->bytes != bytes)
        FOUND(x, SIZE, e, "storage %" PRId64 " has %" PRId64 " bytes, the event says %" PRId64, id,
              s->bytes, bytes);
}

/* --- definitions ------------------------------------------------------------------------------ */

static void on_storage(struct events *x, const dtr_event *e)
{
    const dtr_event_storage *f = &e->u.storage_;
    struct storage *s = get(x, &x->storages, f->storage);
    if (!s)
        return;
    if (s->introduced)
        FOUND(x, DUPLICATE_ID, e, "storage %" PRId64 " is introduced twice", f->storage);
    if (f->bytes < 0)
        FOUND(x, SIZE, e, "storage %" PRId64 " has %" PRId64 " bytes", f->storage, f->bytes);
    *s =
        (struct storage){.bytes = f->bytes, .root = f->root, .epoch = x->epoch, .introduced = true};
}

static void on_tensor(struct events *x, const dtr_event *e)
{
    const dtr_event_tensor *f = &e->u.tensor_;
    bool is_ghost = false, is_judged = true;
    struct storage *s = storage_of(x, e, f->storage);
    int64_t bytes =
        s && s->introduced && s->bytes != UNKNOWN && s->root == f->tensor ? s->bytes : 0;
    if (f->view_of != DTR_NONE)
        tensor_of(x, e, f->view_of);
    if (f->op != DTR_NONE) {
        struct op *o = op_of(x, e, f->op);
        if (!o)
            return;
        /* In place of one that became a constant. */
        is_ghost = o->introduced && o->outputs_seen == o->n_outputs;
        is_judged = o->introduced && o->n_outputs != UNKNOWN;
        if (!is_ghost && o->n_outputs != UNKNOWN && o->introduced && f->output != o->outputs_seen)
            FOUND(x, OUTPUTS, e, "tensor %" PRId64 " is output %" PRId64 ", not %" PRId64,
                  f->tensor, f->output, o->outputs_seen);
        o->outputs_seen += !is_ghost;
        if (s && f->view_of == DTR_NONE && s->bytes == UNKNOWN)
            o->n_outputs = UNKNOWN; /* nor what it makes */
        o->own_bytes += is_ghost ? 0 : bytes;
    } else if (!f->constant) {
        FOUND(x, OUTPUTS, e, "tensor %" PRId64 " is no constant and has no operator", f->tensor);
    }
    struct tensor *t = get(x, &x->tensors, f->tensor);
    if (!t)
        return;
    if (t->introduced)
        FOUND(x, DUPLICATE_ID, e, "tensor %" PRId64 " is introduced twice", f->tensor);
    *t = (struct tensor){.storage = f->storage,
                         .op = f->op,
                         .refs = !is_ghost,
                         .epoch = is_judged ? x->epoch : 0,
                         .introduced = true,
                         .constant = f->constant};
    s = storage_of(x, e, f->storage);
    if (s && f->constant)
        s->constant = true;
}

static void on_operator(struct events *x, const dtr_event *e)
{
    const dtr_event_operator *f = &e->u.operator_;
    struct op *o = get(x, &x->ops, f->op);
    if (!o)
        return;
    if (o->introduced)
        FOUND(x, DUPLICATE_ID, e, "operator %" PRId64 " is introduced twice", f->op);
    if (f->n_inputs < 0 || f->n_outputs < 0)
        FOUND(x, OPERANDS, e, "operator %" PRId64 " has %" PRId64 " inputs and %" PRId64 " outputs",
              f->op, f->n_inputs, f->n_outputs);
    *o = (struct op){.epoch = x->epoch,
                     .n_inputs = f->n_inputs,
                     .n_outputs = f->n_outputs,
                     .first_input = DTR_NONE,
                     .introduced = true};
}

static void on_operand(struct events *x, const dtr_event *e)
{
    const dtr_event_operand *f = &e->u.operand_;
    tensor_of(x, e, f->tensor);
    struct operand *operand = get(x, &x->operands, x->next_operand_id);
    struct op *o = op_of(x, e, f->op);
    if (!o || !operand || !o->introduced)
        return;
    if (o->n_inputs != UNKNOWN && (f->position != o->inputs_seen || f->position >= o->n_inputs))
        FOUND(x, OPERANDS, e,
              "operand %" PRId64 " of operator %" PRId64 " comes as number %" PRId64 " of %" PRId64,
              f->position, f->op, o->inputs_seen, o->n_inputs);
    *operand = (struct operand){f->tensor, o->inputs_seen ? o->first_input : DTR_NONE};
    o->first_input = x->next_operand_id++;
    o->inputs_seen++;
}

static void on_frame(struct events *x, const dtr_event *e)
{
    const dtr_event_frame *f = &e->u.frame_;
    bool is_new;
    if (f->parent != DTR_NONE && !dtri_id_find(&x->frames, f->parent) && all_seen(x))
        FOUND(x, FRAME, e, "frame %" PRId64 " was called by %" PRId64 ", which is none", f->frame,
              f->parent);
    if (!dtri_id_add(&x->frames, f->frame, &is_new))
        x->no_memory = true;
    else if (!is_new)
        FOUND(x, DUPLICATE_ID, e, "frame %" PRId64 " is introduced twice", f->frame);
}

static void on_origin(struct events *x, const dtr_event *e)
{
    const dtr_event_origin *f = &e->u.origin_;
    op_of(x, e, f->op);
    if (!dtri_id_find(&x->frames, f->frame) && all_seen(x))
        FOUND(x, FRAME, e, "operator %" PRId64 " was called in frame %" PRId64 ", which is none",
              f->op, f->frame);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Bytes in use after a change by `change`. */
static void check_in_use(struct events *x, const dtr_event *e, int64_t change, int64_t said)
{
    int64_t expected;
    if (x->in_use != UNKNOWN &&
        (__builtin_add_overflow(x->in_use, change, &expected) || expected != said || said < 0))
        FOUND(x, IN_USE, e,
              "%" PRId64 " bytes in use, %+" PRId64 ", should give %" PRId64
              " and the event says %" PRId64,
              x->in_use, change, (int64_t)((uint64_t)x->in_use + (uint64_t)change), said);
    x->in_use = said;
}

static void on_allocation(struct events *x, const dtr_event *e)
{
    const dtr_event_allocation *f = &e->u.allocation_;
    struct storage *s = storage_of(x, e, f->storage);
    check_in_use(x, e, f->bytes, f->in_use);
    x->peak = f->in_use > x->peak ? f->in_use : x->peak;
    if (!s)
        return;
    check_size(x, e, s, f->storage, f->bytes);
    if (is_known(x, s) && s->resident)
        FOUND(x, ALLOCATED_TWICE, e, "storage %" PRId64 " is resident already", f->storage);
    if (s->gone)
        FOUND(x, FREED_TWICE, e, "storage %" PRId64 " was freed for good", f->storage);
    s->resident = true;
    s->epoch = x->epoch;
}

static void on_freeing(struct events *x, const dtr_event *e)
{
    const dtr_event_freeing *f = &e->u.freeing_;
    struct storage *s = storage_of(x, e, f->storage);
    check_in_use(x, e, -f->bytes, f->in_use);
    if (!s)
        return;
    if (s->gone)
        FOUND(x, FREED_TWICE, e, "storage %" PRId64 " was freed for good before", f->storage);
    if (f->bytes)
        check_size(x, e, s, f->storage, f->bytes);
    bool gives = s->bytes != UNKNOWN && s->bytes > 0;
    if (is_known(x, s) && gives && s->resident != (f->bytes > 0))
        FOUND(x, SIZE, e, "storage %" PRId64 " is %sresident and gives back %" PRId64 " bytes",
              f->storage, s->resident ? "" : "not ", f->bytes);
    s->resident = false;
    s->gone = true;
    s->epoch = x->epoch;
}

static void check_victim(struct events *x, const dtr_event *e, const dtr_event_eviction *f)
{
    if (f->reason != DTR_EVICTED_FOR_BUDGET) {
        if (f->decision != DTR_NONE)
            FOUND(x, DECISION, e, "an eviction that nobody decided names decision %" PRId64,
                  f->decision);
        return;
    }
    x->evictions++;
    if (x->decision == UNKNOWN && !all_seen(x))
        return;
    if (f->decision != x->decision || f->storage != x->victim)
        FOUND(x, DECISION, e,
              "storage %" PRId64 " is evicted by decision %" PRId64 "; the last decision, %" PRId64
              ", chose %" PRId64,
              f->storage, f->decision, x->decision == UNKNOWN ? DTR_NONE : x->decision, x->victim);
    if (x->listed == 0)
        FOUND(x, CANDIDATE, e, "decision %" PRId64 " lists no candidate", f->decision);
    if (x->tied != x->tie_seen && x->listed > 1)
        FOUND(x, CANDIDATE, e, "decision %" PRId64 " says that it was %s", f->decision,
              x->tied ? "tied, and no score is equal" : "not tied, and a score is equal");
    x->decision = UNKNOWN;
}

static void on_eviction(struct events *x, const dtr_event *e)
{
    const dtr_event_eviction *f = &e->u.eviction_;
    struct storage *s = storage_of(x, e, f->storage);
    check_in_use(x, e, -f->bytes, f->in_use);
    if (f->reason < DTR_EVICTED_FOR_BUDGET || f->reason > DTR_EVICTED_BY_MUTATION)
        FOUND(x, CODE, e, "%" PRId64 " is no reason of an eviction", f->reason);
    x->eager += f->reason == DTR_EVICTED_EAGERLY;
    check_victim(x, e, f);
    if (!s)
        return;
    check_size(x, e, s, f->storage, f->bytes);
    if (is_known(x, s) && !s->resident)
        FOUND(x, NOT_RESIDENT, e, "storage %" PRId64 " is evicted and was not resident",
              f->storage);
    if (f->reason ==
        DTR_EVICTED_BY_MUTATION) { /* the operator that runs next has it in its hands */
        s->taken_before_run = x->runs + 1;
        s->constant = false;
    }
    if (s->constant || (is_known(x, s) && s->locks > 0))
        FOUND(x, EVICTED_PINNED, e, "storage %" PRId64 " is evicted although it is %s", f->storage,
              s->constant ? "a constant" : "pinned");
    s->resident = false;
    s->epoch = x->epoch;
}

/* --- decisions -------------------------------------------------------------------------------- */

static void on_decision(struct events *x, const dtr_event *e)
{
    const dtr_event_decision *f = &e->u.decision_;
    bool is_new;
    if (x->decision != UNKNOWN)
        FOUND(x, DECISION, e, "decision %" PRId64 " was followed by no eviction", x->decision);
    if (!dtri_id_add(&x->decisions, f->decision, &is_new))
        x->no_memory = true;
    else if (!is_new)
        FOUND(x, DUPLICATE_ID, e, "decision %" PRId64 " is made twice", f->decision);
    storage_of(x, e, f->storage);
    if (f->op != DTR_NONE)
        op_of(x, e, f->op);
    if (x->in_use != UNKNOWN && f->in_use != x->in_use)
        FOUND(x, IN_USE, e, "%" PRId64 " bytes are in use and the decision says %" PRId64,
              x->in_use, f->in_use);
    if (x->budget != UNKNOWN && f->budget != x->budget)
        FOUND(x, BUDGET, e, "the budget is %" PRId64 " and the decision says %" PRId64, x->budget,
              f->budget);
    if (f->search_ns < DTR_NONE)
        FOUND(x, DURATION, e, "a search took %" PRId64 " ns", f->search_ns);
    x->decision = f->decision;
    x->victim = f->storage;
    x->candidates = f->candidates;
    x->tied = f->tied;
    x->listed = 0;
    x->tie_seen = false;
    x->evaluations += f->evaluations;
}

static void on_candidate(struct events *x, const dtr_event *e)
{
    const dtr_event_candidate *f = &e->u.candidate_;
    storage_of(x, e, f->storage);
    if (x->decision == UNKNOWN && !all_seen(x))
        return;
    if (f->decision != x->decision || f->rank != x->listed || f->rank >= x->candidates)
        FOUND(x, CANDIDATE, e,
              "candidate %" PRId64 " of decision %" PRId64 " comes as number %" PRId64
              " of %" PRId64 " of decision %" PRId64,
              f->rank, f->decision, x->listed, x->candidates, x->decision);
    if (f->rank == 0 && f->storage != x->victim)
        FOUND(x, CANDIDATE, e, "the best candidate is storage %" PRId64 ", the victim %" PRId64,
              f->storage, x->victim);
    if (f->rank > 0 && f->score < x->score)
        FOUND(x, CANDIDATE, e, "candidate %" PRId64 " has a lower score than the one before",
              f->rank);
    x->tie_seen = x->tie_seen || (f->rank == 1 && f->score == x->score);
    x->score = f->score;
    x->listed++;
}

/* --- runs and chains -------------------------------------------------------------------------- */

static void check_inputs(struct events *x, const dtr_event *e, int64_t op, const struct op *o)
{
    int64_t at = o->inputs_seen ? o->first_input : DTR_NONE;
    while (at != DTR_NONE) {
        const struct operand *operand = dtri_id_find(&x->operands, at);
        const struct tensor *t = operand ? dtri_id_find(&x->tensors, operand->tensor) : NULL;
        const struct storage *s =
            t && t->introduced ? dtri_id_find(&x->storages, t->storage) : NULL;
        if (s && is_known(x, s) && !s->resident && s->taken_before_run != x->runs + 1)
            FOUND(x, READ_EVICTED, e,
                  "operator %" PRId64 " read tensor %" PRId64 " of storage %" PRId64
                  ", which was not resident",
                  op, operand->tensor, t->storage);
        at = operand ? operand->next : DTR_NONE;
    }
}

static void check_operator(struct events *x, const dtr_event *e, const dtr_event_operator_run *f,
                           struct op *o)
{
    if (o->introduced && o->n_inputs != UNKNOWN && !o->ran && all_seen(x)) {
        if (o->inputs_seen != o->n_inputs)
            FOUND(x, OPERANDS, e,
                  "operator %" PRId64 " has %" PRId64 " inputs and %" PRId64 " operands", f->op,
                  o->n_inputs, o->inputs_seen);
        if (o->outputs_seen != o->n_outputs)
            FOUND(x, OUTPUTS, e,
                  "operator %" PRId64 " has %" PRId64 " outputs and %" PRId64 " tensors", f->op,
                  o->n_outputs, o->outputs_seen);
    }
    if (f->replay != 0 && f->replay != 1)
        FOUND(x, CODE, e, "a run is a replay (1) or not (0), not %" PRId64, f->replay);
    else if ((f->replay == 0 && o->ran) || (f->replay == 1 && !o->ran && all_seen(x)))
        FOUND(x, FIRST_RUN, e, "operator %" PRId64 " ran %s", f->op,
              o->ran ? "for the first time twice" : "again before its first run");
    o->ran = true;
    int64_t expected;
    if (x->in_use != UNKNOWN && o->introduced && o->n_outputs != UNKNOWN &&
        o->outputs_seen >= o->n_outputs &&
        (__builtin_add_overflow(x->in_use, o->own_bytes, &expected) || f->in_use != expected))
        FOUND(x, RUN_IN_USE, e,
              "%" PRId64 " bytes in use and %" PRId64 " of outputs are not the %" PRId64
              " that the run says",
              x->in_use, o->own_bytes, f->in_use);
}

/* The runs of a chain come from the inside out: a run at depth d was needed by the operator that
 * runs next at depth d - 1, which is its cause. */
static void follow_chain(struct events *x, const dtr_event *e, const dtr_event_operator_run *f)
{
    bool is_new;
    struct chain *c = dtri_id_add(&x->chains, f->chain, &is_new);
    if (!c) {
        x->no_memory = true;
        return;
    }
    if (is_new) {
        for (int i = 0; i < MAX_DEPTH; i++)
            c->waiting[i] = DTR_NONE;
        c->cause = UNKNOWN;
        c->judged = all_seen(x);
        c->last_depth = f->depth;
    }
    c->judged = c->judged && all_seen(x);
    if (f->depth < 0 || (c->judged && f->depth < c->last_depth - 1))
        FOUND(x, DEPTH, e, "a run at depth %" PRId64 " follows one at %" PRId64, f->depth,
              c->last_depth);
    c->runs++;
    c->cost += f->cost_ns;
    c->max_depth = f->depth > c->max_depth ? f->depth : c->max_depth;
    c->last_depth = f->depth;
    if (!c->judged || f->depth < 0)
        return;
    if (f->depth < MAX_DEPTH && c->waiting[f->depth] != DTR_NONE) {
        if (c->waiting[f->depth] != f->op)
            FOUND(x, CAUSE, e,
                  "operator %" PRId64 " ran where %" PRId64 " had asked for its inputs", f->op,
                  c->waiting[f->depth]);
        c->waiting[f->depth] = DTR_NONE;
    }
    if (f->depth == 0)
        c->cause = f->cause;
    else if (f->cause == DTR_NONE)
        FOUND(x, CAUSE, e, "a run at depth %" PRId64 " has no cause", f->depth);
    else if (f->depth <= MAX_DEPTH)
        c->waiting[f->depth - 1] = f->cause;
}

static void on_run(struct events *x, const dtr_event *e)
{
    const dtr_event_operator_run *f = &e->u.operator_run_;
    struct op *o = op_of(x, e, f->op);
    struct tensor *target = f->target == DTR_NONE ? NULL : tensor_of(x, e, f->target);
    if (f->dur_ns < 0 || f->cost_ns < 0)
        FOUND(x, DURATION, e, "a run took %" PRId64 " ns and cost %" PRId64, f->dur_ns, f->cost_ns);
    if (f->cause != DTR_NONE)
        op_of(x, e, f->cause);
    if (target && target->introduced && !target->constant && target->storage != DTR_NONE &&
        target->op != f->op)
        FOUND(x, TARGET, e,
              "a run of operator %" PRId64 " was for tensor %" PRId64 " of operator %" PRId64,
              f->op, f->target, target->op);
    o = op_of(x, e, f->op);
    if (o) {
        check_operator(x, e, f, o);
        check_inputs(x, e, f->op, o);
    }
    if (f->replay == 1 && f->chain == DTR_NONE)
        FOUND(x, CAUSE, e, "a replay of operator %" PRId64 " belongs to no chain", f->op);
    if (f->chain != DTR_NONE)
        follow_chain(x, e, f);
    x->runs++;
    x->replays += f->replay == 1;
    x->first_cost += f->replay == 1 ? 0 : f->cost_ns;
    x->replay_cost += f->replay == 1 ? f->cost_ns : 0;
    x->peak = f->in_use > x->peak ? f->in_use : x->peak;
}

static void on_chain(struct events *x, const dtr_event *e)
{
    const dtr_event_chain *f = &e->u.chain_;
    const struct chain *c = dtri_id_find(&x->chains, f->chain);
    tensor_of(x, e, f->tensor);
    if (f->dur_ns < 0)
        FOUND(x, DURATION, e, "a chain took %" PRId64 " ns", f->dur_ns);
    if (!c && all_seen(x))
        FOUND(x, CHAIN, e, "chain %" PRId64 " has no runs", f->chain);
    if (c && c->judged && all_seen(x)) {
        if (c->runs != f->runs || c->cost != f->cost_ns || c->max_depth != f->max_depth)
            FOUND(x, CHAIN, e,
                  "chain %" PRId64 " has %" PRId64 " runs of %" PRId64 " ns, %" PRId64
                  " deep, and says %" PRId64 " of %" PRId64 ", %" PRId64,
                  f->chain, c->runs, c->cost, c->max_depth, f->runs, f->cost_ns, f->max_depth);
        if (c->cause != UNKNOWN && c->cause != f->cause)
            FOUND(x, CAUSE, e,
                  "chain %" PRId64 " was caused by operator %" PRId64 ", its last run by %" PRId64,
                  f->chain, f->cause, c->cause);
        if (c->last_depth != 0)
            FOUND(x, DEPTH, e, "chain %" PRId64 " ends at depth %" PRId64, f->chain, c->last_depth);
    }
    dtri_id_remove(&x->chains, f->chain);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void on_reference(struct events *x, const dtr_event *e)
{
    const dtr_event_reference *f = &e->u.reference_;
    struct tensor *t = tensor_of(x, e, f->tensor);
    if (!t)
        return;
    if (f->delta != 1 && f->delta != -1)
        FOUND(x, CODE, e, "references change by 1, not by %" PRId64, f->delta);
    if (f->n_references < 0 ||
        (t->introduced && t->epoch == x->epoch && t->refs + f->delta != f->n_references))
        FOUND(x, REFERENCE, e,
              "tensor %" PRId64 " has %" PRId64 " references, %+" PRId64
              ", and the event says %" PRId64,
              f->tensor, t->refs, f->delta, f->n_references);
    t->refs = f->n_references;
    t->epoch = x->epoch;
}

static void on_pin(struct events *x, const dtr_event *e)
{
    const dtr_event_pin *f = &e->u.pin_;
    struct tensor *t = tensor_of(x, e, f->tensor);
    struct storage *s =
        t && t->introduced && t->storage != DTR_NONE ? storage_of(x, e, t->storage) : NULL;
    if (f->change != 1 && f->change != -1 && f->change != 2)
        FOUND(x, CODE, e, "%" PRId64 " is no change of a pin", f->change);
    if (!s)
        return;
    if (f->change == 2) {
        s->constant = t->constant = true;
        return;
    }
    if (f->change == -1 && s->locks == 0 && all_seen(x))
        FOUND(x, PIN, e, "tensor %" PRId64 " is unpinned and was not pinned", f->tensor);
    if (f->change == 1 && is_known(x, s) && !s->resident)
        FOUND(x, NOT_RESIDENT, e, "tensor %" PRId64 " is pinned and not resident", f->tensor);
    s->locks += f->change == 1 ? 1 : s->locks > 0 ? -1 : 0;
    if (s->epoch != x->epoch && f->change == 1) {
        s->resident = true;
        s->epoch = x->epoch;
    }
}

static void on_out_of_memory(struct events *x, const dtr_event *e)
{
    const dtr_event_out_of_memory *f = &e->u.out_of_memory_;
    if (f->op != DTR_NONE)
        op_of(x, e, f->op);
    if (x->in_use != UNKNOWN && f->in_use != DTR_NONE && f->in_use != x->in_use)
        FOUND(x, IN_USE, e, "%" PRId64 " bytes are in use and the event says %" PRId64, x->in_use,
              f->in_use);
    if (x->budget != UNKNOWN && f->budget != x->budget)
        FOUND(x, BUDGET, e, "the budget is %" PRId64 " and the event says %" PRId64, x->budget,
              f->budget);
    x->overshoots += f->overshoot == 1;
}

static void on_mark(struct events *x, const dtr_event *e)
{
    const dtr_event_mark *f = &e->u.mark_;
    if (f->mark < DTR_MARK_ITERATION || f->mark > DTR_MARK_END)
        FOUND(x, CODE, e, "%" PRId64 " is no mark", f->mark);
    x->end_mark = x->end_mark || f->mark == DTR_MARK_END;
    if (f->mark == DTR_MARK_RANGE_BEGIN)
        x->depth_of_ranges++;
    if (f->mark != DTR_MARK_RANGE_END)
        return;
    if (x->depth_of_ranges == 0 && all_seen(x))
        FOUND(x, RANGE, e, "a range ends that did not begin");
    x->depth_of_ranges -= x->depth_of_ranges > 0;
}

static void on_overhead(struct events *x, const dtr_event *e)
{
    const dtr_event_overhead *f = &e->u.overhead_;
    if (f->part < DTR_OVERHEAD_SEARCH || f->part > DTR_OVERHEAD_RECORDING)
        FOUND(x, CODE, e, "%" PRId64 " is no part of the overhead", f->part);
    if (f->dur_ns < 0 || f->count < 0)
        FOUND(x, DURATION, e, "an overhead of %" PRId64 " ns, %" PRId64 " times", f->dur_ns,
              f->count);
}

static void on_signature(struct events *x, const dtr_event *e)
{
    op_of(x, e, e->u.signature_.op);
}

static void on_allocator(struct events *x, const dtr_event *e)
{
    const dtr_event_allocator *f = &e->u.allocator_;
    if (f->in_use < 0 || f->peak < f->in_use)
        FOUND(x, IN_USE, e, "the allocator holds %" PRId64 " bytes and at most held %" PRId64,
              f->in_use, f->peak);
    if (x->in_use != UNKNOWN && f->counted != x->in_use)
        FOUND(x, IN_USE, e, "%" PRId64 " bytes are in use and the event says %" PRId64, x->in_use,
              f->counted);
}

static void on_barrier(struct events *x, const dtr_event *e)
{
    const dtr_event_barrier *f = &e->u.barrier_;
    if (f->dur_ns < 0 || f->tensors < 0 || f->replays < 0)
        FOUND(x, DURATION, e,
              "a barrier of %" PRId64 " ns, %" PRId64 " tensors and %" PRId64 " replays", f->dur_ns,
              f->tensors, f->replays);
}

static void on_hazard(struct events *x, const dtr_event *e)
{
    if (e->u.hazard_.tensor != DTR_NONE)
        tensor_of(x, e, e->u.hazard_.tensor);
}

static void check_names(struct events *x, const dtr_event *e)
{
    const dtr_event_info *info = dtr_event_info_of(e->kind);
    for (int i = 0; i < info->n_fields; i++) {
        int64_t id = e->u.raw[i];
        if (info->fields[i].unit != DTR_UNIT_NAME || id == DTR_NONE)
            continue;
        if (!dtri_id_find(&x->names, id)) {
            FOUND(x, NAME, e, "name %" PRId64 " has no text", id);
            get(x, &x->names, id); /* told once */
        }
    }
}

static void dispatch(struct events *x, const dtr_event *e)
{
    switch ((dtr_event_kind)e->kind) {
    case DTR_EVENT_STORAGE:
        on_storage(x, e);
        break;
    case DTR_EVENT_TENSOR:
        on_tensor(x, e);
        break;
    case DTR_EVENT_OPERATOR:
        on_operator(x, e);
        break;
    case DTR_EVENT_OPERAND:
        on_operand(x, e);
        break;
    case DTR_EVENT_OPERATOR_RUN:
        on_run(x, e);
        break;
    case DTR_EVENT_CHAIN:
        on_chain(x, e);
        break;
    case DTR_EVENT_ALLOCATION:
        on_allocation(x, e);
        break;
    case DTR_EVENT_FREEING:
        on_freeing(x, e);
        break;
    case DTR_EVENT_EVICTION:
        on_eviction(x, e);
        break;
    case DTR_EVENT_DECISION:
        on_decision(x, e);
        break;
    case DTR_EVENT_CANDIDATE:
        on_candidate(x, e);
        break;
    case DTR_EVENT_REFERENCE:
        on_reference(x, e);
        break;
    case DTR_EVENT_PIN:
        on_pin(x, e);
        break;
    case DTR_EVENT_BUDGET:
        x->budget = e->u.budget_.budget;
        break;
    case DTR_EVENT_OUT_OF_MEMORY:
        on_out_of_memory(x, e);
        break;
    case DTR_EVENT_MARK:
        on_mark(x, e);
        break;
    case DTR_EVENT_OVERHEAD:
        on_overhead(x, e);
        break;
    case DTR_EVENT_FRAME:
        on_frame(x, e);
        break;
    case DTR_EVENT_ORIGIN:
        on_origin(x, e);
        break;
    case DTR_EVENT_SIGNATURE:
        on_signature(x, e);
        break;
    case DTR_EVENT_ALLOCATOR:
        on_allocator(x, e);
        break;
    case DTR_EVENT_BARRIER:
        on_barrier(x, e);
        break;
    case DTR_EVENT_HAZARD:
        on_hazard(x, e);
        break;
    }
}

/* --- the whole run ---------------------------------------------------------------------------- */

static bool is_span(int64_t kind)
{
    return kind == DTR_EVENT_OPERATOR_RUN || kind == DTR_EVENT_CHAIN || kind == DTR_EVENT_BARRIER;
}

/* Numbers rise one by one; where they do not, something is missing. */
static void check_order(struct events *x, const dtr_event *e)
{
    if (x->n == 0) {
        x->epoch = 1;
        x->whole_from_start = e->seq == 0;
        x->missing += e->seq > 0 ? e->seq : 0;
    } else if (e->seq <= x->last_seq) {
        FOUND(x, SEQ, e, "event %" PRId64 " comes after event %" PRId64, e->seq, x->last_seq);
    } else if (e->seq != x->last_seq + 1) {
        if (x->complete)
            FOUND(x, GAP, e, "events %" PRId64 " to %" PRId64 " are missing", x->last_seq + 1,
                  e->seq - 1);
        x->missing += e->seq - x->last_seq - 1;
        x->epoch++;
        x->in_use = x->budget = x->decision = UNKNOWN;
    }
    if (x->n && !is_span(e->kind)) {
        if (e->ts_ns < x->last_ts && !x->imported)
            FOUND(x, TIME, e, "%" PRId64 " ns earlier than the event before",
                  x->last_ts - e->ts_ns);
        x->last_ts = e->ts_ns;
    } else if (!is_span(e->kind)) {
        x->last_ts = e->ts_ns;
    }
    x->last_seq = e->seq;
    x->n++;
}

static void check_total(struct events *x, const char *what, int64_t said, int64_t found)
{
    if (said != DTRI_NULL && said != found)
        FOUND(x, COUNTS, NULL, "the run says %" PRId64 " %s, its events have %" PRId64, said, what,
              found);
}

static void check_totals(struct events *x)
{
    const struct dtri_run *run = x->run;
    check_total(x, "evictions", run->evictions, x->evictions);
    check_total(x, "eager evictions", run->eager_evictions, x->eager);
    check_total(x, "replays", run->rematerializations, x->replays);
    check_total(x, "operator runs", run->operator_runs, x->runs);
    check_total(x, "overshoots", run->overshoots, x->overshoots);
    check_total(x, "ns of first runs", run->model_compute_ns, x->first_cost);
    check_total(x, "ns of replays", run->remat_compute_ns, x->replay_cost);
    check_total(x, "scores", run->score_evaluations, x->evaluations);
    if (run->peak_bytes != DTRI_NULL && run->peak_bytes != x->peak)
        FOUND(x, PEAK, NULL, "the run says a peak of %" PRId64 " bytes, its events have %" PRId64,
              run->peak_bytes, x->peak);
    if (strcmp(run->kind, "live") == 0 && strcmp(run->result, "ok") == 0 && !x->end_mark)
        FOUND(x, END, NULL, "the run ended as it should and has no end mark");
}

static dtr_status finish(struct events *x, const struct dtri_completeness *complete)
{
    bool ended = strcmp(x->run->result, "running") != 0 && strcmp(x->run->result, "killed") != 0;
    int64_t declared = complete->lost + complete->overwritten + complete->skipped;
    if (x->missing > declared && !complete->unknown && strcmp(x->run->result, "running") != 0)
        FOUND(x, LOSSES, NULL, "%" PRId64 " events are missing and the losses add up to %" PRId64,
              x->missing, declared);
    if (x->complete && ended && x->epoch <= 1)
        check_totals(x);
    return DTR_OK;
}

/* --- windows ---------------------------------------------------------------------------------- */

static dtr_status load_windows(struct events *x, dtr_error *error)
{
    sqlite3_stmt *rows = NULL;
    sqlite3 *db = dtri_store_db(x->check->store);
    int code = sqlite3_prepare_v2(db,
                                  "SELECT begin_ts_ns, coalesce(end_ts_ns, 9223372036854775807) "
                                  "FROM recording_window WHERE run = ?1 ORDER BY begin_ts_ns",
                                  -1, &rows, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(rows, 1, x->run->id);
        while ((code = sqlite3_step(rows)) == SQLITE_ROW) {
            if (!DTRI_RESERVE(x->windows, x->cap_windows, x->n_windows + 1))
                break;
            x->windows[x->n_windows++] =
                (struct window){sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1)};
        }
    }
    sqlite3_finalize(rows);
    if (code == SQLITE_ROW)
        return dtri_fail_nomem(error, "the check");
    return code == SQLITE_DONE ? DTR_OK
                               : dtri_fail(error, DTR_E_FORMAT, 0, "%s: %s",
                                           dtri_store_path(x->check->store), sqlite3_errmsg(db));
}

/* What says what things are is recorded also between the windows. */
static bool is_definition(int64_t kind)
{
    const uint64_t kinds = DTRI_KIND_BIT(DTR_EVENT_STORAGE) | DTRI_KIND_BIT(DTR_EVENT_TENSOR) |
                           DTRI_KIND_BIT(DTR_EVENT_OPERATOR) | DTRI_KIND_BIT(DTR_EVENT_OPERAND) |
                           DTRI_KIND_BIT(DTR_EVENT_BUDGET) | DTRI_KIND_BIT(DTR_EVENT_FRAME) |
                           DTRI_KIND_BIT(DTR_EVENT_ORIGIN) | DTRI_KIND_BIT(DTR_EVENT_PIN) |
                           DTRI_KIND_BIT(DTR_EVENT_SIGNATURE);
    return kinds & DTRI_KIND_BIT(kind);
}

static void check_window(struct events *x, const dtr_event *e)
{
    if (!x->n_windows || is_span(e->kind) || is_definition(e->kind))
        return;
    size_t low = 0, high = x->n_windows; /* the last window that begins by then */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (x->windows[middle].begin <= e->ts_ns)
            low = middle;
        else
            high = middle;
    }
    if (e->ts_ns < x->windows[low].begin || e->ts_ns > x->windows[low].end)
        FOUND(x, WINDOW, e, "the event lies in no recording window");
}

static dtr_status load_names(struct events *x, dtr_error *error)
{
    sqlite3_stmt *names = NULL;
    sqlite3 *db = dtri_store_db(x->check->store);
    int code = sqlite3_prepare_v2(db, "SELECT id FROM name WHERE run = ?1", -1, &names, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(names, 1, x->run->id);
        while ((code = sqlite3_step(names)) == SQLITE_ROW)
            get(x, &x->names, sqlite3_column_int64(names, 0));
    }
    sqlite3_finalize(names);
    return code == SQLITE_DONE ? DTR_OK
                               : dtri_fail(error, DTR_E_FORMAT, 0, "%s: %s",
                                           dtri_store_path(x->check->store), sqlite3_errmsg(db));
}

static dtr_status go_through(struct events *x, dtr_error *error)
{
    struct dtri_stream_options options = {x->run->id, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX};
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_status status = dtri_stream_open(x->check->store, &options, &stream, error);
    if (status != DTR_OK)
        return status;
    while ((status = dtri_stream_next(stream, &event, error)) == DTR_OK && event) {
        check_order(x, event);
        check_window(x, event);
        check_names(x, event);
        dispatch(x, event);
        if (x->no_memory) {
            status = dtri_fail_nomem(error, "the check");
            break;
        }
    }
    dtri_stream_free(stream);
    return status;
}

dtr_status dtri_check_events(struct dtri_check *check, const struct dtri_run *run, dtr_error *error)
{
    struct dtri_completeness complete;
    struct events x = {
        .check = check,
        .run = run,
        .storages.value_size = sizeof(struct storage),
        .tensors.value_size = sizeof(struct tensor),
        .ops.value_size = sizeof(struct op),
        .operands.value_size = sizeof(struct operand),
        .chains.value_size = sizeof(struct chain),
        .frames.value_size = 1,
        .names.value_size = 1,
        .decisions.value_size = 1,
        .in_use = UNKNOWN,
        .budget = UNKNOWN,
        .decision = UNKNOWN,
    };
    dtr_status status = dtri_store_completeness(check->store, run->id, &complete, error);
    /* Of a run that nobody ended, nobody has told the losses either. */
    bool told = strcmp(run->result, "running") != 0;
    x.complete = told && dtri_is_complete(&complete);
    x.imported = strcmp(run->kind, "import") == 0;
    if (status == DTR_OK)
        status = load_windows(&x, error);
    if (status == DTR_OK)
        status = load_names(&x, error);
    if (status == DTR_OK)
        status = go_through(&x, error);
    if (status == DTR_OK)
        status = finish(&x, &complete);
    struct dtri_id_map *maps[] = {&x.storages, &x.tensors, &x.ops,   &x.operands,
                                  &x.chains,   &x.frames,  &x.names, &x.decisions};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        dtri_id_map_done(maps[i]);
    dtri_free(x.windows);
    return status;
}
