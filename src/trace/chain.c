/* The straight chain of theorem 3.1. */
#include <stdio.h>

#include "trace/trace.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        dtr_status status_ = (call);                                                               \
        if (status_ != DTR_OK)                                                                     \
            return status_;                                                                        \
    } while (0)

static const struct dtri_trace_tensor unit = {.bytes = 1, .view_of = -1};

static dtr_status build(struct dtri_trace_builder *b, uint32_t n, dtr_error *error)
{
    uint32_t previous = 0, made; /* forward i is tensor i */
    for (uint32_t i = 0; i < n; i++)
        TRY(dtri_trace_add_call(b, "forward", 1, false, &previous, i > 0, &unit, 1, &previous,
                                error));
    uint32_t gradient = 0;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t inputs[2];
        size_t n_inputs = 0;
        TRY(dtri_trace_add_step(b, DTRI_STEP_RELEASE, i, error));
        if (i + 1 < n) {
            if (i > 0)
                inputs[n_inputs++] = i - 1;
            inputs[n_inputs++] = gradient;
        }
        TRY(dtri_trace_add_call(b, "backward", 1, false, inputs, n_inputs, &unit, 1, &made, error));
        if (i + 1 < n)
            TRY(dtri_trace_add_step(b, DTRI_STEP_RELEASE, gradient, error));
        gradient = made;
    }
    return dtri_trace_add_output(b, gradient, error);
}

dtr_status dtri_trace_chain(uint32_t n, struct dtri_trace **out_trace, dtr_error *error)
{
    struct dtri_trace_builder builder;
    char source[32];
    snprintf(source, sizeof source, "chain(%u)", n);
    dtr_status status = dtri_trace_begin(&builder, source, error);
    if (status == DTR_OK)
        status = build(&builder, n, error);
    if (status == DTR_OK)
        status = dtri_trace_finish(&builder, out_trace, error);
    if (status != DTR_OK)
        dtri_trace_abort(&builder);
    return status;
}
