/* The replay loop.  A trace was checked when it was read, so a step that the runtime refuses is a
 * bug, except for running out of a limit. */
#include "sim/sim.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct replay {
    const struct dtri_trace *trace;
    const struct dtri_sim_options *options;
    dtr_runtime *runtime;
    dtr_tensor *tensors; /* handles by trace number */
    dtr_tensor *inputs;  /* of the call at hand */
    dtr_output *outputs;
    int64_t *names; /* NAME ids by trace number, only while recording */
    size_t cap_inputs, cap_outputs;
};

const char *dtri_outcome_name(enum dtri_outcome outcome)
{
    static const char *const names[] = {"ok", "out_of_memory", "thrashed"};
    return names[outcome];
}

static dtr_status call(struct replay *r, const struct dtri_trace_op *op, dtr_error *error)
{
    const struct dtri_trace *t = r->trace;
    if (!DTRI_RESERVE(r->inputs, r->cap_inputs, op->n_inputs) ||
        !DTRI_RESERVE(r->outputs, r->cap_outputs, op->n_outputs))
        return dtri_fail_nomem(error, "a simulated operator");
    for (uint32_t i = 0; i < op->n_inputs; i++)
        r->inputs[i] = r->tensors[t->inputs[op->first_input + i]];
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        const struct dtri_trace_tensor *tensor = &t->tensors[op->first_output + i];
        r->outputs[i] = (dtr_output){.bytes = tensor->bytes, .view_of = tensor->view_of};
    }
    dtr_call request = {
        .name = r->names ? r->names[op->name] : DTR_NONE,
        .cost_ns = op->cost_ns,
        .mutates = op->mutates,
        .n_inputs = (int)op->n_inputs,
        .n_outputs = (int)op->n_outputs,
        .inputs = r->inputs,
        .outputs = r->outputs,
    };
    return dtr_run(r->runtime, &request, &r->tensors[op->first_output], error);
}

static void mark(struct replay *r, const struct dtri_trace_mark *m)
{
    int64_t name = m->name != DTR_NONE && r->names ? r->names[m->name] : DTR_NONE;
    dtr_mark_emit(r->runtime, m->mark, name, m->value);
}

static dtr_status step(struct replay *r, const struct dtri_trace_step *s, dtr_error *error)
{
    const struct dtri_trace *t = r->trace;
    switch ((enum dtri_step_kind)s->kind) {
    case DTRI_STEP_CONSTANT:
        return dtr_constant(r->runtime, t->tensors[s->arg].bytes, &r->tensors[s->arg], NULL, error);
    case DTRI_STEP_CALL:
        return call(r, &t->ops[s->arg], error);
    case DTRI_STEP_RETAIN:
        return dtr_retain(r->runtime, r->tensors[s->arg]);
    case DTRI_STEP_RELEASE:
        return r->options->no_release ? DTR_OK : dtr_release(r->runtime, r->tensors[s->arg]);
    case DTRI_STEP_PIN:
        return dtr_pin(r->runtime, r->tensors[s->arg], NULL, error);
    case DTRI_STEP_UNPIN:
        return dtr_unpin(r->runtime, r->tensors[s->arg]);
    case DTRI_STEP_REQUIRE:
        return dtr_require(r->runtime, r->tensors[s->arg], error);
    case DTRI_STEP_MAKE_CONSTANT:
        return dtr_make_constant(r->runtime, r->tensors[s->arg], error);
    case DTRI_STEP_MARK:
        mark(r, &t->marks[s->arg]);
        return DTR_OK;
    }
    return dtri_fail(error, DTR_E_FORMAT, 0, "%s: unknown step %u", t->source, s->kind);
}

/* All steps, then the output condition: what the program holds has to be there at the end. */
static dtr_status replay(struct replay *r, dtr_error *error)
{
    const struct dtri_trace *t = r->trace;
    dtr_status status = DTR_OK;
    for (size_t i = 0; i < t->n_steps && status == DTR_OK; i++)
        status = step(r, &t->steps[i], error);
    for (size_t i = 0; i < t->n_outputs && status == DTR_OK; i++)
        status = dtr_pin(r->runtime, r->tensors[t->outputs[i]], NULL, error);
    return status;
}

static dtr_status make_names(struct replay *r, dtr_error *error)
{
    r->names = dtri_malloc(r->trace->n_names * sizeof *r->names);
    if (!r->names)
        return dtri_fail_nomem(error, "names of a simulation");
    for (size_t i = 0; i < r->trace->n_names; i++) {
        r->names[i] = dtr_runtime_name(r->runtime, r->trace->names[i]);
        if (r->names[i] == DTR_NONE)
            return dtri_fail_nomem(error, "names of a simulation");
    }
    return DTR_OK;
}

static dtr_status make_runtime(const struct dtri_trace *trace,
                               const struct dtri_sim_options *options, dtr_runtime **out_runtime,
                               dtr_error *error)
{
    dtr_runtime_options runtime;
    dtr_selector *selector = NULL;
    dtr_runtime_options_init(&runtime);
    if (options->heuristic) {
        dtr_selector_options choice = {options->heuristic, options->search, options->seed};
        dtr_status status = dtr_selector_new(&choice, &selector, error);
        if (status != DTR_OK)
            return status;
    }
    runtime.backend = dtr_backend_virtual();
    runtime.sink = options->sink;
    runtime.selector = selector;
    runtime.budget_bytes = options->budget_bytes;
    runtime.deallocation = options->deallocation;
    runtime.remat_limit_ns = options->remat_limit_ns;
    runtime.reclaim = (trace->live || options->reclaim) && !options->no_release;
    return dtr_runtime_new(&runtime, out_runtime, error);
}

static dtr_status outcome_of(dtr_status status, struct dtri_sim_result *result, dtr_error *why,
                             dtr_error *error)
{
    if (status == DTR_OK)
        result->outcome = DTRI_OUTCOME_OK;
    else if (status == DTR_E_OUT_OF_MEMORY)
        result->outcome = DTRI_OUTCOME_OUT_OF_MEMORY;
    else if (status == DTR_E_THRASHED)
        result->outcome = DTRI_OUTCOME_THRASHED;
    else
        return dtri_fail(error, status, why->foreign, "%s",
                         why->text[0] ? why->text : dtr_status_text(status));
    memcpy(result->why, why->text, sizeof result->why);
    return DTR_OK;
}

dtr_status dtri_sim_run(const struct dtri_trace *trace, const struct dtri_sim_options *options,
                        struct dtri_sim_result *out_result, dtr_error *error)
{
    struct replay r = {.trace = trace, .options = options};
    struct dtri_sim_result result = {0};
    dtr_error why = {0};
    dtr_status status = make_runtime(trace, options, &r.runtime, error);
    if (status != DTR_OK)
        return status;
    r.tensors = dtri_malloc(trace->n_tensors * sizeof *r.tensors);
    if (!r.tensors)
        status = dtri_fail_nomem(error, "the tensors of a simulation");
    else if (options->sink)
        status = make_names(&r, error);
    if (status == DTR_OK) {
        status = outcome_of(replay(&r, &why), &result, &why, error);
        dtr_runtime_stats(r.runtime, &result.stats);
        int64_t model = result.stats.model_compute_ns;
        result.slowdown =
            model > 0 ? (double)(model + result.stats.remat_compute_ns) / (double)model : 1.0;
    }
    dtr_runtime_free(r.runtime);
    dtri_free(r.tensors);
    dtri_free(r.inputs);
    dtri_free(r.outputs);
    dtri_free(r.names);
    if (status == DTR_OK)
        *out_result = result;
    return status;
}

dtr_status dtri_sim_unlimited_peak(const struct dtri_trace *trace, int64_t *out_bytes,
                                   dtr_error *error)
{
    struct dtri_sim_options options = {
        .budget_bytes = DTR_NONE,
        .deallocation = trace->live ? DTR_DEALLOCATE_EAGER : DTR_DEALLOCATE_BANISH,
        .remat_limit_ns = DTR_NONE,
    };
    struct dtri_sim_result result;
    dtr_status status = dtri_sim_run(trace, &options, &result, error);
    if (status == DTR_OK)
        *out_bytes = result.stats.peak_bytes;
    return status;
}
