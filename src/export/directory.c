#include "export/directory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/table.h"

#define PATH_BYTES 4096

static dtr_status io_failed(const char *path, dtr_error *error)
{
    return dtri_fail(error, DTR_E_IO, errno, "cannot write %.400s: %s", path, strerror(errno));
}

static dtr_status is_empty(const struct dtri_export *job, const char *name, bool *out_empty,
                           dtr_error *error)
{
    struct dtri_table *table;
    const struct dtri_cell *cells;
    dtr_status status = dtri_table_open(job, name, &table, error);
    if (status != DTR_OK)
        return status;
    status = dtri_table_next(table, &cells, error);
    *out_empty = !cells;
    dtri_table_free(table);
    return status;
}

static dtr_status write_table(struct dtri_export *job, const struct dtri_export_format *format,
                              const char *path, dtr_error *error)
{
    struct dtri_output *output;
    dtr_status status = dtri_output_open(path, true, &output, error);
    if (status != DTR_OK)
        return status;
    status = format->write(job, output, error);
    dtr_status closed = dtri_output_close(output, status == DTR_OK, error);
    return status == DTR_OK ? closed : status;
}

static bool table_path(char *path, const char *directory, const char *table,
                       const struct dtri_export_format *format)
{
    return snprintf(path, PATH_BYTES, "%s/%s.%s", directory, table, format->extension) < PATH_BYTES;
}

static dtr_status write_tables(struct dtri_export *job, const struct dtri_export_format *format,
                               const char *directory, dtr_error *error)
{
    char path[PATH_BYTES];
    dtr_status status = DTR_OK;
    for (int i = 0; status == DTR_OK && dtri_table_name(i); i++) {
        bool empty = !dtri_table_wanted(job, dtri_table_name(i));
        job->table = dtri_table_name(i);
        if (!table_path(path, directory, job->table, format)) {
            errno = ENAMETOOLONG;
            return io_failed(directory, error);
        }
        if (!empty && dtri_table_is_kind(job->table))
            status = is_empty(job, job->table, &empty, error);
        if (status == DTR_OK && !empty)
            status = write_table(job, format, path, error);
        else if (status == DTR_OK && unlink(path) != 0 && errno != ENOENT)
            status = io_failed(path, error);
    }
    return status;
}

static void remove_tables(const struct dtri_export_format *format, const char *directory)
{
    char path[PATH_BYTES];
    for (int i = 0; dtri_table_name(i); i++)
        if (table_path(path, directory, dtri_table_name(i), format))
            unlink(path);
    rmdir(directory);
}

static dtr_status write_new(struct dtri_export *job, const struct dtri_export_format *format,
                            const char *path, dtr_error *error)
{
    char temporary[PATH_BYTES];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (snprintf(temporary, sizeof temporary, "%.*s.%ld.part", (int)n, path, (long)getpid()) >=
        (int)sizeof temporary) {
        errno = ENAMETOOLONG;
        return io_failed(path, error);
    }
    if (mkdir(temporary, 0777) != 0)
        return io_failed(path, error);
    dtr_status status = write_tables(job, format, temporary, error);
    if (status == DTR_OK && rename(temporary, path) != 0)
        status = io_failed(path, error);
    if (status != DTR_OK)
        remove_tables(format, temporary);
    return status;
}

dtr_status dtri_export_directory(struct dtri_export *job, const struct dtri_export_format *format,
                                 const char *path, bool force, dtr_error *error)
{
    struct stat there;
    if (strcmp(path, "-") == 0)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "standard output takes one table; name one kind with --events");
    if (stat(path, &there) != 0)
        return write_new(job, format, path, error);
    if (!S_ISDIR(there.st_mode))
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s is a file, and many tables make a directory; give another name, or "
                         "one kind with --events",
                         path);
    if (!force)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s exists; give another name, or --force to replace what is in it", path);
    return write_tables(job, format, path, error);
}
