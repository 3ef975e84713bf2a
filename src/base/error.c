#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

const char *dtr_status_name(dtr_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                                    \
    case DTR_##name:                                                                               \
        return #name;
        DTR_STATUS_LIST(CASE)
#undef CASE
    }
    return "UNKNOWN";
}

const char *dtr_status_text(dtr_status status)
{
    switch (status) {
#define CASE(name, value, text)                                                                    \
    case DTR_##name:                                                                               \
        return text;
        DTR_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

dtr_status dtri_fail(dtr_error *error, dtr_status status, int foreign, const char *format, ...)
{
    if (error) {
        va_list args;
        error->status = status;
        error->foreign = foreign;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return status;
}

dtr_status dtri_fail_nomem(dtr_error *error, const char *what)
{
    return dtri_fail(error, DTR_E_NOMEM, 0, "no memory for %s", what);
}
