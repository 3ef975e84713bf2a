/* Rebuilding what a program asked for from what the runtime said about it.
 *
 * The events that matter are merged by seq.  An operator is a run of events (operator, its
 * operands, its tensors), emitted together; its cost is that of its first run, which comes later,
 * so costs are looked up beforehand.  An operator without a first run failed, and so did the
 * program then. Evictions, replays and decisions are the runtime's doing and are left out. */
#include "store/store_trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/store.h"

#define NO_TENSOR UINT32_MAX

struct item {
    int64_t seq;
    uint32_t kind; /* index into `loaded` */
    uint32_t row;
};

/* The kinds that say what the program asked for. */
static const dtr_event_kind loaded[] = {
    DTR_EVENT_STORAGE,   DTR_EVENT_TENSOR, DTR_EVENT_OPERATOR, DTR_EVENT_OPERAND,
    DTR_EVENT_REFERENCE, DTR_EVENT_PIN,    DTR_EVENT_MARK,
};
#define N_LOADED (sizeof loaded / sizeof loaded[0])

struct rebuild {
    struct dtri_store *store;
    int64_t run;
    struct dtri_rows rows[N_LOADED];
    struct item *items;
    size_t n_items;
    int64_t *costs; /* by operator; DTR_NONE: no first run */
    size_t n_costs, cap_costs;
    uint32_t *tensors; /* trace numbers by tensor id */
    size_t n_tensors, cap_tensors;
    int64_t *bytes; /* by storage id */
    size_t n_bytes, cap_bytes;
    char **names;
    size_t n_names, cap_names;
    uint32_t *inputs;
    int64_t *input_ids;
    struct dtri_trace_tensor *outputs;
    int64_t *output_ids;
    size_t cap_inputs, cap_input_ids, cap_outputs, cap_output_ids;
    struct dtri_trace_builder build;
};

static dtr_status damaged(const struct rebuild *b, dtr_error *error, const char *what, int64_t id)
{
    return dtri_fail(error, DTR_E_FORMAT, 0, "%s: run %lld: %s (%lld)", dtri_store_path(b->store),
                     (long long)b->run, what, (long long)id);
}

static const int64_t *fields(const struct rebuild *b, const struct item *item)
{
    const struct dtri_rows *rows = &b->rows[item->kind];
    return rows->rows + item->row * (size_t)rows->n_columns + 2;
}

/* --- loading ---------------------------------------------------------------------------------- */

static int by_seq(const void *a, const void *b)
{
    int64_t x = ((const struct item *)a)->seq, y = ((const struct item *)b)->seq;
    return (x > y) - (x < y);
}

static dtr_status load_items(struct rebuild *b, dtr_error *error)
{
    size_t n = 0;
    for (size_t k = 0; k < N_LOADED; k++) {
        dtr_status status =
            dtri_store_load(b->store, b->run, loaded[k], INT64_MIN, INT64_MAX, &b->rows[k], error);
        if (status != DTR_OK)
            return status;
        n += b->rows[k].n;
    }
    if (n == 0 || n > UINT32_MAX)
        return damaged(b, error, "there are no operators in it", (int64_t)n);
    b->items = dtri_malloc(n * sizeof *b->items);
    if (!b->items)
        return dtri_fail_nomem(error, "events of a run");
    for (uint32_t k = 0; k < N_LOADED; k++)
        for (uint32_t i = 0; i < b->rows[k].n; i++)
            b->items[b->n_items++] = (struct item){
                .seq = b->rows[k].rows[i * (size_t)b->rows[k].n_columns + 1], .kind = k, .row = i};
    qsort(b->items, b->n_items, sizeof *b->items, by_seq);
    return DTR_OK;
}

static dtr_status load_costs(struct rebuild *b, dtr_error *error)
{
    struct dtri_rows rows;
    dtr_status status = dtri_store_load(b->store, b->run, DTR_EVENT_OPERATOR_RUN, INT64_MIN,
                                        INT64_MAX, &rows, error);
    if (status != DTR_OK)
        return status;
    for (size_t i = 0; i < rows.n && status == DTR_OK; i++) {
        const int64_t *f = rows.rows + i * (size_t)rows.n_columns + 2;
        const int64_t op = f[1], cost = f[4], replay = f[5];
        if (replay)
            continue;
        if (op < 0 || op > UINT32_MAX || !DTRI_RESERVE(b->costs, b->cap_costs, (size_t)op + 1)) {
            status = damaged(b, error, "an operator number is out of range", op);
            break;
        }
        for (; b->n_costs <= (size_t)op; b->n_costs++)
            b->costs[b->n_costs] = DTR_NONE;
        b->costs[op] = cost;
    }
    dtri_rows_done(&rows);
    return status;
}

static dtr_status load_names(struct rebuild *b, dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    dtr_status status = DTR_OK;
    if (sqlite3_prepare_v2(dtri_store_db(b->store),
                           "SELECT id, text FROM name WHERE run = ?1 AND id < ?2 ORDER BY id", -1,
                           &statement, NULL) != SQLITE_OK)
        return damaged(b, error, "its names cannot be read", 0);
    sqlite3_bind_int64(statement, 1, b->run);
    sqlite3_bind_int64(statement, 2, DTRI_FRAME_NAMES);
    while (status == DTR_OK && sqlite3_step(statement) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        const char *text = (const char *)sqlite3_column_text(statement, 1);
        if (id < 0 || id > 1 << 24 || !text ||
            !DTRI_RESERVE(b->names, b->cap_names, (size_t)id + 1)) {
            status = damaged(b, error, "a name is out of range", id);
            break;
        }
        for (; b->n_names <= (size_t)id; b->n_names++)
            b->names[b->n_names] = NULL;
        dtri_free(b->names[id]);
        if (!(b->names[id] = dtri_strdup(text)))
            status = dtri_fail_nomem(error, "names of a run");
    }
    sqlite3_finalize(statement);
    return status;
}

/* --- rebuilding ------------------------------------------------------------------------------- */

static const char *name_of(const struct rebuild *b, int64_t id)
{
    return id >= 0 && (size_t)id < b->n_names && b->names[id] ? b->names[id] : "operator";
}

static uint32_t tensor_of(const struct rebuild *b, int64_t id)
{
    return id >= 0 && (size_t)id < b->n_tensors ? b->tensors[id] : NO_TENSOR;
}

static dtr_status map_tensor(struct rebuild *b, int64_t id, uint32_t tensor, dtr_error *error)
{
    if (id < 0 || id > UINT32_MAX || !DTRI_RESERVE(b->tensors, b->cap_tensors, (size_t)id + 1))
        return damaged(b, error, "a tensor number is out of range", id);
    for (; b->n_tensors <= (size_t)id; b->n_tensors++)
        b->tensors[b->n_tensors] = NO_TENSOR;
    b->tensors[id] = tensor;
    return DTR_OK;
}

static dtr_status note_storage(struct rebuild *b, const int64_t *f, dtr_error *error)
{
    int64_t id = f[0];
    if (id < 0 || id > UINT32_MAX || !DTRI_RESERVE(b->bytes, b->cap_bytes, (size_t)id + 1))
        return damaged(b, error, "a storage number is out of range", id);
    for (; b->n_bytes <= (size_t)id; b->n_bytes++)
        b->bytes[b->n_bytes] = -1;
    b->bytes[id] = f[1];
    return DTR_OK;
}

static int64_t bytes_of(const struct rebuild *b, int64_t storage)
{
    return storage >= 0 && (size_t)storage < b->n_bytes ? b->bytes[storage] : -1;
}

/* A tensor outside an operator's block: a constant, or what dtr_make_constant leaves behind. */
static dtr_status lone_tensor(struct rebuild *b, const int64_t *f, dtr_error *error)
{
    uint32_t tensor;
    if (!f[5])
        return DTR_OK;
    int64_t bytes = bytes_of(b, f[1]);
    if (bytes < 0)
        return damaged(b, error, "a constant has no storage", f[0]);
    dtr_status status = dtri_trace_add_constant(&b->build, bytes, &tensor, error);
    return status == DTR_OK ? map_tensor(b, f[0], tensor, error) : status;
}

static int input_place(const struct rebuild *b, size_t n_inputs, int64_t id)
{
    for (size_t i = 0; i < n_inputs; i++)
        if (b->input_ids[i] == id)
            return (int)i;
    return -1;
}

/* Reads the block of one operator, which begins at items[*at]; moves *at to its last item. */
static dtr_status read_block(struct rebuild *b, size_t *at, size_t *out_inputs, size_t *out_outputs,
                             dtr_error *error)
{
    const int64_t *op = fields(b, &b->items[*at]);
    size_t n_inputs = (size_t)op[2], n_outputs = (size_t)op[3], inputs = 0, outputs = 0;
    if (op[2] < 0 || op[2] > 65536 || op[3] < 1 || op[3] > 65536)
        return damaged(b, error, "an operator has a wrong number of operands", op[0]);
    if (!DTRI_RESERVE(b->inputs, b->cap_inputs, n_inputs + 1) ||
        !DTRI_RESERVE(b->input_ids, b->cap_input_ids, n_inputs + 1) ||
        !DTRI_RESERVE(b->outputs, b->cap_outputs, n_outputs) ||
        !DTRI_RESERVE(b->output_ids, b->cap_output_ids, n_outputs))
        return dtri_fail_nomem(error, "an operator");
    while (inputs < n_inputs || outputs < n_outputs) {
        if (++*at >= b->n_items)
            return damaged(b, error, "the events of an operator are cut short", op[0]);
        const struct item *item = &b->items[*at];
        const int64_t *f = fields(b, item);
        if (loaded[item->kind] == DTR_EVENT_STORAGE) {
            dtr_status status = note_storage(b, f, error);
            if (status != DTR_OK)
                return status;
        } else if (loaded[item->kind] == DTR_EVENT_OPERAND && f[0] == op[0] && inputs < n_inputs) {
            b->input_ids[inputs] = f[2];
            b->inputs[inputs++] = tensor_of(b, f[2]);
        } else if (loaded[item->kind] == DTR_EVENT_TENSOR && f[2] == op[0] && outputs < n_outputs) {
            int view = f[4] == DTR_NONE ? -1 : input_place(b, n_inputs, f[4]);
            b->output_ids[outputs] = f[0];
            b->outputs[outputs++] = (struct dtri_trace_tensor){
                .bytes = view < 0 ? bytes_of(b, f[1]) : 0, .view_of = view};
        } else {
            return damaged(b, error, "the events of an operator are not together", op[0]);
        }
    }
    *out_inputs = n_inputs;
    *out_outputs = n_outputs;
    return DTR_OK;
}

static dtr_status add_operator(struct rebuild *b, size_t *at, dtr_error *error)
{
    size_t n_inputs = 0, n_outputs = 0;
    uint32_t first = 0;
    const int64_t *op = fields(b, &b->items[*at]);
    dtr_status status = read_block(b, at, &n_inputs, &n_outputs, error);
    if (status != DTR_OK)
        return status;
    if ((size_t)op[0] >= b->n_costs || b->costs[op[0]] == DTR_NONE)
        return DTR_OK; /* it failed */
    for (size_t i = 0; i < n_inputs; i++)
        if (b->inputs[i] == NO_TENSOR)
            return damaged(b, error, "an operator takes a tensor that was not made", op[0]);
    status = dtri_trace_add_call(&b->build, name_of(b, op[1]), b->costs[op[0]], op[4] != 0,
                                 b->inputs, n_inputs, b->outputs, n_outputs, &first, error);
    for (size_t i = 0; i < n_outputs && status == DTR_OK; i++)
        status = map_tensor(b, b->output_ids[i], first + (uint32_t)i, error);
    return status;
}

static dtr_status add_tensor_step(struct rebuild *b, enum dtri_step_kind kind, int64_t id,
                                  dtr_error *error)
{
    uint32_t tensor = tensor_of(b, id);
    if (tensor == NO_TENSOR)
        return DTR_OK; /* of an operator that failed */
    return dtri_trace_add_step(&b->build, kind, tensor, error);
}

static dtr_status add_pin(struct rebuild *b, const int64_t *f, dtr_error *error)
{
    enum dtri_step_kind kind = f[1] == 1    ? DTRI_STEP_PIN
                               : f[1] == -1 ? DTRI_STEP_UNPIN
                                            : DTRI_STEP_MAKE_CONSTANT;
    return add_tensor_step(b, kind, f[0], error);
}

static dtr_status add_item(struct rebuild *b, size_t *at, dtr_error *error)
{
    const struct item *item = &b->items[*at];
    const int64_t *f = fields(b, item);
    switch (loaded[item->kind]) {
    case DTR_EVENT_STORAGE:
        return note_storage(b, f, error);
    case DTR_EVENT_TENSOR:
        return lone_tensor(b, f, error);
    case DTR_EVENT_OPERATOR:
        return add_operator(b, at, error);
    case DTR_EVENT_REFERENCE:
        return add_tensor_step(b, f[1] > 0 ? DTRI_STEP_RETAIN : DTRI_STEP_RELEASE, f[0], error);
    case DTR_EVENT_PIN:
        return add_pin(b, f, error);
    case DTR_EVENT_MARK:
        if (f[0] < DTR_MARK_ITERATION || f[0] > DTR_MARK_END)
            return damaged(b, error, "an unknown mark", f[0]);
        return dtri_trace_add_mark(&b->build, (dtr_mark)f[0],
                                   f[1] == DTR_NONE ? NULL : name_of(b, f[1]), f[2], error);
    default:
        return damaged(b, error, "an operand without its operator", f[0]);
    }
}

static dtr_status add_outputs(struct rebuild *b, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (uint32_t t = 0; t < b->build.trace->n_tensors && status == DTR_OK; t++)
        if (b->build.references[t])
            status = dtri_trace_add_output(&b->build, t, error);
    return status;
}

static dtr_status find_run(struct rebuild *b, struct dtri_run *out_run, dtr_error *error)
{
    struct dtri_run *runs;
    int n;
    struct dtri_completeness complete;
    dtr_status status = dtri_store_runs(b->store, &runs, &n, error);
    if (status != DTR_OK)
        return status;
    int i = 0;
    while (i < n && runs[i].has_events != 1)
        i++;
    if (i < n)
        *out_run = runs[i];
    dtri_free(runs);
    if (i == n)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                         "%s holds no run with events, only results; give the trace that they came "
                         "from",
                         dtri_store_path(b->store));
    if (strcmp(out_run->kind, "import") == 0 && out_run->trace_hash == DTRI_NULL)
        return dtri_fail(error, DTR_E_UNSUPPORTED, 0,
                         "%s was imported from %s, which does not say what its operators read and "
                         "write, so it cannot be replayed; give a recorded run or an operator log",
                         dtri_store_path(b->store), out_run->source);
    b->run = out_run->id;
    status = dtri_store_completeness(b->store, b->run, &complete, error);
    if (status != DTR_OK || dtri_is_complete(&complete))
        return status;
    if (complete.windows)
        return dtri_fail(
            error, DTR_E_FORMAT, 0,
            "%s: only parts of the run were recorded, so it cannot be replayed; record "
            "it whole",
            dtri_store_path(b->store));
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "%s: %lld events of the run are lost, so it cannot be replayed; record it "
                     "again with a larger ring or more disk space",
                     dtri_store_path(b->store), (long long)(complete.lost + complete.overwritten));
}

static dtr_status rebuild(struct rebuild *b, const char *path, struct dtri_trace **out_trace,
                          dtr_error *error)
{
    struct dtri_run run;
    dtr_status status = find_run(b, &run, error);
    if (status == DTR_OK)
        status = load_costs(b, error);
    if (status == DTR_OK)
        status = load_names(b, error);
    if (status == DTR_OK)
        status = load_items(b, error);
    if (status == DTR_OK)
        status = dtri_trace_begin(&b->build, path, error);
    for (size_t i = 0; i < b->n_items && status == DTR_OK; i++)
        status = add_item(b, &i, error);
    if (status == DTR_OK)
        status = add_outputs(b, error);
    if (status == DTR_OK) {
        b->build.trace->live = strcmp(run.kind, "live") == 0;
        status = dtri_trace_finish(&b->build, out_trace, error);
    }
    dtri_trace_abort(&b->build);
    return status;
}

dtr_status dtri_store_read_trace(const char *path, struct dtri_trace **out_trace, dtr_error *error)
{
    struct rebuild b = {0};
    dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &b.store, error);
    if (status != DTR_OK)
        return status;
    status = rebuild(&b, path, out_trace, error);
    dtri_store_close(b.store, NULL);
    for (size_t k = 0; k < N_LOADED; k++)
        dtri_rows_done(&b.rows[k]);
    for (size_t i = 0; i < b.n_names; i++)
        dtri_free(b.names[i]);
    dtri_free(b.names);
    dtri_free(b.items);
    dtri_free(b.costs);
    dtri_free(b.tensors);
    dtri_free(b.bytes);
    dtri_free(b.inputs);
    dtri_free(b.input_ids);
    dtri_free(b.outputs);
    dtri_free(b.output_ids);
    return status;
}
