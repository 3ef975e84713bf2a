#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#if defined __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

#define CALIBRATE_NS 20000000
#define TRIES        8

static atomic_bool use_tsc;
/* Set before use_tsc is, and never again. */
static uint64_t base_tsc;
static int64_t base_ns;
static double ns_per_tick;
static uint64_t scale; /* ns per tick * 2^32 */

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t dtri_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t dtri_unix_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

#if defined __x86_64__

static uint64_t ticks(void)
{
    return __rdtsc();
}

static bool ticks_are_even(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
}

static int64_t from_ticks(uint64_t t)
{
    return base_ns + (int64_t)((unsigned __int128)(t - base_tsc) * scale >> 32);
}

#else

static uint64_t ticks(void)
{
    return 0;
}

static bool ticks_are_even(void)
{
    return false;
}

static int64_t from_ticks(uint64_t t)
{
    return (int64_t)t;
}

#endif

int64_t dtri_clock_ns(void)
{
    return atomic_load_explicit(&use_tsc, memory_order_relaxed) ? from_ticks(ticks())
                                                                : dtri_monotonic_ns();
}

bool dtri_clock_is_tsc(void)
{
    return atomic_load_explicit(&use_tsc, memory_order_acquire);
}

/* Both clocks at one moment: the tightest of some tries. */
static void read_both(uint64_t *out_ticks, int64_t *out_ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = ticks();
        int64_t ns = dtri_monotonic_ns();
        uint64_t after = ticks();
        if (after - before < best) {
            best = after - before;
            *out_ticks = before + best / 2;
            *out_ns = ns;
        }
    }
}

static void calibrate(void)
{
    uint64_t end_ticks = 0;
    int64_t end_ns = 0;
    if (!ticks_are_even())
        return;
    read_both(&base_tsc, &base_ns);
    nanosleep(&(struct timespec){.tv_nsec = CALIBRATE_NS}, NULL);
    read_both(&end_ticks, &end_ns);
    if (end_ticks <= base_tsc || end_ns <= base_ns)
        return;
    ns_per_tick = (double)(end_ns - base_ns) / (double)(end_ticks - base_tsc);
    scale = (uint64_t)(ns_per_tick * 4294967296.0);
    atomic_store_explicit(&use_tsc, true, memory_order_release);
}

bool dtri_clock_use_tsc(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, calibrate);
    return dtri_clock_is_tsc();
}

void dtri_clock_pair(int64_t *out_clock_ns, int64_t *out_unix_ns, int64_t *out_uncertainty_ns)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = dtri_clock_ns(), wall = dtri_unix_ns(), after = dtri_clock_ns();
        if (after - before >= best)
            continue;
        best = after - before;
        *out_clock_ns = before + best / 2;
        *out_unix_ns = wall;
    }
    *out_uncertainty_ns = best / 2 + 1;
}
