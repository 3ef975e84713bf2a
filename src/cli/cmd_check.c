/* dtrscope check: holds the facts in a file against each other. */
#include <inttypes.h>
#include <stdio.h>

#include "analyze/check.h"
#include "base/error.h"
#include "cli/common.h"
#include "export/output.h"

#define SHOWN 20 /* findings of one kind */

struct settings {
    int64_t run;
    int format;
    bool strict;
};

#define AT(member) offsetof(struct settings, member)

static const struct dtri_option table[] = {
    {.name = "run",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(run),
     .min = 1,
     .max = INT64_MAX,
     .help = "only this run; all by default"},
    {.name = "format",
     .argument = "F",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(format),
     .choices = dtri_cli_formats,
     .help = "table (the default) or json"},
    {.name = "strict",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(strict),
     .help = "exit with 3 when the file is sound, but not all that happened is in it"},
    {0},
};

struct report {
    struct dtri_output *out;
    int64_t counts[DTRI_N_FINDINGS];
    bool json, any;
};

static void tell(void *user, const struct dtri_finding *f)
{
    struct report *r = user;
    if (r->counts[f->kind]++ >= SHOWN)
        return;
    if (!r->json) {
        dtri_output_format(r->out, "%s: ", dtri_finding_name(f->kind));
        if (f->run)
            dtri_output_format(r->out, "run %" PRId64 ", ", f->run);
        if (f->seq != DTR_NONE)
            dtri_output_format(r->out, "event %" PRId64 " at %" PRId64 " ns: ", f->seq, f->ts_ns);
        dtri_output_format(r->out, "%s\n", f->text);
        return;
    }
    dtri_output_format(r->out, "%s\n    {\"kind\": \"%s\", \"run\": ", r->any ? "," : "",
                       dtri_finding_name(f->kind));
    dtri_output_format(r->out, f->run ? "%" PRId64 : "null", f->run);
    dtri_output_format(r->out, f->seq == DTR_NONE ? ", \"seq\": null" : ", \"seq\": %" PRId64,
                       f->seq);
    dtri_output_format(r->out, f->seq == DTR_NONE ? ", \"ts_ns\": null" : ", \"ts_ns\": %" PRId64,
                       f->ts_ns);
    dtri_output_text(r->out, ", \"text\": ");
    dtri_output_json(r->out, f->text);
    dtri_output_text(r->out, "}");
    r->any = true;
}

static void print_table(struct report *r, const char *path, const struct dtri_check_stats *stats)
{
    for (int i = 0; i < DTRI_N_FINDINGS; i++)
        if (r->counts[i] > SHOWN)
            dtri_output_format(r->out, "%s: %" PRId64 " more (%s)\n", dtri_finding_name(i),
                               r->counts[i] - SHOWN, dtri_finding_meaning(i));
    dtri_output_format(r->out, "%s: %" PRId64 " run%s, %" PRId64 " events, ", path, stats->runs,
                       stats->runs == 1 ? "" : "s", stats->events);
    if (stats->findings)
        dtri_output_format(r->out, "%" PRId64 " finding%s\n", stats->findings,
                           stats->findings == 1 ? "" : "s");
    else if (stats->incomplete_runs)
        dtri_output_format(r->out,
                           "sound; %" PRId64 " of the runs are not complete, see `dtrscope info`\n",
                           stats->incomplete_runs);
    else
        dtri_output_text(r->out, "sound and complete\n");
}

static void print_json(struct report *r, const char *path, const struct dtri_check_stats *stats)
{
    bool any = false;
    dtri_output_format(r->out, "%s],\n  \"counts\": {", r->any ? "\n  " : "");
    for (int i = 0; i < DTRI_N_FINDINGS; i++) {
        if (!r->counts[i])
            continue;
        dtri_output_format(r->out, "%s\"%s\": %" PRId64, any ? ", " : "", dtri_finding_name(i),
                           r->counts[i]);
        any = true;
    }
    dtri_output_text(r->out, "},\n  \"file\": ");
    dtri_output_json(r->out, path);
    dtri_output_format(r->out,
                       ",\n  \"runs\": %" PRId64 ", \"events\": %" PRId64 ", \"findings\": %" PRId64
                       ", \"incomplete_runs\": %" PRId64 "\n}\n",
                       stats->runs, stats->events, stats->findings, stats->incomplete_runs);
}

static dtr_status check(const char *path, const struct settings *settings,
                        struct dtri_check_stats *stats, dtr_error *error)
{
    struct dtri_store *store;
    struct report report = {.json = settings->format == 1};
    dtr_status status = dtri_store_open(path, DTRI_STORE_READ, &store, error);
    if (status != DTR_OK)
        return status;
    status = dtri_output_open("-", false, &report.out, error);
    if (status == DTR_OK) {
        if (report.json)
            dtri_output_text(report.out, "{\n  \"found\": [");
        status = dtri_check(store, settings->run, tell, &report, stats, error);
        if (report.json)
            print_json(&report, path, stats);
        else if (status == DTR_OK)
            print_table(&report, path, stats);
        dtr_status closed = dtri_output_close(report.out, true, status == DTR_OK ? error : NULL);
        status = status == DTR_OK ? closed : status;
    }
    dtri_store_close(store, NULL);
    return status;
}

static int run(int argc, char **argv)
{
    struct settings settings = {0};
    struct dtri_arguments arguments;
    struct dtri_check_stats stats = {0};
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_check;
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals != 1)
        return dtri_cli_usage(command, "give one file");
    if (check(arguments.positionals[0], &settings, &stats, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (stats.findings)
        return DTRI_EXIT_FAILURE;
    return settings.strict && stats.incomplete_runs ? DTRI_EXIT_INCOMPLETE : DTRI_EXIT_OK;
}

const struct dtri_command dtri_command_check = {
    .name = "check",
    .synopsis = "FILE [--run N] [--format F] [--strict]",
    .summary = "hold the facts in a file against each other",
    .run = run,
};
