/* What several commands do. */
#ifndef DTRI_CLI_COMMON_H
#define DTRI_CLI_COMMON_H

#include "base/options.h"
#include "base/units.h"
#include "cli/cli.h"
#include "session/settings.h"
#include "sim/sim.h"

/* Prints "dtrscope VERB: text" to stderr and returns the exit code that fits the status. */
int dtri_cli_fail(const struct dtri_command *command, const dtr_error *error);
/* Prints usage and options to stdout; returns DTRI_EXIT_OK. */
int dtri_cli_help(const struct dtri_command *command, const struct dtri_option *table);
/* A usage error that is no option's: prints it with a hint at --help, returns DTRI_EXIT_USAGE. */
int dtri_cli_usage(const struct dtri_command *command, const char *format, ...) DTR_PRINTF(2, 3);

/* A trace from an operator log or a recorded run, told apart by content. */
dtr_status dtri_cli_open_trace(const char *path, struct dtri_trace **out_trace, dtr_error *error);

extern const char *const dtri_cli_formats[]; /* table, json */

/* "1x" (times the model's own cost), "none", or a duration; relative ones need the trace. */
dtr_status dtri_cli_remat_limit(const char *text, const struct dtri_trace *trace, int64_t *out_ns,
                                dtr_error *error);

#endif
