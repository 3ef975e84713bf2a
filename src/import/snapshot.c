/* Memory snapshots of PyTorch's caching allocator (torch.cuda.memory._dump_snapshot).
 *
 * A device becomes a run.  `device_traces` has the actions of each device in order; `segments` says
 * what was in use and reserved when the snapshot was taken, from which follows what was there
 * before the first action.  A storage ends where its freeing was completed: until then its bytes
 * can not be used again.  The address is the allocation's `offset`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/context.h"
#include "import/pickle.h"

/* Texts that mean something; their numbers in the table of texts are these. */
#define TEXTS(T)                                                                                   \
    T(ACTION, "action")                                                                            \
    T(ADDR, "addr")                                                                                \
    T(ADDRESS, "address")                                                                          \
    T(BLOCKS, "blocks")                                                                            \
    T(DEVICE, "device")                                                                            \
    T(DEVICE_FREE, "device_free")                                                                  \
    T(FILENAME, "filename")                                                                        \
    T(FRAMES, "frames")                                                                            \
    T(LINE, "line")                                                                                \
    T(NAME, "name")                                                                                \
    T(REQUESTED_SIZE, "requested_size")                                                            \
    T(SIZE, "size")                                                                                \
    T(STAGE, "stage")                                                                              \
    T(STATE, "state")                                                                              \
    T(TIME_US, "time_us")                                                                          \
    T(TOTAL_SIZE, "total_size")                                                                    \
    T(ALLOC, "alloc")                                                                              \
    T(FREE, "free")                                                                                \
    T(FREE_REQUESTED, "free_requested")                                                            \
    T(FREE_COMPLETED, "free_completed")                                                            \
    T(SEGMENT_ALLOC, "segment_alloc")                                                              \
    T(SEGMENT_FREE, "segment_free")                                                                \
    T(SEGMENT_MAP, "segment_map")                                                                  \
    T(SEGMENT_UNMAP, "segment_unmap")                                                              \
    T(SNAPSHOT, "snapshot") T(OOM, "oom") T(INACTIVE, "inactive") T(START, "START") T(END, "END")

enum text {
#define TEXT_ENUM(name, text) TEXT_##name,
    TEXTS(TEXT_ENUM)
};
static const char *const texts[] = {
#define TEXT_ENTRY(name, text) text,
    TEXTS(TEXT_ENTRY)};

enum role {
    ROLE_TRACES = DTRI_PICKLE_ROOT + 1,
    ROLE_TRACE,
    ROLE_ENTRY,
    ROLE_SEGMENTS,
    ROLE_SEGMENT,
    ROLE_ANNOTATIONS,
    ROLE_ANNOTATION,
};

static const struct dtri_pickle_rule rules[] = {
    {DTRI_PICKLE_ROOT, "device_traces", DTRI_PICKLE_LIST, ROLE_TRACES, false},
    {ROLE_TRACES, NULL, DTRI_PICKLE_LIST, ROLE_TRACE, false},
    {ROLE_TRACE, NULL, DTRI_PICKLE_DICT, ROLE_ENTRY, true},
    {DTRI_PICKLE_ROOT, "segments", DTRI_PICKLE_LIST, ROLE_SEGMENTS, false},
    {ROLE_SEGMENTS, NULL, DTRI_PICKLE_DICT, ROLE_SEGMENT, true},
    {DTRI_PICKLE_ROOT, "external_annotations", DTRI_PICKLE_LIST, ROLE_ANNOTATIONS, false},
    {ROLE_ANNOTATIONS, NULL, DTRI_PICKLE_DICT, ROLE_ANNOTATION, true},
    {0},
};

#define MAX_DEVICES 256

struct snapshot {
    struct dtri_import *import;
    struct dtri_intern texts;
    int64_t lanes[MAX_DEVICES];   /* by device, or DTR_NONE */
    int64_t last_ns[MAX_DEVICES]; /* of its action before */
    bool any, timed;
};

/* --- looking into values ---------------------------------------------------------------------- */

/* The last value under a key, or NULL. */
static const struct dtri_pickle_value *find(const struct dtri_pickle_node *dict, enum text key)
{
    for (size_t i = dict->n & ~(size_t)1; i > 0; i -= 2)
        if (dict->items[i - 2].type == DTRI_PICKLE_TEXT &&
            dict->items[i - 2].u.integer == (int64_t)key)
            return &dict->items[i - 1];
    return NULL;
}

static bool find_integer(const struct dtri_pickle_node *dict, enum text key, int64_t min,
                         int64_t max, int64_t *out)
{
    const struct dtri_pickle_value *value = find(dict, key);
    if (!value || value->type != DTRI_PICKLE_INT || value->u.integer < min ||
        value->u.integer > max)
        return false;
    *out = value->u.integer;
    return true;
}

static int64_t find_text(const struct dtri_pickle_node *dict, enum text key)
{
    const struct dtri_pickle_value *value = find(dict, key);
    return value && value->type == DTRI_PICKLE_TEXT ? value->u.integer : DTR_NONE;
}

static bool find_bytes(const struct dtri_pickle_node *dict, enum text key, int64_t *out)
{
    return find_integer(dict, key, 0, DTRI_IMPORT_MAX_BYTES, out);
}

/* Microseconds of the wall clock, as nanoseconds. */
static bool find_time(const struct dtri_pickle_node *dict, int64_t *out_ns)
{
    int64_t us;
    if (!find_integer(dict, TEXT_TIME_US, 0, DTRI_IMPORT_MAX_NS / 1000, &us))
        return false;
    *out_ns = us * 1000;
    return true;
}

static dtr_status find_lane(struct snapshot *s, int64_t device, uint32_t *out_lane,
                            dtr_error *error)
{
    char name[64];
    if (device < 0 || device >= MAX_DEVICES)
        return dtri_fail(error, DTR_E_LIMIT, 0, "%s tells of a device %lld; %d can be read",
                         s->import->path, (long long)device, MAX_DEVICES);
    s->any = true;
    if (s->lanes[device] == DTR_NONE) {
        dtr_status status = dtri_import_add_lane(s->import, out_lane, error);
        if (status != DTR_OK)
            return status;
        s->lanes[device] = *out_lane;
        snprintf(name, sizeof name, "memory of device %lld", (long long)device);
        status = dtri_import_name(s->import, name, &s->import->lanes[*out_lane].program, error);
        if (status != DTR_OK)
            return status;
    }
    *out_lane = (uint32_t)s->lanes[device];
    return DTR_OK;
}

/* --- call stacks ------------------------------------------------------------------------------ */

static const char *text_of(const struct snapshot *s, int64_t id)
{
    return id == DTR_NONE ? "?" : s->texts.texts[id];
}

/* The name of one frame, "function (file:line)". */
static dtr_status frame_name(struct snapshot *s, struct dtri_pickle *pickle,
                             struct dtri_pickle_node *frame, int64_t *out_name, dtr_error *error)
{
    char text[2048];
    int64_t line = 0;
    if (frame->settled != DTR_NONE) {
        *out_name = frame->settled;
        return DTR_OK;
    }
    find_integer(frame, TEXT_LINE, 0, INT32_MAX, &line);
    snprintf(text, sizeof text, "%.900s (%.1000s:%lld)", text_of(s, find_text(frame, TEXT_NAME)),
             text_of(s, find_text(frame, TEXT_FILENAME)), (long long)line);
    dtr_status status = dtri_import_name(s->import, text, out_name, error);
    if (status == DTR_OK && frame->references > 1)
        dtri_pickle_settle(pickle, frame, *out_name);
    return status;
}

/* The innermost frame of the entry's stack, which the list begins with; DTR_NONE: no stack. */
static dtr_status find_frame(struct snapshot *s, struct dtri_pickle *pickle,
                             const struct dtri_pickle_node *entry, int64_t *counts,
                             int64_t *out_frame, dtr_error *error)
{
    const struct dtri_pickle_value *frames = find(entry, TEXT_FRAMES);
    *out_frame = DTR_NONE;
    if (!frames || frames->type != DTRI_PICKLE_LIST)
        return DTR_OK;
    struct dtri_pickle_node *list = frames->u.node;
    if (list->closed) {
        *out_frame = list->settled;
        return DTR_OK;
    }
    for (size_t i = list->n; i-- > 0;) {
        int64_t name;
        if (list->items[i].type != DTRI_PICKLE_DICT)
            continue;
        dtr_status status = frame_name(s, pickle, list->items[i].u.node, &name, error);
        if (status != DTR_OK)
            return status;
        *out_frame = dtri_frames_add(&s->import->frames, *out_frame, name);
        if (*out_frame < DTR_NONE)
            return dtri_fail_nomem(error, "call stacks");
        if (*out_frame == DTR_NONE) {
            counts[DTRI_REASON_STACKS]++;
            break;
        }
    }
    if (list->references > 1)
        dtri_pickle_settle(pickle, list, *out_frame);
    return DTR_OK;
}

/* --- what entries mean ------------------------------------------------------------------------ */

/* Actions are in order; a clock that went back is held. */
static int64_t time_of(struct snapshot *s, const struct dtri_pickle_node *entry, uint32_t lane)
{
    int64_t *last = &s->last_ns[entry->parent], ts;
    bool timed = find_time(entry, &ts);
    s->timed |= timed;
    if (!timed)
        ts = *last + 1;
    if (ts < *last) {
        s->import->lanes[lane].counts[DTRI_REASON_BACKWARDS]++;
        ts = *last;
    }
    return *last = ts;
}

/* Fills the record from the entry; false: it lacks what its action needs. */
static bool read_action(struct snapshot *s, const struct dtri_pickle_node *entry, int64_t action,
                        struct dtri_record *record)
{
    switch (action) {
    case TEXT_ALLOC:
        record->type = DTRI_RECORD_ALLOC;
        return find_integer(entry, TEXT_ADDR, 0, INT64_MAX, &record->a) &&
               find_bytes(entry, TEXT_SIZE, &record->b);
    case TEXT_FREE:
    case TEXT_FREE_COMPLETED:
        record->type = DTRI_RECORD_FREE;
        record->b = DTR_NONE;
        find_bytes(entry, TEXT_SIZE, &record->b);
        return find_integer(entry, TEXT_ADDR, 0, INT64_MAX, &record->a);
    case TEXT_OOM:
        record->type = DTRI_RECORD_OOM;
        record->a = DTR_NONE;
        find_bytes(entry, TEXT_DEVICE_FREE, &record->a);
        return find_bytes(entry, TEXT_SIZE, &record->b);
    case TEXT_SNAPSHOT:
        record->type = DTRI_RECORD_RESERVE;
        return true;
    default: /* segments */
        record->type = DTRI_RECORD_RESERVE;
        if (!find_bytes(entry, TEXT_SIZE, &record->a))
            return false;
        if (action == TEXT_SEGMENT_FREE || action == TEXT_SEGMENT_UNMAP)
            record->a = -record->a;
        return true;
    }
    (void)s;
}

static dtr_status on_entry(struct snapshot *s, struct dtri_pickle *pickle,
                           const struct dtri_pickle_node *entry, dtr_error *error)
{
    uint32_t lane;
    dtr_status status = find_lane(s, entry->parent, &lane, error);
    if (status != DTR_OK)
        return status;
    int64_t *counts = s->import->lanes[lane].counts, action = find_text(entry, TEXT_ACTION);
    struct dtri_record record = {.lane = lane, .time = time_of(s, entry, lane)};
    if (action == TEXT_FREE_REQUESTED || action < TEXT_ALLOC || action > TEXT_OOM) {
        counts[action == TEXT_FREE_REQUESTED ? DTRI_REASON_PENDING : DTRI_REASON_ACTION]++;
        return DTR_OK;
    }
    if (!read_action(s, entry, action, &record)) {
        counts[DTRI_REASON_MALFORMED]++;
        return DTR_OK;
    }
    if (record.type == DTRI_RECORD_ALLOC || record.type == DTRI_RECORD_OOM)
        status = find_frame(s, pickle, entry, counts, &record.c, error);
    if (record.type == DTRI_RECORD_RESERVE)
        status = dtri_import_name(s->import, texts[action], &record.b, error);
    return status == DTR_OK ? dtri_spool_add(s->import->spool, &record, error) : status;
}

static dtr_status on_block(struct snapshot *s, uint32_t lane, const struct dtri_pickle_node *block,
                           int64_t address, dtr_error *error)
{
    struct dtri_record record = {
        .lane = lane, .type = DTRI_RECORD_BLOCK, .time = INT64_MAX, .a = address};
    if (find_text(block, TEXT_STATE) == TEXT_INACTIVE)
        return DTR_OK;
    if (!find_bytes(block, TEXT_REQUESTED_SIZE, &record.b) || record.b == 0)
        find_bytes(block, TEXT_SIZE, &record.b);
    return dtri_spool_add(s->import->spool, &record, error);
}

/* Blocks lie one behind the other; older snapshots leave out their addresses. */
static dtr_status on_segment(struct snapshot *s, const struct dtri_pickle_node *segment,
                             dtr_error *error)
{
    int64_t device = 0, address = DTR_NONE;
    uint32_t lane;
    find_integer(segment, TEXT_DEVICE, 0, INT64_MAX, &device);
    dtr_status status = find_lane(s, device, &lane, error);
    struct dtri_record record = {.lane = lane, .type = DTRI_RECORD_RESERVED, .time = INT64_MAX};
    if (status == DTR_OK && find_bytes(segment, TEXT_TOTAL_SIZE, &record.a))
        status = dtri_spool_add(s->import->spool, &record, error);
    find_integer(segment, TEXT_ADDRESS, 0, INT64_MAX / 2, &address);
    const struct dtri_pickle_value *blocks = find(segment, TEXT_BLOCKS);
    if (status != DTR_OK || !blocks || blocks->type != DTRI_PICKLE_LIST)
        return status;
    const struct dtri_pickle_node *list = blocks->u.node;
    for (size_t i = 0; i < list->n && status == DTR_OK; i++) {
        const struct dtri_pickle_node *block = list->items[i].u.node;
        int64_t size = 0;
        if (list->items[i].type != DTRI_PICKLE_DICT)
            continue;
        find_integer(block, TEXT_ADDRESS, 0, INT64_MAX / 2, &address);
        find_bytes(block, TEXT_SIZE, &size);
        if (address >= 0)
            status = on_block(s, lane, block, address, error);
        else
            s->import->lanes[lane].counts[DTRI_REASON_MALFORMED]++;
        address = address < 0 ? address : dtri_import_add(address, size);
    }
    return status;
}

static dtr_status on_annotation(struct snapshot *s, const struct dtri_pickle_node *annotation,
                                dtr_error *error)
{
    int64_t device = 0, stage = find_text(annotation, TEXT_STAGE);
    int64_t name = find_text(annotation, TEXT_NAME);
    struct dtri_record record = {.type = DTRI_RECORD_MARK, .c = DTR_NONE};
    find_integer(annotation, TEXT_DEVICE, 0, INT64_MAX, &device);
    dtr_status status = find_lane(s, device, &record.lane, error);
    if (status != DTR_OK)
        return status;
    if (!find_time(annotation, &record.time) || name == DTR_NONE ||
        (stage != TEXT_START && stage != TEXT_END)) {
        s->import->lanes[record.lane].counts[DTRI_REASON_MALFORMED]++;
        return DTR_OK;
    }
    record.a = stage == TEXT_START ? DTR_MARK_RANGE_BEGIN : DTR_MARK_RANGE_END;
    status = dtri_import_name(s->import, s->texts.texts[name], &record.b, error);
    return status == DTR_OK ? dtri_spool_add(s->import->spool, &record, error) : status;
}

static dtr_status consume(void *self, struct dtri_pickle *pickle, struct dtri_pickle_node *node,
                          dtr_error *error)
{
    switch ((enum role)node->role) {
    case ROLE_ENTRY:
        return on_entry(self, pickle, node, error);
    case ROLE_SEGMENT:
        return on_segment(self, node, error);
    case ROLE_ANNOTATION:
        return on_annotation(self, node, error);
    default:
        return DTR_OK;
    }
}

static dtr_status read_pickle(struct snapshot *s, struct dtri_input *in, dtr_error *error)
{
    struct dtri_pickle_visitor visitor = {.self = s, .rules = rules, .consume = consume};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (dtri_intern(&s->texts, texts[i], NULL) < 0)
            return dtri_fail_nomem(error, "reading a snapshot");
    dtr_status status = dtri_pickle_read(in, &s->texts, &visitor, error);
    if (status == DTR_OK && !s->any)
        status = dtri_fail(error, DTR_E_FORMAT, 0,
                           "%s is a pickle without memory events (device_traces, segments); call "
                           "torch.cuda.memory._record_memory_history() before the part of interest "
                           "and _dump_snapshot() after it",
                           in->path);
    return status;
}

dtr_status dtri_import_snapshot(struct dtri_import *import, dtr_error *error)
{
    struct snapshot s = {.import = import};
    struct dtri_input in;
    for (int i = 0; i < MAX_DEVICES; i++)
        s.lanes[i] = DTR_NONE;
    dtr_status status = dtri_input_open(&in, import->path, error);
    if (status != DTR_OK)
        return status;
    status = read_pickle(&s, &in, error);
    import->logical = !s.timed;
    import->unix_offset_ns = s.timed ? 0 : DTRI_NULL;
    dtri_input_done(&in);
    dtri_intern_done(&s.texts);
    return status;
}
