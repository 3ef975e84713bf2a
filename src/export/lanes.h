/* What the viewers draw: which events are slices, and on which lane each goes.
 *
 * A viewer nests slices of one lane by their times alone, so two slices of a lane may touch but
 * never overlap, unless one lies within the other and comes after it in the file.  Spans are
 * emitted at their end, so the stream is sorted by end and not by begin; a slice that begins before
 * the last one of a lane ended goes to the next lane of its group.  In a run of one runtime the
 * first lane is enough: operator runs do not overlap, nor do rematerializations.  Ranges nest and
 * are known by their begin, so they go out as edges, as iterations and phases do.
 *
 * Within a lane slices and edges come in the order of time.  Memory is a number a lane. */
#ifndef DTRI_EXPORT_LANES_H
#define DTRI_EXPORT_LANES_H

#include "export/export.h"

enum dtri_lane_group {
    DTRI_LANE_ITERATIONS,
    DTRI_LANE_PHASES,
    DTRI_LANE_RANGES,
    DTRI_LANE_OPERATORS,
    DTRI_LANE_CHAINS,
    DTRI_LANE_INSTANTS, /* evictions and the like: no slices */
    DTRI_LANE_GROUPS,
};

/* The kinds of events that viewers show. */
#define DTRI_VIEWER_KINDS                                                                          \
    (DTRI_KIND_BIT(DTR_EVENT_OPERATOR_RUN) | DTRI_KIND_BIT(DTR_EVENT_CHAIN) |                      \
     DTRI_KIND_BIT(DTR_EVENT_ALLOCATION) | DTRI_KIND_BIT(DTR_EVENT_FREEING) |                      \
     DTRI_KIND_BIT(DTR_EVENT_EVICTION) | DTRI_KIND_BIT(DTR_EVENT_CANDIDATE) |                      \
     DTRI_KIND_BIT(DTR_EVENT_BUDGET) | DTRI_KIND_BIT(DTR_EVENT_OUT_OF_MEMORY) |                    \
     DTRI_KIND_BIT(DTR_EVENT_MARK) | DTRI_KIND_BIT(DTR_EVENT_BARRIER) |                            \
     DTRI_KIND_BIT(DTR_EVENT_HAZARD) | DTRI_KIND_BIT(DTR_EVENT_ALLOCATOR))

#define DTRI_LANES_MAX 256 /* of one group */

/* "operators" for lane 0, "operators 2" for lane 1. */
void dtri_lane_name(enum dtri_lane_group group, int lane, char *text, size_t size);

struct dtri_lanes {
    int64_t ends[DTRI_LANES_MAX]; /* of the last slice */
    int n;
};

/* The lane for a slice from `begin` to `end`, or -1 when all DTRI_LANES_MAX are taken. */
int dtri_lanes_place(struct dtri_lanes *lanes, int64_t begin, int64_t end);

/* Edges of iterations, phases and ranges.  An end has the name of its begin. */
typedef void (*dtri_edge)(void *user, enum dtri_lane_group group, bool begin, int64_t ts,
                          const char *name);

#define DTRI_RANGES_NAMED 256 /* a range that lies deeper ends with "" */

struct dtri_marks {
    const struct dtri_names *names;
    dtri_edge edge;
    void *user;
    int64_t ts; /* of the last edge: none goes back in time */
    int64_t n_ranges;
    int64_t ranges[DTRI_RANGES_NAMED]; /* name ids of the open ones */
    const char *phase;                 /* NULL: none is open */
    char iteration[40];                /* "": none is open */
};

/* Feeds one mark event.  An end without its begin, as at the start of a cut, is left out. */
void dtri_marks_feed(struct dtri_marks *marks, int64_t ts, const dtr_event_mark *mark);
/* Ends what is open at `ts`, or at the last edge if that is later. */
void dtri_marks_finish(struct dtri_marks *marks, int64_t ts);

/* The time of an event since the base time of the run.  DTR_E_LIMIT when a double cannot hold it to
 * the nanosecond (2^53 ns are 104 days). */
dtr_status dtri_export_time(const struct dtri_export *job, int64_t ts_ns, int64_t *out_ns,
                            dtr_error *error);
/* Begin and end of a span, both as dtri_export_time gives them. */
dtr_status dtri_export_span(const struct dtri_export *job, int64_t ts_ns, int64_t dur_ns,
                            int64_t *out_begin, int64_t *out_end, dtr_error *error);
dtr_status dtri_lanes_fail(const struct dtri_export *job, int64_t seq, dtr_error *error);

const char *dtri_eviction_reason(int64_t reason);

/* What the viewers show of an eviction for the budget: the score of its victim. */
struct dtri_scores {
    int64_t decision;
    double score;
};
void dtri_scores_feed(struct dtri_scores *scores, const dtr_event *event); /* any event */
bool dtri_scores_of(const struct dtri_scores *scores, int64_t decision, double *out_score);

/* Why histories were cut, or something is kept: "barrier: " or "kept: " and the cause; false for
 * any other event. */
bool dtri_event_note(const struct dtri_names *names, const dtr_event *event, char *out_text,
                     size_t size);
/* Bytes in use after an event that changes them; false for any other event. */
bool dtri_event_in_use(const dtr_event *event, int64_t *out_bytes);

#endif
