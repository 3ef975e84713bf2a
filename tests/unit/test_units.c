/* Sizes, durations, budgets and option tables: what is taken, and what is refused with which words.
 */
#include "../support.h"

#include <stdbool.h>

#include "base/options.h"
#include "base/units.h"

static void test_bytes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes; /* 0: refused */
    } rows[] = {
        {"1", 1},
        {"4024471660", INT64_C(4024471660)},
        {"9223372036854775807", INT64_MAX},
        {"512k", 512 << 10},
        {"512KiB", 512 << 10},
        {"512kB", 512000},
        {"3.5GiB", INT64_C(3758096384)},
        {"1.5MB", 1500000},
        {"6GB", INT64_C(6000000000)},
        {"2TiB", INT64_C(2) << 40},
        {"0.5kiB", 512},
        {"100B", 100},
        {"0", 0},
        {"0.1", 0},
        {"0.0GiB", 0},
        {"-5", 0},
        {"+5", 0},
        {" 5", 0},
        {"5 GiB", 0},
        {"", 0},
        {"GiB", 0},
        {"nan", 0},
        {"NaN", 0},
        {"inf", 0},
        {"1e400", 0},
        {"0x10", 0},
        {"5XB", 0},
        {"5GiBx", 0},
        {"9223372036854775808", 0},
        {"9000000TiB", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t bytes = 0;
        dtr_error error = {0};
        dtr_status status = dtri_parse_bytes(rows[i].text, &bytes, &error);
        if ((status == DTR_OK) != (rows[i].bytes != 0) || bytes != rows[i].bytes)
            fail_msg("'%s' gives %lld", rows[i].text, (long long)bytes);
        if (status != DTR_OK)
            assert_non_null(strstr(error.text, rows[i].text));
    }
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused */
    } rows[] = {
        {"0", 0},
        {"250", 250},
        {"250ns", 250},
        {"3us", 3000},
        {"1.5s", 1500000000},
        {"200ms", 200000000},
        {"2min", INT64_C(120000000000)},
        {"-1s", -1},
        {"1h", -1},
        {"nan", -1},
        {"s", -1},
        {"", -1},
        {"1e300s", -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ns = -1;
        dtr_error error;
        dtri_parse_duration(rows[i].text, &ns, &error);
        if (ns != rows[i].ns)
            fail_msg("'%s' gives %lld", rows[i].text, (long long)ns);
    }
}

static void test_budgets(void **state)
{
    struct dtri_budget budget;
    dtr_error error;
    static const char *const bad[] = {"0",    "0%", "-5%",   "nan%",   "inf%",
                                      "1e9%", "%",  "sqrt",  "-1sqrt", "40%%",
                                      "4 %",  "",   "never", "-1",     "1e99"};
    (void)state;
    assert_ok(dtri_parse_budget("40%", &budget, &error), &error);
    assert_int_equal(budget.kind, DTRI_BUDGET_SHARE);
    assert_int_equal(dtri_budget_share(budget.factor, 1000), 400);
    assert_ok(dtri_parse_budget("2sqrt", &budget, &error), &error);
    assert_int_equal(budget.kind, DTRI_BUDGET_SQRT);
    assert_true(budget.factor == 2.0);
    assert_ok(dtri_parse_budget("none", &budget, &error), &error);
    assert_int_equal(budget.kind, DTRI_BUDGET_NONE);
    assert_ok(dtri_parse_budget("3.5GiB", &budget, &error), &error);
    assert_int_equal(budget.bytes, INT64_C(3758096384));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (dtri_parse_budget(bad[i], &budget, &error) != DTR_E_INVALID)
            fail_msg("'%s' is taken for a budget", bad[i]);
    assert_int_equal(dtri_budget_share(1e-9, 1000), 1);
    assert_int_equal(dtri_budget_share(1e6, INT64_MAX), INT64_C(1) << 62);
}

static void test_formats(void **state)
{
    char text[DTRI_UNITS_TEXT];
    (void)state;
    assert_string_equal(dtri_format_bytes(0, text), "0 B");
    assert_string_equal(dtri_format_bytes(1023, text), "1023 B");
    assert_string_equal(dtri_format_bytes(INT64_C(3758096384), text), "3.50 GiB");
    assert_string_equal(dtri_format_bytes(INT64_MAX, text), "8388608 TiB");
    assert_string_equal(dtri_format_ns(1250000, text), "1.25 ms");
    assert_string_equal(dtri_format_ns(999, text), "999 ns");
    assert_string_equal(dtri_format_ns(INT64_C(90000000000), text), "90.0 s");
}

/* --- options ---------------------------------------------------------------------------------- */

struct settings {
    bool force;
    const char *output;
    int64_t jobs, limit;
    struct dtri_budget budget;
    int format;
};

static const char *const formats[] = {"table", "json", NULL};

static const struct dtri_option table[] = {
    {.name = "force", .type = DTRI_OPTION_FLAG, .offset = offsetof(struct settings, force)},
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = DTRI_OPTION_TEXT,
     .offset = offsetof(struct settings, output)},
    {.name = "jobs",
     .letter = 'j',
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = offsetof(struct settings, jobs),
     .min = 1,
     .max = 64},
    {.name = "limit",
     .argument = "NS",
     .type = DTRI_OPTION_DURATION,
     .offset = offsetof(struct settings, limit)},
    {.name = "budget",
     .argument = "B",
     .type = DTRI_OPTION_BUDGET,
     .offset = offsetof(struct settings, budget)},
    {.name = "format",
     .argument = "F",
     .type = DTRI_OPTION_CHOICE,
     .choices = formats,
     .offset = offsetof(struct settings, format)},
    {.name = NULL},
};

/* Splits a command line at its spaces, and parses it. */
static dtr_status parse(const char *line, struct settings *settings,
                        struct dtri_arguments *arguments, dtr_error *error)
{
    static char copy[256];
    static char *argv[32];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    *settings = (struct settings){0};
    *error = (dtr_error){0};
    return dtri_options_parse(table, settings, argc, argv, arguments, error);
}

static void test_good_options(void **state)
{
    struct settings s;
    struct dtri_arguments a;
    dtr_error error;
    (void)state;
    assert_ok(parse("x one --jobs 3 -o out --limit=2us two --force --budget 40% --format json - -- "
                    "run --jobs 9",
                    &s, &a, &error),
              &error);
    assert_int_equal(s.jobs, 3);
    assert_int_equal(s.limit, 2000);
    assert_int_equal(s.format, 1);
    assert_int_equal(s.budget.kind, DTRI_BUDGET_SHARE);
    assert_true(s.force);
    assert_string_equal(s.output, "out");
    assert_int_equal(a.n_positionals, 3);
    assert_string_equal(a.positionals[0], "one");
    assert_string_equal(a.positionals[1], "two");
    assert_string_equal(a.positionals[2], "-");
    assert_string_equal(a.rest[0], "run");
    assert_string_equal(a.rest[2], "9");
    assert_ok(parse("x -j8 --help", &s, &a, &error), &error);
    assert_int_equal(s.jobs, 8);
    assert_true(a.help);
    assert_null(a.rest);
}

static void test_bad_options(void **state)
{
    static const struct {
        const char *line, *why;
    } rows[] = {
        {"x --jobs", "--jobs needs N"},
        {"x --jobs 0", "--jobs: 0 is not between 1 and 64"},
        {"x --jobs many", "'many' is no whole number"},
        {"x --jobs 5x", "'5x' is no whole number"},
        {"x --jobs= ", "no whole number"},
        {"x --jobs 99999999999999999999", "no whole number"},
        {"x --format yaml", "'yaml' is not one of table, json"},
        {"x --budget 0", "'0' is no budget"},
        {"x --budget NaN", "'NaN' is no budget"},
        {"x --limit soon", "'soon' is no duration"},
        {"x --buget 5", "did you mean --budget?"},
        {"x --ubdget 5", "did you mean --budget?"},
        {"x --budgets 5", "did you mean --budget?"},
        {"x --ouptut f", "did you mean --output?"},
        {"x --buget=5", "did you mean --budget?"},
        {"x --elephant", "there is no option --elephant; see --help"},
        {"x -z", "there is no option -z"},
    };
    struct settings s;
    struct dtri_arguments a;
    dtr_error error;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(parse(rows[i].line, &s, &a, &error), DTR_E_INVALID);
        if (!strstr(error.text, rows[i].why))
            fail_msg("'%s': expected '%s' in: %s", rows[i].line, rows[i].why, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_budgets),      cmocka_unit_test(test_formats),
        cmocka_unit_test(test_good_options), cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
