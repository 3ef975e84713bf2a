#include "export/lanes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define EXACT (INT64_C(1) << 53) /* below it a double holds every integer */

void dtri_lane_name(enum dtri_lane_group group, int lane, char *text, size_t size)
{
    static const char *const names[] = {
        [DTRI_LANE_ITERATIONS] = "iterations",
        [DTRI_LANE_PHASES] = "phases",
        [DTRI_LANE_RANGES] = "ranges",
        [DTRI_LANE_OPERATORS] = "operators",
        [DTRI_LANE_CHAINS] = "rematerializations",
        [DTRI_LANE_INSTANTS] = "evictions",
    };
    if (lane)
        snprintf(text, size, "%s %d", names[group], lane + 1);
    else
        snprintf(text, size, "%s", names[group]);
}

int dtri_lanes_place(struct dtri_lanes *lanes, int64_t begin, int64_t end)
{
    int lane = 0;
    while (lane < lanes->n && lanes->ends[lane] > begin)
        lane++;
    if (lane == DTRI_LANES_MAX)
        return -1;
    if (lane == lanes->n)
        lanes->n++;
    lanes->ends[lane] = end;
    return lane;
}

/* --- marks ------------------------------------------------------------------------------------ */

static void end_phase(struct dtri_marks *m)
{
    if (m->phase)
        m->edge(m->user, DTRI_LANE_PHASES, false, m->ts, m->phase);
    m->phase = NULL;
}

static void end_iteration(struct dtri_marks *m)
{
    end_phase(m);
    if (m->iteration[0])
        m->edge(m->user, DTRI_LANE_ITERATIONS, false, m->ts, m->iteration);
    m->iteration[0] = 0;
}

static void begin_phase(struct dtri_marks *m, const char *name)
{
    end_phase(m);
    m->phase = name;
    m->edge(m->user, DTRI_LANE_PHASES, true, m->ts, name);
}

static void begin_iteration(struct dtri_marks *m, int64_t value)
{
    end_iteration(m);
    if (value == DTR_NONE)
        snprintf(m->iteration, sizeof m->iteration, "iteration");
    else
        snprintf(m->iteration, sizeof m->iteration, "iteration %" PRId64, value);
    m->edge(m->user, DTRI_LANE_ITERATIONS, true, m->ts, m->iteration);
}

static void begin_range(struct dtri_marks *m, int64_t name)
{
    if (m->n_ranges < DTRI_RANGES_NAMED)
        m->ranges[m->n_ranges] = name;
    m->n_ranges++;
    m->edge(m->user, DTRI_LANE_RANGES, true, m->ts, dtri_names_text(m->names, name));
}

static void end_range(struct dtri_marks *m)
{
    if (m->n_ranges == 0)
        return;
    m->n_ranges--;
    int64_t name = m->n_ranges < DTRI_RANGES_NAMED ? m->ranges[m->n_ranges] : DTR_NONE;
    m->edge(m->user, DTRI_LANE_RANGES, false, m->ts, dtri_names_text(m->names, name));
}

void dtri_marks_feed(struct dtri_marks *m, int64_t ts, const dtr_event_mark *mark)
{
    m->ts = ts > m->ts ? ts : m->ts;
    switch (mark->mark) {
    case DTR_MARK_ITERATION:
        begin_iteration(m, mark->value);
        break;
    case DTR_MARK_FORWARD:
        begin_phase(m, "forward");
        break;
    case DTR_MARK_BACKWARD:
        begin_phase(m, "backward");
        break;
    case DTR_MARK_OPTIMIZER:
        begin_phase(m, "optimizer");
        break;
    case DTR_MARK_RANGE_BEGIN:
        begin_range(m, mark->name);
        break;
    case DTR_MARK_RANGE_END:
        end_range(m);
        break;
    case DTR_MARK_END:
        end_iteration(m);
        break;
    default:
        break;
    }
}

void dtri_marks_finish(struct dtri_marks *m, int64_t ts)
{
    m->ts = ts > m->ts ? ts : m->ts;
    while (m->n_ranges > 0)
        end_range(m);
    end_iteration(m);
}

/* --- times ------------------------------------------------------------------------------------ */

dtr_status dtri_export_time(const struct dtri_export *job, int64_t ts_ns, int64_t *out_ns,
                            dtr_error *error)
{
    int64_t ns;
    if (!__builtin_sub_overflow(ts_ns, job->run->base_ts_ns, &ns) && ns > -EXACT && ns < EXACT) {
        *out_ns = ns;
        return DTR_OK;
    }
    return dtri_fail(
        error, DTR_E_LIMIT, 0,
        "%s: run %" PRId64 ": an event at %" PRId64 " ns is 2^53 ns (104 days) or more "
        "from the start, which viewers cannot show; leave it out with --start and --end",
        dtri_store_path(job->store), job->run->id, ts_ns);
}

dtr_status dtri_export_span(const struct dtri_export *job, int64_t ts_ns, int64_t dur_ns,
                            int64_t *out_begin, int64_t *out_end, dtr_error *error)
{
    int64_t begin = 0, ts_end;
    if (dur_ns < 0 || __builtin_add_overflow(ts_ns, dur_ns, &ts_end))
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s: run %" PRId64 ": the event at %" PRId64 " ns lasts %" PRId64
                         " ns; `dtrscope check` tells what else is wrong",
                         dtri_store_path(job->store), job->run->id, ts_ns, dur_ns);
    dtr_status status = dtri_export_time(job, ts_ns, &begin, error);
    if (status == DTR_OK)
        status = dtri_export_time(job, ts_end, out_end, error);
    if (status == DTR_OK)
        *out_begin = begin;
    return status;
}

dtr_status dtri_lanes_fail(const struct dtri_export *job, int64_t seq, dtr_error *error)
{
    return dtri_fail(error, DTR_E_LIMIT, 0,
                     "%s: run %" PRId64 ": event %" PRId64 " overlaps %d others; export a shorter "
                     "part with --start and --end",
                     dtri_store_path(job->store), job->run->id, seq, DTRI_LANES_MAX);
}

/* --- events ----------------------------------------------------------------------------------- */

const char *dtri_eviction_reason(int64_t reason)
{
    static const char *const names[] = {
        [DTR_EVICTED_FOR_BUDGET] = "budget",    [DTR_EVICTED_EAGERLY] = "eager",
        [DTR_EVICTED_BY_BANISHING] = "banish",  [DTR_EVICTED_BY_REQUEST] = "request",
        [DTR_EVICTED_BY_MUTATION] = "mutation",
    };
    return reason >= 0 && reason < (int64_t)(sizeof names / sizeof names[0]) ? names[reason] : "?";
}

void dtri_scores_feed(struct dtri_scores *scores, const dtr_event *event)
{
    if (event->kind != DTR_EVENT_CANDIDATE || event->u.candidate_.rank != 0)
        return;
    scores->decision = event->u.candidate_.decision;
    scores->score = event->u.candidate_.score;
}

bool dtri_scores_of(const struct dtri_scores *scores, int64_t decision, double *out_score)
{
    if (decision == DTR_NONE || decision != scores->decision)
        return false;
    *out_score = scores->score;
    return true;
}

bool dtri_event_note(const struct dtri_names *names, const dtr_event *event, char *out_text,
                     size_t size)
{
    bool barrier = event->kind == DTR_EVENT_BARRIER;
    if (!barrier && event->kind != DTR_EVENT_HAZARD)
        return false;
    snprintf(out_text, size, "%s: %s", barrier ? "barrier" : "kept",
             dtri_names_text(names, barrier ? event->u.barrier_.name : event->u.hazard_.name));
    return true;
}

bool dtri_event_in_use(const dtr_event *event, int64_t *out_bytes)
{
    if (event->kind == DTR_EVENT_ALLOCATION)
        *out_bytes = event->u.allocation_.in_use;
    else if (event->kind == DTR_EVENT_EVICTION)
        *out_bytes = event->u.eviction_.in_use;
    else if (event->kind == DTR_EVENT_FREEING)
        *out_bytes = event->u.freeing_.in_use;
    else
        return false;
    return true;
}
