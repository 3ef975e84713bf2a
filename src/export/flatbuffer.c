#include "export/flatbuffer.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define MAX_BYTES ((size_t)1 << 30) /* offsets are 32 bits, some with a sign */

void dtri_flat_done(struct dtri_flat *flat)
{
    dtri_free(flat->data);
    *flat = (struct dtri_flat){0};
}

static bool reserve(struct dtri_flat *flat, size_t more)
{
    if (flat->failed || more > MAX_BYTES - flat->size) {
        flat->failed = true;
        return false;
    }
    if (flat->size + more <= flat->cap)
        return true;
    size_t cap = flat->cap ? flat->cap : 1024;
    while (cap < flat->size + more)
        cap *= 2;
    unsigned char *data = dtri_malloc(cap);
    if (!data) {
        flat->failed = true;
        return false;
    }
    if (flat->size)
        memcpy(data + cap - flat->size, flat->data + flat->cap - flat->size, flat->size);
    dtri_free(flat->data);
    flat->data = data;
    flat->cap = cap;
    return true;
}

static void put_at(struct dtri_flat *flat, size_t ref, uint64_t value, size_t width)
{
    unsigned char *at = flat->data + flat->cap - ref;
    for (size_t i = 0; i < width; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* Zeros, so that after `more` bytes the size is a multiple of `width`. */
static void align(struct dtri_flat *flat, size_t width, size_t more)
{
    size_t padding = (width - (flat->size + more) % width) % width;
    if (padding == 0 || !reserve(flat, padding))
        return;
    memset(flat->data + flat->cap - flat->size - padding, 0, padding);
    flat->size += padding;
}

static void put(struct dtri_flat *flat, uint64_t value, size_t width)
{
    if (!reserve(flat, width))
        return;
    flat->size += width;
    put_at(flat, flat->size, value, width);
}

static void put_ref(struct dtri_flat *flat, dtri_flat_ref ref)
{
    put(flat, flat->size + 4 - ref, 4);
}

dtri_flat_ref dtri_flat_text(struct dtri_flat *flat, const char *text)
{
    size_t n = strlen(text);
    align(flat, 4, n + 1);
    if (!reserve(flat, n + 1))
        return 0;
    flat->size += n + 1;
    memcpy(flat->data + flat->cap - flat->size, text, n + 1);
    put(flat, n, 4);
    return (dtri_flat_ref)flat->size;
}

dtri_flat_ref dtri_flat_refs(struct dtri_flat *flat, const dtri_flat_ref *refs, size_t n)
{
    align(flat, 4, 0);
    for (size_t i = n; i-- > 0;)
        put_ref(flat, refs[i]);
    put(flat, n, 4);
    return (dtri_flat_ref)flat->size;
}

dtri_flat_ref dtri_flat_structs(struct dtri_flat *flat, const int64_t *numbers, size_t width,
                                size_t n)
{
    align(flat, 8, 0);
    for (size_t i = n * width; i-- > 0;)
        put(flat, (uint64_t)numbers[i], 8);
    put(flat, n, 4);
    return (dtri_flat_ref)flat->size;
}

void dtri_flat_begin(struct dtri_flat *flat)
{
    memset(flat->slots, 0, sizeof flat->slots);
    flat->table_end = flat->size;
}

void dtri_flat_int(struct dtri_flat *flat, int field, int64_t value, size_t width)
{
    assert(field < DTRI_FLAT_FIELDS);
    align(flat, width, width);
    put(flat, (uint64_t)value, width);
    flat->slots[field] = (dtri_flat_ref)flat->size;
}

void dtri_flat_refer(struct dtri_flat *flat, int field, dtri_flat_ref ref)
{
    assert(field < DTRI_FLAT_FIELDS);
    if (!ref)
        return;
    align(flat, 4, 4);
    put_ref(flat, ref);
    flat->slots[field] = (dtri_flat_ref)flat->size;
}

/* Before a table lies its vtable: its size, the table's, and where in the table each field is. */
dtri_flat_ref dtri_flat_end(struct dtri_flat *flat)
{
    align(flat, 4, 4);
    put(flat, 0, 4);
    size_t table = flat->size;
    for (int i = DTRI_FLAT_FIELDS; i-- > 0;)
        put(flat, flat->slots[i] ? table - flat->slots[i] : 0, 2);
    put(flat, table - flat->table_end, 2);
    put(flat, 4 + 2 * DTRI_FLAT_FIELDS, 2);
    if (!flat->failed)
        put_at(flat, table, flat->size - table, 4);
    return (dtri_flat_ref)table;
}

const unsigned char *dtri_flat_finish(struct dtri_flat *flat, dtri_flat_ref root, size_t *out_size)
{
    align(flat, 8, 4);
    put_ref(flat, root);
    *out_size = flat->size;
    return flat->failed ? NULL : flat->data + flat->cap - flat->size;
}
