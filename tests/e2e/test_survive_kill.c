/* SIGKILL at random moments.  Under `dtrscope record` everything that the program had emitted is in
 * the file; alone, everything older than the commit interval.  Either way the file opens, is whole,
 * and holds a beginning of the run without a hole. */
#include "survive.h"

#define KILLS_ALONE 100
#define WORKERS     2

/* --- the program ------------------------------------------------------------------------------ */

/* Runs operators for ever, or for half a minute where nobody comes to kill it. */
static int loop(struct told *told, const char *record)
{
    struct worker w;
    if (!worker_open(&w, record))
        return 3;
    atomic_store(&told->first_ns, now_ns());
    atomic_store(&told->opened, 1);
    int64_t end = now_ns() + INT64_C(30000000000);
    while (now_ns() < end) {
        if (!worker_step(&w))
            return 4;
        atomic_fetch_add(&told->operators, 1);
    }
    return worker_close(&w, NULL) == DTR_OK ? 0 : 5;
}

/* Runs operators until it was told to go on and then some more, and tells what its close said. */
static int to_the_end(struct told *told)
{
    struct worker w;
    if (!worker_open(&w, NULL))
        return 3;
    atomic_store(&told->opened, 1);
    while (!atomic_load(&told->go)) {
        worker_step(&w);
        atomic_fetch_add(&told->operators, 1);
    }
    for (int i = 0; i < 100000; i++) /* more than the ring takes */
        worker_step(&w);
    dtr_status status = worker_close(&w, NULL);
    snprintf(told->text, sizeof told->text, "%s", w.error.text);
    atomic_store(&told->status, status);
    atomic_store(&told->closed, 1);
    return 0;
}

static int program(const char *mode, struct told *told)
{
    atomic_store(&told->pid, getpid());
    if (strcmp(mode, "loop") == 0)
        return loop(told, NULL);
    return strcmp(mode, "end") == 0 ? to_the_end(told) : 2;
}

/* --- under dtrscope record -------------------------------------------------------------------- */

/* What is held of a file whose program was killed; the number of its events, or -1. */
static int64_t check_killed(const char *path, int64_t operators, const char *result)
{
    struct dtri_store *store = open_file(path);
    assert_true(text_is(store, "PRAGMA integrity_check", "ok"));
    assert_int_equal(number_of(store, "SELECT count(*) FROM run"), 1);
    assert_true(text_is(store, "SELECT result FROM run", result));
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss"), 0);
    int64_t n = unbroken(store, 1), ran = count_of(store, "dtr_event_operator", 1);
    assert_true(n >= 0);
    if (ran < operators)
        fail_msg("%s: %lld of %lld operators are in the file", path, (long long)ran,
                 (long long)operators);
    dtri_store_close(store, NULL);
    return n;
}

static void kill_under_record(int i, unsigned *seed, int worker)
{
    char path[512], name[32], told_path[512], log[512];
    snprintf(name, sizeof name, "k%d.dtr.sqlite", worker);
    in_directory(path, name);
    snprintf(name, sizeof name, "k%d.told", worker);
    in_directory(told_path, name);
    snprintf(name, sizeof name, "k%d.log", worker);
    in_directory(log, name);
    struct told *told = map_told(told_path, true);
    const char *options[] = {"--ring-events", i % 3 ? "65536" : "1024", NULL};
    pid_t parent = start_record(path, "loop", told_path, log, options);
    assert_true(wait_until(&told->pid, 1));
    /* A third right at the start, before or while the session opens. */
    if (i % 3)
        assert_true(wait_until(&told->opened, 1));
    sleep_ms(rand_r(seed) % 1000 * (i % 3 ? 0.02 : 0.006));
    kill(atomic_load(&told->pid), SIGKILL);
    assert_int_equal(wait_for(parent), 128 + SIGKILL);
    if (atomic_load(&told->opened))
        assert_true(check_killed(path, atomic_load(&told->operators), "killed") > 0);
    else if (access(path, F_OK) == 0)
        check_killed(path, 0, "killed");
    if (access(path, F_OK) == 0)
        assert_true(stands_alone(path));
    if (i % 50 == 0 && access(path, F_OK) == 0)
        assert_int_equal(check_file(path), 0);
    munmap(told, sizeof *told);
    remove_file(path);
}

/* --- alone ------------------------------------------------------------------------------------ */

static void kill_alone(int i, unsigned *seed, int worker)
{
    char path[512], name[32], told_path[512], record[600];
    bool is_long = i % 20 == 0;
    snprintf(name, sizeof name, "a%d.dtr.sqlite", worker);
    in_directory(path, name);
    snprintf(name, sizeof name, "a%d.told", worker);
    in_directory(told_path, name);
    snprintf(record, sizeof record, "DTR_RECORD=%s", path);
    struct told *told = map_told(told_path, true);
    const char *variables[] = {record, "DTR_COMMIT_INTERVAL=10ms", NULL};
    pid_t child = start_alone("loop", told_path, NULL, variables);
    int64_t before = 0;
    assert_true(wait_until(&told->pid, 1));
    if (i % 4)
        assert_true(wait_until(&told->opened, 1));
    if (is_long) { /* what was done a second before the end must be there */
        assert_true(wait_until(&told->opened, 1));
        sleep_ms(500);
        before = atomic_load(&told->operators);
        sleep_ms(1000);
    } else {
        sleep_ms(rand_r(seed) % 1000 * 0.04);
    }
    kill(child, SIGKILL);
    assert_int_equal(wait_for(child), 128 + SIGKILL);
    if (atomic_load(&told->opened) || access(path, F_OK) == 0) {
        struct dtri_store *store = NULL;
        dtr_error error = {0};
        dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &store, &error);
        if (atomic_load(&told->opened))
            assert_ok(status, &error); /* before, there may be no table yet */
        if (status == DTR_OK) {
            int64_t runs = number_of(store, "SELECT count(*) FROM run");
            assert_true(text_is(store, "PRAGMA integrity_check", "ok"));
            assert_true(runs <= 1 && unbroken(store, 1) >= 0);
            assert_true(count_of(store, "dtr_event_operator", 1) >= before);
            dtri_store_close(store, NULL);
        }
        if (i % 25 == 0 && status == DTR_OK)
            assert_int_equal(check_file(path), 0);
    }
    munmap(told, sizeof *told);
    remove_file(path);
}

/* Kills in several processes at once; each is a test of its own. */
static void in_parallel(void (*one)(int, unsigned *, int), int n)
{
    pid_t workers[WORKERS];
    for (int w = 0; w < WORKERS; w++) {
        workers[w] = fork();
        if (workers[w])
            continue;
        unsigned seed = (unsigned)w + 1;
        for (int i = w; i < n; i += WORKERS)
            one(i, &seed, w);
        _exit(0);
    }
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(wait_for(workers[w]), 0);
}

static void test_kills_under_record(void **state)
{
    (void)state;
    in_parallel(kill_under_record, atoi(environment("DTR_TEST_KILLS", "900")));
}

static void test_kills_alone(void **state)
{
    (void)state;
    in_parallel(kill_alone, KILLS_ALONE);
}

/* --- the parent ------------------------------------------------------------------------------- */

/* `dtrscope record` is killed: the program goes on to its end, and hears of it when it closes.
 * With `reap` off it stays a zombie meanwhile, as where nobody collects orphans. */
static void kill_parent(bool reap)
{
    char path[512], told_path[512];
    struct told *told = map_told(in_directory(told_path, "p.told"), true);
    const char *options[] = {"--ring-events", "1024", "--commit-interval", "10ms", NULL};
    pid_t parent =
        start_record(in_directory(path, "p.dtr.sqlite"), "end", told_path, NULL, options);
    assert_true(wait_operators(told, 20000));
    kill(parent, SIGKILL);
    if (reap)
        assert_int_equal(wait_for(parent), 128 + SIGKILL);
    atomic_store(&told->go, 1);
    bool ended = wait_until(&told->closed, 1);
    if (!reap)
        wait_for(parent);
    if (!ended)
        kill(atomic_load(&told->pid), SIGKILL);
    assert_true(ended);
    assert_int_equal(atomic_load(&told->status), DTR_E_IO);
    assert_non_null(strstr(told->text, "is gone"));
    struct dtri_store *store = open_file(path);
    assert_integrity(store);
    assert_true(text_is(store, "SELECT result FROM run", "running"));
    assert_true(unbroken(store, 1) > 0);
    dtri_store_close(store, NULL);
    munmap(told, sizeof *told);
    remove_file(path);
}

static void test_parent_killed(void **state)
{
    (void)state;
    kill_parent(true);
    kill_parent(false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parent_killed),
        cmocka_unit_test(test_kills_alone),
        cmocka_unit_test(test_kills_under_record),
    };
    if (argc == 4 && strcmp(argv[1], "program") == 0)
        return program(argv[2], map_told(argv[3], false));
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
