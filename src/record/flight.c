#include "record/flight.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define BLOCK_WORDS 65536
#define MAX_WORDS   (3 + DTR_EVENT_MAX_FIELDS)

/* Events lie in a queue of blocks: kind, ts_ns, seq and the fields of each, no event across two
 * blocks.  Blocks go back and forth between the queue and one spare. */
struct block {
    struct block *next;
    uint32_t used;
    int64_t words[BLOCK_WORDS];
};

struct dtri_flight {
    int64_t max_events, keep_ns;
    int64_t n, overwritten, newest_ts_ns;
    struct block *first, *last, *spare;
    uint32_t at; /* of the oldest event in `first` */
};

dtr_status dtri_flight_new(int64_t max_events, int64_t keep_ns, struct dtri_flight **out_flight,
                           dtr_error *error)
{
    struct dtri_flight *flight = dtri_calloc(1, sizeof *flight);
    if (!flight)
        return dtri_fail_nomem(error, "the newest events");
    flight->max_events = max_events;
    flight->keep_ns = keep_ns;
    flight->newest_ts_ns = INT64_MIN;
    *out_flight = flight;
    return DTR_OK;
}

void dtri_flight_free(struct dtri_flight *flight)
{
    if (!flight)
        return;
    while (flight->first) {
        struct block *next = flight->first->next;
        dtri_free(flight->first);
        flight->first = next;
    }
    dtri_free(flight->spare);
    dtri_free(flight);
}

static int64_t words_of(int64_t kind)
{
    const dtr_event_info *info = dtr_event_info_of(kind);
    return info ? 3 + info->n_fields : 0;
}

bool dtri_flight_pop(struct dtri_flight *flight, dtr_event *out_event)
{
    struct block *block = flight->first;
    if (!flight->n)
        return false;
    const int64_t *words = block->words + flight->at;
    int64_t n = words_of(words[0]);
    if (out_event) {
        out_event->kind = words[0];
        out_event->ts_ns = words[1];
        out_event->seq = words[2];
        memcpy(out_event->u.raw, words + 3, (size_t)(n - 3) * sizeof *words);
    }
    flight->n--;
    flight->at += (uint32_t)n;
    if (flight->at < block->used)
        return true;
    flight->at = 0;
    if (block->next) {
        flight->first = block->next;
        dtri_free(flight->spare);
        flight->spare = block;
    }
    block->used = 0;
    return true;
}

static bool reserve(struct dtri_flight *flight)
{
    if (flight->last && flight->last->used + MAX_WORDS <= BLOCK_WORDS)
        return true;
    struct block *block = flight->spare ? flight->spare : dtri_malloc(sizeof *block);
    if (!block)
        return false;
    flight->spare = NULL;
    block->next = NULL;
    block->used = 0;
    if (flight->last)
        flight->last->next = block;
    else
        flight->first = block;
    flight->last = block;
    return true;
}

static bool too_old(const struct dtri_flight *flight)
{
    int64_t oldest;
    return flight->keep_ns != DTR_NONE && flight->n > 1 &&
           !__builtin_sub_overflow(flight->newest_ts_ns, flight->keep_ns, &oldest) &&
           flight->first->words[flight->at + 1] < oldest;
}

bool dtri_flight_push(struct dtri_flight *flight, const dtr_event *event)
{
    int64_t n = words_of(event->kind);
    if (!n || !reserve(flight))
        return false;
    int64_t *words = flight->last->words + flight->last->used;
    words[0] = event->kind;
    words[1] = event->ts_ns;
    words[2] = event->seq;
    memcpy(words + 3, event->u.raw, (size_t)(n - 3) * sizeof *words);
    flight->last->used += (uint32_t)n;
    flight->n++;
    if (event->ts_ns > flight->newest_ts_ns)
        flight->newest_ts_ns = event->ts_ns;
    while (flight->n > flight->max_events || too_old(flight)) {
        dtri_flight_pop(flight, NULL);
        flight->overwritten++;
    }
    return true;
}

int64_t dtri_flight_overwritten(const struct dtri_flight *flight)
{
    return flight->overwritten;
}
