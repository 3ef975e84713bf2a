/* Shared by the files of the store. */
#ifndef DTRI_STORE_STORE_PRIV_H
#define DTRI_STORE_STORE_PRIV_H

#include "store/store.h"

struct dtri_tiles;

struct dtri_store {
    sqlite3 *db;
    char *path;
    bool writable;
    sqlite3_stmt *insert_chunk, *insert_name;
    struct dtri_tiles *tiles; /* made when first needed */
};

/* What SQLite said, as one of our statuses, with the file's name. */
dtr_status dtri_store_fail(struct dtri_store *store, const char *doing, dtr_error *error);
dtr_status dtri_store_prepare(struct dtri_store *store, const char *sql, sqlite3_stmt **out,
                              dtr_error *error);
/* Steps a statement that returns no row, and resets it. */
dtr_status dtri_store_step(struct dtri_store *store, sqlite3_stmt *statement, const char *doing,
                           dtr_error *error);
dtr_status dtri_store_exec(struct dtri_store *store, const char *sql, dtr_error *error);

/* --- tile.c, for the writer ------------------------------------------------------------------- */

/* Adds n events of one kind that go into the file in the same transaction; columns 0 ts_ns, 1 seq,
 * 2.. the fields. */
dtr_status dtri_tiles_add(struct dtri_store *store, int64_t run, int64_t kind, int n,
                          const int64_t *const *columns, dtr_error *error);
/* Events that were added are not in the file after all: nothing is flushed any more. */
void dtri_tiles_break(struct dtri_store *store);
/* Brings the rows of table tile up to date.  After a failure it fails until the transaction is
 * rolled back, which also forgets what was added since the last commit. */
dtr_status dtri_tiles_flush(struct dtri_store *store, dtr_error *error);
/* Forgets what is not flushed, and finalizes the statements. */
void dtri_tiles_free(struct dtri_store *store);
/* Fills table track. */
dtr_status dtri_tracks_insert(struct dtri_store *store, dtr_error *error);
/* A store that is nothing but an empty table tile in a temporary file. */
dtr_status dtri_store_scratch(struct dtri_store **out_store, dtr_error *error);

#endif
