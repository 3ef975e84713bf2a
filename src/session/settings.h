/* The settings of a session: the table behind DTR_* and behind the options of `dtrscope record`. */
#ifndef DTRI_SESSION_SETTINGS_H
#define DTRI_SESSION_SETTINGS_H

#include "base/options.h"
#include "base/units.h"

struct dtri_settings {
    struct dtri_budget budget;
    const char *heuristic, *record;
    int search, deallocation, ring_full;
    int64_t seed, remat_limit_ns, ring_events;
    bool overshoot;
};

/* Rows with name, environment variable and default; NULL-terminated.  The texts of defaults are in
 * dtri_settings_defaults, in the same order. */
extern const struct dtri_option dtri_settings_table[];
extern const char *const dtri_settings_defaults[];
extern const char *const dtri_settings_searches[];
extern const char *const dtri_settings_policies[];
extern const char *const dtri_settings_ring_full[];

#endif
