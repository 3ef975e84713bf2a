#include "store/chunk.h"

#include <string.h>

enum mode { MODE_CONSTANT, MODE_FRAME, MODE_DELTA };

static int width_of(uint64_t max)
{
    return max < 0x100 ? 1 : max < 0x10000 ? 2 : max < 0x100000000u ? 4 : 8;
}

static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static int64_t unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static unsigned char *put(unsigned char *out, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        out[i] = (unsigned char)(value >> 8 * i);
    return out + width;
}

static uint64_t get(const unsigned char *in, int width)
{
    uint64_t value = 0;
    for (int i = 0; i < width; i++)
        value |= (uint64_t)in[i] << 8 * i;
    return value;
}

static unsigned char *pack_column(const int64_t *values, int n, unsigned char *out)
{
    int64_t least = values[0], most = values[0];
    uint64_t step = 0;
    for (int i = 1; i < n; i++) {
        uint64_t z = zigzag((int64_t)((uint64_t)values[i] - (uint64_t)values[i - 1]));
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
        step = z > step ? z : step;
    }
    if (least == most) {
        *out++ = MODE_CONSTANT << 4;
        return put(out, (uint64_t)least, 8);
    }
    int frame = width_of((uint64_t)most - (uint64_t)least), delta = width_of(step);
    if (frame <= delta) {
        *out++ = (unsigned char)(MODE_FRAME << 4 | frame);
        out = put(out, (uint64_t)least, 8);
        for (int i = 0; i < n; i++)
            out = put(out, (uint64_t)values[i] - (uint64_t)least, frame);
        return out;
    }
    *out++ = (unsigned char)(MODE_DELTA << 4 | delta);
    out = put(out, (uint64_t)values[0], 8);
    for (int i = 1; i < n; i++)
        out = put(out, zigzag((int64_t)((uint64_t)values[i] - (uint64_t)values[i - 1])), delta);
    return out;
}

size_t dtri_chunk_pack(const int64_t *const *columns, int n_columns, int n, unsigned char *out)
{
    unsigned char *begin = out;
    for (int c = 0; c < n_columns; c++)
        out = pack_column(columns[c], n, out);
    return (size_t)(out - begin);
}

/* Values stored after the 8-byte head, by mode. */
static int stored_values(enum mode mode, int n)
{
    return mode == MODE_CONSTANT ? 0 : mode == MODE_FRAME ? n : n - 1;
}

static void unpack_column(const unsigned char *in, enum mode mode, int width, int n, int64_t *out)
{
    uint64_t head = get(in, 8);
    in += 8;
    switch (mode) {
    case MODE_CONSTANT:
        for (int i = 0; i < n; i++)
            out[i] = (int64_t)head;
        break;
    case MODE_FRAME:
        for (int i = 0; i < n; i++, in += width)
            out[i] = (int64_t)(head + get(in, width));
        break;
    case MODE_DELTA:
        out[0] = (int64_t)head;
        for (int i = 1; i < n; i++, in += width)
            out[i] = (int64_t)((uint64_t)out[i - 1] + (uint64_t)unzigzag(get(in, width)));
        break;
    }
}

bool dtri_chunk_unpack(const unsigned char *data, size_t size, int n_columns, int n,
                       uint64_t wanted, int64_t *const *columns)
{
    if (n < 1 || n > DTRI_CHUNK_EVENTS)
        return false;
    for (int c = 0; c < n_columns; c++) {
        if (size < 9)
            return false;
        int mode = data[0] >> 4, width = data[0] & 15;
        bool valid = mode == MODE_CONSTANT ? width == 0
                                           : mode <= MODE_DELTA && (width == 1 || width == 2 ||
                                                                    width == 4 || width == 8);
        size_t body = valid ? 8 + (size_t)stored_values((enum mode)mode, n) * (size_t)width : 0;
        if (!valid || size - 1 < body)
            return false;
        if (wanted >> c & 1)
            unpack_column(data + 1, (enum mode)mode, width, n, columns[c]);
        data += 1 + body;
        size -= 1 + body;
    }
    return size == 0;
}
