/* The settings of a session: the table behind DTR_* and behind the options of `dtrscope record`. */
#ifndef DTRI_SESSION_SETTINGS_H
#define DTRI_SESSION_SETTINGS_H

#include "base/options.h"
#include "base/units.h"

struct dtri_settings {
    struct dtri_budget budget;
    const char *heuristic, *record, *steps;
    int search, deallocation, ring_full, clock, compress;
    int64_t seed, remat_limit_ns, ring_events, commit_interval_ns;
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

/* "A:B", "A:", ":B" or "" (all) to A <= step < B; *out_begin DTR_NONE for all. */
dtr_status dtri_parse_steps(const char *text, int64_t *out_begin, int64_t *out_end,
                            dtr_error *error);

#endif
