#include "export/thrift.h"

#include <assert.h>
#include <string.h>

static void add_byte(struct dtri_thrift *t, unsigned value)
{
    dtri_bytes_int(&t->bytes, value, 1);
}

static void add_varint(struct dtri_thrift *t, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        add_byte(t, (unsigned)(value & 0x7f) | 0x80);
    add_byte(t, (unsigned)value);
}

static void add_zigzag(struct dtri_thrift *t, int64_t value)
{
    add_varint(t, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

/* All our fields follow the last one by 1 to 15, so that the difference fits into the byte. */
static void add_header(struct dtri_thrift *t, int field, enum dtri_thrift_type type)
{
    int step = field - t->last[t->depth];
    assert(step > 0 && step < 16);
    add_byte(t, (unsigned)step << 4 | type);
    t->last[t->depth] = field;
}

void dtri_thrift_int(struct dtri_thrift *t, int field, enum dtri_thrift_type type, int64_t value)
{
    add_header(t, field, type);
    add_zigzag(t, value);
}

void dtri_thrift_binary(struct dtri_thrift *t, int field, const void *data, size_t size)
{
    add_header(t, field, DTRI_THRIFT_BINARY);
    add_varint(t, size);
    dtri_bytes_add(&t->bytes, data, size);
}

void dtri_thrift_text(struct dtri_thrift *t, int field, const char *text)
{
    dtri_thrift_binary(t, field, text, strlen(text));
}

void dtri_thrift_begin(struct dtri_thrift *t, int field)
{
    if (field)
        add_header(t, field, DTRI_THRIFT_STRUCT);
    assert(t->depth + 1 < DTRI_THRIFT_DEPTH);
    t->last[++t->depth] = 0;
}

void dtri_thrift_end(struct dtri_thrift *t)
{
    add_byte(t, 0);
    t->depth--;
}

void dtri_thrift_list(struct dtri_thrift *t, int field, enum dtri_thrift_type type, size_t n)
{
    add_header(t, field, DTRI_THRIFT_LIST);
    if (n < 15) {
        add_byte(t, (unsigned)n << 4 | type);
        return;
    }
    add_byte(t, 0xf0 | type);
    add_varint(t, n);
}

void dtri_thrift_element(struct dtri_thrift *t, int64_t value)
{
    add_zigzag(t, value);
}

void dtri_thrift_text_element(struct dtri_thrift *t, const char *text)
{
    add_varint(t, strlen(text));
    dtri_bytes_add(&t->bytes, text, strlen(text));
}
