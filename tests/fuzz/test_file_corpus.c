/* Saved inputs of the file's fuzzer, and damage by chance: pages of the database are hit where its
 * trees, its rows and the packed events lie. */
#include "../support.h"

#include <dirent.h>

#include "base/rng.h"
#include "file_target.c"

#define ROUNDS 300

static void test_chance(void **state)
{
    struct dtri_rng rng;
    (void)state;
    dtri_rng_seed(&rng, 20);
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t data[64];
        size_t n = 1, pieces = 1 + dtri_rng_below(&rng, 3);
        data[0] = (uint8_t)(round & 1);
        for (size_t i = 0; i < pieces; i++) {
            uint64_t at = dtri_rng_below(&rng, 1 << 17), length = 1 + dtri_rng_below(&rng, 8);
            const uint8_t head[] = {(uint8_t)(at >> 16), (uint8_t)(at >> 8), (uint8_t)at,
                                    (uint8_t)(round % 50 ? length : 0)};
            memcpy(data + n, head, sizeof head);
            n += sizeof head;
            for (uint64_t b = 0; b < length; b++)
                data[n++] = dtri_rng_below(&rng, 3) ? (uint8_t)dtri_rng_below(&rng, 256) : 0xff;
        }
        LLVMFuzzerTestOneInput(data, n);
    }
}

static void test_corpus(void **state)
{
    char directory[1024], path[2048];
    static uint8_t data[1 << 16];
    (void)state;
    snprintf(directory, sizeof directory, "%s/tests/data/fuzz_file",
             environment("DTRSCOPE_SOURCE", ".."));
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        FILE *in = fopen(path, "rb");
        assert_non_null(in);
        size_t size = fread(data, 1, sizeof data, in);
        fclose(in);
        LLVMFuzzerTestOneInput(data, size);
    }
    closedir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chance),
                                       cmocka_unit_test(test_corpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
