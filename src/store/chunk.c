#include "store/chunk.h"

#include <string.h>

#include <zstd.h>

#include "base/alloc.h"

enum mode { MODE_CONSTANT, MODE_FRAME, MODE_DELTA };

static int width_of(uint64_t max)
{
    return max < 0x100 ? 1 : max < 0x10000 ? 2 : max < 0x100000000u ? 4 : 8;
}

static inline uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t unzigzag(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

/* One little-endian value of a width that is known where these are inlined. */
static inline void put(unsigned char *out, uint64_t value, int width)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value) >> (64 - 8 * width);
    memcpy(out, (char *)&value + 8 - width, (size_t)width);
#else
    memcpy(out, &value, (size_t)width);
#endif
}

static inline uint64_t get(const unsigned char *in, int width)
{
    uint64_t value = 0;
    memcpy(&value, in, (size_t)width);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

/* --- packing ---------------------------------------------------------------------------------- */

/* The loops over values are made once for any processor and, on x86, once more for those that can
 * compare and shift four 64-bit values at a time. */
struct extent {
    int64_t least, most;
    uint64_t steps; /* all zigzag differences, or'ed: as wide as the widest */
};

static inline __attribute__((always_inline)) struct extent measure_any(const int64_t *values, int n)
{
    int64_t least = values[0], most = values[0];
    uint64_t steps = 0;
    for (int i = 1; i < n; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    for (int i = 1; i < n; i++)
        steps |= zigzag((uint64_t)values[i] - (uint64_t)values[i - 1]);
    return (struct extent){least, most, steps};
}

static inline __attribute__((always_inline)) void
put_frame(const int64_t *values, int n, uint64_t least, int width, unsigned char *out)
{
    for (int i = 0; i < n; i++)
        put(out + (size_t)i * (size_t)width, (uint64_t)values[i] - least, width);
}

static inline __attribute__((always_inline)) void put_delta(const int64_t *values, int n, int width,
                                                            unsigned char *out)
{
    for (int i = 1; i < n; i++)
        put(out + (size_t)(i - 1) * (size_t)width,
            zigzag((uint64_t)values[i] - (uint64_t)values[i - 1]), width);
}

static inline __attribute__((always_inline)) void put_values_any(const int64_t *values, int n,
                                                                 enum mode mode, int width,
                                                                 uint64_t least, unsigned char *out)
{
#define WIDTH(w)                                                                                   \
    case w:                                                                                        \
        if (mode == MODE_FRAME)                                                                    \
            put_frame(values, n, least, w, out);                                                   \
        else                                                                                       \
            put_delta(values, n, w, out);                                                          \
        break;
    switch (width) {
        WIDTH(1)
        WIDTH(2)
        WIDTH(4)
        WIDTH(8)
    }
#undef WIDTH
}

#if defined(__x86_64__) && !defined(__AVX2__)
__attribute__((target("avx2"))) static struct extent measure_avx2(const int64_t *values, int n)
{
    return measure_any(values, n);
}

__attribute__((target("avx2"))) static void put_values_avx2(const int64_t *values, int n,
                                                            enum mode mode, int width,
                                                            uint64_t least, unsigned char *out)
{
    put_values_any(values, n, mode, width, least, out);
}
#define CHOOSE(name) (__builtin_cpu_supports("avx2") ? name##_avx2 : name##_plain)
#else
#define CHOOSE(name) name##_plain
#endif

static struct extent measure_plain(const int64_t *values, int n)
{
    return measure_any(values, n);
}

static void put_values_plain(const int64_t *values, int n, enum mode mode, int width,
                             uint64_t least, unsigned char *out)
{
    put_values_any(values, n, mode, width, least, out);
}

/* Values stored after the 8-byte head, by mode. */
static int stored_values(enum mode mode, int n)
{
    return mode == MODE_CONSTANT ? 0 : mode == MODE_FRAME ? n : n - 1;
}

static unsigned char *pack_column(const int64_t *values, int n, unsigned char *out)
{
    struct extent e = CHOOSE(measure)(values, n);
    int frame = width_of((uint64_t)e.most - (uint64_t)e.least), delta = width_of(e.steps);
    enum mode mode = e.least == e.most ? MODE_CONSTANT : frame <= delta ? MODE_FRAME : MODE_DELTA;
    int width = mode == MODE_CONSTANT ? 0 : mode == MODE_FRAME ? frame : delta;
    *out++ = (unsigned char)(mode << 4 | width);
    put(out, (uint64_t)(mode == MODE_DELTA ? values[0] : e.least), 8);
    out += 8;
    if (mode != MODE_CONSTANT)
        CHOOSE(put_values)(values, n, mode, width, (uint64_t)e.least, out);
    return out + (size_t)stored_values(mode, n) * (size_t)width;
}

size_t dtri_chunk_pack(const int64_t *const *columns, int n_columns, int n, unsigned char *out)
{
    unsigned char *begin = out;
    for (int c = 0; c < n_columns; c++)
        out = pack_column(columns[c], n, out);
    return (size_t)(out - begin);
}

/* --- unpacking -------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void get_frame(const unsigned char *in, int width,
                                                            int n, uint64_t least, int64_t *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (int64_t)(least + get(in + (size_t)i * (size_t)width, width));
}

static inline __attribute__((always_inline)) void get_delta(const unsigned char *in, int width,
                                                            int n, uint64_t first, int64_t *out)
{
    out[0] = (int64_t)first;
    for (int i = 1; i < n; i++) {
        first += unzigzag(get(in + (size_t)(i - 1) * (size_t)width, width));
        out[i] = (int64_t)first;
    }
}

static void unpack_column(const unsigned char *in, enum mode mode, int width, int n, int64_t *out)
{
    uint64_t head = get(in, 8);
    in += 8;
#define WIDTH(w)                                                                                   \
    case w:                                                                                        \
        if (mode == MODE_FRAME)                                                                    \
            get_frame(in, w, n, head, out);                                                        \
        else                                                                                       \
            get_delta(in, w, n, head, out);                                                        \
        break;
    switch (width) {
        WIDTH(1)
        WIDTH(2)
        WIDTH(4)
        WIDTH(8)
    default:
        for (int i = 0; i < n; i++)
            out[i] = (int64_t)head;
    }
#undef WIDTH
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

/* --- zstd ------------------------------------------------------------------------------------- */

void dtri_chunk_codec_done(struct dtri_chunk_codec *codec)
{
    ZSTD_freeCCtx(codec->compressor);
    ZSTD_freeDCtx(codec->decompressor);
    dtri_free(codec->buffer);
    *codec = (struct dtri_chunk_codec){0};
}

dtr_status dtri_chunk_compress(struct dtri_chunk_codec *codec, const unsigned char *packed,
                               size_t size, const unsigned char **out_data, size_t *out_size)
{
    if (!codec->compressor)
        codec->compressor = ZSTD_createCCtx();
    if (!codec->compressor || !DTRI_RESERVE(codec->buffer, codec->cap, ZSTD_compressBound(size)))
        return DTR_E_NOMEM;
    size_t used = ZSTD_compressCCtx(codec->compressor, codec->buffer, codec->cap, packed, size, 1);
    *out_data = codec->buffer;
    *out_size = used;
    return ZSTD_isError(used) ? DTR_E_NOMEM : DTR_OK;
}

/* The frame's own word for its size is believed only if so many columns can be that big. */
static dtr_status decompress(struct dtri_chunk_codec *codec, const unsigned char **data,
                             size_t *size, size_t most)
{
    unsigned long long packed = ZSTD_getFrameContentSize(*data, *size);
    if (packed > most) /* also when it is not known, or this is no frame */
        return DTR_E_FORMAT;
    if (!codec->decompressor)
        codec->decompressor = ZSTD_createDCtx();
    if (!codec->decompressor || !DTRI_RESERVE(codec->buffer, codec->cap, (size_t)packed + 1))
        return DTR_E_NOMEM;
    size_t got =
        ZSTD_decompressDCtx(codec->decompressor, codec->buffer, (size_t)packed, *data, *size);
    if (ZSTD_isError(got) || got != packed)
        return DTR_E_FORMAT;
    *data = codec->buffer;
    *size = got;
    return DTR_OK;
}

dtr_status dtri_chunk_decode(struct dtri_chunk_codec *codec, int64_t format, const void *data,
                             size_t size, int n_columns, int64_t n, uint64_t wanted,
                             int64_t *const *columns)
{
    const unsigned char *at = data;
    if (n < 1 || n > DTRI_CHUNK_EVENTS || !data ||
        (format != DTRI_CHUNK_FORMAT && format != DTRI_CHUNK_FORMAT_ZSTD))
        return DTR_E_FORMAT;
    if (format == DTRI_CHUNK_FORMAT_ZSTD) {
        dtr_status status = decompress(codec, &at, &size, DTRI_CHUNK_BYTES(n_columns, n));
        if (status != DTR_OK)
            return status;
    }
    return dtri_chunk_unpack(at, size, n_columns, (int)n, wanted, columns) ? DTR_OK : DTR_E_FORMAT;
}
