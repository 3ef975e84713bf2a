#include "export/metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/utf8.h"

void dtri_metadata_done(struct dtri_metadata *metadata)
{
    for (size_t i = 0; i < metadata->n; i++) {
        dtri_free(metadata->pairs[i].key);
        dtri_free(metadata->pairs[i].value);
    }
    dtri_free(metadata->pairs);
    *metadata = (struct dtri_metadata){0};
}

static dtr_status add(struct dtri_metadata *metadata, const char *key, const char *more,
                      const char *value, dtr_error *error)
{
    size_t n = strlen(key);
    char *whole = dtri_malloc(n + DTRI_UTF8_GROWTH * strlen(more) + 1);
    char *copy = dtri_malloc(DTRI_UTF8_GROWTH * strlen(value) + 1);
    if (!whole || !copy || !DTRI_RESERVE(metadata->pairs, metadata->cap, metadata->n + 1)) {
        dtri_free(whole);
        dtri_free(copy);
        return dtri_fail_nomem(error, "what an export says about itself");
    }
    memcpy(whole, key, n);
    whole[n + dtri_utf8_clean(more, whole + n)] = '\0';
    copy[dtri_utf8_clean(value, copy)] = '\0';
    metadata->pairs[metadata->n].key = whole;
    metadata->pairs[metadata->n++].value = copy;
    return DTR_OK;
}

static dtr_status add_number(struct dtri_metadata *metadata, const char *key, const char *more,
                             int64_t value, dtr_error *error)
{
    char text[32] = "unknown";
    if (value != DTRI_NULL)
        snprintf(text, sizeof text, "%" PRId64, value);
    return add(metadata, key, more, text, error);
}

dtr_status dtri_metadata_init(struct dtri_metadata *metadata, const struct dtri_export *job,
                              dtr_error *error)
{
    *metadata = (struct dtri_metadata){0};
    dtr_status status = add(metadata, "dtrscope.table", "", job->table, error);
    if (status == DTR_OK)
        status = add(metadata, "dtrscope.run_uuid", "", job->run->uuid, error);
    if (status == DTR_OK)
        status = add_number(metadata, "dtrscope.base_ts_ns", "", job->run->base_ts_ns, error);
    for (size_t i = 0; i < job->n_losses && status == DTR_OK; i++)
        status = add_number(metadata, "dtrscope.lost.", job->losses[i].reason, job->losses[i].count,
                            error);
    if (status != DTR_OK)
        dtri_metadata_done(metadata);
    return status;
}
