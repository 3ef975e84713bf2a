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
 * pattern of its IEEE double. */
#ifndef DTRI_STORE_CHUNK_H
#define DTRI_STORE_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTRI_CHUNK_EVENTS 4096
#define DTRI_CHUNK_FORMAT 1
/* Room that packing `n_columns` columns of `n` values needs at most. */
#define DTRI_CHUNK_BYTES(n_columns, n) ((size_t)(n_columns) * (9 + 8 * (size_t)(n)))

/* Packs n >= 1 rows; columns[c][row].  Returns the bytes written to `out`. */
size_t dtri_chunk_pack(const int64_t *const *columns, int n_columns, int n, unsigned char *out);

/* Unpacks the columns whose bit in `wanted` is set (bit c for column c) into columns[c]; the others
 * are skipped.  False when the data is damaged: it is never read beyond `size`. */
bool dtri_chunk_unpack(const unsigned char *data, size_t size, int n_columns, int n,
                       uint64_t wanted, int64_t *const *columns);

#endif
