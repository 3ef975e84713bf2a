/* Where an export goes: a file that appears under its name only when it is whole, or standard
 * output.  Writes are buffered; the first failure is kept and told by dtri_output_close. */
#ifndef DTRI_EXPORT_OUTPUT_H
#define DTRI_EXPORT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtr/status.h"

struct dtri_output;
/* `path` "-" is standard output.  An existing file is refused (DTR_E_STATE) unless `force`. */
dtr_status dtri_output_open(const char *path, bool force, struct dtri_output **out_output,
                            dtr_error *error);
void dtri_output_write(struct dtri_output *output, const void *data, size_t size);
void dtri_output_text(struct dtri_output *output, const char *text);
void dtri_output_format(struct dtri_output *output, const char *format, ...) DTR_PRINTF(2, 3);
/* A decimal number, without the cost of a format. */
void dtri_output_int(struct dtri_output *output, int64_t value);
/* A JSON string with its quotes.  What is no UTF-8 becomes U+FFFD; control bytes are escaped. */
void dtri_output_json(struct dtri_output *output, const char *text);
/* Bytes written so far. */
int64_t dtri_output_size(const struct dtri_output *output);
/* False after a failure: whoever writes much may stop. */
bool dtri_output_good(const struct dtri_output *output);
/* With `keep`, syncs the file and gives it its name; without, or after a failed write, nothing
 * appears.  Frees the output. */
dtr_status dtri_output_close(struct dtri_output *output, bool keep, dtr_error *error);

#endif
