/* Perfetto's own format: a stream of TracePackets with track descriptors, slices, instants and
 * counters, for ui.perfetto.dev and trace_processor.  Field numbers are those of Perfetto's .proto
 * files; tests/data/perfetto.proto states the ones in use.
 *
 * The trace clock counts from the base time of the run; a clock snapshot ties it to Unix time where
 * that is known.  All packets are of one sequence.  A slice is a begin and an end; trace_processor
 * sorts packets by time and keeps the order of the file for equal times, and within a lane
 * (lanes.h) that order is right: an end comes before the begin that it touches. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "export/lanes.h"
#include "export/proto.h"

enum { TRACE_PACKET = 1 };
enum {
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    PACKET_FIRST_ON_SEQUENCE = 87,
};
enum { SNAPSHOT_CLOCKS = 1, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2, REALTIME = 1, BOOTTIME = 6 };
enum {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    COUNTER_UNIT = 3,
    UNIT_BYTES = 3,
};
enum {
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER_VALUE = 30,
    EVENT_FLOW = 47,
};
enum {
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_TEXT = 6,
    ANNOTATION_NAME = 10,
};
enum type { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };

enum counter { IN_USE, BUDGET, EVICTED, ALLOCATOR, COUNTERS };
static const char *const counter_names[] = {
    [IN_USE] = "bytes in use",
    [BUDGET] = "budget",
    [EVICTED] = "evicted bytes (total)",
    [ALLOCATOR] = "bytes held by the allocator",
};

#define PROCESS_UUID    1
#define COUNTER_UUID(c) (2 + (uint64_t)(c))
#define SEQUENCE        1

struct perfetto {
    const struct dtri_export *job;
    struct dtri_output *out;
    struct dtri_proto packet;
    size_t outer; /* where the packet begins within its field of Trace */
    struct dtri_lanes operators, chains;
    bool told[DTRI_LANE_GROUPS][DTRI_LANES_MAX]; /* lanes that have their descriptor */
    bool counter_told[COUNTERS];
    struct dtri_marks marks;
    struct dtri_scores scores;
    int64_t evicted, last;
};

static uint64_t lane_uuid(enum dtri_lane_group group, int lane)
{
    return 100 + (uint64_t)group * DTRI_LANES_MAX + (uint64_t)lane;
}

/* --- packets ---------------------------------------------------------------------------------- */

static void begin_packet(struct perfetto *p)
{
    p->packet.n = 0;
    p->outer = dtri_proto_begin(&p->packet, TRACE_PACKET);
    dtri_proto_varint(&p->packet, PACKET_SEQUENCE_ID, SEQUENCE);
}

static void end_packet(struct perfetto *p)
{
    dtri_proto_end(&p->packet, p->outer);
    if (!p->packet.failed)
        dtri_output_write(p->out, p->packet.data, p->packet.n);
}

static void write_track(struct perfetto *p, uint64_t uuid, const char *name, bool counter)
{
    begin_packet(p);
    size_t track = dtri_proto_begin(&p->packet, PACKET_TRACK_DESCRIPTOR);
    dtri_proto_varint(&p->packet, TRACK_UUID, uuid);
    dtri_proto_varint(&p->packet, TRACK_PARENT, PROCESS_UUID);
    dtri_proto_text(&p->packet, TRACK_NAME, name);
    if (counter) {
        size_t inner = dtri_proto_begin(&p->packet, TRACK_COUNTER);
        dtri_proto_varint(&p->packet, COUNTER_UNIT, UNIT_BYTES);
        dtri_proto_end(&p->packet, inner);
    }
    dtri_proto_end(&p->packet, track);
    end_packet(p);
}

/* The track of a lane, described before its first use. */
static uint64_t lane_track(struct perfetto *p, enum dtri_lane_group group, int lane)
{
    char name[64];
    if (!p->told[group][lane]) {
        p->told[group][lane] = true;
        dtri_lane_name(group, lane, name, sizeof name);
        write_track(p, lane_uuid(group, lane), name, false);
    }
    return lane_uuid(group, lane);
}

/* Leaves the track event open; `name` may be NULL. */
static size_t begin_event(struct perfetto *p, enum type type, uint64_t track, int64_t ts,
                          const char *name)
{
    begin_packet(p);
    dtri_proto_varint(&p->packet, PACKET_TIMESTAMP, (uint64_t)ts);
    size_t event = dtri_proto_begin(&p->packet, PACKET_TRACK_EVENT);
    dtri_proto_varint(&p->packet, EVENT_TYPE, type);
    dtri_proto_varint(&p->packet, EVENT_TRACK, track);
    if (name)
        dtri_proto_text(&p->packet, EVENT_NAME, name);
    return event;
}

static void end_event(struct perfetto *p, size_t event)
{
    dtri_proto_end(&p->packet, event);
    end_packet(p);
}

static void note_integer(struct perfetto *p, const char *name, int64_t value)
{
    size_t note = dtri_proto_begin(&p->packet, EVENT_ANNOTATION);
    dtri_proto_text(&p->packet, ANNOTATION_NAME, name);
    dtri_proto_varint(&p->packet, ANNOTATION_INT, (uint64_t)value);
    dtri_proto_end(&p->packet, note);
}

static void note_text(struct perfetto *p, const char *name, const char *text)
{
    size_t note = dtri_proto_begin(&p->packet, EVENT_ANNOTATION);
    dtri_proto_text(&p->packet, ANNOTATION_NAME, name);
    dtri_proto_text(&p->packet, ANNOTATION_TEXT, text);
    dtri_proto_end(&p->packet, note);
}

static void note_real(struct perfetto *p, const char *name, double value)
{
    size_t note = dtri_proto_begin(&p->packet, EVENT_ANNOTATION);
    dtri_proto_text(&p->packet, ANNOTATION_NAME, name);
    dtri_proto_double(&p->packet, ANNOTATION_DOUBLE, value);
    dtri_proto_end(&p->packet, note);
}

static void note_fields(struct perfetto *p, const dtr_event *event)
{
    const dtr_event_info *info = dtr_event_info_of(event->kind);
    note_integer(p, "seq", event->seq);
    for (int i = 0; i < info->n_fields; i++)
        if (info->fields[i].unit != DTR_UNIT_NAME &&
            !dtri_export_none(&info->fields[i], event->u.raw[i]))
            note_integer(p, info->fields[i].name, event->u.raw[i]);
}

/* --- events ----------------------------------------------------------------------------------- */

static dtr_status write_slice(struct perfetto *p, const dtr_event *event,
                              enum dtri_lane_group group, struct dtri_lanes *lanes, int64_t dur_ns,
                              const char *name, const char *category, int64_t chain,
                              dtr_error *error)
{
    int64_t begin, end;
    dtr_status status = dtri_export_span(p->job, event->ts_ns, dur_ns, &begin, &end, error);
    if (status != DTR_OK)
        return status;
    int lane = dtri_lanes_place(lanes, begin, end);
    if (lane < 0)
        return dtri_lanes_fail(p->job, event->seq, error);
    p->last = end > p->last ? end : p->last;
    uint64_t track = lane_track(p, group, lane);
    size_t open = begin_event(p, SLICE_BEGIN, track, begin, name);
    dtri_proto_text(&p->packet, EVENT_CATEGORY, category);
    if (chain != DTR_NONE) /* an arrow from the rematerialization through its runs; 0 is no id */
        dtri_proto_fixed64(&p->packet, EVENT_FLOW, (uint64_t)chain + 1);
    note_fields(p, event);
    end_event(p, open);
    end_event(p, begin_event(p, SLICE_END, track, end, NULL));
    return DTR_OK;
}

static void write_instant(struct perfetto *p, const dtr_event *event, int64_t ts, const char *name)
{
    double score;
    uint64_t track = lane_track(p, DTRI_LANE_INSTANTS, 0);
    size_t open = begin_event(p, INSTANT, track, ts, name);
    note_fields(p, event);
    if (event->kind == DTR_EVENT_EVICTION) {
        note_text(p, "why", dtri_eviction_reason(event->u.eviction_.reason));
        if (dtri_scores_of(&p->scores, event->u.eviction_.decision, &score))
            note_real(p, "score", score);
    }
    end_event(p, open);
}

static void write_counter(struct perfetto *p, int64_t ts, enum counter counter, int64_t value)
{
    if (!p->counter_told[counter]) {
        p->counter_told[counter] = true;
        write_track(p, COUNTER_UUID(counter), counter_names[counter], true);
    }
    size_t open = begin_event(p, COUNTER, COUNTER_UUID(counter), ts, NULL);
    dtri_proto_varint(&p->packet, EVENT_COUNTER_VALUE, (uint64_t)value);
    end_event(p, open);
}

static void write_point(struct perfetto *p, const dtr_event *event, int64_t ts)
{
    char note[256];
    int64_t in_use;
    if (event->kind == DTR_EVENT_EVICTION) {
        write_instant(p, event, ts, "eviction");
        if (__builtin_add_overflow(p->evicted, event->u.eviction_.bytes, &p->evicted))
            p->evicted = INT64_MAX;
        write_counter(p, ts, EVICTED, p->evicted);
    } else if (event->kind == DTR_EVENT_OUT_OF_MEMORY) {
        write_instant(p, event, ts, "out of memory");
    } else if (event->kind == DTR_EVENT_BUDGET) {
        if (event->u.budget_.budget == DTR_NONE)
            write_instant(p, event, ts, "no budget");
        else
            write_counter(p, ts, BUDGET, event->u.budget_.budget);
    }
    if (dtri_event_note(p->job->names, event, note, sizeof note))
        write_instant(p, event, ts, note);
    if (event->kind == DTR_EVENT_ALLOCATOR)
        write_counter(p, ts, ALLOCATOR, event->u.allocator_.in_use);
    if (dtri_event_in_use(event, &in_use))
        write_counter(p, ts, IN_USE, in_use);
}

static void write_edge(void *user, enum dtri_lane_group group, bool begin, int64_t ts,
                       const char *name)
{
    struct perfetto *p = user;
    uint64_t track = lane_track(p, group, 0);
    end_event(p, begin_event(p, begin ? SLICE_BEGIN : SLICE_END, track, ts, begin ? name : NULL));
}

static dtr_status write_event(struct perfetto *p, const dtr_event *event, dtr_error *error)
{
    const dtr_event_operator_run *run = &event->u.operator_run_;
    const dtr_event_chain *chain = &event->u.chain_;
    int64_t ts;
    dtr_status status = dtri_export_time(p->job, event->ts_ns, &ts, error);
    if (status != DTR_OK)
        return status;
    if (ts < 0)
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s: run %" PRId64 ": event %" PRId64 " lies before the start of the run, "
                         "which Perfetto's format cannot say; leave it out with --start 0",
                         dtri_store_path(p->job->store), p->job->run->id, event->seq);
    p->last = ts > p->last ? ts : p->last;
    dtri_scores_feed(&p->scores, event);
    if (event->kind == DTR_EVENT_OPERATOR_RUN)
        return write_slice(p, event, DTRI_LANE_OPERATORS, &p->operators, run->dur_ns,
                           dtri_names_text(p->job->names, run->name),
                           run->replay ? "replay" : "first run", run->chain, error);
    if (event->kind == DTR_EVENT_CHAIN)
        return write_slice(p, event, DTRI_LANE_CHAINS, &p->chains, chain->dur_ns,
                           "rematerialization", "rematerialization", chain->chain, error);
    if (event->kind == DTR_EVENT_MARK)
        dtri_marks_feed(&p->marks, ts, &event->u.mark_);
    else
        write_point(p, event, ts);
    return DTR_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

/* All that comes before: what the sequence needs is in this file, and which clock it counts. */
static void write_clock(struct perfetto *p)
{
    const struct dtri_run *run = p->job->run;
    const int64_t clocks[][2] = {
        {BOOTTIME, 0},
        {REALTIME, run->unix_offset_ns == DTRI_NULL ? -1 : run->base_ts_ns + run->unix_offset_ns},
    };
    begin_packet(p);
    dtri_proto_varint(&p->packet, PACKET_SEQUENCE_FLAGS, 1); /* nothing before is needed */
    dtri_proto_varint(&p->packet, PACKET_FIRST_ON_SEQUENCE, 1);
    size_t snapshot = dtri_proto_begin(&p->packet, PACKET_CLOCK_SNAPSHOT);
    for (int i = 0; i < 2 && clocks[i][1] >= 0; i++) {
        size_t clock = dtri_proto_begin(&p->packet, SNAPSHOT_CLOCKS);
        dtri_proto_varint(&p->packet, CLOCK_ID, (uint64_t)clocks[i][0]);
        dtri_proto_varint(&p->packet, CLOCK_TIMESTAMP, (uint64_t)clocks[i][1]);
        dtri_proto_end(&p->packet, clock);
    }
    dtri_proto_end(&p->packet, snapshot);
    end_packet(p);
}

static void write_process(struct perfetto *p)
{
    const struct dtri_run *run = p->job->run;
    begin_packet(p);
    size_t track = dtri_proto_begin(&p->packet, PACKET_TRACK_DESCRIPTOR);
    dtri_proto_varint(&p->packet, TRACK_UUID, PROCESS_UUID);
    size_t process = dtri_proto_begin(&p->packet, TRACK_PROCESS);
    dtri_proto_varint(&p->packet, PROCESS_PID,
                      run->pid > 0 && run->pid <= INT32_MAX ? (uint64_t)run->pid : 1);
    dtri_proto_text(&p->packet, PROCESS_NAME, run->program[0] ? run->program : run->trace);
    dtri_proto_end(&p->packet, process);
    dtri_proto_end(&p->packet, track);
    end_packet(p);
}

/* What the file is of, as notes on an instant at the beginning. */
static void write_run(struct perfetto *p)
{
    const struct dtri_run *run = p->job->run;
    uint64_t track = lane_track(p, DTRI_LANE_INSTANTS, 0);
    char name[128];
    size_t open = begin_event(p, INSTANT, track, 0, "run");
    note_text(p, "tool", "dtrscope " DTR_VERSION);
    note_text(p, "run", run->uuid);
    note_text(p, "kind", run->kind);
    note_text(p, "clock", run->clock);
    note_text(p, "result", run->result);
    if (run->heuristic[0])
        note_text(p, "heuristic", run->heuristic);
    if (run->budget_bytes != DTRI_NULL)
        note_integer(p, "budget_bytes", run->budget_bytes);
    note_integer(p, "base_ts_ns", run->base_ts_ns);
    for (size_t i = 0; i < p->job->n_losses; i++) {
        const struct dtri_export_loss *loss = &p->job->losses[i];
        snprintf(name, sizeof name, "lost: %.100s", loss->reason);
        if (loss->count == DTRI_NULL)
            note_text(p, name, "unknown");
        else
            note_integer(p, name, loss->count);
    }
    end_event(p, open);
}

static dtr_status write_events(struct perfetto *p, dtr_error *error)
{
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_status status = dtri_export_open(p->job, DTRI_VIEWER_KINDS, &stream, error);
    if (status != DTR_OK)
        return status;
    while ((status = dtri_export_next(p->job, stream, &event, error)) == DTR_OK && event &&
           dtri_output_good(p->out) && !p->packet.failed)
        if ((status = write_event(p, event, error)) != DTR_OK)
            break;
    dtri_stream_free(stream);
    return status;
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct perfetto p = {.job = job, .out = out, .scores = {.decision = DTR_NONE}};
    p.marks = (struct dtri_marks){.names = job->names, .edge = write_edge, .user = &p};
    write_clock(&p);
    write_process(&p);
    write_run(&p);
    dtr_status status = write_events(&p, error);
    if (status == DTR_OK) {
        dtri_marks_finish(&p.marks, p.last);
        if (p.packet.failed)
            status = dtri_fail_nomem(error, "a packet of a trace");
    }
    dtri_proto_done(&p.packet);
    return status;
}

const struct dtri_export_format dtri_export_perfetto = {
    .name = "perfetto",
    .extension = "pftrace",
    .summary = "Perfetto's protobuf trace, for ui.perfetto.dev and trace_processor",
    .write = write,
};
