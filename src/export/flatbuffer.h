/* Writes FlatBuffers, from the end to the beginning as they refer forward only: what is referred to
 * comes first.  A reference (`dtri_flat_ref`) is the distance from the end, 0 is none. */
#ifndef DTRI_EXPORT_FLATBUFFER_H
#define DTRI_EXPORT_FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTRI_FLAT_FIELDS 8 /* of a table, at most */

typedef uint32_t dtri_flat_ref;

struct dtri_flat {
    unsigned char *data; /* the last `size` bytes of `cap` are in use */
    size_t size, cap;
    bool failed; /* no memory, or beyond 1 GiB: from then on nothing is added */
    /* the table being built; tables do not nest */
    dtri_flat_ref slots[DTRI_FLAT_FIELDS];
    size_t table_end;
};

dtri_flat_ref dtri_flat_text(struct dtri_flat *flat, const char *text);
/* n references. */
dtri_flat_ref dtri_flat_refs(struct dtri_flat *flat, const dtri_flat_ref *refs, size_t n);
/* n structs, each of `width` 64-bit numbers. */
dtri_flat_ref dtri_flat_structs(struct dtri_flat *flat, const int64_t *numbers, size_t width,
                                size_t n);

void dtri_flat_begin(struct dtri_flat *flat);
void dtri_flat_int(struct dtri_flat *flat, int field, int64_t value, size_t width);
void dtri_flat_refer(struct dtri_flat *flat, int field, dtri_flat_ref ref); /* 0: left out */
dtri_flat_ref dtri_flat_end(struct dtri_flat *flat);

/* Makes `root` what the buffer holds.  Its bytes, a multiple of eight, are borrowed. */
const unsigned char *dtri_flat_finish(struct dtri_flat *flat, dtri_flat_ref root, size_t *out_size);
void dtri_flat_done(struct dtri_flat *flat);

#endif
