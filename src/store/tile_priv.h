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

static inline int64_t dtri_add_sat(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Adds one bucket's numbers to another's. */
void dtri_page_merge(struct dtri_page *page, int bucket, int64_t n, int64_t total, int64_t least,
                     int64_t most);

/* Adds all of another page. */
void dtri_page_add(struct dtri_page *page, const struct dtri_page *more);
/* Turns a page into what it adds to its parent. */
void dtri_page_to_parent(struct dtri_page_key *key, struct dtri_page *page);

/* Adds the row of the file, if there is one, to the page. */
dtr_status dtri_tile_add_row(struct dtri_store *store, const struct dtri_page_key *key,
                             struct dtri_page *page, bool *out_found, dtr_error *error);
/* Adds the page to its row in the file, or makes one.  The page itself stays as it is. */
dtr_status dtri_tile_write_row(struct dtri_store *store, const struct dtri_page_key *key,
                               const struct dtri_page *more, bool *out_found, dtr_error *error);

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

/* --- what waits to be written ----------------------------------------------------------------- */

#define DTRI_TILE_SLOTS 512
#define DTRI_TILE_HASH  2048 /* a power of 2 */
#define DTRI_TILE_RUNS  64
#define DTRI_TILE_LOOK  65536

struct dtri_tile_slot {
    struct dtri_page_key key;
    struct dtri_page page;
};

struct dtri_tile_run {
    int64_t run;
    int base, top;
    int64_t top_page;
    bool empty, fixed;
    int64_t n_events, n_pages; /* of the base level, since the file was opened; once a track */
    int64_t n_chunked;         /* events, each once */
    int64_t ts_min, ts_max;
    int64_t next_look; /* n_chunked at which the base may fall; 0: never again */
};

struct dtri_tiles {
    struct dtri_tile_slot *slots;
    uint16_t *hash; /* 1 + index of a slot, 0 free */
    int n_slots;
    struct dtri_tile_run runs[DTRI_TILE_RUNS];
    int n_runs;
    bool rolled_back, broken;
    sqlite3_stmt *read, *write, *extent;
};

/* A statement that is prepared once. */
dtr_status dtri_tiles_statement(struct dtri_store *store, sqlite3_stmt **at, const char *sql,
                                dtr_error *error);
/* What is known of a run; borrowed until another is asked for. */
dtr_status dtri_tiles_run(struct dtri_store *store, int64_t run, struct dtri_tile_run **out,
                          dtr_error *error);
/* Forgets everything when the transaction that it belonged to was rolled back. */
dtr_status dtri_tiles_settle(struct dtri_tiles *tiles, dtr_error *error);
/* Empties the slots into the file; the base may have risen. */
dtr_status dtri_tiles_flush_pages(struct dtri_store *store, dtr_error *error);

#endif
