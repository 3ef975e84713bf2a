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
