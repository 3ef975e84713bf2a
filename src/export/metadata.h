/* What a table's file says about itself: pairs of texts, for formats with a place for them. */
#ifndef DTRI_EXPORT_METADATA_H
#define DTRI_EXPORT_METADATA_H

#include "export/export.h"

struct dtri_metadata {
    struct {
        char *key, *value; /* valid UTF-8 */
    } * pairs;
    size_t n, cap;
};

/* dtrscope.table, dtrscope.run_uuid, dtrscope.base_ts_ns (what was subtracted from times), and for
 * each reason of a loss dtrscope.lost.REASON: the number of events, or "unknown". */
dtr_status dtri_metadata_init(struct dtri_metadata *metadata, const struct dtri_export *job,
                              dtr_error *error);
void dtri_metadata_done(struct dtri_metadata *metadata); /* accepts a zeroed one */

#endif
