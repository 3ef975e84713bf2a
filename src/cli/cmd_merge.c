/* dtrscope merge: the runs of many files in one. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/common.h"
#include "store/merge.h"

static const char *const alignments[] = {"auto", "clock", "none", NULL};

struct settings {
    const char *output;
    int align;
    bool skip_known, force;
};

#define AT(member) offsetof(struct settings, member)

static const struct dtri_option table[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(output),
     .help = "the new file"},
    {.name = "align",
     .argument = "A",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(align),
     .choices = alignments,
     .help = "put runs on one clock: auto (those that can be), clock (or fail), none"},
    {.name = "skip-known",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(skip_known),
     .help = "leave out a run that is in an earlier file too"},
    {.name = "force",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(force),
     .help = "replace FILE if it exists"},
    {0},
};

static void report(const struct settings *settings, const struct dtri_merge_stats *stats)
{
    fprintf(stderr,
            "dtrscope merge: %s: %" PRId64 " runs from %" PRId64 " files, %" PRId64
            " events, %" PRId64 " rows in all\n",
            settings->output, stats->runs, stats->files, stats->events, stats->rows);
    if (stats->skipped_runs)
        fprintf(stderr, "dtrscope merge: %" PRId64 " runs were there already and are left out\n",
                stats->skipped_runs);
    if (stats->unaligned_runs)
        fprintf(stderr,
                "dtrscope merge: %" PRId64
                " runs have no clock samples and stay unaligned: their times cannot be compared "
                "with those of others\n",
                stats->unaligned_runs);
}

static int run(int argc, char **argv)
{
    struct settings settings = {0};
    struct dtri_arguments arguments;
    struct dtri_merge_stats stats;
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_merge;
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (!settings.output || arguments.n_positionals < 1)
        return dtri_cli_usage(command, "give -o and the files to merge");
    const struct dtri_merge_options options = {.align = (enum dtri_align)settings.align,
                                               .skip_known = settings.skip_known};
    if (dtri_merge(settings.output, settings.force, (const char *const *)arguments.positionals,
                   arguments.n_positionals, &options, &stats, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    report(&settings, &stats);
    return DTRI_EXIT_OK;
}

const struct dtri_command dtri_command_merge = {
    .name = "merge",
    .synopsis = "-o FILE [OPTIONS] INPUT...",
    .summary = "put the runs of many files, of the ranks of a job for one, into one",
    .run = run,
};
