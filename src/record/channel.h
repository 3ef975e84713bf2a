/* The memory that producers and their collector share: a header and rings, in one memory file.
 *
 * A recorder of one process makes a channel for itself.  `dtrscope record` makes one and tells its
 * path (/proc/PID/fd/N) to the program that it starts, so that whatever the program had emitted is
 * still there after it was killed.  Pages are used only once a ring touches them. */
#ifndef DTRI_RECORD_CHANNEL_H
#define DTRI_RECORD_CHANNEL_H

#include "record/ring.h"

#define DTRI_CHANNEL_RINGS 1024
#define DTRI_CHANNEL_PATH  64

struct dtri_channel_header { /* shared */
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t ring_words, ring_bytes;
    int32_t collector; /* pid */
    uint32_t drop;
    uint32_t locked; /* the collector holds a lock on the file for as long as it lives */
    struct dtri_steps steps;
    _Alignas(64) atomic_uint gate; /* enum dtri_gate, together */
    atomic_uint collector_gone;
    atomic_uint n_rings; /* handed out so far */
    atomic_uint n_free;  /* of these, given back: whether it is worth looking for one */
};

struct dtri_channel_options {
    int64_t ring_events; /* room of one ring, at 64 bytes an event */
    bool drop;
    struct dtri_steps steps;
};

struct dtri_channel {
    struct dtri_channel_header *header;
    uint64_t header_bytes, ring_words, ring_bytes; /* as checked: the header may change any time */
    int fd; /* -1 where memory files are not to be had: then `base` is all of it, unnamed */
    char *base;
    bool owner; /* it made the channel and collects from it */
};

dtr_status dtri_channel_create(const struct dtri_channel_options *options,
                               struct dtri_channel **out_channel, dtr_error *error);
/* Joins the channel of another process.  DTR_E_STATE: of another version; DTR_E_IO: not there. */
dtr_status dtri_channel_attach(const char *path, struct dtri_channel **out_channel,
                               dtr_error *error);
/* Where another process can attach while this one lives; false when none can. */
bool dtri_channel_path(const struct dtri_channel *channel, char path[DTRI_CHANNEL_PATH]);
/* Accepts NULL.  By the owner, it tells the producers that nobody drains any more. */
void dtri_channel_free(struct dtri_channel *channel);

/* A ring of its own for one sink; any thread.  `reorder_ns`: its events come up to so late, out of
 * order, and are put in order; 0: they come in order.  DTR_E_LIMIT when all are taken. */
dtr_status dtri_channel_producer(struct dtri_channel *channel, int64_t reorder_ns,
                                 struct dtri_producer **out_producer, dtr_error *error);
/* Unmaps a producer's ring and frees the producer.  If `reuse`, another may take the ring. */
void dtri_channel_release(struct dtri_channel *channel, struct dtri_producer *producer, bool reuse);

/* A ring that nobody uses any more. */
void dtri_channel_give_back(struct dtri_channel *channel, struct dtri_ring *ring);

/* The collector's view of ring `index` < header->n_rings.  It stays mapped until unmapped. */
dtr_status dtri_channel_map(struct dtri_channel *channel, unsigned index,
                            struct dtri_ring_reader *out_reader, dtr_error *error);
void dtri_channel_unmap(struct dtri_channel *channel, struct dtri_ring_reader *reader);

#endif
