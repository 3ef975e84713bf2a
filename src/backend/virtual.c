/* The simulator's device: time is what the caller says an operator costs, and memory is a count
 * that the core keeps.  Without state, so that all runtimes on all threads share one. */
#include "base/error.h"
#include "dtr/backend.h"
#include "dtr/event.h"

static dtr_status run(void *self, const dtr_op_call *call, int64_t *out_cost_ns, dtr_error *error)
{
    (void)self;
    if (call->cost_ns < 0)
        return dtri_fail(error, DTR_E_INVALID, 0, "operator %lld has no cost to simulate",
                         (long long)call->op);
    *out_cost_ns = call->cost_ns;
    return DTR_OK;
}

const dtr_backend *dtr_backend_virtual(void)
{
    static const dtr_backend backend = {.run = run};
    return &backend;
}
