/* The event of bench_record as an LTTng-UST tracepoint. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER dtr_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_event.h"

#if !defined DTR_BENCH_LTTNG_EVENT_H || defined LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#define DTR_BENCH_LTTNG_EVENT_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    dtr_bench, decision,
    LTTNG_UST_TP_ARGS(int64_t, i),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(int64_t, seq, i)
        lttng_ust_field_integer(int64_t, decision, i)
        lttng_ust_field_integer(int64_t, storage, i * 7919 & 65535)
        lttng_ust_field_integer(int64_t, op, i)
        lttng_ust_field_integer(int64_t, needed, 4096)
        lttng_ust_field_integer(int64_t, in_use, i * 4096 & 1048575)
        lttng_ust_field_integer(int64_t, budget, 1 << 30)
        lttng_ust_field_integer(int64_t, candidates, 100)
        lttng_ust_field_integer(int64_t, evaluations, i & 15)
        lttng_ust_field_integer(int64_t, tied, 0)
        lttng_ust_field_integer(int64_t, search_ns, i & 1023)))

#endif
#include <lttng/tracepoint-event.h>
