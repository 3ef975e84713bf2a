/* A file system without locks or shared memory, as some network ones are: a VFS that refuses both.
 * The store then writes without, says so in the file, and what it wrote can be read. */
#include "../support.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <unistd.h>

#include "store/store.h"

static sqlite3_vfs vfs, *real;
static sqlite3_io_methods methods;
static const sqlite3_io_methods *real_methods;

static int refuse_lock(sqlite3_file *file, int level)
{
    (void)file, (void)level;
    return SQLITE_IOERR_LOCK;
}

static int refuse_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    (void)file, (void)page, (void)size, (void)extend, (void)out;
    return SQLITE_IOERR_SHMMAP;
}

static int open_file(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)self;
    int code = real->xOpen(real, name, file, flags, out);
    if (code != SQLITE_OK || !(flags & SQLITE_OPEN_MAIN_DB))
        return code;
    real_methods = file->pMethods;
    methods = *real_methods;
    methods.xLock = refuse_lock;
    methods.xShmMap = refuse_map;
    file->pMethods = &methods;
    return SQLITE_OK;
}

static void use_bad_system(bool bad)
{
    real = sqlite3_vfs_find("unix");
    vfs = *real;
    vfs.zName = "without-locks";
    vfs.xOpen = open_file;
    vfs.pNext = NULL;
    assert_int_equal(sqlite3_vfs_register(bad ? &vfs : real, 1), SQLITE_OK);
}

static void test_writes_without_locks(void **state)
{
    char path[600];
    struct dtri_store *store;
    struct dtri_store_writer *writer;
    struct dtri_run run;
    struct dtri_rows rows;
    dtr_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("no-locks.sqlite"));
    use_bad_system(true);
    assert_ok(dtri_store_create(path, true, &store, &error), &error);
    dtri_run_init(&run, "live");
    assert_ok(dtri_store_add_run(store, &run, &error), &error);
    assert_ok(dtri_store_writer_new(store, run.id, &writer, &error), &error);
    for (int64_t i = 0; i < 10000; i++) {
        dtr_event event = {.ts_ns = i, .seq = i, .kind = DTR_EVENT_FREEING};
        event.u.freeing_ = (dtr_event_freeing){.storage = i, .bytes = 1, .in_use = 2};
        assert_ok(dtri_store_writer_add(writer, &event, &error), &error);
    }
    assert_ok(dtri_store_writer_flush(writer, &error), &error);
    dtri_store_writer_free(writer);
    assert_ok(dtri_store_close(store, &error), &error);
    use_bad_system(false);
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    assert_ok(dtri_store_load(store, run.id, DTR_EVENT_FREEING, INT64_MIN, INT64_MAX, &rows, &error),
              &error);
    assert_int_equal(rows.n, 10000);
    dtri_rows_done(&rows);
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(dtri_store_db(store),
                                        "SELECT value FROM meta WHERE key = 'locking'", -1,
                                        &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "none");
    sqlite3_finalize(statement);
    dtri_store_close(store, NULL);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_writes_without_locks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
