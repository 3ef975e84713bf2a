/* A heuristic with state: the seed and a count, so that a test sees create, cost and destroy work
 * together.  Counts up from the seed, so the first candidate asked for is the one to go. */
#include <stdlib.h>

#include "dtr/heuristic.h"

static void *create(uint64_t seed)
{
    uint64_t *next = malloc(sizeof *next);
    if (next)
        *next = seed;
    return next;
}

static double cost(void *state, const dtr_factors *factors)
{
    uint64_t *next = state;
    (void)factors;
    return (double)(*next)++;
}

const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void);
const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void)
{
    static const dtr_heuristic_plugin plugin = {
        .version = DTR_HEURISTIC_PLUGIN_VERSION,
        .size = sizeof(dtr_heuristic_plugin),
        .name = "first-come",
        .create = create,
        .destroy = free,
        .cost = cost,
    };
    return &plugin;
}
