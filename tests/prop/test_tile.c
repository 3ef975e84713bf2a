/* The time pyramid against a twin that goes over all events for each bucket: events in order, late,
 * sparse, negative, anywhere, committed at random places, with the file closed and opened between.
 */
#include "../support.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "store/store.h"
#include "store/tile.h"

static struct dtri_rng rng;

static int64_t below(int64_t n)
{
    return (int64_t)dtri_rng_below(&rng, (uint64_t)n);
}

/* --- events ----------------------------------------------------------------------------------- */

enum shape { DENSE, LATE, SPARSE, AROUND_ZERO, ANYWHERE, N_SHAPES, DENSEST };

static int64_t time_of(enum shape shape, int64_t i)
{
    switch (shape) {
    case DENSE:
        return INT64_C(1700000000000) + i * 40000 + below(30000);
    case LATE:
        return INT64_C(1700000000000) + i * 40000 - (below(20) ? 0 : below(i * 40000 + 1));
    case SPARSE:
        return i * 3000000000 + below(1000000000);
    case DENSEST:
        return i / 3;
    case AROUND_ZERO:
        return (below(3) - 1) * below(INT64_C(1) << below(40));
    default:
        return (int64_t)dtri_rng_next(&rng) >> below(64);
    }
}

static dtr_event random_event(enum shape shape, int64_t i)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    const dtr_event_info *info = &infos[below(n)];
    dtr_event event = {.ts_ns = time_of(shape, i), .seq = i, .kind = info->kind};
    for (int f = 0; f < info->n_fields; f++) {
        int64_t value = (int64_t)(dtri_rng_next(&rng) >> (1 + below(63))) - 1;
        event.u.raw[f] = info->fields[f].unit == DTR_UNIT_CODE ? below(3) : value;
    }
    return event;
}

/* --- the twin --------------------------------------------------------------------------------- */

/* Whether an event belongs to a track, and its value there. */
static bool belongs(const dtr_event *e, int track, int64_t *out_value)
{
    *out_value = 0;
    switch (track) {
    case DTRI_TRACK_FIRST_RUN:
    case DTRI_TRACK_REPLAY:
        *out_value = e->u.operator_run_.dur_ns;
        return e->kind == DTR_EVENT_OPERATOR_RUN &&
               (e->u.operator_run_.replay != 0) == (track == DTRI_TRACK_REPLAY);
    case DTRI_TRACK_EVICTED_FOR_BUDGET:
    case DTRI_TRACK_EVICTED_OTHERWISE:
        *out_value = e->u.eviction_.bytes;
        return e->kind == DTR_EVENT_EVICTION && (e->u.eviction_.reason == DTR_EVICTED_FOR_BUDGET) ==
                                                    (track == DTRI_TRACK_EVICTED_FOR_BUDGET);
    case DTRI_TRACK_IN_USE:
        *out_value = e->kind == DTR_EVENT_ALLOCATION ? e->u.allocation_.in_use
                     : e->kind == DTR_EVENT_FREEING  ? e->u.freeing_.in_use
                                                     : e->u.eviction_.in_use;
        return e->kind == DTR_EVENT_ALLOCATION || e->kind == DTR_EVENT_FREEING ||
               e->kind == DTR_EVENT_EVICTION;
    case DTRI_TRACK_STORAGE:
        *out_value = e->u.storage_.bytes;
        break;
    case DTRI_TRACK_CHAIN:
        *out_value = e->u.chain_.dur_ns;
        break;
    case DTRI_TRACK_ALLOCATION:
        *out_value = e->u.allocation_.bytes;
        break;
    case DTRI_TRACK_FREEING:
        *out_value = e->u.freeing_.bytes;
        break;
    case DTRI_TRACK_DECISION:
        *out_value = e->u.decision_.search_ns;
        break;
    case DTRI_TRACK_BUDGET:
        *out_value = e->u.budget_.budget;
        break;
    case DTRI_TRACK_OUT_OF_MEMORY:
        *out_value = e->u.out_of_memory_.needed;
        break;
    case DTRI_TRACK_OVERHEAD:
        *out_value = e->u.overhead_.dur_ns;
        break;
    case DTRI_TRACK_ALLOCATOR:
        *out_value = e->u.allocator_.in_use;
        break;
    case DTRI_TRACK_BARRIER:
        *out_value = e->u.barrier_.dur_ns;
        break;
    default:
        break;
    }
    return e->kind == track;
}

struct sample {
    int64_t ts, value;
};

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct sample *)a)->ts, y = ((const struct sample *)b)->ts;
    return (x > y) - (x < y);
}

static __int128 bucket_of(int64_t ts, int level)
{
    __int128 width = (__int128)1 << (18 + 2 * level);
    return ts >= 0 ? ts / width : -((-(__int128)ts + width - 1) / width);
}

/* The samples of one track as buckets; `tiles` has room for one a sample. */
static size_t twin_buckets(const struct sample *samples, size_t n, int level, int64_t ts_min,
                           int64_t ts_max, struct dtri_tile *tiles)
{
    size_t n_tiles = 0;
    __int128 last = 0;
    for (size_t i = 0; i < n; i++) {
        __int128 bucket = bucket_of(samples[i].ts, level);
        if (bucket < bucket_of(ts_min, level) || bucket > bucket_of(ts_max, level))
            continue;
        if (!n_tiles || bucket != last) {
            int64_t begin = (int64_t)(bucket * ((__int128)1 << (18 + 2 * level)));
            tiles[n_tiles++] = (struct dtri_tile){begin, 0, 0, INT64_MAX, 0};
            last = bucket;
        }
        struct dtri_tile *tile = &tiles[n_tiles - 1];
        int64_t value = samples[i].value < 0 ? 0 : samples[i].value;
        tile->n++;
        tile->total = tile->total > INT64_MAX - value ? INT64_MAX : tile->total + value;
        tile->least = value < tile->least ? value : tile->least;
        tile->most = value > tile->most ? value : tile->most;
    }
    return n_tiles;
}

/* --- comparing -------------------------------------------------------------------------------- */

static void no_fault(void *user, int64_t track, int level, int64_t page, const char *what)
{
    (void)user;
    fail_msg("track %lld level %d page %lld: %s", (long long)track, level, (long long)page, what);
}

static void compare_track(struct dtri_store *store, int64_t run, int track,
                          const struct sample *samples, size_t n, int base)
{
    struct dtri_tile *tiles = malloc((n + 1) * sizeof *tiles);
    struct dtri_tile_list list = {0};
    dtr_error error;
    for (int level = base; level <= DTRI_TILE_LEVEL_MAX; level++) {
        for (int window = 0; window < 3; window++) {
            int64_t a = n ? samples[below((int64_t)n)].ts : 0;
            int64_t b = n ? samples[below((int64_t)n)].ts : 0;
            int64_t ts_min = window == 0 ? INT64_MIN : a < b ? a : b;
            int64_t ts_max = window == 0 ? INT64_MAX : a < b ? b : a;
            size_t n_tiles = twin_buckets(samples, n, level, ts_min, ts_max, tiles);
            assert_ok(dtri_tiles_read(store, run, track, level, ts_min, ts_max, &list, &error),
                      &error);
            assert_int_equal(list.n, n_tiles);
            for (size_t i = 0; i < n_tiles; i++)
                assert_memory_equal(&list.tiles[i], &tiles[i], sizeof tiles[i]);
        }
    }
    dtri_free(list.tiles);
    free(tiles);
}

static void compare(const char *path, int64_t run, const dtr_event *events, int64_t n)
{
    struct dtri_store *store;
    struct sample *samples = malloc(((size_t)n + 1) * sizeof *samples);
    int n_tracks, base, top;
    int64_t faults;
    dtr_error error;
    const struct dtri_track_info *tracks = dtri_track_infos(&n_tracks);
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    assert_ok(dtri_tiles_verify(store, run, no_fault, NULL, &faults, &error), &error);
    assert_ok(dtri_tiles_levels(store, run, &base, &top, &error), &error);
    assert_int_equal(faults, 0);
    assert_int_equal(base != DTRI_TILE_NONE, n > 0);
    for (int t = 0; t < n_tracks; t++) {
        size_t n_samples = 0;
        for (int64_t i = 0; i < n; i++) {
            struct sample sample = {.ts = events[i].ts_ns};
            if (belongs(&events[i], tracks[t].id, &sample.value)) {
                sample.value = tracks[t].unit ? sample.value : 0;
                samples[n_samples++] = sample;
            }
        }
        qsort(samples, n_samples, sizeof *samples, by_time);
        compare_track(store, run, tracks[t].id, samples, n_samples,
                      base == DTRI_TILE_NONE ? 0 : base);
    }
    dtri_store_close(store, NULL);
    free(samples);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct file {
    const char *path;
    struct dtri_store *store;
    struct dtri_store_writer *writer;
    int64_t run;
};

static void open_file(struct file *file)
{
    dtr_error error;
    if (file->run) {
        assert_ok(dtri_store_open(file->path, DTRI_STORE_WRITE, &file->store, &error), &error);
    } else {
        struct dtri_run run;
        assert_ok(dtri_store_create(file->path, true, &file->store, &error), &error);
        dtri_run_init(&run, "sim");
        assert_ok(dtri_store_add_run(file->store, &run, &error), &error);
        file->run = run.id;
    }
    assert_ok(dtri_store_writer_new(file->store, file->run, &file->writer, &error), &error);
}

static void close_file(struct file *file)
{
    dtr_error error;
    assert_ok(dtri_store_writer_flush(file->writer, &error), &error);
    dtri_store_writer_free(file->writer);
    assert_ok(dtri_store_close(file->store, &error), &error);
}

static void write_events(struct file *file, const dtr_event *events, int64_t n)
{
    dtr_error error;
    open_file(file);
    int64_t often = 1 + below(n + 1);
    for (int64_t i = 0; i < n; i++) {
        assert_ok(dtri_store_writer_add(file->writer, &events[i], &error), &error);
        if (below(often) == 0)
            assert_ok(dtri_store_writer_flush(file->writer, &error), &error);
        if (below(often) == 0)
            assert_ok(dtri_store_commit(file->store, &error), &error);
        if (below(often * 4) == 0) {
            close_file(file);
            open_file(file);
        }
    }
    close_file(file);
}

static void test_twin(void **state)
{
    char path[600];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("tiles.sqlite"));
    for (int round = 0; round < 3 * N_SHAPES; round++) {
        int64_t n = round < N_SHAPES ? 200 + below(200) : 1 + below(12000);
        dtr_event *events = malloc((size_t)n * sizeof *events);
        struct file file = {.path = path};
        for (int64_t i = 0; i < n; i++)
            events[i] = random_event((enum shape)(round % N_SHAPES), i);
        write_events(&file, events, n);
        compare(path, file.run, events, n);
        free(events);
    }
    unlink(path);
}

/* A run of few events in a long time does not have a row for each of them. */
static void test_sparse(void **state)
{
    char path[600];
    int64_t n = 30000;
    int base, top;
    dtr_error error;
    dtr_event *events = malloc((size_t)n * sizeof *events);
    struct dtri_store *store;
    sqlite3_stmt *count;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("sparse.sqlite"));
    struct file file = {.path = path};
    for (int64_t i = 0; i < n; i++)
        events[i] = random_event(SPARSE, i);
    write_events(&file, events, n);
    compare(path, file.run, events, n);
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    assert_ok(dtri_tiles_levels(store, file.run, &base, &top, &error), &error);
    assert_true(base > 0);
    sqlite3_prepare_v2(dtri_store_db(store), "SELECT count(*) FROM tile", -1, &count, NULL);
    assert_int_equal(sqlite3_step(count), SQLITE_ROW);
    assert_true(sqlite3_column_int64(count, 0) < n / 4);
    sqlite3_finalize(count);
    dtri_store_close(store, NULL);
    unlink(path);
    free(events);
}

/* A run on a logical clock has buckets of few events all the same. */
static void test_dense(void **state)
{
    char path[600];
    int64_t n = 80000;
    int base, top, level;
    dtr_error error;
    dtr_event *events = malloc((size_t)n * sizeof *events);
    struct dtri_store *store;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("dense.sqlite"));
    struct file file = {.path = path};
    for (int64_t i = 0; i < n; i++)
        events[i] = random_event(DENSEST, i);
    open_file(&file);
    for (int64_t i = 0; i < n; i++)
        assert_ok(dtri_store_writer_add(file.writer, &events[i], &error), &error);
    close_file(&file);
    compare(path, file.run, events, n);
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    assert_ok(dtri_tiles_levels(store, file.run, &base, &top, &error), &error);
    assert_int_equal(base, -6); /* 64 ns, 192 events */
    assert_ok(dtri_tiles_pick(store, file.run, 0, 20000, 1000, &level, &error), &error);
    assert_int_equal(level, -6);
    assert_ok(dtri_tiles_pick(store, file.run, 0, 2000, 1000, &level, &error), &error);
    assert_int_equal(level, DTRI_TILE_NONE);
    dtri_store_close(store, NULL);
    unlink(path);
    free(events);
}

/* What is rolled back leaves nothing, and what follows counts. */
static void test_rollback(void **state)
{
    char path[600];
    dtr_event events[3000];
    dtr_error error;
    struct file file = {.path = path};
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("rollback.sqlite"));
    for (int64_t i = 0; i < 3000; i++)
        events[i] = random_event(LATE, i);
    write_events(&file, events, 1000);
    open_file(&file);
    for (int i = 0; i < 3000; i++)
        assert_ok(dtri_store_writer_add(file.writer, &events[i], &error), &error);
    assert_ok(dtri_store_writer_flush(file.writer, &error), &error);
    sqlite3_exec(dtri_store_db(file.store), "ROLLBACK", NULL, NULL, NULL);
    for (int i = 1000; i < 3000; i++)
        assert_ok(dtri_store_writer_add(file.writer, &events[i], &error), &error);
    close_file(&file);
    compare(path, file.run, events, 3000);
    unlink(path);
}

/* --- verifying and building ------------------------------------------------------------------- */

struct faults {
    int missing, differs, damaged, empty;
};

static void count_fault(void *user, int64_t track, int level, int64_t page, const char *what)
{
    struct faults *faults = user;
    (void)track, (void)level, (void)page;
    faults->missing += strcmp(what, "missing") == 0;
    faults->differs += strcmp(what, "differs") == 0;
    faults->damaged += strcmp(what, "damaged") == 0;
    faults->empty += strcmp(what, "has no events") == 0;
}

static void execute(struct dtri_store *store, const char *sql)
{
    if (sqlite3_exec(dtri_store_db(store), sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(dtri_store_db(store)));
}

static void test_verify(void **state)
{
    static const char *const damages[] = {
        "DELETE FROM tile WHERE track = 5 AND level = 0 AND page = "
        "(SELECT min(page) FROM tile WHERE track = 5 AND level = 0)",
        "UPDATE tile SET data = (SELECT data FROM tile WHERE track = 1 AND level = 0 "
        "AND page <> (SELECT max(page) FROM tile) LIMIT 1), n = (SELECT n FROM tile WHERE track = "
        "1 "
        "AND level = 0 LIMIT 1) WHERE track = 1002 AND level = 1 AND page = (SELECT min(page) FROM "
        "tile WHERE track = 1002 AND level = 1)",
        "UPDATE tile SET data = x'0102' WHERE track = 7 AND level = 1 AND page = "
        "(SELECT min(page) FROM tile WHERE track = 7 AND level = 1)",
        "INSERT INTO tile SELECT run, track, level, 123456789, n, format, data FROM tile LIMIT 1",
    };
    char path[600];
    dtr_event events[3000];
    dtr_error error;
    struct dtri_store *store;
    struct faults faults = {0};
    struct file file = {.path = path};
    int64_t n;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("verify.sqlite"));
    for (int64_t i = 0; i < 3000; i++)
        events[i] = random_event(DENSE, i);
    write_events(&file, events, 3000);
    assert_ok(dtri_store_open(path, DTRI_STORE_WRITE, &store, &error), &error);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++)
        execute(store, damages[i]);
    assert_ok(dtri_tiles_verify(store, file.run, count_fault, &faults, &n, &error), &error);
    assert_int_equal(n, 4);
    assert_int_equal(faults.missing, 1);
    assert_int_equal(faults.differs, 1);
    assert_int_equal(faults.damaged, 1);
    assert_int_equal(faults.empty, 1);
    struct dtri_tile_list list = {0};
    assert_int_equal(dtri_tiles_read(store, file.run, 7, 1, INT64_MIN, INT64_MAX, &list, &error),
                     DTR_E_FORMAT);
    assert_non_null(strstr(error.text, "track 7"));
    dtri_free(list.tiles);
    assert_ok(dtri_tiles_build(store, file.run, &error), &error);
    assert_ok(dtri_store_close(store, &error), &error);
    compare(path, file.run, events, 3000);
    unlink(path);
}

static void copy_file(const char *from, const char *to)
{
    static char buffer[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
        assert_int_equal(fwrite(buffer, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* A file of version 1 gets its tiles when it is migrated; until then it has none, and none is
 * missed. */
static void test_migration(void **state)
{
    static const char *const files[] = {"v1-live.dtr.sqlite", "v1-sim.dtr.sqlite"};
    char path[600], source[1024];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("old.sqlite"));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(source, sizeof source, "%s/tests/data/schema/%s",
                 environment("DTRSCOPE_SOURCE", ".."), files[i]);
        copy_file(source, path);
        for (int migrated = 0; migrated < 2; migrated++) {
            struct dtri_store *store;
            dtr_error error;
            int base, top;
            int64_t faults;
            if (migrated) {
                assert_ok(dtri_store_open(path, DTRI_STORE_WRITE, &store, &error), &error);
                assert_ok(dtri_store_close(store, &error), &error);
            }
            assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
            assert_ok(dtri_tiles_levels(store, 1, &base, &top, &error), &error);
            assert_int_equal(base != DTRI_TILE_NONE, migrated);
            assert_ok(dtri_tiles_verify(store, 1, no_fault, NULL, &faults, &error), &error);
            assert_int_equal(faults, 0);
            dtri_store_close(store, NULL);
        }
    }
    unlink(path);
}

/* More runs at a time than are kept in mind, in one file. */
static void test_many_runs(void **state)
{
    enum { RUNS = 80, EACH = 150 };
    static dtr_event events[RUNS][EACH];
    struct dtri_store_writer *writers[RUNS];
    struct dtri_store *store;
    char path[600];
    dtr_error error;
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("runs.sqlite"));
    assert_ok(dtri_store_create(path, true, &store, &error), &error);
    for (int r = 0; r < RUNS; r++) {
        struct dtri_run run;
        dtri_run_init(&run, "live");
        assert_ok(dtri_store_add_run(store, &run, &error), &error);
        assert_int_equal(run.id, r + 1);
        assert_ok(dtri_store_writer_new(store, run.id, &writers[r], &error), &error);
    }
    for (int i = 0; i < EACH; i++)
        for (int r = 0; r < RUNS; r++) {
            events[r][i] = random_event((enum shape)(r % N_SHAPES), i);
            assert_ok(dtri_store_writer_add(writers[r], &events[r][i], &error), &error);
            if (i % 50 == 49)
                assert_ok(dtri_store_writer_flush(writers[r], &error), &error);
        }
    for (int r = 0; r < RUNS; r++)
        dtri_store_writer_free(writers[r]);
    assert_ok(dtri_store_close(store, &error), &error);
    for (int r = 0; r < RUNS; r += 9)
        compare(path, r + 1, events[r], EACH);
    unlink(path);
}

/* --- picking a level and SQL ------------------------------------------------------------------ */

static void test_level(void **state)
{
    (void)state;
    assert_int_equal(dtri_tile_level(0, 0, 2), -9);
    assert_int_equal(dtri_tile_level(0, 1999, 2000), -9);
    assert_int_equal(dtri_tile_level(0, (1 << 18) * 2000 - 1, 2000), 0);
    assert_int_equal(dtri_tile_level(0, (1 << 18) * 2000, 2000), 1);
    assert_int_equal(dtri_tile_level(-1, (1 << 18) * 1999, 2000), 1);
    assert_true(dtri_tile_level(INT64_MIN, INT64_MAX, 4) == 22);
    for (int i = 0; i < 100000; i++) {
        int64_t a = (int64_t)dtri_rng_next(&rng) >> below(64), b = a;
        if (__builtin_add_overflow(a, below(INT64_C(1) << below(62)), &b))
            b = INT64_MAX;
        int64_t most = 4 + below(3000);
        int level = dtri_tile_level(a, b, most);
        assert_true(bucket_of(b, level) - bucket_of(a, level) < most);
        assert_true(level == -9 || bucket_of(b, level - 1) - bucket_of(a, level - 1) >= most);
    }
}

static int64_t integer_of(struct dtri_store *store, const char *format, ...)
{
    char sql[1024];
    va_list arguments;
    sqlite3_stmt *statement;
    va_start(arguments, format);
    vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(dtri_store_db(store)));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void test_sql(void **state)
{
    char path[600];
    dtr_event events[3000];
    dtr_error error;
    struct dtri_store *store;
    struct dtri_tile_list list = {0};
    struct file file = {.path = path};
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("sql.sqlite"));
    for (int64_t i = 0; i < 3000; i++)
        events[i] = random_event(LATE, i);
    write_events(&file, events, 3000);
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    for (int level = 0; level < 2; level++) {
        int64_t a = events[2000].ts_ns, b = events[2500].ts_ns, n = 0, total = 0;
        if (a > b)
            a = events[2500].ts_ns, b = events[2000].ts_ns;
        assert_ok(dtri_tiles_read(store, file.run, DTRI_TRACK_IN_USE, level, a, b, &list, &error),
                  &error);
        for (size_t i = 0; i < list.n; i++) {
            n += list.tiles[i].n;
            total ^= list.tiles[i].total;
        }
        const char *where = "name = 'in_use' AND track = 1002 AND run = 1 AND level = %d AND "
                            "ts_ns + width_ns > %lld AND ts_ns > %lld AND ts_ns <= %lld";
        char sql[512];
        snprintf(sql, sizeof sql, "SELECT sum(n) FROM tile_bucket WHERE %s", where);
        int64_t width = INT64_C(1) << dtri_tile_shift(level);
        assert_int_equal(integer_of(store, sql, level, a, a - width, b), n);
        assert_true(total != 0);
    }
    assert_int_equal(integer_of(store, "SELECT sum(n) FROM tile_bucket WHERE level = 0 AND "
                                       "track < 1000 AND name <> 'first_run' AND name <> "
                                       "'evicted_for_budget'"),
                     integer_of(store, "SELECT sum(n) FROM event_chunk WHERE kind NOT IN (5, 9)"));
    assert_int_equal(integer_of(store, "SELECT count(*) FROM tile_bucket WHERE level = 'x'"), 0);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM tile_bucket WHERE unit IS NULL AND "
                                       "total IS NOT NULL"),
                     0);
    int n_tracks;
    dtri_track_infos(&n_tracks);
    assert_int_equal(integer_of(store, "SELECT count(*) FROM track"), n_tracks);
    dtri_free(list.tiles);
    dtri_store_close(store, NULL);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twin),      cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_dense),     cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_verify),    cmocka_unit_test(test_migration),
        cmocka_unit_test(test_many_runs), cmocka_unit_test(test_level),
        cmocka_unit_test(test_sql),
    };
    dtri_rng_seed(&rng, 20);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
