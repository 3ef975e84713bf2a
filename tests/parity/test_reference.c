/* Exact agreement with the published simulator: every row of the reference files, with `scan` to the
 * last score evaluation, with `index` to the last nanosecond and byte. */
#include "support.h"

#include <jansson.h>
#include <unistd.h>

#include "sim/sim.h"

static const char *const names[][2] = {
    {"DTR", "dtr"},           {"AbESizeStale", "dtr"},     {"DTREqClass", "dtr-eq"},
    {"AbEqSizeStale", "dtr-eq"}, {"DTRLocal", "dtr-local"}, {"AbLocalSizeStale", "dtr-local"},
    {"MSPS", "msps"},         {"LRU", "lru"},              {"LargestStorage", "size"},
    {"AbSize", "size"},       {"AbE", "e"},                {"AbESize", "e-size"},
    {"AbEStale", "e-stale"},  {"AbEq", "eq"},              {"AbEqSize", "eq-size"},
    {"AbEqStale", "eq-stale"}, {"AbLocal", "local"},       {"AbLocalSize", "local-size"},
    {"AbLocalStale", "local-stale"}, {"AbSizeStale", "none-size-stale"}, {"AbStale", "none-stale"},
};

static const char *our_name(const char *theirs)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], theirs) == 0)
            return names[i][1];
    fail_msg("no heuristic for %s", theirs);
    return NULL;
}

struct file {
    const char *rows;      /* path of the reference rows */
    const char *pattern;   /* printf pattern of a log's path */
    double limit;          /* on replays, times the model's cost */
};

static int64_t integer(json_t *row, const char *key)
{
    json_t *value = json_object_get(row, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void compare(json_t *row, const struct dtri_trace *trace, const struct file *file,
                    const char *search, int *differences)
{
    const char *theirs = json_string_value(json_object_get(row, "heuristic"));
    const char *runtime = json_string_value(json_object_get(row, "runtime"));
    const char *log = json_string_value(json_object_get(row, "log"));
    const char *result = json_string_value(json_object_get(row, "result"));
    const char *expected = strcmp(result, "pass") == 0  ? "ok"
                           : strcmp(result, "oom") == 0 ? "out_of_memory"
                                                        : "thrashed";
    struct dtri_sim_options options = {
        .heuristic = our_name(theirs),
        .search = search,
        .budget_bytes = integer(row, "budget"),
        .deallocation = strstr(runtime, "Eager") ? DTR_DEALLOCATE_EAGER : DTR_DEALLOCATE_IGNORE,
        .no_release = json_is_true(json_object_get(row, "no_dealloc")),
        .remat_limit_ns = (int64_t)(file->limit * (double)trace->compute_ns),
    };
    struct dtri_sim_result ours;
    dtr_error error;
    assert_ok(dtri_sim_run(trace, &options, &ours, &error), &error);
    int same = strcmp(expected, dtri_outcome_name(ours.outcome)) == 0 &&
               ours.stats.clock_ns == integer(row, "clock") &&
               ours.stats.model_compute_ns == integer(row, "model_compute") &&
               ours.stats.remat_compute_ns == integer(row, "remat_compute") &&
               ours.stats.peak_bytes == integer(row, "max_memory");
    int64_t off = ours.stats.score_evaluations - integer(row, "evals");
    if (strcmp(search, "scan") == 0)
        same = same && off == 0;
    if (!same && (*differences)++ < 10)
        print_error("%s %s %s budget %lld: expected %s, clock %lld, peak %lld, evaluations %lld; "
                    "got %s, %lld, %lld, %lld\n",
                    search, log, theirs, (long long)options.budget_bytes, expected,
                    (long long)integer(row, "clock"), (long long)integer(row, "max_memory"),
                    (long long)integer(row, "evals"), dtri_outcome_name(ours.outcome),
                    (long long)ours.stats.clock_ns, (long long)ours.stats.peak_bytes,
                    (long long)ours.stats.score_evaluations);
}

static void compare_baseline(json_t *row, const struct dtri_trace *trace)
{
    int64_t peak;
    dtr_error error;
    assert_ok(dtri_sim_unlimited_peak(trace, &peak, &error), &error);
    assert_int_equal(peak, integer(row, "memory"));
    assert_int_equal(trace->compute_ns, integer(row, "compute"));
    assert_int_equal(trace->constant_bytes, integer(row, "const"));
    assert_int_equal(trace->n_tensors, integer(row, "tensors"));
}

static struct dtri_trace *open_log(const struct file *file, const char *log)
{
    char path[1024];
    struct dtri_trace *trace;
    dtr_error error;
    snprintf(path, sizeof path, file->pattern, log);
    assert_ok(dtri_trace_read_log(path, &trace, &error), &error);
    return trace;
}

static int compare_file(const struct file *file)
{
    char line[4096], open[64] = "";
    struct dtri_trace *trace = NULL;
    int n = 0, differences = 0;
    FILE *in = fopen(file->rows, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        json_t *row = json_loads(line, 0, NULL);
        const char *log = json_string_value(json_object_get(row, "log"));
        if (strcmp(log, open) != 0) {
            dtri_trace_free(trace);
            trace = open_log(file, log);
            snprintf(open, sizeof open, "%s", log);
        }
        if (json_object_get(row, "kind")) {
            compare_baseline(row, trace);
        } else {
            compare(row, trace, file, "scan", &differences);
            compare(row, trace, file, "index", &differences);
        }
        json_decref(row);
        n++;
    }
    dtri_trace_free(trace);
    fclose(in);
    assert_int_equal(differences, 0);
    return n;
}

/* The small random logs, with views, mutation, several outputs and rebound names. */
static void test_random_logs(void **state)
{
    char rows[1024], pattern[1024];
    const char *source = environment("DTRSCOPE_SOURCE", "..");
    (void)state;
    snprintf(rows, sizeof rows, "%s/tests/data/random/reference.jsonl", source);
    snprintf(pattern, sizeof pattern, "%s/tests/data/random/%%s.log", source);
    assert_int_equal(compare_file(&(struct file){rows, pattern, 4}), 450);
}

/* The eight published logs, where they are at hand. */
static void test_published_logs(void **state)
{
    char rows[1024], pattern[1024];
    const char *shared = environment("DTRSCOPE_SHARED", "../shared");
    (void)state;
    snprintf(rows, sizeof rows, "%s/reference/published-logs.jsonl", shared);
    snprintf(pattern, sizeof pattern, "%s/traces/%%s.log.xz", shared);
    if (access(rows, R_OK) != 0) {
        print_message("skipped: %s is not there; set DTRSCOPE_SHARED\n", rows);
        skip();
    }
    assert_int_equal(compare_file(&(struct file){rows, pattern, 1}), 291);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_logs),
        cmocka_unit_test(test_published_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
