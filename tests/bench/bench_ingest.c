/* Events into a file, and windows out of it:
 *
 *     bench_ingest write N PATH [none|zstd]   the store's writer, tiles and all
 *     bench_ingest rows N PATH                the reference: one table a kind, one prepared INSERT
 *     bench_ingest make N -                   making the events alone
 *     bench_ingest query N PATH               N windows of a file that `write` made
 *     bench_ingest pack N PATH                the chunks of any file, packed and read N times
 *     bench_ingest stream 1 PATH              all events of run 1 in the order of seq
 *
 * The events are those of a training program under a budget, half a million a second: operators
 * with their storages, tensors and operands, runs, allocations, references, and for one operator in
 * six a decision with candidates, an eviction and a rematerialization.  `write` and `rows` commit
 * after each million.  A window is 10 us to all of the run wide (uniform in the logarithm) and
 * shows at most 2000 buckets of eight tracks; where the tiles are too coarse, the events are read.
 * Prints one JSON object. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "store/chunk.h"
#include "store/store.h"
#include "store/stream.h"
#include "store/tile.h"

#define BLOCK       65536
#define TRANSACTION 1000000

static void check(dtr_status status, const dtr_error *error)
{
    if (status != DTR_OK) {
        fprintf(stderr, "bench_ingest: %s\n", error->text);
        exit(1);
    }
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- events ----------------------------------------------------------------------------------- */

static dtr_event block[BLOCK];
static int n_block, shifted[64][DTR_EVENT_MAX_FIELDS + 1]; /* ID fields by kind, -1 ends */
static int64_t block_ns, block_ids;

struct maker {
    struct dtri_rng rng;
    int64_t ts, op, decision, chain, in_use;
};

static int64_t below(struct maker *m, int64_t n)
{
    return (int64_t)dtri_rng_below(&m->rng, (uint64_t)n);
}

static dtr_event *add(struct maker *m, dtr_event_kind kind)
{
    dtr_event *e = &block[n_block++];
    m->ts += 200 + below(m, 3400);
    e->ts_ns = m->ts;
    e->kind = kind;
    return e;
}

static void make_run(struct maker *m, int64_t op, int64_t bytes, bool replay)
{
    int64_t dur = 1000 + below(m, 1 << (4 + below(m, 14)));
    m->in_use += bytes;
    add(m, DTR_EVENT_OPERATOR_RUN)->u.operator_run_ =
        (dtr_event_operator_run){m->op + m->chain,
                                 op,
                                 op % 40,
                                 dur,
                                 dur - below(m, 300),
                                 replay,
                                 op,
                                 replay,
                                 replay ? m->op : DTR_NONE,
                                 replay ? m->chain : DTR_NONE,
                                 m->in_use};
    add(m, DTR_EVENT_ALLOCATION)->u.allocation_ =
        (dtr_event_allocation){op, bytes, m->in_use, below(m, 1 << 20) * 64};
}

static void make_eviction(struct maker *m, int64_t bytes)
{
    int64_t victim = m->op - 1 - below(m, 1000);
    m->decision++;
    add(m, DTR_EVENT_DECISION)->u.decision_ = (dtr_event_decision){m->decision,
                                                                   victim,
                                                                   m->op,
                                                                   bytes,
                                                                   m->in_use,
                                                                   1 << 28,
                                                                   200 + below(m, 100),
                                                                   below(m, 40),
                                                                   below(m, 20) == 0,
                                                                   500 + below(m, 4000)};
    for (int64_t rank = 0; rank < 3; rank++) {
        double score = ldexp(1 + dtri_rng_unit(&m->rng), (int)below(m, 20));
        add(m, DTR_EVENT_CANDIDATE)->u.candidate_ = (dtr_event_candidate){
            m->decision,       rank,  victim + rank,     score,      below(m, 1 << 20),
            below(m, 1 << 16), bytes, below(m, 1 << 30), below(m, 8)};
    }
    m->in_use -= bytes;
    add(m, DTR_EVENT_EVICTION)->u.eviction_ =
        (dtr_event_eviction){victim, bytes, m->in_use, DTR_EVICTED_FOR_BUDGET, m->decision};
}

static void make_operator(struct maker *m)
{
    int64_t op = ++m->op, bytes = INT64_C(4096) << below(m, 9);
    add(m, DTR_EVENT_OPERATOR)->u.operator_ = (dtr_event_operator){op, op % 40, 2, 1, 0};
    for (int64_t i = 0; i < 2; i++)
        add(m, DTR_EVENT_OPERAND)->u.operand_ =
            (dtr_event_operand){op, i, op - 1 - i * below(m, 300)};
    add(m, DTR_EVENT_STORAGE)->u.storage_ = (dtr_event_storage){op, bytes, op};
    add(m, DTR_EVENT_TENSOR)->u.tensor_ = (dtr_event_tensor){op, op, op, 0, DTR_NONE, 0};
    if (below(m, 6) == 0)
        make_eviction(m, bytes);
    if (below(m, 6) == 0) {
        m->chain++;
        make_run(m, op - 1 - below(m, 1000), bytes, true);
        add(m, DTR_EVENT_CHAIN)->u.chain_ = (dtr_event_chain){
            m->chain, op - 7, 3000 + below(m, 1 << 16), 1, 3000 + below(m, 1 << 16), 1, op};
    }
    make_run(m, op, bytes, false);
    add(m, DTR_EVENT_REFERENCE)->u.reference_ = (dtr_event_reference){op, 1, 2};
    add(m, DTR_EVENT_REFERENCE)->u.reference_ = (dtr_event_reference){op - 20, -1, below(m, 2)};
    m->in_use -= m->in_use < bytes ? 0 : bytes;
    add(m, DTR_EVENT_FREEING)->u.freeing_ = (dtr_event_freeing){op - 20, bytes, m->in_use};
    if (op % 1500 == 0) {
        m->ts += 2000000;
        add(m, DTR_EVENT_MARK)->u.mark_ = (dtr_event_mark){DTR_MARK_ITERATION, 1, op / 1500};
        add(m, DTR_EVENT_OVERHEAD)->u.overhead_ =
            (dtr_event_overhead){DTR_OVERHEAD_RUNTIME, below(m, 1 << 20), 1500};
    }
}

static void make_block(void)
{
    struct maker m = {.op = 2000, .in_use = 1 << 27};
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    dtri_rng_seed(&m.rng, 1);
    while (n_block < BLOCK - 32)
        make_operator(&m);
    block_ns = m.ts;
    block_ids = m.op + m.chain;
    for (int k = 0; k < n; k++) {
        int *to = shifted[infos[k].kind];
        for (int f = 0; f < infos[k].n_fields; f++)
            if (infos[k].fields[f].unit == DTR_UNIT_ID)
                *to++ = f;
        *to = -1;
    }
}

static inline void event_number(int64_t i, dtr_event *out)
{
    int64_t round = i / n_block;
    *out = block[i - round * n_block];
    out->ts_ns += round * block_ns + 1000000000;
    out->seq = i;
    for (const int *field = shifted[out->kind]; *field >= 0; field++)
        out->u.raw[*field] += out->u.raw[*field] == DTR_NONE ? 0 : round * block_ids;
}

/* --- writing ---------------------------------------------------------------------------------- */

static int64_t integer_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t value = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fprintf(stderr, "bench_ingest: %s\n", sqlite3_errmsg(db)), exit(1);
    if (sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void report(const char *mode, int64_t n, double wall, double cpu, const char *path)
{
    struct stat st = {0};
    stat(path, &st);
    printf("{\"mode\": \"%s\", \"events\": %lld, \"seconds\": %.3f, \"events_per_s\": %.0f, "
           "\"cpu_ns\": %.1f, \"bytes_per_event\": %.2f",
           mode, (long long)n, wall, (double)n / wall, 1e9 * cpu / (double)n,
           (double)st.st_size / (double)n);
}

static void write_events(int64_t n, const char *path, const char *packing)
{
    struct dtri_store *store;
    struct dtri_store_writer *writer;
    struct dtri_run run;
    dtr_error error;
    check(dtri_store_create(path, true, &store, &error), &error);
    dtri_run_init(&run, "live");
    run.has_events = 1;
    check(dtri_store_add_run(store, &run, &error), &error);
    check(dtri_store_writer_new(store, run.id, &writer, &error), &error);
    dtri_store_writer_compress(writer, strcmp(packing, "zstd") == 0);
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < n; i++) {
        dtr_event event;
        event_number(i, &event);
        check(dtri_store_writer_add(writer, &event, &error), &error);
        if (i % TRANSACTION == TRANSACTION - 1 || i == n - 1) {
            check(dtri_store_writer_flush(writer, &error), &error);
            check(dtri_store_commit(store, &error), &error);
        }
    }
    dtri_store_writer_free(writer);
    check(dtri_store_close(store, &error), &error);
    report(packing, n, seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu,
           path);
    check(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    sqlite3 *db = dtri_store_db(store);
    printf(", \"chunk_bytes\": %.2f, \"tile_bytes\": %.2f}\n",
           (double)integer_of(db, "SELECT sum(length(data)) FROM event_chunk") / (double)n,
           (double)integer_of(db, "SELECT sum(length(data)) FROM tile") / (double)n);
    dtri_store_close(store, NULL);
}

static sqlite3_stmt *make_table(sqlite3 *db, const dtr_event_info *info)
{
    char create[1024], insert[256];
    int c = snprintf(create, sizeof create, "CREATE TABLE %s_row (ts_ns INTEGER, seq INTEGER",
                     info->name);
    int i = snprintf(insert, sizeof insert, "INSERT INTO %s_row VALUES (?, ?", info->name);
    for (int f = 0; f < info->n_fields; f++) {
        c += snprintf(create + c, sizeof create - (size_t)c, ", %s INTEGER", info->fields[f].name);
        i += snprintf(insert + i, sizeof insert - (size_t)i, ", ?");
    }
    strcat(create, ")"), strcat(insert, ")");
    sqlite3_stmt *statement;
    if (sqlite3_exec(db, create, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, insert, -1, &statement, NULL) != SQLITE_OK)
        fprintf(stderr, "bench_ingest: %s\n", sqlite3_errmsg(db)), exit(1);
    return statement;
}

static void write_rows(int64_t n, const char *path)
{
    sqlite3 *db;
    int n_kinds, n_fields[64];
    sqlite3_stmt *insert[64] = {0};
    remove(path);
    if (sqlite3_open(path, &db) != SQLITE_OK)
        exit(1);
    sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    const dtr_event_info *infos = dtr_event_infos(&n_kinds);
    for (int k = 0; k < n_kinds; k++) {
        insert[infos[k].kind] = make_table(db, &infos[k]);
        n_fields[infos[k].kind] = infos[k].n_fields;
    }
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < n; i++) {
        dtr_event event;
        event_number(i, &event);
        if (i % TRANSACTION == 0)
            sqlite3_exec(db, i ? "COMMIT; BEGIN" : "BEGIN", NULL, NULL, NULL);
        sqlite3_stmt *s = insert[event.kind];
        sqlite3_bind_int64(s, 1, event.ts_ns);
        sqlite3_bind_int64(s, 2, event.seq);
        for (int f = 0; f < n_fields[event.kind]; f++)
            sqlite3_bind_int64(s, 3 + f, event.u.raw[f]);
        if (sqlite3_step(s) != SQLITE_DONE)
            exit(1);
        sqlite3_reset(s);
    }
    for (int k = 0; k < n_kinds; k++)
        sqlite3_finalize(insert[infos[k].kind]);
    sqlite3_exec(db, "COMMIT; PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    sqlite3_close(db);
    report("rows", n, seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu,
           path);
    printf("}\n");
}

static void make_events(int64_t n)
{
    int64_t sum = 0;
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < n; i++) {
        dtr_event event;
        event_number(i, &event);
        sum += event.u.raw[i & 1];
    }
    report("make", n, seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, "");
    printf(", \"sum\": %lld}\n", (long long)sum);
}

/* --- windows ---------------------------------------------------------------------------------- */

#define MAX_BUCKETS 2000

static const int tracks[] = {DTRI_TRACK_FIRST_RUN, DTRI_TRACK_REPLAY,
                             DTRI_TRACK_CHAIN,     DTRI_TRACK_ALLOCATION,
                             DTRI_TRACK_FREEING,   DTRI_TRACK_EVICTED_FOR_BUDGET,
                             DTRI_TRACK_DECISION,  DTRI_TRACK_IN_USE};
static const struct {
    int kind, column;
} raw[] = {{DTR_EVENT_OPERATOR_RUN, 5}, {DTR_EVENT_CHAIN, 4},    {DTR_EVENT_ALLOCATION, 4},
           {DTR_EVENT_FREEING, 4},      {DTR_EVENT_EVICTION, 4}, {DTR_EVENT_DECISION, 11}};

/* Sums and counts of the events themselves; returns how many were looked at. */
static int64_t read_events(struct dtri_store *store, int kind, int column, int64_t a, int64_t b)
{
    static int64_t counts[MAX_BUCKETS], sums[MAX_BUCKETS];
    struct dtri_store_reader *reader;
    const int64_t *const *columns;
    int64_t seen = 0, width = (b - a) / MAX_BUCKETS + 1;
    dtr_error error;
    int n;
    check(dtri_store_reader_new(store, 1, (dtr_event_kind)kind, a, b, 1 | UINT64_C(1) << column,
                                &reader, &error),
          &error);
    for (;; seen += n) {
        check(dtri_store_reader_next(reader, &n, &columns, &error), &error);
        if (!n)
            break;
        for (int i = 0; i < n; i++) {
            if (columns[0][i] < a || columns[0][i] > b)
                continue;
            int64_t bucket = (columns[0][i] - a) / width;
            counts[bucket]++;
            sums[bucket] += columns[column][i];
        }
    }
    dtri_store_reader_free(reader);
    return seen;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void query(int64_t n, const char *path)
{
    struct dtri_store *store;
    struct dtri_tile_list list = {0};
    struct dtri_rng rng;
    dtr_error error;
    double *cpu = malloc((size_t)n * sizeof *cpu), *wall = malloc((size_t)n * sizeof *wall);
    int64_t n_raw = 0, n_buckets = 0, n_seen = 0;
    dtri_rng_seed(&rng, 7);
    check(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    sqlite3 *db = dtri_store_db(store);
    int64_t begin = integer_of(db, "SELECT min(ts_min) FROM event_chunk");
    int64_t end = integer_of(db, "SELECT max(ts_max) FROM event_chunk");
    int64_t events = integer_of(db, "SELECT sum(n) FROM event_chunk");
    for (int64_t i = 0; i < n; i++) {
        double span = (double)(end - begin);
        int64_t width = (int64_t)(1e4 * pow(span / 1e4, dtri_rng_unit(&rng)));
        int64_t a = begin + (int64_t)(dtri_rng_unit(&rng) * (span - (double)width));
        int level;
        cpu[i] = seconds(CLOCK_THREAD_CPUTIME_ID);
        wall[i] = seconds(CLOCK_MONOTONIC);
        check(dtri_tiles_pick(store, 1, a, a + width, MAX_BUCKETS, &level, &error), &error);
        for (size_t t = 0; level != DTRI_TILE_NONE && t < sizeof tracks / sizeof tracks[0]; t++) {
            check(dtri_tiles_read(store, 1, tracks[t], level, a, a + width, &list, &error), &error);
            n_buckets += (int64_t)list.n;
        }
        for (size_t k = 0; level == DTRI_TILE_NONE && k < sizeof raw / sizeof raw[0]; k++)
            n_seen += read_events(store, raw[k].kind, raw[k].column, a, a + width);
        n_raw += level == DTRI_TILE_NONE;
        cpu[i] = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu[i];
        wall[i] = seconds(CLOCK_MONOTONIC) - wall[i];
    }
    qsort(cpu, (size_t)n, sizeof *cpu, by_value);
    qsort(wall, (size_t)n, sizeof *wall, by_value);
    printf("{\"mode\": \"query\", \"events\": %lld, \"windows\": %lld, \"from_events\": %lld, "
           "\"buckets\": %lld, \"events_read\": %lld, \"cpu_ms\": {\"p50\": %.3f, \"p99\": %.3f, "
           "\"most\": %.3f}, \"wall_ms\": {\"p50\": %.3f, \"p99\": %.3f, \"most\": %.3f}}\n",
           (long long)events, (long long)n, (long long)n_raw, (long long)n_buckets,
           (long long)n_seen, 1e3 * cpu[n / 2], 1e3 * cpu[n * 99 / 100], 1e3 * cpu[n - 1],
           1e3 * wall[n / 2], 1e3 * wall[n * 99 / 100], 1e3 * wall[n - 1]);
    dtri_free(list.tiles);
    dtri_store_close(store, NULL);
    free(cpu);
    free(wall);
}

/* --- packing ---------------------------------------------------------------------------------- */

static double now(void)
{
    return seconds(CLOCK_THREAD_CPUTIME_ID);
}

static void pack(int64_t rounds, const char *path)
{
    enum { COLUMNS = 2 + DTR_EVENT_MAX_FIELDS };
    static unsigned char packed[DTRI_CHUNK_BYTES(COLUMNS, DTRI_CHUNK_EVENTS)];
    static int64_t back[COLUMNS][DTRI_CHUNK_EVENTS];
    struct dtri_store *store;
    struct dtri_chunk_codec codec = {0};
    int64_t *into[COLUMNS], n_events = 0, bytes = 0, bytes_zstd = 0;
    double pack_s = 0, zstd_s = 0, unpack_s = 0, unzstd_s = 0;
    dtr_error error;
    int n_kinds;
    for (int c = 0; c < COLUMNS; c++)
        into[c] = back[c];
    check(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    const dtr_event_info *infos = dtr_event_infos(&n_kinds);
    for (int k = 0; k < n_kinds; k++) {
        struct dtri_store_reader *reader;
        const int64_t *const *columns;
        int n, n_columns = 2 + infos[k].n_fields;
        check(dtri_store_reader_new(store, 1, infos[k].kind, INT64_MIN, INT64_MAX, DTRI_ALL_COLUMNS,
                                    &reader, &error),
              &error);
        while (check(dtri_store_reader_next(reader, &n, &columns, &error), &error), n) {
            const unsigned char *data = packed;
            size_t size = 0, size_zstd = 0;
            double t[5] = {now()};
            for (int64_t i = 0; i < rounds; i++)
                size = dtri_chunk_pack(columns, n_columns, n, packed);
            t[1] = now();
            for (int64_t i = 0; i < rounds; i++)
                dtri_chunk_unpack(packed, size, n_columns, n, DTRI_ALL_COLUMNS, into);
            t[2] = now();
            for (int64_t i = 0; i < rounds; i++)
                dtri_chunk_compress(&codec, packed, size, &data, &size_zstd);
            t[3] = now();
            unsigned char *copy = malloc(size_zstd);
            memcpy(copy, data, size_zstd);
            for (int64_t i = 0; i < rounds; i++)
                dtri_chunk_decode(&codec, DTRI_CHUNK_FORMAT_ZSTD, copy, size_zstd, n_columns, n,
                                  DTRI_ALL_COLUMNS, into);
            t[4] = now();
            free(copy);
            pack_s += t[1] - t[0], unpack_s += t[2] - t[1];
            zstd_s += t[3] - t[2], unzstd_s += t[4] - t[3];
            n_events += n, bytes += (int64_t)size, bytes_zstd += (int64_t)size_zstd;
        }
        dtri_store_reader_free(reader);
    }
    double ns = 1e9 / (double)n_events / (double)rounds;
    printf("{\"mode\": \"pack\", \"events\": %lld, \"bytes\": %.2f, \"bytes_zstd\": %.2f, "
           "\"pack_ns\": %.1f, \"compress_ns\": %.1f, \"unpack_ns\": %.1f, "
           "\"unpack_zstd_ns\": %.1f}\n",
           (long long)n_events, (double)bytes / (double)n_events,
           (double)bytes_zstd / (double)n_events, ns * pack_s, ns * zstd_s, ns * unpack_s,
           ns * unzstd_s);
    dtri_chunk_codec_done(&codec);
    dtri_store_close(store, NULL);
}

static void stream_all(const char *path)
{
    struct dtri_store *store;
    struct dtri_stream *stream;
    const struct dtri_stream_options options = {1, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX};
    const dtr_event *event;
    dtr_error error;
    int64_t n = 0;
    check(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    double wall = seconds(CLOCK_MONOTONIC), cpu = now();
    check(dtri_stream_open(store, &options, &stream, &error), &error);
    while (check(dtri_stream_next(stream, &event, &error), &error), event)
        n++;
    report("stream", n, seconds(CLOCK_MONOTONIC) - wall, now() - cpu, path);
    printf("}\n");
    dtri_stream_free(stream);
    dtri_store_close(store, NULL);
}

int main(int argc, char **argv)
{
    int64_t n = argc > 3 ? atoll(argv[2]) : 0;
    if (n < 1) {
        fprintf(stderr,
                "usage: bench_ingest write|rows|make|query|pack|stream N PATH [none|zstd]\n");
        return 2;
    }
    make_block();
    if (strcmp(argv[1], "write") == 0)
        write_events(n, argv[3], argc > 4 ? argv[4] : "none");
    else if (strcmp(argv[1], "rows") == 0)
        write_rows(n, argv[3]);
    else if (strcmp(argv[1], "make") == 0)
        make_events(n);
    else if (strcmp(argv[1], "pack") == 0)
        pack(n, argv[3]);
    else if (strcmp(argv[1], "stream") == 0)
        stream_all(argv[3]);
    else
        query(n, argv[3]);
    return 0;
}
