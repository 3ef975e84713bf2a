/* Bad operator logs: each is refused with a sentence that names the file and, where there is one,
 * the line. */
#include "../support.h"

#include <lzma.h>
#include <unistd.h>

#include "trace/trace.h"

#define START    "{\"ANNOTATION\":\"START\",\"INSTRUCTION\":\"ANNOTATE\"}\n"
#define CONSTANT "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"a\"}\n"
#define MEMORY(name, bytes)                                                                        \
    "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":\"" bytes "\",\"NAME\":\"" name "\"}\n"
#define ALIAS(name, index)                                                                         \
    "{\"ALIAS\":\"" index "\",\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"" name "\"}\n"
#define CALL(argument, result, ns)                                                                 \
    "{\"ARGS\":[\"" argument "\"],\"INSTRUCTION\":\"CALL\",\"NAME\":\"f\",\"RESULT\":[\"" result   \
    "\"],\"TIME\":\"" ns "\"}\n"
#define RELEASE(name) "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"" name "\"}\n"
#define GOOD          START CONSTANT MEMORY("a", "64")
#define WORKS         GOOD CALL("a", "b", "1") MEMORY("b", "8") ALIAS("b", "-1")
#define HUGE_NUMBER   "9223372036854775807"

static const char *write_file(const char *name, const void *data, size_t size)
{
    const char *path = scratch(name);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void assert_refused(const char *path, dtr_status status, int line, const char *why)
{
    struct dtri_trace *trace = NULL;
    dtr_error error = {0};
    char place[600];
    if (dtri_trace_read_log(path, &trace, &error) != status)
        fail_msg("expected %s (%s), got: %s", dtr_status_name(status), why, error.text);
    assert_null(trace);
    if (line)
        snprintf(place, sizeof place, "%s:%d: ", path, line);
    else
        snprintf(place, sizeof place, "%s", path);
    if (!strstr(error.text, place) || !strstr(error.text, why))
        fail_msg("expected '%s' and '%s' in: %s", place, why, error.text);
}

/* One bad thing each: the text of the log, the line that the error names, part of the reason. */
/* clang-format off */
static const struct bad_log {
    const char *text;
    int line;
    const char *why;
} bad_logs[] = {
    {"", 0, "no ANNOTATE START"},
    {CONSTANT, 0, "no ANNOTATE START"},
    {START "{\"INSTRUCTION\":", 2, "not JSON"},
    {START "hello\n", 2, "not JSON"},
    {START "[1, 2]\n", 2, "no JSON object"},
    {START "\n", 2, "not JSON"},
    {START "{\"INSTRUCTION\":\"DANCE\"}\n", 2, "DANCE"},
    {START "{\"NAME\":\"x\"}\n", 2, "INSTRUCTION"},
    {START MEMORY("a", "64"), 2, "misplaced"},
    {START CONSTANT, 2, "cut short"},
    {START CONSTANT MEMORY("b", "64"), 3, "another tensor"},
    {START CONSTANT MEMORY("a", "-5"), 3, "MEMORY"},
    {START CONSTANT MEMORY("a", "many"), 3, "MEMORY"},
    {START CONSTANT MEMORY("a", ""), 3, "MEMORY"},
    {START CONSTANT MEMORY("a", HUGE_NUMBER "0"), 3, "MEMORY"},
    {GOOD CALL("x", "b", "1"), 4, "no tensor has the name 'x'"},
    {GOOD CALL("a", "b", "-1"), 4, "TIME"},
    {GOOD CALL("a", "b", "1"), 4, "cut short"},
    {GOOD CALL("a", "b", "1") MEMORY("b", "8"), 5, "cut short"},
    {GOOD CALL("a", "b", "1") MEMORY("b", "8") ALIAS("b", "1"), 6, "ALIAS"},
    {GOOD CALL("a", "b", "1") MEMORY("b", "8") ALIAS("b", "-2"), 6, "ALIAS"},
    {GOOD CALL("a", "a", "1") MEMORY("a", "8") ALIAS("a", "-1"), 4, "cycle"},
    {GOOD CALL("a", "b\",\"b", "1"), 4, "two results"},
    {GOOD CALL("b", "b", "1") MEMORY("b", "8") ALIAS("b", "-1"), 4, "'b'"},
    {GOOD RELEASE("a") CALL("a", "b", "1"), 5, "released before"},
    {GOOD RELEASE("a") RELEASE("a"), 5, "released"},
    {GOOD "{\"DST\":\"c\",\"INSTRUCTION\":\"COPY\",\"SRC\":\"x\"}\n", 4, "'x'"},
    {GOOD "{\"DST\":\"c\",\"INSTRUCTION\":\"COPY_FROM\",\"SRC\":\"a\"}\n", 4, "'c'"},
    {GOOD "{\"ARGS\":[\"a\"],\"INSTRUCTION\":\"MUTATE\",\"MUTATE\":[\"1\"],\"NAME\":\"f\","
          "\"TIME\":\"1\"}\n",
     4, "MUTATE"},
    {GOOD "{\"ARGS\":[\"a\"],\"INSTRUCTION\":\"MUTATE\",\"MUTATE\":[\"0\",\"0\"],\"NAME\":\"f\","
          "\"TIME\":\"1\"}\n",
     4, "released"},
    {GOOD "{\"ARGS\":[\"a\"],\"INSTRUCTION\":\"MUTATE\",\"MUTATE\":[],\"NAME\":\"f\","
          "\"TIME\":\"1\"}\n",
     4, "names no argument"},
};

static const struct bad_log out_of_range[] = {
    {GOOD CALL("a", "b", HUGE_NUMBER) MEMORY("b", "1") ALIAS("b", "-1"), 6, "cost"},
    {GOOD CALL("a", "b", "1") MEMORY("b", HUGE_NUMBER) ALIAS("b", "-1"), 6, "the sizes"},
};
/* clang-format on */

static void assert_all_refused(const struct bad_log *logs, size_t n, dtr_status status)
{
    for (size_t i = 0; i < n; i++)
        assert_refused(write_file("bad.log", logs[i].text, strlen(logs[i].text)), status,
                       logs[i].line, logs[i].why);
}

static void test_bad_lines(void **state)
{
    (void)state;
    assert_all_refused(bad_logs, sizeof bad_logs / sizeof bad_logs[0], DTR_E_FORMAT);
}

/* Sizes and costs whose sums would run over. */
static void test_out_of_range(void **state)
{
    (void)state;
    assert_all_refused(out_of_range, sizeof out_of_range / sizeof out_of_range[0], DTR_E_LIMIT);
}

static void test_missing_file(void **state)
{
    (void)state;
    assert_refused(scratch("not-there.log"), DTR_E_IO, 0, "cannot open");
}

static void test_directory(void **state)
{
    (void)state;
    assert_refused("/", DTR_E_IO, 0, "cannot read");
}

/* A line of 17 MiB, above the limit, in a file that never has another newline. */
static void test_huge_line(void **state)
{
    const size_t size = (17u << 20) + sizeof START;
    char *text = malloc(size);
    (void)state;
    assert_non_null(text);
    memset(text, 'x', size);
    memcpy(text, START, sizeof START - 1);
    assert_refused(write_file("huge.log", text, size), DTR_E_LIMIT, 2, "longer than 16 MiB");
    free(text);
}

/* A line just below the limit is judged by what it says. */
static void test_long_line(void **state)
{
    const size_t size = (15u << 20) + sizeof START;
    char *text = malloc(size);
    (void)state;
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, START, sizeof START - 1);
    text[size - 1] = '7';
    assert_refused(write_file("long.log", text, size), DTR_E_FORMAT, 2, "JSON");
    free(text);
}

static const char *write_xz(const char *name, const char *text, size_t cut, size_t flip)
{
    uint8_t packed[4096];
    size_t size = 0;
    assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, (const uint8_t *)text,
                                             strlen(text), packed, &size, sizeof packed),
                     LZMA_OK);
    assert_true(cut < size);
    if (flip)
        packed[flip] ^= 0xff;
    return write_file(name, packed, size - cut);
}

static void test_xz(void **state)
{
    struct dtri_trace *trace = NULL;
    dtr_error error = {0};
    (void)state;
    assert_ok(dtri_trace_read_log(write_xz("good.xz", WORKS, 0, 0), &trace, &error), &error);
    assert_int_equal(trace->n_tensors, 2);
    dtri_trace_free(trace);
    for (size_t cut = 1; cut < 60; cut += 7)
        assert_refused(write_xz("cut.xz", WORKS, cut, 0), DTR_E_FORMAT, 0, "cut short");
    assert_refused(write_xz("damaged.xz", WORKS, 0, 20), DTR_E_FORMAT, 0, "damaged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_lines),    cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_missing_file), cmocka_unit_test(test_directory),
        cmocka_unit_test(test_huge_line),    cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_xz),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
