/* What the tests of survival share: a small program with a session, run by `dtrscope record` or
 * alone, that counts what it did in memory shared with the test; and what is held to be true of the
 * file afterwards. */
#ifndef DTR_TESTS_SURVIVE_H
#define DTR_TESTS_SURVIVE_H

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dtr/cpu.h"
#include "dtr/session.h"
#include "store/store.h"
#include "store/stream.h"

/* --- what the program tells ------------------------------------------------------------------- */

struct told {
    atomic_int pid;
    atomic_int opened;   /* sessions */
    atomic_int closed;   /* sessions, with any status */
    atomic_int status;   /* of the last close */
    atomic_int signals;  /* that reached the program */
    atomic_int go;       /* the test lets the program go on */
    atomic_int children; /* that ended as they should */
    atomic_int failed;   /* of anything else */
    atomic_llong operators;
    atomic_llong first_ns; /* when the session was open, on the monotonic clock */
    char text[512];
};

static inline int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline void sleep_ms(double ms)
{
    int64_t ns = (int64_t)(ms * 1e6);
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static inline struct told *map_told(const char *path, bool create)
{
    int fd = open(path, create ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, 0600);
    if (fd < 0 || (create && ftruncate(fd, sizeof(struct told)) != 0))
        abort();
    void *memory = mmap(NULL, sizeof(struct told), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        abort();
    close(fd);
    return memory;
}

/* --- the program ------------------------------------------------------------------------------ */

static dtr_status do_nothing(const dtr_cpu_kernel *kernel, void *const *inputs,
                             void *const *outputs, dtr_error *error)
{
    (void)kernel, (void)inputs, (void)error;
    *(int64_t *)outputs[0] = 1;
    return DTR_OK;
}

struct worker {
    dtr_backend_cpu *cpu;
    dtr_session *session;
    dtr_runtime *runtime;
    dtr_tensor input;
    dtr_error error;
};

/* False, with the reason in w->error, when the session does not open. */
static inline bool worker_open(struct worker *w, const char *record)
{
    dtr_session_options options;
    memset(w, 0, sizeof *w);
    if (dtr_backend_cpu_new(NULL, &w->cpu, &w->error) != DTR_OK)
        return false;
    dtr_session_options_init(&options);
    options.backend = dtr_backend_cpu_backend(w->cpu);
    options.program = "survive";
    options.record = record;
    if (dtr_session_open(&options, &w->session, &w->error) != DTR_OK) {
        dtr_backend_cpu_free(w->cpu);
        return false;
    }
    w->runtime = dtr_session_runtime(w->session);
    return dtr_constant(w->runtime, 64, &w->input, NULL, &w->error) == DTR_OK;
}

static inline bool worker_step(struct worker *w)
{
    static const dtr_cpu_kernel kernel = {do_nothing};
    dtr_tensor out;
    dtr_call call = {
        .name = dtr_runtime_name(w->runtime, "nothing"),
        .cost_ns = DTR_NONE,
        .payload = (void *)&kernel,
        .n_inputs = 1,
        .n_outputs = 1,
        .inputs = &w->input,
        .outputs = &(dtr_output){64, -1},
    };
    return dtr_run(w->runtime, &call, &out, &w->error) == DTR_OK &&
           dtr_release(w->runtime, out) == DTR_OK;
}

static inline dtr_status worker_close(struct worker *w, dtr_recorder_stats *stats)
{
    dtr_status status = dtr_session_close(w->session, stats, &w->error);
    dtr_backend_cpu_free(w->cpu);
    return status;
}

/* --- the test's side -------------------------------------------------------------------------- */

static char survive_directory[256];

static inline const char *in_directory(char path[512], const char *name)
{
    snprintf(path, 512, "%s/%s", survive_directory, name);
    return path;
}

static inline int make_directory(void **state)
{
    (void)state;
    snprintf(survive_directory, sizeof survive_directory, "%s/dtrscope-survive-XXXXXX",
             environment("TMPDIR", "/tmp"));
    return mkdtemp(survive_directory) ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *about, int flag, struct FTW *ftw)
{
    (void)about, (void)flag, (void)ftw;
    return remove(path);
}

static inline int remove_directory(void **state)
{
    (void)state;
    return nftw(survive_directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void remove_file(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[800];
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

/* This test's own executable, which is also the program. */
static inline const char *self(void)
{
    static char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        abort();
    path[n] = 0;
    return path;
}

/* Starts a process; what it prints goes to `log` (NULL: nowhere).  `variables` are NAME=VALUE. */
static inline pid_t start(char *const *command, const char *log, const char *const *variables)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int fd = open(log ? log : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    for (; variables && *variables; variables++)
        putenv((char *)*variables);
    execv(command[0], command);
    _exit(125);
}

/* dtrscope record OPTIONS -o FILE -- this program MODE TOLD */
static inline pid_t start_record(const char *file, const char *mode, const char *told,
                                 const char *log, const char *const *options)
{
    char *command[40];
    int n = 0;
    command[n++] = (char *)environment("DTRSCOPE_BIN", "dtrscope");
    command[n++] = "record";
    for (; options && *options; options++)
        command[n++] = (char *)*options;
    command[n++] = "-o";
    command[n++] = (char *)file;
    command[n++] = "--";
    command[n++] = (char *)self();
    command[n++] = "program";
    command[n++] = (char *)mode;
    command[n++] = (char *)told;
    command[n] = NULL;
    return start(command, log, NULL);
}

static inline pid_t start_alone(const char *mode, const char *told, const char *log,
                                const char *const *variables)
{
    return start((char *[]){(char *)self(), "program", (char *)mode, (char *)told, NULL}, log,
                 variables);
}

/* The exit code, or 128 + the signal. */
static inline int wait_for(pid_t pid)
{
    int state;
    while (waitpid(pid, &state, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/* The same within `seconds`; a process that takes longer hangs, and is killed: -2. */
static inline int wait_within(pid_t pid, int seconds)
{
    int64_t end = now_ns() + seconds * INT64_C(1000000000);
    int state;
    for (;;) {
        if (waitpid(pid, &state, WNOHANG) == pid)
            return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
        if (now_ns() > end)
            break;
        sleep_ms(1);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &state, 0);
    return -2;
}

static inline bool wait_until(atomic_int *value, int at_least)
{
    for (int i = 0; i < 100000 && atomic_load(value) < at_least; i++)
        sleep_ms(0.2);
    return atomic_load(value) >= at_least;
}

static inline bool wait_operators(struct told *told, long long at_least)
{
    for (int i = 0; i < 100000 && atomic_load(&told->operators) < at_least; i++)
        sleep_ms(0.2);
    return atomic_load(&told->operators) >= at_least;
}

static inline const char *read_log(const char *path)
{
    static char text[8192];
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = 0;
    if (file)
        fclose(file);
    return text;
}

/* --- the file afterwards ---------------------------------------------------------------------- */

static inline struct dtri_store *open_file(const char *path)
{
    struct dtri_store *store = NULL;
    dtr_error error = {0};
    if (dtri_store_open(path, DTRI_STORE_READ, &store, &error) != DTR_OK)
        fail_msg("%s", error.text);
    return store;
}

static inline int64_t number_of(struct dtri_store *store, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(dtri_store_db(store)));
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static inline bool text_is(struct dtri_store *store, const char *sql, const char *expected)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(dtri_store_db(store)));
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    bool same = strcmp(text ? text : "(null)", expected) == 0;
    if (!same)
        print_error("%s gives \"%s\", not \"%s\"\n", sql, text ? text : "(null)", expected);
    sqlite3_finalize(statement);
    return same;
}

static inline int64_t count_of(struct dtri_store *store, const char *table, int64_t run)
{
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE run = %lld", table, (long long)run);
    return number_of(store, sql);
}

/* Events of a run, which are numbered 0, 1, ... without a hole; -1 when they are not. */
static inline int64_t unbroken(struct dtri_store *store, int64_t run)
{
    const struct dtri_stream_options options = {run, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX};
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_error error = {0};
    int64_t n = 0;
    assert_ok(dtri_stream_open(store, &options, &stream, &error), &error);
    for (;; n++) {
        assert_ok(dtri_stream_next(stream, &event, &error), &error);
        if (!event)
            break;
        if (event->seq != n) {
            print_error("run %lld: event %lld follows %lld\n", (long long)run,
                        (long long)event->seq, (long long)n - 1);
            n = -1;
            break;
        }
    }
    dtri_stream_free(stream);
    return n;
}

static inline void assert_integrity(struct dtri_store *store)
{
    assert_true(text_is(store, "PRAGMA integrity_check", "ok"));
    assert_int_equal(number_of(store, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

/* No -wal beside it: the file was closed as it should. */
static inline bool stands_alone(const char *path)
{
    char wal[800];
    snprintf(wal, sizeof wal, "%s-wal", path);
    return access(path, F_OK) == 0 && access(wal, F_OK) != 0;
}

/* `dtrscope check` finds nothing wrong, where there is such a command. */
static inline int check_file(const char *path)
{
    static int there = -1;
    char *help[] = {(char *)environment("DTRSCOPE_BIN", "dtrscope"), "check", "--help", NULL};
    char *check[] = {help[0], "check", (char *)path, NULL};
    char log[512];
    if (there < 0)
        there = wait_for(start(help, NULL, NULL)) == 0;
    if (!there)
        return 0;
    int code = wait_for(start(check, in_directory(log, "check.log"), NULL));
    if (code)
        print_error("%s: %s\n", path, read_log(log));
    return code;
}

#endif
