/* Random programs over tensors, and a device that watches what it is asked to do.
 *
 * A program is data, made from a seed before anything runs: its steps name tensors by the number of
 * a variable, so the same program can be run on several runtimes, or again with a fault at another
 * place.  A step whose variables were never made (because an earlier step failed) reaches the
 * runtime with a handle of 0 and has to be refused.
 *
 * The device keeps one number a block: an output's is a hash of the operator and of its inputs'
 * numbers.  A replay that reads a wrong, stale or freed block gives another number than the first
 * run did, which the device counts in `wrong`. */
#ifndef DTR_TESTS_PROGRAM_H
#define DTR_TESTS_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/rng.h"
#include "dtr/runtime.h"

#define MAX_INPUTS  4
#define MAX_OUTPUTS 3

enum step_kind {
    STEP_CONSTANT,
    STEP_CALL,
    STEP_RETAIN,
    STEP_RELEASE,
    STEP_REQUIRE,
    STEP_PIN,
    STEP_UNPIN,
    STEP_EVICT,
    STEP_MAKE_CONSTANT,
    STEP_BUDGET,
};

struct step {
    enum step_kind kind;
    int var; /* the tensor; of a call, its first output */
    int n_inputs, n_outputs;
    int inputs[MAX_INPUTS];
    dtr_output outputs[MAX_OUTPUTS];
    int64_t cost;
    bool cost_known; /* else the device tells it after the first run */
    bool mutates;
    int percent; /* of the program's own budget, for STEP_BUDGET */
};

struct program {
    struct step *steps;
    int n, cap;
    int n_vars;
};

/* What kind of program: chances in percent, and where sizes and costs are drawn from. */
struct shape {
    int n_calls;
    int constant, release, retain, require, pin, unpin, evict, make_constant, budget; /* per call */
    int view, several, unknown_cost, mutates;
    int recent;       /* chance that an input is one of the last few tensors */
    int use_released; /* chance that an input is any tensor ever made, held or not */
    const int64_t *sizes, *costs;
    int n_sizes, n_costs;
};

/* --- making one ------------------------------------------------------------------------------- */

struct maker {
    struct dtri_rng rng;
    struct program *program;
    const struct shape *shape;
    int *held;   /* variables with a reference, oldest first */
    int *pinned; /* variables pinned by the program */
    int n_held, n_pinned;
};

static inline int64_t below(struct maker *m, int64_t n)
{
    return (int64_t)dtri_rng_below(&m->rng, (uint64_t)n);
}

static inline bool chance(struct maker *m, int percent)
{
    return below(m, 100) < percent;
}

static inline struct step *add_step(struct maker *m, enum step_kind kind, int var)
{
    struct program *p = m->program;
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->steps = realloc(p->steps, (size_t)p->cap * sizeof *p->steps);
        if (!p->steps)
            abort();
    }
    p->steps[p->n] = (struct step){.kind = kind, .var = var};
    return &p->steps[p->n++];
}

static inline int any_held(struct maker *m)
{
    return m->held[below(m, m->n_held)];
}

static inline int any_input(struct maker *m)
{
    if (chance(m, m->shape->use_released))
        return (int)below(m, m->program->n_vars);
    if (chance(m, m->shape->recent))
        return m->held[m->n_held - 1 - below(m, m->n_held < 4 ? m->n_held : 4)];
    return any_held(m);
}

static inline void add_constant(struct maker *m)
{
    struct step *s = add_step(m, STEP_CONSTANT, m->program->n_vars);
    s->n_outputs = 1;
    s->outputs[0] = (dtr_output){m->shape->sizes[below(m, m->shape->n_sizes)], -1};
    m->held[m->n_held++] = m->program->n_vars++;
}

static inline void add_call(struct maker *m)
{
    const struct shape *shape = m->shape;
    struct step *s = add_step(m, STEP_CALL, m->program->n_vars);
    s->n_inputs = m->n_held ? (int)below(m, MAX_INPUTS) + (below(m, 8) != 0) : 0;
    if (s->n_inputs > MAX_INPUTS)
        s->n_inputs = MAX_INPUTS;
    s->n_outputs = chance(m, shape->several) ? 2 + (int)below(m, MAX_OUTPUTS - 1) : 1;
    s->cost = shape->costs[below(m, shape->n_costs)];
    s->cost_known = !chance(m, shape->unknown_cost);
    s->mutates = chance(m, shape->mutates);
    for (int i = 0; i < s->n_inputs; i++)
        s->inputs[i] = any_input(m);
    for (int i = 0; i < s->n_outputs; i++) {
        bool view = s->n_inputs && chance(m, shape->view);
        s->outputs[i].view_of = view ? (int)below(m, s->n_inputs) : -1;
        s->outputs[i].bytes = view ? 0 : shape->sizes[below(m, shape->n_sizes)];
        m->held[m->n_held++] = m->program->n_vars++;
    }
}

static inline void add_release(struct maker *m)
{
    int at = (int)below(m, m->n_held);
    add_step(m, STEP_RELEASE, m->held[at]);
    for (m->n_held--; at < m->n_held; at++)
        m->held[at] = m->held[at + 1];
}

static inline void add_unpin(struct maker *m)
{
    int at = (int)below(m, m->n_pinned);
    add_step(m, STEP_UNPIN, m->pinned[at]);
    m->pinned[at] = m->pinned[--m->n_pinned];
}

/* What a program does between two calls. */
static inline void add_others(struct maker *m)
{
    const struct shape *shape = m->shape;
    if (chance(m, shape->constant))
        add_constant(m);
    if (m->n_held > 1 && chance(m, shape->release))
        add_release(m);
    if (m->n_pinned && chance(m, shape->unpin))
        add_unpin(m);
    if (!m->n_held)
        return;
    if (chance(m, shape->retain)) {
        int var = any_held(m);
        add_step(m, STEP_RETAIN, var);
        m->held[m->n_held++] = var;
    }
    if (chance(m, shape->require))
        add_step(m, STEP_REQUIRE, any_held(m));
    if (m->n_pinned < 3 && chance(m, shape->pin)) {
        m->pinned[m->n_pinned++] = any_held(m);
        add_step(m, STEP_PIN, m->pinned[m->n_pinned - 1]);
    }
    if (chance(m, shape->evict))
        add_step(m, STEP_EVICT, any_held(m));
    if (chance(m, shape->make_constant))
        add_step(m, STEP_MAKE_CONSTANT, any_held(m));
    if (chance(m, shape->budget))
        add_step(m, STEP_BUDGET, 0)->percent = 70 + (int)below(m, 80);
}

static inline void program_make(struct program *program, const struct shape *shape, uint64_t seed)
{
    struct maker m = {.program = program, .shape = shape};
    size_t most = (size_t)shape->n_calls * (MAX_OUTPUTS + 2) + 4;
    *program = (struct program){0};
    dtri_rng_seed(&m.rng, seed);
    m.held = malloc(most * sizeof *m.held);
    m.pinned = malloc(4 * sizeof *m.pinned);
    if (!m.held || !m.pinned)
        abort();
    add_constant(&m);
    for (int i = 0; i < shape->n_calls; i++) {
        add_call(&m);
        add_others(&m);
    }
    while (m.n_pinned)
        add_unpin(&m);
    while (m.n_held)
        add_release(&m);
    free(m.held);
    free(m.pinned);
}

static inline void program_free(struct program *program)
{
    free(program->steps);
}

/* --- the device ------------------------------------------------------------------------------- */

struct block {
    uint64_t value;
    int64_t bytes;
};

struct device {
    const struct program *program;
    uint64_t (*first)[MAX_OUTPUTS]; /* by step: what its first run gave */
    bool *ran;                      /* by step */
    int64_t n_blocks, bytes;        /* that the runtime has not given back */
    int64_t runs, run_limit;        /* fails above the limit: programs can take exponential time */
    int64_t calls, fail_at;         /* of alloc and run together, from 0; fail_at -1: none fails */
    bool fail_for_ever;             /* all calls from fail_at on */
    int64_t wrong; /* operators whose replay differed, or that got wrong pointers */
};

static inline bool device_fails(struct device *d)
{
    int64_t call = d->calls++;
    return d->fail_at >= 0 && (call == d->fail_at || (d->fail_for_ever && call > d->fail_at));
}

static inline dtr_status device_alloc(void *self, int64_t bytes, void **out_data, dtr_error *error)
{
    struct device *d = self;
    if (device_fails(d)) {
        if (error)
            error->text[0] = 0;
        return DTR_E_NOMEM;
    }
    struct block *block = malloc(sizeof *block);
    if (!block)
        abort();
    *block = (struct block){.bytes = bytes};
    d->n_blocks++;
    d->bytes += bytes;
    *out_data = block;
    return DTR_OK;
}

static inline void device_free(void *self, void *data, int64_t bytes)
{
    struct device *d = self;
    struct block *block = data;
    d->wrong += block->bytes != bytes;
    d->n_blocks--;
    d->bytes -= bytes;
    block->value = UINT64_C(0xdeadbeefdeadbeef);
    free(block);
}

static inline uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static inline uint64_t output_value(const dtr_op_call *call, int step, int output)
{
    uint64_t hash = mix((uint64_t)step, (uint64_t)output);
    for (int i = 0; i < call->n_inputs; i++)
        hash = mix(hash, ((const struct block *)call->inputs[i])->value);
    return hash;
}

static inline void device_compute(struct device *d, const dtr_op_call *call, int step)
{
    const struct step *s = &d->program->steps[step];
    for (int i = 0; i < call->n_outputs; i++) {
        int base = s->outputs[i].view_of;
        if (base >= 0) {
            d->wrong += call->outputs[i] != call->inputs[base];
            continue;
        }
        uint64_t value = output_value(call, step, i);
        ((struct block *)call->outputs[i])->value = value;
        if (d->ran[step])
            d->wrong += value != d->first[step][i];
        d->first[step][i] = value;
    }
}

static inline dtr_status device_run(void *self, const dtr_op_call *call, int64_t *out_cost_ns,
                                    dtr_error *error)
{
    struct device *d = self;
    const struct step *s = call->payload;
    int step = (int)(s - d->program->steps);
    if (device_fails(d) || (d->run_limit && d->runs >= d->run_limit)) {
        if (error)
            error->text[0] = 0;
        return DTR_E_BACKEND;
    }
    d->runs++;
    d->wrong += call->n_outputs != s->n_outputs || call->n_inputs != s->n_inputs;
    d->wrong += call->replay != d->ran[step];
    if (call->outputs)
        device_compute(d, call, step);
    d->ran[step] = true;
    *out_cost_ns = s->cost;
    return DTR_OK;
}

static inline void device_init(struct device *d, const struct program *program)
{
    *d = (struct device){.program = program, .fail_at = -1};
    d->first = calloc((size_t)program->n, sizeof *d->first);
    d->ran = calloc((size_t)program->n, sizeof *d->ran);
    if (!d->first || !d->ran)
        abort();
}

static inline void device_done(struct device *d)
{
    free(d->first);
    free(d->ran);
}

/* With blocks, or, as the simulator does, without. */
static inline dtr_backend device_backend(struct device *d, bool with_blocks)
{
    return (dtr_backend){
        .self = d,
        .alloc = with_blocks ? device_alloc : NULL,
        .free = with_blocks ? device_free : NULL,
        .run = device_run,
    };
}

/* --- running one ------------------------------------------------------------------------------ */

static int64_t payloads_held; /* handed to runtimes and not given back */

static inline void payload_free(void *payload)
{
    (void)payload;
    payloads_held--;
}

struct machine {
    dtr_runtime *runtime;
    dtr_tensor *handles; /* by variable */
    bool banishes;       /* what it leaves behind stays pinned */
    int64_t budget;      /* that STEP_BUDGET takes shares of; DTR_NONE: such steps do nothing */
};

static inline dtr_status do_call(struct machine *m, const struct step *s, dtr_error *error)
{
    dtr_tensor inputs[MAX_INPUTS] = {0};
    for (int i = 0; i < s->n_inputs; i++)
        inputs[i] = m->handles[s->inputs[i]];
    dtr_call call = {
        .name = DTR_NONE,
        .cost_ns = s->cost_known ? s->cost : DTR_NONE,
        .payload = (void *)s,
        .payload_free = payload_free,
        .mutates = s->mutates,
        .n_inputs = s->n_inputs,
        .n_outputs = s->n_outputs,
        .inputs = inputs,
        .outputs = s->outputs,
    };
    payloads_held++;
    return dtr_run(m->runtime, &call, &m->handles[s->var], error);
}

static inline dtr_status do_constant(struct machine *m, const struct step *s, dtr_error *error)
{
    struct block *block = NULL;
    dtr_status status =
        dtr_constant(m->runtime, s->outputs[0].bytes, &m->handles[s->var], (void **)&block, error);
    if (status == DTR_OK && block)
        block->value = mix(UINT64_C(0xc0ffee), (uint64_t)s->var);
    return status;
}

static inline dtr_status do_step(struct machine *m, const struct step *s, dtr_error *error)
{
    dtr_tensor tensor = m->handles[s->var];
    switch (s->kind) {
    case STEP_CONSTANT:
        return do_constant(m, s, error);
    case STEP_CALL:
        return do_call(m, s, error);
    case STEP_RETAIN:
        return dtr_retain(m->runtime, tensor);
    case STEP_RELEASE:
        return dtr_release(m->runtime, tensor);
    case STEP_REQUIRE:
        return dtr_require(m->runtime, tensor, error);
    case STEP_PIN:
        return dtr_pin(m->runtime, tensor, NULL, error);
    case STEP_UNPIN:
        return dtr_unpin(m->runtime, tensor);
    case STEP_EVICT:
        return dtr_evict(m->runtime, tensor);
    case STEP_MAKE_CONSTANT:
        return dtr_make_constant(m->runtime, tensor, error);
    case STEP_BUDGET:
        return m->budget == DTR_NONE
                   ? DTR_OK
                   : dtr_set_budget(m->runtime, m->budget * s->percent / 100 + 1, error);
    }
    return DTR_E_INVALID;
}

#endif
