/* Exports: one file a format, all reading the event stream of one run in bounded memory. */
#ifndef DTRI_EXPORT_EXPORT_H
#define DTRI_EXPORT_EXPORT_H

#include "export/output.h"
#include "store/store.h"
#include "store/stream.h"

struct dtri_export {
    struct dtri_store *store;
    const struct dtri_run *run;
    const struct dtri_names *names;
    uint64_t kinds;         /* DTRI_KIND_BIT of what was asked for; all by default */
    int64_t ts_min, ts_max; /* events that begin within */
};

struct dtri_export_format {
    const char *name;      /* for --format */
    const char *extension; /* of the file, without a dot */
    const char *summary;
    bool table; /* one file holds one kind of event, which has exactly one bit in `kinds` */
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
