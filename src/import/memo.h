/* The memo of a pickle: which entries are ever fetched, and how often. */
#ifndef DTRI_IMPORT_MEMO_H
#define DTRI_IMPORT_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dtri_bits {
    uint64_t *words;
    size_t n, cap; /* words */
};

bool dtri_bits_set(struct dtri_bits *bits, uint64_t i); /* false: no memory */
static inline bool dtri_bits_get(const struct dtri_bits *bits, uint64_t i)
{
    return i / 64 < bits->n && bits->words[i / 64] >> (i % 64) & 1;
}
void dtri_bits_clear(struct dtri_bits *bits); /* all 0, memory kept */

/* A zeroed struct is an empty memo. */
struct dtri_memo {
    struct dtri_bits stored, fetched;
    uint8_t *fetches; /* by entry: still to come; 255: that many or more */
    size_t cap_fetches;
    uint32_t *ranks; /* bits of `fetched` before each word */
    uint64_t n_stored, n_fetched;
};

/* Notes that entry i is stored; false: no memory. */
bool dtri_memo_store(struct dtri_memo *memo, uint64_t i);
/* Notes that entry i is fetched; false: no memory. */
bool dtri_memo_fetch(struct dtri_memo *memo, uint64_t i);
/* Numbers the fetched entries from 0 and forgets what was stored; false: no memory. */
bool dtri_memo_rank(struct dtri_memo *memo);
/* The number of a fetched entry. */
size_t dtri_memo_place(const struct dtri_memo *memo, uint64_t i);
/* After ranking, at each fetch in turn: whether it is the last one of the entry. */
bool dtri_memo_is_last(struct dtri_memo *memo, uint64_t i);
void dtri_memo_done(struct dtri_memo *memo);

#endif
