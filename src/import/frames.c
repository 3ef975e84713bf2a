#include "import/frames.h"

#include <stdbool.h>

#include "base/alloc.h"

static size_t find_slot(const struct dtri_frames *f, int64_t parent, int64_t name)
{
    uint64_t hash = (uint64_t)parent * 0x9e3779b97f4a7c15u + (uint64_t)name;
    hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
    size_t mask = f->n_slots - 1, slot = (size_t)(hash ^ (hash >> 32)) & mask;
    for (; f->slots[slot]; slot = (slot + 1) & mask) {
        const struct dtri_frame *there = &f->frames[f->slots[slot] - 1];
        if (there->parent == parent && there->name == name)
            break;
    }
    return slot;
}

static bool rehash(struct dtri_frames *f, size_t n_slots)
{
    uint32_t *slots = dtri_calloc(n_slots, sizeof *slots);
    if (!slots)
        return false;
    dtri_free(f->slots);
    f->slots = slots;
    f->n_slots = n_slots;
    for (size_t i = 0; i < f->n; i++)
        slots[find_slot(f, f->frames[i].parent, f->frames[i].name)] = (uint32_t)i + 1;
    return true;
}

int64_t dtri_frames_add(struct dtri_frames *f, int64_t parent, int64_t name)
{
    if (f->n * 2 >= f->n_slots && !rehash(f, f->n_slots ? f->n_slots * 2 : 64))
        return -1;
    size_t slot = find_slot(f, parent, name);
    if (f->slots[slot])
        return f->slots[slot] - 1;
    if (f->n >= UINT32_MAX - 1 || !DTRI_RESERVE(f->frames, f->cap, f->n + 1))
        return -1;
    f->frames[f->n++] = (struct dtri_frame){parent, name};
    f->slots[slot] = (uint32_t)f->n;
    return (int64_t)f->n - 1;
}

void dtri_frames_done(struct dtri_frames *f)
{
    dtri_free(f->frames);
    dtri_free(f->slots);
    *f = (struct dtri_frames){0};
}
