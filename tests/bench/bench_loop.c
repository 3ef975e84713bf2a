/* A loop of short operators: bench_loop OPERATOR_NS N
 *
 * Each operator takes the output of the one before and spins for so long; the one before is released.
 * Records where DTR_RECORD says.  Prints ns an operator, by the wall clock and of this thread's
 * processor time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "dtr/session.h"

static int64_t spin_ns;

static dtr_status run(void *self, const dtr_op_call *call, int64_t *out_cost_ns, dtr_error *error)
{
    (void)self, (void)call, (void)error;
    int64_t begin = dtri_clock_ns();
    while (dtri_clock_ns() - begin < spin_ns)
        continue;
    *out_cost_ns = spin_ns;
    return DTR_OK;
}

static int64_t now_ns(void *self)
{
    (void)self;
    return dtri_clock_ns();
}

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void must(dtr_status status, const dtr_error *error)
{
    if (status == DTR_OK)
        return;
    fprintf(stderr, "bench_loop: %s\n", error->text);
    exit(1);
}

int main(int argc, char **argv)
{
    const dtr_backend backend = {.run = run, .now_ns = now_ns};
    const dtr_output output = {.bytes = 4096, .view_of = -1};
    dtr_session_options options;
    dtr_session *session;
    dtr_error error;
    dtr_tensor tensor, next;
    if (argc != 3) {
        fprintf(stderr, "usage: bench_loop OPERATOR_NS N\n");
        return 2;
    }
    spin_ns = atoll(argv[1]);
    int64_t n = atoll(argv[2]);
    dtri_clock_use_tsc();
    dtr_session_options_init(&options);
    options.backend = &backend;
    must(dtr_session_open(&options, &session, &error), &error);
    dtr_runtime *rt = dtr_session_runtime(session);
    must(dtr_constant(rt, 4096, &tensor, NULL, &error), &error);
    int64_t name = dtr_runtime_name(rt, "spin");
    int64_t begin = dtri_monotonic_ns(), cpu_begin = cpu_ns();
    for (int64_t i = 0; i < n; i++) {
        const dtr_call call = {.name = name, .cost_ns = DTR_NONE, .n_inputs = 1, .n_outputs = 1,
                               .inputs = &tensor, .outputs = &output};
        must(dtr_run(rt, &call, &next, &error), &error);
        must(dtr_release(rt, tensor), &error);
        tensor = next;
    }
    int64_t ns = dtri_monotonic_ns() - begin, cpu = cpu_ns() - cpu_begin;
    must(dtr_session_close(session, NULL, &error), &error);
    printf("%.1f %.1f\n", (double)ns / (double)n, (double)cpu / (double)n);
    return 0;
}
