/* Rows of a table turned into columns, for formats that write many rows of a column together. */
#ifndef DTRI_EXPORT_BATCH_H
#define DTRI_EXPORT_BATCH_H

#include "export/table.h"

#define DTRI_BATCH_ROWS 65536
#define DTRI_BATCH_TEXT (8 << 20) /* bytes of text in all columns, after which a batch is full */

struct dtri_batch_column {
    int64_t *values; /* of integers, and of reals as their bits; 0 where NULL; n_rows */
    int32_t *ends;   /* of texts in `text`, n_rows; a NULL is empty */
    char *text;
    size_t text_size, text_cap;
    unsigned char *valid; /* 1 or 0, n_rows */
    int n_nulls;
};

struct dtri_batch {
    const struct dtri_column *columns; /* the table's */
    int n_columns, n_rows;
    size_t text_size;
    struct dtri_batch_column data[DTRI_TABLE_COLUMNS];
};

/* Room for a batch of `table`, which has to live as long. */
dtr_status dtri_batch_init(struct dtri_batch *batch, const struct dtri_table *table,
                           dtr_error *error);
/* The next rows of the table; n_rows is 0 at its end. */
dtr_status dtri_batch_fill(struct dtri_batch *batch, struct dtri_table *table, dtr_error *error);
void dtri_batch_done(struct dtri_batch *batch); /* accepts a zeroed one */

/* Bytes that grow, for what is written with its length before it. */
struct dtri_bytes {
    unsigned char *data;
    size_t size, cap;
    bool failed; /* no memory: from then on nothing is added */
};
void dtri_bytes_add(struct dtri_bytes *bytes, const void *data, size_t size);
/* The low `width` bytes of a value, little-endian. */
void dtri_bytes_int(struct dtri_bytes *bytes, uint64_t value, int width);
void dtri_bytes_done(struct dtri_bytes *bytes);

#endif
