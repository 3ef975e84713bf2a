/* A ring under fuzzing: whatever a program that goes wrong leaves in its ring, the collector ends,
 * and the output hears only what makes sense.
 *
 * The first byte of an input says how the ring stands, the rest is its words.  One source, two ways
 * to run it, as log_target.c; test_ring_corpus.c includes it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "record/channel.h"
#include "record/collector.h"
#include "session/collect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_IS_A_WORD = 1, FLIGHT = 2, CLOSED = 4, INTO_A_FILE = 8, BAD_COUNTS = 16, AT_END = 32 };

struct heard {
    struct dtri_collector_output file; /* with INTO_A_FILE */
    char path[64];
    int64_t events, closed;
};

#define HOLD(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "not so: %s\n", #condition);                                           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static dtr_status hear_event(void *self, unsigned stream, const dtr_event *event, dtr_error *error)
{
    struct heard *h = self;
    HOLD(dtr_event_info_of(event->kind));
    h->events++;
    return h->file.self ? h->file.event(h->file.self, stream, event, error) : DTR_OK;
}

static dtr_status hear_name(void *self, unsigned stream, int64_t id, const char *text,
                            dtr_error *error)
{
    struct heard *h = self;
    HOLD(strlen(text) <= DTRI_RING_MAX_BYTES);
    return h->file.self ? h->file.name(h->file.self, stream, id, text, error) : DTR_OK;
}

/* A program may choose any file, but not while it is fuzzed. */
static dtr_status hear_message(void *self, unsigned stream, int64_t type, const void *data,
                               size_t size, dtr_error *error)
{
    struct heard *h = self;
    char copy[DTRI_RING_MAX_BYTES];
    HOLD(size <= sizeof copy);
    memcpy(copy, data, size);
    if (type == DTRI_MESSAGE_RUN && size >= sizeof h->path)
        memcpy(copy, h->path, sizeof h->path);
    return h->file.self ? h->file.message(h->file.self, stream, type, copy, size, error) : DTR_OK;
}

static dtr_status hear_window(void *self, unsigned stream, const struct dtri_record_window *window,
                              dtr_error *error)
{
    struct heard *h = self;
    HOLD(window->opened_by >= 0 && window->opened_by <= DTRI_WINDOW_KILLED);
    HOLD(window->closed_by >= -1 && window->closed_by <= DTRI_WINDOW_KILLED);
    return h->file.self ? h->file.window(h->file.self, stream, window, error) : DTR_OK;
}

static dtr_status hear_commit(void *self, unsigned stream, dtr_error *error)
{
    struct heard *h = self;
    return h->file.self ? h->file.commit(h->file.self, stream, error) : DTR_OK;
}

static dtr_status hear_closed(void *self, unsigned stream, const struct dtri_stream_end *end,
                              dtr_error *error)
{
    struct heard *h = self;
    h->closed++;
    HOLD(end->events + end->lost_output <= h->events + end->lost_output);
    HOLD(end->lost_ring >= 0 && end->record_ns >= 0 && end->overwritten >= 0);
    return h->file.self ? h->file.closed(h->file.self, stream, end, error) : DTR_OK;
}

static void fill(struct dtri_channel *channel, const uint8_t *data, size_t size, unsigned how)
{
    struct dtri_ring_reader reader;
    uint64_t words[4096] = {0}, n, begin, head;
    dtr_error error;
    HOLD(dtri_channel_map(channel, 0, &reader, &error) == DTR_OK);
    if (size > sizeof words)
        size = sizeof words;
    memcpy(words, data, size);
    n = (size + 7) / 8;
    begin = how & AT_END ? reader.n_words - n / 2 : 0;
    for (uint64_t i = 0; i < n; i++)
        ((uint64_t *)reader.words)[(begin + i) & (reader.n_words - 1)] = words[i];
    head = how & HEAD_IS_A_WORD && n ? words[n - 1] : begin + n;
    atomic_store(&reader.ring->tail, begin);
    atomic_store(&reader.ring->head, head);
    if (how & BAD_COUNTS) {
        atomic_store(&reader.ring->dropped, words[0]);
        atomic_store(&reader.ring->record_ns, (int64_t)words[1]);
        reader.ring->pid = (int32_t)words[2];
    }
    atomic_store(&reader.ring->state, how & CLOSED ? DTRI_RING_CLOSED : DTRI_RING_OPEN);
    atomic_store(&channel->header->n_rings, 1);
    dtri_channel_unmap(channel, &reader);
}

static void collect(struct heard *heard, const uint8_t *data, size_t size, unsigned how)
{
    const struct dtri_channel_options options = {64, false, {DTR_NONE, DTR_NONE}};
    struct dtri_channel *channel;
    struct dtri_collector *collector;
    dtr_error error;
    HOLD(dtri_channel_create(&options, &channel, &error) == DTR_OK);
    fill(channel, data, size, how);
    struct dtri_collector_options to = {
        .channel = channel,
        .output = {heard, hear_event, hear_name, hear_message, hear_window, hear_commit,
                   hear_closed},
        .commit_interval_ns = 1000000,
        .keep_events = how & FLIGHT ? 3 : DTR_NONE,
        .keep_ns = how & FLIGHT ? 5 : DTR_NONE,
    };
    HOLD(dtri_collector_start(&to, &collector, &error) == DTR_OK);
    dtri_collector_stop(collector);
    HOLD(heard->closed == 1);
    dtri_channel_free(channel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard heard = {.path = P_tmpdir "/dtrscope-ring-XXXXXX"};
    struct dtri_collect *file = NULL;
    dtr_error error;
    unsigned how = size ? data[0] : 0;
    if (how & INTO_A_FILE) {
        int fd = mkstemp(heard.path);
        HOLD(fd >= 0);
        close(fd);
        HOLD(dtri_collect_new(DTRI_COLLECT_REPLACE, &file, &error) == DTR_OK);
        heard.file = dtri_collect_output(file);
    }
    collect(&heard, data + (size > 0), size - (size > 0), how);
    dtri_collect_free(file);
    if (how & INTO_A_FILE)
        unlink(heard.path);
    return 0;
}
