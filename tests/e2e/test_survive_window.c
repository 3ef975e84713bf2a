/* Parts of a run: delay, duration, steps, pauses, signals, the flight recorder and its dumps; and
 * names of files, ranks, call stacks, as `dtrscope record` gives them to a program. */
#include "survive.h"

#define PATIENCE 60

/* --- the program ------------------------------------------------------------------------------ */

static struct told *told; /* of the program */

/* Steps of ten operators, until the test says to end or `steps` are done; 0: for ever. */
static int in_steps(int64_t steps, void (*at)(struct worker *w, int64_t step))
{
    struct worker w;
    if (!worker_open(&w, NULL))
        return 3;
    atomic_store(&told->first_ns, now_ns());
    atomic_store(&told->opened, 1);
    for (int64_t step = 0; (!steps || step < steps) && !atomic_load(&told->go); step++) {
        dtr_mark_emit(w.runtime, DTR_MARK_ITERATION, DTR_NONE, step);
        if (at)
            at(&w, step);
        for (int i = 0; i < 10; i++) {
            worker_step(&w);
            atomic_fetch_add(&told->operators, 1);
        }
        if (!steps)
            sleep_ms(0.2);
    }
    return worker_close(&w, NULL) == DTR_OK ? 0 : 5;
}

static void pause_some(struct worker *w, int64_t step)
{
    if (step % 20 == 5)
        dtr_session_pause(w->session, true);
    if (step % 20 == 15)
        dtr_session_pause(w->session, false);
}

static void dump_some(struct worker *w, int64_t step)
{
    if (step % 40 == 39)
        dtr_session_dump(w->session);
}

/* Runs out of memory, or replays more than it may, once. */
static int run_to_failure(bool thrash)
{
    static const dtr_cpu_kernel kernel = {do_nothing};
    struct worker w;
    dtr_tensor a, b;
    if (!worker_open(&w, NULL))
        return 3;
    dtr_call call = {.name = dtr_runtime_name(w.runtime, "big"),
                     .cost_ns = DTR_NONE,
                     .payload = (void *)&kernel,
                     .n_inputs = 1,
                     .n_outputs = 1,
                     .inputs = &w.input,
                     .outputs = &(dtr_output){1 << 20, -1}};
    dtr_status status = DTR_OK;
    if (!thrash)
        status = dtr_run(w.runtime, &call, &a, &w.error);
    for (int i = 0; thrash && status == DTR_OK && i < 1000; i++) {
        call.outputs = &(dtr_output){64, -1};
        status = dtr_run(w.runtime, &call, &b, &w.error);
        if (status == DTR_OK)
            dtr_evict(w.runtime, b);
        if (status == DTR_OK)
            status = dtr_require(w.runtime, b, &w.error);
    }
    dtr_session_set_result(w.session, status, w.error.text);
    return worker_close(&w, NULL) == DTR_OK ? 0 : 5;
}

static int program(const char *mode, const char *told_path)
{
    told = map_told(told_path, false);
    atomic_store(&told->pid, getpid());
    if (strcmp(mode, "steps") == 0)
        return in_steps(100, NULL);
    if (strcmp(mode, "pauses") == 0)
        return in_steps(100, pause_some);
    if (strcmp(mode, "dumps") == 0)
        return in_steps(100, dump_some);
    if (strcmp(mode, "for-ever") == 0)
        return in_steps(0, NULL);
    if (strcmp(mode, "memory") == 0)
        return run_to_failure(false);
    return strcmp(mode, "thrash") == 0 ? run_to_failure(true) : 2;
}

/* --- what is common --------------------------------------------------------------------------- */

struct run {
    char file[512], told_path[512], log[512];
    struct told *told;
};

static pid_t start_run(struct run *r, const char *mode, const char *const *options)
{
    in_directory(r->file, "run.dtr.sqlite");
    in_directory(r->told_path, "run.told");
    in_directory(r->log, "run.log");
    remove_file(r->file);
    r->told = map_told(r->told_path, true);
    return start_record(r->file, mode, r->told_path, r->log, options);
}

static struct dtri_store *end_run(struct run *r, pid_t parent, int expected)
{
    int code = wait_within(parent, PATIENCE);
    if (code != expected)
        fail_msg("%d: %s", code, read_log(r->log));
    assert_true(stands_alone(r->file));
    assert_int_equal(check_file(r->file), 0);
    struct dtri_store *store = open_file(r->file);
    assert_integrity(store);
    return store;
}

static struct dtri_store *record(struct run *r, const char *mode, const char *const *options)
{
    return end_run(r, start_run(r, mode, options), 0);
}

static void done(struct run *r, struct dtri_store *store)
{
    dtri_store_close(store, NULL);
    munmap(r->told, sizeof *r->told);
    remove_file(r->file);
}

static int64_t events_of(struct dtri_store *store)
{
    return number_of(store, "SELECT coalesce(sum(n), 0) FROM event_chunk");
}

#define SKIPPED "SELECT coalesce(sum(skipped), 0) FROM recording_window"
#define WINDOWS "SELECT count(*) FROM recording_window"
#define CAUSES                                                                                     \
    "SELECT group_concat(opened_by || '-' || closed_by) FROM (SELECT * FROM recording_window "     \
    "ORDER BY id)"

/* Events that the program of 100 steps emits. */
static int64_t all_events(void)
{
    struct run r;
    struct dtri_store *store = record(&r, "steps", NULL);
    int64_t n = unbroken(store, 1);
    assert_int_equal(number_of(store, WINDOWS), 0);
    done(&r, store);
    return n;
}

/* What is no definition lies in a window. */
static void assert_inside(struct dtri_store *store)
{
    assert_int_equal(number_of(store,
                               "SELECT count(*) FROM dtr_event_operator_run AS e "
                               "WHERE NOT EXISTS (SELECT 1 FROM recording_window AS w "
                               "WHERE e.ts_ns + e.dur_ns >= w.begin_ts_ns AND "
                               "(w.end_ts_ns IS NULL OR e.ts_ns + e.dur_ns <= w.end_ts_ns))"),
                     0);
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_allocation AS e "
                                      "WHERE NOT EXISTS (SELECT 1 FROM recording_window AS w "
                                      "WHERE e.ts_ns >= w.begin_ts_ns AND "
                                      "(w.end_ts_ns IS NULL OR e.ts_ns <= w.end_ts_ns))"),
                     0);
}

/* --- windows ---------------------------------------------------------------------------------- */

static void test_steps(void **state)
{
    struct run r;
    int64_t all = all_events();
    (void)state;
    struct dtri_store *store = record(&r, "steps", (const char *const[]){"--steps", "10:12", NULL});
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator_run"), 20);
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator"), 1000);
    assert_int_equal(number_of(store, "SELECT min(value) * 100 + max(value) FROM dtr_event_mark "
                                      "WHERE mark = 0"),
                     1011);
    assert_true(text_is(store, CAUSES, "step-step"));
    assert_int_equal(events_of(store) + number_of(store, SKIPPED), all);
    assert_inside(store);
    done(&r, store);
}

static void test_pauses(void **state)
{
    struct run r;
    int64_t all = all_events();
    (void)state;
    struct dtri_store *store = record(&r, "pauses", NULL);
    assert_int_equal(number_of(store, WINDOWS), 6);
    assert_true(text_is(store, CAUSES,
                        "start-program,program-program,program-program,program-program,"
                        "program-program,program-end"));
    assert_int_equal(events_of(store) + number_of(store, SKIPPED), all);
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator_run"), 500);
    assert_inside(store);
    done(&r, store);
}

/* Sends the parent a signal until the program has run for a while. */
static void test_signals(void **state)
{
    struct run r;
    (void)state;
    pid_t parent = start_run(&r, "for-ever", NULL);
    assert_true(wait_operators(r.told, 50));
    for (int i = 0; i < 4; i++) {
        long long before = atomic_load(&r.told->operators);
        kill(parent, SIGUSR2);
        assert_true(wait_operators(r.told, before + 100));
    }
    atomic_store(&r.told->go, 1);
    struct dtri_store *store = end_run(&r, parent, 0);
    assert_true(text_is(store, CAUSES, "start-signal,signal-signal,signal-end"));
    int64_t ran = number_of(store, "SELECT count(*) FROM dtr_event_operator_run");
    assert_true(ran >= 50 && ran < atomic_load(&r.told->operators));
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator"),
                     atomic_load(&r.told->operators));
    assert_inside(store);
    /* Every event has its number, so what is missing can be counted. */
    assert_int_equal(events_of(store) + number_of(store, SKIPPED),
                     number_of(store, "SELECT max(seq_max) + 1 FROM event_chunk"));
    done(&r, store);
}

static void test_delay_and_duration(void **state)
{
    struct run r;
    (void)state;
    pid_t parent = start_run(
        &r, "for-ever", (const char *const[]){"--delay", "300ms", "--duration", "200ms", NULL});
    int64_t begin = now_ns();
    sleep_ms(900);
    assert_true(wait_operators(r.told, 1000));
    atomic_store(&r.told->go, 1);
    struct dtri_store *store = end_run(&r, parent, 0);
    assert_true(text_is(store, CAUSES, "delay-duration"));
    assert_inside(store);
    assert_true(number_of(store, "SELECT begin_ts_ns FROM recording_window") - begin >=
                INT64_C(200000000));
    assert_true(number_of(store, SKIPPED) > 0);
    done(&r, store);
}

/* --- the flight recorder ---------------------------------------------------------------------- */

static void test_keep(void **state)
{
    struct run r;
    int64_t all = all_events();
    (void)state;
    struct dtri_store *store =
        record(&r, "steps", (const char *const[]){"--keep-events", "1000", NULL});
    assert_int_equal(events_of(store), 1000);
    assert_int_equal(number_of(store, "SELECT count FROM loss WHERE reason = 'overwritten'"),
                     all - 1000);
    assert_int_equal(number_of(store, "SELECT min(seq_min) FROM event_chunk"), all - 1000);
    assert_int_equal(number_of(store, "SELECT max(seq_max) FROM event_chunk"), all - 1);
    assert_true(text_is(store, CAUSES, "dump-end"));
    done(&r, store);
    store = record(&r, "dumps", (const char *const[]){"--keep-events", "1000", NULL});
    assert_true(text_is(store, CAUSES, "dump-program,dump-program,dump-end"));
    assert_int_equal(events_of(store) +
                         number_of(store, "SELECT count FROM loss WHERE reason = 'overwritten'"),
                     all);
    done(&r, store);
}

static void test_keep_by_signal_and_kill(void **state)
{
    struct run r;
    (void)state;
    const char *const options[] = {"--keep-time", "1s", "--keep-events", "500", NULL};
    pid_t parent = start_run(&r, "for-ever", options);
    for (int i = 1; i <= 2; i++) {
        assert_true(wait_operators(r.told, 200 * i));
        kill(parent, SIGUSR1);
        sleep_ms(50);
    }
    assert_true(wait_operators(r.told, atomic_load(&r.told->operators) + 200));
    kill(atomic_load(&r.told->pid), SIGKILL);
    struct dtri_store *store = end_run(&r, parent, 128 + SIGKILL);
    assert_true(text_is(store, CAUSES, "dump-signal,dump-signal,dump-killed"));
    assert_true(text_is(store, "SELECT result FROM run", "killed"));
    /* Each operator emits several events, the last of them its release. */
    assert_int_equal(events_of(store) +
                         number_of(store, "SELECT count FROM loss WHERE reason = 'overwritten'"),
                     number_of(store, "SELECT max(seq_max) + 1 FROM event_chunk"));
    done(&r, store);
}

static void test_keep_by_failure(void **state)
{
    struct run r;
    (void)state;
    struct dtri_store *store = record(
        &r, "memory", (const char *const[]){"--keep-events", "50", "--budget", "100000", NULL});
    assert_true(text_is(store, CAUSES, "dump-out of memory,dump-end"));
    assert_true(text_is(store, "SELECT result FROM run", "out_of_memory"));
    done(&r, store);
    store = record(&r, "thrash",
                   (const char *const[]){"--keep-events", "50", "--remat-limit", "1us", NULL});
    assert_true(text_is(store, "SELECT result FROM run", "thrashed"));
    assert_int_equal(number_of(store, "SELECT count(*) FROM recording_window WHERE id = 0 AND "
                                      "closed_by = 'thrash'"),
                     1);
    done(&r, store);
}

/* --- stacks ----------------------------------------------------------------------------------- */

static void test_stacks(void **state)
{
    struct run r;
    (void)state;
    struct dtri_store *store = record(&r, "steps", (const char *const[]){"--stacks", "8", NULL});
    assert_true(unbroken(store, 1) > 0);
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_origin"), 1000);
    assert_true(number_of(store, "SELECT count(*) FROM dtr_event_frame") > 0);
    assert_int_equal(number_of(store,
                               "SELECT count(*) FROM dtr_event_origin AS o WHERE NOT EXISTS "
                               "(SELECT 1 FROM dtr_event_frame AS f WHERE f.frame = o.frame)"),
                     0);
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_frame AS f WHERE NOT EXISTS "
                                      "(SELECT 1 FROM name AS n WHERE n.id = f.name)"),
                     0);
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_frame AS f WHERE parent >= 0 "
                                      "AND NOT EXISTS (SELECT 1 FROM dtr_event_frame AS p WHERE "
                                      "p.frame = f.parent AND p.seq < f.seq)"),
                     0);
    done(&r, store);
}

/* --- names of files, and ranks ---------------------------------------------------------------- */

static int record_as(const char *name, const char *log, const char *const *variables)
{
    char told_path[512], path[700];
    struct told *shared = map_told(in_directory(told_path, "name.told"), true);
    snprintf(path, sizeof path, "%s/%s", survive_directory, name);
    char *command[] = {(char *)environment("DTRSCOPE_BIN", "dtrscope"),
                       "record",
                       "-o",
                       path,
                       "--",
                       (char *)self(),
                       "program",
                       "steps",
                       told_path,
                       NULL};
    int code = wait_within(start(command, log, variables), PATIENCE);
    munmap(shared, sizeof *shared);
    return code;
}

static bool exists(const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", survive_directory, name);
    bool there = access(path, F_OK) == 0;
    if (there)
        remove_file(path);
    return there;
}

static void test_names_of_files(void **state)
{
    char log[512];
    in_directory(log, "name.log");
    (void)state;
    assert_int_equal(record_as("a%%b%rank%.sqlite", log, NULL), 0);
    assert_true(exists("a%b0.sqlite"));
    assert_int_equal(record_as("%env{DTR_TEST_JOB}%-x.sqlite", log,
                               (const char *const[]){"DTR_TEST_JOB=a/../b", NULL}),
                     0);
    assert_true(exists("a_.._b-x.sqlite"));
    assert_int_equal(record_as("%env{DTR_TEST_NONE}%y.sqlite", log, NULL), 0);
    assert_true(exists("y.sqlite"));
    assert_int_equal(record_as("%nonsense%.sqlite", log, NULL), 2);
    assert_non_null(strstr(read_log(log), "%nonsense%"));
    assert_int_equal(record_as("100%.sqlite", log, NULL), 2);
}

static void test_ranks(void **state)
{
    static const char *const launchers[] = {"OMPI_COMM_WORLD_RANK=3", "PMI_RANK=3",
                                            "SLURM_PROCID=3", "RANK=3"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        char path[512];
        assert_int_equal(
            record_as("r%rank%.sqlite", NULL, (const char *const[]){launchers[i], NULL}), 0);
        struct dtri_store *store = open_file(in_directory(path, "r3.sqlite"));
        assert_int_equal(number_of(store, "SELECT rank FROM run"), 3);
        dtri_store_close(store, NULL);
        assert_true(exists("r3.sqlite"));
    }
}

/* Eight processes of one job under one parent, each into a file of its own. */
static void test_eight_ranks(void **state)
{
    char script[2048], path[700], told_path[512], name[64];
    (void)state;
    munmap(map_told(in_directory(told_path, "ranks.told"), true), sizeof(struct told));
    snprintf(path, sizeof path, "%s/run.%%rank%%.dtr.sqlite", survive_directory);
    snprintf(script, sizeof script,
             "for i in 0 1 2 3 4 5 6 7; do PMI_RANK=$i '%s' program steps '%s' & done; wait",
             self(), told_path);
    char *command[] = {(char *)environment("DTRSCOPE_BIN", "dtrscope"),
                       "record",
                       "-o",
                       path,
                       "--",
                       "/bin/sh",
                       "-c",
                       script,
                       NULL};
    assert_int_equal(wait_within(start(command, NULL, NULL), PATIENCE), 0);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "run.%d.dtr.sqlite", i);
        struct dtri_store *store = open_file(in_directory(path, name));
        assert_integrity(store);
        assert_int_equal(number_of(store, "SELECT rank FROM run"), i);
        assert_true(text_is(store, "SELECT result FROM run", "ok"));
        assert_true(unbroken(store, 1) > 0);
        assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator"), 1000);
        dtri_store_close(store, NULL);
        assert_true(exists(name));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_delay_and_duration),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_keep_by_signal_and_kill),
        cmocka_unit_test(test_keep_by_failure),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_names_of_files),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_eight_ranks),
    };
    if (argc == 4 && strcmp(argv[1], "program") == 0)
        return program(argv[2], argv[3]);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
