/* Every saved input of the import's fuzzers, as an ordinary test; the small snapshots and the trace
 * also cut short at every byte, and with one byte changed. */
#include "../support.h"

#include <dirent.h>

#include "import_target.c"

static uint8_t *read_whole(const char *path, size_t *out_size)
{
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    long size = ftell(in);
    rewind(in);
    uint8_t *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, in), size);
    fclose(in);
    *out_size = (size_t)size;
    return data;
}

static void feed_variants(const char *name, size_t step)
{
    char path[2048];
    size_t size;
    snprintf(path, sizeof path, "%s/tests/data/import/%s", environment("DTRSCOPE_SOURCE", ".."),
             name);
    uint8_t *data = read_whole(path, &size);
    for (size_t cut = 0; cut < size; cut += step)
        LLVMFuzzerTestOneInput(data, cut);
    for (size_t at = 0; at < size; at += step * 3) {
        uint8_t kept = data[at];
        data[at] ^= (uint8_t)(1 + at % 127);
        LLVMFuzzerTestOneInput(data, size);
        data[at] = kept;
    }
    free(data);
}

static void test_snapshots_cut_short(void **state)
{
    (void)state;
    import_format = DTRI_IMPORT_SNAPSHOT;
    feed_variants("snapshot0.pickle", 1);
    feed_variants("snapshot2.pickle", 1);
    feed_variants("snapshot5.pickle", 1);
}

static void test_traces_cut_short(void **state)
{
    (void)state;
    import_format = DTRI_IMPORT_CHROME;
    feed_variants("trace.json", 13);
}

static void feed_directory(const char *name, enum dtri_import_format format)
{
    char directory[1024], path[2048];
    int n = 0;
    snprintf(directory, sizeof directory, "%s/tests/data/import/fuzz/%s",
             environment("DTRSCOPE_SOURCE", ".."), name);
    import_format = format;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t size;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        uint8_t *data = read_whole(path, &size);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        n++;
    }
    closedir(dir);
    assert_true(n >= 5);
}

static void test_corpus(void **state)
{
    (void)state;
    feed_directory("snapshot", DTRI_IMPORT_SNAPSHOT);
    feed_directory("chrome", DTRI_IMPORT_CHROME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshots_cut_short),
        cmocka_unit_test(test_traces_cut_short),
        cmocka_unit_test(test_corpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
