/* The database: what goes in comes out, by the reader and by SQL alike; and files that are none, of
 * another version, damaged or made to harm. */
#include "../support.h"

#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "store/store.h"
#include "store/store_trace.h"

#define N_EVENTS 30000

/* --- helpers ---------------------------------------------------------------------------------- */

static const char *new_path(void)
{
    static int n;
    char name[32];
    snprintf(name, sizeof name, "store-%d.sqlite", n++);
    return scratch(name);
}

static struct dtri_store *create(const char *path, struct dtri_run *run)
{
    struct dtri_store *store;
    dtr_error error;
    assert_ok(dtri_store_create(path, false, &store, &error), &error);
    dtri_run_init(run, "sim");
    assert_ok(dtri_store_add_run(store, run, &error), &error);
    return store;
}

static struct dtri_store *open_store(const char *path)
{
    struct dtri_store *store;
    dtr_error error;
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    return store;
}

static void close_store(struct dtri_store *store)
{
    dtr_error error;
    assert_ok(dtri_store_close(store, &error), &error);
}

static sqlite3_stmt *prepare(struct dtri_store *store, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(dtri_store_db(store)));
    return statement;
}

static int64_t integer_of(struct dtri_store *store, const char *sql)
{
    sqlite3_stmt *statement = prepare(store, sql);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* Random events of all kinds, by a seed: number i is the same whenever it is asked for. */
static dtr_event event_number(int64_t i)
{
    struct dtri_rng rng;
    int n;
    dtri_rng_seed(&rng, (uint64_t)i);
    const dtr_event_info *infos = dtr_event_infos(&n);
    const dtr_event_info *info = &infos[dtri_rng_below(&rng, (uint64_t)n)];
    dtr_event event = {.ts_ns = 1000 + 5 * i, .seq = i, .kind = info->kind};
    for (int f = 0; f < info->n_fields; f++) {
        int64_t value = (int64_t)(dtri_rng_next(&rng) >> dtri_rng_below(&rng, 63)) - 1;
        double real = ldexp(dtri_rng_unit(&rng), (int)dtri_rng_below(&rng, 40));
        if (info->fields[f].unit == DTR_UNIT_REAL)
            memcpy(&event.u.raw[f], &real, sizeof real);
        else
            event.u.raw[f] = info->fields[f].unit == DTR_UNIT_NAME ? value % 3 : value;
    }
    return event;
}

static void write_events(struct dtri_store *store, int64_t run, int64_t n)
{
    struct dtri_store_writer *writer;
    dtr_error error;
    assert_ok(dtri_store_writer_new(store, run, &writer, &error), &error);
    for (int64_t i = 0; i < n; i++) {
        dtr_event event = event_number(i);
        assert_ok(dtri_store_writer_add(writer, &event, &error), &error);
    }
    assert_ok(dtri_store_writer_flush(writer, &error), &error);
    dtri_store_writer_free(writer);
    assert_ok(dtri_store_commit(store, &error), &error);
}

/* A database with two runs that have events, and one without. */
static const char *recorded(void)
{
    static char path[600];
    struct dtri_run run, other, bare;
    dtr_error error;
    if (path[0])
        return path;
    snprintf(path, sizeof path, "%s", new_path());
    struct dtri_store *store = create(path, &run);
    dtri_run_init(&other, "live");
    dtri_run_init(&bare, "sim");
    assert_ok(dtri_store_add_run(store, &other, &error), &error);
    assert_ok(dtri_store_add_run(store, &bare, &error), &error);
    assert_ok(dtri_store_add_name(store, run.id, 1, "a 'quoted' name", &error), &error);
    write_events(store, run.id, N_EVENTS);
    write_events(store, other.id, 100);
    close_store(store);
    return path;
}

/* --- round trip ------------------------------------------------------------------------------- */

static void test_load(void **state)
{
    struct dtri_store *store = open_store(recorded());
    int n, seen = 0;
    const dtr_event_info *infos = dtr_event_infos(&n);
    (void)state;
    for (int k = 0; k < n; k++) {
        struct dtri_rows rows = {0};
        dtr_error error;
        assert_ok(dtri_store_load(store, 1, infos[k].kind, INT64_MIN, INT64_MAX, &rows, &error),
                  &error);
        assert_int_equal(rows.n_columns, 2 + infos[k].n_fields);
        int64_t previous = -1;
        for (size_t r = 0; r < rows.n; r++, seen++) {
            const int64_t *row = &rows.rows[r * (size_t)rows.n_columns];
            dtr_event event = event_number(row[1]);
            assert_true(row[1] > previous);
            previous = row[1];
            assert_int_equal(event.kind, infos[k].kind);
            assert_int_equal(event.ts_ns, row[0]);
            assert_memory_equal(event.u.raw, row + 2, (size_t)infos[k].n_fields * sizeof *row);
        }
        dtri_rows_done(&rows);
    }
    assert_int_equal(seen, N_EVENTS);
    close_store(store);
}

static void check_sql_row(sqlite3_stmt *statement, const dtr_event_info *info)
{
    dtr_event event = event_number(sqlite3_column_int64(statement, 2));
    assert_int_equal(sqlite3_column_int64(statement, 0), 1);
    assert_int_equal(sqlite3_column_int64(statement, 1), event.ts_ns);
    assert_int_equal(event.kind, info->kind);
    for (int f = 0; f < info->n_fields; f++) {
        int64_t value = sqlite3_column_int64(statement, 3 + f);
        double real = sqlite3_column_double(statement, 3 + f);
        if (sqlite3_column_type(statement, 3 + f) == SQLITE_NULL) /* "there is none" */
            value = DTR_NONE;
        if (info->fields[f].unit == DTR_UNIT_REAL)
            memcpy(&value, &real, sizeof value);
        assert_int_equal(value, event.u.raw[f]);
    }
}

/* The event tables in SQL give the same rows. */
static void test_sql_tables(void **state)
{
    struct dtri_store *store = open_store(recorded());
    int n, seen = 0;
    const dtr_event_info *infos = dtr_event_infos(&n);
    (void)state;
    for (int k = 0; k < n; k++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT * FROM dtr_event_%s WHERE run = 1", infos[k].name);
        sqlite3_stmt *statement = prepare(store, sql);
        for (; sqlite3_step(statement) == SQLITE_ROW; seen++)
            check_sql_row(statement, &infos[k]);
        sqlite3_finalize(statement);
    }
    assert_int_equal(seen, N_EVENTS);
    close_store(store);
}

/* Conditions on the time choose the same rows as a filter that SQLite cannot push down. */
static void test_sql_ranges(void **state)
{
    static const char *const conditions[] = {
        "%sts_ns >= 50000 AND %sts_ns < 60000",
        "%sts_ns > 50000 AND %sts_ns <= 50005",
        "%sts_ns < 1000",
        "%sts_ns = 71000",
        "%sts_ns > 9e30 AND %sts_ns < 1",
        "%sts_ns BETWEEN 60000 AND 60020",
    };
    struct dtri_store *store = open_store(recorded());
    (void)state;
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
        char fast[128], slow[128], sql[512];
        snprintf(fast, sizeof fast, conditions[i], "", "");
        snprintf(slow, sizeof slow, conditions[i], "+", "+");
        snprintf(
            sql, sizeof sql,
            "SELECT (SELECT count(*) || '/' || ifnull(sum(seq), 0) FROM dtr_event_freeing WHERE "
            "run = 1 AND %s) = (SELECT count(*) || '/' || ifnull(sum(seq), 0) FROM "
            "dtr_event_freeing WHERE +run = 1 AND %s)",
            fast, slow);
        if (integer_of(store, sql) != 1)
            fail_msg("%s", sql);
    }
    assert_true(integer_of(store, "SELECT count(*) FROM freeing WHERE run = 1 AND ts_ns < 60000") >
                100);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM freeing WHERE run = 3"), 0);
    assert_int_equal(integer_of(store, "SELECT count(DISTINCT run) FROM freeing"), 2);
    close_store(store);
}

/* The views show texts in place of name ids. */
static void test_names_in_views(void **state)
{
    struct dtri_store *store = open_store(recorded());
    (void)state;
    assert_true(integer_of(store, "SELECT count(*) FROM operator WHERE run = 1 AND name = 'a "
                                  "''quoted'' name'") > 10);
    assert_true(integer_of(store, "SELECT count(*) FROM operator WHERE name IS NULL") > 10);
    close_store(store);
}

/* --- runs ------------------------------------------------------------------------------------- */

/* A sweep that goes on finds what is done, and nothing else. */
static void test_has_run(void **state)
{
    struct dtri_run run, like;
    struct dtri_store *store = create(new_path(), &run);
    dtr_error error;
    bool found;
    (void)state;
    dtri_run_set_text(run.heuristic, "dtr");
    dtri_run_set_text(run.search, "index");
    dtri_run_set_text(run.deallocation, "eager");
    dtri_run_set_text(run.result, "running");
    run.trace_hash = -123456789;
    run.budget_bytes = 1000;
    run.no_release = 0;
    assert_ok(dtri_store_update_run(store, &run, &error), &error);
    like = run;
    assert_ok(dtri_store_find_run(store, &like, NULL, &found, &error), &error);
    assert_false(found); /* it was killed half-way */
    dtri_run_set_text(run.result, "out_of_memory");
    assert_ok(dtri_store_update_run(store, &run, &error), &error);
    assert_ok(dtri_store_find_run(store, &like, NULL, &found, &error), &error);
    assert_true(found);
    like.budget_bytes = DTRI_NULL; /* no budget is not this budget */
    assert_ok(dtri_store_find_run(store, &like, NULL, &found, &error), &error);
    assert_false(found);
    like = run;
    dtri_run_set_text(like.heuristic, "dtr-eq");
    assert_ok(dtri_store_find_run(store, &like, NULL, &found, &error), &error);
    assert_false(found);
    close_store(store);
}

static void test_run_round_trip(void **state)
{
    struct dtri_run run, back;
    char path[600], text[1000];
    dtr_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", new_path());
    struct dtri_store *store = create(path, &run);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    dtri_run_set_text(run.why, text);
    run.slowdown = 1.25;
    run.peak_bytes = INT64_MAX;
    assert_ok(dtri_store_update_run(store, &run, &error), &error);
    close_store(store);
    store = open_store(path);
    assert_ok(dtri_store_run(store, run.id, &back, &error), &error);
    assert_int_equal(strlen(back.why), DTRI_RUN_TEXT - 1);
    assert_true(back.slowdown == 1.25);
    assert_int_equal(back.peak_bytes, INT64_MAX);
    assert_int_equal(back.evictions, DTRI_NULL);
    assert_true(isnan(back.budget_share));
    assert_int_equal(strlen(back.uuid), 32);
    assert_int_equal(dtri_store_run(store, 99, &back, &error), DTR_E_NOT_FOUND);
    close_store(store);
}

/* --- files that are not as they should be ----------------------------------------------------- */

static void assert_not_opened(const char *path, dtr_status status, const char *why)
{
    struct dtri_store *store = NULL;
    dtr_error error = {0};
    for (int mode = DTRI_STORE_READ; mode <= DTRI_STORE_WRITE; mode++) {
        dtr_status got = dtri_store_open(path, (enum dtri_store_mode)mode, &store, &error);
        if (got != status || !strstr(error.text, why) || !strstr(error.text, path))
            fail_msg("expected '%s' in: %s %s", why, dtr_status_name(got), error.text);
        assert_null(store);
    }
}

static const char *write_file(const char *text, size_t size)
{
    const char *path = new_path();
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
}

static void test_no_database(void **state)
{
    char zeros[4096] = {0};
    (void)state;
    assert_not_opened(scratch("not-there.sqlite"), DTR_E_IO, "No such file");
    assert_not_opened(write_file("hello, I am a text\n", 19), DTR_E_FORMAT, "not a database");
    assert_not_opened(write_file(zeros, sizeof zeros), DTR_E_FORMAT, "");
    assert_not_opened(write_file("", 0), DTR_E_FORMAT, "none of dtrscope's");
    const char *other = new_path();
    run_sql(other, "CREATE TABLE run (id INTEGER)");
    assert_not_opened(other, DTR_E_FORMAT, "none of dtrscope's");
}

static void test_other_versions(void **state)
{
    struct dtri_run run;
    char path[600];
    (void)state;
    snprintf(path, sizeof path, "%s", new_path());
    close_store(create(path, &run));
    run_sql(path, "PRAGMA user_version = 3");
    assert_not_opened(path, DTR_E_SCHEMA, "use a newer dtrscope");
    run_sql(path, "PRAGMA user_version = 0");
    assert_not_opened(path, DTR_E_SCHEMA, "damaged");
    run_sql(path, "PRAGMA user_version = 2");
    close_store(open_store(path));
}

static void test_create_refuses(void **state)
{
    struct dtri_store *store = NULL;
    struct dtri_run run;
    char path[600];
    dtr_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", new_path());
    close_store(create(path, &run));
    assert_int_equal(dtri_store_create(path, false, &store, &error), DTR_E_STATE);
    assert_non_null(strstr(error.text, "--force"));
    assert_ok(dtri_store_create(path, true, &store, &error), &error);
    close_store(store);
    assert_int_equal(dtri_store_create("/not/there.sqlite", false, &store, &error), DTR_E_IO);
}

/* Loads all kinds and asks for everything by SQL; returns the first status that is not DTR_OK. */
static dtr_status read_all(const char *path)
{
    struct dtri_store *store;
    struct dtri_run *runs = NULL;
    struct dtri_trace *trace = NULL;
    dtr_error error;
    int n_kinds, n;
    const dtr_event_info *infos = dtr_event_infos(&n_kinds);
    dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &store, &error);
    if (status != DTR_OK)
        return status;
    status = dtri_store_runs(store, &runs, &n, &error);
    dtri_free(runs);
    for (int k = 0; k < n_kinds; k++) {
        struct dtri_rows rows = {0};
        dtr_status loaded =
            dtri_store_load(store, 1, infos[k].kind, INT64_MIN, INT64_MAX, &rows, &error);
        status = status == DTR_OK ? loaded : status;
        dtri_rows_done(&rows);
    }
    sqlite3_exec(dtri_store_db(store), "SELECT sum(seq) FROM dtr_event_freeing", NULL, NULL, NULL);
    sqlite3_exec(dtri_store_db(store), "SELECT sum(storage), sum(score) FROM candidate", NULL, NULL,
                 NULL);
    dtri_store_close(store, NULL);
    if (dtri_store_read_trace(path, &trace, &error) == DTR_OK)
        dtri_trace_free(trace);
    return status;
}

/* Rows that say other than their data: refused, no crash, no endless loop. */
static void test_damaged_chunks(void **state)
{
    static const char *const damages[] = {
        "UPDATE event_chunk SET n = 4097",
        "UPDATE event_chunk SET n = 0",
        "UPDATE event_chunk SET n = -1",
        "UPDATE event_chunk SET n = n + 1",
        "UPDATE event_chunk SET data = zeroblob(9)",
        "UPDATE event_chunk SET data = x''",
        "UPDATE event_chunk SET data = substr(data, 1, length(data) - 1)",
        "UPDATE event_chunk SET data = 'text'",
        "UPDATE event_chunk SET format = 7",
        "UPDATE event_chunk SET kind = kind % 17 + 1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct dtri_run run;
        char path[600];
        snprintf(path, sizeof path, "%s", new_path());
        struct dtri_store *store = create(path, &run);
        write_events(store, run.id, 500);
        close_store(store);
        run_sql(path, damages[i]);
        if (read_all(path) != DTR_E_FORMAT)
            fail_msg("taken for good: %s", damages[i]);
    }
}

/* Tables replaced by views and triggers that want to run something: reading does not run it and
 * does not change the file. */
static void test_hostile_schema(void **state)
{
    static const char *const tricks[] = {
        "DROP TABLE run; CREATE VIEW run AS SELECT 1 AS id",
        "DROP TABLE event_chunk",
        "DROP TABLE event_chunk; CREATE VIEW event_chunk AS SELECT 1 AS id, 1 AS run, 8 AS kind, 0 "
        "AS "
        "ts_min, 0 AS ts_max, 0 AS seq_min, 0 AS seq_max, 4096 AS n, 1 AS format, zeroblob(20) AS "
        "data",
        "DROP TABLE run; CREATE TABLE run (id INTEGER PRIMARY KEY, uuid BLOB)",
        "DROP VIEW candidate; CREATE VIEW candidate AS SELECT load_extension('evil') AS storage, 1 "
        "AS "
        "score",
        "DROP VIEW candidate; CREATE VIEW candidate AS SELECT writefile('evil', 'x') AS storage, 1 "
        "AS "
        "score",
    };
    (void)state;
    for (size_t i = 0; i < sizeof tricks / sizeof tricks[0]; i++) {
        struct dtri_run run;
        char path[600];
        snprintf(path, sizeof path, "%s", new_path());
        struct dtri_store *store = create(path, &run);
        write_events(store, run.id, 500);
        close_store(store);
        run_sql(path, tricks[i]);
        read_all(path); /* the address sanitizer, and the end of this test, are what is asked for */
        assert_int_not_equal(access("evil", F_OK), 0);
    }
}

/* A connection for reading cannot write, not even where SQL says so. */
static void test_read_only(void **state)
{
    struct dtri_store *store = open_store(recorded());
    (void)state;
    assert_int_not_equal(sqlite3_exec(dtri_store_db(store), "DELETE FROM run", NULL, NULL, NULL),
                         SQLITE_OK);
    assert_int_not_equal(sqlite3_exec(dtri_store_db(store),
                                      "PRAGMA query_only = 0; DELETE FROM run", NULL, NULL, NULL),
                         SQLITE_OK);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM run"), 3);
    close_store(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),           cmocka_unit_test(test_sql_tables),
        cmocka_unit_test(test_sql_ranges),     cmocka_unit_test(test_names_in_views),
        cmocka_unit_test(test_has_run),        cmocka_unit_test(test_run_round_trip),
        cmocka_unit_test(test_no_database),    cmocka_unit_test(test_other_versions),
        cmocka_unit_test(test_create_refuses), cmocka_unit_test(test_damaged_chunks),
        cmocka_unit_test(test_hostile_schema), cmocka_unit_test(test_read_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
