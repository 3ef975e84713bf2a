#include "session/filename.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"
#include "dtr/event.h"

int64_t dtri_launcher_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",    "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "SLURM_PROCID", "RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        int64_t rank;
        dtr_error error;
        if (text && dtri_parse_count(text, 0, INT32_MAX, &rank, &error) == DTR_OK)
            return rank;
    }
    return DTR_NONE;
}

int dtri_filename_has_placeholder(const char *pattern)
{
    for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 1, '%')) {
        if (at[1] != '%')
            return 1;
        at++;
    }
    return 0;
}

/* The value of a variable as part of one file name. */
static void variable(const char *name, size_t length, char *out, size_t size)
{
    char key[256] = "";
    if (length < sizeof key)
        memcpy(key, name, length);
    const char *value = getenv(key);
    snprintf(out, size, "%s", value ? value : "");
    for (char *slash = strchr(out, '/'); slash; slash = strchr(slash, '/'))
        *slash = '_';
}

/* Expands the placeholder at `at`; returns how long it is, 0 when it is none. */
static size_t placeholder(const char *at, char *out, size_t size)
{
    const char *end;
    if (at[1] == '%')
        return (size_t)snprintf(out, size, "%%") + 1;
    if (at[1] == 'p') {
        snprintf(out, size, "%ld", (long)getpid());
        return 2;
    }
    if (strncmp(at, "%rank%", 6) == 0) {
        int64_t rank = dtri_launcher_rank();
        snprintf(out, size, "%" PRId64, rank == DTR_NONE ? 0 : rank);
        return 6;
    }
    if (strncmp(at, "%hostname%", 10) == 0) {
        gethostname(out, size - 1);
        out[size - 1] = 0;
        return 10;
    }
    if (strncmp(at, "%env{", 5) == 0 && (end = strstr(at, "}%"))) {
        variable(at + 5, (size_t)(end - at - 5), out, size);
        return (size_t)(end - at) + 2;
    }
    return 0;
}

dtr_status dtri_filename_expand(const char *pattern, char *out, size_t size, dtr_error *error)
{
    size_t used = 0;
    for (const char *at = pattern; *at;) {
        char part[1024] = {*at, 0};
        size_t length = *at == '%' ? placeholder(at, part, sizeof part) : 1;
        if (!length)
            return dtri_fail(error, DTR_E_INVALID, 0,
                             "%s: there is no placeholder \"%.12s\"; there are %%p, %%rank%%, "
                             "%%hostname%%, %%env{NAME}%% and %%%% for a percent sign",
                             pattern, at);
        size_t n = strlen(part);
        if (used + n >= size)
            return dtri_fail(error, DTR_E_INVALID, 0, "%s: the name gets too long", pattern);
        memcpy(out + used, part, n);
        used += n;
        at += length;
    }
    out[used] = 0;
    return DTR_OK;
}
