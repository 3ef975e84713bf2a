#include "import/input.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/error.h"

#define BUFFER_BYTES (256u << 10)

dtr_status dtri_input_open(struct dtri_input *in, const char *path, dtr_error *error)
{
    struct stat info;
    *in = (struct dtri_input){0};
    if (stat(path, &info) != 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot open %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return dtri_fail(error, DTR_E_IO, 0,
                         "%s is no regular file; importing reads a file more than once, so write "
                         "it to one first",
                         path);
    in->path = dtri_strdup(path);
    in->buffer = dtri_malloc(BUFFER_BYTES);
    if (!in->path || !in->buffer) {
        dtri_input_done(in);
        return dtri_fail_nomem(error, "reading a file");
    }
    errno = 0;
    in->file = gzopen(path, "rbe");
    if (!in->file) {
        int why = errno ? errno : ENOMEM;
        dtri_input_done(in);
        return dtri_fail(error, DTR_E_IO, why, "cannot open %s: %s", path, strerror(why));
    }
    gzbuffer(in->file, BUFFER_BYTES);
    return DTR_OK;
}

void dtri_input_done(struct dtri_input *in)
{
    if (in->file)
        gzclose(in->file);
    dtri_free(in->path);
    dtri_free(in->buffer);
    *in = (struct dtri_input){0};
}

dtr_status dtri_input_rewind(struct dtri_input *in, dtr_error *error)
{
    in->at = in->n = 0;
    in->before = 0;
    in->failed = false;
    if (gzrewind(in->file) != 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot read %s a second time", in->path);
    return DTR_OK;
}

dtr_status dtri_input_check(const struct dtri_input *in, dtr_error *error)
{
    int code = Z_OK;
    if (!in->failed)
        return DTR_OK;
    const char *text = gzerror(in->file, &code);
    if (code == Z_ERRNO)
        return dtri_fail(error, DTR_E_IO, errno, "cannot read %s: %s", in->path, strerror(errno));
    return dtri_fail(error, DTR_E_FORMAT, code,
                     "%s: the .gz data is damaged or cut short (%s); fetch the file again",
                     in->path, text);
}

bool dtri_input_fill(struct dtri_input *in)
{
    int code = Z_OK;
    if (in->failed)
        return false;
    in->before += (int64_t)in->n;
    in->at = in->n = 0;
    int n = gzread(in->file, in->buffer, BUFFER_BYTES);
    if (n > 0) {
        in->n = (size_t)n;
        return true;
    }
    gzerror(in->file, &code);
    in->failed = n < 0 || code == Z_BUF_ERROR;
    return false;
}

const unsigned char *dtri_input_peek(struct dtri_input *in, size_t *out_n)
{
    if (in->at == in->n)
        dtri_input_fill(in);
    *out_n = in->n - in->at;
    return in->buffer + in->at;
}

bool dtri_input_read(struct dtri_input *in, void *out, size_t n)
{
    unsigned char *to = out;
    while (n > 0) {
        if (in->at == in->n && !dtri_input_fill(in))
            return false;
        size_t part = in->n - in->at < n ? in->n - in->at : n;
        memcpy(to, in->buffer + in->at, part);
        in->at += part;
        to += part;
        n -= part;
    }
    return true;
}

bool dtri_input_skip(struct dtri_input *in, uint64_t n)
{
    while (n > 0) {
        if (in->at == in->n && !dtri_input_fill(in))
            return false;
        uint64_t part = in->n - in->at < n ? in->n - in->at : n;
        in->at += (size_t)part;
        n -= part;
    }
    return true;
}
