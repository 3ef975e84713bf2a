/* The check finds what is wrong with a file, and names it: one sound file, many ways to damage it.
 */
#include "../support.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/check.h"
#include "base/alloc.h"
#include "dtr/host.h"
#include "dtr/session.h"
#include "store/chunk.h"
#include "store/tile.h"

#define MAX_COLUMNS (2 + DTR_EVENT_MAX_FIELDS)

static char sound[600], damaged[600];

/* --- a sound file with events of every kind ------------------------------------------------------
 */

#define N_OPS 60

static dtr_tensor call(dtr_runtime *rt, const char *name, const dtr_tensor *inputs, int n_inputs,
                       int64_t bytes)
{
    dtr_output output = {.bytes = bytes, .view_of = bytes ? -1 : 0};
    dtr_tensor out = DTR_NO_TENSOR;
    dtr_error error;
    dtr_call request = {.name = dtr_runtime_name(rt, name),
                        .cost_ns = 1000,
                        .n_inputs = n_inputs,
                        .n_outputs = 1,
                        .inputs = inputs,
                        .outputs = &output};
    assert_ok(dtr_run(rt, &request, &out, &error), &error);
    return out;
}

/* A chain forward, and backward over all of its tensors, in a budget of a quarter of it. */
static void train(dtr_runtime *rt)
{
    dtr_tensor forward[N_OPS + 1], gradient, constant, kept;
    dtr_error error;
    assert_ok(dtr_constant(rt, 100, &constant, NULL, &error), &error);
    dtr_mark_emit(rt, DTR_MARK_ITERATION, DTR_NONE, 0);
    dtr_mark_emit(rt, DTR_MARK_RANGE_BEGIN, dtr_runtime_name(rt, "a range"), DTR_NONE);
    forward[0] = constant;
    for (int i = 0; i < N_OPS; i++) {
        const dtr_tensor inputs[] = {forward[i], constant};
        forward[i + 1] = call(rt, i % 2 ? "multiply" : "add", inputs, 2, 100);
    }
    kept = call(rt, "view", &forward[N_OPS], 1, 0);
    dtr_mark_emit(rt, DTR_MARK_RANGE_END, dtr_runtime_name(rt, "a range"), DTR_NONE);
    gradient = call(rt, "loss", &kept, 1, 100);
    for (int i = N_OPS; i > 0; i--) {
        const dtr_tensor inputs[] = {gradient, forward[i]};
        dtr_tensor next = call(rt, "backward", inputs, 2, 100);
        dtr_release(rt, gradient);
        dtr_release(rt, forward[i]);
        gradient = next;
    }
    assert_ok(dtr_pin(rt, gradient, NULL, &error), &error);
    dtr_unpin(rt, gradient);
    dtr_retain(rt, gradient);
    dtr_release(rt, gradient);
    assert_ok(dtr_make_constant(rt, gradient, &error), &error);
}

/* An operator that the program ran itself; in place on inputs[0] when `in_place`. */
static dtr_tensor adopt(dtr_runtime *rt, const dtr_tensor *inputs, int n, bool in_place,
                        bool constant)
{
    dtr_output output = {.bytes = 100, .view_of = -1};
    dtr_tensor out = DTR_NO_TENSOR;
    dtr_error error;
    dtr_call call = {.name = dtr_runtime_name(rt, in_place ? "add_" : "tanh"),
                     .mutates = in_place,
                     .n_inputs = n,
                     .n_outputs = 1,
                     .inputs = inputs,
                     .outputs = &output};
    dtr_host_run run = {.cost_ns = 70,
                        .dur_ns = 70,
                        .takes = in_place ? (int[]){0} : NULL,
                        .signature = dtr_runtime_name(rt, "Float[25] -> Float[25]"),
                        .constant = constant};
    assert_ok(dtr_hold(rt, inputs, n, 100, &error), &error);
    assert_ok(dtr_adopt(rt, &call, &run, &out, &error), &error);
    return out;
}

/* An operator with three outputs. */
static void split(dtr_runtime *rt, dtr_tensor input)
{
    dtr_output outputs[3];
    dtr_tensor out[3];
    dtr_error error;
    for (int i = 0; i < 3; i++)
        outputs[i] = (dtr_output){.bytes = 20, .view_of = -1};
    dtr_call call = {.name = dtr_runtime_name(rt, "split"),
                     .n_inputs = 1,
                     .n_outputs = 3,
                     .inputs = &input,
                     .outputs = outputs};
    dtr_host_run run = {.cost_ns = 30, .dur_ns = 30, .signature = DTR_NONE};
    assert_ok(dtr_hold(rt, &input, 1, 60, &error), &error);
    assert_ok(dtr_adopt(rt, &call, &run, out, &error), &error);
}

/* What a host does: operators of its own, in place on what they made and on a constant. */
static void host(dtr_runtime *rt)
{
    dtr_error error;
    dtr_tensor weight;
    assert_ok(dtr_adopt_constant(rt, 100, NULL, &weight, &error), &error);
    dtr_tensor made = adopt(rt, &weight, 1, false, false);
    dtr_tensor other = adopt(rt, &made, 1, false, false);
    made = adopt(rt, (dtr_tensor[]){made, other}, 2, true, false);
    dtr_evict_all(rt);
    assert_ok(dtr_require(rt, made, &error), &error);
    assert_ok(dtr_isolate(rt, weight, dtr_runtime_name(rt, "add_ changes a constant"), &error),
              &error);
    weight = adopt(rt, &weight, 1, true, true);
    dtr_hazard_emit(rt, made, dtr_runtime_name(rt, "memory given out"));
    dtr_hazard_emit(rt, DTR_NO_TENSOR, dtr_runtime_name(rt, "memory given out"));
    dtr_allocator_emit(rt);
    split(rt, made);
}

static void allocator(void *self, int64_t *out_in_use, int64_t *out_peak)
{
    (void)self;
    *out_in_use = 3000;
    *out_peak = 4000;
}

static void record_sound(void)
{
    static dtr_backend backend;
    backend = *dtr_backend_virtual();
    backend.memory = allocator;
    dtr_session_options options;
    dtr_session *session;
    dtr_error error;
    unsetenv("DTR_CHANNEL");
    setenv("DTR_STACKS", "4", 1);
    snprintf(sound, sizeof sound, "%s", scratch("sound.dtr.sqlite"));
    snprintf(damaged, sizeof damaged, "%s", scratch("damaged.dtr.sqlite"));
    dtr_session_options_init(&options);
    options.backend = &backend;
    options.program = "test_check";
    options.budget = "1600";
    options.heuristic = "dtr";
    options.record = sound;
    assert_ok(dtr_session_open(&options, &session, &error), &error);
    train(dtr_session_runtime(session));
    host(dtr_session_runtime(session));
    assert_ok(dtr_session_close(session, NULL, &error), &error);
}

/* --- findings -----------------------------------------------------------------------------------
 */

static int64_t found[DTRI_N_FINDINGS];
static char first[600];

static void keep(void *user, const struct dtri_finding *finding)
{
    (void)user;
    if (!first[0])
        snprintf(first, sizeof first, "%s: %s", dtri_finding_name(finding->kind), finding->text);
    found[finding->kind]++;
}

static int64_t check_file(const char *path)
{
    struct dtri_store *store;
    struct dtri_check_stats stats;
    dtr_error error;
    memset(found, 0, sizeof found);
    first[0] = 0;
    assert_ok(dtri_store_open(path, DTRI_STORE_READ, &store, &error), &error);
    assert_ok(dtri_check(store, 0, keep, NULL, &stats, &error), &error);
    dtri_store_close(store, NULL);
    return stats.findings;
}

/* --- doing damage -------------------------------------------------------------------------------
 */

static void copy_file(const char *from, const char *to)
{
    char block[65536];
    size_t n;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    while ((n = fread(block, 1, sizeof block, in)) > 0)
        assert_int_equal(fwrite(block, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

enum how { SET, ADD, SAME, DROP, SQL, BYTES };

/* Row `row` (from 0) of those of the kind whose field `where` has the value `is` (where -1: all)
 * gets column `column` set to `value`, raised by it, or made that of the row before; or is left
 * out. */
struct damage {
    enum dtri_finding_kind kind;
    enum how how;
    dtr_event_kind event;
    int where;
    int64_t is;
    int row, column;
    int64_t value;
    const char *sql;
};

#define FIELD(KIND, name)  ((int)(offsetof(dtr_event_##KIND, name) / 8))
#define COLUMN(KIND, name) (2 + FIELD(KIND, name))
#define TS                 0
#define SEQ                1

struct chunk {
    int64_t id, n;
    int64_t *columns[MAX_COLUMNS];
};

static sqlite3 *writable(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(dtri_vtab_register(db), SQLITE_OK); /* the views are of these */
    assert_int_equal(sqlite3_exec(db, "PRAGMA ignore_check_constraints = 1", NULL, NULL, NULL),
                     SQLITE_OK);
    return db;
}

/* The events of a kind are few enough to be one chunk. */
static void read_chunk(sqlite3 *db, dtr_event_kind kind, struct chunk *chunk)
{
    sqlite3_stmt *row;
    struct dtri_chunk_codec codec = {0};
    int n_columns = 2 + dtr_event_info_of(kind)->n_fields;
    int64_t *values = malloc((size_t)n_columns * DTRI_CHUNK_EVENTS * sizeof *values);
    for (int i = 0; i < n_columns; i++)
        chunk->columns[i] = values + (size_t)i * DTRI_CHUNK_EVENTS;
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT id, n, format, data FROM event_chunk WHERE kind = "
                                        "?1",
                                        -1, &row, NULL),
                     SQLITE_OK);
    sqlite3_bind_int(row, 1, (int)kind);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    chunk->id = sqlite3_column_int64(row, 0);
    chunk->n = sqlite3_column_int64(row, 1);
    assert_int_equal(dtri_chunk_decode(&codec, sqlite3_column_int64(row, 2),
                                       sqlite3_column_blob(row, 3),
                                       (size_t)sqlite3_column_bytes(row, 3), n_columns, chunk->n,
                                       UINT64_MAX, chunk->columns),
                     DTR_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_DONE);
    sqlite3_finalize(row);
    dtri_chunk_codec_done(&codec);
}

static void write_chunk(sqlite3 *db, dtr_event_kind kind, const struct chunk *chunk)
{
    sqlite3_stmt *update;
    int n_columns = 2 + dtr_event_info_of(kind)->n_fields;
    unsigned char *data = malloc(DTRI_CHUNK_BYTES(n_columns, chunk->n));
    size_t size =
        dtri_chunk_pack((const int64_t *const *)chunk->columns, n_columns, (int)chunk->n, data);
    int64_t ranges[2][2];
    for (int c = 0; c < 2; c++) {
        ranges[c][0] = ranges[c][1] = chunk->columns[c][0];
        for (int64_t i = 1; i < chunk->n; i++) {
            int64_t value = chunk->columns[c][i];
            ranges[c][0] = value < ranges[c][0] ? value : ranges[c][0];
            ranges[c][1] = value > ranges[c][1] ? value : ranges[c][1];
        }
    }
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "UPDATE event_chunk SET n = ?2, format = 1, data = ?3, "
                                        "ts_min = ?4, ts_max = ?5, seq_min = ?6, seq_max = ?7 "
                                        "WHERE id = ?1",
                                        -1, &update, NULL),
                     SQLITE_OK);
    sqlite3_bind_int64(update, 1, chunk->id);
    sqlite3_bind_int64(update, 2, chunk->n);
    sqlite3_bind_blob(update, 3, data, (int)size, SQLITE_STATIC);
    for (int i = 0; i < 4; i++)
        sqlite3_bind_int64(update, 4 + i, ranges[i / 2][i % 2]);
    assert_int_equal(sqlite3_step(update), SQLITE_DONE);
    sqlite3_finalize(update);
    free(data);
}

/* The tiles are not the point here. */
static void rebuild_tiles(const char *path)
{
    struct dtri_store *store;
    dtr_error error;
    assert_ok(dtri_store_open(path, DTRI_STORE_WRITE, &store, &error), &error);
    assert_int_equal(sqlite3_exec(dtri_store_db(store), "DELETE FROM tile", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_ok(dtri_tiles_build(store, 1, &error), &error);
    assert_ok(dtri_store_close(store, &error), &error);
}

static int64_t find_row(const struct chunk *chunk, const struct damage *d)
{
    int seen = 0;
    for (int64_t i = 0; i < chunk->n; i++)
        if ((d->where < 0 || chunk->columns[2 + d->where][i] == d->is) && seen++ == d->row)
            return i;
    fail_msg("%s: there is no such row to damage", dtri_finding_name(d->kind));
    return -1;
}

static void damage_event(const char *path, const struct damage *d)
{
    struct chunk chunk;
    sqlite3 *db = writable(path);
    read_chunk(db, d->event, &chunk);
    int64_t row = find_row(&chunk, d);
    int n_columns = 2 + dtr_event_info_of(d->event)->n_fields;
    if (d->how == DROP) {
        for (int c = 0; c < n_columns; c++)
            memmove(&chunk.columns[c][row], &chunk.columns[c][row + 1],
                    (size_t)(chunk.n - row - 1) * sizeof(int64_t));
        chunk.n--;
    } else {
        chunk.columns[d->column][row] = d->how == SET    ? d->value
                                        : d->how == SAME ? chunk.columns[d->column][row - 1]
                                                         : chunk.columns[d->column][row] + d->value;
    }
    write_chunk(db, d->event, &chunk);
    free(chunk.columns[0]);
    if (d->sql)
        assert_int_equal(sqlite3_exec(db, d->sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    rebuild_tiles(path);
}

static void run_sql(const char *path, const char *sql)
{
    char *message = NULL;
    sqlite3 *db = writable(path);
    sqlite3_exec(db, sql, NULL, NULL, &message);
    if (message)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

/* Overwrites a piece in the middle of the file. */
static void break_page(const char *path)
{
    struct stat about;
    FILE *file = fopen(path, "r+b");
    assert_true(file && fstat(fileno(file), &about) == 0);
    for (long at = about.st_size / 4096 / 2; at < about.st_size / 4096; at += 3) {
        fseek(file, at * 4096, SEEK_SET);
        fputs("this is no page of a tree", file);
    }
    fclose(file);
}

#define NO_FIELD -1, 0
#define D(KIND, HOW, EVENT, ...)                                                                   \
    {                                                                                              \
        DTRI_FINDING_##KIND, HOW, DTR_EVENT_##EVENT, __VA_ARGS__                                   \
    }
#define S(KIND, text)                                                                              \
    {                                                                                              \
        .kind = DTRI_FINDING_##KIND, .how = SQL, .sql = text                                       \
    }

static const struct damage damages[] = {
    D(IN_USE, ADD, ALLOCATION, NO_FIELD, 5, COLUMN(allocation, in_use), 1, NULL),
    D(IN_USE, ADD, EVICTION, NO_FIELD, 3, COLUMN(eviction, in_use), -1, NULL),
    D(IN_USE, ADD, DECISION, NO_FIELD, 3, COLUMN(decision, in_use), 8, NULL),
    D(IN_USE, ADD, ALLOCATOR, NO_FIELD, 0, COLUMN(allocator, counted), 8, NULL),
    D(IN_USE, SET, ALLOCATOR, NO_FIELD, 0, COLUMN(allocator, in_use), -7, NULL),
    D(CODE, SET, EVICTION, FIELD(eviction, reason), DTR_EVICTED_BY_MUTATION, 0,
      COLUMN(eviction, reason), 5, NULL),
    D(READ_EVICTED, SET, EVICTION, FIELD(eviction, reason), DTR_EVICTED_BY_MUTATION, 0,
      COLUMN(eviction, reason), DTR_EVICTED_BY_REQUEST, NULL),
    D(EVICTED_PINNED, SET, EVICTION, FIELD(eviction, reason), DTR_EVICTED_BY_MUTATION, 1,
      COLUMN(eviction, reason), DTR_EVICTED_BY_REQUEST, NULL),
    D(UNKNOWN_ID, SET, SIGNATURE, NO_FIELD, 0, COLUMN(signature, op), 99999, NULL),
    D(UNKNOWN_ID, SET, HAZARD, NO_FIELD, 0, COLUMN(hazard, tensor), 99999, NULL),
    D(NAME, SET, HAZARD, NO_FIELD, 1, COLUMN(hazard, name), 99999, NULL),
    D(DURATION, SET, BARRIER, NO_FIELD, 0, COLUMN(barrier, replays), -2, NULL),
    D(SIZE, ADD, ALLOCATION, NO_FIELD, 5, COLUMN(allocation, bytes), 8, NULL),
    D(SIZE, SET, STORAGE, NO_FIELD, 4, COLUMN(storage, bytes), -1, NULL),
    D(ALLOCATED_TWICE, SET, ALLOCATION, NO_FIELD, 4, COLUMN(allocation, storage), 0, NULL),
    D(FREED_TWICE, SAME, FREEING, NO_FIELD, 2, COLUMN(freeing, storage), 0, NULL),
    D(NOT_RESIDENT, SAME, EVICTION, FIELD(eviction, reason), DTR_EVICTED_FOR_BUDGET, 1,
      COLUMN(eviction, storage), 0, NULL),
    D(READ_EVICTED, SET, OPERAND, NO_FIELD, 100, COLUMN(operand, tensor), 3, NULL),
    D(EVICTED_PINNED, SET, EVICTION, NO_FIELD, 2, COLUMN(eviction, storage), 0, NULL),
    D(FIRST_RUN, SET, OPERATOR_RUN, FIELD(operator_run, replay), 0, 7, COLUMN(operator_run, replay),
      1, NULL),
    D(FIRST_RUN, SET, OPERATOR_RUN, FIELD(operator_run, replay), 1, 1, COLUMN(operator_run, replay),
      0, NULL),
    D(CAUSE, SET, OPERATOR_RUN, FIELD(operator_run, replay), 1, 2, COLUMN(operator_run, chain), -1,
      NULL),
    D(CAUSE, SET, OPERATOR_RUN, FIELD(operator_run, depth), 1, 0, COLUMN(operator_run, cause), 5,
      NULL),
    D(CAUSE, SET, OPERATOR_RUN, FIELD(operator_run, depth), 2, 0, COLUMN(operator_run, cause), -1,
      NULL),
    D(DEPTH, ADD, OPERATOR_RUN, FIELD(operator_run, depth), 1, 0, COLUMN(operator_run, depth), 7,
      NULL),
    D(CHAIN, ADD, CHAIN, NO_FIELD, 0, COLUMN(chain, runs), 1, NULL),
    D(CHAIN, ADD, CHAIN, NO_FIELD, 1, COLUMN(chain, cost_ns), 1, NULL),
    D(CHAIN, ADD, CHAIN, NO_FIELD, 1, COLUMN(chain, max_depth), -1, NULL),
    D(CAUSE, SET, CHAIN, NO_FIELD, 1, COLUMN(chain, cause), 2, NULL),
    D(TARGET, ADD, OPERATOR_RUN, NO_FIELD, 9, COLUMN(operator_run, target), -1, NULL),
    D(RUN_IN_USE, ADD, OPERATOR_RUN, NO_FIELD, 9, COLUMN(operator_run, in_use), 1, NULL),
    D(DURATION, SET, OPERATOR_RUN, NO_FIELD, 9, COLUMN(operator_run, dur_ns), -5, NULL),
    D(DURATION, SET, CHAIN, NO_FIELD, 0, COLUMN(chain, dur_ns), -1, NULL),
    D(DECISION, ADD, EVICTION, FIELD(eviction, reason), DTR_EVICTED_FOR_BUDGET, 1,
      COLUMN(eviction, decision), 1, NULL),
    D(DECISION, ADD, DECISION, NO_FIELD, 2, COLUMN(decision, storage), 1, NULL),
    D(DECISION, SET, EVICTION, FIELD(eviction, reason), DTR_EVICTED_FOR_BUDGET, 1,
      COLUMN(eviction, reason), DTR_EVICTED_EAGERLY, NULL),
    D(CANDIDATE, ADD, CANDIDATE, FIELD(candidate, rank), 0, 1, COLUMN(candidate, storage), 1, NULL),
    D(CANDIDATE, SET, CANDIDATE, FIELD(candidate, rank), 0, 1, COLUMN(candidate, score),
      INT64_C(0x7fe0000000000000), NULL),
    D(CANDIDATE, ADD, CANDIDATE, FIELD(candidate, rank), 1, 1, COLUMN(candidate, rank), 1, NULL),
    D(CANDIDATE, SET, DECISION, NO_FIELD, 2, COLUMN(decision, candidates), 0, NULL),
    D(BUDGET, ADD, DECISION, NO_FIELD, 2, COLUMN(decision, budget), 1, NULL),
    D(REFERENCE, ADD, REFERENCE, NO_FIELD, 2, COLUMN(reference, n_references), 1, NULL),
    D(REFERENCE, SET, REFERENCE, NO_FIELD, 3, COLUMN(reference, n_references), -1, NULL),
    D(PIN, SET, PIN, FIELD(pin, change), 1, 0, COLUMN(pin, change), -1, NULL),
    D(RANGE, SET, MARK, FIELD(mark, mark), DTR_MARK_RANGE_BEGIN, 0, COLUMN(mark, mark),
      DTR_MARK_FORWARD, NULL),
    D(CODE, SET, EVICTION, NO_FIELD, 2, COLUMN(eviction, reason), 9, NULL),
    D(CODE, SET, MARK, NO_FIELD, 0, COLUMN(mark, mark), 99, NULL),
    D(CODE, SET, REFERENCE, NO_FIELD, 1, COLUMN(reference, delta), 3, NULL),
    D(UNKNOWN_ID, SET, OPERAND, NO_FIELD, 7, COLUMN(operand, tensor), 999999, NULL),
    D(UNKNOWN_ID, SET, TENSOR, NO_FIELD, 7, COLUMN(tensor, storage), 999999, NULL),
    D(UNKNOWN_ID, SET, OPERATOR_RUN, NO_FIELD, 7, COLUMN(operator_run, op), 999999, NULL),
    D(DUPLICATE_ID, SET, STORAGE, NO_FIELD, 7, COLUMN(storage, storage), 3, NULL),
    D(DUPLICATE_ID, SET, TENSOR, NO_FIELD, 7, COLUMN(tensor, tensor), 3, NULL),
    D(DUPLICATE_ID, SET, DECISION, NO_FIELD, 2, COLUMN(decision, decision), 0, NULL),
    D(OPERANDS, ADD, OPERATOR, NO_FIELD, 7, COLUMN(operator, n_inputs), 1, NULL),
    D(OPERANDS, ADD, OPERAND, NO_FIELD, 7, COLUMN(operand, position), 1, NULL),
    D(OUTPUTS, ADD, OPERATOR, NO_FIELD, 7, COLUMN(operator, n_outputs), 1, NULL),
    D(OUTPUTS, ADD, TENSOR, NO_FIELD, 7, COLUMN(tensor, output), 1, NULL),
    D(FRAME, SET, ORIGIN, NO_FIELD, 3, COLUMN(origin, frame), 999999, NULL),
    D(TIME, ADD, ALLOCATION, NO_FIELD, 9, TS, -1000000, NULL),
    D(SEQ, ADD, REFERENCE, NO_FIELD, 9, SEQ, 1, NULL),
    D(GAP, DROP, REFERENCE, NO_FIELD, 9, 0, 0, NULL),
    D(LOSSES, DROP, REFERENCE, NO_FIELD, 9, 0, 0, "INSERT INTO loss VALUES (1, 'ring full', 0)"),
    D(END, DROP, MARK, FIELD(mark, mark), DTR_MARK_END, 0, 0, 0, NULL),
    S(COUNTS, "UPDATE run SET evictions = evictions + 1"),
    S(COUNTS, "UPDATE run SET rematerializations = rematerializations - 1"),
    S(PEAK, "UPDATE run SET peak_bytes = peak_bytes + 1"),
    S(RUN_ROW, "UPDATE run SET slowdown = 17"),
    S(RUN_ROW, "UPDATE run SET result = 'splendid'"),
    S(RUN_ROW, "UPDATE run SET has_events = 0"),
    S(RUN_ROW, "CREATE TEMP TABLE t AS SELECT * FROM run; UPDATE t SET id = 2, has_events = 0; "
               "INSERT INTO run SELECT * FROM t"),
    S(ORPHAN, "INSERT INTO name VALUES (99, 1, 'of nobody')"),
    S(ORPHAN, "UPDATE clock_sample SET run = 99"),
    S(SETTING, "UPDATE setting SET origin = 'a dream' WHERE name = 'budget'"),
    S(CLOCK, "UPDATE clock_sample SET monotonic_ns = 1 WHERE rowid = (SELECT max(rowid) FROM "
             "clock_sample)"),
    S(CLOCK, "UPDATE clock_sample SET uncertainty_ns = -1"),
    S(WINDOW, "INSERT INTO recording_window VALUES (1, 0, 0, 5000, 'start', 'program', 0), "
              "(1, 1, 4000, NULL, 'program', NULL, 0)"),
    S(WINDOW, "INSERT INTO recording_window VALUES (1, 0, 0, 5000, 'start', 'program', 0)"),
    S(NAME, "DELETE FROM name WHERE text = 'multiply'"),
    S(CHUNK_DATA, "UPDATE event_chunk SET data = zeroblob(3) WHERE kind = 7"),
    S(CHUNK_DATA, "UPDATE event_chunk SET format = 77 WHERE kind = 7"),
    S(CHUNK_DATA, "UPDATE event_chunk SET n = n + 1 WHERE kind = 7"),
    S(CHUNK_KIND, "UPDATE event_chunk SET kind = 63 WHERE kind = 7"),
    S(CHUNK_RANGE, "UPDATE event_chunk SET ts_min = ts_min + 1 WHERE kind = 7"),
    S(CHUNK_RANGE, "UPDATE event_chunk SET seq_max = seq_max + 1 WHERE kind = 7"),
    S(TILE, "DELETE FROM tile WHERE track = 7 AND level = (SELECT min(level) FROM tile)"),
    S(TILE, "UPDATE tile SET data = (SELECT data FROM tile WHERE track = 8 LIMIT 1), n = (SELECT n "
            "FROM tile WHERE track = 8 LIMIT 1) WHERE track = 7"),
    S(TILE, "DELETE FROM tile"),
    S(SCHEMA, "ALTER TABLE run DROP COLUMN host"),
    S(SCHEMA, "DROP TABLE loss"),
    {.kind = DTRI_FINDING_INTEGRITY, .how = BYTES},
};

#define N_DAMAGES (sizeof damages / sizeof damages[0])

static void describe(const struct damage *d, char *text, size_t size)
{
    if (d->how == SQL || d->how == BYTES)
        snprintf(text, size, "%s", d->sql ? d->sql : "pages overwritten");
    else
        snprintf(text, size, "%s row %d column %d", dtr_event_info_of(d->event)->name, d->row,
                 d->column);
}

static void test_sound(void **state)
{
    (void)state;
    if (check_file(sound))
        fail_msg("the sound file is not: %s", first);
}

static void test_damages(void **state)
{
    bool named[DTRI_N_FINDINGS] = {false};
    (void)state;
    for (size_t i = 0; i < N_DAMAGES; i++) {
        const struct damage *d = &damages[i];
        char what[300];
        describe(d, what, sizeof what);
        copy_file(sound, damaged);
        if (d->how == SQL)
            run_sql(damaged, d->sql);
        else if (d->how == BYTES)
            break_page(damaged);
        else
            damage_event(damaged, d);
        check_file(damaged);
        if (!found[d->kind])
            fail_msg("%s was to be found after: %s; found: %s", dtri_finding_name(d->kind), what,
                     first[0] ? first : "nothing");
        named[d->kind] = true;
        unlink(damaged);
    }
    for (int k = 0; k < DTRI_N_FINDINGS; k++)
        if (!named[k])
            fail_msg("no damage shows that %s can be found", dtri_finding_name(k));
}

/* Losses that are told explain what is missing: nothing is found. */
static void test_losses_explain(void **state)
{
    const struct damage d = {.kind = DTRI_FINDING_GAP,
                             .how = DROP,
                             .event = DTR_EVENT_ALLOCATION,
                             .where = -1,
                             .row = 9,
                             .sql = "INSERT INTO loss VALUES (1, 'ring full', 1)"};
    (void)state;
    copy_file(sound, damaged);
    damage_event(damaged, &d);
    if (check_file(damaged))
        fail_msg("%s", first);
    run_sql(damaged, "UPDATE loss SET count = NULL");
    if (check_file(damaged))
        fail_msg("%s", first);
    run_sql(damaged, "DELETE FROM loss");
    assert_true(check_file(damaged) > 0);
    run_sql(damaged, "UPDATE run SET result = 'running'"); /* its losses will be told at its end */
    if (check_file(damaged))
        fail_msg("%s", first);
    unlink(damaged);
}

static int64_t n_events(dtr_event_kind kind)
{
    sqlite3_stmt *row;
    sqlite3 *db = writable(sound);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT sum(n) FROM event_chunk WHERE kind = ?1", -1, &row, NULL),
        SQLITE_OK);
    sqlite3_bind_int(row, 1, (int)kind);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return n;
}

/* Whatever event is missing, the others are not held against what it would have said. */
static void test_any_loss(void **state)
{
    enum { AT_MOST = 12 };
    int tried = 0, wrong = 0;
    (void)state;
    static const dtr_event_kind kinds[] = {
#define KIND(NAME, name, number, meaning) DTR_EVENT_##NAME,
        DTR_EVENT_KINDS(KIND)
#undef KIND
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const dtr_event_kind kind = kinds[k];
        int64_t n = n_events(kind), step = n / AT_MOST + 1;
        for (int64_t row = n - 1; n > 1 && row >= 0; row -= step, tried++) {
            const struct damage d = {.how = DROP,
                                     .event = kind,
                                     .where = -1,
                                     .row = (int)row,
                                     .sql = "INSERT INTO loss VALUES (1, 'ring full', 1)"};
            copy_file(sound, damaged);
            damage_event(damaged, &d);
            if (check_file(damaged)) {
                print_error("without event %lld of %s: %s\n", (long long)row,
                            dtr_event_info_of(d.event)->name, first);
                wrong++;
            }
        }
    }
    assert_int_equal(wrong, 0);
    assert_true(tried > 100);
    unlink(damaged);
}

static void test_no_such_run(void **state)
{
    struct dtri_store *store;
    struct dtri_check_stats stats;
    dtr_error error;
    (void)state;
    assert_ok(dtri_store_open(sound, DTRI_STORE_READ, &store, &error), &error);
    assert_int_equal(dtri_check(store, 7, keep, NULL, &stats, &error), DTR_E_NOT_FOUND);
    dtri_store_close(store, NULL);
}

static int set_up(void **state)
{
    (void)state;
    record_sound();
    return 0;
}

static int clean_up(void **state)
{
    char *slash;
    (void)state;
    unlink(sound);
    slash = strrchr(sound, '/');
    *slash = 0;
    rmdir(sound);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),          cmocka_unit_test(test_damages),
        cmocka_unit_test(test_losses_explain), cmocka_unit_test(test_any_loss),
        cmocka_unit_test(test_no_such_run),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
