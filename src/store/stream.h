/* All events of a run, kinds together, in the order in which the runtime emitted them (seq).
 *
 * Memory is one chunk a kind, however long the run.  For whatever goes through a whole run once:
 * exports, the check, copies. */
#ifndef DTRI_STORE_STREAM_H
#define DTRI_STORE_STREAM_H

#include "store/store.h"

#define DTRI_KIND_BIT(kind) (UINT64_C(1) << (kind))
#define DTRI_ALL_KINDS      UINT64_MAX

struct dtri_stream_options {
    int64_t run;
    uint64_t kinds; /* DTRI_KIND_BIT of each kind wanted */
    int64_t ts_min,
        ts_max; /* events that begin in [ts_min, ts_max]; INT64_MIN and INT64_MAX: all */
};

struct dtri_stream;
dtr_status dtri_stream_open(struct dtri_store *store, const struct dtri_stream_options *options,
                            struct dtri_stream **out_stream, dtr_error *error);
/* *out_event is NULL at the end; else it is borrowed until the next call.  DTR_E_FORMAT names a
 * damaged chunk, after all events that come before those that are in it. */
dtr_status dtri_stream_next(struct dtri_stream *stream, const dtr_event **out_event,
                            dtr_error *error);
void dtri_stream_free(struct dtri_stream *stream); /* accepts NULL */

/* The texts of a run's NAME ids. */
struct dtri_names;
dtr_status dtri_names_load(struct dtri_store *store, int64_t run, struct dtri_names **out_names,
                           dtr_error *error);
/* "" for DTR_NONE, "?" for an id without a text; borrowed until the names are freed.  The text may
 * hold any bytes but NUL, also such as are no UTF-8. */
const char *dtri_names_text(const struct dtri_names *names, int64_t id);
void dtri_names_free(struct dtri_names *names); /* accepts NULL */

#endif
