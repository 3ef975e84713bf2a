/* Settings as tables: one row a setting, from which the command line, environment variables, help
 * and the table of settings in a file follow.  Precedence: default < environment < command line. */
#ifndef DTRI_BASE_OPTIONS_H
#define DTRI_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "dtr/status.h"

enum dtri_option_type {
    DTRI_OPTION_FLAG,     /* bool; no argument */
    DTRI_OPTION_TEXT,     /* const char *; borrowed from argv or the environment */
    DTRI_OPTION_COUNT,    /* int64_t within min..max */
    DTRI_OPTION_BYTES,    /* int64_t */
    DTRI_OPTION_DURATION, /* int64_t ns */
    DTRI_OPTION_BUDGET,   /* struct dtri_budget */
    DTRI_OPTION_CHOICE,   /* int: place in choices */
};

struct dtri_option {
    const char *name;     /* --name; NULL ends a table */
    char letter;          /* -o, or 0 */
    const char *argument; /* its name in the help, NULL for flags */
    enum dtri_option_type type;
    size_t offset; /* of the value in the settings struct */
    const char *help;
    const char *environment;    /* name of the variable, or NULL */
    const char *const *choices; /* NULL-terminated */
    int64_t min, max;
};

/* Sets the value that `text` gives to `option`; the error names the option. */
dtr_status dtri_option_set(const struct dtri_option *option, void *settings, const char *text,
                           dtr_error *error);

struct dtri_arguments {
    char **positionals; /* what is no option, in order; points into argv */
    int n_positionals;
    char **rest; /* after `--`, NULL-terminated; NULL without one */
    bool help;   /* --help or -h was there */
};

/* Parses argv[1..argc) against the table, reordering argv so that positionals stand together.
 * DTR_E_INVALID with a sentence for people on a bad one. */
dtr_status dtri_options_parse(const struct dtri_option *table, void *settings, int argc,
                              char **argv, struct dtri_arguments *out, dtr_error *error);

/* Prints the rows of a table, for --help. */

void dtri_options_print(const struct dtri_option *table, FILE *out);

#endif
