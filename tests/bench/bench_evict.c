/* Time of one eviction with n candidates: bench_evict HEURISTIC SEARCH N ROUNDS
 *
 * n tensors of differing sizes and costs fill the budget; each further operator then forces one
 * eviction.  Prints ns per operator with its eviction, less the same operators without a budget. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dtr/runtime.h"

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void fail(const dtr_error *error)
{
    fprintf(stderr, "bench_evict: %s\n", error->text);
    exit(1);
}

static dtr_tensor run(dtr_runtime *rt, dtr_tensor input, int64_t cost, int64_t bytes)
{
    dtr_error error;
    dtr_tensor out;
    dtr_output output = {.bytes = bytes, .view_of = -1};
    dtr_call call = {.name = DTR_NONE, .cost_ns = cost, .n_inputs = input ? 1 : 0, .n_outputs = 1,
                     .inputs = &input, .outputs = &output};
    if (dtr_run(rt, &call, &out, &error) != DTR_OK)
        fail(&error);
    return out;
}

/* Sizes are equal, so that each operator evicts one tensor; costs differ. */
static double measure(const char *heuristic, const char *search, int64_t n, int64_t rounds,
                      int64_t budget)
{
    dtr_error error;
    dtr_runtime *rt;
    dtr_runtime_options options;
    dtr_selector *selector;
    dtr_selector_options choice = {.heuristic = heuristic, .search = search, .seed = 1};
    uint64_t state = 1;
    if (dtr_selector_new(&choice, &selector, &error) != DTR_OK)
        fail(&error);
    dtr_runtime_options_init(&options);
    options.backend = dtr_backend_virtual();
    options.selector = selector;
    options.budget_bytes = budget;
    if (dtr_runtime_new(&options, &rt, &error) != DTR_OK)
        fail(&error);
    dtr_tensor last = DTR_NO_TENSOR;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        last = run(rt, i % 8 ? last : DTR_NO_TENSOR, 1000 + (int64_t)(state >> 44), 1000);
    }
    double begin = 0;
    for (int64_t i = -100; i < rounds; i++) { /* the first evictions also build the index */
        if (i == 0)
            begin = now_ns();
        state = state * 6364136223846793005u + 1442695040888963407u;
        last = run(rt, i % 8 ? last : DTR_NO_TENSOR, 1000 + (int64_t)(state >> 44), 1000);
    }
    double ns = (now_ns() - begin) / (double)rounds;
    dtr_runtime_free(rt);
    return ns;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_evict HEURISTIC SEARCH N ROUNDS\n");
        return 2;
    }
    int64_t n = atoll(argv[3]), rounds = atoll(argv[4]);
    double with = measure(argv[1], argv[2], n, rounds, n * 1000);
    double without = measure(argv[1], argv[2], n, rounds, DTR_NONE);
    printf("%.1f\n", with > without ? with - without : 0.0);
    return 0;
}
