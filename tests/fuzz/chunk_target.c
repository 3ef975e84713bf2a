/* Unpacking events and tiles under fuzzing: any bytes are refused, or give values that pack and
 * unpack to the same.
 *
 * The first four bytes say what the columns beside the data say in a file: format, columns, rows.
 * One source, two ways to run it, as log_target.c. */
#include <stdlib.h>
#include <string.h>

#include "store/chunk.h"
#include "store/tile_row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COLUMNS 14

static int64_t values[COLUMNS][DTRI_CHUNK_EVENTS], again[COLUMNS][DTRI_CHUNK_EVENTS];
static unsigned char packed[DTRI_CHUNK_BYTES(COLUMNS, DTRI_CHUNK_EVENTS)];

static void try_chunk(struct dtri_chunk_codec *codec, int format, const uint8_t *data, size_t size,
                      int n_columns, int n)
{
    int64_t *into[COLUMNS], *back[COLUMNS];
    const int64_t *from[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        from[c] = into[c] = values[c];
        back[c] = again[c];
    }
    if (dtri_chunk_decode(codec, format, data, size, n_columns, n, UINT64_MAX, into) != DTR_OK)
        return;
    size_t used = dtri_chunk_pack(from, n_columns, n, packed);
    if (!dtri_chunk_unpack(packed, used, n_columns, n, UINT64_MAX, back))
        abort();
    for (int c = 0; c < n_columns; c++)
        if (memcmp(values[c], again[c], (size_t)n * sizeof(int64_t)) != 0)
            abort();
}

static void try_tile(int format, const uint8_t *data, size_t size, int track, int n)
{
    struct dtri_tile_row row;
    const struct dtri_page_key key = {1, track, 0, 0};
    if (!dtri_tile_row_decode(&key, n, format, data, size, &row))
        return;
    for (int i = 0; i < row.n; i++)
        if (row.columns[0][i] < 0 || row.columns[0][i] >= DTRI_TILE_PAGE || row.columns[1][i] < 1)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dtri_chunk_codec codec = {0};
    if (size < 4)
        return 0;
    int format = data[0], n_columns = 1 + data[1] % COLUMNS, n = data[2] | data[3] << 8;
    try_chunk(&codec, format, data + 4, size - 4, n_columns, n);
    try_tile(format, data + 4, size - 4, n_columns == 2 ? DTRI_TRACK_MARK : DTRI_TRACK_IN_USE, n);
    dtri_chunk_codec_done(&codec);
    return 0;
}
