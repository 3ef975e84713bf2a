/* Thrift's compact protocol, as far as the metadata of Parquet needs it. */
#ifndef DTRI_EXPORT_THRIFT_H
#define DTRI_EXPORT_THRIFT_H

#include "export/batch.h"

#define DTRI_THRIFT_DEPTH 8

struct dtri_thrift {
    struct dtri_bytes bytes;
    int depth;
    int last[DTRI_THRIFT_DEPTH]; /* number of the last field of each struct that is open */
};

enum dtri_thrift_type {
    DTRI_THRIFT_I32 = 5,
    DTRI_THRIFT_I64 = 6,
    DTRI_THRIFT_BINARY = 8,
    DTRI_THRIFT_LIST = 9,
    DTRI_THRIFT_STRUCT = 12,
};

/* Fields of the struct that is open, by rising number. */
void dtri_thrift_int(struct dtri_thrift *t, int field, enum dtri_thrift_type type, int64_t value);
void dtri_thrift_binary(struct dtri_thrift *t, int field, const void *data, size_t size);
void dtri_thrift_text(struct dtri_thrift *t, int field, const char *text);
/* A struct as a field; field 0: as an element of a list, or the outermost. */
void dtri_thrift_begin(struct dtri_thrift *t, int field);
void dtri_thrift_end(struct dtri_thrift *t);
/* A list as a field; its n elements follow. */
void dtri_thrift_list(struct dtri_thrift *t, int field, enum dtri_thrift_type type, size_t n);
/* Elements of a list. */
void dtri_thrift_element(struct dtri_thrift *t, int64_t value);
void dtri_thrift_text_element(struct dtri_thrift *t, const char *text);

#endif
