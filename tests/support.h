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

/* A path in a fresh directory under the build's temporary files; static storage, one at a time. */
static inline const char *scratch(const char *name)
{
    static char directory[256], path[512];
    if (!directory[0]) {
        snprintf(directory, sizeof directory, "%s/dtrscope-test-XXXXXX",
                 environment("TMPDIR", "/tmp"));
        if (!mkdtemp(directory))
            abort();
    }
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

#endif
