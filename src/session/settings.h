/* The settings of a session: the table behind DTR_* and behind the options of `dtrscope record`. */
#ifndef DTRI_SESSION_SETTINGS_H
#define DTRI_SESSION_SETTINGS_H

#include "base/options.h"
#include "base/units.h"

struct dtri_settings {
    struct dtri_budget budget;
    const char *heuristic, *record, *steps, *remat_limit;
    int search, deallocation, ring_full, clock, compress;
    int64_t seed, ring_events, commit_interval_ns;
    int64_t delay_ns, duration_ns, keep_events, keep_ns, stacks;
    bool overshoot;
};

/* Rows with name, environment variable and default; NULL-terminated.  The texts of defaults are in
 * dtri_settings_defaults, in the same order. */
extern const struct dtri_option dtri_settings_table[];
extern const char *const dtri_settings_defaults[];
extern const char *const dtri_settings_searches[];
extern const char *const dtri_settings_policies[];
extern const char *const dtri_settings_ring_full[];
extern const char *const dtri_settings_clocks[];
extern const char *const dtri_settings_packings[];

/* "0" or "none", a duration, or "Nx": N times the cost of first runs.  *out_ns and *out_ratio are
 * DTR_NONE where they are not meant. */
dtr_status dtri_parse_remat_limit(const char *text, int64_t *out_ns, int64_t *out_ratio,
                                  dtr_error *error);
/* "A:B", "A:", ":B" or "" (all) to A <= step < B; *out_begin DTR_NONE for all. */
dtr_status dtri_parse_steps(const char *text, int64_t *out_begin, int64_t *out_end,
                            dtr_error *error);

#endif
