/* Packed columns against a twin that writes the format down from its description, byte by byte. */
#include "../support.h"

#include <stdbool.h>

#include "base/rng.h"
#include "store/chunk.h"

#define MAX_COLUMNS 14

static struct dtri_rng rng;
static int64_t table[MAX_COLUMNS][DTRI_CHUNK_EVENTS], back[MAX_COLUMNS][DTRI_CHUNK_EVENTS];
static unsigned char packed[DTRI_CHUNK_BYTES(MAX_COLUMNS, DTRI_CHUNK_EVENTS)];

/* Constant, slowly rising, small, wide, jumping between the ends, and anything. */
static void fill_column(int64_t *column, int n)
{
    uint64_t kind = dtri_rng_below(&rng, 6);
    int64_t base = (int64_t)dtri_rng_next(&rng);
    int shift = (int)dtri_rng_below(&rng, 64);
    for (int i = 0; i < n; i++) {
        uint64_t random = dtri_rng_next(&rng);
        switch (kind) {
        case 0:
            column[i] = base;
            break;
        case 1:
            column[i] = (int64_t)((uint64_t)base + (uint64_t)i * (random % 100));
            break;
        case 2:
            column[i] = (int64_t)(random % 300) - 1;
            break;
        case 3:
            column[i] = (int64_t)(random >> shift);
            break;
        case 4:
            column[i] = random & 1 ? INT64_MAX : INT64_MIN;
            break;
        default:
            column[i] = (int64_t)random;
            break;
        }
    }
}

static uint64_t little_endian(const unsigned char *at, int width)
{
    uint64_t value = 0;
    for (int i = width - 1; i >= 0; i--)
        value = value * 256 + at[i];
    return value;
}

/* Reads one column as the header file describes it; returns the bytes it takes. */
static size_t twin_column(const unsigned char *at, int n, int64_t *out)
{
    int mode = at[0] / 16, width = at[0] % 16;
    uint64_t head = little_endian(at + 1, 8), previous = head;
    size_t used = 9;
    for (int i = 0; i < n; i++) {
        if (mode == 1) {
            out[i] = (int64_t)(head + little_endian(at + used, width));
            used += (size_t)width;
        } else if (mode == 2 && i > 0) {
            uint64_t z = little_endian(at + used, width);
            previous += z % 2 ? ~(z / 2) : z / 2;
            out[i] = (int64_t)previous;
            used += (size_t)width;
        } else {
            out[i] = (int64_t)head;
        }
    }
    return used;
}

static int random_rows(void)
{
    static const int edges[] = {1, 2, 3, 4095, 4096};
    uint64_t draw = dtri_rng_below(&rng, 10);
    return draw < 5 ? edges[draw] : 1 + (int)dtri_rng_below(&rng, 200);
}

static size_t pack_random(int n_columns, int n)
{
    const int64_t *columns[MAX_COLUMNS];
    for (int c = 0; c < n_columns; c++) {
        fill_column(table[c], n);
        columns[c] = table[c];
    }
    size_t size = dtri_chunk_pack(columns, n_columns, n, packed);
    assert_true(size <= DTRI_CHUNK_BYTES(n_columns, n));
    return size;
}

static bool unpack(const unsigned char *data, size_t size, int n_columns, int n, uint64_t wanted)
{
    int64_t *columns[MAX_COLUMNS];
    for (int c = 0; c < MAX_COLUMNS; c++)
        columns[c] = wanted >> c & 1 ? back[c] : NULL; /* an unwanted column is not touched */
    return dtri_chunk_unpack(data, size, n_columns, n, wanted, columns);
}

static void test_against_twin(void **state)
{
    (void)state;
    dtri_rng_seed(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        int n_columns = 1 + (int)dtri_rng_below(&rng, MAX_COLUMNS), n = random_rows();
        size_t size = pack_random(n_columns, n), used = 0;
        uint64_t wanted = dtri_rng_next(&rng);
        assert_true(unpack(packed, size, n_columns, n, wanted));
        for (int c = 0; c < n_columns; c++) {
            static int64_t twin[DTRI_CHUNK_EVENTS];
            used += twin_column(packed + used, n, twin);
            assert_memory_equal(twin, table[c], (size_t)n * sizeof *twin);
            if (wanted >> c & 1)
                assert_memory_equal(back[c], table[c], (size_t)n * sizeof *twin);
        }
        assert_int_equal(used, size);
    }
}

/* What does not change takes nine bytes, what moves by little a byte a row. */
static void test_size(void **state)
{
    const int64_t *columns[1] = {table[0]};
    (void)state;
    for (int i = 0; i < 1000; i++)
        table[0][i] = -7;
    assert_int_equal(dtri_chunk_pack(columns, 1, 1000, packed), 9);
    for (int i = 0; i < 1000; i++)
        table[0][i] = INT64_C(1) << 60 | 100 * i;
    assert_int_equal(dtri_chunk_pack(columns, 1, 1000, packed), 9 + 999);
}

/* Damaged data is refused or gives some values; it is never read beyond its end, which a copy of
 * exactly its size lets the address sanitizer see. */
static void test_damage(void **state)
{
    (void)state;
    dtri_rng_seed(&rng, 2);
    for (int round = 0; round < 3000; round++) {
        int n_columns = 1 + (int)dtri_rng_below(&rng, 4), n = 1 + (int)dtri_rng_below(&rng, 50);
        size_t size = pack_random(n_columns, n);
        packed[size] = 0;
        assert_false(
            unpack(packed, size + 1, n_columns, n, UINT64_MAX)); /* too long is wrong, too */
        size_t cut = dtri_rng_below(&rng, size + 1);
        unsigned char *copy = malloc(cut ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, packed, cut);
        assert_true(unpack(copy, cut, n_columns, n, UINT64_MAX) == (cut == size));
        if (cut)
            copy[dtri_rng_below(&rng, cut)] ^= (unsigned char)(1 + dtri_rng_below(&rng, 255));
        unpack(copy, cut, n_columns, n, UINT64_MAX);
        free(copy);
    }
    assert_false(unpack(packed, 9, 1, 0, 1));
    assert_false(unpack(packed, 9, 1, DTRI_CHUNK_EVENTS + 1, 1));
}

/* Format 2 gives back what format 1 does. */
static void test_zstd(void **state)
{
    struct dtri_chunk_codec codec = {0};
    (void)state;
    dtri_rng_seed(&rng, 3);
    for (int round = 0; round < 500; round++) {
        int64_t *columns[MAX_COLUMNS];
        int n_columns = 1 + (int)dtri_rng_below(&rng, MAX_COLUMNS), n = random_rows();
        size_t size = pack_random(n_columns, n), used;
        const unsigned char *data;
        for (int c = 0; c < MAX_COLUMNS; c++)
            columns[c] = back[c];
        assert_int_equal(dtri_chunk_compress(&codec, packed, size, &data, &used), DTR_OK);
        unsigned char *copy = malloc(used);
        memcpy(copy, data, used);
        for (int format = 1; format <= 2; format++) {
            const unsigned char *from = format == 2 ? copy : packed;
            memset(back, 0, sizeof back);
            assert_int_equal(dtri_chunk_decode(&codec, format, from, format == 2 ? used : size,
                                               n_columns, n, UINT64_MAX, columns),
                             DTR_OK);
            for (int c = 0; c < n_columns; c++)
                assert_memory_equal(back[c], table[c], (size_t)n * sizeof(int64_t));
        }
        size_t cut = dtri_rng_below(&rng, used);
        assert_int_equal(dtri_chunk_decode(&codec, 2, copy, cut, n_columns, n, UINT64_MAX, columns),
                         DTR_E_FORMAT);
        copy[dtri_rng_below(&rng, used)] ^= (unsigned char)(1 + dtri_rng_below(&rng, 255));
        dtri_chunk_decode(&codec, 2, copy, used, n_columns, n, UINT64_MAX, columns);
        free(copy);
    }
    dtri_chunk_codec_done(&codec);
}

/* A frame is not unpacked when it is bigger than so many rows can be, or does not say how big. */
static void test_bomb(void **state)
{
    static const unsigned char unsized[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50, 0x01, 0x00, 0x00};
    struct dtri_chunk_codec codec = {0};
    int64_t *columns[1] = {back[0]};
    const unsigned char *data;
    size_t used, size = 64 << 20;
    unsigned char *zeros = calloc(1, size);
    (void)state;
    assert_int_equal(dtri_chunk_compress(&codec, zeros, size, &data, &used), DTR_OK);
    assert_true(used < 20000);
    unsigned char *copy = malloc(used);
    memcpy(copy, data, used);
    dtri_chunk_codec_done(&codec);
    assert_int_equal(dtri_chunk_decode(&codec, 2, copy, used, 1, DTRI_CHUNK_EVENTS, 1, columns),
                     DTR_E_FORMAT);
    assert_int_equal(codec.cap, 0);
    assert_int_equal(dtri_chunk_decode(&codec, 2, unsized, sizeof unsized, 1, 1, 1, columns),
                     DTR_E_FORMAT);
    assert_int_equal(dtri_chunk_decode(&codec, 3, zeros, 9, 1, 1, 1, columns), DTR_E_FORMAT);
    assert_int_equal(dtri_chunk_decode(&codec, 1, NULL, 9, 1, 1, 1, columns), DTR_E_FORMAT);
    assert_int_equal(dtri_chunk_decode(&codec, 1, zeros, 9, 1, INT64_MAX, 1, columns),
                     DTR_E_FORMAT);
    dtri_chunk_codec_done(&codec);
    free(copy);
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_twin), cmocka_unit_test(test_size),
        cmocka_unit_test(test_damage),       cmocka_unit_test(test_zstd),
        cmocka_unit_test(test_bomb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
