/* JSON token by token, in bounded memory: for files that do not fit.
 *
 * Texts longer than DTRI_JSON_TEXT bytes are cut.  Read leniently where writers of traces are:
 * a comma before a closing bracket, NaN and Infinity (JSON_NULL), control characters in texts. */
#ifndef DTRI_IMPORT_JSON_H
#define DTRI_IMPORT_JSON_H

#include <stdbool.h>

#include "import/input.h"

#define DTRI_JSON_TEXT  8192
#define DTRI_JSON_DEPTH 512

enum dtri_json_token {
    DTRI_JSON_END, /* of the outermost value */
    DTRI_JSON_CUT, /* of the file, before that */
    DTRI_JSON_OBJECT,
    DTRI_JSON_OBJECT_END,
    DTRI_JSON_ARRAY,
    DTRI_JSON_ARRAY_END,
    DTRI_JSON_KEY,
    DTRI_JSON_STRING,
    DTRI_JSON_NUMBER,
    DTRI_JSON_BOOL, /* text is "true" or "false" */
    DTRI_JSON_NULL,
};

struct dtri_json {
    struct dtri_input *in;
    int depth;
    bool in_object[DTRI_JSON_DEPTH];
    bool value_done; /* a comma or a closing bracket comes next */
    bool after_key;
    bool long_text;            /* the last text was cut */
    char text[DTRI_JSON_TEXT]; /* of a key, string, number or bool; UTF-8 where the file's is */
    size_t n_text;
};

/* Borrows the input. */
void dtri_json_init(struct dtri_json *json, struct dtri_input *in);
/* DTR_E_FORMAT names the byte where it is no JSON. */
dtr_status dtri_json_next(struct dtri_json *json, enum dtri_json_token *out_token,
                          dtr_error *error);
/* Passes over the rest of a value whose first token is `token`. */
dtr_status dtri_json_skip(struct dtri_json *json, enum dtri_json_token token, dtr_error *error);

/* The text as a decimal number times 10^scale, rounded; false when it is none or out of range. */
bool dtri_json_integer(const char *text, int scale, int64_t *out);

#endif
