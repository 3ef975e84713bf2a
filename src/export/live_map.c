#include "export/live_map.h"

#include <stdbool.h>

#include "base/alloc.h"

struct dtri_live_map_slot {
    int64_t id;
    bool used;
    int64_t values[DTRI_LIVE_MAP_VALUES];
};

/* cap is a power of two, or 0. */
static size_t home(const struct dtri_live_map *map, int64_t id)
{
    return (size_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (map->cap - 1);
}

static size_t seek(const struct dtri_live_map *map, int64_t id)
{
    size_t at = home(map, id);
    while (map->slots[at].used && map->slots[at].id != id)
        at = (at + 1) & (map->cap - 1);
    return at;
}

void dtri_live_map_done(struct dtri_live_map *map)
{
    dtri_free(map->slots);
    *map = (struct dtri_live_map){0};
}

int64_t *dtri_live_map_find(const struct dtri_live_map *map, int64_t id)
{
    if (!map->n)
        return NULL;
    struct dtri_live_map_slot *slot = &map->slots[seek(map, id)];
    return slot->used ? slot->values : NULL;
}

static bool grow(struct dtri_live_map *map)
{
    struct dtri_live_map larger = {.n = map->n, .cap = map->cap ? map->cap * 2 : 64};
    larger.slots = dtri_calloc(larger.cap, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].used)
            larger.slots[seek(&larger, map->slots[i].id)] = map->slots[i];
    dtri_free(map->slots);
    *map = larger;
    return true;
}

int64_t *dtri_live_map_add(struct dtri_live_map *map, int64_t id)
{
    if (2 * (map->n + 1) > map->cap && !grow(map))
        return NULL;
    struct dtri_live_map_slot *slot = &map->slots[seek(map, id)];
    if (!slot->used) {
        *slot = (struct dtri_live_map_slot){.id = id, .used = true};
        map->n++;
    }
    return slot->values;
}

/* Closes the gap: what follows and may move nearer to its home does. */
void dtri_live_map_remove(struct dtri_live_map *map, int64_t id)
{
    if (!dtri_live_map_find(map, id))
        return;
    size_t gap = seek(map, id), mask = map->cap - 1;
    for (size_t at = (gap + 1) & mask; map->slots[at].used; at = (at + 1) & mask) {
        size_t from_home = (at - home(map, map->slots[at].id)) & mask;
        if (from_home < ((at - gap) & mask))
            continue;
        map->slots[gap] = map->slots[at];
        gap = at;
    }
    map->slots[gap].used = false;
    map->n--;
}
