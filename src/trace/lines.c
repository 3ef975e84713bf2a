/* Reading lines with bounded memory: a line may have 16 MiB, an .xz decoder 128 MiB. */
#include "trace/lines.h"

#include <errno.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define MAX_LINE  (16u << 20)
#define XZ_MEMORY (128u << 20)
#define CHUNK     65536u

struct dtri_lines {
    FILE *file;
    const char *path;
    bool is_xz, at_end;
    lzma_stream xz;
    unsigned char raw[CHUNK]; /* undecoded, .xz only */
    char *buffer;             /* decoded: begin..end is not handed out yet */
    size_t begin, end, cap;
    int64_t number;
};

static dtr_status read_error(const struct dtri_lines *l, dtr_error *error)
{
    return dtri_fail(error, DTR_E_IO, errno, "cannot read %s: %s", l->path, strerror(errno));
}

static dtr_status open_decoder(struct dtri_lines *l, dtr_error *error)
{
    static const unsigned char magic[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
    size_t n = fread(l->raw, 1, CHUNK, l->file);
    if (n == 0 && ferror(l->file))
        return read_error(l, error);
    l->is_xz = n >= sizeof magic && memcmp(l->raw, magic, sizeof magic) == 0;
    if (!l->is_xz) {
        if (!DTRI_RESERVE(l->buffer, l->cap, n + 1))
            return dtri_fail_nomem(error, "reading a log");
        memcpy(l->buffer, l->raw, n);
        l->end = n;
        return DTR_OK;
    }
    if (lzma_stream_decoder(&l->xz, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
        return dtri_fail_nomem(error, "the xz decoder");
    l->xz.next_in = l->raw;
    l->xz.avail_in = n;
    return DTR_OK;
}

dtr_status dtri_lines_open(const char *path, struct dtri_lines **out_lines, dtr_error *error)
{
    struct dtri_lines *l = dtri_calloc(1, sizeof *l);
    if (!l)
        return dtri_fail_nomem(error, "reading a log");
    bool standard = strcmp(path, "-") == 0;
    l->path = standard ? "standard input" : path;
    l->file = standard ? stdin : fopen(path, "rb");
    dtr_status status;
    if (l->file)
        status = open_decoder(l, error);
    else
        status = dtri_fail(error, DTR_E_IO, errno, "cannot open %s: %s", path, strerror(errno));
    if (status == DTR_OK)
        *out_lines = l;
    else
        dtri_lines_close(l);
    return status;
}

void dtri_lines_close(struct dtri_lines *l)
{
    if (!l)
        return;
    if (l->file && l->file != stdin)
        fclose(l->file);
    if (l->is_xz)
        lzma_end(&l->xz);
    dtri_free(l->buffer);
    dtri_free(l);
}

/* Decodes some more behind `end`; sets at_end when there is no more. */
static dtr_status decode(struct dtri_lines *l, dtr_error *error)
{
    lzma_action action = LZMA_RUN;
    if (l->xz.avail_in == 0 && !feof(l->file)) {
        l->xz.next_in = l->raw;
        l->xz.avail_in = fread(l->raw, 1, CHUNK, l->file);
        if (ferror(l->file))
            return read_error(l, error);
    }
    if (feof(l->file))
        action = LZMA_FINISH;
    l->xz.next_out = (unsigned char *)l->buffer + l->end;
    l->xz.avail_out = CHUNK;
    lzma_ret ret = lzma_code(&l->xz, action);
    l->end += CHUNK - l->xz.avail_out;
    if (ret == LZMA_STREAM_END)
        l->at_end = true;
    else if (ret == LZMA_MEMLIMIT_ERROR)
        return dtri_fail(error, DTR_E_LIMIT, 0, "%s needs more than %u MiB to unpack", l->path,
                         XZ_MEMORY >> 20);
    else if (ret != LZMA_OK)
        return dtri_fail(error, DTR_E_FORMAT, ret,
                         "%s: the .xz data is damaged or cut short; fetch the file again", l->path);
    return DTR_OK;
}

static dtr_status fill(struct dtri_lines *l, dtr_error *error)
{
    if (l->end - l->begin > MAX_LINE)
        return dtri_fail(error, DTR_E_LIMIT, 0, "%s:%lld: a line is longer than %u MiB", l->path,
                         (long long)l->number + 1, MAX_LINE >> 20);
    if (l->begin) {
        memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
        l->end -= l->begin;
        l->begin = 0;
    }
    if (!DTRI_RESERVE(l->buffer, l->cap, l->end + CHUNK + 1))
        return dtri_fail_nomem(error, "reading a log");
    if (l->is_xz)
        return decode(l, error);
    size_t n = fread(l->buffer + l->end, 1, CHUNK, l->file);
    if (n == 0 && ferror(l->file))
        return read_error(l, error);
    l->end += n;
    l->at_end = n == 0;
    return DTR_OK;
}

dtr_status dtri_lines_next(struct dtri_lines *l, char **out_line, size_t *out_length,
                           dtr_error *error)
{
    size_t searched = 0;
    for (;;) {
        size_t rest = l->end - l->begin - searched;
        char *newline = rest ? memchr(l->buffer + l->begin + searched, '\n', rest) : NULL;
        if (newline || (l->at_end && l->end > l->begin)) {
            *out_line = l->buffer + l->begin;
            *out_length = newline ? (size_t)(newline - *out_line) : l->end - l->begin;
            l->begin += *out_length + (newline != NULL);
            l->number++;
            return DTR_OK;
        }
        if (l->at_end) {
            *out_line = NULL;
            return DTR_OK;
        }
        searched = l->end - l->begin;
        dtr_status status = fill(l, error);
        if (status != DTR_OK)
            return status;
    }
}

int64_t dtri_lines_number(const struct dtri_lines *l)
{
    return l->number;
}
