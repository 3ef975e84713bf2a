/* dtrscope record: runs a program with a session set up through its environment, and collects what
 * the sessions in it emit. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/child.h"
#include "cli/common.h"
#include "cli/python.h"
#include "session/collect.h"
#include "session/filename.h"

#define MAX_SETTINGS 32
#define MAX_PATTERN  4096

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

/* The settings in force for what this process does itself; bad ones are refused before the program
 * starts. */
static dtr_status read_settings(const struct given *given, struct dtri_settings *settings,
                                dtr_error *error)
{
    for (int i = 0; dtri_settings_table[i].name; i++) {
        const struct dtri_option *row = &dtri_settings_table[i];
        const char *set = getenv(row->environment);
        const char *text = given->texts[i]   ? given->texts[i]
                           : given->flags[i] ? "1"
                           : set && set[0]   ? set
                                             : dtri_settings_defaults[i];
        dtr_error why;
        dtr_status status = dtri_option_set(row, settings, text, &why);
        if (status != DTR_OK)
            return dtri_fail(error, status, 0, "%s%s%.400s",
                             given->texts[i] ? "" : row->environment, given->texts[i] ? "" : ": ",
                             why.text);
    }
    return DTR_OK;
}

static dtr_status check(const struct dtri_settings *settings, dtr_error *error)
{
    int64_t begin, end, limit_ns, ratio;
    dtr_selector *selector;
    dtr_selector_options choice = {.heuristic = settings->heuristic};
    if (settings->budget.kind > DTRI_BUDGET_BYTES)
        return dtri_fail(
            error, DTR_E_INVALID, 0,
            "--budget: a live run has no unlimited peak to take a share of; give bytes, "
            "or record without a budget first and look at its peak");
    dtr_status status = dtri_parse_steps(settings->steps, &begin, &end, error);
    if (status == DTR_OK)
        status = dtri_parse_remat_limit(settings->remat_limit, &limit_ns, &ratio, error);
    if (status == DTR_OK)
        status = dtr_selector_new(&choice, &selector, error);
    if (status == DTR_OK)
        dtr_selector_free(selector);
    return status;
}

static int setting_row(const char *name)
{
    int i = 0;
    while (strcmp(dtri_settings_table[i].name, name) != 0)
        i++;
    return i;
}

/* Where the program is, as the beginning of a pattern. */
static dtr_status current_directory(char *out, size_t size, dtr_error *error)
{
    char directory[MAX_PATTERN / 2];
    size_t used = 0;
    if (!getcwd(directory, sizeof directory))
        return dtri_fail(error, DTR_E_IO, errno, "no current directory: %s", strerror(errno));
    for (const char *at = directory; *at && used + 3 < size; at++) {
        if (*at == '%')
            out[used++] = '%';
        out[used++] = *at;
    }
    out[used++] = '/';
    out[used] = 0;
    return DTR_OK;
}

static dtr_status check_existing(const char *path, bool force, dtr_error *error)
{
    struct stat there;
    if (stat(path, &there) != 0)
        return DTR_OK;
    if (S_ISDIR(there.st_mode))
        return dtri_fail(error, DTR_E_STATE, 0, "%s is a directory; give a file in it with -o",
                         path);
    if (!S_ISREG(there.st_mode))
        return dtri_fail(error, DTR_E_STATE, 0, "%s is no regular file; give another name with -o",
                         path);
    if (!force)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s exists; give another name with -o, or --force to replace it", path);
    return DTR_OK;
}

/* Makes a file and removes it: permissions alone do not tell root, or a file system that makes no
 * files. */
static dtr_status check_place(const char *path, dtr_error *error)
{
    char name[MAX_PATTERN + 32];
    snprintf(name, sizeof name, "%s", path);
    char *slash = strrchr(name, '/');
    slash[slash == name ? 1 : 0] = 0;
    if (access(name, W_OK | X_OK) != 0)
        return dtri_fail(error, DTR_E_IO, errno,
                         "cannot write into %s: %s; give another place "
                         "with -o",
                         name, strerror(errno));
    snprintf(name, sizeof name, access(path, F_OK) == 0 ? "%s.%ld" : "%s", path, (long)getpid());
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot create %s: %s; give another place with -o",
                         path, strerror(errno));
    close(fd);
    unlink(name);
    return DTR_OK;
}

/* As far as it is known before the program runs. */
static dtr_status check_file(const char *pattern, bool force, dtr_error *error)
{
    char path[MAX_PATTERN], directory[MAX_PATTERN];
    dtr_status status = dtri_filename_expand(pattern, path, sizeof path, error);
    if (status == DTR_OK && !dtri_filename_has_placeholder(pattern))
        status = check_existing(path, force, error);
    snprintf(directory, sizeof directory, "%s", pattern);
    *strrchr(directory, '/') = 0;
    if (status == DTR_OK && !dtri_filename_has_placeholder(directory))
        status = check_place(path, error);
    return status;
}

/* "./build/charlm --steps 3" is recorded into charlm.dtr.sqlite unless -o or DTR_RECORD say
 * otherwise.  The pattern becomes absolute, since the program may change its directory. */
static dtr_status choose_file(struct given *given, const struct dtri_settings *settings,
                              const char *program, char pattern[MAX_PATTERN], dtr_error *error)
{
    const char *base = strrchr(program, '/'), *wanted = settings->record;
    char name[512];
    snprintf(name, sizeof name, "%.400s.dtr.sqlite", base ? base + 1 : program);
    wanted = wanted[0] ? wanted : name;
    pattern[0] = 0;
    dtr_status status = DTR_OK;
    if (wanted[0] != '/')
        status = current_directory(pattern, MAX_PATTERN, error);
    size_t used = strlen(pattern);
    if (status == DTR_OK && strlen(wanted) >= MAX_PATTERN - used)
        status = dtri_fail(error, DTR_E_LIMIT, 0, "the path of the file is too long");
    if (status != DTR_OK)
        return status;
    memcpy(pattern + used, wanted, strlen(wanted) + 1);
    given->texts[setting_row("output")] = pattern;
    return check_file(pattern, given->force, error);
}

/* --- the program ------------------------------------------------------------------------------ */

struct recording {
    const struct given *given;
    struct dtri_channel *channel;
    struct dtri_collect *collect;
    struct dtri_collector *collector;
    bool unreachable;       /* the program cannot get at the channel, and writes its files itself */
    char path[MAX_PATTERN]; /* of the last file that a run went into */
};

static void set_environment(void *user)
{
    const struct recording *r = user;
    for (int i = 0; dtri_settings_table[i].name; i++) {
        const char *text = r->given->flags[i] ? "1" : r->given->texts[i];
        if (text)
            setenv(dtri_settings_table[i].environment, text, 1);
    }
    dtri_python_environment();
}

static dtr_status start_recording(struct recording *r, const struct dtri_settings *settings,
                                  dtr_error *error)
{
    struct dtri_channel_options channel;
    struct dtri_collector_options options;
    char path[DTRI_CHANNEL_PATH];
    dtr_status status = dtri_collect_new(
        r->given->force ? DTRI_COLLECT_REPLACE : DTRI_COLLECT_REFUSE, &r->collect, error);
    if (status == DTR_OK)
        dtri_collect_compress(r->collect, settings->compress == 1);
    if (status == DTR_OK)
        status = dtri_collect_options(settings, &channel, &options, error);
    if (status == DTR_OK)
        status = dtri_channel_create(&channel, &r->channel, error);
    if (status != DTR_OK)
        return status;
    options.channel = r->channel;
    options.output = dtri_collect_output(r->collect);
    r->unreachable = !dtri_channel_path(r->channel, path);
    if (r->unreachable)
        unsetenv("DTR_CHANNEL");
    else
        setenv("DTR_CHANNEL", path, 1);
    return dtri_collector_start(&options, &r->collector, error);
}

/* --- afterwards ------------------------------------------------------------------------------- */

static void print_summary(void *user, struct dtri_store *store, const struct dtri_run *run)
{
    struct recording *r = user;
    char peak[DTRI_UNITS_TEXT], budget[DTRI_UNITS_TEXT];
    struct dtri_completeness complete = {0};
    snprintf(r->path, sizeof r->path, "%s", dtri_store_path(store));
    dtri_store_completeness(store, run->id, &complete, NULL);
    fprintf(stderr, "dtrscope: run %" PRId64 " %s", run->id, run->result);
    if (run->peak_bytes != DTRI_NULL)
        fprintf(stderr,
                ", peak %s of %s, %" PRId64 " evictions, %" PRId64 " replays, slowdown %.2f",
                dtri_format_bytes(run->peak_bytes, peak),
                run->budget_bytes == DTRI_NULL ? "no budget"
                                               : dtri_format_bytes(run->budget_bytes, budget),
                run->evictions, run->rematerializations, run->slowdown);
    if (run->exit_code != DTRI_NULL && run->exit_code != 0)
        fprintf(stderr, ", exit code %" PRId64, run->exit_code);
    if (run->peak_bytes == 0)
        fputs("; no operator ran in it", stderr);
    if (complete.overwritten)
        fprintf(stderr, "; %" PRId64 " events overwritten by newer ones", complete.overwritten);
    if (complete.skipped)
        fprintf(stderr, "; %" PRId64 " events left out on purpose", complete.skipped);
    if (complete.unknown)
        fputs("; AN UNKNOWN NUMBER OF EVENTS LOST", stderr);
    else if (complete.lost)
        fprintf(stderr, "; %" PRId64 " EVENTS LOST", complete.lost);
    fputc('\n', stderr);
}

/* Why there is no run.  The program, or the one that could not start it, has said more. */
static void print_nothing(const char *program, int code)
{
    if (code == 126 || code == 127)
        fputs("dtrscope record: nothing was recorded\n", stderr);
    else if (code)
        fprintf(stderr,
                "dtrscope record: %s failed (exit code %d) and opened no session, so nothing was "
                "recorded\n",
                program, code);
    else if (dtri_python_is(program))
        fprintf(stderr,
                "dtrscope record: nothing was recorded, because no PyTorch operator ran in %s; if "
                "one should have, `%s -m dtrscope.doctor` says what is missing\n",
                program, program);
    else
        fprintf(stderr,
                "dtrscope record: %s opened no session, so nothing was recorded; it has to use "
                "dtr/session.h or dtr/engine.h, or PyTorch, for which `python3 -m dtrscope.doctor` "
                "says what is missing\n",
                program);
}

/* Writes down how the program ended; true when something was recorded. */
static bool finish(struct recording *r, const char *program, int code)
{
    dtr_error error = {0};
    dtri_collector_stop(r->collector);
    int runs = dtri_collect_runs(r->collect);
    if (dtri_collect_finish(r->collect, code, print_summary, r, &error) != DTR_OK)
        fprintf(stderr, "dtrscope record: %s\n", error.text);
    const char *refused = dtri_collect_refused(r->collect);
    if (refused)
        fprintf(stderr, "dtrscope record: %s\n", refused);
    else if (r->unreachable)
        fprintf(stderr,
                "dtrscope record: there is no shared memory for events, perhaps because the "
                "size of files is limited (ulimit -f); %s wrote its record itself\n",
                program);
    else if (!runs)
        print_nothing(program, code);
    if (r->path[0])
        fprintf(stderr, "dtrscope: look at it with `dtrscope serve %s`\n", r->path);
    return (runs || r->unreachable) && !refused;
}

/* The program may well start another that is recorded, so it is not refused. */
static void warn_of_deaf_python(char *const *command)
{
    char option = dtri_python_deaf_by(command);
    if (option)
        fprintf(stderr,
                "dtrscope record: with -%c %s does not find dtrscope, so its PyTorch operators are "
                "not recorded; leave -%c out\n",
                option, command[0], option);
}

static int run(int argc, char **argv)
{
    struct dtri_option table[MAX_SETTINGS + 2];
    struct given given = {0};
    struct dtri_settings settings = {0};
    struct dtri_arguments arguments;
    struct recording recording = {.given = &given};
    char pattern[MAX_PATTERN];
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_record;
    make_table(table);
    if (dtri_options_parse(table, &given, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (!arguments.rest || !arguments.rest[0] || arguments.n_positionals)
        return dtri_cli_usage(command, "give the program after --");
    dtr_status status = read_settings(&given, &settings, &error);
    if (status == DTR_OK)
        status = check(&settings, &error);
    if (status == DTR_OK)
        status = choose_file(&given, &settings, arguments.rest[0], pattern, &error);
    if (status == DTR_OK)
        status = start_recording(&recording, &settings, &error);
    int code = DTRI_EXIT_FAILURE;
    if (status == DTR_OK) {
        warn_of_deaf_python(arguments.rest);
        code = dtri_run_child(arguments.rest, set_environment, &recording, recording.collector);
        if (!finish(&recording, arguments.rest[0], code) && code == 0)
            code = DTRI_EXIT_FAILURE;
    } else {
        dtri_collector_stop(recording.collector);
    }
    dtri_collect_free(recording.collect);
    dtri_channel_free(recording.channel);
    return status == DTR_OK ? code : dtri_cli_fail(command, &error);
}

const struct dtri_command dtri_command_record = {
    .name = "record",
    .synopsis = "[--budget B] [--heuristic H] [-o FILE] [OPTIONS] -- PROGRAM ARGS",
    .summary = "run a program that uses libdtr or PyTorch under a budget, and record it",
    .run = run,
};
