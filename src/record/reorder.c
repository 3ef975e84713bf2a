/* A binary heap by time, then arrival.  The heap holds places in a pool, so that moving an element
 * does not copy an event; memory grows with what is held, up to the limit. */
#include "record/reorder.h"

#include "base/alloc.h"
#include "base/error.h"

struct entry {
    int64_t ts_ns;
    uint64_t arrival;
    size_t place;
};

struct dtri_reorder {
    int64_t window_ns, newest_ns, popped_ns, n_late;
    uint64_t arrivals;
    bool any, popped, ended;
    struct entry *heap;
    dtr_event *pool;
    size_t *free; /* places of the pool that are not in use, a stack */
    size_t n, n_free, cap_heap, cap_pool, cap_free, max;
};

void dtri_reorder_free(struct dtri_reorder *r)
{
    if (!r)
        return;
    dtri_free(r->heap);
    dtri_free(r->pool);
    dtri_free(r->free);
    dtri_free(r);
}

dtr_status dtri_reorder_new(int64_t window_ns, size_t max_events, struct dtri_reorder **out_reorder,
                            dtr_error *error)
{
    struct dtri_reorder *r = dtri_calloc(1, sizeof *r);
    if (!r)
        return dtri_fail_nomem(error, "a window to put events in order");
    r->window_ns = window_ns;
    r->max = max_events;
    if (!DTRI_RESERVE(r->heap, r->cap_heap, 1) || !DTRI_RESERVE(r->pool, r->cap_pool, 1) ||
        !DTRI_RESERVE(r->free, r->cap_free, 1)) {
        dtri_reorder_free(r);
        return dtri_fail_nomem(error, "a window to put events in order");
    }
    *out_reorder = r;
    return DTR_OK;
}

static bool before(const struct entry *a, const struct entry *b)
{
    return a->ts_ns != b->ts_ns ? a->ts_ns < b->ts_ns : a->arrival < b->arrival;
}

static void sift_up(struct entry *heap, size_t at, struct entry entry)
{
    while (at && before(&entry, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static void sift_down(struct entry *heap, size_t n, struct entry entry)
{
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && before(&heap[child + 1], &heap[child]);
        if (!before(&heap[child], &entry))
            break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

/* No memory for one more is the same as being full: the oldest has to go first. */
static bool reserve(struct dtri_reorder *r)
{
    return r->n < r->max && DTRI_RESERVE(r->heap, r->cap_heap, r->n + 1) &&
           DTRI_RESERVE(r->pool, r->cap_pool, r->n + 1) &&
           DTRI_RESERVE(r->free, r->cap_free, r->n + 1);
}

bool dtri_reorder_push(struct dtri_reorder *r, const dtr_event *event)
{
    if (!reserve(r)) {
        r->max = r->n; /* > 0: there is room for one from the beginning */
        return false;
    }
    size_t place = r->n_free ? r->free[--r->n_free] : r->n;
    r->pool[place] = *event;
    sift_up(r->heap, r->n++, (struct entry){event->ts_ns, r->arrivals++, place});
    r->newest_ns = r->any && r->newest_ns > event->ts_ns ? r->newest_ns : event->ts_ns;
    r->any = true;
    return true;
}

bool dtri_reorder_pop(struct dtri_reorder *r, dtr_event *out_event, bool *out_late)
{
    if (!r->n)
        return false;
    struct entry oldest = r->heap[0];
    /* Not negative, so that the difference fits. */
    uint64_t age = (uint64_t)r->newest_ns - (uint64_t)oldest.ts_ns;
    if (!r->ended && r->n < r->max && age <= (uint64_t)r->window_ns)
        return false;
    *out_event = r->pool[oldest.place];
    *out_late = r->popped && oldest.ts_ns < r->popped_ns;
    r->n_late += *out_late;
    r->popped_ns = *out_late ? r->popped_ns : oldest.ts_ns;
    r->popped = true;
    r->free[r->n_free++] = oldest.place;
    r->n--;
    if (r->n)
        sift_down(r->heap, r->n, r->heap[r->n]);
    return true;
}

void dtri_reorder_end(struct dtri_reorder *r)
{
    r->ended = true;
}

int64_t dtri_reorder_late(const struct dtri_reorder *r)
{
    return r->n_late;
}
