/* Opening and closing, errors, scopes, steps, parameters.
 *
 * The engine owns its parts in this order: backend, session (with the runtime), arrays, nodes; they
 * are freed in the opposite one.  Scope 0 is the engine's own and is never left. */
#include "engine/engine.h"

#include <cblas.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"

/* --- errors ----------------------------------------------------------------------------------- */

void dtri_engine_fail(dtr_engine *e, dtr_status status, const char *format, ...)
{
    va_list args;
    if (!dtri_engine_ok(e))
        return;
    e->error = (dtr_error){.status = status};
    va_start(args, format);
    vsnprintf(e->error.text, sizeof e->error.text, format, args);
    va_end(args);
}

void dtri_engine_fail_with(dtr_engine *e, const dtr_error *error)
{
    if (dtri_engine_ok(e))
        e->error = *error;
}

dtr_status dtr_engine_status(const dtr_engine *e, dtr_error *out_error)
{
    if (out_error && !dtri_engine_ok(e))
        *out_error = e->error;
    return e->error.status;
}

/* --- opening and closing ---------------------------------------------------------------------- */

void dtr_engine_options_init(dtr_engine_options *options)
{
    *options = (dtr_engine_options){.size = sizeof *options, .seed = 1};
}

static dtr_status open_parts(dtr_engine *e, const dtr_engine_options *options, dtr_error *error)
{
    dtr_backend_cpu_options cpu;
    dtr_session_options session;
    dtr_backend_cpu_options_init(&cpu);
    cpu.poison = options->poison;
    dtr_status status = dtr_backend_cpu_new(&cpu, &e->cpu, error);
    if (status != DTR_OK)
        return status;
    dtr_session_options_init(&session);
    session.backend = dtr_backend_cpu_backend(e->cpu);
    session.program = options->program;
    session.budget = options->budget;
    session.heuristic = options->heuristic;
    session.search = options->search;
    session.deallocation = options->deallocation;
    session.record = options->record;
    status = dtr_session_open(&session, &e->session, error);
    if (status != DTR_OK)
        return status;
    e->runtime = dtr_session_runtime(e->session);
    if (!DTRI_RESERVE(e->scopes, e->cap_scopes, 1))
        return dtri_fail_nomem(error, "a scope");
    e->scopes[0] = NULL;
    e->n_scopes = 1;
    return DTR_OK;
}

dtr_status dtr_engine_open(const dtr_engine_options *options, dtr_engine **out_engine,
                           dtr_error *error)
{
    dtr_engine_options defaults;
    dtr_engine_options_init(&defaults);
    if (!options)
        options = &defaults;
    if (options->size != sizeof *options)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "an engine needs options set up by dtr_engine_options_init");
    dtr_engine *e = dtri_calloc(1, sizeof *e);
    if (!e)
        return dtri_fail_nomem(error, "an engine");
    dtr_status status = open_parts(e, options, error);
    if (status != DTR_OK) {
        dtr_engine_close(e, NULL);
        return status;
    }
    openblas_set_num_threads(1); /* sums in the same order, whatever the machine */
    dtri_rng_seed(&e->rng, options->seed);
    e->taping = true;
    e->failed_array = (dtr_array){.engine = e};
    e->failed_optimizer = (dtr_optimizer){.engine = e};
    *out_engine = e;
    return DTR_OK;
}

dtr_status dtr_engine_close(dtr_engine *e, dtr_error *error)
{
    if (!e)
        return DTR_OK;
    while (e->n_scopes) {
        while (e->scopes[e->n_scopes - 1])
            dtri_array_free(e->scopes[e->n_scopes - 1]);
        e->n_scopes--;
    }
    while (e->optimizers) {
        dtr_optimizer *next = e->optimizers->next;
        dtri_free(e->optimizers->state);
        dtri_free(e->optimizers);
        e->optimizers = next;
    }
    if (e->session && !dtri_engine_ok(e))
        dtr_session_set_result(e->session, e->error.status, e->error.text);
    dtr_status status = dtr_session_close(e->session, NULL, error);
    dtr_backend_cpu_free(e->cpu);
    dtri_free(e->scopes);
    dtri_free(e->parameters);
    dtri_free(e);
    return status;
}

dtr_runtime *dtr_engine_runtime(dtr_engine *e)
{
    return e->runtime;
}

dtr_backend_cpu_counts dtr_engine_memory(const dtr_engine *e)
{
    return dtr_backend_cpu_counts_of(e->cpu);
}

/* --- scopes ----------------------------------------------------------------------------------- */

void dtr_scope_enter(dtr_engine *e)
{
    if (!DTRI_RESERVE(e->scopes, e->cap_scopes, e->n_scopes + 1)) {
        e->missing_scopes++;
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for a scope");
        return;
    }
    e->scopes[e->n_scopes++] = NULL;
}

dtr_array *dtr_scope_leave(dtr_engine *e, dtr_array *result)
{
    if (e->missing_scopes) {
        e->missing_scopes--;
        return result;
    }
    if (e->n_scopes == 1) {
        dtri_engine_fail(e, DTR_E_STATE, "a scope is left that was not entered");
        return dtri_failed(e);
    }
    int scope = (int)e->n_scopes - 1;
    if (result && result->tensor && result->scope == scope)
        dtri_array_move(result, scope - 1);
    while (e->scopes[scope])
        dtri_array_free(e->scopes[scope]);
    e->n_scopes--;
    return result;
}

void dtr_engine_step_begin(dtr_engine *e, int64_t step)
{
    dtr_scope_enter(e);
    dtr_mark_emit(e->runtime, DTR_MARK_ITERATION, DTR_NONE, step);
    dtr_mark_emit(e->runtime, DTR_MARK_FORWARD, DTR_NONE, DTR_NONE);
}

void dtr_engine_step_end(dtr_engine *e)
{
    dtr_scope_leave(e, NULL);
}

/* --- parameters ------------------------------------------------------------------------------- */

dtr_array *dtr_parameter(dtr_engine *e, dtr_shape shape, const float *values)
{
    dtr_array *a = dtri_array_constant(e, shape, false, values);
    if (!a->tensor)
        return a;
    if (!dtri_tape_leaf(a) ||
        !DTRI_RESERVE(e->parameters, e->cap_parameters, e->n_parameters + 1)) {
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for a parameter");
        return dtri_failed(e);
    }
    dtri_array_move(a, 0);
    a->parameter = true;
    e->parameters[e->n_parameters++] = a;
    return a;
}

/* A buffer of floats for the initial values; NULL, and the engine failed, when there is none. */
static float *initial_values(dtr_engine *e, const dtr_shape *shape)
{
    if (!dtri_engine_ok(e))
        return NULL;
    if (!dtri_shape_valid(shape)) {
        char text[DTRI_SHAPE_TEXT];
        dtri_engine_fail(e, DTR_E_INVALID, "a parameter cannot have the shape %s",
                         dtri_shape_text(shape, text));
        return NULL;
    }
    float *values = dtri_malloc((size_t)dtri_shape_size(shape) * sizeof *values);
    if (!values)
        dtri_engine_fail(e, DTR_E_NOMEM, "no memory for the values of a parameter");
    return values;
}

dtr_array *dtr_parameter_full(dtr_engine *e, dtr_shape shape, float value)
{
    float *values = initial_values(e, &shape);
    if (!values)
        return dtri_failed(e);
    for (int64_t i = dtri_shape_size(&shape) - 1; i >= 0; i--)
        values[i] = value;
    dtr_array *a = dtr_parameter(e, shape, values);
    dtri_free(values);
    return a;
}

/* Box and Muller's transform; the first number is in (0, 1], so that its logarithm is finite. */
static float normal(struct dtri_rng *rng)
{
    double radius = sqrt(-2 * log(1 - dtri_rng_unit(rng)));
    return (float)(radius * cos(6.28318530717958647692 * dtri_rng_unit(rng)));
}

dtr_array *dtr_parameter_normal(dtr_engine *e, dtr_shape shape, float deviation)
{
    float *values = initial_values(e, &shape);
    if (!values)
        return dtri_failed(e);
    for (int64_t i = 0; i < dtri_shape_size(&shape); i++)
        values[i] = deviation * normal(&e->rng);
    dtr_array *a = dtr_parameter(e, shape, values);
    dtri_free(values);
    return a;
}

int dtr_engine_n_parameters(const dtr_engine *e)
{
    return (int)e->n_parameters;
}

dtr_array *dtr_engine_parameter(dtr_engine *e, int index)
{
    if (index < 0 || (size_t)index >= e->n_parameters) {
        dtri_engine_fail(e, DTR_E_NOT_FOUND, "there is no parameter %d; there are %d", index,
                         (int)e->n_parameters);
        return dtri_failed(e);
    }
    return e->parameters[index];
}

dtr_array *dtr_dropout_seed(dtr_engine *e)
{
    uint64_t seed = dtri_rng_next(&e->rng);
    int32_t halves[2] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32)};
    return dtr_array_integers(e, DTR_SHAPE(2), halves);
}
