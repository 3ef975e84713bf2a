/* Host memory that the runtime needs for one tensor: bench_memory HEURISTIC N
 *
 * Prints bytes per live tensor (one operator, one storage and two inputs each). */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "dtr/runtime.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bench_memory HEURISTIC N\n");
        return 2;
    }
    int64_t n = atoll(argv[2]);
    dtr_error error;
    dtr_runtime *rt;
    dtr_runtime_options options;
    dtr_selector *selector;
    dtr_selector_options choice = {.heuristic = argv[1]};
    dtr_tensor inputs[2];
    dtr_output output = {.bytes = 1000, .view_of = -1};
    if (dtr_selector_new(&choice, &selector, &error) != DTR_OK) {
        fprintf(stderr, "bench_memory: %s\n", error.text);
        return 1;
    }
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    dtr_runtime_options_init(&options);
    options.backend = dtr_backend_virtual();
    options.selector = selector;
    options.budget_bytes = n * 500;
    if (dtr_runtime_new(&options, &rt, &error) != DTR_OK)
        return 1;
    for (int64_t i = 0; i < n; i++) {
        dtr_call call = {.name = DTR_NONE, .cost_ns = 1000 + i % 97, .n_inputs = i < 2 ? 0 : 2,
                         .n_outputs = 1, .inputs = inputs, .outputs = &output};
        dtr_tensor out;
        if (dtr_run(rt, &call, &out, &error) != DTR_OK) {
            fprintf(stderr, "bench_memory: %s\n", error.text);
            return 1;
        }
        inputs[0] = inputs[1];
        inputs[1] = out;
    }
    printf("%.1f\n", (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before) / (double)n);
    dtr_runtime_free(rt);
    return 0;
}
