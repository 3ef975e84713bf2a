/* One row of table tile. */
#ifndef DTRI_STORE_TILE_ROW_H
#define DTRI_STORE_TILE_ROW_H

#include "store/tile.h"

#define DTRI_TILE_COLUMNS 5 /* bucket within the page, n, total, least, most */

struct dtri_page_key {
    int64_t run, track, level, page;
};

/* Columns that the pages of a track have. */
int dtri_tile_columns(int64_t track);

/* The columns of the buckets, which are in order.  False when damaged. */
struct dtri_tile_row {
    int64_t columns[DTRI_TILE_COLUMNS][DTRI_TILE_PAGE];
    int n;
};
bool dtri_tile_row_decode(const struct dtri_page_key *key, int64_t n, int64_t format,
                          const void *data, size_t size, struct dtri_tile_row *out_row);

#endif
