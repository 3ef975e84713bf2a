#include "import/opcode.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/utf8.h"

enum argument {
    UNKNOWN,
    NOTHING,
    INT1,
    INT2,
    INT4,
    INT8,
    SIGNED4,
    LONG_1, /* little-endian two's complement after its length */
    LONG_4,
    REAL8,
    LINE,
    UNICODE_LINE, /* Latin-1 with escapes of four and eight digits */
    NUMBER_LINE,
    QUOTED_LINE,
    TEXT1, /* after its length */
    TEXT4,
    TEXT8,
    SKIP1,
    SKIP4,
    SKIP8,
    REFUSED,
};

static const struct {
    const char *name;
    enum argument argument;
} table[256] = {
#define ENTRY(NAME, byte, argument) [byte] = {#NAME, argument},
    DTRI_OPCODES(ENTRY)};

const char *dtri_opcode_name(enum dtri_opcode code)
{
    const char *name = code < 256 ? table[code].name : NULL;
    return name ? name : "unknown";
}

static dtr_status cut_short(const struct dtri_input *in, const struct dtri_op *op, dtr_error *error)
{
    dtr_status status = dtri_input_check(in, error);
    if (status != DTR_OK)
        return status;
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "%s: byte %lld: %s goes beyond the end of the file at byte %lld: it is cut "
                     "short; copy or write it again",
                     in->path, (long long)op->at, dtri_opcode_name(op->code),
                     (long long)dtri_input_offset(in));
}

static dtr_status malformed(const struct dtri_input *in, const struct dtri_op *op, const char *what,
                            dtr_error *error)
{
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "%s: byte %lld: %s: %s; the file is damaged: copy or write it again", in->path,
                     (long long)op->at, dtri_opcode_name(op->code), what);
}

static bool read_unsigned(struct dtri_input *in, int n, uint64_t *out)
{
    unsigned char bytes[8];
    *out = 0;
    if (!dtri_input_read(in, bytes, (size_t)n))
        return false;
    while (n-- > 0)
        *out = *out << 8 | bytes[n];
    return true;
}

/* An integer of n bytes; those beyond the eighth can only say that it is too big. */
static bool read_long(struct dtri_input *in, struct dtri_op *op, uint64_t n)
{
    uint64_t value = 0;
    op->big = n > 8;
    if (op->big)
        return dtri_input_skip(in, n);
    if (!read_unsigned(in, (int)n, &value))
        return false;
    if (n > 0 && n < 8 && value >> (8 * n - 1))
        value |= UINT64_MAX << (8 * n);
    op->integer = (int64_t)value;
    return true;
}

static bool read_real(struct dtri_input *in, struct dtri_op *op)
{
    unsigned char bytes[8];
    uint64_t bits = 0;
    if (!dtri_input_read(in, bytes, sizeof bytes))
        return false;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&op->real, &bits, sizeof bits);
    return true;
}

static bool read_text(struct dtri_input *in, struct dtri_op *op, uint64_t n)
{
    op->n_text = n < DTRI_OPCODE_TEXT ? (size_t)n : DTRI_OPCODE_TEXT;
    if (!dtri_input_read(in, op->text, op->n_text) || !dtri_input_skip(in, n - op->n_text))
        return false;
    return true;
}

static bool read_line(struct dtri_input *in, struct dtri_op *op)
{
    int c;
    op->n_text = 0;
    while ((c = dtri_input_byte(in)) >= 0 && c != '\n')
        if (op->n_text < DTRI_OPCODE_TEXT)
            op->text[op->n_text++] = (char)c;
    if (op->n_text && op->text[op->n_text - 1] == '\r')
        op->n_text--;
    return c >= 0;
}

static void append_utf8(struct dtri_op *op, unsigned code)
{
    char bytes[4];
    int n = dtri_utf8_encode(code, bytes);
    if (op->n_text + (size_t)n > DTRI_OPCODE_TEXT)
        return;
    memcpy(op->text + op->n_text, bytes, (size_t)n);
    op->n_text += (size_t)n;
}

/* The digits behind \u or \U; *out_next is the byte behind what could be read of them. */
static unsigned read_escape(struct dtri_input *in, int digits, int *out_next)
{
    unsigned code = 0;
    int c = dtri_input_byte(in);
    for (; digits-- > 0 && c >= 0 && isxdigit(c); c = dtri_input_byte(in))
        code = code * 16 + (unsigned)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    *out_next = c;
    return code;
}

static bool read_unicode_line(struct dtri_input *in, struct dtri_op *op)
{
    op->n_text = 0;
    int c = dtri_input_byte(in);
    while (c >= 0 && c != '\n') {
        int next = dtri_input_byte(in);
        if (c == '\\' && (next == 'u' || next == 'U'))
            append_utf8(op, read_escape(in, next == 'u' ? 4 : 8, &next));
        else
            append_utf8(op, (unsigned)c);
        c = next;
    }
    return c >= 0;
}

/* A text must end where C thinks it ends. */
static void close_text(struct dtri_op *op)
{
    for (size_t i = 0; i < op->n_text; i++)
        if (!op->text[i])
            op->text[i] = '?';
    op->text[op->n_text] = 0;
}

/* "12", "12L" and, from protocol 0, "00" and "01" for False and True. */
static bool parse_number(struct dtri_op *op)
{
    char *end;
    close_text(op);
    errno = 0;
    op->integer = strtoll(op->text, &end, 10);
    op->big = errno == ERANGE;
    return end != op->text && (*end == 0 || (*end == 'L' && end[1] == 0));
}

static bool strip_quotes(struct dtri_op *op)
{
    size_t n = op->n_text;
    if (n < 2 || (op->text[0] != '\'' && op->text[0] != '"') || op->text[n - 1] != op->text[0])
        return false;
    op->n_text = n - 2;
    memmove(op->text, op->text + 1, op->n_text);
    return true;
}

static dtr_status refuse(struct dtri_input *in, struct dtri_op *op, dtr_error *error)
{
    char names[256] = "";
    if ((op->code == DTRI_OP_GLOBAL || op->code == DTRI_OP_INST) && read_line(in, op)) {
        close_text(op);
        int n = snprintf(names, sizeof names, " of %.100s", op->text);
        if (read_line(in, op)) {
            close_text(op);
            snprintf(names + n, sizeof names - (size_t)n, ".%.100s", op->text);
        }
    }
    for (char *c = names; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
    return dtri_fail(error, DTR_E_UNSUPPORTED, 0,
                     "%s: byte %lld: the pickle asks for %s%s, which makes Python objects and may "
                     "run code; nothing was executed.  A memory snapshot holds plain values only: "
                     "write one with torch.cuda.memory._dump_snapshot",
                     in->path, (long long)op->at, dtri_opcode_name(op->code), names);
}

static int width_of(enum argument argument)
{
    switch (argument) {
    case INT1:
    case TEXT1:
    case SKIP1:
    case LONG_1:
        return 1;
    case INT2:
        return 2;
    case INT8:
    case TEXT8:
    case SKIP8:
        return 8;
    default:
        return 4;
    }
}

/* What begins with a number: itself the argument, or the length of it. */
static dtr_status read_sized(struct dtri_input *in, struct dtri_op *op, enum argument argument,
                             dtr_error *error)
{
    uint64_t n;
    bool ok = read_unsigned(in, width_of(argument), &n);
    if (!ok)
        return cut_short(in, op, error);
    switch (argument) {
    case SIGNED4:
        op->integer = (int32_t)n;
        return DTR_OK;
    case LONG_1:
    case LONG_4:
        if (n > INT32_MAX)
            return malformed(in, op, "a negative length", error);
        ok = read_long(in, op, n);
        break;
    case TEXT1:
    case TEXT4:
    case TEXT8:
        ok = read_text(in, op, n);
        close_text(op);
        break;
    case SKIP1:
    case SKIP4:
    case SKIP8:
        ok = dtri_input_skip(in, n);
        break;
    default:
        op->integer = (int64_t)n;
        return DTR_OK;
    }
    return ok ? DTR_OK : cut_short(in, op, error);
}

static dtr_status read_lines(struct dtri_input *in, struct dtri_op *op, enum argument argument,
                             dtr_error *error)
{
    if (!(argument == UNICODE_LINE ? read_unicode_line(in, op) : read_line(in, op)))
        return cut_short(in, op, error);
    if (argument == NUMBER_LINE && !parse_number(op))
        return malformed(in, op, "this is no number", error);
    if (argument == QUOTED_LINE && !strip_quotes(op))
        return malformed(in, op, "a text without quotes", error);
    close_text(op);
    if (op->code == DTRI_OP_FLOAT)
        op->real = strtod(op->text, NULL);
    return DTR_OK;
}

dtr_status dtri_opcode_next(struct dtri_input *in, struct dtri_op *op, dtr_error *error)
{
    op->at = dtri_input_offset(in);
    int byte = dtri_input_byte(in);
    op->code = DTRI_OP_STOP;
    op->big = false;
    if (byte < 0)
        return cut_short(in, op, error);
    op->code = (enum dtri_opcode)byte;
    enum argument argument = table[byte].argument;
    switch (argument) {
    case NOTHING:
        return DTR_OK;
    case UNKNOWN:
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s: byte %lld: 0x%02x is no opcode of pickle protocols 0 to 5; the file "
                         "is damaged or no pickle",
                         in->path, (long long)op->at, byte);
    case REFUSED:
        return refuse(in, op, error);
    case REAL8:
        return read_real(in, op) ? DTR_OK : cut_short(in, op, error);
    case LINE:
    case UNICODE_LINE:
    case NUMBER_LINE:
    case QUOTED_LINE:
        return read_lines(in, op, argument, error);
    default:
        return read_sized(in, op, argument, error);
    }
}
