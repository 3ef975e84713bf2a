#include "import/json.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "import/utf8.h"

void dtri_json_init(struct dtri_json *json, struct dtri_input *in)
{
    json->in = in;
    json->depth = 0;
    json->value_done = json->after_key = json->long_text = false;
    json->n_text = 0;
    json->text[0] = 0;
}

static dtr_status bad(const struct dtri_json *j, const char *what, dtr_error *error)
{
    dtr_status status = dtri_input_check(j->in, error);
    if (status != DTR_OK)
        return status;
    return dtri_fail(error, DTR_E_FORMAT, 0, "%s: byte %lld: %s; write the trace again",
                     j->in->path, (long long)dtri_input_offset(j->in), what);
}

static int next_visible(struct dtri_json *j)
{
    int c;
    do
        c = dtri_input_byte(j->in);
    while (c == ' ' || c == '\n' || c == '\t' || c == '\r');
    return c;
}

static void put_back(struct dtri_json *j)
{
    j->in->at--; /* of the byte read last, which is still in the buffer */
}

static void append(struct dtri_json *j, int byte)
{
    if (j->n_text + 1 < DTRI_JSON_TEXT)
        j->text[j->n_text++] = (char)byte;
    else
        j->long_text = true;
}

static void append_utf8(struct dtri_json *j, unsigned code)
{
    char bytes[4];
    int n = dtri_utf8_encode(code, bytes);
    for (int i = 0; i < n; i++)
        append(j, bytes[i]);
}

/* Four hex digits, or -1. */
static int read_hex(struct dtri_json *j)
{
    int code = 0;
    for (int i = 0; i < 4; i++) {
        int c = dtri_input_byte(j->in);
        if (c < 0 || !isxdigit(c))
            return -1;
        code = code * 16 + (isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    }
    return code;
}

/* What follows \u; a pair of surrogates makes one character. */
static dtr_status read_unicode(struct dtri_json *j, dtr_error *error)
{
    int code = read_hex(j);
    while (code >= 0xd800 && code < 0xdc00) {
        int c = dtri_input_byte(j->in);
        if (c != '\\') {
            append_utf8(j, 0xfffd);
            if (c >= 0)
                put_back(j);
            return DTR_OK;
        }
        c = dtri_input_byte(j->in);
        if (c != 'u') { /* an escape of another kind: the caller has taken its backslash */
            append_utf8(j, 0xfffd);
            append(j, c == 'n' ? '\n' : c == 't' ? '\t' : c < 0 ? '?' : c);
            return DTR_OK;
        }
        int low = read_hex(j);
        if (low >= 0xdc00 && low < 0xe000) {
            append_utf8(j, 0x10000 + (((unsigned)code - 0xd800) << 10) + (unsigned)low - 0xdc00);
            return DTR_OK;
        }
        append_utf8(j, 0xfffd);
        code = low;
    }
    if (code < 0)
        return bad(j, "\\u without four hexadecimal digits", error);
    append_utf8(j, (unsigned)code);
    return DTR_OK;
}

static dtr_status read_escape(struct dtri_json *j, dtr_error *error)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = dtri_input_byte(j->in);
    if (c < 0)
        return DTR_OK; /* the end is noticed by the caller */
    if (c == 'u')
        return read_unicode(j, error);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at) /* some writers leave paths as they are */
        append(j, '\\');
    append(j, at ? to[at - from] : c ? c : '?');
    return DTR_OK;
}

/* Up to the closing quote; *out_cut: the file ended first. */
static dtr_status read_string(struct dtri_json *j, bool *out_cut, dtr_error *error)
{
    j->n_text = 0;
    j->long_text = false;
    *out_cut = false;
    for (;;) {
        int c = dtri_input_byte(j->in);
        if (c < 0)
            *out_cut = true;
        if (c < 0 || c == '"')
            break;
        if (c == '\\') {
            dtr_status status = read_escape(j, error);
            if (status != DTR_OK)
                return status;
        } else {
            append(j, c ? c : '?');
        }
    }
    j->text[j->n_text] = 0;
    return DTR_OK;
}

/* A number, true, false, null, NaN or Infinity: letters up to what cannot belong to it. */
static dtr_status read_word(struct dtri_json *j, int c, enum dtri_json_token *out_token,
                            dtr_error *error)
{
    j->n_text = 0;
    j->long_text = false;
    for (; c >= 0 && (isalnum(c) || strchr("+-.", c)) && c; c = dtri_input_byte(j->in))
        append(j, c);
    if (c >= 0)
        put_back(j);
    j->text[j->n_text] = 0;
    const char *t = j->text;
    const char *digits = *t == '-' ? t + 1 : t;
    if (isdigit((unsigned char)*digits))
        *out_token = DTRI_JSON_NUMBER;
    else if (strcmp(t, "true") == 0 || strcmp(t, "false") == 0)
        *out_token = DTRI_JSON_BOOL;
    else if (strcmp(t, "null") == 0 || strcmp(digits, "NaN") == 0 || strcmp(digits, "nan") == 0 ||
             strcmp(digits, "Infinity") == 0 || strcmp(digits, "inf") == 0)
        *out_token = DTRI_JSON_NULL;
    else if (c < 0 && j->n_text > 0 &&
             (strncmp("true", t, j->n_text) == 0 || !*digits ||
              strncmp("false", t, j->n_text) == 0 || strncmp("null", t, j->n_text) == 0))
        *out_token = DTRI_JSON_CUT;
    else
        return bad(j, "this is no JSON value", error);
    return DTR_OK;
}

static dtr_status open_level(struct dtri_json *j, bool object, enum dtri_json_token *out_token,
                             dtr_error *error)
{
    if (j->depth == DTRI_JSON_DEPTH)
        return bad(j, "nested too deeply", error);
    j->in_object[j->depth++] = object;
    j->value_done = j->after_key = false;
    *out_token = object ? DTRI_JSON_OBJECT : DTRI_JSON_ARRAY;
    return DTR_OK;
}

static dtr_status close_level(struct dtri_json *j, bool object, enum dtri_json_token *out_token,
                              dtr_error *error)
{
    if (!j->depth || j->in_object[j->depth - 1] != object || j->after_key)
        return bad(j, "a bracket closes what it did not open", error);
    j->depth--;
    j->value_done = true;
    *out_token = object ? DTRI_JSON_OBJECT_END : DTRI_JSON_ARRAY_END;
    return DTR_OK;
}

static dtr_status read_key(struct dtri_json *j, enum dtri_json_token *out_token, dtr_error *error)
{
    bool cut;
    dtr_status status = read_string(j, &cut, error);
    if (status != DTR_OK)
        return status;
    int c = cut ? -1 : next_visible(j);
    if (c >= 0 && c != ':')
        return bad(j, "a key without a colon", error);
    j->after_key = true;
    *out_token = c < 0 ? DTRI_JSON_CUT : DTRI_JSON_KEY;
    return DTR_OK;
}

static dtr_status read_value(struct dtri_json *j, int c, enum dtri_json_token *out_token,
                             dtr_error *error)
{
    bool cut;
    dtr_status status;
    j->after_key = false;
    j->value_done = true;
    if (c == '{' || c == '[')
        return open_level(j, c == '{', out_token, error);
    if (c != '"')
        return read_word(j, c, out_token, error);
    status = read_string(j, &cut, error);
    *out_token = cut ? DTRI_JSON_CUT : DTRI_JSON_STRING;
    return status;
}

dtr_status dtri_json_next(struct dtri_json *j, enum dtri_json_token *out_token, dtr_error *error)
{
    if (j->value_done && j->depth == 0) {
        *out_token = DTRI_JSON_END;
        return DTR_OK;
    }
    int c = next_visible(j);
    if (j->value_done && c == ',') {
        j->value_done = false;
        c = next_visible(j);
    } else if (j->value_done && c >= 0 && c != '}' && c != ']') {
        return bad(j, "a comma is missing", error);
    }
    if (c < 0) {
        *out_token = DTRI_JSON_CUT;
        return dtri_input_check(j->in, error);
    }
    if (c == '}' || c == ']')
        return close_level(j, c == '}', out_token, error);
    if (j->depth && j->in_object[j->depth - 1] && !j->after_key) {
        if (c != '"')
            return bad(j, "a key has to be a text", error);
        return read_key(j, out_token, error);
    }
    return read_value(j, c, out_token, error);
}

dtr_status dtri_json_skip(struct dtri_json *j, enum dtri_json_token token, dtr_error *error)
{
    int depth = j->depth - 1;
    if (token != DTRI_JSON_OBJECT && token != DTRI_JSON_ARRAY)
        return DTR_OK;
    while (j->depth > depth) {
        dtr_status status = dtri_json_next(j, &token, error);
        if (status != DTR_OK || token == DTRI_JSON_CUT)
            return status; /* the next token says so again */
    }
    return DTR_OK;
}

/* The exponent behind `e`, at most 9999 either way; false: none. */
static bool read_exponent(const char *t, int *out)
{
    int sign = 1, value = 0;
    if (*t == '+' || *t == '-')
        sign = *t++ == '-' ? -1 : 1;
    if (!isdigit((unsigned char)*t))
        return false;
    for (; isdigit((unsigned char)*t); t++)
        value = value < 9999 ? value * 10 + (*t - '0') : value;
    *out = sign * value;
    return *t == 0;
}

bool dtri_json_integer(const char *text, int scale, int64_t *out)
{
    const char *t = *text == '-' ? text + 1 : text;
    int64_t value = 0;
    int point = 0, exponent = 0, dropped = 0, round = 0; /* dropped: digits that do not fit */
    bool any = false, fraction = false;
    for (; isdigit((unsigned char)*t) || (*t == '.' && !fraction); t++) {
        if (*t == '.') {
            fraction = true;
            continue;
        }
        any = true;
        if (value <= (INT64_MAX - 9) / 10)
            value = value * 10 + (*t - '0');
        else
            dropped++;
        point += fraction;
    }
    if (!any || (*t && ((*t != 'e' && *t != 'E') || !read_exponent(t + 1, &exponent))))
        return false;
    int shift = scale + exponent + dropped - point;
    for (; shift > 0 && value; shift--)
        if (__builtin_mul_overflow(value, (int64_t)10, &value))
            return false;
    for (; shift < 0 && (value || round); shift++) {
        round = value % 10 >= 5;
        value /= 10;
    }
    value += round;
    *out = *text == '-' ? -value : value;
    return true;
}
