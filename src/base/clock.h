/* Clocks.
 *
 * dtri_monotonic_ns is CLOCK_MONOTONIC.  dtri_clock_ns is what events are stamped with: the same,
 * or, after dtri_clock_use_tsc, the processor's time stamp counter scaled to it, which costs less
 * than half.  The scale is measured once, over 20 ms, and not steered afterwards: the two then part
 * by a few microseconds a second; clock samples in the file tell by how much. */
#ifndef DTRI_BASE_CLOCK_H
#define DTRI_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t dtri_monotonic_ns(void);
int64_t dtri_unix_ns(void);
int64_t dtri_clock_ns(void);
/* False, and nothing changes, where the counter does not run evenly (no invariant TSC).  Any
 * thread; the first call measures. */
bool dtri_clock_use_tsc(void);
bool dtri_clock_is_tsc(void);

/* The event clock and the wall clock, read together.  Of some tries the tightest; *out_uncertainty:
 * the pair may be off by this much. */
void dtri_clock_pair(int64_t *out_clock_ns, int64_t *out_unix_ns, int64_t *out_uncertainty_ns);

#endif
