/* Exports: one file a format, all reading the event stream of one run in bounded memory. */
#ifndef DTRI_EXPORT_EXPORT_H
#define DTRI_EXPORT_EXPORT_H

#include "export/output.h"
#include "store/store.h"
#include "store/stream.h"

struct dtri_export_loss {
    char *reason;
    int64_t count; /* DTRI_NULL: some, not known how many */
};

struct dtri_export {
    struct dtri_store *store;
    const struct dtri_run *run;
    struct dtri_names *names;
    struct dtri_export_loss *losses; /* what is missing from the run; said where there is room */
    size_t n_losses, losses_cap;
    uint64_t kinds;           /* DTRI_KIND_BIT of what was asked for; all by default */
    int64_t ts_min, ts_max;   /* events that begin within; all by default */
    int64_t seq_min, seq_max; /* and are emitted within; dtri_export_next looks at it */
    const char *table;        /* of a format that writes one table a file: which */
};

/* A job for all of a run, which it borrows with the store. */
dtr_status dtri_export_init(struct dtri_export *job, struct dtri_store *store,
                            const struct dtri_run *run, dtr_error *error);
void dtri_export_done(struct dtri_export *job);

/* The events that the job asks for, of those `kinds` that it asks for; dtri_stream_free frees. */
dtr_status dtri_export_open(const struct dtri_export *job, uint64_t kinds,
                            struct dtri_stream **out_stream, dtr_error *error);
dtr_status dtri_export_next(const struct dtri_export *job, struct dtri_stream *stream,
                            const dtr_event **out_event, dtr_error *error);
/* True when DTR_NONE in this field means that there is none. */
bool dtri_export_none(const dtr_field_info *field, int64_t raw);

struct dtri_export_format {
    const char *name;      /* for --format */
    const char *extension; /* of the file, without a dot */
    const char *summary;
    bool table; /* one file holds the one table that `job->table` names */
    /* Streams the run into `output`; write failures show when that is closed. */
    dtr_status (*write)(const struct dtri_export *job, struct dtri_output *output,
                        dtr_error *error);
    /* Instead of `write`, for what cannot be streamed into an output: makes the file itself. */
    dtr_status (*write_file)(const struct dtri_export *job, const char *path, bool force,
                             dtr_error *error);
};

/* The formats, in the order of the help: FORMAT(name), from formats.def. */
#include "export/formats.def"
#define DTRI_DECLARE_FORMAT(name) extern const struct dtri_export_format dtri_export_##name;
DTRI_EXPORT_FORMATS(DTRI_DECLARE_FORMAT)
#undef DTRI_DECLARE_FORMAT

/* NULL when there is none of that name. */
const struct dtri_export_format *dtri_export_find(const char *name);
/* All of them, NULL at the end. */
const struct dtri_export_format *const *dtri_export_formats(void);

#endif
