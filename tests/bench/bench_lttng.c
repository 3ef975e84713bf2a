/* The same events as bench_record through LTTng-UST, in the same bursts: bench_lttng N ROUNDS
 *
 * Prints the least and the median of the rounds in ns an event.  The session is made around it by
 * bench.py; without one, a tracepoint does nothing. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BURST    16384
#define PAUSE_US 5000

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double times[64];
    if (argc != 3)
        return 2;
    int64_t n = atoll(argv[1]) / BURST * BURST;
    int rounds = atoi(argv[2]);
    for (int r = 0; r < rounds && r < 64; r++) {
        int64_t ns = 0;
        for (int64_t done = 0; done < n; done += BURST) {
            int64_t begin = now_ns();
            for (int64_t i = done; i < done + BURST; i++)
                lttng_ust_tracepoint(dtr_bench, decision, i);
            ns += now_ns() - begin;
            usleep(PAUSE_US);
        }
        times[r] = (double)ns / (double)n;
    }
    qsort(times, (size_t)rounds, sizeof *times, by_value);
    printf("%.2f %.2f\n", times[0], times[rounds / 2]);
    return 0;
}
