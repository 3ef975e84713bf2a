/* Status codes and error details.
 *
 * Every function that can fail returns a dtr_status: DTR_OK is 0, failures are negative.  Where a
 * sentence helps, the last argument is an optional struct dtr_error that the function fills on
 * failure and leaves alone on success.  Both may be used from any thread. */
#ifndef DTR_STATUS_H
#define DTR_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DTR_API               __attribute__((visibility("default")))
#define DTR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define DTR_API
#define DTR_PRINTF(fmt, args)
#endif

/* The one list of statuses: name, value, text. */
#define DTR_STATUS_LIST(X)                                                                         \
    X(OK, 0, "no error")                                                                           \
    X(E_NOMEM, -1, "the host has no memory left")                                                  \
    X(E_INVALID, -2, "an argument is not valid")                                                   \
    X(E_OUT_OF_MEMORY, -3, "the budget cannot be met: nothing is left to evict")                   \
    X(E_THRASHED, -4, "replays cost more than the limit allows")                                   \
    X(E_BACKEND, -5, "the device backend failed")                                                  \
    X(E_HEURISTIC, -6, "the heuristic failed or returned NaN")                                     \
    X(E_NOT_FOUND, -7, "there is no such thing")                                                   \
    X(E_IO, -8, "reading or writing failed")                                                       \
    X(E_FORMAT, -9, "the input is not in the expected format")                                     \
    X(E_SCHEMA, -10, "the file has a schema that this program does not know")                      \
    X(E_LIMIT, -11, "a limit was exceeded")                                                        \
    X(E_STATE, -12, "the call is not allowed now")                                                 \
    X(E_UNSUPPORTED, -13, "this is not supported here")                                            \
    X(E_FULL, -14, "the disk or a buffer is full")                                                 \
    X(E_INTERRUPTED, -15, "interrupted")

typedef enum dtr_status {
#define DTR_STATUS_ENUM(name, value, text) DTR_##name = (value),
    DTR_STATUS_LIST(DTR_STATUS_ENUM)
#undef DTR_STATUS_ENUM
} dtr_status;

#define DTR_ERROR_TEXT_BYTES 512

/* Details of a failure.  `foreign` is the number that the library below gave (errno, an SQLite or
 * CUDA code), 0 where there is none; `text` is a NUL-terminated sentence with names and values. */
typedef struct dtr_error {
    dtr_status status;
    int foreign;
    char text[DTR_ERROR_TEXT_BYTES];
} dtr_error;

/* "E_NOMEM" and its text; a static string, also for numbers that are no status. */
DTR_API const char *dtr_status_name(dtr_status status);
DTR_API const char *dtr_status_text(dtr_status status);

#ifdef __cplusplus
}
#endif
#endif
