/* Time stamps and the one place where events leave the core. */
#include "core/core.h"

bool dtri_has_host_time(const dtr_runtime *rt)
{
    return rt->backend.now_ns != NULL;
}

int64_t dtri_now(const dtr_runtime *rt)
{
    return rt->backend.now_ns ? rt->backend.now_ns(rt->backend.self) : rt->graph.clock;
}

void dtri_emit(dtr_runtime *rt, dtr_event *event, int64_t ts_ns)
{
    event->ts_ns = ts_ns;
    event->seq = rt->next_seq++;
    rt->sink.emit(rt->sink.self, event);
}
