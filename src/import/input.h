/* Bytes of a plain or .gz file from front to back, in bounded memory.
 *
 * A failed read looks like the end of the file; dtri_input_check tells the two apart. */
#ifndef DTRI_IMPORT_INPUT_H
#define DTRI_IMPORT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtr/status.h"

struct dtri_input {
    void *file; /* gzFile, which reads plain files too */
    char *path;
    unsigned char *buffer; /* at..n is not handed out yet */
    size_t at, n;
    int64_t before; /* bytes of the (unpacked) file before the buffer */
    bool failed;
};

dtr_status dtri_input_open(struct dtri_input *in, const char *path, dtr_error *error);
void dtri_input_done(struct dtri_input *in); /* accepts a zeroed one */
/* To the first byte again. */
dtr_status dtri_input_rewind(struct dtri_input *in, dtr_error *error);
/* DTR_E_IO after a read that failed, also for a .gz that is damaged or cut short. */
dtr_status dtri_input_check(const struct dtri_input *in, dtr_error *error);

bool dtri_input_fill(struct dtri_input *in); /* false at the end */
/* What is there without taking it: at least one byte unless at the end, and all that the first
 * read of the file gave. */
const unsigned char *dtri_input_peek(struct dtri_input *in, size_t *out_n);
bool dtri_input_read(struct dtri_input *in, void *out, size_t n);
bool dtri_input_skip(struct dtri_input *in, uint64_t n);

/* The next byte, or -1 at the end. */
static inline int dtri_input_byte(struct dtri_input *in)
{
    return in->at < in->n || dtri_input_fill(in) ? in->buffer[in->at++] : -1;
}

static inline int64_t dtri_input_offset(const struct dtri_input *in)
{
    return in->before + (int64_t)in->at;
}

#endif
