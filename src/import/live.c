#include "import/live.h"

#include "base/alloc.h"

static size_t home(const struct dtri_live *l, int64_t address)
{
    uint64_t hash = (uint64_t)address * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 20) & (l->n_slots - 1);
}

static size_t find_slot(const struct dtri_live *l, int64_t address)
{
    size_t slot = home(l, address);
    while (l->slots[slot].storage >= 0 && l->slots[slot].address != address)
        slot = (slot + 1) & (l->n_slots - 1);
    return slot;
}

const struct dtri_live_block *dtri_live_find(const struct dtri_live *l, int64_t address)
{
    if (!l->n)
        return NULL;
    const struct dtri_live_block *block = &l->slots[find_slot(l, address)];
    return block->storage >= 0 ? block : NULL;
}

static bool resize(struct dtri_live *l, size_t n_slots)
{
    struct dtri_live old = *l;
    struct dtri_live_block *slots = dtri_malloc(n_slots * sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < n_slots; i++)
        slots[i].storage = -1;
    l->slots = slots;
    l->n_slots = n_slots;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].storage >= 0)
            slots[find_slot(l, old.slots[i].address)] = old.slots[i];
    dtri_free(old.slots);
    return true;
}

bool dtri_live_add(struct dtri_live *l, const struct dtri_live_block *block)
{
    if (l->n * 4 >= l->n_slots * 3 && !resize(l, l->n_slots ? l->n_slots * 2 : 256))
        return false;
    l->slots[find_slot(l, block->address)] = *block;
    l->n++;
    return true;
}

bool dtri_live_take(struct dtri_live *l, int64_t address, struct dtri_live_block *out_block)
{
    if (!l->n)
        return false;
    size_t mask = l->n_slots - 1, hole = find_slot(l, address);
    if (l->slots[hole].storage < 0)
        return false;
    *out_block = l->slots[hole];
    /* Blocks behind the hole move up, unless that puts them before their own place. */
    for (size_t i = (hole + 1) & mask; l->slots[i].storage >= 0; i = (i + 1) & mask) {
        size_t distance = (i - home(l, l->slots[i].address)) & mask;
        if (distance >= ((i - hole) & mask)) {
            l->slots[hole] = l->slots[i];
            hole = i;
        }
    }
    l->slots[hole].storage = -1;
    l->n--;
    return true;
}

void dtri_live_clear(struct dtri_live *l)
{
    for (size_t i = 0; l->n && i < l->n_slots; i++)
        l->slots[i].storage = -1;
    l->n = 0;
}

void dtri_live_done(struct dtri_live *l)
{
    dtri_free(l->slots);
    *l = (struct dtri_live){0};
}
