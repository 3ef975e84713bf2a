/* What the tests share: cmocka with its headers, where things are, reading JSON lines. */
#ifndef DTR_TESTS_SUPPORT_H
#define DTR_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dtr/status.h"

#define SKIP_CODE 77

static inline const char *environment(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value && value[0] ? value : fallback;
}

/* Fails the test with the error's text unless the status is DTR_OK. */
#define assert_ok(status, error)                                                                   \
    do {                                                                                           \
        dtr_status status_ = (status);                                                             \
        if (status_ != DTR_OK)                                                                     \
            fail_msg("%s: %s", dtr_status_name(status_), (error)->text);                           \
    } while (0)

static char scratch_directory[256];
static long scratch_owner; /* process: a child that exits leaves it alone */

static inline int scratch_remove_one(const char *path, const struct stat *about, int type,
                                     struct FTW *place)
{
    (void)about, (void)type, (void)place;
    return remove(path);
}

static inline void scratch_remove(void)
{
    if (scratch_owner == (long)getpid())
        nftw(scratch_directory, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A path in a fresh directory under the build's temporary files, which goes when the program ends;
 * static storage, one at a time. */
static inline const char *scratch(const char *name)
{
    static char path[512];
    if (!scratch_directory[0]) {
        snprintf(scratch_directory, sizeof scratch_directory, "%s/dtrscope-test-XXXXXX",
                 environment("TMPDIR", "/tmp"));
        if (!mkdtemp(scratch_directory))
            abort();
        scratch_owner = (long)getpid();
        atexit(scratch_remove);
    }
    snprintf(path, sizeof path, "%s/%s", scratch_directory, name);
    return path;
}

#endif
