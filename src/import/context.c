#include "import/context.h"

#include "base/alloc.h"
#include "base/error.h"

static const struct {
    const char *text;
    bool loss;
} reasons[] = {
#define REASON_LOSS(name, text) {text, true},
#define REASON_NOTE(name, text) {text, false},
    DTRI_IMPORT_REASONS(REASON_LOSS, REASON_NOTE)};

const char *dtri_import_reason_text(int reason)
{
    return reasons[reason].text;
}

bool dtri_import_reason_is_loss(int reason)
{
    return reasons[reason].loss;
}

dtr_status dtri_import_name(struct dtri_import *import, const char *text, int64_t *out_id,
                            dtr_error *error)
{
    int64_t id = -1;
    if (import->names.n >= DTRI_IMPORT_MAX_NAMES) {
        id = dtri_intern_find(&import->names, text);
        if (id < 0)
            text = "(other names)";
    }
    if (id < 0)
        id = dtri_intern(&import->names, text, NULL);
    if (id < 0)
        return dtri_fail_nomem(error, "names");
    *out_id = id;
    return DTR_OK;
}

dtr_status dtri_import_add_lane(struct dtri_import *import, uint32_t *out_lane, dtr_error *error)
{
    if (!DTRI_RESERVE(import->lanes, import->cap_lanes, import->n_lanes + 1))
        return dtri_fail_nomem(error, "runs");
    import->lanes[import->n_lanes] =
        (struct dtri_import_lane){.pid = DTRI_NULL, .program = DTR_NONE};
    *out_lane = (uint32_t)import->n_lanes++;
    return DTR_OK;
}

dtr_status dtri_import_add_thread(struct dtri_import *import, uint32_t lane, dtr_error *error)
{
    if (!DTRI_RESERVE(import->threads, import->cap_threads, import->n_threads + 1))
        return dtri_fail_nomem(error, "threads of a trace");
    import->threads[import->n_threads++] = (struct dtri_import_thread){.lane = lane};
    return DTR_OK;
}

dtr_status dtri_import_begin_span(struct dtri_import *import, const struct dtri_record *record,
                                  dtr_error *error)
{
    struct dtri_import_thread *thread = &import->threads[record->a];
    if (!DTRI_RESERVE(thread->stack, thread->cap, thread->n + 1))
        return dtri_fail_nomem(error, "begins without an end");
    thread->stack[thread->n++] = *record;
    return DTR_OK;
}

bool dtri_import_end_span(struct dtri_import *import, const struct dtri_record *record,
                          struct dtri_record *out_begin)
{
    struct dtri_import_thread *thread = &import->threads[record->a];
    if (!thread->n)
        return false;
    *out_begin = thread->stack[--thread->n];
    return true;
}
