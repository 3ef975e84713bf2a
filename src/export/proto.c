#include "export/proto.h"

#include <string.h>

#include "base/alloc.h"
#include "export/utf8.h"

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2 };

/* Lengths of inner messages are known at their end; they get four bytes, which a varint may have
 * even when fewer would do. */
#define LENGTH_BYTES 4
#define LENGTH_MAX   ((size_t)1 << 7 * LENGTH_BYTES)

void dtri_proto_done(struct dtri_proto *p)
{
    dtri_free(p->data);
    *p = (struct dtri_proto){0};
}

static void put(struct dtri_proto *p, const void *data, size_t size)
{
    if (p->failed || p->n + size > LENGTH_MAX || !DTRI_RESERVE(p->data, p->cap, p->n + size)) {
        p->failed = true;
        return;
    }
    memcpy(p->data + p->n, data, size);
    p->n += size;
}

static void put_varint(struct dtri_proto *p, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    put(p, bytes, n);
}

static void put_tag(struct dtri_proto *p, int field, enum wire wire)
{
    put_varint(p, (uint64_t)field << 3 | wire);
}

void dtri_proto_varint(struct dtri_proto *p, int field, uint64_t value)
{
    put_tag(p, field, VARINT);
    put_varint(p, value);
}

void dtri_proto_fixed64(struct dtri_proto *p, int field, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    put_tag(p, field, FIXED64);
    put(p, bytes, sizeof bytes);
}

void dtri_proto_double(struct dtri_proto *p, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    dtri_proto_fixed64(p, field, bits);
}

void dtri_proto_text(struct dtri_proto *p, int field, const char *text)
{
    size_t begin = dtri_proto_begin(p, field);
    while (*text) {
        size_t n = dtri_utf8_sequence(text);
        if (n)
            put(p, text, n);
        else
            put(p, "\xef\xbf\xbd", 3);
        text += n ? n : 1;
    }
    dtri_proto_end(p, begin);
}

size_t dtri_proto_begin(struct dtri_proto *p, int field)
{
    static const uint8_t length[LENGTH_BYTES];
    put_tag(p, field, BYTES);
    put(p, length, sizeof length);
    return p->n;
}

void dtri_proto_end(struct dtri_proto *p, size_t begin)
{
    if (p->failed)
        return;
    size_t size = p->n - begin;
    for (int i = 0; i < LENGTH_BYTES; i++)
        p->data[begin - LENGTH_BYTES + (size_t)i] =
            (uint8_t)((size >> 7 * i & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
}
