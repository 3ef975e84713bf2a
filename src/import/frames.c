#include "import/frames.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "dtr/event.h"

static size_t find_slot(const struct dtri_frames *f, uint32_t parent, uint32_t name)
{
    uint64_t hash = ((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15u;
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
    struct dtri_frame frame = {(uint32_t)(parent + 1), (uint32_t)name}; /* DTR_NONE is -1 */
    if (f->n * 4 >= f->n_slots * 3 && !rehash(f, f->n_slots ? f->n_slots * 2 : 64))
        return -2;
    size_t slot = find_slot(f, frame.parent, frame.name);
    if (f->slots[slot])
        return f->slots[slot] - 1;
    if (f->n >= DTRI_FRAMES_MAX)
        return DTR_NONE;
    if (!DTRI_RESERVE(f->frames, f->cap, f->n + 1))
        return -2;
    f->frames[f->n++] = frame;
    f->slots[slot] = (uint32_t)f->n;
    return (int64_t)f->n - 1;
}

int64_t dtri_frames_parent(const struct dtri_frames *f, int64_t frame)
{
    return (int64_t)f->frames[frame].parent - 1;
}

void dtri_frames_done(struct dtri_frames *f)
{
    dtri_free(f->frames);
    dtri_free(f->slots);
    *f = (struct dtri_frames){0};
}
