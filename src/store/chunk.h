/* Packing of up to 4096 events of one kind, column by column.
 *
 * Format 1.  For each column in order (ts_ns, seq, then the kind's fields): one byte
 * `mode << 4 | width`, then for width 0..8 bytes a value.
 *
 *     mode 0: constant.      8 bytes: the value of every row.              (width 0)
 *     mode 1: frame.         8 bytes: the least value; then value - least, `width` bytes each.
 *     mode 2: delta.         8 bytes: the first value; then zigzag(value - previous), `width` bytes
 *                            each, for the rows after the first.
 *
 * All little-endian; width is 1, 2, 4 or 8.  Differences are modulo 2^64.  A REAL is the 64-bit
 * pattern of its IEEE double.
 *
 * Format 2.  The bytes of format 1 in a zstd frame that tells its content's size. */
#ifndef DTRI_STORE_CHUNK_H
#define DTRI_STORE_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtr/status.h"

#define DTRI_CHUNK_EVENTS      4096
#define DTRI_CHUNK_FORMAT      1
#define DTRI_CHUNK_FORMAT_ZSTD 2
/* Room that packing `n_columns` columns of `n` values needs at most. */
#define DTRI_CHUNK_BYTES(n_columns, n) ((size_t)(n_columns) * (9 + 8 * (size_t)(n)))

/* Packs n >= 1 rows; columns[c][row].  Returns the bytes written to `out`. */
size_t dtri_chunk_pack(const int64_t *const *columns, int n_columns, int n, unsigned char *out);

/* Unpacks the columns whose bit in `wanted` is set (bit c for column c) into columns[c]; the others
 * are skipped.  False when the data is damaged: it is never read beyond `size`. */
bool dtri_chunk_unpack(const unsigned char *data, size_t size, int n_columns, int n,
                       uint64_t wanted, int64_t *const *columns);

/* What compressing and decompressing need; starts as zero, kept from chunk to chunk. */
struct dtri_chunk_codec {
    void *compressor, *decompressor;
    unsigned char *buffer;
    size_t cap;
};
void dtri_chunk_codec_done(struct dtri_chunk_codec *codec);

/* Format 1 to format 2; the data is borrowed until the codec's next use.  DTR_E_NOMEM. */
dtr_status dtri_chunk_compress(struct dtri_chunk_codec *codec, const unsigned char *packed,
                               size_t size, const unsigned char **out_data, size_t *out_size);

/* dtri_chunk_unpack of either format, with the numbers as a file has them.  DTR_E_FORMAT when
 * anything is wrong with them or the data, DTR_E_NOMEM. */
dtr_status dtri_chunk_decode(struct dtri_chunk_codec *codec, int64_t format, const void *data,
                             size_t size, int n_columns, int64_t n, uint64_t wanted,
                             int64_t *const *columns);

#endif
