/* dtrscope record: runs a program with a session set up through its environment. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/common.h"
#include "session/settings.h"
#include "store/store.h"

#define MAX_SETTINGS 16

/* What was given on the command line, by row of the settings table; NULL: leave the environment. */
struct given {
    const char *texts[MAX_SETTINGS];
    bool flags[MAX_SETTINGS];
    bool force;
};

/* The settings table once more, with texts as values: they go on into the environment as they are.
 */
static void make_table(struct dtri_option *table)
{
    int n = 0;
    for (; dtri_settings_table[n].name && n < MAX_SETTINGS; n++) {
        table[n] = dtri_settings_table[n];
        if (table[n].type == DTRI_OPTION_FLAG) {
            table[n].offset = offsetof(struct given, flags) + (size_t)n * sizeof(bool);
            continue;
        }
        table[n].type = DTRI_OPTION_TEXT;
        table[n].offset = offsetof(struct given, texts) + (size_t)n * sizeof(char *);
    }
    table[n] = (struct dtri_option){.name = "force",
                                    .type = DTRI_OPTION_FLAG,
                                    .offset = offsetof(struct given, force),
                                    .help = "replace FILE if it exists"};
    table[n + 1] = (struct dtri_option){0};
}

/* Refuses bad values before the program starts. */
static dtr_status check(const struct given *given, dtr_error *error)
{
    struct dtri_settings scratch = {0};
    for (int i = 0; dtri_settings_table[i].name; i++) {
        if (!given->texts[i])
            continue;
        dtr_status status =
            dtri_option_set(&dtri_settings_table[i], &scratch, given->texts[i], error);
        if (status != DTR_OK)
            return status;
    }
    if (scratch.budget.kind > DTRI_BUDGET_BYTES)
        return dtri_fail(
            error, DTR_E_INVALID, 0,
            "--budget: a live run has no unlimited peak to take a share of; give bytes, "
            "or record without a budget first and look at its peak");
    if (scratch.heuristic) {
        dtr_selector *selector;
        dtr_selector_options choice = {.heuristic = scratch.heuristic};
        dtr_status status = dtr_selector_new(&choice, &selector, error);
        if (status != DTR_OK)
            return status;
        dtr_selector_free(selector);
    }
    return DTR_OK;
}

static int setting_row(const char *name)
{
    int i = 0;
    while (strcmp(dtri_settings_table[i].name, name) != 0)
        i++;
    return i;
}

/* "./build/charlm --steps 3" is recorded into charlm.dtr.sqlite unless -o says otherwise. */
static dtr_status choose_file(struct given *given, const char *program, char *path, size_t size,
                              dtr_error *error)
{
    const char **file = &given->texts[setting_row("output")];
    const char *base = strrchr(program, '/');
    char name[512], directory[3072] = "";
    snprintf(name, sizeof name, "%s.dtr.sqlite", base ? base + 1 : program);
    const char *wanted = *file ? *file : name;
    /* Absolute, since the program may change its directory. */
    if (wanted[0] != '/' && !getcwd(directory, sizeof directory))
        return dtri_fail(error, DTR_E_IO, errno, "no current directory: %s", strerror(errno));
    if ((size_t)snprintf(path, size, "%s%s%s", directory, wanted[0] == '/' ? "" : "/", wanted) >=
        size)
        return dtri_fail(error, DTR_E_LIMIT, 0, "the path of the file is too long");
    if (access(path, F_OK) == 0) {
        if (!given->force)
            return dtri_fail(error, DTR_E_STATE, 0,
                             "%s exists; give another name with -o, or --force to replace it",
                             wanted);
        struct dtri_store *store; /* replaces it, and what SQLite keeps beside it */
        dtr_status status = dtri_store_create(path, true, &store, error);
        if (status != DTR_OK)
            return status;
        dtri_store_close(store, NULL);
        unlink(path);
    }
    *file = path;
    return DTR_OK;
}

/* --- the child -------------------------------------------------------------------------------- */

static volatile sig_atomic_t child_pid;

static void pass_on(int signal)
{
    if (child_pid > 0)
        kill((pid_t)child_pid, signal);
}

static void start(char **command, const struct given *given)
{
    for (int i = 0; dtri_settings_table[i].name; i++) {
        const char *text = given->flags[i] ? "1" : given->texts[i];
        if (text)
            setenv(dtri_settings_table[i].environment, text, 1);
    }
    execvp(command[0], command);
    int why = errno;
    fprintf(stderr, "dtrscope record: cannot run %s: %s\n", command[0], strerror(why));
    _exit(why == ENOENT ? 127 : 126);
}

/* Runs the program and waits; the terminal's interrupt reaches it by itself. */
static int run_program(char **command, const struct given *given)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, forward = {.sa_handler = pass_on};
    struct sigaction old_int, old_quit, old_term;
    int state;
    sigaction(SIGINT, &ignore, &old_int);
    sigaction(SIGQUIT, &ignore, &old_quit);
    pid_t pid = fork();
    if (pid == 0) {
        sigaction(SIGINT, &old_int, NULL);
        sigaction(SIGQUIT, &old_quit, NULL);
        start(command, given);
    }
    if (pid < 0) {
        fprintf(stderr, "dtrscope record: cannot start a process: %s\n", strerror(errno));
        return 126;
    }
    child_pid = pid;
    sigaction(SIGTERM, &forward, &old_term);
    while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
        continue;
    child_pid = 0;
    sigaction(SIGTERM, &old_term, NULL);
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

/* --- afterwards ------------------------------------------------------------------------------- */

static void print_summary(struct dtri_store *store, const struct dtri_run *run)
{
    char peak[DTRI_UNITS_TEXT], budget[DTRI_UNITS_TEXT];
    int64_t losses = 0;
    dtri_store_losses(store, run->id, &losses, NULL);
    fprintf(stderr, "dtrscope: run %" PRId64 " %s", run->id, run->result);
    if (run->peak_bytes != DTRI_NULL)
        fprintf(stderr,
                ", peak %s of %s, %" PRId64 " evictions, %" PRId64 " replays, slowdown %.2f",
                dtri_format_bytes(run->peak_bytes, peak),
                run->budget_bytes == DTRI_NULL ? "no budget"
                                               : dtri_format_bytes(run->budget_bytes, budget),
                run->evictions, run->rematerializations, run->slowdown);
    if (losses)
        fprintf(stderr, "; %" PRId64 " EVENTS LOST", losses);
    fputc('\n', stderr);
}

/* Writes down how the program ended, also for a run that it could not finish. */
static dtr_status finish_file(const char *path, int exit_code, dtr_error *error)
{
    struct dtri_store *store;
    struct dtri_run *runs = NULL;
    int n = 0;
    dtr_status status = dtri_store_open(path, DTRI_STORE_WRITE, &store, error);
    if (status != DTR_OK)
        return status;
    status = dtri_store_runs(store, &runs, &n, error);
    for (int i = 0; i < n && status == DTR_OK; i++) {
        runs[i].exit_code = exit_code;
        if (strcmp(runs[i].result, "running") == 0) {
            dtri_run_set_text(runs[i].result, "killed");
            dtri_run_set_text(runs[i].why, "the program ended without closing its session");
        }
        status = dtri_store_update_run(store, &runs[i], error);
        if (status == DTR_OK)
            print_summary(store, &runs[i]);
    }
    dtri_free(runs);
    dtr_status closed = dtri_store_close(store, status == DTR_OK ? error : NULL);
    return status == DTR_OK ? closed : status;
}

static int run(int argc, char **argv)
{
    struct dtri_option table[MAX_SETTINGS + 2];
    struct given given = {0};
    struct dtri_arguments arguments;
    char path[4096];
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_record;
    make_table(table);
    if (dtri_options_parse(table, &given, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (!arguments.rest || !arguments.rest[0] || arguments.n_positionals)
        return dtri_cli_usage(command, "give the program after --");
    dtr_status status = check(&given, &error);
    if (status == DTR_OK)
        status = choose_file(&given, arguments.rest[0], path, sizeof path, &error);
    if (status != DTR_OK)
        return dtri_cli_fail(command, &error);
    int code = run_program(arguments.rest, &given);
    if (access(path, F_OK) != 0) {
        fprintf(stderr,
                "dtrscope record: %s opened no session, so nothing was recorded; it has to use "
                "dtr/session.h or dtr/engine.h\n",
                arguments.rest[0]);
        return code ? code : DTRI_EXIT_FAILURE;
    }
    if (finish_file(path, code, &error) != DTR_OK)
        fprintf(stderr, "dtrscope record: %s\n", error.text);
    else
        fprintf(stderr, "dtrscope: look at it with `dtrscope serve %s`\n", path);
    return code;
}

const struct dtri_command dtri_command_record = {
    .name = "record",
    .synopsis = "[--budget B] [--heuristic H] [-o FILE] [OPTIONS] -- PROGRAM ARGS",
    .summary = "run a program that uses libdtr under a budget, and record it",
    .run = run,
};
