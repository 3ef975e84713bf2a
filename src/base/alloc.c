#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local dtri_alloc_fault fault_fn;
static _Thread_local void *fault_user;
static _Thread_local bool faults_paused;

void dtri_alloc_set_fault(dtri_alloc_fault fault, void *user)
{
    fault_fn = fault;
    fault_user = user;
}

void dtri_alloc_pause_faults(bool paused)
{
    faults_paused = paused;
}

static bool fails(void)
{
    return fault_fn && !faults_paused && fault_fn(fault_user);
}

void *dtri_malloc(size_t bytes)
{
    return fails() ? NULL : malloc(bytes ? bytes : 1);
}

void *dtri_calloc(size_t n, size_t bytes)
{
    return fails() ? NULL : calloc(n ? n : 1, bytes ? bytes : 1);
}

void *dtri_realloc(void *block, size_t bytes)
{
    return fails() ? NULL : realloc(block, bytes ? bytes : 1);
}

void dtri_free(void *block)
{
    free(block);
}

char *dtri_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = dtri_malloc(bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void *dtri_grow(void *block, size_t *capacity, size_t need, size_t element)
{
    size_t want = *capacity ? *capacity : 16;
    while (want < need) {
        if (want > SIZE_MAX / 2)
            return block;
        want *= 2;
    }
    if (want > SIZE_MAX / element)
        return block;
    void *grown = dtri_realloc(block, want * element);
    if (!grown)
        return block;
    *capacity = want;
    return grown;
}
