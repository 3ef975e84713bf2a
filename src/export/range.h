/* Which part of a run goes out: as people write it, on the job. */
#ifndef DTRI_EXPORT_RANGE_H
#define DTRI_EXPORT_RANGE_H

#include "export/export.h"

struct dtri_export_range {
    const char *events; /* "eviction,decision": names of kinds */
    const char *start;  /* a duration since the base time of the run, or "30%" of it */
    const char *end;    /* the same; what begins then is out */
    const char *steps;  /* "A:B": from iteration mark A up to, and without, B; "A:" to the end */
};

/* Any of the texts may be NULL: no limit of that sort. */
dtr_status dtri_export_select(struct dtri_export *job, const struct dtri_export_range *range,
                              dtr_error *error);

#endif
