/* Heuristics from shared objects: loading, checking, and handing them the factors they ask for. */
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "heuristic/heuristic.h"

static bool valid_name(const char *name)
{
    return name && name[0] && strlen(name) < 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

static dtr_status check_plugin(const dtr_heuristic_plugin *plugin, const char *path,
                               dtr_error *error)
{
    if (!plugin)
        return dtri_fail(error, DTR_E_FORMAT, 0, "%s: " DTR_HEURISTIC_PLUGIN_SYMBOL "() gave NULL",
                         path);
    if (plugin->version != DTR_HEURISTIC_PLUGIN_VERSION ||
        plugin->size != sizeof(dtr_heuristic_plugin))
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s was built for version %u of the plugin interface, this is version %u; "
                         "build it again against dtr/heuristic.h",
                         path, plugin->version, DTR_HEURISTIC_PLUGIN_VERSION);
    if (!valid_name(plugin->name))
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s: the plugin's name must be of a-z, 0-9 and '-', at most 63 long",
                         path);
    if (!plugin->cost)
        return dtri_fail(error, DTR_E_FORMAT, 0, "%s: the plugin has no cost function", path);
    return DTR_OK;
}

dtr_status dtri_plugin_load(struct dtri_sel *sel, const char *path, uint64_t seed, dtr_error *error)
{
    sel->plugin_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!sel->plugin_library)
        return dtri_fail(error, DTR_E_FORMAT, 0, "cannot load the heuristic: %s", dlerror());
    dtr_heuristic_plugin_get_fn get;
    void *symbol = dlsym(sel->plugin_library, DTR_HEURISTIC_PLUGIN_SYMBOL);
    if (!symbol)
        return dtri_fail(
            error, DTR_E_FORMAT, 0,
            "%s is not a heuristic: it exports no function " DTR_HEURISTIC_PLUGIN_SYMBOL, path);
    memcpy(&get, &symbol, sizeof get);
    const dtr_heuristic_plugin *plugin = get();
    dtr_status status = check_plugin(plugin, path, error);
    if (status != DTR_OK)
        return status;
    sel->plugin_name = dtri_strdup(plugin->name);
    if (!sel->plugin_name)
        return dtri_fail_nomem(error, "the heuristic");
    if (plugin->create && !(sel->plugin_state = plugin->create(seed)))
        return dtri_fail_nomem(error, "the heuristic's state");
    sel->plugin = plugin;
    sel->rule = (struct dtri_heuristic){.name = sel->plugin_name, .formula = DTRI_FORMULA_PLUGIN};
    return DTR_OK;
}

void dtri_plugin_unload(struct dtri_sel *sel)
{
    if (sel->plugin && sel->plugin->destroy)
        sel->plugin->destroy(sel->plugin_state);
    if (sel->plugin_library)
        dlclose(sel->plugin_library);
    dtri_free(sel->plugin_name);
}

double dtri_plugin_score(struct dtri_sel *sel, uint32_t storage, struct dtri_key *out_key)
{
    struct dtri_graph *g = sel->graph;
    const struct dtri_storage *s = &g->storages[storage];
    uint32_t needs = sel->plugin->needs;
    struct dtri_sum up = {.latest = s->last_access}, down = {.latest = s->last_access};
    int64_t class_cost = 0, adjacent = 0;
    if (needs & DTR_HEURISTIC_NEEDS_ANCESTORS)
        dtri_walk_sum(g, &sel->walk, storage, DTRI_UP, &up);
    if (needs & DTR_HEURISTIC_NEEDS_DESCENDANTS)
        dtri_walk_sum(g, &sel->walk, storage, DTRI_DOWN, &down);
    if (needs & DTR_HEURISTIC_NEEDS_CLASSES)
        class_cost = dtri_classes_cost(&sel->classes, g, storage, &adjacent);
    bool never = s->last_access == DTRI_NEVER;
    dtr_factors factors = {
        .storage = s->id,
        .bytes = s->bytes,
        .local_cost_ns = s->local_cost,
        .last_access_ns = s->last_access,
        .clock_ns = g->clock,
        .staleness_ns = never ? INT64_MAX : g->clock - s->last_access,
        .ancestor_cost_ns = up.cost,
        .descendant_cost_ns = down.cost,
        .class_cost_ns = class_cost,
        .neighbours = needs ? up.count + down.count + adjacent : DTR_NONE,
        .latest_neighbour_access_ns = up.latest > down.latest ? up.latest : down.latest,
        .references = s->refs,
    };
    *out_key = (struct dtri_key){
        .cost = s->local_cost + up.cost + down.cost + class_cost,
        .bytes = s->bytes,
        .access = s->last_access,
        .neighbours = factors.neighbours,
    };
    double score = sel->plugin->cost(sel->plugin_state, &factors);
    if (isnan(score) && !sel->nan_storage)
        sel->nan_storage = storage;
    return score;
}
