#include "export/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

size_t dtri_utf8_sequence(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char a = bytes[0], least = 0x80, most = 0xbf;
    size_t n = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
    if (a == 0xe0)
        least = 0xa0;
    if (a == 0xed)
        most = 0x9f;
    if (a == 0xf0)
        least = 0x90;
    if (a == 0xf4)
        most = 0x8f;
    for (size_t i = 1; i < n; i++) {
        if (bytes[i] < least || bytes[i] > most)
            return 0;
        least = 0x80;
        most = 0xbf;
    }
    return n;
}

bool dtri_utf8_valid(const char *text, size_t *out_size)
{
    const char *at = text;
    while (*at) {
        size_t n = dtri_utf8_sequence(at);
        if (n == 0) {
            *out_size = (size_t)(at - text) + strlen(at);
            return false;
        }
        at += n;
    }
    *out_size = (size_t)(at - text);
    return true;
}

size_t dtri_utf8_clean(const char *text, char *out)
{
    char *begin = out;
    while (*text) {
        size_t n = dtri_utf8_sequence(text);
        if (n == 0) {
            memcpy(out, REPLACEMENT, sizeof REPLACEMENT - 1);
            out += sizeof REPLACEMENT - 1;
            text++;
            continue;
        }
        memcpy(out, text, n);
        out += n;
        text += n;
    }
    return (size_t)(out - begin);
}
