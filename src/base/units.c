#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct unit {
    const char *name;
    double factor;
};

static const struct unit byte_units[] = {
    {"", 1},         {"B", 1},        {"k", 0x1p10},   {"K", 0x1p10},   {"M", 0x1p20},
    {"G", 0x1p30},   {"T", 0x1p40},   {"kiB", 0x1p10}, {"KiB", 0x1p10}, {"MiB", 0x1p20},
    {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},
    {"GB", 1e9},     {"TB", 1e12},    {NULL, 0},
};

static const struct unit time_units[] = {
    {"", 1}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {NULL, 0},
};

static const struct unit *find_unit(const struct unit *units, const char *name)
{
    for (; units->name; units++)
        if (strcmp(units->name, name) == 0)
            return units;
    return NULL;
}

/* A whole number is taken exactly; anything else goes through double and is cut to an integer. */
static dtr_status parse_quantity(const char *text, const struct unit *units, const char *what,
                                 const char *examples, int64_t *out_value, dtr_error *error)
{
    char *end;
    if (strspn(text, "0123456789") == strlen(text) && text[0]) {
        errno = 0;
        int64_t whole = strtoll(text, &end, 10);
        if (errno)
            return dtri_fail(error, DTR_E_LIMIT, 0, "%s '%.64s' is too large", what, text);
        *out_value = whole;
        return DTR_OK;
    }
    bool decimal = text[0] >= '0' && text[0] <= '9' && text[1] != 'x' && text[1] != 'X';
    double number = decimal ? strtod(text, &end) : NAN;
    const struct unit *unit = isfinite(number) ? find_unit(units, end) : NULL;
    if (!unit)
        return dtri_fail(error, DTR_E_INVALID, 0, "'%.64s' is no %s; write it like %s", text, what,
                         examples);
    double value = number * unit->factor;
    if (value >= 0x1p62)
        return dtri_fail(error, DTR_E_LIMIT, 0, "%s '%.64s' is too large", what, text);
    *out_value = (int64_t)value;
    return DTR_OK;
}

dtr_status dtri_parse_bytes(const char *text, int64_t *out_bytes, dtr_error *error)
{
    int64_t bytes;
    dtr_status status =
        parse_quantity(text, byte_units, "size", "4024471660, 512MiB or 3.5GiB", &bytes, error);
    if (status != DTR_OK)
        return status;
    if (bytes < 1)
        return dtri_fail(error, DTR_E_INVALID, 0, "size '%.64s' is below one byte", text);
    *out_bytes = bytes;
    return DTR_OK;
}

dtr_status dtri_parse_duration(const char *text, int64_t *out_ns, dtr_error *error)
{
    return parse_quantity(text, time_units, "duration", "250ns, 20ms or 1.5s", out_ns, error);
}

dtr_status dtri_parse_count(const char *text, int64_t min, int64_t max, int64_t *out_value,
                            dtr_error *error)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!text[0] || *end || errno)
        return dtri_fail(error, DTR_E_INVALID, 0, "'%.64s' is no whole number", text);
    if (value < min || value > max)
        return dtri_fail(error, DTR_E_INVALID, 0, "%lld is not between %" PRId64 " and %" PRId64,
                         value, min, max);
    *out_value = value;
    return DTR_OK;
}

/* "40%" or "2sqrt". */
static dtr_status parse_factor(const char *text, const char *suffix, double scale,
                               double *out_factor, dtr_error *error)
{
    char *end;
    double number = text[0] >= '0' && text[0] <= '9' ? strtod(text, &end) : NAN;
    if (!isfinite(number) || number <= 0 || number > 1e6 || strcmp(end, suffix) != 0)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "'%.64s' is no budget; write bytes (3.5GiB) or a share (40%%), above 0",
                         text);
    *out_factor = number / scale;
    return DTR_OK;
}

static int ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

dtr_status dtri_parse_budget(const char *text, struct dtri_budget *out_budget, dtr_error *error)
{
    struct dtri_budget budget = {.kind = DTRI_BUDGET_BYTES};
    dtr_status status = DTR_OK;
    if (strcmp(text, "none") == 0) {
        budget.kind = DTRI_BUDGET_NONE;
    } else if (ends_with(text, "%")) {
        budget.kind = DTRI_BUDGET_SHARE;
        status = parse_factor(text, "%", 100, &budget.factor, error);
    } else if (ends_with(text, "sqrt")) {
        budget.kind = DTRI_BUDGET_SQRT;
        status = parse_factor(text, "sqrt", 1, &budget.factor, error);
    } else if (dtri_parse_bytes(text, &budget.bytes, NULL) != DTR_OK) {
        status =
            dtri_fail(error, DTR_E_INVALID, 0,
                      "'%.64s' is no budget; write bytes (4024471660, 3.5GiB) or a share of the "
                      "unlimited peak (40%%), above 0, or none",
                      text);
    }
    if (status == DTR_OK)
        *out_budget = budget;
    return status;
}

int64_t dtri_budget_share(double factor, int64_t peak_bytes)
{
    double bytes = floor(factor * (double)peak_bytes);
    if (bytes < 1)
        return 1;
    return bytes < 0x1p62 ? (int64_t)bytes : INT64_C(1) << 62;
}

static const char *format(double value, const struct unit *units, int n, char *buffer)
{
    int i = 0;
    while (i + 1 < n && fabs(value) >= units[i + 1].factor)
        i++;
    value /= units[i].factor;
    int digits = i == 0 ? 0 : fabs(value) < 10 ? 2 : fabs(value) < 100 ? 1 : 0;
    snprintf(buffer, DTRI_UNITS_TEXT, "%.*f %s", digits, value, units[i].name);
    return buffer;
}

const char *dtri_format_bytes(int64_t bytes, char *buffer)
{
    static const struct unit units[] = {
        {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    };
    return format((double)bytes, units, 5, buffer);
}

const char *dtri_format_ns(int64_t ns, char *buffer)
{
    static const struct unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    return format((double)ns, units, 4, buffer);
}
