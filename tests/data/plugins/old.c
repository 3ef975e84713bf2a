/* A plugin of an interface that does not exist yet. */
#include <stddef.h>

#include "dtr/heuristic.h"

const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void);
const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void)
{
    static const dtr_heuristic_plugin plugin = {
        .version = DTR_HEURISTIC_PLUGIN_VERSION + 1,
        .size = sizeof(dtr_heuristic_plugin),
        .name = "of-another-time",
    };
    return &plugin;
}
