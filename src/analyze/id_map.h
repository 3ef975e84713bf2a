/* From ids to structs of one size: a hash table that only grows.  Ids may be any but INT64_MIN. */
#ifndef DTRI_ANALYZE_ID_MAP_H
#define DTRI_ANALYZE_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dtri_id_map {
    size_t value_size; /* set before the first use; the rest is zero */
    int64_t *ids;
    char *values;
    size_t n, n_slots;
};

/* The value of `id`, or NULL. */
void *dtri_id_find(const struct dtri_id_map *map, int64_t id);
/* The value of `id`, zeroed and with *out_new set when there was none; NULL without memory.  Values
 * move when one is added. */
void *dtri_id_add(struct dtri_id_map *map, int64_t id, bool *out_new);
void dtri_id_remove(struct dtri_id_map *map, int64_t id);
void dtri_id_map_done(struct dtri_id_map *map);

#endif
