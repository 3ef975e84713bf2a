/* dtrscope import: other tools' files as databases. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/common.h"
#include "import/import.h"

struct settings {
    const char *output;
    int format;
    bool force;
};

#define AT(member) offsetof(struct settings, member)
static const struct dtri_option table[] = {
    {.name = "format",
     .argument = "F",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(format),
     .choices = dtri_import_formats,
     .help = "auto (told by content, the default), simrd, chrome or torch-snapshot"},
    {.name = "output",
     .letter = 'o',
     .argument = "OUT",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(output),
     .help = "the database to write; FILE's name with .dtr.sqlite by default"},
    {.name = "force",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(force),
     .help = "overwrite OUT if it exists"},
    {0},
};

/* FILE's name in the current directory, without the endings of what can be imported. */
static dtr_status default_output(const char *file, char *path, size_t size, dtr_error *error)
{
    static const char *const endings[] = {".gz", ".xz", ".json", ".log", ".pickle", ".pkl"};
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && memcmp(name + n - m, endings[i], m) == 0)
            n -= m;
    }
    if ((size_t)snprintf(path, size, "%.*s.dtr.sqlite", (int)n, name) < size)
        return DTR_OK;
    return dtri_fail(error, DTR_E_INVALID, 0, "%s: the name is too long; give one with -o", file);
}

static int help(const struct dtri_command *command)
{
    dtri_cli_help(command, table);
    puts(
        "\n"
        "simrd           operator log of the published DTR simulator, also .xz: the program as it\n"
        "                was logged, without a budget\n"
        "chrome          Chrome trace events as torch.profiler and others write them, also .gz: a\n"
        "                run for each process, threads together, and one for the memory of each\n"
        "                device besides the host\n"
        "torch-snapshot  torch.cuda.memory._dump_snapshot, also .gz: a run for each device;\n"
        "                nothing in the pickle is executed\n"
        "\n"
        "What is left out is printed, and counted in the table loss.");
    return DTRI_EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct settings settings = {0};
    struct dtri_arguments arguments;
    struct dtri_import_result result;
    const struct dtri_command *command = &dtri_command_import;
    char path[4096];
    dtr_error error = {0};
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return help(command);
    if (arguments.n_positionals != 1)
        return dtri_cli_usage(command, "give one file");
    const char *file = arguments.positionals[0];
    struct dtri_import_options options = {
        .path = file,
        .output = settings.output ? settings.output : path,
        .format = (enum dtri_import_format)settings.format,
        .force = settings.force,
        .log = stderr,
    };
    dtr_status status = DTR_OK;
    if (!settings.output)
        status = default_output(file, path, sizeof path, &error);
    if (status == DTR_OK)
        status = dtri_import_file(&options, &result, &error);
    if (status != DTR_OK)
        return dtri_cli_fail(command, &error);
    printf("%s: %s, %" PRId64 " event%s in %d run%s\n", options.output,
           dtri_import_formats[result.format], result.n_events, result.n_events == 1 ? "" : "s",
           result.n_runs, result.n_runs == 1 ? "" : "s");
    return DTRI_EXIT_OK;
}

const struct dtri_command dtri_command_import = {
    .name = "import",
    .synopsis = "FILE [--format auto|simrd|chrome|torch-snapshot] [-o OUT.dtr.sqlite] [--force]",
    .summary = "a file of another tool as a database",
    .run = run,
};
