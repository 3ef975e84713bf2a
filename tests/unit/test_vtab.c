/* The virtual tables: conditions that are pushed down change nothing but the speed, and a file
 * whose tables are views that lead back to them is refused. */
#include "../support.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/rng.h"
#include "store/store.h"
#include "store/tile.h"

static struct dtri_rng rng;
static char path[600];

static int64_t below(int64_t n)
{
    return (int64_t)dtri_rng_below(&rng, (uint64_t)n);
}

/* Two runs, chunks of both formats. */
static void write_file(void)
{
    struct dtri_store *store;
    dtr_error error;
    assert_ok(dtri_store_create(path, true, &store, &error), &error);
    for (int r = 0; r < 2; r++) {
        struct dtri_store_writer *writer;
        struct dtri_run run;
        dtri_run_init(&run, "sim");
        assert_ok(dtri_store_add_run(store, &run, &error), &error);
        assert_ok(dtri_store_writer_new(store, run.id, &writer, &error), &error);
        for (int64_t i = 0; i < 20000; i++) {
            dtr_event event = {.kind = 7 + below(3), .ts_ns = i * 50000 - below(900000), .seq = i};
            for (int f = 0; f < 5; f++)
                event.u.raw[f] = below(1000);
            assert_ok(dtri_store_writer_add(writer, &event, &error), &error);
            if (below(500) == 0)
                assert_ok(dtri_store_writer_flush(writer, &error), &error);
            dtri_store_writer_compress(writer, i / 3000 % 2);
        }
        assert_ok(dtri_store_writer_flush(writer, &error), &error);
        dtri_store_writer_free(writer);
    }
    assert_ok(dtri_store_close(store, &error), &error);
}

static int64_t integer_of(struct dtri_store *store, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(dtri_store_db(store)));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

/* The unary plus keeps a condition from being pushed down. */
static int64_t count_where(struct dtri_store *store, const char *table, bool pushed,
                           const char *comparison, int64_t run, int64_t level, int64_t a, int64_t b)
{
    char sql[512];
    const char *plus = pushed ? "" : "+";
    int used =
        snprintf(sql, sizeof sql,
                 "SELECT count(*) + coalesce(sum(ts_ns %% 1000), 0) FROM %s WHERE %srun = "
                 "%lld AND %sts_ns %s %lld AND %sts_ns <= %lld",
                 table, plus, (long long)run, plus, comparison, (long long)a, plus, (long long)b);
    if (level != DTRI_TILE_NONE)
        snprintf(sql + used, sizeof sql - (size_t)used, " AND %slevel = %lld AND %strack = 8", plus,
                 (long long)level, plus);
    return integer_of(store, sql);
}

static void test_conditions(void **state)
{
    static const char *const comparisons[] = {">", ">=", "<", "="};
    struct dtri_store *store;
    dtr_error error;
    int64_t seen = 0;
    (void)state;
    write_file();
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    for (int i = 0; i < 200; i++) {
        bool tiles = i % 2;
        const char *table = tiles ? "dtr_tile" : "dtr_event_freeing";
        const char *comparison = comparisons[below(4)];
        int64_t run = below(4), a = below(1200000000) - 100000000, b = below(1200000000);
        int64_t level = tiles ? below(4) : DTRI_TILE_NONE;
        int64_t pushed = count_where(store, table, true, comparison, run, level, a, b);
        assert_int_equal(pushed, count_where(store, table, false, comparison, run, level, a, b));
        seen += pushed;
    }
    assert_true(seen > 0);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM dtr_event_freeing WHERE run = 'x'"),
                     0);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM dtr_tile WHERE level = 1e300"), 0);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM dtr_tile WHERE level = 999"), 0);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM dtr_tile WHERE ts_ns > NULL"), 0);
    assert_int_equal(
        integer_of(store, "SELECT count(*) FROM allocation WHERE run IN (1, 2)") +
            integer_of(store, "SELECT count(*) FROM freeing") +
            integer_of(store, "SELECT count(*) FROM dtr_event_eviction AS a WHERE a.seq >= 0"),
        40000);
    /* A join of the module with itself is no recursion. */
    assert_int_equal(integer_of(store, "SELECT count(*) FROM freeing AS a JOIN freeing AS b ON "
                                       "b.run = a.run AND b.ts_ns = a.ts_ns AND b.seq = a.seq "
                                       "WHERE a.run = 1 AND a.ts_ns < 3000000"),
                     integer_of(store, "SELECT count(*) FROM freeing WHERE run = 1 AND "
                                       "ts_ns < 3000000"));
    dtri_store_close(store, NULL);
    unlink(path);
}

static void test_recursion(void **state)
{
    static const char *const hostile =
        "DROP TABLE event_chunk; CREATE VIEW event_chunk AS SELECT seq AS id, run, 9 AS kind, "
        "ts_ns AS ts_min, ts_ns AS ts_max, seq AS seq_min, seq AS seq_max, 1 AS n, 1 AS format, "
        "x'00' AS data FROM dtr_event_eviction UNION ALL SELECT 1, run, 8, 1, 1, 1, 1, 1, 1, x'00' "
        "FROM dtr_tile; "
        "DROP TABLE tile; CREATE VIEW tile AS SELECT run, 1 AS track, 1 AS level, 1 AS page, 1 AS "
        "n, "
        "1 AS format, x'00' AS data FROM dtr_event_freeing";
    static const char *const queries[] = {"SELECT * FROM eviction", "SELECT * FROM freeing",
                                          "SELECT * FROM tile_bucket", "SELECT * FROM dtr_tile"};
    struct dtri_store *store;
    sqlite3 *db;
    dtr_error error;
    (void)state;
    write_file();
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, hostile, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++)
        assert_int_not_equal(sqlite3_exec(dtri_store_db(store), queries[i], NULL, NULL, NULL),
                             SQLITE_OK);
    dtri_store_close(store, NULL);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_recursion),
    };
    snprintf(path, sizeof path, "%s", scratch("vtab.sqlite"));
    dtri_rng_seed(&rng, 23);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
