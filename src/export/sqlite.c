/* Plain SQLite: every table of the run as a table, for programs that cannot load our extension.
 *
 * The file is made under another name, without a journal, in one transaction: it appears when it
 * is whole.  SQLite spills what does not fit into its cache, so memory does not grow. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/table.h"

struct writer {
    const char *path;
    char *temporary;
    sqlite3 *db;
    sqlite3_stmt *insert;
};

static dtr_status failed(struct writer *w, dtr_error *error)
{
    int code = sqlite3_errcode(w->db) & 0xff, why = sqlite3_system_errno(w->db);
    bool io = (code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_FULL) && why;
    dtr_status status = code == SQLITE_NOMEM  ? DTR_E_NOMEM
                        : code == SQLITE_FULL ? DTR_E_FULL
                                              : DTR_E_IO;
    return dtri_fail(error, status, sqlite3_extended_errcode(w->db), "cannot write %s: %s", w->path,
                     io ? strerror(why) : sqlite3_errmsg(w->db));
}

static dtr_status run_sql(struct writer *w, const char *sql, dtr_error *error)
{
    return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK ? DTR_OK : failed(w, error);
}

static dtr_status create_table(struct writer *w, const char *name,
                               const struct dtri_column *columns, int n, dtr_error *error)
{
    static const char *const types[] = {"INTEGER", "REAL", "TEXT"};
    char create[4096], insert[512];
    size_t used = (size_t)snprintf(create, sizeof create, "CREATE TABLE \"%s\" (", name);
    size_t more = (size_t)snprintf(insert, sizeof insert, "INSERT INTO \"%s\" VALUES (", name);
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(create + used, sizeof create - used, "%s\"%s\" %s", i ? ", " : "",
                                 columns[i].name, types[columns[i].type]);
        more += (size_t)snprintf(insert + more, sizeof insert - more, i ? ", ?" : "?");
    }
    snprintf(create + used, sizeof create - used, ")");
    snprintf(insert + more, sizeof insert - more, ")");
    dtr_status status = run_sql(w, create, error);
    if (status == DTR_OK && sqlite3_prepare_v2(w->db, insert, -1, &w->insert, NULL) != SQLITE_OK)
        status = failed(w, error);
    return status;
}

static int bind_cell(sqlite3_stmt *insert, int place, enum dtri_column_type type,
                     const struct dtri_cell *cell)
{
    if (cell->null)
        return sqlite3_bind_null(insert, place);
    if (type == DTRI_COLUMN_TEXT)
        return sqlite3_bind_text64(insert, place, cell->text, cell->size, SQLITE_STATIC,
                                   SQLITE_UTF8);
    if (type == DTRI_COLUMN_REAL)
        return sqlite3_bind_double(insert, place, cell->real);
    return sqlite3_bind_int64(insert, place, cell->integer);
}

static dtr_status insert_rows(struct writer *w, struct dtri_table *table,
                              const struct dtri_column *columns, int n, dtr_error *error)
{
    for (;;) {
        const struct dtri_cell *cells;
        int code = SQLITE_OK;
        dtr_status status = dtri_table_next(table, &cells, error);
        if (status != DTR_OK || !cells)
            return status;
        for (int i = 0; i < n && code == SQLITE_OK; i++)
            code = bind_cell(w->insert, i + 1, columns[i].type, &cells[i]);
        if (code == SQLITE_OK)
            sqlite3_step(w->insert);
        if (code != SQLITE_OK || sqlite3_reset(w->insert) != SQLITE_OK)
            return failed(w, error);
    }
}

static dtr_status write_table(struct writer *w, const struct dtri_export *job, const char *name,
                              dtr_error *error)
{
    struct dtri_table *table;
    int n;
    dtr_status status = dtri_table_open(job, name, &table, error);
    if (status != DTR_OK)
        return status;
    const struct dtri_column *columns = dtri_table_columns(table, &n);
    status = create_table(w, name, columns, n, error);
    if (status == DTR_OK)
        status = insert_rows(w, table, columns, n, error);
    sqlite3_finalize(w->insert);
    w->insert = NULL;
    dtri_table_free(table);
    return status;
}

static dtr_status write_tables(struct writer *w, const struct dtri_export *job, dtr_error *error)
{
    if (sqlite3_open_v2(w->temporary, &w->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return w->db ? failed(w, error) : dtri_fail_nomem(error, "a database");
    dtr_status status = run_sql(w,
                                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
                                "PRAGMA locking_mode = EXCLUSIVE; BEGIN",
                                error);
    for (int i = 0; status == DTR_OK && dtri_table_name(i); i++)
        if (dtri_table_wanted(job, dtri_table_name(i)))
            status = write_table(w, job, dtri_table_name(i), error);
    return status == DTR_OK ? run_sql(w, "COMMIT", error) : status;
}

/* What another database of that name left beside it would be taken for a part of ours. */
static void remove_leftovers(const char *path)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[4096];
        if ((size_t)snprintf(name, sizeof name, "%s%s", path, suffixes[i]) < sizeof name)
            unlink(name);
    }
}

/* To the disk, and under its name. */
static dtr_status publish(const struct writer *w, dtr_error *error)
{
    int fd = open(w->temporary, O_RDONLY | O_CLOEXEC);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int why = errno;
    if (fd >= 0)
        close(fd);
    remove_leftovers(w->path);
    if (synced && rename(w->temporary, w->path) == 0)
        return DTR_OK;
    why = synced ? errno : why;
    return dtri_fail(error, DTR_E_IO, why, "cannot write %s: %s", w->path, strerror(why));
}

static dtr_status check_path(const char *path, bool force, dtr_error *error)
{
    struct stat there;
    if (strcmp(path, "-") == 0)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "a database cannot go to standard output; give a file with -o");
    if (stat(path, &there) != 0)
        return DTR_OK;
    if (!S_ISREG(there.st_mode))
        return dtri_fail(error, DTR_E_STATE, 0, "%s is no file; give another name", path);
    if (!force)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s exists; give another name, or --force to replace it", path);
    return DTR_OK;
}

static dtr_status write_file(const struct dtri_export *job, const char *path, bool force,
                             dtr_error *error)
{
    struct writer w = {.path = path};
    size_t size = strlen(path) + 32;
    dtr_status status = check_path(path, force, error);
    if (status != DTR_OK)
        return status;
    w.temporary = dtri_malloc(size);
    if (!w.temporary)
        return dtri_fail_nomem(error, "a name");
    snprintf(w.temporary, size, "%s.%ld.part", path, (long)getpid());
    status = write_tables(&w, job, error);
    sqlite3_close(w.db);
    if (status == DTR_OK)
        status = publish(&w, error);
    if (status != DTR_OK)
        unlink(w.temporary);
    dtri_free(w.temporary);
    return status;
}

const struct dtri_export_format dtri_export_sqlite = {
    .name = "sqlite",
    .extension = "sqlite",
    .summary = "a plain SQLite database: every kind of event a table, names as texts",
    .write_file = write_file,
};
