/* Host memory.  All library code allocates here, so that a test can make the Nth allocation fail.
 */
#ifndef DTRI_BASE_ALLOC_H
#define DTRI_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *dtri_malloc(size_t bytes); /* NULL when there is none; bytes 0 gives a block */
void *dtri_calloc(size_t n, size_t bytes);
void *dtri_realloc(void *block, size_t bytes); /* on failure the old block stays */
void dtri_free(void *block);                   /* accepts NULL */
char *dtri_strdup(const char *text);

/* Asked before every allocation of this thread; true makes it fail.  NULL: never.  For tests. */
typedef bool (*dtri_alloc_fault)(void *user);
void dtri_alloc_set_fault(dtri_alloc_fault fault, void *user);
/* While paused, this thread's allocations are not asked about: a check of the library's own state
 * is not what a test counts. */
void dtri_alloc_pause_faults(bool paused);

/* Makes room for `need` elements in the array `block` with room for `cap`: true if there is.  On
 * failure both stay as they were. */
#define DTRI_RESERVE(block, cap, need)                                                             \
    ((need) <= (cap) ||                                                                            \
     ((block) = dtri_grow((block), &(cap), (need), sizeof *(block)), (need) <= (cap)))

/* What DTRI_RESERVE calls: the block, perhaps moved, with *capacity doubled until `need` elements
 * of `element` bytes fit; or the same block and capacity when there is no memory. */
void *dtri_grow(void *block, size_t *capacity, size_t need, size_t element);

#endif
