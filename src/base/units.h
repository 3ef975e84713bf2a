/* Sizes, shares and durations as people write them. */
#ifndef DTRI_BASE_UNITS_H
#define DTRI_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "dtr/status.h"

/* "4024471660", "3.5GiB", "6GB", "512k" (powers of 1024 with an i or a bare letter, of 1000 with a
 * B alone: kB, MB).  At least 1 byte. */
dtr_status dtri_parse_bytes(const char *text, int64_t *out_bytes, dtr_error *error);

/* "250", "250ns", "1.5s", "200ms", "3us" to ns, at least 0. */
dtr_status dtri_parse_duration(const char *text, int64_t *out_ns, dtr_error *error);

dtr_status dtri_parse_count(const char *text, int64_t min, int64_t max, int64_t *out_value,
                            dtr_error *error);

enum dtri_budget_kind {
    DTRI_BUDGET_NONE,  /* "none" */
    DTRI_BUDGET_BYTES, /* as dtri_parse_bytes */
    DTRI_BUDGET_SHARE, /* "40%" of the unlimited peak */
    DTRI_BUDGET_SQRT,  /* "2sqrt": 2 sqrt(n), rounded up, for a chain of n operators */
};

struct dtri_budget {
    enum dtri_budget_kind kind;
    int64_t bytes;
    double factor; /* of a share (0.4) or of the root (2) */
};

dtr_status dtri_parse_budget(const char *text, struct dtri_budget *out_budget, dtr_error *error);
/* The bytes of a share: floor(factor x peak), at least 1. */
int64_t dtri_budget_share(double factor, int64_t peak_bytes);

#define DTRI_UNITS_TEXT 32
/* "3.50 GiB", "1.25 ms": into `buffer` of DTRI_UNITS_TEXT, which is returned. */
const char *dtri_format_bytes(int64_t bytes, char *buffer);
const char *dtri_format_ns(int64_t ns, char *buffer);

#endif
