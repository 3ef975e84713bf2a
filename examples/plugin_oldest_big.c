/* A heuristic of your own, as a plugin: copy this file, change `cost`, build it, name it.
 *
 *     cc -shared -fPIC -I include -o oldest_big.so examples/plugin_oldest_big.c
 *     dtrscope sim TRACE --budget 40% --heuristic ./oldest_big.so
 *
 * The idea of this one: evict what is old, but among tensors of about the same age the big one,
 * since one big eviction spares several small ones; and leave alone what takes long to make again.
 * Ages are put into classes of powers of two, so that "about the same age" has a meaning. */
#include <math.h>
#include <stddef.h>

#include "dtr/heuristic.h"

/* The lowest cost is evicted.  It must not be NaN: hence the care for sizes and costs of 0. */
static double cost(void *state, const dtr_factors *factors)
{
    (void)state; /* what `create` returned; this heuristic remembers nothing */
    if (factors->staleness_ns == INT64_MAX)
        return 0.0; /* never used: nobody misses it */
    double age_class = floor(log2(1.0 + (double)factors->staleness_ns));
    double bytes = (double)factors->bytes + 1.0;
    double effort = (double)factors->local_cost_ns + (double)factors->ancestor_cost_ns + 1.0;
    return effort / bytes / exp2(age_class);
}

/* `needs` says which sums over evicted neighbours the runtime shall compute before it asks; each
 * costs time, so name only what `cost` reads. */
const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void);
const dtr_heuristic_plugin *dtr_heuristic_plugin_get(void)
{
    static const dtr_heuristic_plugin plugin = {
        .version = DTR_HEURISTIC_PLUGIN_VERSION,
        .size = sizeof(dtr_heuristic_plugin),
        .name = "oldest-big",
        .needs = DTR_HEURISTIC_NEEDS_ANCESTORS,
        .cost = cost,
    };
    return &plugin;
}
