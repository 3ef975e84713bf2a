/* Texts numbered from 0 in the order in which they were first seen. */
#ifndef DTRI_BASE_INTERN_H
#define DTRI_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct dtri_intern {
    char **texts;
    size_t n, cap;
    uint32_t *slots; /* open addressing; text index + 1, 0 is free */
    size_t n_slots;
};

/* A zeroed struct is an empty table. */
void dtri_intern_done(struct dtri_intern *table);
/* The number of `text`, or -1 when it was not seen. */
int64_t dtri_intern_find(const struct dtri_intern *table, const char *text);
/* The number of `text`, or -1 when there is no memory.  *out_new (optional) tells a first sight. */
int64_t dtri_intern(struct dtri_intern *table, const char *text, int *out_new);

#endif
