#include "trace/trace.h"

#include "base/alloc.h"

void dtri_trace_free(struct dtri_trace *trace)
{
    if (!trace)
        return;
    for (size_t i = 0; i < trace->n_names; i++)
        dtri_free(trace->names[i]);
    dtri_free(trace->names);
    dtri_free(trace->source);
    dtri_free(trace->steps);
    dtri_free(trace->ops);
    dtri_free(trace->inputs);
    dtri_free(trace->tensors);
    dtri_free(trace->marks);
    dtri_free(trace->outputs);
    dtri_free(trace);
}
