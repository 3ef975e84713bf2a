/* Runs of several processes on one clock.
 *
 * A live run's events carry its host's monotonic clock; its clock samples pair that with the wall
 * clock.  Wall clocks of different hosts agree as well as their time service makes them, which no
 * file can know: the uncertainty here is what the samples themselves leave open. */
#ifndef DTRI_STORE_CLOCK_H
#define DTRI_STORE_CLOCK_H

#include "store/store.h"

struct dtri_alignment {
    bool known;             /* false: no samples, the run cannot be aligned */
    int64_t offset_ns;      /* Unix time - ts_ns */
    int64_t uncertainty_ns; /* either way: half the spread of the samples, and what taking the
                               widest of them took */
};

/* From the run's clock samples. */
dtr_status dtri_clock_alignment(struct dtri_store *store, int64_t run,
                                struct dtri_alignment *out_alignment, dtr_error *error);
/* Whether two runs of one host are likely to have had the same monotonic clock (no reboot between
 * them), so that one offset holds exactly for both. */
bool dtri_clock_is_shared(const struct dtri_alignment *a, const struct dtri_alignment *b);

#endif
