/* Time stamps and the one place where events leave the core. */
#include "core/core.h"

bool dtri_has_host_time(const dtr_runtime *rt)
{
    return rt->backend.now_ns != NULL;
}

int64_t dtri_now(dtr_runtime *rt)
{
    if (!rt->backend.now_ns)
        return rt->graph.clock;
    rt->event_ns = rt->backend.now_ns(rt->backend.self);
    return rt->event_ns;
}

int64_t dtri_event_time(dtr_runtime *rt)
{
    return rt->backend.now_ns && rt->event_ns != DTR_NONE ? rt->event_ns : dtri_now(rt);
}

void dtri_time_passed(dtr_runtime *rt)
{
    rt->event_ns = DTR_NONE;
}

void dtri_emit(dtr_runtime *rt, dtr_event *event, int64_t ts_ns)
{
    event->ts_ns = ts_ns;
    event->seq = rt->next_seq++;
    rt->sink.emit(rt->sink.self, event);
}
