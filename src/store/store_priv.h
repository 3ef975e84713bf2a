/* Shared by the files of the store. */
#ifndef DTRI_STORE_STORE_PRIV_H
#define DTRI_STORE_STORE_PRIV_H

#include "store/store.h"

struct dtri_store {
    sqlite3 *db;
    char *path;
    bool writable;
    sqlite3_stmt *insert_chunk, *insert_name;
};

/* What SQLite said, as one of our statuses, with the file's name. */
dtr_status dtri_store_fail(struct dtri_store *store, const char *doing, dtr_error *error);
dtr_status dtri_store_prepare(struct dtri_store *store, const char *sql, sqlite3_stmt **out,
                              dtr_error *error);
/* Steps a statement that returns no row, and resets it. */
dtr_status dtri_store_step(struct dtri_store *store, sqlite3_stmt *statement, const char *doing,
                           dtr_error *error);
dtr_status dtri_store_exec(struct dtri_store *store, const char *sql, dtr_error *error);

#endif
