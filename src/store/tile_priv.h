/* Shared by the files about tiles. */
#ifndef DTRI_STORE_TILE_PRIV_H
#define DTRI_STORE_TILE_PRIV_H

#include "store/store_priv.h"
#include "store/tile_row.h"

/* A page, bucket by bucket; `least` and `most` mean something where n is not 0. */
struct dtri_page {
    int64_t n[DTRI_TILE_PAGE], total[DTRI_TILE_PAGE];
    int64_t least[DTRI_TILE_PAGE], most[DTRI_TILE_PAGE];
};

/* Adds one bucket's numbers to another's. */
void dtri_page_merge(struct dtri_page *page, int bucket, int64_t n, int64_t total, int64_t least,
                     int64_t most);

dtr_status dtri_tile_damaged(const struct dtri_store *store, const struct dtri_page_key *key,
                             dtr_error *error);

/* Levels of the run in the file, and the page that all its buckets of the top level lie in; base
 * DTRI_TILE_NONE when it has no tiles. */
dtr_status dtri_tiles_extent(struct dtri_store *store, int64_t run, int *out_base, int *out_top,
                             int64_t *out_top_page, dtr_error *error);

/* The run has no tiles any more, and is to have them from `base` on; nothing may wait to be
 * flushed.
 */
void dtri_tiles_restart(struct dtri_store *store, int64_t run, int base);
/* Makes the tiles of a run anew from its chunks; nothing may wait to be flushed. */
dtr_status dtri_tiles_rebuild(struct dtri_store *store, int64_t run, int base, dtr_error *error);

/* The columns of a kind that its tracks look at, as for dtri_store_reader_new. */
uint64_t dtri_tile_wanted(int64_t kind);

/* Gives a run without tiles a base level that stays. */
dtr_status dtri_tiles_fix_base(struct dtri_store *store, int64_t run, int base, dtr_error *error);

#endif
