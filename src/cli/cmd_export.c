/* dtrscope export: a run as a file of another format. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/common.h"
#include "export/directory.h"
#include "export/export.h"
#include "export/range.h"

struct settings {
    const char *format, *output;
    struct dtri_export_range range;
    int64_t run;
    bool force;
};

#define AT(member) offsetof(struct settings, member)
static const struct dtri_option table[] = {
    {.name = "format",
     .argument = "F",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(format),
     .help = "see below"},
    {.name = "run",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(run),
     .min = 1,
     .max = INT64_MAX,
     .help = "which run of the file; the first with events by default"},
    {.name = "events",
     .argument = "K,...",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(range.events),
     .help = "only these kinds, as eviction,decision; `dtrscope schema` lists them"},
    {.name = "start",
     .argument = "T",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(range.start),
     .help = "from here: a duration since the start (1.5s) or a share of the run (30%)"},
    {.name = "end",
     .argument = "T",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(range.end),
     .help = "up to here, likewise"},
    {.name = "steps",
     .argument = "A:B",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(range.steps),
     .help = "training steps from A up to, and without, B; A: to the end"},
    {.name = "output",
     .letter = 'o',
     .argument = "PATH",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(output),
     .help = "file or directory, - for standard output; FILE's name by default"},
    {.name = "force",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(force),
     .help = "replace PATH if it exists"},
    {0},
};

static int help(const struct dtri_command *command)
{
    int code = dtri_cli_help(command, table);
    puts("\nformats:");
    for (const struct dtri_export_format *const *f = dtri_export_formats(); *f; f++)
        printf("  %-12s %s\n", (*f)->name, (*f)->summary);
    return code;
}

static dtr_status find_format(const char *name, const struct dtri_export_format **out,
                              dtr_error *error)
{
    char known[256] = "";
    *out = name ? dtri_export_find(name) : NULL;
    if (*out)
        return DTR_OK;
    for (const struct dtri_export_format *const *f = dtri_export_formats(); *f; f++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", (*f)->name);
    }
    if (!name)
        return dtri_fail(error, DTR_E_INVALID, 0, "give --format: one of %s", known);
    return dtri_fail(error, DTR_E_INVALID, 0, "--format: '%.64s' is not one of %s", name, known);
}

static dtr_status choose_run(struct dtri_store *store, int64_t wanted, struct dtri_run *out_run,
                             dtr_error *error)
{
    struct dtri_run *runs;
    int n, i = 0;
    dtr_status status = dtri_store_runs(store, &runs, &n, error);
    if (status != DTR_OK)
        return status;
    while (i < n && (wanted ? runs[i].id != wanted : runs[i].has_events != 1))
        i++;
    if (i == n && wanted)
        status = dtri_fail(error, DTR_E_NOT_FOUND, 0,
                           "%s has no run %" PRId64 "; `dtrscope info` tells what it holds",
                           dtri_store_path(store), wanted);
    else if (i == n)
        status = dtri_fail(error, DTR_E_NOT_FOUND, 0,
                           "%s holds no run with events; `dtrscope info` tells what it holds",
                           dtri_store_path(store));
    else if (runs[i].has_events != 1)
        status = dtri_fail(error, DTR_E_NOT_FOUND, 0,
                           "%s: run %" PRId64 " has no events, only results; there is nothing to "
                           "export",
                           dtri_store_path(store), wanted);
    else
        *out_run = runs[i];
    dtri_free(runs);
    return status;
}

/* FILE's name without its directory and its ending, with the kind if the file holds one, and the
 * extension of the format. */
static dtr_status default_path(const char *file, const char *kind, const char *extension,
                               char *path, size_t size, dtr_error *error)
{
    static const char *const endings[] = {".dtr.sqlite", ".sqlite", ".db"};
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && strcmp(name + n - m, endings[i]) == 0) {
            n -= m;
            break;
        }
    }
    if ((size_t)snprintf(path, size, "%.*s%s%s.%s", (int)n, name, kind ? "." : "", kind ? kind : "",
                         extension) < size)
        return DTR_OK;
    return dtri_fail(error, DTR_E_INVALID, 0, "%s: the name is too long; give one with -o", file);
}

static dtr_status refuse_same_file(const char *file, const char *path, dtr_error *error)
{
    struct stat from, to;
    if (strcmp(path, "-") == 0 || stat(file, &from) != 0 || stat(path, &to) != 0 ||
        from.st_dev != to.st_dev || from.st_ino != to.st_ino)
        return DTR_OK;
    return dtri_fail(error, DTR_E_INVALID, 0,
                     "%s is the file to be exported; give another name with -o", path);
}

static const char *only_kind(uint64_t kinds)
{
    const dtr_event_info *info = kinds ? dtr_event_info_of(__builtin_ctzll(kinds)) : NULL;
    return info && kinds == DTRI_KIND_BIT(info->kind) ? info->name : NULL;
}

static dtr_status write_job(struct dtri_export *job, const struct dtri_export_format *format,
                            const struct settings *settings, dtr_error *error)
{
    struct dtri_output *output;
    const char *file = dtri_store_path(job->store), *path = settings->output;
    char name[4096];
    dtr_status status = DTR_OK;
    job->table = format->table ? only_kind(job->kinds) : NULL;
    if (!path)
        status = default_path(file, job->table, format->extension, name, sizeof name, error);
    path = path ? path : name;
    if (status == DTR_OK)
        status = refuse_same_file(file, path, error);
    if (status != DTR_OK)
        return status;
    if (format->table && !job->table)
        return dtri_export_directory(job, format, path, settings->force, error);
    if (format->write_file)
        return format->write_file(job, path, settings->force, error);
    status = dtri_output_open(path, settings->force, &output, error);
    if (status != DTR_OK)
        return status;
    status = format->write(job, output, error);
    dtr_status closed = dtri_output_close(output, status == DTR_OK, error);
    return status == DTR_OK ? closed : status;
}

static void tell_losses(const struct dtri_export *job)
{
    for (size_t i = 0; i < job->n_losses; i++) {
        const struct dtri_export_loss *loss = &job->losses[i];
        fputs("dtrscope export: the run is not complete: ", stderr);
        if (loss->count == DTRI_NULL)
            fprintf(stderr, "an unknown number of events lost: %s\n", loss->reason);
        else
            fprintf(stderr, "%" PRId64 " events lost: %s\n", loss->count, loss->reason);
    }
    if (strcmp(job->run->result, "running") == 0)
        fputs("dtrscope export: the run has not ended, or was killed\n", stderr);
}

static dtr_status export_run(struct dtri_store *store, const struct dtri_export_format *format,
                             const struct settings *settings, dtr_error *error)
{
    struct dtri_run run;
    struct dtri_export job;
    /* One transaction: all that is read is of one moment, also of a run that goes on. */
    sqlite3_exec(dtri_store_db(store), "BEGIN", NULL, NULL, NULL);
    dtr_status status = choose_run(store, settings->run, &run, error);
    if (status == DTR_OK)
        status = dtri_export_init(&job, store, &run, error);
    if (status != DTR_OK)
        return status;
    status = dtri_export_select(&job, &settings->range, error);
    if (status == DTR_OK)
        status = write_job(&job, format, settings, error);
    if (status == DTR_OK)
        tell_losses(&job);
    dtri_export_done(&job);
    return status;
}

static int run(int argc, char **argv)
{
    struct settings settings = {0};
    struct dtri_arguments arguments;
    struct dtri_store *store = NULL;
    const struct dtri_export_format *format;
    const struct dtri_command *command = &dtri_command_export;
    dtr_error error = {0};
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return help(command);
    if (arguments.n_positionals != 1)
        return dtri_cli_usage(command, "give one file");
    dtr_status status = find_format(settings.format, &format, &error);
    if (status == DTR_OK)
        status = dtri_store_open(arguments.positionals[0], DTRI_STORE_READ, &store, &error);
    if (status == DTR_OK)
        status = export_run(store, format, &settings, &error);
    dtri_store_close(store, NULL);
    return status == DTR_OK ? DTRI_EXIT_OK : dtri_cli_fail(command, &error);
}

const struct dtri_command dtri_command_export = {
    .name = "export",
    .synopsis = "FILE --format F [--run N] [--events K,...] [--start T] [--end T | --steps A:B] "
                "[-o PATH|-] [--force]",
    .summary = "a run as a file of another format",
    .run = run,
};
