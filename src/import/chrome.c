/* Chrome traces (torch.profiler and others), event by event.
 *
 * A process becomes a run, with the events of its threads together.  Complete events and pairs of
 * begin and end are operators that ran, or ranges where they tell of the program itself.
 * "[memory]" events are allocations and freeings: those of the host go to the run of their process,
 * those of every other device to a run of their own, because bytes in use are of one device. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/context.h"
#include "import/json.h"

#define MAX_ID 128 /* bytes of a process or thread id that count */

enum field { NAME, CAT, PH, PID, TID, TS, DUR, ARGS, N_FIELDS };
static const char *const field_names[] = {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"};

enum argument { ARG_NAME, ADDR, BYTES, TOTAL, DEVICE_TYPE, DEVICE_ID, N_ARGUMENTS };
static const char *const argument_names[] = {"name",        "Addr",     "Bytes", "Total Allocated",
                                             "Device Type", "Device Id"};

struct chrome {
    struct dtri_import *import;
    struct dtri_input in;
    struct dtri_json json;
    struct dtri_intern lane_keys, thread_keys;
    uint32_t *key_lanes; /* by number of lane key */
    size_t cap_key_lanes;
    uint32_t other; /* lane past the limit, or UINT32_MAX */
    int64_t base_ns, last_ts_ns;
    bool cut;
    /* the event at hand */
    unsigned has, has_argument; /* bits */
    int64_t name;
    char ph, category[64], pid[MAX_ID], tid[MAX_ID];
    int64_t ts, dur, arguments[N_ARGUMENTS];
};

/* --- reading an event ------------------------------------------------------------------------- */

static int find(const char *const *list, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0)
            return i;
    return -1;
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = 0;
}

/* An address may be written in hexadecimal. */
static bool read_integer(const char *text, int64_t *out)
{
    char *end;
    if (strncmp(text, "0x", 2) != 0)
        return dtri_json_integer(text, 0, out);
    *out = (int64_t)strtoull(text, &end, 16);
    return *end == 0;
}

static dtr_status read_argument(struct chrome *c, int argument, dtr_error *error)
{
    bool ok = true;
    if (argument == ARG_NAME) {
        dtr_status status =
            dtri_import_name(c->import, c->json.text, &c->arguments[ARG_NAME], error);
        if (status != DTR_OK)
            return status;
    } else {
        ok = read_integer(c->json.text, &c->arguments[argument]);
    }
    c->has_argument |= ok ? 1u << argument : 0;
    return DTR_OK;
}

static bool is_scalar(enum dtri_json_token token)
{
    return token == DTRI_JSON_STRING || token == DTRI_JSON_NUMBER || token == DTRI_JSON_BOOL;
}

/* The rest of an object, key by key: its scalars go to `visit` with their place in `list`. */
static dtr_status read_object(struct chrome *c, const char *const *list, int n,
                              dtr_status (*visit)(struct chrome *, int, enum dtri_json_token,
                                                  dtr_error *),
                              dtr_error *error)
{
    enum dtri_json_token token;
    dtr_status status;
    while ((status = dtri_json_next(&c->json, &token, error)) == DTR_OK && token == DTRI_JSON_KEY) {
        int which = find(list, n, c->json.text);
        status = dtri_json_next(&c->json, &token, error);
        if (status != DTR_OK || token == DTRI_JSON_CUT)
            break;
        status =
            which >= 0 ? visit(c, which, token, error) : dtri_json_skip(&c->json, token, error);
        if (status != DTR_OK)
            return status;
    }
    c->cut |= status == DTR_OK && token == DTRI_JSON_CUT;
    return status;
}

static dtr_status visit_argument(struct chrome *c, int which, enum dtri_json_token token,
                                 dtr_error *error)
{
    return is_scalar(token) ? read_argument(c, which, error)
                            : dtri_json_skip(&c->json, token, error);
}

static dtr_status read_name(struct chrome *c, dtr_error *error)
{
    dtr_status status = dtri_import_name(c->import, c->json.text, &c->name, error);
    if (status == DTR_OK && c->json.long_text && c->import->n_lanes)
        c->import->lanes[0].counts[DTRI_REASON_LONG_TEXT]++;
    return status;
}

static dtr_status visit_field(struct chrome *c, int which, enum dtri_json_token token,
                              dtr_error *error)
{
    bool ok = is_scalar(token);
    const char *text = c->json.text;
    if (which == ARGS && token == DTRI_JSON_OBJECT)
        return read_object(c, argument_names, N_ARGUMENTS, visit_argument, error);
    if (!ok)
        return dtri_json_skip(&c->json, token, error);
    switch ((enum field)which) {
    case NAME: {
        dtr_status status = read_name(c, error);
        if (status != DTR_OK)
            return status;
        break;
    }
    case CAT:
        copy_text(c->category, sizeof c->category, text);
        break;
    case PH:
        c->ph = text[0];
        break;
    case PID:
        copy_text(c->pid, sizeof c->pid, text);
        break;
    case TID:
        copy_text(c->tid, sizeof c->tid, text);
        break;
    case TS:
        ok = dtri_json_integer(text, 3, &c->ts) && llabs(c->ts) <= DTRI_IMPORT_MAX_NS;
        break;
    case DUR:
        ok = dtri_json_integer(text, 3, &c->dur) && c->dur >= 0 && c->dur <= DTRI_IMPORT_MAX_NS;
        break;
    case ARGS:
    case N_FIELDS:
        break;
    }
    c->has |= ok ? 1u << which : 0;
    return DTR_OK;
}

static bool has(const struct chrome *c, enum field field)
{
    return c->has & 1u << field;
}

static bool has_argument(const struct chrome *c, enum argument argument)
{
    return c->has_argument & 1u << argument;
}

/* --- lanes and threads ------------------------------------------------------------------------ */

static dtr_status new_lane(struct chrome *c, uint32_t *out_lane, dtr_error *error)
{
    struct dtri_import *import = c->import;
    if (import->n_lanes < DTRI_IMPORT_MAX_LANES)
        return dtri_import_add_lane(import, out_lane, error);
    if (c->other == UINT32_MAX) {
        dtr_status status = dtri_import_add_lane(import, &c->other, error);
        if (status != DTR_OK)
            return status;
    }
    *out_lane = c->other;
    return DTR_OK;
}

/* The lane of the event's process, or of the memory of one of its devices. */
static dtr_status find_lane(struct chrome *c, bool device, uint32_t *out_lane, dtr_error *error)
{
    char key[MAX_ID + 64];
    int is_new;
    if (device)
        snprintf(key, sizeof key, "%s\n%lld:%lld", c->pid, (long long)c->arguments[DEVICE_TYPE],
                 (long long)c->arguments[DEVICE_ID]);
    int64_t at = dtri_intern(&c->lane_keys, device ? key : c->pid, &is_new);
    if (at < 0 || !DTRI_RESERVE(c->key_lanes, c->cap_key_lanes, (size_t)at + 1))
        return dtri_fail_nomem(error, "processes of a trace");
    if (is_new) {
        dtr_status status = new_lane(c, &c->key_lanes[at], error);
        if (status != DTR_OK)
            return status;
        struct dtri_import_lane *lane = &c->import->lanes[c->key_lanes[at]];
        if (c->key_lanes[at] != c->other && !dtri_json_integer(c->pid, 0, &lane->pid))
            lane->pid = DTRI_NULL;
        if (device && c->key_lanes[at] != c->other) {
            snprintf(key, sizeof key, "memory of device %lld:%lld of process %s",
                     (long long)c->arguments[DEVICE_TYPE], (long long)c->arguments[DEVICE_ID],
                     c->pid);
            status = dtri_import_name(c->import, key, &lane->program, error);
            if (status != DTR_OK)
                return status;
        }
    }
    *out_lane = c->key_lanes[at];
    if (*out_lane == c->other)
        c->import->lanes[*out_lane].counts[DTRI_REASON_PROCESSES]++;
    return DTR_OK;
}

/* Threads are numbered as in the import. */
static dtr_status find_thread(struct chrome *c, uint32_t lane, int64_t *out_thread,
                              dtr_error *error)
{
    char key[MAX_ID + 16];
    int is_new = 0;
    snprintf(key, sizeof key, "%u\n%s", lane, c->tid);
    *out_thread = dtri_intern(&c->thread_keys, key, &is_new);
    if (*out_thread < 0)
        return dtri_fail_nomem(error, "threads of a trace");
    if (!is_new)
        return DTR_OK;
    c->import->lanes[lane].counts[DTRI_REASON_THREADS]++;
    return dtri_import_add_thread(c->import, lane, error);
}

/* --- what events mean ------------------------------------------------------------------------- */

/* The program's own spans; everything else is an operator. */
static bool is_range(const struct chrome *c)
{
    static const char *const ranges[] = {
        "user_annotation", "gpu_user_annotation", "python_function", "Trace", "Overhead",
        "overhead",        "rematerialization"};
    if (!c->category[0])
        return c->ph == 'B'; /* as dtrscope writes phases and ranges */
    return find(ranges, sizeof ranges / sizeof ranges[0], c->category) >= 0;
}

static dtr_status add_mark(struct chrome *c, uint32_t lane, dtr_mark mark, int64_t ts, int64_t name,
                           int64_t value, dtr_error *error)
{
    struct dtri_record record = {lane, DTRI_RECORD_MARK, ts, 0, mark, name, value};
    return dtri_spool_add(c->import->spool, &record, error);
}

/* What the event's span is; of a step, *out_number is its number. */
static enum dtri_span_kind span_kind(const struct chrome *c, int64_t *out_number)
{
    static const char *const steps[] = {"ProfilerStep#", "iteration "};
    const char *name = c->import->names.texts[c->name];
    if (!is_range(c))
        return DTRI_SPAN_OPERATOR;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t n = strlen(steps[i]);
        if (strncmp(name, steps[i], n) == 0 && dtri_json_integer(name + n, 0, out_number))
            return DTRI_SPAN_STEP;
    }
    return DTRI_SPAN_RANGE;
}

static dtr_status on_complete(struct chrome *c, uint32_t lane, dtr_error *error)
{
    int64_t number, end = c->ts + c->dur, thread;
    dtr_status status = find_thread(c, lane, &thread, error);
    enum dtri_span_kind kind = span_kind(c, &number);
    if (status == DTR_OK && kind == DTRI_SPAN_STEP)
        return add_mark(c, lane, DTR_MARK_ITERATION, c->ts, DTR_NONE, number, error);
    if (status == DTR_OK && kind == DTRI_SPAN_RANGE) {
        status = add_mark(c, lane, DTR_MARK_RANGE_BEGIN, c->ts, c->name, DTR_NONE, error);
        if (status == DTR_OK)
            status = add_mark(c, lane, DTR_MARK_RANGE_END, end, c->name, DTR_NONE, error);
        return status;
    }
    struct dtri_record record = {lane, DTRI_RECORD_RUN, end, 0, c->dur, c->name, 0};
    return status == DTR_OK ? dtri_spool_add(c->import->spool, &record, error) : status;
}

/* Which begin an end belongs to depends on the order in time, so it is settled after sorting. */
static dtr_status on_begin_end(struct chrome *c, uint32_t lane, dtr_error *error)
{
    int64_t number;
    struct dtri_record record = {.lane = lane, .type = DTRI_RECORD_END, .time = c->ts};
    dtr_status status = find_thread(c, lane, &record.a, error);
    if (status == DTR_OK && c->ph == 'B') {
        record.type = DTRI_RECORD_BEGIN;
        record.b = c->name;
        record.c = span_kind(c, &number);
        if (record.c == DTRI_SPAN_STEP)
            status = add_mark(c, lane, DTR_MARK_ITERATION, c->ts, DTR_NONE, number, error);
    }
    return status == DTR_OK ? dtri_spool_add(c->import->spool, &record, error) : status;
}

static dtr_status on_span(struct chrome *c, uint32_t lane, dtr_error *error)
{
    if (!has(c, TS) || (c->ph != 'E' && !has(c, NAME))) {
        c->import->lanes[lane].counts[DTRI_REASON_MALFORMED]++;
        return DTR_OK;
    }
    return c->ph == 'X' ? on_complete(c, lane, error) : on_begin_end(c, lane, error);
}

/* An allocation has positive bytes; a total of its device may come with it. */
static dtr_status on_memory(struct chrome *c, uint32_t host, dtr_error *error)
{
    uint32_t lane = host;
    int64_t bytes = c->arguments[BYTES], total = c->arguments[TOTAL];
    if (!has(c, TS) || !has_argument(c, ADDR) || c->arguments[ADDR] < 0 ||
        !has_argument(c, BYTES) || bytes < -DTRI_IMPORT_MAX_BYTES ||
        bytes > DTRI_IMPORT_MAX_BYTES) {
        c->import->lanes[host].counts[DTRI_REASON_MALFORMED]++;
        return DTR_OK;
    }
    dtr_status status = DTR_OK;
    if (has_argument(c, DEVICE_TYPE) && c->arguments[DEVICE_TYPE] != 0)
        status = find_lane(c, true, &lane, error);
    struct dtri_record record = {lane,
                                 bytes > 0 ? DTRI_RECORD_ALLOC : DTRI_RECORD_FREE,
                                 c->ts,
                                 0,
                                 c->arguments[ADDR],
                                 bytes > 0 ? bytes : -bytes,
                                 DTR_NONE};
    if (status == DTR_OK)
        status = dtri_spool_add(c->import->spool, &record, error);
    if (status != DTR_OK || !has_argument(c, TOTAL) || total < 0 || total > DTRI_IMPORT_MAX_BYTES)
        return status;
    record.type = DTRI_RECORD_TOTAL;
    record.a = total;
    return dtri_spool_add(c->import->spool, &record, error);
}

static void on_metadata(struct chrome *c, struct dtri_import_lane *lane)
{
    const char *name = has(c, NAME) ? c->import->names.texts[c->name] : "";
    if (strcmp(name, "process_name") == 0 && has_argument(c, ARG_NAME))
        lane->program = c->arguments[ARG_NAME];
    else
        lane->counts[DTRI_REASON_METADATA]++;
}

static dtr_status on_event(struct chrome *c, dtr_error *error)
{
    uint32_t number;
    dtr_status status = find_lane(c, false, &number, error);
    if (status != DTR_OK)
        return status;
    struct dtri_import_lane *lane = &c->import->lanes[number];
    if (has(c, TS) && c->ts > c->last_ts_ns)
        c->last_ts_ns = c->ts;
    switch (has(c, PH) ? c->ph : 0) {
    case 'X':
    case 'B':
    case 'E':
        return on_span(c, number, error);
    case 'M':
        on_metadata(c, lane);
        return DTR_OK;
    case 'i':
    case 'I':
        if (has(c, NAME) && strcmp(c->import->names.texts[c->name], "[memory]") == 0)
            return on_memory(c, number, error);
        lane->counts[DTRI_REASON_INSTANT]++;
        return DTR_OK;
    case 'C':
        lane->counts[DTRI_REASON_COUNTER]++;
        return DTR_OK;
    case 's':
    case 't':
    case 'f':
        lane->counts[DTRI_REASON_FLOW]++;
        return DTR_OK;
    case 0:
        lane->counts[DTRI_REASON_MALFORMED]++;
        return DTR_OK;
    default:
        lane->counts[DTRI_REASON_PHASE]++;
        return DTR_OK;
    }
}

/* --- the file --------------------------------------------------------------------------------- */

static dtr_status read_event(struct chrome *c, dtr_error *error)
{
    c->has = c->has_argument = 0;
    c->ph = c->category[0] = c->pid[0] = c->tid[0] = 0;
    c->ts = c->dur = 0;
    memset(c->arguments, 0, sizeof c->arguments);
    dtr_status status = read_object(c, field_names, N_FIELDS, visit_field, error);
    return status == DTR_OK && !c->cut ? on_event(c, error) : status;
}

static dtr_status read_events(struct chrome *c, dtr_error *error)
{
    enum dtri_json_token token = DTRI_JSON_CUT;
    dtr_status status = DTR_OK;
    while (status == DTR_OK && !c->cut) {
        status = dtri_json_next(&c->json, &token, error);
        if (status != DTR_OK || token == DTRI_JSON_ARRAY_END)
            return status;
        if (token == DTRI_JSON_CUT)
            c->cut = true;
        else if (token == DTRI_JSON_OBJECT)
            status = read_event(c, error);
        else
            status = dtri_json_skip(&c->json, token, error);
    }
    return status;
}

static const char *const top_names[] = {"traceEvents", "baseTimeNanoseconds", "distributedInfo"};

static dtr_status visit_rank(struct chrome *c, int which, enum dtri_json_token token,
                             dtr_error *error)
{
    int64_t rank;
    (void)which;
    if (!is_scalar(token))
        return dtri_json_skip(&c->json, token, error);
    if (dtri_json_integer(c->json.text, 0, &rank) && rank >= 0 && rank <= INT32_MAX)
        c->import->rank = rank;
    return DTR_OK;
}

static dtr_status visit_top(struct chrome *c, int which, enum dtri_json_token token,
                            dtr_error *error)
{
    static const char *const rank[] = {"rank"};
    int64_t base;
    if (which == 0 && token == DTRI_JSON_ARRAY)
        return read_events(c, error);
    if (which == 1 && is_scalar(token)) {
        if (dtri_json_integer(c->json.text, 0, &base) && llabs(base) <= DTRI_IMPORT_MAX_NS)
            c->base_ns = base;
        return DTR_OK;
    }
    if (which == 2 && token == DTRI_JSON_OBJECT)
        return read_object(c, rank, 1, visit_rank, error);
    return dtri_json_skip(&c->json, token, error);
}

/* A bare list may lack its end, as a program that died leaves it; an object may not. */
static dtr_status read_file(struct chrome *c, dtr_error *error)
{
    enum dtri_json_token token;
    dtr_status status = dtri_json_next(&c->json, &token, error);
    if (status != DTR_OK)
        return status;
    if (token == DTRI_JSON_ARRAY) {
        status = read_events(c, error);
    } else if (token == DTRI_JSON_OBJECT) {
        status = read_object(c, top_names, 3, visit_top, error);
        if (status == DTR_OK && c->cut)
            status = dtri_fail(error, DTR_E_FORMAT, 0,
                               "%s is cut short at byte %lld; write the trace again", c->in.path,
                               (long long)dtri_input_offset(&c->in));
    } else {
        status = dtri_fail(error, DTR_E_FORMAT, 0,
                           "%s is JSON, but no Chrome trace: it is neither a list of events nor an "
                           "object with traceEvents",
                           c->in.path);
    }
    if (status == DTR_OK)
        status = dtri_input_check(&c->in, error);
    return status;
}

static dtr_status finish(struct chrome *c, dtr_error *error)
{
    const int64_t after_2001 = INT64_C(978307200000000000);
    struct dtri_import *import = c->import;
    if (import->n_lanes == 0)
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s holds no events; was the profiler stopped before it was written?",
                         c->in.path);
    for (size_t i = 0; i < import->n_lanes; i++)
        if (import->lanes[i].counts[DTRI_REASON_THREADS] == 1)
            import->lanes[i].counts[DTRI_REASON_THREADS] = 0;
    if (c->cut)
        import->lanes[0].counts[DTRI_REASON_CUT] = 1;
    /* Times from 2001 on are of the wall clock: no monotonic clock runs that long. */
    if (c->base_ns)
        import->unix_offset_ns = c->base_ns;
    else if (c->last_ts_ns > after_2001)
        import->unix_offset_ns = 0;
    return DTR_OK;
}

dtr_status dtri_import_chrome(struct dtri_import *import, dtr_error *error)
{
    struct chrome *c = dtri_calloc(1, sizeof *c);
    if (!c)
        return dtri_fail_nomem(error, "reading a trace");
    c->import = import;
    c->other = UINT32_MAX;
    dtr_status status = dtri_input_open(&c->in, import->path, error);
    if (status == DTR_OK) {
        dtri_json_init(&c->json, &c->in);
        status = read_file(c, error);
    }
    if (status == DTR_OK)
        status = finish(c, error);
    dtri_free(c->key_lanes);
    dtri_intern_done(&c->lane_keys);
    dtri_intern_done(&c->thread_keys);
    dtri_input_done(&c->in);
    dtri_free(c);
    return status;
}
