/* dtrscope stats: where the time and the memory of a run went. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "analyze/stats.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cli/common.h"

struct settings {
    int64_t run;
    int format;
};

#define AT(member) offsetof(struct settings, member)
static const struct dtri_option table[] = {
    {.name = "run",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(run),
     .min = 1,
     .max = INT64_MAX,
     .help = "which run of the file; the first with events by default"},
    {.name = "format",
     .argument = "F",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(format),
     .choices = dtri_cli_formats,
     .help = "table (the default) or json"},
    {0},
};

static void print_part(const char *label, int64_t ns, int64_t total)
{
    char text[DTRI_UNITS_TEXT];
    printf("  %-14s %10s  %5.1f %%\n", label, dtri_format_ns(ns, text),
           total ? 100.0 * (double)ns / (double)total : 0.0);
}

static void print_memory(const struct dtri_run *run, const struct dtri_run_stats *s)
{
    char text[DTRI_UNITS_TEXT];
    puts("memory");
    if (run->budget_bytes != DTRI_NULL)
        printf("  %-14s %10s\n", "budget", dtri_format_bytes(run->budget_bytes, text));
    else
        printf("  %-14s %10s\n", "budget", "none");
    printf("  %-14s %10s", "peak", dtri_format_bytes(s->peak_in_use, text));
    if (run->budget_bytes != DTRI_NULL)
        printf("  %5.1f %% of the budget",
               100.0 * (double)s->peak_in_use / (double)run->budget_bytes);
    putchar('\n');
    if (run->allocator_peak_bytes != DTRI_NULL)
        printf("  %-14s %10s  as the allocator counted\n", "peak",
               dtri_format_bytes(run->allocator_peak_bytes, text));
    if (s->allocator_looks)
        printf(
            "  %-14s %10s  at most, by which the allocator held more than was counted: scratch of "
            "operators,\n%29srounding, and tensors that dtrscope did not see\n",
            "difference", dtri_format_bytes(s->widest_gap, text), "");
}

static void print_notes(const struct dtri_run_stats *s)
{
    char text[DTRI_UNITS_TEXT];
    for (int i = 0; i < s->n_notes; i++) {
        const struct dtri_note *note = &s->notes[i];
        if (i == 0 || note->hazard != s->notes[i - 1].hazard)
            puts(note->hazard ? "kept, since a replay would not be safe\n     times  why"
                              : "histories cut\n     times  replays        time  why");
        if (note->hazard)
            printf("  %8" PRId64 "  %s\n", note->count, note->text);
        else
            printf("  %8" PRId64 "  %7" PRId64 "  %10s  %s\n", note->count, note->replays,
                   dtri_format_ns(note->ns, text), note->text);
    }
}

static void print_table(const struct dtri_run *run, const struct dtri_run_stats *s)
{
    char text[DTRI_UNITS_TEXT];
    printf("run %" PRId64 ": %s%s%s\n", run->id, run->result, run->why[0] ? ", " : "", run->why);
    printf("time (%s)\n", run->wall_ns == DTRI_NULL ? "logical clock" : "wall clock");
    print_part("first runs", s->first_ns, s->total_ns);
    print_part("replays", s->replay_ns, s->total_ns);
    print_part("search", s->search_ns, s->total_ns);
    print_part("recording", s->record_ns, s->total_ns);
    print_part("other", s->other_ns, s->total_ns);
    printf("  %-14s %10s\n", "total", dtri_format_ns(s->total_ns, text));
    print_memory(run, s);
    puts("counts");
    printf("  %-14s %10" PRId64 " first, %" PRId64 " replays\n", "operator runs", s->first_runs,
           s->replays);
    printf("  %-14s %10" PRId64 " for the budget, %" PRId64 " eager, %" PRId64 " other\n",
           "evictions", s->evictions, s->eager_evictions, s->other_evictions);
    printf("  %-14s %10" PRId64 ", deepest %" PRId64 ", longest %" PRId64 " runs\n", "chains",
           s->chains, s->deepest_chain, s->longest_chain_runs);
    printf("  %-14s %10" PRId64 ", %.1f candidates on average, %" PRId64 " tied\n", "decisions",
           s->decisions, s->decisions ? (double)s->candidates / (double)s->decisions : 0.0,
           s->tied_decisions);
    if (s->overshoots)
        printf("  %-14s %10" PRId64 " operators ran above the budget\n", "overshoot",
               s->overshoots);
    print_notes(s);
    if (!s->n_top)
        return;
    puts("most re-made\n   replays        cost  tensor  operator");
    for (int i = 0; i < s->n_top; i++)
        printf("  %8" PRId64 "  %10s  %6" PRId64 "  %s\n", s->top[i].replays,
               dtri_format_ns(s->top[i].cost_ns, text), s->top[i].tensor, s->top[i].text);
}

static json_t *integer(int64_t value)
{
    return value == DTRI_NULL ? json_null() : json_integer(value);
}

static json_t *notes_of(const struct dtri_run_stats *s, bool hazards)
{
    json_t *list = json_array();
    for (int i = 0; i < s->n_notes; i++) {
        const struct dtri_note *note = &s->notes[i];
        if (note->hazard != hazards)
            continue;
        json_t *row =
            json_pack("{s:s, s:I}", "cause", note->text, "count", (json_int_t)note->count);
        if (!hazards) {
            json_object_set_new(row, "tensors", json_integer(note->tensors));
            json_object_set_new(row, "replays", json_integer(note->replays));
            json_object_set_new(row, "dur_ns", json_integer(note->ns));
        }
        json_array_append_new(list, row);
    }
    return list;
}

static int print_json(const struct dtri_run *run, const struct dtri_run_stats *s)
{
    json_t *top = json_array();
    for (int i = 0; i < s->n_top; i++)
        json_array_append_new(top, json_pack("{s:I, s:I, s:s, s:I, s:I}", "tensor",
                                             (json_int_t)s->top[i].tensor, "operator",
                                             (json_int_t)s->top[i].op, "name", s->top[i].text,
                                             "replays", (json_int_t)s->top[i].replays, "cost_ns",
                                             (json_int_t)s->top[i].cost_ns));
    json_t *object = json_pack(
        "{s:I, s:s, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
        "run", (json_int_t)run->id, "result", run->result, "time", "first_ns",
        (json_int_t)s->first_ns, "replay_ns", (json_int_t)s->replay_ns, "search_ns",
        (json_int_t)s->search_ns, "record_ns", (json_int_t)s->record_ns, "other_ns",
        (json_int_t)s->other_ns, "total_ns", (json_int_t)s->total_ns, "budget_bytes",
        integer(run->budget_bytes), "peak_bytes", (json_int_t)s->peak_in_use,
        "allocator_peak_bytes", integer(run->allocator_peak_bytes), "first_runs",
        (json_int_t)s->first_runs, "replays", (json_int_t)s->replays, "evictions",
        (json_int_t)s->evictions, "eager_evictions", (json_int_t)s->eager_evictions, "chains",
        (json_int_t)s->chains, "deepest_chain", (json_int_t)s->deepest_chain, "decisions",
        (json_int_t)s->decisions, "tied_decisions", (json_int_t)s->tied_decisions, "overshoots",
        (json_int_t)s->overshoots, "most_remade", top, "barriers", notes_of(s, false), "hazards",
        notes_of(s, true), "allocator_gap_bytes",
        s->allocator_looks ? json_integer(s->widest_gap) : json_null());
    if (!object || json_dumpf(object, stdout, JSON_INDENT(2)) != 0)
        return DTRI_EXIT_FAILURE;
    json_decref(object);
    putchar('\n');
    return DTRI_EXIT_OK;
}

static dtr_status choose_run(struct dtri_store *store, int64_t wanted, struct dtri_run *out_run,
                             dtr_error *error)
{
    struct dtri_run *runs;
    int n, i = 0;
    if (wanted)
        return dtri_store_run(store, wanted, out_run, error);
    dtr_status status = dtri_store_runs(store, &runs, &n, error);
    if (status != DTR_OK)
        return status;
    while (i < n && runs[i].has_events != 1)
        i++;
    if (i < n)
        *out_run = runs[i];
    else
        status = dtri_fail(error, DTR_E_NOT_FOUND, 0,
                           "%s holds no run with events; `dtrscope info` tells what it holds",
                           dtri_store_path(store));
    dtri_free(runs);
    return status;
}

static int run(int argc, char **argv)
{
    struct settings settings = {0};
    struct dtri_arguments arguments;
    struct dtri_store *store = NULL;
    struct dtri_run chosen;
    struct dtri_run_stats stats;
    dtr_error error = {0};
    int code = DTRI_EXIT_OK;
    const struct dtri_command *command = &dtri_command_stats;
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals != 1)
        return dtri_cli_usage(command, "give one file");
    dtr_status status = dtri_store_open(arguments.positionals[0], DTRI_STORE_READ, &store, &error);
    if (status == DTR_OK)
        status = choose_run(store, settings.run, &chosen, &error);
    if (status == DTR_OK)
        status = dtri_stats_compute(store, &chosen, &stats, &error);
    if (status != DTR_OK)
        code = dtri_cli_fail(command, &error);
    else if (settings.format == 1)
        code = print_json(&chosen, &stats);
    else
        print_table(&chosen, &stats);
    dtri_store_close(store, NULL);
    return code;
}

const struct dtri_command dtri_command_stats = {
    .name = "stats",
    .synopsis = "FILE [--run N] [--format table|json]",
    .summary = "time split, evictions, peak against budget, the most re-made tensors of a run",
    .run = run,
};
