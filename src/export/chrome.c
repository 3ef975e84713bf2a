/* Chrome Trace Event JSON, for chrome://tracing and ui.perfetto.dev.
 *
 * One process; a thread a lane (lanes.h).  Operator runs and rematerializations are complete events
 * (X), iterations, phases and ranges pairs (B, E), evictions and failures instants (i), bytes are
 * counters (C).  Times are microseconds since the base time of the run, with all three decimals, so
 * that slices that touch still do after a viewer has read them as doubles.  An integer that a
 * double cannot hold is a string. */
#include <inttypes.h>
#include <math.h>

#include "export/lanes.h"

#define EXACT (INT64_C(1) << 53)

struct chrome {
    const struct dtri_export *job;
    struct dtri_output *out;
    struct dtri_lanes operators, chains;
    struct dtri_marks marks;
    struct dtri_scores scores;
    int64_t evicted, last;
    bool comma;
};

static const int threads_a_group = DTRI_LANES_MAX;

static int64_t thread(enum dtri_lane_group group, int lane)
{
    return 1 + (int64_t)group * threads_a_group + lane;
}

static void write_integer(struct dtri_output *out, int64_t value)
{
    bool exact = value > -EXACT && value < EXACT;
    dtri_output_text(out, exact ? "" : "\"");
    dtri_output_int(out, value);
    dtri_output_text(out, exact ? "" : "\"");
}

static void write_time(struct dtri_output *out, int64_t ns)
{
    int64_t rest = ns % 1000, us = ns / 1000;
    char decimals[4] = {'.', 0, 0, 0};
    if (ns < 0) {
        rest = -rest;
        us = -us;
        dtri_output_write(out, "-", 1);
    }
    for (int i = 3; i > 0; i--, rest /= 10)
        decimals[i] = (char)('0' + rest % 10);
    dtri_output_int(out, us);
    dtri_output_write(out, decimals, sizeof decimals);
}

/* {"ph":"X","pid":1,"tid":2,"ts":3.000 -- what follows begins with a comma. */
static void begin_event(struct chrome *c, char phase, int64_t tid, int64_t ts)
{
    char head[] = "{\"ph\":\"?\",\"pid\":1,\"tid\":";
    head[7] = phase;
    dtri_output_text(c->out, c->comma ? ",\n" : "\n");
    dtri_output_text(c->out, head);
    dtri_output_int(c->out, tid);
    dtri_output_text(c->out, ",\"ts\":");
    write_time(c->out, ts);
    c->comma = true;
}

static void write_name(struct chrome *c, const char *name)
{
    dtri_output_text(c->out, ",\"name\":");
    dtri_output_json(c->out, name);
}

/* What the event says but for its name, with the object left open. */
static void write_fields(struct chrome *c, const dtr_event *event)
{
    const dtr_event_info *info = dtr_event_info_of(event->kind);
    dtri_output_text(c->out, ",\"args\":{\"seq\":");
    write_integer(c->out, event->seq);
    for (int i = 0; i < info->n_fields; i++) {
        const dtr_field_info *field = &info->fields[i];
        int64_t raw = event->u.raw[i];
        if (field->unit == DTR_UNIT_NAME || dtri_export_none(field, raw))
            continue;
        dtri_output_text(c->out, ",\"");
        dtri_output_text(c->out, field->name);
        dtri_output_text(c->out, "\":");
        write_integer(c->out, raw);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

static dtr_status write_slice(struct chrome *c, const dtr_event *event, enum dtri_lane_group group,
                              struct dtri_lanes *lanes, int64_t dur_ns, const char *name,
                              const char *category, dtr_error *error)
{
    int64_t begin, end;
    dtr_status status = dtri_export_span(c->job, event->ts_ns, dur_ns, &begin, &end, error);
    if (status != DTR_OK)
        return status;
    int lane = dtri_lanes_place(lanes, begin, end);
    if (lane < 0)
        return dtri_lanes_fail(c->job, event->seq, error);
    c->last = end > c->last ? end : c->last;
    begin_event(c, 'X', thread(group, lane), begin);
    dtri_output_text(c->out, ",\"dur\":");
    write_time(c->out, end - begin);
    write_name(c, name);
    dtri_output_text(c->out, ",\"cat\":\"");
    dtri_output_text(c->out, category);
    dtri_output_text(c->out, "\"");
    write_fields(c, event);
    dtri_output_text(c->out, "}}");
    return DTR_OK;
}

static void write_instant(struct chrome *c, const dtr_event *event, int64_t ts, const char *name,
                          const char *reason)
{
    double score;
    begin_event(c, 'i', thread(DTRI_LANE_INSTANTS, 0), ts);
    write_name(c, name);
    dtri_output_text(c->out, ",\"s\":\"t\"");
    write_fields(c, event);
    if (reason)
        dtri_output_format(c->out, ",\"why\":\"%s\"", reason);
    if (event->kind == DTR_EVENT_EVICTION &&
        dtri_scores_of(&c->scores, event->u.eviction_.decision, &score))
        dtri_output_format(c->out, isfinite(score) ? ",\"score\":%.17g" : ",\"score\":\"%g\"",
                           score);
    dtri_output_text(c->out, "}}");
}

static void write_counter(struct chrome *c, int64_t ts, const char *name, int64_t bytes)
{
    begin_event(c, 'C', 0, ts);
    write_name(c, name);
    dtri_output_text(c->out, ",\"args\":{\"bytes\":");
    dtri_output_int(c->out, bytes >= EXACT ? EXACT - 1 : bytes <= -EXACT ? 1 - EXACT : bytes);
    dtri_output_text(c->out, "}}");
}

static void write_point(struct chrome *c, const dtr_event *event, int64_t ts)
{
    char note[256];
    int64_t in_use;
    if (event->kind == DTR_EVENT_EVICTION) {
        write_instant(c, event, ts, "eviction", dtri_eviction_reason(event->u.eviction_.reason));
        if (__builtin_add_overflow(c->evicted, event->u.eviction_.bytes, &c->evicted))
            c->evicted = INT64_MAX;
        write_counter(c, ts, "evicted bytes (total)", c->evicted);
    } else if (event->kind == DTR_EVENT_OUT_OF_MEMORY) {
        write_instant(c, event, ts, "out of memory", NULL);
    } else if (event->kind == DTR_EVENT_BUDGET) {
        if (event->u.budget_.budget == DTR_NONE)
            write_instant(c, event, ts, "no budget", NULL);
        else
            write_counter(c, ts, "budget", event->u.budget_.budget);
    }
    if (dtri_event_note(c->job->names, event, note, sizeof note))
        write_instant(c, event, ts, note, NULL);
    if (event->kind == DTR_EVENT_ALLOCATOR)
        write_counter(c, ts, "bytes held by the allocator", event->u.allocator_.in_use);
    if (dtri_event_in_use(event, &in_use))
        write_counter(c, ts, "bytes in use", in_use);
}

static void write_edge(void *user, enum dtri_lane_group group, bool begin, int64_t ts,
                       const char *name)
{
    struct chrome *c = user;
    begin_event(c, begin ? 'B' : 'E', thread(group, 0), ts);
    write_name(c, name); /* at an end, too: some viewers match by name */
    dtri_output_text(c->out, "}");
}

static dtr_status write_event(struct chrome *c, const dtr_event *event, dtr_error *error)
{
    const dtr_event_operator_run *run = &event->u.operator_run_;
    int64_t ts;
    if (event->kind == DTR_EVENT_OPERATOR_RUN)
        return write_slice(c, event, DTRI_LANE_OPERATORS, &c->operators, run->dur_ns,
                           dtri_names_text(c->job->names, run->name),
                           run->replay ? "replay" : "first run", error);
    if (event->kind == DTR_EVENT_CHAIN)
        return write_slice(c, event, DTRI_LANE_CHAINS, &c->chains, event->u.chain_.dur_ns,
                           "rematerialization", "rematerialization", error);
    dtr_status status = dtri_export_time(c->job, event->ts_ns, &ts, error);
    if (status != DTR_OK)
        return status;
    c->last = ts > c->last ? ts : c->last;
    if (event->kind == DTR_EVENT_MARK)
        dtri_marks_feed(&c->marks, ts, &event->u.mark_);
    else
        write_point(c, event, ts);
    dtri_scores_feed(&c->scores, event);
    return DTR_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static void write_pair(struct dtri_output *out, const char *name, const char *text)
{
    dtri_output_format(out, ",\"%s\":", name);
    if (text[0])
        dtri_output_json(out, text);
    else
        dtri_output_text(out, "null");
}

static void write_integer_pair(struct dtri_output *out, const char *name, int64_t value)
{
    dtri_output_format(out, ",\"%s\":", name);
    if (value == DTRI_NULL)
        dtri_output_text(out, "null");
    else
        write_integer(out, value);
}

static void write_head(const struct chrome *c)
{
    const struct dtri_run *run = c->job->run;
    struct dtri_output *out = c->out;
    dtri_output_text(
        out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tool\":\"dtrscope " DTR_VERSION "\"");
    write_pair(out, "run", run->uuid);
    write_pair(out, "kind", run->kind);
    write_pair(out, "program", run->program[0] ? run->program : run->trace);
    write_pair(out, "heuristic", run->heuristic);
    write_pair(out, "clock", run->clock);
    write_pair(out, "result", run->result);
    write_integer_pair(out, "budget_bytes", run->budget_bytes);
    write_integer_pair(out, "base_ts_ns", run->base_ts_ns);
    dtri_output_text(out, ",\"lost\":{");
    for (size_t i = 0; i < c->job->n_losses; i++) {
        dtri_output_text(out, i ? "," : "");
        dtri_output_json(out, c->job->losses[i].reason);
        dtri_output_text(out, ":");
        if (c->job->losses[i].count == DTRI_NULL)
            dtri_output_text(out, "null");
        else
            write_integer(out, c->job->losses[i].count);
    }
    dtri_output_text(out, "}},\"traceEvents\":[");
}

static void write_thread(struct chrome *c, enum dtri_lane_group group, int lane)
{
    char name[64];
    dtri_lane_name(group, lane, name, sizeof name);
    begin_event(c, 'M', thread(group, lane), 0);
    dtri_output_format(c->out, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", name);
    begin_event(c, 'M', thread(group, lane), 0);
    dtri_output_format(c->out,
                       ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRId64 "}}",
                       thread(group, lane));
}

/* Names may come after what they name; then it is known how many lanes there are. */
static void write_tail(struct chrome *c)
{
    const struct dtri_run *run = c->job->run;
    begin_event(c, 'M', 0, 0);
    dtri_output_text(c->out, ",\"name\":\"process_name\",\"args\":{\"name\":");
    dtri_output_json(c->out, run->program[0] ? run->program : run->trace);
    dtri_output_text(c->out, "}}");
    for (int group = 0; group < DTRI_LANE_GROUPS; group++) {
        int n = group == DTRI_LANE_OPERATORS ? c->operators.n
                : group == DTRI_LANE_CHAINS  ? c->chains.n
                                             : 1;
        for (int lane = 0; lane < n; lane++)
            write_thread(c, (enum dtri_lane_group)group, lane);
    }
    dtri_output_text(c->out, "\n]}\n");
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct chrome c = {.job = job, .out = out, .scores = {.decision = DTR_NONE}, .last = INT64_MIN};
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_status status = dtri_export_open(job, DTRI_VIEWER_KINDS, &stream, error);
    if (status != DTR_OK)
        return status;
    c.marks =
        (struct dtri_marks){.names = job->names, .edge = write_edge, .user = &c, .ts = INT64_MIN};
    write_head(&c);
    while ((status = dtri_export_next(job, stream, &event, error)) == DTR_OK && event &&
           dtri_output_good(out))
        if ((status = write_event(&c, event, error)) != DTR_OK)
            break;
    if (status == DTR_OK) {
        dtri_marks_finish(&c.marks, c.last);
        write_tail(&c);
    }
    dtri_stream_free(stream);
    return status;
}

const struct dtri_export_format dtri_export_chrome = {
    .name = "chrome",
    .extension = "trace.json",
    .summary = "Chrome Trace Event JSON, for ui.perfetto.dev and chrome://tracing",
    .write = write,
};
