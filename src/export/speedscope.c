/* speedscope's file format: evented profiles of nanoseconds since the base time of the run.
 *
 * First runs are one profile, replays another, in which the runs of one rematerialization lie in a
 * frame of their own; speedscope's views add up by operator.  A profile's events have to be in the
 * order of time and nested, so runs that overlap go to profiles of their own, by lane (lanes.h).
 * Each profile is one reading of the stream: the format wants them one after the other, and memory
 * stays bounded. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/lanes.h"

/* Frame numbers by name id: frames are listed once, at the end of the file. */
struct frame {
    int64_t name, frame;
};

struct speedscope {
    const struct dtri_export *job;
    struct dtri_output *out;
    struct frame *slots; /* open addressing; frame -1 is free */
    size_t n_slots;
    int64_t *frames; /* name ids, in the order of the frames; DTR_NONE: a rematerialization */
    size_t n_frames, cap_frames;
    int n_profiles;
};

struct profile {
    int64_t replay;
    int lane;
    int64_t chain; /* whose frame is open, or DTR_NONE */
    int64_t n, first, last;
};

/* --- frames ----------------------------------------------------------------------------------- */

static struct frame *slot_of(const struct speedscope *s, int64_t name)
{
    size_t at = ((uint64_t)name * UINT64_C(0x9e3779b97f4a7c15) >> 32) % s->n_slots;
    while (s->slots[at].frame >= 0 && s->slots[at].name != name)
        at = (at + 1) % s->n_slots;
    return &s->slots[at];
}

static dtr_status grow(struct speedscope *s, dtr_error *error)
{
    size_t n = s->n_slots ? s->n_slots * 2 : 64;
    struct frame *slots = dtri_malloc(n * sizeof *slots);
    if (!slots)
        return dtri_fail_nomem(error, "the frames of a profile");
    for (size_t i = 0; i < n; i++)
        slots[i].frame = -1;
    dtri_free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    for (size_t i = 0; i < s->n_frames; i++)
        *slot_of(s, s->frames[i]) = (struct frame){s->frames[i], (int64_t)i};
    return DTR_OK;
}

static dtr_status frame_of(struct speedscope *s, int64_t name, int64_t *out_frame, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (2 * (s->n_frames + 1) > s->n_slots)
        status = grow(s, error);
    if (status != DTR_OK)
        return status;
    struct frame *slot = slot_of(s, name);
    if (slot->frame < 0) {
        if (!DTRI_RESERVE(s->frames, s->cap_frames, s->n_frames + 1))
            return dtri_fail_nomem(error, "the frames of a profile");
        *slot = (struct frame){name, (int64_t)s->n_frames};
        s->frames[s->n_frames++] = name;
    }
    *out_frame = slot->frame;
    return DTR_OK;
}

/* --- events ----------------------------------------------------------------------------------- */

static void write_edge(struct speedscope *s, struct profile *p, char type, int64_t frame,
                       int64_t at)
{
    char head[] = "{\"type\":\"?\",\"frame\":";
    head[9] = type;
    dtri_output_text(s->out, p->n++ ? ",\n" : "\n");
    dtri_output_text(s->out, head);
    dtri_output_int(s->out, frame);
    dtri_output_text(s->out, ",\"at\":");
    dtri_output_int(s->out, at);
    dtri_output_text(s->out, "}");
    p->last = at;
}

static void begin_profile(struct speedscope *s, struct profile *p, int64_t at)
{
    dtri_output_text(s->out, s->n_profiles++ ? ",\n" : "\n");
    dtri_output_format(s->out, "{\"type\":\"evented\",\"name\":\"%s",
                       p->replay ? "replays" : "first runs");
    if (p->lane)
        dtri_output_format(s->out, " %d", p->lane + 1);
    dtri_output_format(s->out,
                       "\",\"unit\":\"nanoseconds\",\"startValue\":%" PRId64 ",\"events\":[", at);
    p->first = p->last = at;
}

static void end_profile(struct speedscope *s, const struct profile *p)
{
    dtri_output_format(s->out, "],\"endValue\":%" PRId64 "}", p->last);
}

/* Ends the frame of the rematerialization that is open, unless it is `chain`; begins that one. */
static dtr_status turn_to(struct speedscope *s, struct profile *p, int64_t chain, int64_t at,
                          dtr_error *error)
{
    int64_t frame;
    if (p->chain == chain)
        return DTR_OK;
    dtr_status status = frame_of(s, DTR_NONE, &frame, error);
    if (status != DTR_OK)
        return status;
    if (p->chain != DTR_NONE)
        write_edge(s, p, 'C', frame, p->last);
    if (chain != DTR_NONE)
        write_edge(s, p, 'O', frame, at);
    p->chain = chain;
    return DTR_OK;
}

static dtr_status write_run(struct speedscope *s, struct profile *p,
                            const dtr_event_operator_run *run, int64_t begin, int64_t end,
                            dtr_error *error)
{
    int64_t frame;
    if (p->n == 0)
        begin_profile(s, p, begin);
    dtr_status status = turn_to(s, p, p->replay ? run->chain : DTR_NONE, begin, error);
    /* DTR_NONE is the frame of rematerializations; a name of that id has no text either. */
    if (status == DTR_OK)
        status = frame_of(s, run->name == DTR_NONE ? INT64_MIN : run->name, &frame, error);
    if (status != DTR_OK)
        return status;
    write_edge(s, p, 'O', frame, begin);
    write_edge(s, p, 'C', frame, end);
    return DTR_OK;
}

/* One reading of the stream: the runs of the profile's lane.  *out_lanes: how many there are. */
static dtr_status write_profile(struct speedscope *s, struct profile *p, int *out_lanes,
                                dtr_error *error)
{
    struct dtri_lanes lanes = {0};
    struct dtri_stream *stream;
    const dtr_event *event;
    int64_t begin, end;
    dtr_status status =
        dtri_export_open(s->job, DTRI_KIND_BIT(DTR_EVENT_OPERATOR_RUN), &stream, error);
    if (status != DTR_OK)
        return status;
    while ((status = dtri_export_next(s->job, stream, &event, error)) == DTR_OK && event &&
           dtri_output_good(s->out)) {
        const dtr_event_operator_run *run = &event->u.operator_run_;
        if ((run->replay != 0) != (p->replay != 0))
            continue;
        status = dtri_export_span(s->job, event->ts_ns, run->dur_ns, &begin, &end, error);
        if (status != DTR_OK)
            break;
        int lane = dtri_lanes_place(&lanes, begin, end);
        if (lane < 0)
            status = dtri_lanes_fail(s->job, event->seq, error);
        else if (lane == p->lane)
            status = write_run(s, p, run, begin, end, error);
        if (status != DTR_OK)
            break;
    }
    dtri_stream_free(stream);
    if (status == DTR_OK && p->n) {
        status = turn_to(s, p, DTR_NONE, p->last, error);
        end_profile(s, p);
    }
    *out_lanes = lanes.n;
    return status;
}

static dtr_status write_profiles(struct speedscope *s, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (int64_t replay = 0; replay < 2; replay++) {
        int n_lanes = 1;
        for (int lane = 0; lane < n_lanes && status == DTR_OK; lane++) {
            struct profile profile = {.replay = replay, .lane = lane, .chain = DTR_NONE};
            status = write_profile(s, &profile, &n_lanes, error);
        }
    }
    if (status == DTR_OK && s->n_profiles == 0) {
        struct profile none = {.chain = DTR_NONE};
        begin_profile(s, &none, 0);
        end_profile(s, &none);
    }
    return status;
}

/* --- the file --------------------------------------------------------------------------------- */

static void write_title(struct speedscope *s)
{
    const struct dtri_run *run = s->job->run;
    dtri_output_text(s->out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
                             "\"exporter\":\"dtrscope@" DTR_VERSION "\",\"name\":");
    dtri_output_json(s->out, run->program[0] ? run->program : run->trace);
    dtri_output_text(s->out, ",\"activeProfileIndex\":0,\"profiles\":[");
}

static void write_frames(struct speedscope *s)
{
    dtri_output_text(s->out, "],\"shared\":{\"frames\":[");
    for (size_t i = 0; i < s->n_frames; i++) {
        dtri_output_text(s->out, i ? ",\n{\"name\":" : "\n{\"name\":");
        int64_t name = s->frames[i];
        dtri_output_json(s->out, name == DTR_NONE    ? "rematerialization"
                                 : name == INT64_MIN ? ""
                                                     : dtri_names_text(s->job->names, name));
        dtri_output_text(s->out, "}");
    }
    dtri_output_text(s->out, "]}}\n");
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct speedscope s = {.job = job, .out = out};
    write_title(&s);
    dtr_status status = write_profiles(&s, error);
    if (status == DTR_OK)
        write_frames(&s);
    dtri_free(s.slots);
    dtri_free(s.frames);
    return status;
}

const struct dtri_export_format dtri_export_speedscope = {
    .name = "speedscope",
    .extension = "speedscope.json",
    .summary = "speedscope's profile: operators by time, first runs and replays apart",
    .write = write,
};
