#include "analyze/id_map.h"

#include <string.h>

#include "base/alloc.h"

#define FREE INT64_MIN

static size_t home(const struct dtri_id_map *map, int64_t id)
{
    uint64_t h = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h ^ h >> 32) & (map->n_slots - 1);
}

static size_t slot_of(const struct dtri_id_map *map, int64_t id)
{
    size_t at = home(map, id);
    while (map->ids[at] != FREE && map->ids[at] != id)
        at = (at + 1) & (map->n_slots - 1);
    return at;
}

void *dtri_id_find(const struct dtri_id_map *map, int64_t id)
{
    if (!map->n_slots || id == FREE)
        return NULL;
    size_t at = slot_of(map, id);
    return map->ids[at] == id ? map->values + at * map->value_size : NULL;
}

static bool grow(struct dtri_id_map *map)
{
    struct dtri_id_map larger = {.value_size = map->value_size,
                                 .n = map->n,
                                 .n_slots = map->n_slots ? map->n_slots * 2 : 64};
    larger.ids = dtri_malloc(larger.n_slots * sizeof *larger.ids);
    larger.values = dtri_malloc(larger.n_slots * larger.value_size);
    if (!larger.ids || !larger.values) {
        dtri_id_map_done(&larger);
        return false;
    }
    for (size_t i = 0; i < larger.n_slots; i++)
        larger.ids[i] = FREE;
    for (size_t i = 0; i < map->n_slots; i++) {
        if (map->ids[i] == FREE)
            continue;
        size_t at = slot_of(&larger, map->ids[i]);
        larger.ids[at] = map->ids[i];
        memcpy(larger.values + at * map->value_size, map->values + i * map->value_size,
               map->value_size);
    }
    dtri_id_map_done(map);
    *map = larger;
    return true;
}

void *dtri_id_add(struct dtri_id_map *map, int64_t id, bool *out_new)
{
    void *found = dtri_id_find(map, id);
    *out_new = !found;
    if (found)
        return found;
    if (id == FREE || (map->n * 4 >= map->n_slots * 3 && !grow(map)))
        return NULL;
    size_t at = slot_of(map, id);
    map->ids[at] = id;
    map->n++;
    return memset(map->values + at * map->value_size, 0, map->value_size);
}

/* What came after it in its row moves up, so that nothing is out of reach. */
void dtri_id_remove(struct dtri_id_map *map, int64_t id)
{
    if (!dtri_id_find(map, id))
        return;
    size_t mask = map->n_slots - 1, hole = slot_of(map, id);
    map->n--;
    for (size_t at = (hole + 1) & mask; map->ids[at] != FREE; at = (at + 1) & mask) {
        if (((at - home(map, map->ids[at])) & mask) < ((at - hole) & mask))
            continue;
        map->ids[hole] = map->ids[at];
        memcpy(map->values + hole * map->value_size, map->values + at * map->value_size,
               map->value_size);
        hole = at;
    }
    map->ids[hole] = FREE;
}

void dtri_id_map_done(struct dtri_id_map *map)
{
    dtri_free(map->ids);
    dtri_free(map->values);
    map->ids = NULL;
    map->values = NULL;
    map->n = map->n_slots = 0;
}
