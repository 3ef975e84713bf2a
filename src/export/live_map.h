/* A few numbers by id, for what is alive while a run streams by. */
#ifndef DTRI_EXPORT_LIVE_MAP_H
#define DTRI_EXPORT_LIVE_MAP_H

#include <stddef.h>
#include <stdint.h>

#define DTRI_LIVE_MAP_VALUES 4

struct dtri_live_map {
    struct dtri_live_map_slot *slots; /* open addressing, linear probing */
    size_t n, cap;
};

/* A zeroed struct is an empty map.  Pointers to values hold until the map changes. */
void dtri_live_map_done(struct dtri_live_map *map);
int64_t *dtri_live_map_find(const struct dtri_live_map *map, int64_t id); /* NULL: not there */
/* The values of `id`, zeros if it was not there; NULL when there is no memory. */
int64_t *dtri_live_map_add(struct dtri_live_map *map, int64_t id);
void dtri_live_map_remove(struct dtri_live_map *map, int64_t id); /* also one that is not there */

#endif
