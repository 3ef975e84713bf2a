/* The second pass: a run of each lane, its events in the order of time. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/context.h"

#define COMMIT_EVENTS (1 << 20)

struct writer {
    struct dtri_import *import;
    struct dtri_store *store;
    struct dtri_import_lane *lane;
    uint32_t lane_mark; /* the lane's number + 1 */
    struct dtri_run run;
    struct dtri_store_writer *events;
    struct dtri_live live;
    uint32_t *name_in, *frame_in; /* the mark of the lane that has it already */
    int64_t *stack;               /* frames on their way out */
    size_t cap_stack;
    int64_t seq, next_storage, next_op, next_execution;
    int64_t in_use, peak, reserved, reserved_peak, compute;
    int64_t n_events;
    int n_runs;
};

static dtr_status emit(struct writer *w, dtr_event *event, dtr_event_kind kind, int64_t ts,
                       dtr_error *error)
{
    event->kind = kind;
    event->ts_ns = ts;
    event->seq = w->seq++;
    dtr_status status = dtri_store_writer_add(w->events, event, error);
    if (status == DTR_OK && ++w->n_events % COMMIT_EVENTS == 0)
        status = dtri_store_commit(w->store, error);
    return status;
}

/* Gives the run the text of a name, once. */
static dtr_status use_name(struct writer *w, int64_t id, dtr_error *error)
{
    if (id == DTR_NONE || w->name_in[id] == w->lane_mark)
        return DTR_OK;
    w->name_in[id] = w->lane_mark;
    return dtri_store_add_name(w->store, w->run.id, id, w->import->names.texts[id], error);
}

/* The frame and its callers that the run does not have yet, the outermost first. */
static dtr_status use_frame(struct writer *w, int64_t frame, int64_t ts, dtr_error *error)
{
    size_t n = 0;
    dtr_status status = DTR_OK;
    for (int64_t f = frame; f != DTR_NONE && w->frame_in[f] != w->lane_mark;
         f = dtri_frames_parent(&w->import->frames, f)) {
        if (!DTRI_RESERVE(w->stack, w->cap_stack, n + 1))
            return dtri_fail_nomem(error, "a call stack");
        w->stack[n++] = f;
        w->frame_in[f] = w->lane_mark;
    }
    while (n-- > 0 && status == DTR_OK) {
        int64_t frame_name = w->import->frames.frames[w->stack[n]].name;
        int64_t parent = dtri_frames_parent(&w->import->frames, w->stack[n]);
        dtr_event event = {.u.frame_ = {w->stack[n], parent, frame_name}};
        status = use_name(w, frame_name, error);
        if (status == DTR_OK)
            status = emit(w, &event, DTR_EVENT_FRAME, ts, error);
    }
    return status;
}

static dtr_status add_operator(struct writer *w, int64_t name, int n_outputs, int64_t ts,
                               dtr_error *error)
{
    dtr_event event = {.u.operator_ = {w->next_op++, name, 0, n_outputs, 0}};
    dtr_status status = use_name(w, name, error);
    return status == DTR_OK ? emit(w, &event, DTR_EVENT_OPERATOR, ts, error) : status;
}

/* The allocation's call stack becomes the origin of an operator, which made the storage. */
static dtr_status add_origin(struct writer *w, int64_t frame, int n_outputs, int64_t ts,
                             dtr_error *error)
{
    if (frame == DTR_NONE)
        return DTR_OK;
    dtr_status status = use_frame(w, frame, ts, error);
    if (status == DTR_OK)
        status = add_operator(w, w->import->frames.frames[frame].name, n_outputs, ts, error);
    return status;
}

static dtr_status allocate(struct writer *w, const struct dtri_live_block *block, int64_t frame,
                           int64_t ts, dtr_error *error)
{
    int64_t id = w->next_storage++;
    bool has_op = frame != DTR_NONE;
    struct dtri_live_block live = {block->address, block->bytes, id};
    dtr_status status = add_origin(w, frame, 1, ts, error);
    int64_t op = has_op ? w->next_op - 1 : DTR_NONE;
    if (status == DTR_OK && block->address != DTR_NONE && !dtri_live_add(&w->live, &live))
        status = dtri_fail_nomem(error, "allocated blocks");
    dtr_event storage = {.u.storage_ = {id, block->bytes, id}};
    if (status == DTR_OK)
        status = emit(w, &storage, DTR_EVENT_STORAGE, ts, error);
    dtr_event tensor = {.u.tensor_ = {id, id, op, 0, DTR_NONE, !has_op}};
    if (status == DTR_OK)
        status = emit(w, &tensor, DTR_EVENT_TENSOR, ts, error);
    dtr_event origin = {.u.origin_ = {op, frame}};
    if (status == DTR_OK && has_op)
        status = emit(w, &origin, DTR_EVENT_ORIGIN, ts, error);
    w->in_use = dtri_import_add(w->in_use, block->bytes);
    w->peak = w->in_use > w->peak ? w->in_use : w->peak;
    dtr_event event = {.u.allocation_ = {id, block->bytes, w->in_use, block->address}};
    return status == DTR_OK ? emit(w, &event, DTR_EVENT_ALLOCATION, ts, error) : status;
}

static dtr_status release(struct writer *w, int64_t address, int64_t ts, dtr_error *error)
{
    struct dtri_live_block block;
    if (!dtri_live_take(&w->live, address, &block))
        return DTR_OK;
    w->in_use = dtri_import_add(w->in_use, -block.bytes);
    dtr_event event = {.u.freeing_ = {block.storage, block.bytes, w->in_use}};
    return emit(w, &event, DTR_EVENT_FREEING, ts, error);
}

static dtr_status write_run(struct writer *w, const struct dtri_record *r, dtr_error *error)
{
    int64_t begin = r->time - r->a, op = w->next_op;
    dtr_status status = add_operator(w, r->b, 0, begin, error);
    dtr_event event = {.u.operator_run_ = {w->next_execution++, op, r->b, r->a, r->a, 0, DTR_NONE,
                                           0, DTR_NONE, DTR_NONE,
                                           w->lane->span.memory ? w->in_use : DTR_NONE}};
    w->compute = dtri_import_add(w->compute, r->a);
    return status == DTR_OK ? emit(w, &event, DTR_EVENT_OPERATOR_RUN, begin, error) : status;
}

static dtr_status write_mark(struct writer *w, int64_t mark, int64_t name, int64_t value,
                             int64_t ts, dtr_error *error)
{
    dtr_event event = {.u.mark_ = {mark, name, value}};
    dtr_status status = use_name(w, name, error);
    return status == DTR_OK ? emit(w, &event, DTR_EVENT_MARK, ts, error) : status;
}

/* There is no event for reserved bytes: an empty range carries them as its value. */
static dtr_status write_reserve(struct writer *w, const struct dtri_record *r, dtr_error *error)
{
    w->reserved = dtri_import_add(w->reserved, r->a);
    w->reserved_peak = w->reserved > w->reserved_peak ? w->reserved : w->reserved_peak;
    dtr_status status = write_mark(w, DTR_MARK_RANGE_BEGIN, r->b, w->reserved, r->time, error);
    if (status == DTR_OK)
        status = write_mark(w, DTR_MARK_RANGE_END, r->b, w->reserved, r->time, error);
    return status;
}

static dtr_status write_oom(struct writer *w, const struct dtri_record *r, dtr_error *error)
{
    int64_t budget = r->a == DTR_NONE ? DTR_NONE : dtri_import_add(r->a, w->reserved);
    dtr_status status = add_origin(w, r->c, 0, r->time, error);
    int64_t op = r->c == DTR_NONE ? DTR_NONE : w->next_op - 1;
    dtr_event origin = {.u.origin_ = {op, r->c}};
    if (status == DTR_OK && op != DTR_NONE)
        status = emit(w, &origin, DTR_EVENT_ORIGIN, r->time, error);
    dtr_event event = {.u.out_of_memory_ = {op, r->b, w->in_use, budget, r->b, 0}};
    return status == DTR_OK ? emit(w, &event, DTR_EVENT_OUT_OF_MEMORY, r->time, error) : status;
}

static dtr_status write_begin(struct writer *w, const struct dtri_record *r, dtr_error *error)
{
    dtr_status status = dtri_import_begin_span(w->import, r, error);
    if (status == DTR_OK && r->c == DTRI_SPAN_RANGE)
        status = write_mark(w, DTR_MARK_RANGE_BEGIN, r->b, DTR_NONE, r->time, error);
    return status;
}

static dtr_status write_end(struct writer *w, const struct dtri_record *r, dtr_error *error)
{
    struct dtri_record begin;
    if (!dtri_import_end_span(w->import, r, &begin) || begin.c == DTRI_SPAN_STEP)
        return DTR_OK;
    if (begin.c == DTRI_SPAN_RANGE)
        return write_mark(w, DTR_MARK_RANGE_END, begin.b, DTR_NONE, r->time, error);
    struct dtri_record run = {.time = r->time, .a = r->time - begin.time, .b = begin.b};
    return write_run(w, &run, error);
}

static dtr_status write_record(struct writer *w, const struct dtri_record *r, dtr_error *error)
{
    dtr_status status;
    switch ((enum dtri_record_type)r->type) {
    case DTRI_RECORD_RUN:
        return write_run(w, r, error);
    case DTRI_RECORD_BEGIN:
        return write_begin(w, r, error);
    case DTRI_RECORD_END:
        return write_end(w, r, error);
    case DTRI_RECORD_MARK:
        return write_mark(w, r->a, r->b, r->c, r->time, error);
    case DTRI_RECORD_ALLOC:
        status = release(w, r->a, r->time, error);
        if (status != DTR_OK)
            return status;
        return allocate(w, &(struct dtri_live_block){r->a, r->b, 0}, r->c, r->time, error);
    case DTRI_RECORD_FREE:
        return release(w, r->a, r->time, error);
    case DTRI_RECORD_OOM:
        return write_oom(w, r, error);
    case DTRI_RECORD_RESERVE:
        return write_reserve(w, r, error);
    case DTRI_RECORD_TOTAL:
    case DTRI_RECORD_BLOCK:
    case DTRI_RECORD_RESERVED:
        break;
    }
    return DTR_OK;
}

/* --- runs ------------------------------------------------------------------------------------- */

static void describe_run(struct writer *w)
{
    const struct dtri_import *import = w->import;
    const struct dtri_import_span *span = &w->lane->span;
    struct dtri_run *run = &w->run;
    dtri_run_init(run, "import");
    dtri_run_set_text(run->clock, import->logical ? "logical" : "monotonic");
    dtri_run_set_text(run->source, import->path);
    if (w->lane->program != DTR_NONE)
        dtri_run_set_text(run->program, import->names.texts[w->lane->program]);
    run->pid = w->lane->pid;
    run->rank = import->rank;
    run->has_events = 1;
    run->base_ts_ns = span->any ? span->first_ns : 0;
    if (import->unix_offset_ns != DTRI_NULL && !import->logical) {
        run->unix_offset_ns = import->unix_offset_ns;
        run->started_at_unix_ns = dtri_import_add(run->base_ts_ns, import->unix_offset_ns);
    }
}

/* What was in use before the first record, as if allocated at its time. */
static dtr_status write_before(struct writer *w, dtr_error *error)
{
    const struct dtri_import_span *span = &w->lane->span;
    dtr_status status = DTR_OK;
    for (size_t i = 0; i < span->n_before && status == DTR_OK; i++)
        status = allocate(w, &span->before[i], DTR_NONE, w->run.base_ts_ns, error);
    struct dtri_live_block rest = {.address = DTR_NONE, .bytes = span->rest};
    if (span->rest && status == DTR_OK)
        status = allocate(w, &rest, DTR_NONE, w->run.base_ts_ns, error);
    return status;
}

static dtr_status begin_run(struct writer *w, uint32_t lane, dtr_error *error)
{
    w->lane = &w->import->lanes[lane];
    w->lane_mark = lane + 1;
    w->seq = w->next_storage = w->next_op = w->next_execution = 0;
    w->in_use = w->peak = w->compute = 0;
    w->reserved = w->reserved_peak = w->lane->span.reserved;
    dtri_live_clear(&w->live);
    describe_run(w);
    dtr_status status = dtri_store_add_run(w->store, &w->run, error);
    if (status == DTR_OK)
        status = dtri_store_writer_new(w->store, w->run.id, &w->events, error);
    return status == DTR_OK ? write_before(w, error) : status;
}

static dtr_status write_losses(struct writer *w, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (int i = 0; i < DTRI_N_REASONS && status == DTR_OK; i++)
        if (w->lane->counts[i] && dtri_import_reason_is_loss(i))
            status =
                dtri_store_add_loss(w->store, w->run.id, dtri_import_reason_text(i),
                                    i == DTRI_REASON_CUT ? DTRI_NULL : w->lane->counts[i], error);
    return status;
}

static dtr_status end_run(struct writer *w, dtr_error *error)
{
    if (!w->lane)
        return DTR_OK;
    const struct dtri_import_span *span = &w->lane->span;
    struct dtri_run *run = &w->run;
    dtri_run_set_text(run->result, "ok");
    run->clock_ns = span->any ? span->last_ns - span->first_ns : 0;
    run->model_compute_ns = w->compute;
    run->operator_runs = w->next_execution;
    run->remat_compute_ns = run->evictions = run->rematerializations = 0;
    run->slowdown = 1;
    if (span->memory)
        run->peak_bytes = w->peak;
    if (w->reserved_peak)
        run->allocator_peak_bytes = w->reserved_peak;
    dtr_status status = dtri_store_writer_flush(w->events, error);
    if (status == DTR_OK)
        status = write_losses(w, error);
    if (status == DTR_OK)
        status = dtri_store_update_run(w->store, run, error);
    dtri_store_writer_free(w->events);
    w->events = NULL;
    w->lane = NULL;
    w->n_runs++;
    return status;
}

static dtr_status write_lanes(struct writer *w, dtr_error *error)
{
    const struct dtri_record *record = NULL;
    dtr_status status = dtri_spool_read(w->import->spool, error);
    while (status == DTR_OK) {
        status = dtri_spool_next(w->import->spool, &record, error);
        if (status != DTR_OK || !record)
            break;
        if (w->lane != &w->import->lanes[record->lane]) {
            status = end_run(w, error);
            if (status == DTR_OK)
                status = begin_run(w, record->lane, error);
        }
        if (status == DTR_OK)
            status = write_record(w, record, error);
    }
    return status == DTR_OK ? end_run(w, error) : status;
}

dtr_status dtri_import_write(struct dtri_import *import, struct dtri_store *store,
                             struct dtri_import_result *result, dtr_error *error)
{
    struct writer w = {.import = import, .store = store};
    w.name_in = dtri_calloc(import->names.n, sizeof *w.name_in);
    w.frame_in = dtri_calloc(import->frames.n, sizeof *w.frame_in);
    dtr_status status = w.name_in && w.frame_in ? write_lanes(&w, error)
                                                : dtri_fail_nomem(error, "names and frames");
    dtri_store_writer_free(w.events);
    dtri_live_done(&w.live);
    dtri_free(w.name_in);
    dtri_free(w.frame_in);
    dtri_free(w.stack);
    result->n_runs = w.n_runs;
    return status;
}
