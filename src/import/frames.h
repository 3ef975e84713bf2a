/* Call stacks, each frame once: a frame is a place with all its callers. */
#ifndef DTRI_IMPORT_FRAMES_H
#define DTRI_IMPORT_FRAMES_H

#include <stddef.h>
#include <stdint.h>

struct dtri_frame {
    uint32_t parent; /* its number + 1, or 0 */
    uint32_t name;
};

#define DTRI_FRAMES_MAX (8u << 20) /* of one table */

/* A zeroed struct is an empty table. */
struct dtri_frames {
    struct dtri_frame *frames;
    size_t n, cap;
    uint32_t *slots; /* open addressing; frame + 1, 0 is free */
    size_t n_slots;
};

/* The number of the frame; DTR_NONE when the table is full, -2 when there is no memory. `parent`
 * may be DTR_NONE. */
int64_t dtri_frames_add(struct dtri_frames *frames, int64_t parent, int64_t name);
int64_t dtri_frames_parent(const struct dtri_frames *frames, int64_t frame); /* or DTR_NONE */
void dtri_frames_done(struct dtri_frames *frames);

#endif
