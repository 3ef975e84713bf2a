#include "cli/common.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/store.h"
#include "store/store_trace.h"

const char *const dtri_cli_formats[] = {"table", "json", NULL};

int dtri_cli_fail(const struct dtri_command *command, const dtr_error *error)
{
    fprintf(stderr, "dtrscope %s: %s\n", command->name,
            error->text[0] ? error->text : dtr_status_text(error->status));
    switch (error->status) {
    case DTR_E_INVALID:
    case DTR_E_NOT_FOUND:
    case DTR_E_UNSUPPORTED:
        return DTRI_EXIT_USAGE;
    case DTR_E_SCHEMA:
        return DTRI_EXIT_SCHEMA;
    default:
        return DTRI_EXIT_FAILURE;
    }
}

int dtri_cli_help(const struct dtri_command *command, const struct dtri_option *table)
{
    printf("usage: dtrscope %s %s\n\n%s\n", command->name, command->synopsis, command->summary);
    if (table && table->name) {
        puts("\noptions:");
        dtri_options_print(table, stdout);
    }
    return DTRI_EXIT_OK;
}

int dtri_cli_usage(const struct dtri_command *command, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "dtrscope %s: ", command->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: dtrscope %s %s\n", command->name, command->synopsis);
    return DTRI_EXIT_USAGE;
}

dtr_status dtri_cli_open_trace(const char *path, struct dtri_trace **out_trace, dtr_error *error)
{
    char head[16] = "";
    FILE *file = strcmp(path, "-") == 0 ? NULL : fopen(path, "rb");
    if (file) {
        size_t n = fread(head, 1, sizeof head, file);
        fclose(file);
        if (n == sizeof head && memcmp(head, "SQLite format 3", 16) == 0)
            return dtri_store_read_trace(path, out_trace, error);
    }
    return dtri_trace_read_log(path, out_trace, error);
}

dtr_status dtri_cli_remat_limit(const char *text, const struct dtri_trace *trace, int64_t *out_ns,
                                dtr_error *error)
{
    size_t n = strlen(text);
    if (strcmp(text, "none") == 0) {
        *out_ns = DTR_NONE;
        return DTR_OK;
    }
    if (n < 2 || text[n - 1] != 'x')
        return dtri_parse_duration(text, out_ns, error);
    char *end;
    double factor = strtod(text, &end);
    if (end != text + n - 1 || !(factor >= 0) || factor > 1e6)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "--remat-limit: '%.32s' is no limit; write 1x, 500ms or none", text);
    *out_ns = (int64_t)fmin(factor * (double)trace->compute_ns, 0x1p61);
    return DTR_OK;
}
