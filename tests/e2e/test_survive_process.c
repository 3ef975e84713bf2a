/* What happens to processes while they are recorded: forks, exec, threads that come and go, many
 * sessions, signals, stops, places that cannot be written. */
#include "survive.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define CHILDREN 100
#define MANY     60000 /* operators */
#define PATIENCE 60    /* seconds until something counts as hanging */

/* --- the program ------------------------------------------------------------------------------ */

static struct told *told; /* of the program */

static bool steps(struct worker *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!worker_step(w))
            return false;
    return true;
}

/* Opens a session, runs operators, closes it: 0, or what failed. */
static dtr_status one_session(const char *record, int64_t n)
{
    struct worker w;
    dtr_status status = DTR_OK;
    if (!worker_open(&w, record)) {
        snprintf(told->text, sizeof told->text, "%s", w.error.text);
        return DTR_E_STATE;
    }
    bool ran = steps(&w, n);
    status = worker_close(&w, NULL);
    if (status != DTR_OK)
        snprintf(told->text, sizeof told->text, "%s", w.error.text);
    return ran ? status : DTR_E_INVALID;
}

/* A child of fork uses the session that it inherited, closes it or not, and leaves in several ways.
 * Every tenth opens a session of its own first. */
static _Noreturn void be_a_child(struct worker *w, int i)
{
    bool ok = steps(w, 200);
    if (i % 2)
        ok = worker_close(w, NULL) == DTR_OK && ok;
    if (i % 10 == 0)
        ok = one_session(NULL, 20) == DTR_OK && ok;
    if (!ok)
        atomic_fetch_add(&told->failed, 1);
    if (i % 3)
        exit(ok ? 0 : 1);
    _exit(ok ? 0 : 1);
}

static int forks(void)
{
    struct worker w;
    if (!worker_open(&w, NULL))
        return 3;
    for (int i = 0; i < CHILDREN; i++) {
        steps(&w, 10);
        pid_t child = fork();
        if (child == 0)
            be_a_child(&w, i);
        steps(&w, 10);
        if (i % 4 == 3 && wait_within(child, PATIENCE) == 0)
            atomic_fetch_add(&told->children, 1);
    }
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    return worker_close(&w, NULL) == DTR_OK ? 0 : 5;
}

static int into_another_image(const char *told_path)
{
    struct worker w;
    if (!worker_open(&w, NULL) || !steps(&w, 50))
        return 3;
    execl(self(), self(), "program", "one", told_path, NULL);
    return 4;
}

struct thread {
    pthread_t thread;
    const char *record;
    int64_t steps;
    dtr_status status;
};

static void *thread_session(void *user)
{
    struct thread *t = user;
    t->status = one_session(t->record, t->steps);
    return NULL;
}

/* Sessions on eight threads at once, again and again. */
static int threads(int rounds, const char *const *records)
{
    int failed = 0;
    for (int round = 0; round < rounds; round++) {
        struct thread t[8];
        for (int i = 0; i < 8; i++) {
            t[i] = (struct thread){.record = records ? records[i] : NULL, .steps = 5 + round + i};
            pthread_create(&t[i].thread, NULL, thread_session, &t[i]);
        }
        for (int i = 0; i < 8; i++) {
            pthread_join(t[i].thread, NULL);
            failed += t[i].status != DTR_OK;
        }
    }
    atomic_store(&told->failed, failed);
    return failed ? 1 : 0;
}

static void *many_sessions(void *user)
{
    struct thread *t = user;
    for (int i = 0; i < 25 && t->status == DTR_OK; i++)
        t->status = one_session(NULL, t->steps + i % 3 * 200);
    return NULL;
}

/* Sessions that open the file while others are closing it. */
static int churn(void)
{
    struct thread t[4];
    int failed = 0;
    for (int i = 0; i < 4; i++) {
        t[i] = (struct thread){.steps = 1 + i * 100};
        pthread_create(&t[i].thread, NULL, many_sessions, &t[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i].thread, NULL);
        failed += t[i].status != DTR_OK;
    }
    return failed ? 1 : 0;
}

static int many_files(void)
{
    static char paths[8][512];
    const char *records[8];
    for (int i = 0; i < 8; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/many-%d.dtr.sqlite", getenv("DTR_TEST_DIRECTORY"),
                 i);
        records[i] = paths[i];
    }
    return threads(3, records);
}

static void on_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&told->signals, 1);
}

/* Runs until `enough` signals came or the test says so; 0: never enough. */
static int until_signals(int enough)
{
    struct worker w;
    const int handled[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++)
        sigaction(handled[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
    if (!worker_open(&w, NULL))
        return 3;
    atomic_store(&told->opened, 1);
    while (!(enough && atomic_load(&told->signals) >= enough) && !atomic_load(&told->go)) {
        worker_step(&w);
        atomic_fetch_add(&told->operators, 1);
        if (atomic_load(&told->operators) % 1000 == 0)
            sleep_ms(1);
    }
    return worker_close(&w, NULL) == DTR_OK ? 7 : 5;
}

/* As many operators as the test says; its close may fail, and the program goes on all the same. */
static int count(void)
{
    dtr_recorder_stats stats = {0};
    struct worker w;
    if (!worker_open(&w, NULL)) {
        snprintf(told->text, sizeof told->text, "%s", w.error.text);
        return 3;
    }
    bool ran = steps(&w, atomic_load(&told->go));
    atomic_store(&told->status, worker_close(&w, &stats));
    snprintf(told->text, sizeof told->text, "%s", w.error.text);
    atomic_store(&told->operators, stats.events + stats.lost_output);
    atomic_store(&told->closed, 1);
    return ran ? 0 : 4;
}

/* Leaves a child behind that goes on recording, until it was told to and its ring is full. */
static int leave_one_behind(void)
{
    pid_t child = fork();
    struct worker w;
    if (child != 0) {
        wait_until(&told->opened, 1);
        return 0;
    }
    alarm(PATIENCE);
    if (!worker_open(&w, NULL))
        _exit(3);
    atomic_store(&told->opened, 1);
    while (!atomic_load(&told->go))
        steps(&w, 100);
    steps(&w, 100000);
    atomic_store(&told->status, worker_close(&w, NULL));
    snprintf(told->text, sizeof told->text, "%s", w.error.text);
    atomic_store(&told->closed, 1);
    _exit(0);
}

static int program(const char *mode, const char *told_path)
{
    told = map_told(told_path, false);
    atomic_store(&told->pid, getpid());
    if (strcmp(mode, "forks") == 0)
        return forks();
    if (strcmp(mode, "exec") == 0)
        return into_another_image(told_path);
    if (strcmp(mode, "one") == 0)
        return one_session(NULL, 30) == DTR_OK ? 0 : 1;
    if (strcmp(mode, "threads") == 0)
        return threads(50, NULL);
    if (strcmp(mode, "churn") == 0)
        return churn();
    if (strcmp(mode, "many-files") == 0)
        return many_files();
    if (strcmp(mode, "same-file") == 0)
        return threads(3, NULL);
    if (strcmp(mode, "behind") == 0)
        return leave_one_behind();
    if (strcmp(mode, "signals") == 0)
        return until_signals(atomic_load(&told->children));
    return strcmp(mode, "count") == 0 ? count() : 2;
}

/* --- what is common --------------------------------------------------------------------------- */

struct run {
    char file[512], told_path[512], log[512];
    struct told *told;
};

static void prepare(struct run *r)
{
    in_directory(r->file, "run.dtr.sqlite");
    in_directory(r->told_path, "run.told");
    in_directory(r->log, "run.log");
    remove_file(r->file);
    r->told = map_told(r->told_path, true);
}

static int record(struct run *r, const char *mode, const char *const *options)
{
    prepare(r);
    int code = wait_within(start_record(r->file, mode, r->told_path, r->log, options), PATIENCE);
    if (code == -2)
        fail_msg("it hangs: %s", read_log(r->log));
    return code;
}

static int alone(struct run *r, const char *mode, const char *file)
{
    char variable[600];
    prepare(r);
    snprintf(variable, sizeof variable, "DTR_RECORD=%s", file ? file : r->file);
    int code = wait_within(
        start_alone(mode, r->told_path, r->log, (const char *const[]){variable, NULL}), PATIENCE);
    if (code == -2)
        fail_msg("it hangs");
    return code;
}

static void done(struct run *r)
{
    munmap(r->told, sizeof *r->told);
    remove_file(r->file);
}

/* --- forks and exec --------------------------------------------------------------------------- */

static void test_forks_under_record(void **state)
{
    struct run r;
    (void)state;
    assert_int_equal(record(&r, "forks", NULL), 0);
    assert_int_equal(atomic_load(&r.told->failed), 0);
    assert_int_equal(atomic_load(&r.told->children), CHILDREN / 4);
    assert_true(stands_alone(r.file));
    struct dtri_store *store = open_file(r.file);
    assert_integrity(store);
    assert_int_equal(number_of(store, "SELECT count(*) FROM run WHERE result = 'ok'"),
                     1 + CHILDREN / 10);
    assert_int_equal(number_of(store, "SELECT count(*) FROM run"), 1 + CHILDREN / 10);
    assert_int_equal(number_of(store, "SELECT count(DISTINCT pid) FROM run"), 1 + CHILDREN / 10);
    assert_int_equal(number_of(store, "SELECT count(DISTINCT uuid) FROM run"), 1 + CHILDREN / 10);
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss"), 0);
    assert_true(unbroken(store, 1) > 0);
    assert_int_equal(count_of(store, "dtr_event_operator", 1), 20 * CHILDREN);
    for (int run = 2; run <= 1 + CHILDREN / 10; run++) {
        assert_true(unbroken(store, run) > 0);
        assert_int_equal(count_of(store, "dtr_event_operator", run), 20);
    }
    dtri_store_close(store, NULL);
    assert_int_equal(check_file(r.file), 0);
    done(&r);
}

/* Alone, with a file for each process. */
static void test_forks_alone(void **state)
{
    struct run r;
    char pattern[600], path[700];
    (void)state;
    snprintf(pattern, sizeof pattern, "%s/fork-%%p.dtr.sqlite", survive_directory);
    assert_int_equal(alone(&r, "forks", pattern), 0);
    assert_int_equal(atomic_load(&r.told->failed), 0);
    snprintf(path, sizeof path, "%s/fork-%d.dtr.sqlite", survive_directory,
             atomic_load(&r.told->pid));
    assert_true(stands_alone(path));
    struct dtri_store *store = open_file(path);
    assert_integrity(store);
    assert_int_equal(number_of(store, "SELECT count(*) FROM run WHERE result = 'ok'"), 1);
    assert_true(unbroken(store, 1) > 0);
    assert_int_equal(count_of(store, "dtr_event_operator", 1), 20 * CHILDREN);
    dtri_store_close(store, NULL);
    done(&r);
}

/* Alone, with one name for all: SQLite cannot go on in a child, so a session there is refused, and
 * the parent's file stays whole. */
static void test_forks_alone_one_file(void **state)
{
    struct run r;
    (void)state;
    assert_int_equal(alone(&r, "forks", NULL), 0);
    assert_int_equal(atomic_load(&r.told->failed), CHILDREN / 10);
    assert_non_null(strstr(r.told->text, "%p"));
    struct dtri_store *store = open_file(r.file);
    assert_integrity(store);
    assert_int_equal(number_of(store, "SELECT count(*) FROM run"), 1);
    assert_true(unbroken(store, 1) > 0);
    assert_int_equal(count_of(store, "dtr_event_operator", 1), 20 * CHILDREN);
    dtri_store_close(store, NULL);
    done(&r);
}

static void check_exec(struct run *r, bool all)
{
    struct dtri_store *store = open_file(r->file);
    assert_integrity(store);
    int64_t runs = number_of(store, "SELECT count(*) FROM run");
    assert_true(runs == 2 || (runs == 1 && !all)); /* alone, the first may not be there yet */
    assert_true(text_is(store, "SELECT result FROM run ORDER BY id DESC", "ok"));
    assert_int_equal(count_of(store, "dtr_event_operator", runs), 30);
    assert_true(unbroken(store, 1) >= 0 && unbroken(store, runs) > 0);
    dtri_store_close(store, NULL);
}

static void test_exec(void **state)
{
    struct run r;
    (void)state;
    assert_int_equal(record(&r, "exec", NULL), 0);
    check_exec(&r, true);
    struct dtri_store *store = open_file(r.file);
    assert_true(text_is(store, "SELECT result FROM run WHERE id = 1", "killed"));
    assert_int_equal(count_of(store, "dtr_event_operator", 1), 50);
    dtri_store_close(store, NULL);
    done(&r);
    assert_int_equal(alone(&r, "exec", NULL), 0);
    check_exec(&r, false);
    done(&r);
}

/* --- many sessions ---------------------------------------------------------------------------- */

static void check_threads(const char *file, int rounds)
{
    struct dtri_store *store = open_file(file);
    int64_t expected = 0;
    assert_integrity(store);
    assert_int_equal(number_of(store, "SELECT count(*) FROM run WHERE result = 'ok'"), 8 * rounds);
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss"), 0);
    for (int run = 1; run <= 8 * rounds; run++)
        assert_true(unbroken(store, run) > 0);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 8; i++)
            expected += 5 + round + i;
    assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator"), expected);
    dtri_store_close(store, NULL);
}

static void test_many_sessions(void **state)
{
    struct run r;
    (void)state;
    assert_int_equal(record(&r, "threads", NULL), 0);
    check_threads(r.file, 50);
    done(&r);
}

/* Without `dtrscope record`, sessions of one process that name the same file share it. */
static void test_one_file_alone(void **state)
{
    struct run r;
    (void)state;
    int code = alone(&r, "same-file", NULL);
    if (code)
        print_error("%s\n", r.told->text);
    assert_int_equal(code, 0);
    check_threads(r.file, 3);
    done(&r);
}

static void test_one_file_alone_again_and_again(void **state)
{
    struct run r;
    (void)state;
    int code = alone(&r, "churn", NULL);
    if (code)
        print_error("%s\n", r.told->text);
    assert_int_equal(code, 0);
    struct dtri_store *store = open_file(r.file);
    assert_integrity(store);
    assert_int_equal(number_of(store, "SELECT count(*) FROM run WHERE result = 'ok'"), 100);
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss"), 0);
    for (int run = 1; run <= 100; run++)
        assert_true(unbroken(store, run) > 0);
    dtri_store_close(store, NULL);
    assert_int_equal(check_file(r.file), 0);
    done(&r);
}

/* Processes that start at once and name the same file, without `dtrscope record`: each has its run
 * there. */
static void test_one_file_for_processes(void **state)
{
    struct run r;
    char variable[600];
    pid_t pids[4];
    (void)state;
    for (int round = 0; round < 10; round++) {
        prepare(&r);
        snprintf(variable, sizeof variable, "DTR_RECORD=%s", r.file);
        for (int i = 0; i < 4; i++)
            pids[i] = start_alone("one", r.told_path, NULL, (const char *const[]){variable, NULL});
        for (int i = 0; i < 4; i++) {
            int code = wait_within(pids[i], PATIENCE);
            if (code)
                print_error("%s\n", r.told->text);
            assert_int_equal(code, 0);
        }
        struct dtri_store *store = open_file(r.file);
        assert_integrity(store);
        assert_int_equal(number_of(store, "SELECT count(*) FROM run WHERE result = 'ok'"), 4);
        assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator"), 120);
        dtri_store_close(store, NULL);
        done(&r);
    }
}

/* And those that name different ones do not disturb each other. */
static void test_many_files_alone(void **state)
{
    struct run r;
    char directory[600], path[700];
    (void)state;
    prepare(&r);
    snprintf(directory, sizeof directory, "DTR_TEST_DIRECTORY=%s", survive_directory);
    pid_t pid =
        start_alone("many-files", r.told_path, r.log, (const char *const[]){directory, NULL});
    assert_int_equal(wait_within(pid, PATIENCE), 0);
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/many-%d.dtr.sqlite", survive_directory, i);
        assert_true(stands_alone(path));
        struct dtri_store *store = open_file(path);
        assert_integrity(store);
        assert_int_equal(number_of(store, "SELECT count(*) FROM run WHERE result = 'ok'"), 3);
        assert_int_equal(number_of(store, "SELECT count(*) FROM dtr_event_operator"),
                         3 * (5 + i) + 3);
        dtri_store_close(store, NULL);
    }
    done(&r);
}

/* --- signals ---------------------------------------------------------------------------------- */

/* Starts the program that ends at the `enough`th signal. */
static pid_t start_signals(struct run *r, int enough)
{
    prepare(r);
    atomic_store(&r->told->children, enough);
    pid_t parent = start_record(r->file, "signals", r->told_path, r->log, NULL);
    assert_true(wait_until(&r->told->opened, 1));
    return parent;
}

static void check_signals(struct run *r, const char *result)
{
    struct dtri_store *store = open_file(r->file);
    assert_integrity(store);
    assert_true(stands_alone(r->file));
    assert_true(text_is(store, "SELECT result FROM run", result));
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss"), 0);
    assert_true(unbroken(store, 1) > 0);
    assert_true(count_of(store, "dtr_event_operator", 1) >= atomic_load(&r->told->operators));
    dtri_store_close(store, NULL);
    done(r);
}

static void test_signals_go_through(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct run r;
    (void)state;
    for (int i = 0; i < 3; i++) {
        pid_t parent = start_signals(&r, 2);
        kill(parent, signals[i]);
        assert_true(wait_until(&r.told->signals, 1));
        kill(parent, signals[i]);
        assert_int_equal(wait_within(parent, PATIENCE), 7);
        assert_int_equal(atomic_load(&r.told->signals), 2);
        check_signals(&r, "ok");
    }
}

static void test_third_interrupt_kills(void **state)
{
    struct run r;
    (void)state;
    pid_t parent = start_signals(&r, 0);
    for (int i = 1; i <= 2; i++) {
        kill(parent, SIGINT);
        assert_true(wait_until(&r.told->signals, i));
    }
    kill(parent, SIGINT);
    assert_int_equal(wait_within(parent, PATIENCE), 128 + SIGKILL);
    check_signals(&r, "killed");
}

/* Each of the two is stopped for a while, and the other does not mind. */
static void test_stops(void **state)
{
    struct run r;
    (void)state;
    pid_t parent = start_signals(&r, 1);
    for (int i = 0; i < 4; i++) {
        pid_t stopped = i % 2 ? parent : atomic_load(&r.told->pid);
        kill(stopped, SIGSTOP);
        sleep_ms(150);
        kill(stopped, SIGCONT);
        long long before = atomic_load(&r.told->operators);
        assert_true(wait_operators(r.told, before + 100));
    }
    kill(parent, SIGTERM);
    assert_int_equal(wait_within(parent, PATIENCE), 7);
    check_signals(&r, "ok");
}

/* A parent that was started with SIGCHLD ignored still hears the exit code. */
static void test_children_ignored(void **state)
{
    struct run r;
    (void)state;
    prepare(&r);
    atomic_store(&r.told->go, 1);
    signal(SIGCHLD, SIG_IGN);
    pid_t parent = start_record(r.file, "signals", r.told_path, r.log, NULL);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(wait_within(parent, PATIENCE), 7);
    check_signals(&r, "ok");
}

/* Nobody reads what `dtrscope record` prints at the end; the file is closed all the same. */
static void test_nobody_reads(void **state)
{
    struct run r;
    int ends[2], code;
    (void)state;
    prepare(&r);
    atomic_store(&r.told->go, 1);
    assert_int_equal(pipe(ends), 0);
    char *command[] = {(char *)environment("DTRSCOPE_BIN", "dtrscope"),
                       "record",
                       "-o",
                       r.file,
                       "--",
                       (char *)self(),
                       "program",
                       "signals",
                       r.told_path,
                       NULL};
    pid_t parent = fork();
    if (parent == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        signal(SIGPIPE, SIG_DFL);
        execv(command[0], command);
        _exit(125);
    }
    close(ends[0]);
    close(ends[1]);
    code = wait_within(parent, PATIENCE);
    assert_int_equal(code, 7);
    check_signals(&r, "ok");
}

/* Events of a run of `n` operators that nothing disturbs. */
static int64_t events_of(int n)
{
    struct run r;
    prepare(&r);
    atomic_store(&r.told->go, n);
    pid_t parent = start_record(r.file, "count", r.told_path, r.log, NULL);
    assert_int_equal(wait_within(parent, PATIENCE), 0);
    struct dtri_store *store = open_file(r.file);
    int64_t events = unbroken(store, 1);
    dtri_store_close(store, NULL);
    done(&r);
    return events;
}

/* The parent stands still while its program fills the ring, and may not wait: what is lost is
 * counted to the event. */
static void test_stopped_parent_drops(void **state)
{
    struct run r;
    int64_t expected = events_of(MANY);
    (void)state;
    prepare(&r);
    atomic_store(&r.told->go, MANY);
    const char *options[] = {"--ring-events", "1024", "--ring-full", "drop", NULL};
    pid_t parent = start_record(r.file, "count", r.told_path, r.log, options);
    assert_true(wait_until(&r.told->pid, 1));
    for (int i = 0; i < 5; i++) {
        kill(parent, SIGSTOP);
        sleep_ms(20);
        kill(parent, SIGCONT);
        sleep_ms(1);
    }
    assert_int_equal(wait_within(parent, PATIENCE), 0);
    struct dtri_store *store = open_file(r.file);
    assert_integrity(store);
    assert_true(text_is(store, "SELECT reason FROM loss", "ring full"));
    assert_int_equal(number_of(store, "SELECT sum(n) FROM event_chunk") +
                         number_of(store, "SELECT count FROM loss"),
                     expected);
    assert_true(text_is(store, "SELECT result FROM run", "ok"));
    dtri_store_close(store, NULL);
    assert_non_null(strstr(read_log(r.log), "EVENTS LOST"));
    done(&r);
}

/* The program is over, but a child of it goes on: the file is closed, the child comes to no harm.
 */
static void test_left_behind(void **state)
{
    struct run r;
    (void)state;
    assert_int_equal(record(&r, "behind", NULL), 0);
    struct dtri_store *store = open_file(r.file);
    assert_integrity(store);
    assert_true(stands_alone(r.file));
    assert_true(text_is(store, "SELECT result FROM run", "killed"));
    assert_true(unbroken(store, 1) > 0);
    dtri_store_close(store, NULL);
    atomic_store(&r.told->go, 1);
    assert_true(wait_until(&r.told->closed, 1));
    assert_int_equal(atomic_load(&r.told->status), DTR_E_IO);
    assert_non_null(strstr(r.told->text, "is gone"));
    assert_int_equal(check_file(r.file), 0);
    done(&r);
}

/* --- places that cannot be written ------------------------------------------------------------ */

static void test_no_place(void **state)
{
    struct run r;
    char path[600];
    (void)state;
    prepare(&r);
    fclose(fopen(r.file, "w"));
    snprintf(path, sizeof path, "%s/below.dtr.sqlite", r.file);
    pid_t parent = start_record(path, "one", r.told_path, r.log, NULL);
    assert_int_equal(wait_within(parent, PATIENCE), 1);
    assert_int_equal(atomic_load(&r.told->pid), 0); /* not even started */
    assert_non_null(strstr(read_log(r.log), "cannot write into"));
    done(&r);
    assert_int_equal(alone(&r, "count", "/proc/below.dtr.sqlite"), 3);
    assert_non_null(strstr(r.told->text, "/proc/below.dtr.sqlite"));
    done(&r);
}

static void check_full(struct run *r, int64_t expected)
{
    struct dtri_store *store = open_file(r->file);
    assert_integrity(store);
    int64_t n = unbroken(store, 1);
    assert_true(n >= 0 && n < expected); /* one transaction may already be too much */
    assert_true(text_is(store, "SELECT result FROM run", "ok"));
    assert_int_equal(n + number_of(store, "SELECT sum(count) FROM loss"), expected);
    assert_int_equal(number_of(store, "SELECT count(*) FROM loss"), 1);
    dtri_store_close(store, NULL);
    assert_int_equal(check_file(r->file), 0);
}

/* A limit on the size of files: a signal would end whoever writes beyond. */
static void limited(struct run *r, bool by_record)
{
    char variable[600];
    prepare(r);
    atomic_store(&r->told->go, MANY);
    snprintf(variable, sizeof variable, "DTR_RECORD=%s", r->file);
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){600 << 10, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    setenv("DTR_COMMIT_INTERVAL", "2ms", 1);
    pid_t pid = by_record ? start_record(r->file, "count", r->told_path, r->log, NULL)
                          : start_alone("count", r->told_path, r->log,
                                        (const char *const[]){variable, NULL});
    unsetenv("DTR_COMMIT_INTERVAL");
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(wait_within(pid, PATIENCE), 0);
}

static void test_file_limit(void **state)
{
    struct run r;
    int64_t expected = events_of(MANY);
    (void)state;
    for (int by_record = 0; by_record < 2; by_record++) {
        limited(&r, by_record);
        assert_int_equal(atomic_load(&r.told->closed), 1);
        assert_true(atomic_load(&r.told->status) != DTR_OK);
        assert_int_equal(atomic_load(&r.told->operators), expected);
        check_full(&r, expected);
        done(&r);
    }
}

/* Records into a disk of its own that gets full; mounts are this process's own. */
static int on_a_small_disk(int64_t expected)
{
    struct run r;
    char directory[512];
    if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mkdir(in_directory(directory, "disk"), 0700) != 0 ||
        mount("none", directory, "tmpfs", 0, "size=2500k") != 0)
        return SKIP_CODE;
    prepare(&r);
    snprintf(r.file, sizeof r.file, "%s/disk/run.dtr.sqlite", survive_directory);
    atomic_store(&r.told->go, MANY);
    const char *options[] = {"--commit-interval", "2ms", NULL};
    pid_t parent = start_record(r.file, "count", r.told_path, r.log, options);
    int code = wait_within(parent, PATIENCE);
    if (code)
        fail_msg("%d: %s", code, read_log(r.log));
    assert_int_equal(atomic_load(&r.told->status), DTR_E_FULL);
    assert_non_null(strstr(read_log(r.log), "EVENTS LOST"));
    check_full(&r, expected);
    struct dtri_store *store = open_file(r.file);
    assert_true(text_is(store, "SELECT reason FROM loss", "disk full"));
    dtri_store_close(store, NULL);
    done(&r);
    umount(directory);
    return 0;
}

static void test_full_disk(void **state)
{
    int64_t expected = events_of(MANY);
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(on_a_small_disk(expected));
    int code = wait_within(pid, PATIENCE);
    if (code == SKIP_CODE)
        skip(); /* no file system can be mounted here */
    assert_int_equal(code, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forks_under_record),
        cmocka_unit_test(test_forks_alone),
        cmocka_unit_test(test_forks_alone_one_file),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_many_sessions),
        cmocka_unit_test(test_one_file_alone),
        cmocka_unit_test(test_many_files_alone),
        cmocka_unit_test(test_one_file_for_processes),
        cmocka_unit_test(test_one_file_alone_again_and_again),
        cmocka_unit_test(test_signals_go_through),
        cmocka_unit_test(test_third_interrupt_kills),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_children_ignored),
        cmocka_unit_test(test_nobody_reads),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_stopped_parent_drops),
        cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_file_limit),
        cmocka_unit_test(test_full_disk),
    };
    if (argc == 4 && strcmp(argv[1], "program") == 0)
        return program(argv[2], argv[3]);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
