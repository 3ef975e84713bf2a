/* dtrscope sim: one simulated run. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/common.h"
#include "store/store_run.h"

struct settings {
    const char *heuristic, *remat_limit, *record;
    struct dtri_budget budget;
    int policy, search, format;
    int64_t seed, chain;
    bool no_release, reclaim, force;
};

#define AT(member) offsetof(struct settings, member)
static const struct dtri_option table[] = {
    {.name = "heuristic",
     .letter = 'e',
     .argument = "NAME",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(heuristic),
     .help = "dtr-eq by default; a name or the path of a plugin"},
    {.name = "budget",
     .letter = 'b',
     .argument = "B",
     .type = DTRI_OPTION_BUDGET,
     .offset = AT(budget),
     .help = "bytes (3.5GiB), a share of the unlimited peak (40%), or none"},
    {.name = "policy",
     .argument = "P",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(policy),
     .choices = dtri_settings_policies,
     .help = "when the last reference goes: eager, ignore or banish"},
    {.name = "no-release",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(no_release),
     .help = "leave out the trace's releases"},
    {.name = "reclaim",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(reclaim),
     .help = "forget what nobody can ask for any more, as live runs do"},
    {.name = "remat-limit",
     .argument = "L",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(remat_limit),
     .help = "call it thrashed above this cost of replays: 1x, 500ms; none by default"},
    {.name = "search",
     .argument = "S",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(search),
     .choices = dtri_settings_searches,
     .help = "index (the default), scan or sample"},
    {.name = "seed",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(seed),
     .min = 0,
     .max = INT64_MAX,
     .help = "for random choices; 0 by default"},
    {.name = "chain",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(chain),
     .min = 1,
     .max = 100000000,
     .help = "instead of a trace: the straight chain of N operators"},
    {.name = "record",
     .letter = 'o',
     .argument = "FILE",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(record),
     .help = "write all events of the run to FILE.dtr.sqlite"},
    {.name = "force",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(force),
     .help = "overwrite FILE if it exists"},
    {.name = "format",
     .argument = "F",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(format),
     .choices = dtri_cli_formats,
     .help = "table (the default) or json"},
    {0},
};

/* What is printed, besides what the result holds. */
struct report {
    const struct dtri_trace *trace;
    const struct dtri_sim_options *options;
    const struct dtri_sim_result *result;
    int64_t unlimited_peak;
};

static int print_json(const struct report *r)
{
    const dtr_stats *s = &r->result->stats;
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "result",
        dtri_outcome_name(r->result->outcome), "clock_ns", (json_int_t)s->clock_ns,
        "model_compute_ns", (json_int_t)s->model_compute_ns, "remat_compute_ns",
        (json_int_t)s->remat_compute_ns, "peak_bytes", (json_int_t)s->peak_bytes, "budget_bytes",
        r->options->budget_bytes == DTR_NONE ? json_null() : json_integer(r->options->budget_bytes),
        "unlimited_peak_bytes", (json_int_t)r->unlimited_peak, "constant_bytes",
        (json_int_t)r->trace->constant_bytes, "evictions", (json_int_t)s->evictions,
        "rematerializations", (json_int_t)s->rematerializations, "score_evaluations",
        (json_int_t)s->score_evaluations, "operator_runs", (json_int_t)s->operator_runs, "slowdown",
        r->result->slowdown);
    if (!object || json_dumpf(object, stdout, JSON_INDENT(2)) != 0)
        return DTRI_EXIT_FAILURE;
    json_decref(object);
    putchar('\n');
    return DTRI_EXIT_OK;
}

static void print_bytes(const char *label, int64_t bytes)
{
    char text[DTRI_UNITS_TEXT];
    printf("%-20s %-12s (%" PRId64 ")\n", label, dtri_format_bytes(bytes, text), bytes);
}

static void print_ns(const char *label, int64_t ns)
{
    char text[DTRI_UNITS_TEXT];
    printf("%-20s %-12s (%" PRId64 ")\n", label, dtri_format_ns(ns, text), ns);
}

static int print_table(const struct report *r)
{
    const dtr_stats *s = &r->result->stats;
    printf("%-20s %s\n", "result", dtri_outcome_name(r->result->outcome));
    if (r->result->outcome != DTRI_OUTCOME_OK)
        printf("%-20s %s\n", "why", r->result->why);
    if (r->options->budget_bytes == DTR_NONE)
        printf("%-20s none\n", "budget");
    else
        print_bytes("budget", r->options->budget_bytes);
    print_bytes("peak", s->peak_bytes);
    print_bytes("unlimited peak", r->unlimited_peak);
    print_bytes("constants ever made", r->trace->constant_bytes);
    print_ns("clock", s->clock_ns);
    print_ns("first runs", s->model_compute_ns);
    print_ns("replays", s->remat_compute_ns);
    printf("%-20s %.4f\n", "slowdown", r->result->slowdown);
    printf("%-20s %" PRId64 "\n", "operator runs", s->operator_runs);
    printf("%-20s %" PRId64 "\n", "rematerializations", s->rematerializations);
    printf("%-20s %" PRId64 " for the budget, %" PRId64 " eager\n", "evictions", s->evictions,
           s->eager_evictions);
    printf("%-20s %" PRId64 "\n", "score evaluations", s->score_evaluations);
    return DTRI_EXIT_OK;
}

/* The budget in bytes; shares are of `peak`, roots of the chain's length. */
static dtr_status budget_bytes(const struct settings *settings, int64_t peak, int64_t *out_bytes,
                               dtr_error *error)
{
    switch (settings->budget.kind) {
    case DTRI_BUDGET_NONE:
        *out_bytes = DTR_NONE;
        return DTR_OK;
    case DTRI_BUDGET_BYTES:
        *out_bytes = settings->budget.bytes;
        return DTR_OK;
    case DTRI_BUDGET_SHARE:
        *out_bytes = dtri_budget_share(settings->budget.factor, peak);
        return DTR_OK;
    case DTRI_BUDGET_SQRT:
        break;
    }
    if (!settings->chain)
        return dtri_fail(error, DTR_E_INVALID, 0, "--budget: a root is for --chain only");
    *out_bytes = (int64_t)ceil(settings->budget.factor * sqrt((double)settings->chain));
    return DTR_OK;
}

static dtr_status simulate(const struct settings *settings, const struct dtri_trace *trace,
                           struct report *report, struct dtri_sim_options *options,
                           struct dtri_sim_result *result, dtr_error *error)
{
    *options = (struct dtri_sim_options){
        .heuristic = settings->heuristic,
        .search = settings->search ? dtri_settings_searches[settings->search] : NULL,
        .seed = (uint64_t)settings->seed,
        .deallocation = (dtr_deallocation)settings->policy,
        .no_release = settings->no_release,
        .reclaim = settings->reclaim,
    };
    *report = (struct report){.trace = trace, .options = options, .result = result};
    dtr_status status =
        dtri_cli_remat_limit(settings->remat_limit, trace, &options->remat_limit_ns, error);
    if (status == DTR_OK)
        status = dtri_sim_unlimited_peak(trace, &report->unlimited_peak, error);
    if (status == DTR_OK)
        status = budget_bytes(settings, report->unlimited_peak, &options->budget_bytes, error);
    if (status != DTR_OK)
        return status;
    if (settings->record)
        return dtri_store_record_sim(settings->record, settings->force, trace, options,
                                     report->unlimited_peak, result, error);
    return dtri_sim_run(trace, options, result, error);
}

static int run(int argc, char **argv)
{
    struct settings settings = {.heuristic = "dtr-eq", .remat_limit = "none"};
    struct dtri_arguments arguments;
    struct dtri_trace *trace = NULL;
    struct dtri_sim_options options;
    struct dtri_sim_result result;
    struct report report;
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_sim;

    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals != (settings.chain ? 0 : 1))
        return dtri_cli_usage(command, "give one trace, or --chain N");
    dtr_status status = settings.chain
                            ? dtri_trace_chain((uint32_t)settings.chain, &trace, &error)
                            : dtri_cli_open_trace(arguments.positionals[0], &trace, &error);
    if (status == DTR_OK)
        status = simulate(&settings, trace, &report, &options, &result, &error);
    int code = status != DTR_OK       ? dtri_cli_fail(command, &error)
               : settings.format == 1 ? print_json(&report)
                                      : print_table(&report);
    dtri_trace_free(trace);
    return code;
}

const struct dtri_command dtri_command_sim = {
    .name = "sim",
    .synopsis = "TRACE|--chain N [--heuristic NAME] [--budget B] [OPTIONS]",
    .summary = "replay a trace (operator log, .xz, recorded run, -) under a budget and heuristic",
    .run = run,
};
