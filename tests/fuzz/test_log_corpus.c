/* Every saved input of the fuzzer, as an ordinary test; and each of them cut short at every 7th
 * byte, and with one byte changed, so that the corpus reaches further than its files. */
#include "../support.h"

#include <dirent.h>

#include "log_target.c"

static void feed_variants(uint8_t *data, size_t size)
{
    LLVMFuzzerTestOneInput(data, size);
    for (size_t cut = 0; cut < size; cut += 7)
        LLVMFuzzerTestOneInput(data, cut);
    for (size_t at = 3; at < size; at += 11) {
        uint8_t kept = data[at];
        data[at] ^= (uint8_t)(1 + at % 127);
        LLVMFuzzerTestOneInput(data, size);
        data[at] = kept;
    }
}

static void feed_file(const char *path)
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
    feed_variants(data, (size_t)size);
    free(data);
}

static void test_corpus(void **state)
{
    char directory[1024], path[2048];
    int n = 0;
    (void)state;
    snprintf(directory, sizeof directory, "%s/tests/data/fuzz",
             environment("DTRSCOPE_SOURCE", ".."));
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        feed_file(path);
        n++;
    }
    closedir(dir);
    assert_true(n >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
