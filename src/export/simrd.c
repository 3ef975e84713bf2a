/* The operator log that the published DTR simulator reads: JSON lines, what the program asked for
 * with the costs of first runs, so that any simulator of that format can replay the run.
 *
 * A tensor t is x<t>, and each further reference to it gets a name of its own (COPY), since that
 * simulator lets a name be bound once; releases go by x<t>.  An in-place operator is a CALL: it was
 * recorded as the copy on write that MUTATE stands for.  Where the format has no word, an ANNOTATE
 * line says it, which other simulators pass over and `dtrscope sim` understands: LIVE (replay
 * reclaims as the program did), PIN, UNPIN, MAKE_CONSTANT and MARK.
 *
 * An operator is known by its block of events (operator, operands, tensors) and written when its
 * first run comes, which tells its cost; one that never ran failed, and is left out.  A release in
 * between is written after the operator: a host's in-place operator lets go of its input before its
 * run is told, and a name that was released is no argument.  Memory grows with the tensors that the
 * program holds, not with the run. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/export.h"
#include "export/live_map.h"

#define OPERANDS_MAX 65536

struct output {
    int64_t tensor, storage, bytes, view_of; /* view_of: a tensor, or DTR_NONE */
};

struct simrd {
    const struct dtri_export *job;
    struct dtri_output *out;
    struct dtri_live_map tensors, storages; /* that the program holds */
    int64_t op;                             /* waiting for its first run, or DTR_NONE */
    int64_t name;
    int64_t n_inputs, n_outputs;
    int64_t *inputs;
    struct output *outputs;
    int64_t *released; /* tensors, since the operator that waits was called */
    size_t inputs_seen, outputs_seen, n_released, cap_inputs, cap_outputs, cap_released;
};

/* The values of the maps. */
enum { REFERENCES, PINS, COPIES, STORAGE };
enum { BYTES, TENSORS };

static dtr_status damaged(const struct simrd *s, const char *what, int64_t id, dtr_error *error)
{
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "%s: run %" PRId64 ": %s (%" PRId64 "); `dtrscope check` tells what else is "
                     "wrong",
                     dtri_store_path(s->job->store), s->job->run->id, what, id);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void write_tensor(struct dtri_output *out, const char *key, int64_t tensor)
{
    dtri_output_text(out, key);
    dtri_output_text(out, "\"x");
    dtri_output_int(out, tensor);
    dtri_output_text(out, "\"");
}

/* Numbers are texts in this format. */
static void write_number(struct dtri_output *out, const char *key, int64_t number)
{
    dtri_output_text(out, key);
    dtri_output_text(out, "\"");
    dtri_output_int(out, number);
    dtri_output_text(out, "\"");
}

static void write_memory(struct dtri_output *out, int64_t tensor, int64_t bytes)
{
    write_tensor(out, "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":", tensor);
    write_number(out, ",\"MEMORY\":", bytes);
    dtri_output_text(out, "}\n");
}

static void write_constant(struct dtri_output *out, int64_t tensor, int64_t bytes)
{
    write_tensor(out, "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":", tensor);
    dtri_output_text(out, "}\n");
    write_memory(out, tensor, bytes);
}

static void write_annotation(struct dtri_output *out, const char *what, int64_t tensor)
{
    dtri_output_text(out, "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"");
    dtri_output_text(out, what);
    write_tensor(out, "\",\"NAME\":", tensor);
    dtri_output_text(out, "}\n");
}

/* Place of a tensor among the inputs, or -1. */
static int64_t place(const struct simrd *s, int64_t tensor)
{
    for (size_t i = 0; i < s->inputs_seen; i++)
        if (s->inputs[i] == tensor)
            return (int64_t)i;
    return -1;
}

static void write_call(struct simrd *s, int64_t cost_ns)
{
    struct dtri_output *out = s->out;
    dtri_output_text(out, "{\"INSTRUCTION\":\"CALL\",\"NAME\":");
    dtri_output_json(out, dtri_names_text(s->job->names, s->name));
    dtri_output_text(out, ",\"ARGS\":[");
    for (size_t i = 0; i < s->inputs_seen; i++)
        write_tensor(out, i ? "," : "", s->inputs[i]);
    dtri_output_text(out, "],\"RESULT\":[");
    for (size_t i = 0; i < s->outputs_seen; i++)
        write_tensor(out, i ? "," : "", s->outputs[i].tensor);
    write_number(out, "],\"TIME\":", cost_ns);
    dtri_output_text(out, "}\n");
    for (size_t i = 0; i < s->outputs_seen; i++) {
        const struct output *o = &s->outputs[i];
        int64_t view = o->view_of == DTR_NONE ? -1 : place(s, o->view_of);
        write_memory(out, o->tensor, view < 0 ? o->bytes : 0);
        write_tensor(out, "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":", o->tensor);
        write_number(out, ",\"ALIAS\":", view);
        dtri_output_text(out, "}\n");
    }
}

/* --- events ----------------------------------------------------------------------------------- */

static dtr_status hold(struct simrd *s, int64_t tensor, int64_t storage, dtr_error *error)
{
    if (dtri_live_map_find(&s->tensors, tensor))
        return damaged(s, "a tensor is made twice", tensor, error);
    int64_t *held = dtri_live_map_add(&s->tensors, tensor);
    int64_t *home = dtri_live_map_find(&s->storages, storage);
    if (!held)
        return dtri_fail_nomem(error, "the tensors of a run");
    held[REFERENCES] = 1;
    held[STORAGE] = storage;
    if (home)
        home[TENSORS]++;
    return DTR_OK;
}

static void drop_unheld(struct simrd *s, int64_t tensor)
{
    const int64_t *held = dtri_live_map_find(&s->tensors, tensor);
    if (held[REFERENCES] > 0 || held[PINS] > 0)
        return;
    int64_t storage = held[STORAGE], *home = dtri_live_map_find(&s->storages, storage);
    if (home && --home[TENSORS] <= 0)
        dtri_live_map_remove(&s->storages, storage);
    dtri_live_map_remove(&s->tensors, tensor);
}

static dtr_status note_storage(struct simrd *s, const dtr_event_storage *storage, dtr_error *error)
{
    int64_t *values = dtri_live_map_add(&s->storages, storage->storage);
    if (!values)
        return dtri_fail_nomem(error, "the storages of a run");
    values[BYTES] = storage->bytes;
    return DTR_OK;
}

static dtr_status bytes_of(const struct simrd *s, int64_t storage, int64_t *out_bytes,
                           dtr_error *error)
{
    const int64_t *values = dtri_live_map_find(&s->storages, storage);
    if (!values || values[BYTES] < 0)
        return damaged(s, "a tensor lives on a storage that was not announced", storage, error);
    *out_bytes = values[BYTES];
    return DTR_OK;
}

static dtr_status begin_operator(struct simrd *s, const dtr_event_operator *op, dtr_error *error)
{
    if (op->n_inputs < 0 || op->n_inputs > OPERANDS_MAX || op->n_outputs < 1 ||
        op->n_outputs > OPERANDS_MAX)
        return damaged(s, "an operator has a wrong number of operands", op->op, error);
    s->op = op->op;
    s->name = op->name;
    s->n_inputs = op->n_inputs;
    s->n_outputs = op->n_outputs;
    s->inputs_seen = s->outputs_seen = 0;
    return DTR_OK;
}

static dtr_status add_input(struct simrd *s, const dtr_event_operand *operand, dtr_error *error)
{
    if (operand->op != s->op || (int64_t)s->inputs_seen >= s->n_inputs)
        return damaged(s, "an operand without its operator", operand->op, error);
    if (!DTRI_RESERVE(s->inputs, s->cap_inputs, s->inputs_seen + 1))
        return dtri_fail_nomem(error, "an operator");
    s->inputs[s->inputs_seen++] = operand->tensor;
    return DTR_OK;
}

/* A tensor of an operator's block, or one alone: a constant. */
static dtr_status add_tensor(struct simrd *s, const dtr_event_tensor *tensor, dtr_error *error)
{
    int64_t bytes = 0;
    bool of_block = s->op != DTR_NONE && tensor->op == s->op;
    if (!of_block && !tensor->constant)
        return DTR_OK;
    dtr_status status = bytes_of(s, tensor->storage, &bytes, error);
    if (status != DTR_OK)
        return status;
    if (!of_block) {
        write_constant(s->out, tensor->tensor, bytes);
        return hold(s, tensor->tensor, tensor->storage, error);
    }
    if ((int64_t)s->outputs_seen >= s->n_outputs)
        return damaged(s, "an operator has more tensors than it said", s->op, error);
    if (!DTRI_RESERVE(s->outputs, s->cap_outputs, s->outputs_seen + 1))
        return dtri_fail_nomem(error, "an operator");
    s->outputs[s->outputs_seen++] =
        (struct output){tensor->tensor, tensor->storage, bytes, tensor->view_of};
    return DTR_OK;
}

/* A tensor that is not known is of an operator that failed. */
static void write_copy(struct simrd *s, int64_t tensor)
{
    int64_t *held = dtri_live_map_find(&s->tensors, tensor);
    if (!held)
        return;
    held[REFERENCES]++;
    write_tensor(s->out, "{\"INSTRUCTION\":\"COPY\",\"SRC\":", tensor);
    dtri_output_text(s->out, ",\"DST\":\"x");
    dtri_output_int(s->out, tensor);
    dtri_output_text(s->out, ".");
    dtri_output_int(s->out, ++held[COPIES]);
    dtri_output_text(s->out, "\"}\n");
}

static void write_release(struct simrd *s, int64_t tensor)
{
    int64_t *held = dtri_live_map_find(&s->tensors, tensor);
    if (!held)
        return;
    held[REFERENCES]--;
    write_tensor(s->out, "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":", tensor);
    dtri_output_text(s->out, "}\n");
    drop_unheld(s, tensor);
}

/* Those that waited for an operator. */
static void write_releases(struct simrd *s)
{
    for (size_t i = 0; i < s->n_released; i++)
        write_release(s, s->released[i]);
    s->n_released = 0;
}

static dtr_status take_reference(struct simrd *s, const dtr_event_reference *reference,
                                 dtr_error *error)
{
    if (reference->delta > 0) {
        write_copy(s, reference->tensor);
    } else if (s->op == DTR_NONE) {
        write_release(s, reference->tensor);
    } else {
        if (!DTRI_RESERVE(s->released, s->cap_released, s->n_released + 1))
            return dtri_fail_nomem(error, "the tensors of a run");
        s->released[s->n_released++] = reference->tensor;
    }
    return DTR_OK;
}

static dtr_status end_operator(struct simrd *s, const dtr_event_operator_run *run, dtr_error *error)
{
    if (run->replay)
        return DTR_OK;
    if (run->op != s->op || (int64_t)s->inputs_seen != s->n_inputs ||
        (int64_t)s->outputs_seen != s->n_outputs || run->cost_ns < 0)
        return damaged(s, "the events of an operator are not together", run->op, error);
    for (size_t i = 0; i < s->inputs_seen; i++)
        if (!dtri_live_map_find(&s->tensors, s->inputs[i]))
            return damaged(s, "an operator takes a tensor that is not there", run->op, error);
    write_call(s, run->cost_ns);
    dtr_status status = DTR_OK;
    for (size_t i = 0; i < s->outputs_seen && status == DTR_OK; i++)
        status = hold(s, s->outputs[i].tensor, s->outputs[i].storage, error);
    s->op = DTR_NONE;
    write_releases(s);
    return status;
}

/* Also a tensor that the program has released becomes a constant, when what was computed from it is
 * isolated; so it is known, but not held. */
static void write_pin(struct simrd *s, const dtr_event_pin *pin)
{
    int64_t *held = dtri_live_map_find(&s->tensors, pin->tensor);
    if (!held && (pin->change == 1 || pin->change == -1))
        return;
    write_annotation(s->out,
                     pin->change == 1    ? "PIN"
                     : pin->change == -1 ? "UNPIN"
                                         : "MAKE_CONSTANT",
                     pin->tensor);
    if (!held)
        return;
    held[PINS] += pin->change == 1 || pin->change == -1 ? pin->change : 0;
    drop_unheld(s, pin->tensor);
}

static void write_mark(struct simrd *s, const dtr_event_mark *mark)
{
    struct dtri_output *out = s->out;
    dtri_output_text(out, "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"");
    if (mark->mark == DTR_MARK_BACKWARD && mark->name == DTR_NONE && mark->value == DTR_NONE) {
        dtri_output_text(out, "BACKWARD\"}\n");
        return;
    }
    write_number(out, "MARK\",\"MARK\":", mark->mark);
    if (mark->name != DTR_NONE) {
        dtri_output_text(out, ",\"NAME\":");
        dtri_output_json(out, dtri_names_text(s->job->names, mark->name));
    }
    if (mark->value != DTR_NONE)
        write_number(out, ",\"VALUE\":", mark->value);
    dtri_output_text(out, "}\n");
}

/* What may come between the call of an operator and its first run. */
static bool is_of_operator(const struct simrd *s, const dtr_event *event)
{
    switch (event->kind) {
    case DTR_EVENT_STORAGE:
    case DTR_EVENT_OPERAND:
    case DTR_EVENT_OPERATOR_RUN:
        return true;
    case DTR_EVENT_TENSOR:
        return event->u.tensor_.op == s->op;
    case DTR_EVENT_REFERENCE:
        return event->u.reference_.delta < 0;
    default:
        return false;
    }
}

static dtr_status write_event(struct simrd *s, const dtr_event *event, dtr_error *error)
{
    if (!is_of_operator(s, event)) /* the operator that waited failed, if any did */
        write_releases(s);
    switch (event->kind) {
    case DTR_EVENT_STORAGE:
        return note_storage(s, &event->u.storage_, error);
    case DTR_EVENT_TENSOR:
        return add_tensor(s, &event->u.tensor_, error);
    case DTR_EVENT_OPERATOR:
        return begin_operator(s, &event->u.operator_, error);
    case DTR_EVENT_OPERAND:
        return add_input(s, &event->u.operand_, error);
    case DTR_EVENT_OPERATOR_RUN:
        return end_operator(s, &event->u.operator_run_, error);
    case DTR_EVENT_REFERENCE:
        return take_reference(s, &event->u.reference_, error);
    case DTR_EVENT_PIN:
        write_pin(s, &event->u.pin_);
        return DTR_OK;
    default:
        write_mark(s, &event->u.mark_);
        return DTR_OK;
    }
}

/* --- the file --------------------------------------------------------------------------------- */

/* True when parts of the run were not recorded on purpose. */
static bool has_gaps(const struct dtri_export *job)
{
    sqlite3_stmt *statement = NULL;
    bool gaps = false;
    if (sqlite3_prepare_v2(dtri_store_db(job->store),
                           "SELECT 1 FROM recording_window WHERE run = ?1 AND (skipped <> 0 OR "
                           "id <> 0 OR opened_by <> 'start' OR closed_by <> 'end') LIMIT 1",
                           -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, job->run->id);
        gaps = sqlite3_step(statement) == SQLITE_ROW;
    }
    sqlite3_finalize(statement);
    return gaps;
}

static dtr_status refuse_part(const struct dtri_export *job, dtr_error *error)
{
    const char *path = dtri_store_path(job->store);
    if (job->n_losses)
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s: events of the run are lost (%s), so it cannot be replayed; record it "
                         "again with a larger ring or more disk space",
                         path, job->losses[0].reason);
    if (has_gaps(job))
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s: parts of the run were not recorded, so it cannot be replayed; record "
                         "it again as a whole",
                         path);
    if (job->kinds != DTRI_ALL_KINDS || job->ts_min != INT64_MIN || job->ts_max != INT64_MAX ||
        job->seq_min != INT64_MIN || job->seq_max != INT64_MAX)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "an operator log is of a whole run; leave out --events, --start, --end "
                         "and --steps");
    return DTR_OK;
}

#define KINDS                                                                                      \
    (DTRI_KIND_BIT(DTR_EVENT_STORAGE) | DTRI_KIND_BIT(DTR_EVENT_TENSOR) |                          \
     DTRI_KIND_BIT(DTR_EVENT_OPERATOR) | DTRI_KIND_BIT(DTR_EVENT_OPERAND) |                        \
     DTRI_KIND_BIT(DTR_EVENT_OPERATOR_RUN) | DTRI_KIND_BIT(DTR_EVENT_REFERENCE) |                  \
     DTRI_KIND_BIT(DTR_EVENT_PIN) | DTRI_KIND_BIT(DTR_EVENT_MARK))

static dtr_status write_events(struct simrd *s, dtr_error *error)
{
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_status status = dtri_export_open(s->job, KINDS, &stream, error);
    if (status != DTR_OK)
        return status;
    while ((status = dtri_export_next(s->job, stream, &event, error)) == DTR_OK && event &&
           dtri_output_good(s->out))
        if ((status = write_event(s, event, error)) != DTR_OK)
            break;
    write_releases(s);
    dtri_stream_free(stream);
    return status;
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct simrd s = {.job = job, .out = out, .op = DTR_NONE};
    dtr_status status = refuse_part(job, error);
    if (status != DTR_OK)
        return status;
    dtri_output_text(out, "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n");
    if (strcmp(job->run->kind, "live") == 0)
        dtri_output_text(out, "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"LIVE\"}\n");
    status = write_events(&s, error);
    dtri_live_map_done(&s.tensors);
    dtri_live_map_done(&s.storages);
    dtri_free(s.inputs);
    dtri_free(s.outputs);
    dtri_free(s.released);
    return status;
}

const struct dtri_export_format dtri_export_simrd = {
    .name = "simrd",
    .extension = "log",
    .summary = "operator log of the published DTR simulator, for any simulator of that format",
    .write = write,
};
