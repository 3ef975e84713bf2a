#include "import/memo.h"

#include <string.h>

#include "base/alloc.h"

bool dtri_bits_set(struct dtri_bits *bits, uint64_t i)
{
    size_t word = (size_t)(i / 64), before = bits->cap;
    if (!DTRI_RESERVE(bits->words, bits->cap, word + 1))
        return false;
    memset(bits->words + before, 0, (bits->cap - before) * sizeof *bits->words);
    if (bits->n <= word)
        bits->n = word + 1;
    bits->words[word] |= UINT64_C(1) << (i % 64);
    return true;
}

void dtri_bits_clear(struct dtri_bits *bits)
{
    if (bits->words)
        memset(bits->words, 0, bits->cap * sizeof *bits->words);
}

bool dtri_memo_store(struct dtri_memo *memo, uint64_t i)
{
    if (dtri_bits_get(&memo->stored, i))
        return true;
    memo->n_stored++;
    return dtri_bits_set(&memo->stored, i);
}

bool dtri_memo_fetch(struct dtri_memo *memo, uint64_t i)
{
    size_t before = memo->cap_fetches;
    if (!DTRI_RESERVE(memo->fetches, memo->cap_fetches, (size_t)i + 1))
        return false;
    memset(memo->fetches + before, 0, memo->cap_fetches - before);
    if (memo->fetches[i] < UINT8_MAX)
        memo->fetches[i]++;
    return dtri_bits_set(&memo->fetched, i);
}

bool dtri_memo_is_last(struct dtri_memo *memo, uint64_t i)
{
    return memo->fetches[i] < UINT8_MAX && --memo->fetches[i] == 0;
}

bool dtri_memo_rank(struct dtri_memo *memo)
{
    size_t n = memo->fetched.n;
    memo->ranks = dtri_malloc(n * sizeof *memo->ranks);
    if (!memo->ranks)
        return false;
    memo->n_fetched = 0;
    for (size_t i = 0; i < n; i++) {
        memo->ranks[i] = (uint32_t)memo->n_fetched;
        memo->n_fetched += (uint64_t)__builtin_popcountll(memo->fetched.words[i]);
    }
    dtri_bits_clear(&memo->stored);
    memo->n_stored = 0;
    return true;
}

size_t dtri_memo_place(const struct dtri_memo *memo, uint64_t i)
{
    uint64_t below = memo->fetched.words[i / 64] & ((UINT64_C(1) << (i % 64)) - 1);
    return memo->ranks[i / 64] + (size_t)__builtin_popcountll(below);
}

void dtri_memo_done(struct dtri_memo *memo)
{
    dtri_free(memo->stored.words);
    dtri_free(memo->fetched.words);
    dtri_free(memo->fetches);
    dtri_free(memo->ranks);
    *memo = (struct dtri_memo){0};
}
