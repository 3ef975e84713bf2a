#include "export/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/utf8.h"

#define BUFFER_BYTES 65536

struct dtri_output {
    char *path, *temporary; /* temporary is NULL for standard output */
    int fd, why;            /* why: errno of the first failure */
    bool force, device;
    int64_t size;
    size_t used;
    char buffer[BUFFER_BYTES];
};

static void output_free(struct dtri_output *o)
{
    if ((o->temporary || o->device) && o->fd >= 0)
        close(o->fd);
    dtri_free(o->temporary);
    dtri_free(o->path);
    dtri_free(o);
}

/* A pipe or a device is written to as it is: putting a file in its place would destroy it. */
static dtr_status open_device(struct dtri_output *o, dtr_error *error)
{
    o->fd = open(o->path, O_WRONLY | O_CLOEXEC);
    o->device = true;
    if (o->fd < 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot write %s: %s", o->path, strerror(errno));
    return DTR_OK;
}

static dtr_status open_file(struct dtri_output *o, dtr_error *error)
{
    size_t size = strlen(o->path) + 32;
    struct stat there;
    bool exists = stat(o->path, &there) == 0;
    if (exists && S_ISDIR(there.st_mode))
        return dtri_fail(error, DTR_E_STATE, 0, "%s is a directory; give the name of a file",
                         o->path);
    if (exists && !S_ISREG(there.st_mode))
        return open_device(o, error);
    if (!o->force && exists)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s exists; give another name, or --force to replace it", o->path);
    o->temporary = dtri_malloc(size);
    if (!o->temporary)
        return dtri_fail_nomem(error, "an output file");
    snprintf(o->temporary, size, "%s.%ld.part", o->path, (long)getpid());
    o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd < 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot write %s: %s", o->path, strerror(errno));
    return DTR_OK;
}

dtr_status dtri_output_open(const char *path, bool force, struct dtri_output **out_output,
                            dtr_error *error)
{
    struct dtri_output *o = dtri_malloc(sizeof *o);
    if (!o)
        return dtri_fail_nomem(error, "an output file");
    memset(o, 0, offsetof(struct dtri_output, buffer));
    o->fd = STDOUT_FILENO;
    o->force = force;
    o->path = dtri_strdup(path);
    dtr_status status = o->path ? DTR_OK : dtri_fail_nomem(error, "an output file");
    if (status == DTR_OK && strcmp(path, "-") != 0)
        status = open_file(o, error);
    if (status != DTR_OK) {
        output_free(o);
        return status;
    }
    *out_output = o;
    return DTR_OK;
}

static void write_out(struct dtri_output *o, const char *data, size_t size)
{
    while (size > 0 && !o->why) {
        ssize_t done = write(o->fd, data, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            o->why = errno;
            return;
        }
        data += done;
        size -= (size_t)done;
    }
}

static void flush(struct dtri_output *o)
{
    write_out(o, o->buffer, o->used);
    o->used = 0;
}

void dtri_output_write(struct dtri_output *o, const void *data, size_t size)
{
    o->size += (int64_t)size;
    if (size == 0)
        return;
    if (size > BUFFER_BYTES - o->used)
        flush(o);
    if (size > BUFFER_BYTES) {
        write_out(o, data, size);
        return;
    }
    memcpy(o->buffer + o->used, data, size);
    o->used += size;
}

void dtri_output_text(struct dtri_output *o, const char *text)
{
    dtri_output_write(o, text, strlen(text));
}

void dtri_output_format(struct dtri_output *o, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n >= (int)sizeof text) {
        char *longer = dtri_malloc((size_t)n + 1);
        if (!longer) {
            o->why = o->why ? o->why : ENOMEM;
            return;
        }
        va_start(arguments, format);
        vsnprintf(longer, (size_t)n + 1, format, arguments);
        va_end(arguments);
        dtri_output_write(o, longer, (size_t)n);
        dtri_free(longer);
        return;
    }
    dtri_output_write(o, text, (size_t)n);
}

void dtri_output_int(struct dtri_output *o, int64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        digits[--at] = '-';
    dtri_output_write(o, digits + at, sizeof digits - at);
}

void dtri_output_json(struct dtri_output *o, const char *text)
{
    const char *at = text;
    dtri_output_write(o, "\"", 1);
    while (*at) {
        size_t n = dtri_utf8_sequence(at);
        if (n == 0) {
            dtri_output_text(o, "\xef\xbf\xbd");
            at++;
            continue;
        }
        if (*at == '"' || *at == '\\') {
            dtri_output_write(o, "\\", 1);
            dtri_output_write(o, at, 1);
        } else if ((*at > 0 && *at < 0x20) || *at == 0x7f) {
            dtri_output_format(o, "\\u%04x", *at);
        } else {
            dtri_output_write(o, at, n);
        }
        at += n;
    }
    dtri_output_write(o, "\"", 1);
}

int64_t dtri_output_size(const struct dtri_output *o)
{
    return o->size;
}

bool dtri_output_good(const struct dtri_output *o)
{
    return o->why == 0;
}

dtr_status dtri_output_close(struct dtri_output *o, bool keep, dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (keep)
        flush(o);
    if (keep && o->temporary && !o->why && fsync(o->fd) != 0 && errno != EINVAL)
        o->why = errno;
    if (keep && o->temporary && !o->why && rename(o->temporary, o->path) != 0)
        o->why = errno;
    if (o->temporary && (!keep || o->why))
        unlink(o->temporary);
    if (keep && o->why)
        status = dtri_fail(error, o->why == ENOSPC || o->why == EDQUOT ? DTR_E_FULL : DTR_E_IO,
                           o->why, "cannot write %s: %s",
                           strcmp(o->path, "-") ? o->path : "standard output", strerror(o->why));
    output_free(o);
    return status;
}
