/* Every saved input of the fuzzer, as an ordinary test; and each of them cut short at every 3rd
 * byte, and with one bit changed, so that the corpus reaches further than its files. */
#include "../support.h"

#include <dirent.h>

#include "chunk_target.c"

static void feed(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + !size); /* exactly so big, for the address sanitizer */
    assert_non_null(copy);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void feed_file(const char *path)
{
    static uint8_t data[1 << 16];
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t size = fread(data, 1, sizeof data, in);
    fclose(in);
    feed(data, size);
    for (size_t cut = 0; cut < size; cut += 3)
        feed(data, cut);
    for (size_t at = 0; at < size && at < 400; at++)
        for (int bit = 0; bit < 8; bit++) {
            data[at] ^= (uint8_t)(1 << bit);
            feed(data, size);
            data[at] ^= (uint8_t)(1 << bit);
        }
}

static void test_corpus(void **state)
{
    char directory[1024], path[2048];
    int n = 0;
    (void)state;
    snprintf(directory, sizeof directory, "%s/tests/data/fuzz_chunk",
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
    assert_true(n >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
