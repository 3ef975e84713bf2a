#include "base/intern.h"

#include <string.h>

#include "base/alloc.h"

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

void dtri_intern_done(struct dtri_intern *table)
{
    for (size_t i = 0; i < table->n; i++)
        dtri_free(table->texts[i]);
    dtri_free(table->texts);
    dtri_free(table->slots);
    *table = (struct dtri_intern){0};
}

/* The slot that holds `text`, or the free one where it belongs. */
static size_t find_slot(const struct dtri_intern *table, const char *text)
{
    size_t mask = table->n_slots - 1, slot = hash_text(text) & mask;
    while (table->slots[slot] && strcmp(table->texts[table->slots[slot] - 1], text) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

int64_t dtri_intern_find(const struct dtri_intern *table, const char *text)
{
    return table->n_slots ? (int64_t)table->slots[find_slot(table, text)] - 1 : -1;
}

static int rehash(struct dtri_intern *table, size_t n_slots)
{
    uint32_t *slots = dtri_calloc(n_slots, sizeof *slots);
    if (!slots)
        return 0;
    dtri_free(table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
    for (size_t i = 0; i < table->n; i++)
        slots[find_slot(table, table->texts[i])] = (uint32_t)i + 1;
    return 1;
}

int64_t dtri_intern(struct dtri_intern *table, const char *text, int *out_new)
{
    if (table->n * 2 >= table->n_slots && !rehash(table, table->n_slots ? table->n_slots * 2 : 64))
        return -1;
    size_t slot = find_slot(table, text);
    if (out_new)
        *out_new = !table->slots[slot];
    if (table->slots[slot])
        return table->slots[slot] - 1;
    if (table->n >= UINT32_MAX - 1 || !DTRI_RESERVE(table->texts, table->cap, table->n + 1))
        return -1;
    char *copy = dtri_strdup(text);
    if (!copy)
        return -1;
    table->texts[table->n++] = copy;
    table->slots[slot] = (uint32_t)table->n;
    return (int64_t)table->n - 1;
}
