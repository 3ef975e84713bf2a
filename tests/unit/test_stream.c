/* The stream of all events against a sort of all rows by seq, for kinds and ranges of time; and a
 * damaged chunk, which it names after what comes before it. */
#include "../support.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/rng.h"
#include "store/store.h"
#include "store/stream.h"

#define N_EVENTS 60000

static struct dtri_rng rng;
static dtr_event events[N_EVENTS];
static char path[600];

static int64_t below(int64_t n)
{
    return (int64_t)dtri_rng_below(&rng, (uint64_t)n);
}

/* Kinds in runs of random length; spans begin before the events that they enclose. */
static void make_events(void)
{
    int n, left = 0;
    const dtr_event_info *infos = dtr_event_infos(&n), *info = infos;
    for (int64_t i = 0; i < N_EVENTS; i++) {
        if (left-- == 0) {
            info = &infos[below(n)];
            left = below(4) ? 1 : (int)below(200);
        }
        events[i] = (dtr_event){.kind = info->kind, .ts_ns = i * 10 - below(500), .seq = 3 * i};
        for (int f = 0; f < info->n_fields; f++)
            events[i].u.raw[f] = (int64_t)dtri_rng_next(&rng) >> below(64);
    }
}

static void write_file(bool compress)
{
    struct dtri_store *store;
    struct dtri_store_writer *writer;
    struct dtri_run run;
    dtr_error error;
    assert_ok(dtri_store_create(path, true, &store, &error), &error);
    dtri_run_init(&run, "sim");
    assert_ok(dtri_store_add_run(store, &run, &error), &error);
    assert_ok(dtri_store_writer_new(store, run.id, &writer, &error), &error);
    dtri_store_writer_compress(writer, compress);
    for (int i = 0; i < N_EVENTS; i++) {
        assert_ok(dtri_store_writer_add(writer, &events[i], &error), &error);
        if (below(9000) == 0)
            assert_ok(dtri_store_writer_flush(writer, &error), &error);
    }
    assert_ok(dtri_store_writer_flush(writer, &error), &error);
    dtri_store_writer_free(writer);
    assert_ok(dtri_store_close(store, &error), &error);
}

static bool same(const dtr_event *a, const dtr_event *b)
{
    return a->kind == b->kind && a->ts_ns == b->ts_ns && a->seq == b->seq &&
           memcmp(a->u.raw, b->u.raw,
                  (size_t)dtr_event_info_of(a->kind)->n_fields * sizeof(int64_t)) == 0;
}

/* The events were made in the order of seq, so the sort is a filter. */
static void compare(struct dtri_store *store, const struct dtri_stream_options *options)
{
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_error error;
    assert_ok(dtri_stream_open(store, options, &stream, &error), &error);
    for (int i = 0; i < N_EVENTS; i++) {
        if (!(options->kinds & DTRI_KIND_BIT(events[i].kind)) ||
            events[i].ts_ns < options->ts_min || events[i].ts_ns > options->ts_max)
            continue;
        assert_ok(dtri_stream_next(stream, &event, &error), &error);
        assert_non_null(event);
        assert_true(same(event, &events[i]));
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(dtri_stream_next(stream, &event, &error), &error);
        assert_null(event);
    }
    dtri_stream_free(stream);
}

static void test_order(void **state)
{
    struct dtri_store *store;
    dtr_error error;
    (void)state;
    for (int compress = 0; compress < 2; compress++) {
        write_file(compress);
        assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
        compare(store, &(struct dtri_stream_options){1, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX});
        compare(store, &(struct dtri_stream_options){2, 0, INT64_MIN, INT64_MAX});
        for (int round = 0; round < 60; round++) {
            int64_t a = below(N_EVENTS * 10), b = below(N_EVENTS * 10);
            uint64_t kinds = round % 3 ? dtri_rng_next(&rng) : DTRI_ALL_KINDS;
            compare(store, &(struct dtri_stream_options){1, kinds, a < b ? a : b, a < b ? b : a});
        }
        dtri_store_close(store, NULL);
    }
}

/* All before the first event of a damaged chunk come out, then the error, and again. */
static void test_damage(void **state)
{
    static const char *const damages[] = {"data = substr(data, 1, 20)",
                                          "format = 7",
                                          "n = 5000",
                                          "n = -1",
                                          "format = 2",
                                          "data = x''"};
    struct dtri_store *store;
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_error error;
    (void)state;
    for (size_t d = 0; d < sizeof damages / sizeof damages[0]; d++) {
        char sql[256];
        sqlite3_stmt *find;
        write_file(false);
        assert_ok(dtri_store_open(path, DTRI_STORE_WRITE, &store, &error), &error);
        assert_int_equal(sqlite3_prepare_v2(dtri_store_db(store),
                                            "SELECT id, seq_min FROM event_chunk WHERE kind = 9 "
                                            "ORDER BY id LIMIT 1 OFFSET 1",
                                            -1, &find, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(find), SQLITE_ROW);
        int64_t id = sqlite3_column_int64(find, 0), first = sqlite3_column_int64(find, 1);
        sqlite3_finalize(find);
        snprintf(sql, sizeof sql, "UPDATE event_chunk SET %s WHERE id = %lld", damages[d],
                 (long long)id);
        assert_int_equal(sqlite3_exec(dtri_store_db(store), sql, NULL, NULL, NULL), SQLITE_OK);
        assert_ok(dtri_stream_open(
                      store, &(struct dtri_stream_options){1, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX},
                      &stream, &error),
                  &error);
        dtr_status status = DTR_OK;
        int64_t last = -1;
        for (event = NULL; (status = dtri_stream_next(stream, &event, &error)) == DTR_OK && event;)
            last = event->seq;
        assert_int_equal(status, DTR_E_FORMAT);
        assert_true(last >= 0 && last < first);
        snprintf(sql, sizeof sql, "chunk %lld ", (long long)id);
        assert_non_null(strstr(error.text, sql));
        dtri_stream_free(stream);
        dtri_store_close(store, NULL);
    }
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_damage),
    };
    snprintf(path, sizeof path, "%s", scratch("stream.sqlite"));
    dtri_rng_seed(&rng, 22);
    make_events();
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
