/* One opcode of a pickle with its argument. */
#ifndef DTRI_IMPORT_OPCODE_H
#define DTRI_IMPORT_OPCODE_H

#include <stdbool.h>

#include "import/input.h"

#define DTRI_OPCODE_TEXT 65536 /* bytes of a text that are kept */

/* O(NAME, byte, argument): what is read. */
/* clang-format off */
#define DTRI_OPCODES(O)                                                                            \
    O(MARK, '(', NOTHING) O(STOP, '.', NOTHING) O(POP, '0', NOTHING) O(POP_MARK, '1', NOTHING)     \
    O(DUP, '2', NOTHING) O(PROTO, 0x80, INT1) O(FRAME, 0x95, INT8)                                 \
    O(NONE, 'N', NOTHING) O(NEWTRUE, 0x88, NOTHING) O(NEWFALSE, 0x89, NOTHING)                     \
    O(INT, 'I', NUMBER_LINE) O(LONG, 'L', NUMBER_LINE) O(BININT, 'J', SIGNED4)                     \
    O(BININT1, 'K', INT1) O(BININT2, 'M', INT2) O(LONG1, 0x8a, LONG_1) O(LONG4, 0x8b, LONG_4)      \
    O(FLOAT, 'F', LINE) O(BINFLOAT, 'G', REAL8)                                                    \
    O(STRING, 'S', QUOTED_LINE) O(BINSTRING, 'T', TEXT4) O(SHORT_BINSTRING, 'U', TEXT1)            \
    O(UNICODE, 'V', UNICODE_LINE) O(BINUNICODE, 'X', TEXT4) O(SHORT_BINUNICODE, 0x8c, TEXT1)               \
    O(BINUNICODE8, 0x8d, TEXT8) O(BINBYTES, 'B', SKIP4) O(SHORT_BINBYTES, 'C', SKIP1)              \
    O(BINBYTES8, 0x8e, SKIP8) O(BYTEARRAY8, 0x96, SKIP8)                                           \
    O(EMPTY_LIST, ']', NOTHING) O(LIST, 'l', NOTHING) O(APPEND, 'a', NOTHING)                      \
    O(APPENDS, 'e', NOTHING) O(EMPTY_TUPLE, ')', NOTHING) O(TUPLE, 't', NOTHING)                   \
    O(TUPLE1, 0x85, NOTHING) O(TUPLE2, 0x86, NOTHING) O(TUPLE3, 0x87, NOTHING)                     \
    O(EMPTY_DICT, '}', NOTHING) O(DICT, 'd', NOTHING) O(SETITEM, 's', NOTHING)                     \
    O(SETITEMS, 'u', NOTHING)                                                                      \
    O(PUT, 'p', NUMBER_LINE) O(BINPUT, 'q', INT1) O(LONG_BINPUT, 'r', INT4)                        \
    O(GET, 'g', NUMBER_LINE) O(BINGET, 'h', INT1) O(LONG_BINGET, 'j', INT4)                        \
    O(MEMOIZE, 0x94, NOTHING)                                                                      \
    O(GLOBAL, 'c', REFUSED) O(STACK_GLOBAL, 0x93, REFUSED) O(REDUCE, 'R', REFUSED)                 \
    O(BUILD, 'b', REFUSED) O(INST, 'i', REFUSED) O(OBJ, 'o', REFUSED) O(NEWOBJ, 0x81, REFUSED)     \
    O(NEWOBJ_EX, 0x92, REFUSED) O(PERSID, 'P', REFUSED) O(BINPERSID, 'Q', REFUSED)                 \
    O(EXT1, 0x82, REFUSED) O(EXT2, 0x83, REFUSED) O(EXT4, 0x84, REFUSED)                           \
    O(EMPTY_SET, 0x8f, REFUSED) O(ADDITEMS, 0x90, REFUSED) O(FROZENSET, 0x91, REFUSED)             \
    O(NEXT_BUFFER, 0x97, REFUSED) O(READONLY_BUFFER, 0x98, REFUSED)
/* clang-format on */

enum dtri_opcode {
#define DTRI_OPCODE_ENUM(NAME, byte, argument) DTRI_OP_##NAME = (byte),
    DTRI_OPCODES(DTRI_OPCODE_ENUM)
#undef DTRI_OPCODE_ENUM
};

struct dtri_op {
    enum dtri_opcode code;
    int64_t at;      /* its byte in the file */
    int64_t integer; /* unless big */
    bool big;        /* an integer beyond 64 bits */
    double real;
    size_t n_text;
    char text[DTRI_OPCODE_TEXT + 1]; /* NUL bytes in it are replaced by '?' */
};

/* Reads one.  The op is kept between calls, for its buffer. */
dtr_status dtri_opcode_next(struct dtri_input *in, struct dtri_op *op, dtr_error *error);
const char *dtri_opcode_name(enum dtri_opcode code);

#endif
