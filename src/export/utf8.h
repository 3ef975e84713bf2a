/* Names are any bytes but NUL; every format that we write wants UTF-8. */
#ifndef DTRI_EXPORT_UTF8_H
#define DTRI_EXPORT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the UTF-8 sequence at `text`, 0 when it is none.  Overlong forms, surrogates and what
 * lies beyond U+10FFFF are none (Unicode 15, table 3-7).  Never reads beyond a NUL. */
size_t dtri_utf8_sequence(const char *text);
/* True when the text is UTF-8; *out_size is its length in bytes either way. */
bool dtri_utf8_valid(const char *text, size_t *out_size);
#define DTRI_UTF8_GROWTH 3 /* a byte becomes at most that many */
/* Into `out`, with U+FFFD for each byte that belongs to no sequence; returns the bytes written. */
size_t dtri_utf8_clean(const char *text, char *out);

#endif
