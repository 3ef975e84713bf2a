/* A heuristic that is wrong now and then: NaN for a big storage. */
#include <math.h>

#include "dtr/heuristic.h"

static double cost(void *state, const dtr_factors *factors)
{
    (void)state;
    return factors->bytes > 1000 ? NAN : (double)factors->bytes;
}

const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void);
const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void)
{
    static const dtr_heuristic_plugin plugin = {
        .version = DTR_HEURISTIC_PLUGIN_VERSION,
        .size = sizeof(dtr_heuristic_plugin),
        .name = "now-and-then-nan",
        .cost = cost,
    };
    return &plugin;
}
