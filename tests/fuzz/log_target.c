/* The log reader under fuzzing: any bytes give an error with a text, or a trace that replays.
 *
 * One source, two ways to run it: with DTR_FUZZ and clang it is a libFuzzer target; otherwise
 * test_log_corpus.c includes it and feeds it every file of tests/data/fuzz. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/sim.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void hole(const char *what, const dtr_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->text);
    abort();
}

/* A replay that is refused, and not just out of memory or thrashed, is a hole in the reader. */
static void replay(const struct dtri_trace *trace)
{
    struct dtri_sim_result result;
    dtr_error error;
    int64_t peak;
    if (trace->n_steps > 20000) /* too slow to be worth it */
        return;
    if (dtri_sim_unlimited_peak(trace, &peak, &error) != DTR_OK)
        hole("the unlimited replay was refused", &error);
    struct dtri_sim_options options = {
        .heuristic = "dtr-eq",
        .budget_bytes = peak / 2 + 1,
        .deallocation = DTR_DEALLOCATE_EAGER,
        .remat_limit_ns = trace->compute_ns,
    };
    if (dtri_sim_run(trace, &options, &result, &error) != DTR_OK)
        hole("the replay was refused", &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = P_tmpdir "/dtrscope-fuzz-XXXXXX";
    struct dtri_trace *trace = NULL;
    dtr_error error = {0};
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0)
        abort();
    if (dtri_trace_read_log(path, &trace, &error) == DTR_OK)
        replay(trace);
    else if (!error.text[0])
        abort();
    dtri_trace_free(trace);
    unlink(path);
    return 0;
}
