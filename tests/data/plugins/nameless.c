/* A plugin whose name would not do as one in files and pictures. */
#include "dtr/heuristic.h"

static double cost(void *state, const dtr_factors *factors)
{
    (void)state;
    return (double)factors->bytes;
}

const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void);
const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void)
{
    static const dtr_heuristic_plugin plugin = {
        .version = DTR_HEURISTIC_PLUGIN_VERSION,
        .size = sizeof(dtr_heuristic_plugin),
        .name = "No Name!",
        .cost = cost,
    };
    return &plugin;
}
