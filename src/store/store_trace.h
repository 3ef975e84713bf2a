/* A recorded run as a trace. */
#ifndef DTRI_STORE_STORE_TRACE_H
#define DTRI_STORE_STORE_TRACE_H

#include "trace/trace.h"

/* The first run with events in the database at `path`, as what the program asked for, with the
 * costs of first runs.  A run with lost events is refused, since its trace would have holes. */
dtr_status dtri_store_read_trace(const char *path, struct dtri_trace **out_trace, dtr_error *error);

#endif
