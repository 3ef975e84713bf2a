/* Records of an import in the order in which they belong, whatever order they came in.
 *
 * Records are sorted by lane, time, and order of coming.  A few megabytes of them are kept in
 * memory; when there are more, sorted pieces go to a nameless temporary file and are merged while
 * reading.  So order is exact, not within a window, and memory does not grow with the file. */
#ifndef DTRI_IMPORT_SPOOL_H
#define DTRI_IMPORT_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "dtr/status.h"

enum dtri_record_type {
    DTRI_RECORD_RUN,      /* time: end; a: duration, b: name */
    DTRI_RECORD_BEGIN,    /* a: thread, b: name, c: enum dtri_span_kind */
    DTRI_RECORD_END,      /* a: thread; of its innermost begin */
    DTRI_RECORD_MARK,     /* a: enum dtr_mark, b: name, c: value */
    DTRI_RECORD_ALLOC,    /* a: address, b: bytes, c: frame */
    DTRI_RECORD_FREE,     /* a: address, b: bytes or DTR_NONE */
    DTRI_RECORD_OOM,      /* a: free bytes of the device or DTR_NONE, b: bytes, c: frame */
    DTRI_RECORD_RESERVE,  /* a: bytes reserved (+) or given back (-), b: name */
    DTRI_RECORD_TOTAL,    /* a: bytes in use that the file tells, after the record before */
    DTRI_RECORD_BLOCK,    /* a: address, b: bytes: in use when the file was written */
    DTRI_RECORD_RESERVED, /* a: bytes of a segment that was there when the file was written */
};

enum dtri_span_kind { DTRI_SPAN_OPERATOR, DTRI_SPAN_RANGE, DTRI_SPAN_STEP };

struct dtri_record {
    uint32_t lane; /* which run it belongs to */
    uint32_t type; /* enum dtri_record_type */
    int64_t time;  /* ns */
    int64_t order; /* set by the spool */
    int64_t a, b, c;
};

struct dtri_spool;
/* Temporary files go to `directory` (borrowed). */
dtr_status dtri_spool_new(const char *directory, struct dtri_spool **out_spool, dtr_error *error);
void dtri_spool_free(struct dtri_spool *spool); /* accepts NULL */
dtr_status dtri_spool_add(struct dtri_spool *spool, const struct dtri_record *record,
                          dtr_error *error);
/* After the last add; may be called again, to read once more. */
dtr_status dtri_spool_read(struct dtri_spool *spool, dtr_error *error);
/* The next record, borrowed until the next call; NULL at the end. */
dtr_status dtri_spool_next(struct dtri_spool *spool, const struct dtri_record **out_record,
                           dtr_error *error);
int64_t dtri_spool_count(const struct dtri_spool *spool);

#endif
