/* A writer of protobuf messages into memory (the wire format's five lines).  A failed allocation
 * is kept; whoever takes the bytes asks for it. */
#ifndef DTRI_EXPORT_PROTO_H
#define DTRI_EXPORT_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dtri_proto {
    uint8_t *data;
    size_t n, cap;
    bool failed;
};

void dtri_proto_done(struct dtri_proto *proto);
void dtri_proto_varint(struct dtri_proto *proto, int field, uint64_t value);
void dtri_proto_double(struct dtri_proto *proto, int field, double value);
void dtri_proto_fixed64(struct dtri_proto *proto, int field, uint64_t value);
/* What is no UTF-8 becomes U+FFFD. */
void dtri_proto_text(struct dtri_proto *proto, int field, const char *text);
/* A message within the message: what is written until `end` is given what `begin` returned. */
size_t dtri_proto_begin(struct dtri_proto *proto, int field);
void dtri_proto_end(struct dtri_proto *proto, size_t begin);

#endif
