/* Many files into one: every run with all its rows, under a new id. */
#ifndef DTRI_STORE_MERGE_H
#define DTRI_STORE_MERGE_H

#include "store/clock.h"

enum dtri_align {
    DTRI_ALIGN_AUTO,  /* the runs that can be */
    DTRI_ALIGN_CLOCK, /* all of them; a live run without clock samples is an error */
    DTRI_ALIGN_NONE,
};

struct dtri_merge_options {
    enum dtri_align align;
    bool skip_known; /* leave out a run that is in the output already, rather than refuse it */
};

struct dtri_merge_stats {
    int64_t files, runs, skipped_runs, unaligned_runs;
    int64_t events, rows; /* rows: of all tables, chunks and tiles included */
};

/* Copies the runs of `inputs` into a new file.  It appears under its name only when it is whole.
 * Inputs are opened for reading, may be of older versions, and of their schema nothing is used but
 * the tables that this program knows. */
dtr_status dtri_merge(const char *output, bool force, const char *const *inputs, int n_inputs,
                      const struct dtri_merge_options *options, struct dtri_merge_stats *out_stats,
                      dtr_error *error);

#endif
