/* Filling struct dtr_error. */
#ifndef DTRI_BASE_ERROR_H
#define DTRI_BASE_ERROR_H

#include "dtr/status.h"

/* Sets *error (if not NULL) and returns `status`, so that callers can write
 * `return dtri_fail(error, DTR_E_IO, errno, "cannot read %s", path);`.  Texts are cut to fit. */
dtr_status dtri_fail(dtr_error *error, dtr_status status, int foreign, const char *format, ...)
    DTR_PRINTF(4, 5);

/* dtri_fail for a failed allocation of `what`. */
dtr_status dtri_fail_nomem(dtr_error *error, const char *what);

#endif
