/* A character as UTF-8. */
#ifndef DTRI_IMPORT_UTF8_H
#define DTRI_IMPORT_UTF8_H

/* The number of bytes; what is no character, and NUL, becomes U+FFFD. */
static inline int dtri_utf8_encode(unsigned code, char out[4])
{
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    int tail = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out[0] = (char)(lead[tail] | code >> (6 * tail));
    for (int i = 1; i <= tail; i++)
        out[i] = (char)(0x80 | (code >> (6 * (tail - i)) & 0x3f));
    return tail + 1;
}

#endif
