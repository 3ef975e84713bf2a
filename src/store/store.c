/* Opening and closing.
 *
 * Writing uses WAL, so that a reader can look while a run goes on, and ends with a checkpoint and
 * the rollback journal, so that the file can be copied and opened read-only.  Between commits a
 * transaction is always open.  Reading treats the file as hostile: no trusted schema, defensive
 * mode, query_only. */
#include "store/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/tile.h"

extern const unsigned char dtri_schema[], dtri_schema_001_to_002[], dtri_schema_001_read[];

/* --- errors ----------------------------------------------------------------------------------- */

static dtr_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return DTR_E_NOMEM;
    case SQLITE_FULL:
        return DTR_E_FULL;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return DTR_E_FORMAT;
    case SQLITE_INTERRUPT:
        return DTR_E_INTERRUPTED;
    default:
        return DTR_E_IO;
    }
}

dtr_status dtri_store_fail(struct dtri_store *store, const char *doing, dtr_error *error)
{
    int code = sqlite3_extended_errcode(store->db);
    return dtri_fail(error, status_of(code), code, "%s: %s: %s", store->path, doing,
                     sqlite3_errmsg(store->db));
}

dtr_status dtri_store_prepare(struct dtri_store *store, const char *sql, sqlite3_stmt **out,
                              dtr_error *error)
{
    if (sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK)
        return DTR_OK;
    return dtri_store_fail(store, "preparing a statement", error);
}

dtr_status dtri_store_step(struct dtri_store *store, sqlite3_stmt *statement, const char *doing,
                           dtr_error *error)
{
    int code = sqlite3_step(statement);
    dtr_status status = DTR_OK;
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        status = dtri_store_fail(store, doing, error);
    sqlite3_reset(statement);
    return status;
}

dtr_status dtri_store_exec(struct dtri_store *store, const char *sql, dtr_error *error)
{
    if (sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return DTR_OK;
    return dtri_store_fail(store, "running a statement", error);
}

/* --- opening ---------------------------------------------------------------------------------- */

static dtr_status connect_db(const char *path, int flags, const char *vfs,
                             struct dtri_store **out_store, dtr_error *error)
{
    struct dtri_store *store = dtri_calloc(1, sizeof *store);
    if (store)
        store->path = dtri_strdup(path);
    if (!store || !store->path) {
        dtri_free(store);
        return dtri_fail_nomem(error, "a database");
    }
    store->writable = !(flags & SQLITE_OPEN_READONLY);
    if (sqlite3_open_v2(path, &store->db, flags | SQLITE_OPEN_NOMUTEX, vfs) != SQLITE_OK) {
        int why = errno;
        dtr_status status = store->db ? dtri_fail(error, DTR_E_IO, why, "cannot open %s: %s%s%s",
                                                  path, sqlite3_errmsg(store->db), why ? ": " : "",
                                                  why ? strerror(why) : "")
                                      : dtri_fail_nomem(error, "a database");
        sqlite3_close(store->db);
        dtri_free(store->path);
        dtri_free(store);
        return status;
    }
    sqlite3_busy_timeout(store->db, 5000);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    dtri_vtab_register(store->db);
    *out_store = store;
    return DTR_OK;
}

static void disconnect(struct dtri_store *store)
{
    dtri_tiles_free(store);
    sqlite3_finalize(store->insert_chunk);
    sqlite3_finalize(store->insert_name);
    sqlite3_close(store->db);
    dtri_free(store->path);
    dtri_free(store);
}

/* CREATE VIEW eviction AS SELECT ..., with texts in place of NAME ids. */
static void view_sql(char *sql, size_t size, const char *create, const dtr_event_info *info)
{
    size_t used =
        (size_t)snprintf(sql, size, "%s %s AS SELECT e.run, e.ts_ns, e.seq", create, info->name);
    bool named = false;
    for (int i = 0; i < info->n_fields; i++) {
        bool is_name = info->fields[i].unit == DTR_UNIT_NAME;
        named = named || is_name;
        used += (size_t)snprintf(sql + used, size - used, is_name ? ", n.text AS %s" : ", e.%s",
                                 info->fields[i].name);
    }
    used += (size_t)snprintf(sql + used, size - used, " FROM dtr_event_%s AS e", info->name);
    if (named)
        snprintf(sql + used, size - used,
                 " LEFT JOIN name AS n ON n.run = e.run AND n.id = e.name");
}

/* One view per event kind, from the list of events. */
static dtr_status create_views(struct dtri_store *store, const char *create, dtr_error *error)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    dtr_status status = DTR_OK;
    for (int i = 0; i < n && status == DTR_OK; i++) {
        char sql[1024];
        view_sql(sql, sizeof sql, create, &infos[i]);
        status = dtri_store_exec(store, sql, error);
    }
    if (status != DTR_OK)
        return status;
    char sql[512];
    snprintf(sql, sizeof sql,
             "%s tile_bucket AS SELECT b.run, b.track, t.name, t.unit, b.level, b.ts_ns, "
             "b.width_ns, b.n, b.total, b.least, b.most FROM dtr_tile AS b "
             "LEFT JOIN track AS t ON t.id = b.track",
             create);
    return dtri_store_exec(store, sql, error);
}

static dtr_status create_schema(struct dtri_store *store, dtr_error *error)
{
    /* A chunk takes 20 to 100 kB: with SQLite's 4096 it would be 20 reads and as many entries of
     * the log. Measured, a narrow window costs a third, and writing three quarters. */
    dtr_status status = dtri_store_exec(store,
                                        "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; "
                                        "PRAGMA synchronous = NORMAL; BEGIN",
                                        error);
    if (status == DTR_OK)
        status = dtri_store_exec(store, (const char *)dtri_schema, error);
    if (status == DTR_OK)
        status = create_views(store, "CREATE VIEW", error);
    if (status == DTR_OK)
        status = dtri_tracks_insert(store, error);
    if (status == DTR_OK)
        status = dtri_store_exec(
            store, "INSERT INTO meta VALUES ('dtrscope_version', '" DTR_VERSION "')", error);
    if (status == DTR_OK)
        status = dtri_store_commit(store, error);
    return status;
}

/* A database and what SQLite keeps beside it. */
static void remove_files(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[4096];
        if ((size_t)snprintf(name, sizeof name, "%s%s", path, suffixes[i]) < sizeof name)
            unlink(name);
    }
}

/* A device or a directory of that name is no old file of ours. */
static dtr_status replace_files(const char *path, dtr_error *error)
{
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return dtri_fail(error, DTR_E_STATE, 0, "%s is %s; give another name", path,
                         S_ISDIR(there.st_mode) ? "a directory" : "no regular file");
    remove_files(path);
    return DTR_OK;
}

/* Some network file systems have no locks, or no shared memory for the WAL's index.  There, the
 * recorder is the only one who writes, and goes without. */
#define NO_LOCKS "unix-none"

static bool cannot_lock(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
        return true;
    case SQLITE_IOERR:
        return code == SQLITE_IOERR_LOCK || code == SQLITE_IOERR_RDLOCK ||
               code == SQLITE_IOERR_UNLOCK || code == SQLITE_IOERR_CHECKRESERVEDLOCK ||
               code == SQLITE_IOERR_SHMOPEN || code == SQLITE_IOERR_SHMLOCK ||
               code == SQLITE_IOERR_SHMMAP || code == SQLITE_IOERR_SHMSIZE;
    default:
        return false;
    }
}

static dtr_status try_create(const char *path, const char *vfs, struct dtri_store **out_store,
                             dtr_error *error)
{
    struct dtri_store *store;
    dtr_status status =
        connect_db(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs, &store, error);
    if (status != DTR_OK)
        return status;
    if (vfs) /* a WAL without shared memory */
        status = dtri_store_exec(store, "PRAGMA locking_mode = EXCLUSIVE", error);
    if (status == DTR_OK)
        status = create_schema(store, error);
    if (status == DTR_OK && vfs)
        status = dtri_store_exec(store, "INSERT INTO meta VALUES ('locking', 'none')", error);
    if (status == DTR_OK)
        *out_store = store;
    else
        disconnect(store);
    return status;
}

/* An empty file that was not there before: of two processes, one gets it. */
static dtr_status claim(const char *path, dtr_error *error)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s exists; give another name, or --force to replace it", path);
    if (fd < 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot create %s: %s", path, strerror(errno));
    close(fd);
    return DTR_OK;
}

dtr_status dtri_store_create(const char *path, bool force, struct dtri_store **out_store,
                             dtr_error *error)
{
    struct dtri_store *store;
    dtr_error why = {0};
    dtr_status status = force ? replace_files(path, error) : DTR_OK;
    if (status == DTR_OK)
        status = claim(path, error);
    if (status != DTR_OK)
        return status;
    status = try_create(path, NULL, &store, &why);
    if (status != DTR_OK && cannot_lock(why.foreign)) {
        remove_files(path);
        status = try_create(path, NO_LOCKS, &store, &why);
    }
    if (status != DTR_OK && error)
        *error = why;
    if (status == DTR_OK)
        *out_store = store;
    else
        remove_files(path);
    return status;
}

dtr_status dtri_store_scratch(struct dtri_store **out_store, dtr_error *error)
{
    struct dtri_store *store;
    dtr_status status =
        connect_db("", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL, &store, error);
    if (status != DTR_OK)
        return status;
    status = dtri_store_exec(store,
                             "PRAGMA journal_mode = OFF; BEGIN; "
                             "CREATE TABLE tile (run INTEGER, track INTEGER, level INTEGER, "
                             "page INTEGER, n INTEGER, format INTEGER, data BLOB, "
                             "PRIMARY KEY (run, track, level, page)) WITHOUT ROWID",
                             error);
    if (status == DTR_OK)
        *out_store = store;
    else
        disconnect(store);
    return status;
}

static dtr_status read_pragma(struct dtri_store *store, const char *sql, int64_t *out_value,
                              dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        dtr_status status = dtri_store_fail(store, "reading the header", error);
        sqlite3_finalize(statement);
        return status;
    }
    *out_value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return DTR_OK;
}

static dtr_status check_header(struct dtri_store *store, int64_t *out_version, dtr_error *error)
{
    int64_t application = 0, version = 0;
    dtr_status status = read_pragma(store, "PRAGMA application_id", &application, error);
    if (status == DTR_OK)
        status = read_pragma(store, "PRAGMA user_version", &version, error);
    *out_version = version;
    if (status != DTR_OK)
        return status;
    if (application != DTRI_STORE_APPLICATION_ID)
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s is an SQLite database, but none of dtrscope's; record one with "
                         "`dtrscope record`",
                         store->path);
    if (version > DTRI_STORE_VERSION)
        return dtri_fail(
            error, DTR_E_SCHEMA, 0,
            "%s has schema version %lld and this dtrscope knows %d; use a newer dtrscope",
            store->path, (long long)version, DTRI_STORE_VERSION);
    if (version < 1)
        return dtri_fail(error, DTR_E_SCHEMA, 0,
                         "%s says that it has schema version %lld, and there is none below 1; the "
                         "file is damaged",
                         store->path, (long long)version);
    return DTR_OK;
}

/* Version 1 had none. */
static dtr_status build_tiles(struct dtri_store *store, dtr_error *error)
{
    struct dtri_run *runs;
    int n;
    dtr_status status = dtri_store_runs(store, &runs, &n, error);
    for (int i = 0; i < n && status == DTR_OK; i++)
        if (runs[i].has_events)
            status = dtri_tiles_build(store, runs[i].id, error);
    dtri_free(runs);
    return status;
}

/* Version by version, all in one transaction. */
static dtr_status migrate(struct dtri_store *store, int64_t version, dtr_error *error)
{
    dtr_status status = dtri_store_exec(store, "BEGIN IMMEDIATE", error);
    if (status == DTR_OK && version == 1)
        status = dtri_store_exec(store, (const char *)dtri_schema_001_to_002, error);
    if (status == DTR_OK)
        status = create_views(store, "CREATE VIEW IF NOT EXISTS", error);
    if (status == DTR_OK)
        status = dtri_tracks_insert(store, error);
    if (status == DTR_OK && version == 1)
        status = build_tiles(store, error);
    if (status == DTR_OK)
        status = dtri_store_commit(store, error);
    if (status != DTR_OK)
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static dtr_status open_to_write(struct dtri_store *store, int64_t version, dtr_error *error)
{
    dtr_status status =
        dtri_store_exec(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", error);
    if (status == DTR_OK && version < DTRI_STORE_VERSION)
        status = migrate(store, version, error);
    return status;
}

/* Own views hide those of the file, of which nobody knows what they say. */
static dtr_status open_to_read(struct dtri_store *store, int64_t version, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (version == 1)
        status = dtri_store_exec(store, (const char *)dtri_schema_001_read, error);
    if (status == DTR_OK && version == 1)
        status = dtri_tracks_insert(store, error);
    if (status == DTR_OK)
        status = create_views(store, "CREATE TEMP VIEW", error);
    if (status == DTR_OK)
        status = dtri_store_exec(store, "PRAGMA query_only = 1; PRAGMA cell_size_check = 1", error);
    return status;
}

dtr_status dtri_store_open(const char *path, enum dtri_store_mode mode,
                           struct dtri_store **out_store, dtr_error *error)
{
    struct dtri_store *store;
    if (access(path, R_OK) != 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot open %s: %s", path, strerror(errno));
    dtr_status status =
        connect_db(path, mode == DTRI_STORE_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE,
                   NULL, &store, error);
    if (status != DTR_OK)
        return status;
    int64_t version;
    status = check_header(store, &version, error);
    if (status == DTR_OK)
        status = mode == DTRI_STORE_READ ? open_to_read(store, version, error)
                                         : open_to_write(store, version, error);
    if (status == DTR_OK)
        *out_store = store;
    else
        disconnect(store);
    return status;
}

dtr_status dtri_store_commit(struct dtri_store *store, dtr_error *error)
{
    if (sqlite3_get_autocommit(store->db))
        return DTR_OK;
    dtr_status status = dtri_tiles_flush(store, error);
    return status == DTR_OK ? dtri_store_exec(store, "COMMIT", error) : status;
}

dtr_status dtri_store_close(struct dtri_store *store, dtr_error *error)
{
    if (!store)
        return DTR_OK;
    dtr_status status = DTR_OK;
    if (store->writable) {
        sqlite3_finalize(store->insert_chunk);
        sqlite3_finalize(store->insert_name);
        store->insert_chunk = store->insert_name = NULL;
        status = dtri_store_commit(store, error);
        dtri_tiles_free(store);
        if (status == DTR_OK)
            /* Fails while somebody reads along; the file is whole then too, with its -wal. */
            sqlite3_exec(store->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    }
    disconnect(store);
    return status;
}

const char *dtri_store_path(const struct dtri_store *store)
{
    return store->path;
}

sqlite3 *dtri_store_db(struct dtri_store *store)
{
    return store->db;
}
