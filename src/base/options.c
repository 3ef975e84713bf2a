#include "base/options.h"

#include <string.h>

#include "base/error.h"
#include "base/units.h"

static dtr_status set_choice(const struct dtri_option *option, int *value, const char *text,
                             dtr_error *error)
{
    char known[256] = "";
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *value = i;
            return DTR_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", option->choices[i]);
    }
    return dtri_fail(error, DTR_E_INVALID, 0, "'%.64s' is not one of %s", text, known);
}

static dtr_status set_value(const struct dtri_option *option, void *value, const char *text,
                            dtr_error *error)
{
    switch (option->type) {
    case DTRI_OPTION_FLAG:
        *(bool *)value = strcmp(text, "0") != 0 && strcmp(text, "no") != 0;
        return DTR_OK;
    case DTRI_OPTION_TEXT:
        *(const char **)value = text;
        return DTR_OK;
    case DTRI_OPTION_COUNT:
        return dtri_parse_count(text, option->min, option->max, value, error);
    case DTRI_OPTION_BYTES:
        return dtri_parse_bytes(text, value, error);
    case DTRI_OPTION_DURATION:
        return dtri_parse_duration(text, value, error);
    case DTRI_OPTION_BUDGET:
        return dtri_parse_budget(text, value, error);
    case DTRI_OPTION_CHOICE:
        return set_choice(option, value, text, error);
    }
    return DTR_E_INVALID;
}

dtr_status dtri_option_set(const struct dtri_option *option, void *settings, const char *text,
                           dtr_error *error)
{
    dtr_error why = {0};
    dtr_status status = set_value(option, (char *)settings + option->offset, text, &why);
    if (status != DTR_OK)
        dtri_fail(error, status, 0, "--%s: %.400s", option->name, why.text);
    return status;
}

#define MAX_TYPO 64 /* longer names are not guessed at */

/* Letters to put in, take out or change to get from one name to the other (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
    size_t row[MAX_TYPO + 1], n = strlen(a), m = strlen(b);
    if (n > MAX_TYPO || m > MAX_TYPO)
        return n + m;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            size_t one_more = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < one_more ? change : one_more;
        }
    }
    return row[m];
}

static dtr_status unknown(const struct dtri_option *table, const char *given, dtr_error *error)
{
    const struct dtri_option *nearest = table;
    char bare[MAX_TYPO + 1] = "";
    strncat(bare, given + strspn(given, "-"), MAX_TYPO);
    bare[strcspn(bare, "=")] = '\0';
    for (const struct dtri_option *o = table; o->name; o++)
        if (distance(o->name, bare) < distance(nearest->name, bare))
            nearest = o;
    if (nearest->name && strlen(bare) > 2 && distance(nearest->name, bare) <= 3)
        return dtri_fail(error, DTR_E_INVALID, 0, "there is no option %.64s; did you mean --%s?",
                         given, nearest->name);
    return dtri_fail(error, DTR_E_INVALID, 0, "there is no option %.64s; see --help", given);
}

static const struct dtri_option *find(const struct dtri_option *table, const char *given,
                                      const char **out_value)
{
    *out_value = NULL;
    for (const struct dtri_option *o = table; o->name; o++) {
        size_t n = strlen(o->name);
        if (given[1] != '-') {
            if (o->letter == given[1]) {
                *out_value = given[2] ? given + 2 : NULL;
                return o;
            }
        } else if (strncmp(given + 2, o->name, n) == 0 && (!given[2 + n] || given[2 + n] == '=')) {
            *out_value = given[2 + n] ? given + 3 + n : NULL;
            return o;
        }
    }
    return NULL;
}

dtr_status dtri_options_parse(const struct dtri_option *table, void *settings, int argc,
                              char **argv, struct dtri_arguments *out, dtr_error *error)
{
    *out = (struct dtri_arguments){.positionals = argv + 1};
    for (int i = 1; i < argc; i++) {
        char *given = argv[i];
        if (strcmp(given, "--") == 0) {
            out->rest = argv + i + 1;
            break;
        }
        if (given[0] != '-' || !given[1]) { /* "-" is a file */
            out->positionals[out->n_positionals++] = given;
            continue;
        }
        if (strcmp(given, "--help") == 0 || strcmp(given, "-h") == 0) {
            out->help = true;
            continue;
        }
        const char *value;
        const struct dtri_option *option = find(table, given, &value);
        if (!option)
            return unknown(table, given, error);
        if (option->type == DTRI_OPTION_FLAG && !value)
            value = "1";
        else if (!value && i + 1 < argc)
            value = argv[++i];
        if (!value)
            return dtri_fail(error, DTR_E_INVALID, 0, "--%s needs %s", option->name,
                             option->argument);
        dtr_status status = dtri_option_set(option, settings, value, error);
        if (status != DTR_OK)
            return status;
    }
    return DTR_OK;
}

void dtri_options_print(const struct dtri_option *table, FILE *out)
{
    for (const struct dtri_option *o = table; o->name; o++) {
        char left[64], letter[8] = "    ";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
                 o->argument ? o->argument : "");
        fprintf(out, "  %-30s %s\n", left, o->help);
    }
}
