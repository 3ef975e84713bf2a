/* Other tools' files, made into databases.
 *
 * A reader (trace log, Chrome trace, memory snapshot) turns its file into records that name a lane;
 * the writer sorts them and makes one run of each lane.  The database is written under a temporary
 * name and takes its own only when it is complete. */
#ifndef DTRI_IMPORT_IMPORT_H
#define DTRI_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dtr/status.h"

enum dtri_import_format {
    DTRI_IMPORT_AUTO,
    DTRI_IMPORT_SIMRD,
    DTRI_IMPORT_CHROME,
    DTRI_IMPORT_SNAPSHOT,
};

/* Their names, in that order. */
extern const char *const dtri_import_formats[];

struct dtri_import_options {
    const char *path, *output;
    enum dtri_import_format format;
    bool force; /* replace the output */
    FILE *log;  /* what was left out, in sentences; NULL: nowhere */
};

struct dtri_import_result {
    enum dtri_import_format format;
    int n_runs;
    int64_t n_events; /* in the database */
};

dtr_status dtri_import_file(const struct dtri_import_options *options,
                            struct dtri_import_result *out_result, dtr_error *error);

/* Tells the format by the first bytes.  DTR_E_FORMAT with a remedy for anything else. */
dtr_status dtri_import_detect(const char *path, enum dtri_import_format *out_format,
                              dtr_error *error);

#endif
