/* dtrscope sweep: every heuristic at every budget over one or more traces. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/common.h"
#include "sim/sweep.h"
#include "store/store_run.h"

struct settings {
    const char *heuristics, *budgets, *policies, *remat_limit, *output;
    int search;
    int64_t seed, jobs;
    bool no_release;
};

#define AT(member) offsetof(struct settings, member)
static const struct dtri_option table[] = {
    {.name = "heuristics",
     .letter = 'e',
     .argument = "LIST",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(heuristics),
     .help = "names and plugin paths, or all (the default)"},
    {.name = "budgets",
     .letter = 'b',
     .argument = "LIST",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(budgets),
     .help = "10%..100%:10% (the default), 3GiB,40%, ..."},
    {.name = "policy",
     .argument = "LIST",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(policies),
     .help = "of eager (the default), ignore and banish"},
    {.name = "remat-limit",
     .argument = "L",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(remat_limit),
     .help = "call it thrashed above this cost of replays; 1x (the default), 500ms, none"},
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
    {.name = "no-release",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(no_release),
     .help = "leave out the traces' releases"},
    {.name = "jobs",
     .letter = 'j',
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(jobs),
     .min = 1,
     .max = 256,
     .help = "runs at once; the number of cores by default"},
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(output),
     .help = "keep the results in FILE; what it holds already is not run again"},
    {0},
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* --- lists in arguments ----------------------------------------------------------------------- */

struct texts {
    char **items;
    size_t n, cap;
};

struct budgets {
    struct dtri_budget *items;
    size_t n, cap;
};

static void texts_done(struct texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        dtri_free(texts->items[i]);
    dtri_free(texts->items);
}

static dtr_status add_text(struct texts *texts, const char *text, dtr_error *error)
{
    char *copy = dtri_strdup(text);
    if (!copy || !DTRI_RESERVE(texts->items, texts->cap, texts->n + 1)) {
        dtri_free(copy);
        return dtri_fail_nomem(error, "a list");
    }
    texts->items[texts->n++] = copy;
    return DTR_OK;
}

static dtr_status split(const char *list, struct texts *texts, dtr_error *error)
{
    char *copy = dtri_strdup(list), *state = NULL;
    dtr_status status = copy ? DTR_OK : dtri_fail_nomem(error, "a list");
    for (char *item = copy ? strtok_r(copy, ",", &state) : NULL; item && status == DTR_OK;
         item = strtok_r(NULL, ",", &state))
        status = add_text(texts, item, error);
    dtri_free(copy);
    if (status == DTR_OK && texts->n == 0)
        status = dtri_fail(error, DTR_E_INVALID, 0, "'%.64s' is an empty list", list);
    return status;
}

static dtr_status add_budget(struct budgets *budgets, struct dtri_budget budget, dtr_error *error)
{
    if (!DTRI_RESERVE(budgets->items, budgets->cap, budgets->n + 1))
        return dtri_fail_nomem(error, "a list of budgets");
    budgets->items[budgets->n++] = budget;
    return DTR_OK;
}

/* "10%..100%:10%": shares in steps; the end is included. */
static dtr_status add_range(struct budgets *budgets, const char *text, dtr_error *error)
{
    double from, to, step;
    int end = 0;
    if (sscanf(text, "%lf%%..%lf%%:%lf%%%n", &from, &to, &step, &end) != 3 || text[end] ||
        !(from > 0) || !(to >= from) || !(step > 0) || (to - from) / step > 100000)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "--budgets: '%.64s' is no range; write it like 10%%..100%%:10%%", text);
    long n = lround(floor((to - from) / step + 1e-9));
    for (long i = 0; i <= n; i++) {
        /* Rounded to a millionth of a percent, so that 30% here is what 30% alone is. */
        double percent = round((from + (double)i * step) * 1e6) / 1e6;
        struct dtri_budget budget = {.kind = DTRI_BUDGET_SHARE, .factor = percent / 100};
        dtr_status status = add_budget(budgets, budget, error);
        if (status != DTR_OK)
            return status;
    }
    return DTR_OK;
}

static dtr_status read_budgets(const char *list, struct budgets *budgets, dtr_error *error)
{
    struct texts texts = {0};
    dtr_status status = split(list, &texts, error);
    for (size_t i = 0; i < texts.n && status == DTR_OK; i++) {
        struct dtri_budget budget;
        if (strstr(texts.items[i], "..")) {
            status = add_range(budgets, texts.items[i], error);
            continue;
        }
        status = dtri_parse_budget(texts.items[i], &budget, error);
        if (status == DTR_OK && budget.kind != DTRI_BUDGET_SHARE &&
            budget.kind != DTRI_BUDGET_BYTES)
            status = dtri_fail(error, DTR_E_INVALID, 0,
                               "--budgets: '%.64s' is neither bytes nor a share", texts.items[i]);
        if (status == DTR_OK)
            status = add_budget(budgets, budget, error);
    }
    texts_done(&texts);
    return status;
}

/* Names are checked here, so that a sweep does not find out half-way. */
static dtr_status read_heuristics(const char *list, struct texts *texts, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (strcmp(list, "all") == 0)
        for (int i = 0; dtr_heuristic_name(i) && status == DTR_OK; i++)
            status = add_text(texts, dtr_heuristic_name(i), error);
    else
        status = split(list, texts, error);
    for (size_t i = 0; i < texts->n && status == DTR_OK; i++) {
        dtr_selector *selector;
        status = dtr_selector_new(&(dtr_selector_options){.heuristic = texts->items[i]}, &selector,
                                  error);
        if (status == DTR_OK)
            dtr_selector_free(selector);
    }
    return status;
}

static dtr_status read_policies(const char *list, bool *wanted, dtr_error *error)
{
    struct texts texts = {0};
    dtr_status status = split(list, &texts, error);
    for (size_t i = 0; i < texts.n && status == DTR_OK; i++) {
        int p = 0;
        while (dtri_settings_policies[p] && strcmp(dtri_settings_policies[p], texts.items[i]) != 0)
            p++;
        if (dtri_settings_policies[p])
            wanted[p] = true;
        else
            status =
                dtri_fail(error, DTR_E_INVALID, 0,
                          "--policy: '%.64s' is not one of eager, ignore, banish", texts.items[i]);
    }
    texts_done(&texts);
    return status;
}

/* --- the sweep -------------------------------------------------------------------------------- */

struct sweep {
    const struct settings *settings;
    struct dtri_trace **traces;
    int64_t *peaks;
    size_t n_traces;
    struct texts heuristics;
    struct budgets budgets;
    bool policies[3];
    struct dtri_run *runs; /* one a combination, in the order of printing */
    size_t n_runs, cap_runs;
    struct dtri_sweep_job *jobs;
    size_t n_jobs, n_done;
    struct dtri_store *store;
    bool progress;
};

static dtr_status add_combination(struct sweep *s, size_t trace, const char *heuristic,
                                  const struct dtri_budget *budget, int policy, dtr_error *error)
{
    struct dtri_sim_options options = {
        .heuristic = heuristic,
        .search = s->settings->search ? dtri_settings_searches[s->settings->search] : NULL,
        .seed = (uint64_t)s->settings->seed,
        .deallocation = (dtr_deallocation)policy,
        .no_release = s->settings->no_release,
    };
    options.budget_bytes = budget->kind == DTRI_BUDGET_SHARE
                               ? dtri_budget_share(budget->factor, s->peaks[trace])
                               : budget->bytes;
    dtr_status status = dtri_cli_remat_limit(s->settings->remat_limit, s->traces[trace],
                                             &options.remat_limit_ns, error);
    if (status != DTR_OK)
        return status;
    struct dtri_run *run = &s->runs[s->n_runs];
    dtri_run_init(run, "sim");
    dtri_run_set_sim(run, s->traces[trace], &options, s->peaks[trace]);
    if (budget->kind == DTRI_BUDGET_SHARE)
        run->budget_share = budget->factor;
    bool done = false;
    if (s->store)
        status = dtri_store_find_run(s->store, run, run, &done, error);
    if (!done)
        s->jobs[s->n_jobs++] = (struct dtri_sweep_job){s->traces[trace], options, run};
    s->n_runs++;
    return status;
}

static dtr_status add_combinations(struct sweep *s, dtr_error *error)
{
    size_t n = s->n_traces * s->heuristics.n * s->budgets.n * 3;
    s->runs = dtri_calloc(n, sizeof *s->runs);
    s->jobs = dtri_calloc(n, sizeof *s->jobs);
    if (!s->runs || !s->jobs)
        return dtri_fail_nomem(error, "a sweep");
    dtr_status status = DTR_OK;
    for (size_t t = 0; t < s->n_traces; t++)
        for (int p = 0; p < 3; p++)
            for (size_t b = 0; s->policies[p] && b < s->budgets.n; b++)
                for (size_t h = 0; h < s->heuristics.n && status == DTR_OK; h++)
                    status = add_combination(s, t, s->heuristics.items[h], &s->budgets.items[b], p,
                                             error);
    return status;
}

static void show_progress(const struct sweep *s)
{
    enum { WIDTH = 40 };
    int filled = (int)(WIDTH * s->n_done / s->n_jobs);
    if (!s->progress)
        return;
    fprintf(stderr, "\r[");
    for (int i = 0; i < WIDTH; i++)
        fputc(i < filled ? '#' : ' ', stderr);
    fprintf(stderr, "] %zu of %zu runs%s", s->n_done, s->n_jobs,
            s->n_done == s->n_jobs ? "\n" : "");
}

static dtr_status job_done(void *user, const struct dtri_sweep_job *job, dtr_status status,
                           const struct dtri_sim_result *result, const dtr_error *why,
                           dtr_error *error)
{
    struct sweep *s = user;
    struct dtri_run *run = job->user;
    if (status != DTR_OK) { /* a heuristic that failed, say; the other runs go on */
        dtri_run_set_text(run->result, "failed");
        dtri_run_set_text(run->why, why->text);
        fprintf(stderr, "%sdtrscope sweep: %s at %" PRId64 " bytes: %s\n", s->progress ? "\n" : "",
                run->heuristic, run->budget_bytes, why->text);
    } else {
        dtri_run_set_sim_result(run, result);
    }
    s->n_done++;
    show_progress(s);
    if (!s->store)
        return DTR_OK;
    dtr_status stored = dtri_store_add_run(s->store, run, error);
    if (stored == DTR_OK && s->n_done % 64 == 0)
        stored = dtri_store_commit(s->store, error);
    return stored;
}

/* --- printing --------------------------------------------------------------------------------- */

static void print_cell(const struct dtri_run *run)
{
    const char *text = run->result;
    char number[16];
    if (strcmp(text, "ok") == 0) {
        snprintf(number, sizeof number, "%.3f", run->slowdown);
        text = number;
    } else if (strcmp(text, "out_of_memory") == 0) {
        text = "oom";
    } else if (strcmp(text, "thrashed") == 0) {
        text = "thrash";
    } else if (strcmp(text, "running") == 0) {
        text = "-";
    }
    int width = (int)strlen(run->heuristic);
    printf(" %*s", width < 7 ? 7 : width, text);
}

static void print_tables(const struct sweep *s)
{
    const size_t width = s->heuristics.n;
    for (size_t row = 0; row * width < s->n_runs; row++) {
        const struct dtri_run *first = &s->runs[row * width];
        bool new_table = row == 0 || strcmp(first->trace, first[-1].trace) != 0 ||
                         strcmp(first->deallocation, first[-1].deallocation) != 0;
        char text[DTRI_UNITS_TEXT];
        if (new_table) {
            printf("%s%s, unlimited peak %s, %s: slowdown by budget and heuristic\n%-8s %10s",
                   row ? "\n" : "", first->trace,
                   dtri_format_bytes(first->unlimited_peak_bytes, text), first->deallocation,
                   "budget", "");
            for (size_t h = 0; h < width; h++) {
                const char *name = s->runs[row * width + h].heuristic;
                printf(" %*s", (int)(strlen(name) < 7 ? 7 : strlen(name)), name);
            }
            putchar('\n');
        }
        double share = 100.0 * (double)first->budget_bytes / (double)first->unlimited_peak_bytes;
        printf("%6.1f %% %10s", share, dtri_format_bytes(first->budget_bytes, text));
        for (size_t h = 0; h < width; h++)
            print_cell(&s->runs[row * width + h]);
        putchar('\n');
    }
}

/* --- the command ------------------------------------------------------------------------------ */

static dtr_status open_output(struct sweep *s, dtr_error *error)
{
    const char *path = s->settings->output;
    if (!path)
        return DTR_OK;
    if (access(path, F_OK) != 0)
        return dtri_store_create(path, false, &s->store, error);
    return dtri_store_open(path, DTRI_STORE_WRITE, &s->store, error);
}

static dtr_status open_traces(struct sweep *s, const struct dtri_arguments *arguments,
                              dtr_error *error)
{
    size_t n = (size_t)arguments->n_positionals;
    s->traces = dtri_calloc(n, sizeof *s->traces);
    s->peaks = dtri_calloc(n, sizeof *s->peaks);
    if (!s->traces || !s->peaks)
        return dtri_fail_nomem(error, "traces");
    for (; s->n_traces < n; s->n_traces++) {
        size_t i = s->n_traces;
        dtr_status status = dtri_cli_open_trace(arguments->positionals[i], &s->traces[i], error);
        if (status != DTR_OK)
            return status;
        status = dtri_sim_unlimited_peak(s->traces[i], &s->peaks[i], error);
        if (status != DTR_OK) {
            s->n_traces++;
            return status;
        }
    }
    return DTR_OK;
}

static dtr_status prepare(struct sweep *s, const struct dtri_arguments *arguments, dtr_error *error)
{
    dtr_status status = read_heuristics(s->settings->heuristics, &s->heuristics, error);
    if (status == DTR_OK)
        status = read_budgets(s->settings->budgets, &s->budgets, error);
    if (status == DTR_OK)
        status = read_policies(s->settings->policies, s->policies, error);
    if (status == DTR_OK)
        status = open_traces(s, arguments, error);
    if (status == DTR_OK)
        status = open_output(s, error);
    return status == DTR_OK ? add_combinations(s, error) : status;
}

static dtr_status sweep(struct sweep *s, dtr_error *error)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = s->settings->jobs ? (int)s->settings->jobs : cores > 0 ? (int)cores : 1;
    struct sigaction action = {.sa_handler = on_interrupt}, old_action;
    sigaction(SIGINT, &action, &old_action);
    dtr_status status = DTR_OK;
    if (s->n_jobs)
        status = dtri_sweep_run(s->jobs, s->n_jobs, threads, &interrupted, job_done, s, error);
    sigaction(SIGINT, &old_action, NULL);
    return status;
}

static void sweep_done(struct sweep *s)
{
    for (size_t i = 0; i < s->n_traces; i++)
        dtri_trace_free(s->traces[i]);
    dtri_free(s->traces);
    dtri_free(s->peaks);
    texts_done(&s->heuristics);
    dtri_free(s->budgets.items);
    dtri_free(s->runs);
    dtri_free(s->jobs);
}

static int run(int argc, char **argv)
{
    struct settings settings = {
        .heuristics = "all", .budgets = "10%..100%:10%", .policies = "eager", .remat_limit = "1x"};
    struct dtri_arguments arguments;
    struct sweep s = {.settings = &settings, .progress = isatty(STDERR_FILENO)};
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_sweep;
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals == 0)
        return dtri_cli_usage(command, "give one trace or more");
    dtr_status status = prepare(&s, &arguments, &error);
    if (status == DTR_OK)
        status = sweep(&s, &error);
    dtr_error close_error = {0};
    dtr_status closed = dtri_store_close(s.store, &close_error);
    int code = DTRI_EXIT_OK;
    if (status == DTR_OK || status == DTR_E_INTERRUPTED)
        print_tables(&s);
    if (status == DTR_E_INTERRUPTED) {
        fprintf(stderr, "dtrscope sweep: %s%s\n", error.text,
                settings.output ? "; the same command goes on from there" : "");
        code = 128 + SIGINT;
    } else if (status != DTR_OK) {
        code = dtri_cli_fail(command, &error);
    } else if (closed != DTR_OK) {
        code = dtri_cli_fail(command, &close_error);
    }
    sweep_done(&s);
    return code;
}

const struct dtri_command dtri_command_sweep = {
    .name = "sweep",
    .synopsis = "TRACE... [--heuristics all|LIST] [--budgets LIST] [-o OUT.dtr.sqlite] [OPTIONS]",
    .summary = "replay traces with every heuristic at every budget, and compare",
    .run = run,
};
