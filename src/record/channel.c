#include "record/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

#define MAGIC   "dtrchan"
#define VERSION 2

static uint64_t round_up(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static uint64_t ring_offset(const struct dtri_channel *channel, unsigned index)
{
    return channel->header_bytes + index * channel->ring_bytes;
}

/* --- making and joining ----------------------------------------------------------------------- */

/* A memory file of that size, or -1.  A limit on the size of files holds for these too, and going
 * over it would end the program. */
static int memory_file(uint64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes)
        return -1;
    int fd = memfd_create("dtrscope", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static struct dtri_channel *channel_new(int fd, bool owner)
{
    struct dtri_channel *channel = dtri_calloc(1, sizeof *channel);
    if (channel) {
        channel->fd = fd;
        channel->owner = owner;
    }
    return channel;
}

static void *map(const struct dtri_channel *channel, uint64_t offset, uint64_t bytes)
{
    if (channel->base)
        return channel->base + offset;
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, channel->fd, (off_t)offset);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(const struct dtri_channel *channel, void *memory, uint64_t bytes)
{
    if (!channel->base)
        munmap(memory, bytes);
}

static uint64_t ring_words(int64_t events)
{
    uint64_t words = DTRI_RING_MIN_WORDS;
    while (words < (uint64_t)events * 8)
        words *= 2;
    return words;
}

static void set_sizes(struct dtri_channel *channel, uint64_t words)
{
    channel->header_bytes = round_up(sizeof(struct dtri_channel_header));
    channel->ring_words = words;
    channel->ring_bytes = round_up(sizeof(struct dtri_ring)) + round_up(words * 8);
}

static dtr_status set_up(struct dtri_channel *channel, const struct dtri_channel_options *options,
                         dtr_error *error)
{
    set_sizes(channel, ring_words(options->ring_events));
    uint64_t bytes = ring_offset(channel, DTRI_CHANNEL_RINGS);
    channel->fd = memory_file(bytes);
    if (channel->fd < 0) {
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        channel->base = memory == MAP_FAILED ? NULL : memory;
    }
    if ((channel->fd < 0 && !channel->base) ||
        !(channel->header = map(channel, 0, channel->header_bytes)))
        return dtri_fail(error, DTR_E_NOMEM, errno, "no shared memory for events: %s",
                         strerror(errno));
    *channel->header = (struct dtri_channel_header){
        .magic = MAGIC,
        .version = VERSION,
        .header_bytes = (uint32_t)channel->header_bytes,
        .ring_words = channel->ring_words,
        .ring_bytes = channel->ring_bytes,
        .collector = getpid(),
        .drop = options->drop,
        .locked = channel->fd >= 0 && flock(channel->fd, LOCK_EX | LOCK_NB) == 0,
        .steps = options->steps,
    };
    return DTR_OK;
}

dtr_status dtri_channel_create(const struct dtri_channel_options *options,
                               struct dtri_channel **out_channel, dtr_error *error)
{
    struct dtri_channel *channel = channel_new(-1, true);
    if (!channel)
        return dtri_fail_nomem(error, "the rings of events");
    dtr_status status = set_up(channel, options, error);
    if (status == DTR_OK)
        *out_channel = channel;
    else
        dtri_channel_free(channel);
    return status;
}

/* What the header says must fit the file, whoever wrote it. */
static dtr_status look_at_header(struct dtri_channel *channel, const char *path, dtr_error *error)
{
    struct stat about;
    uint64_t least = round_up(sizeof(struct dtri_channel_header));
    if (fstat(channel->fd, &about) != 0 || (uint64_t)about.st_size < least ||
        !(channel->header = map(channel, 0, least)))
        return dtri_fail(error, DTR_E_IO, errno, "%s: no rings of events there", path);
    const struct dtri_channel_header *h = channel->header;
    uint64_t words = h->ring_words;
    channel->header_bytes = least;
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0 || h->version != VERSION ||
        h->header_bytes != least)
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s: `dtrscope record` and libdtr are of different versions", path);
    if (words < DTRI_RING_MIN_WORDS || words > UINT64_C(1) << 32 || (words & (words - 1)))
        return dtri_fail(error, DTR_E_STATE, 0, "%s: its rings make no sense", path);
    set_sizes(channel, words);
    if (h->ring_bytes != channel->ring_bytes ||
        (uint64_t)about.st_size < ring_offset(channel, DTRI_CHANNEL_RINGS))
        return dtri_fail(error, DTR_E_STATE, 0, "%s: its rings make no sense", path);
    return DTR_OK;
}

dtr_status dtri_channel_attach(const char *path, struct dtri_channel **out_channel,
                               dtr_error *error)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot open %s: %s", path, strerror(errno));
    struct dtri_channel *channel = channel_new(fd, false);
    if (!channel) {
        close(fd);
        return dtri_fail_nomem(error, "the rings of events");
    }
    dtr_status status = look_at_header(channel, path, error);
    if (status == DTR_OK)
        *out_channel = channel;
    else
        dtri_channel_free(channel);
    return status;
}

bool dtri_channel_path(const struct dtri_channel *channel, char path[DTRI_CHANNEL_PATH])
{
    snprintf(path, DTRI_CHANNEL_PATH, "/proc/%ld/fd/%d", (long)getpid(), channel->fd);
    return channel->fd >= 0;
}

void dtri_channel_free(struct dtri_channel *channel)
{
    if (!channel)
        return;
    if (channel->header) {
        if (channel->owner && channel->header->collector == getpid())
            atomic_store(&channel->header->collector_gone, 1);
        unmap(channel, channel->header, channel->header_bytes);
    }
    if (channel->base)
        munmap(channel->base, ring_offset(channel, DTRI_CHANNEL_RINGS));
    if (channel->fd >= 0)
        close(channel->fd);
    dtri_free(channel);
}

/* --- rings ------------------------------------------------------------------------------------ */

static struct dtri_ring *map_ring(struct dtri_channel *channel, unsigned index)
{
    return map(channel, ring_offset(channel, index), channel->ring_bytes);
}

static uint64_t *ring_memory(struct dtri_ring *ring)
{
    return (uint64_t *)(void *)((char *)ring + round_up(sizeof *ring));
}

static struct dtri_ring *take(struct dtri_channel *channel, unsigned index)
{
    struct dtri_ring *ring = map_ring(channel, index);
    unsigned is_free = DTRI_RING_FREE;
    if (!ring || atomic_compare_exchange_strong(&ring->state, &is_free, DTRI_RING_TAKEN))
        return ring;
    unmap(channel, ring, channel->ring_bytes);
    return NULL;
}

/* A ring that was given back, or a new one, marked as taken; NULL when there is none. */
static struct dtri_ring *take_ring(struct dtri_channel *channel)
{
    struct dtri_channel_header *h = channel->header;
    unsigned n = atomic_load(&h->n_rings);
    for (unsigned i = 0; i < n && i < DTRI_CHANNEL_RINGS && atomic_load(&h->n_free); i++) {
        struct dtri_ring *ring = take(channel, i);
        if (ring) {
            atomic_fetch_sub(&h->n_free, 1);
            return ring;
        }
    }
    for (unsigned index = n; index < DTRI_CHANNEL_RINGS; index++) {
        struct dtri_ring *ring = take(channel, index);
        unsigned seen = n;
        if (!ring)
            continue;
        while (seen < index + 1 && !atomic_compare_exchange_weak(&h->n_rings, &seen, index + 1))
            continue;
        return ring;
    }
    return NULL;
}

void dtri_channel_give_back(struct dtri_channel *channel, struct dtri_ring *ring)
{
    atomic_store_explicit(&ring->state, DTRI_RING_FREE, memory_order_release);
    atomic_fetch_add(&channel->header->n_free, 1);
}

dtr_status dtri_channel_producer(struct dtri_channel *channel, int64_t reorder_ns,
                                 struct dtri_producer **out_producer, dtr_error *error)
{
    struct dtri_channel_header *h = channel->header;
    struct dtri_ring *ring = take_ring(channel);
    if (!ring)
        return dtri_fail(error, DTR_E_LIMIT, errno,
                         "no ring of events is left; there are %d, one a sink that is open",
                         DTRI_CHANNEL_RINGS);
    ring->pid = getpid();
    ring->reorder_ns = reorder_ns;
    atomic_store(&ring->dropped, 0);
    atomic_store(&ring->record_ns, 0);
    atomic_store(&ring->head, atomic_load(&ring->tail));
    struct dtri_producer_options options = {
        .ring = ring,
        .words = ring_memory(ring),
        .n_words = channel->ring_words,
        .gate = &h->gate,
        .collector_gone = &h->collector_gone,
        .collector = h->collector,
        .lock = !channel->owner && h->locked ? channel->fd : -1,
        .drop = h->drop,
        .steps = h->steps,
    };
    dtr_status status = dtri_producer_new(&options, out_producer, error);
    if (status == DTR_OK) {
        atomic_store(&ring->state, DTRI_RING_OPEN);
    } else {
        dtri_channel_give_back(channel, ring);
        unmap(channel, ring, channel->ring_bytes);
    }
    return status;
}

void dtri_channel_release(struct dtri_channel *channel, struct dtri_producer *producer, bool reuse)
{
    struct dtri_ring *ring = dtri_producer_ring(producer);
    if (reuse && !dtri_producer_is_foreign(producer))
        dtri_channel_give_back(channel, ring);
    unmap(channel, ring, channel->ring_bytes);
    dtri_producer_free(producer);
}

dtr_status dtri_channel_map(struct dtri_channel *channel, unsigned index,
                            struct dtri_ring_reader *out_reader, dtr_error *error)
{
    struct dtri_ring *ring = map_ring(channel, index);
    dtri_ring_prepare();
    if (!ring)
        return dtri_fail(error, DTR_E_NOMEM, errno, "cannot map a ring of events: %s",
                         strerror(errno));
    *out_reader = (struct dtri_ring_reader){
        .ring = ring, .words = ring_memory(ring), .n_words = channel->ring_words};
    return DTR_OK;
}

void dtri_channel_unmap(struct dtri_channel *channel, struct dtri_ring_reader *reader)
{
    unmap(channel, reader->ring, channel->ring_bytes);
}
