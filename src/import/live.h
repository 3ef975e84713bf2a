/* What is allocated now, by address. */
#ifndef DTRI_IMPORT_LIVE_H
#define DTRI_IMPORT_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dtri_live_block {
    int64_t address, bytes;
    int64_t storage; /* -1 marks a free slot */
};

/* A zeroed struct is empty. */
struct dtri_live {
    struct dtri_live_block *slots; /* open addressing without tombstones */
    size_t n, n_slots;
};

/* NULL where nothing is; borrowed until the next change. */
const struct dtri_live_block *dtri_live_find(const struct dtri_live *live, int64_t address);
/* The address must be free; false: no memory. */
bool dtri_live_add(struct dtri_live *live, const struct dtri_live_block *block);
/* Takes the block away if it is there. */
bool dtri_live_take(struct dtri_live *live, int64_t address, struct dtri_live_block *out_block);
void dtri_live_clear(struct dtri_live *live);
void dtri_live_done(struct dtri_live *live);

#endif
