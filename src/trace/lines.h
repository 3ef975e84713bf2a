/* Lines of a plain or .xz file. */
#ifndef DTRI_TRACE_LINES_H
#define DTRI_TRACE_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "dtr/status.h"

struct dtri_lines;

/* "-" is standard input.  The kind is told by the first bytes, not by the name. */
dtr_status dtri_lines_open(const char *path, struct dtri_lines **out_lines, dtr_error *error);
void dtri_lines_close(struct dtri_lines *lines); /* accepts NULL */
/* The next line without its end, borrowed until the next call; *out_line is NULL at the end. */
dtr_status dtri_lines_next(struct dtri_lines *lines, char **out_line, size_t *out_length,
                           dtr_error *error);
int64_t dtri_lines_number(const struct dtri_lines *lines); /* of the line read last, from 1 */

#endif
