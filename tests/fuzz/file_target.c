/* A damaged database under fuzzing: it is opened, checked, and its events are read as the other verbs
 * read them.  Nothing may crash or go on for ever; what is found does not matter.
 *
 * The input says what to change in a sound file: the first byte which file (0: version 1, else the
 * same one migrated), then pieces of offset (3 bytes), length (1 byte) and bytes.  A last piece of
 * length 0 cuts the file there.  One source, two ways to run it, as log_target.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/check.h"
#include "base/alloc.h"
#include "store/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_FILE (1 << 20)

struct file {
    uint8_t *bytes;
    size_t size;
};

static char fuzz_path[64];
static struct file bases[2];

static struct file read_whole(const char *path)
{
    struct file file = {malloc(MAX_FILE), 0};
    FILE *in = fopen(path, "rb");
    if (!in || !file.bytes)
        abort();
    file.size = fread(file.bytes, 1, MAX_FILE, in);
    fclose(in);
    return file;
}

static void write_whole(const struct file *file, size_t size)
{
    FILE *out = fopen(fuzz_path, "wb");
    if (!out || fwrite(file->bytes, 1, size, out) != size || fclose(out) != 0)
        abort();
}

static void remove_fuzz_file(void)
{
    unlink(fuzz_path);
}

static void prepare(void)
{
    char path[1024];
    struct dtri_store *store;
    const char *source = getenv("DTRSCOPE_SOURCE");
    dtr_error error;
    snprintf(fuzz_path, sizeof fuzz_path, "/tmp/dtrscope-fuzz-%ld.sqlite", (long)getpid());
    atexit(remove_fuzz_file);
    snprintf(path, sizeof path, "%s/tests/data/schema/v1-sim.dtr.sqlite", source ? source : "..");
    bases[0] = read_whole(path);
    write_whole(&bases[0], bases[0].size);
    if (dtri_store_open(fuzz_path, DTRI_STORE_WRITE, &store, &error) != DTR_OK ||
        dtri_store_close(store, &error) != DTR_OK)
        abort();
    bases[1] = read_whole(fuzz_path);
}

/* Returns the size of the file afterwards; `file` is changed. */
static size_t change(struct file *file, const uint8_t *data, size_t size)
{
    while (size >= 4) {
        size_t at = ((size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2]) % file->size;
        size_t n = data[3];
        data += 4;
        size -= 4;
        if (n == 0)
            return at;
        n = n < size ? n : size;
        n = n < file->size - at ? n : file->size - at;
        memcpy(file->bytes + at, data, n);
        data += n;
        size -= n;
    }
    return file->size;
}

static void ignore(void *user, const struct dtri_finding *finding)
{
    if (!finding->text[0])
        abort();
    ++*(int64_t *)user;
}

static void read_events(struct dtri_store *store, int64_t run)
{
    struct dtri_stream_options options = {run, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX};
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_error error;
    if (dtri_stream_open(store, &options, &stream, &error) != DTR_OK)
        return;
    while (dtri_stream_next(stream, &event, &error) == DTR_OK && event)
        if (!dtr_event_info_of(event->kind))
            abort();
    dtri_stream_free(stream);
}

static void use(struct dtri_store *store)
{
    struct dtri_check_stats stats;
    struct dtri_run *runs = NULL;
    dtr_error error;
    int64_t told = 0;
    int n = 0;
    if (dtri_check(store, 0, ignore, &told, &stats, &error) == DTR_OK && told != stats.findings)
        abort();
    if (dtri_store_runs(store, &runs, &n, &error) != DTR_OK)
        return;
    for (int i = 0; i < n && i < 4; i++)
        read_events(store, runs[i].id);
    dtri_free(runs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dtri_store *store;
    dtr_error error;
    if (!bases[0].bytes)
        prepare();
    if (size < 1)
        return 0;
    const struct file *base = &bases[data[0] != 0];
    struct file file = {malloc(base->size), base->size};
    if (!file.bytes)
        abort();
    memcpy(file.bytes, base->bytes, base->size);
    write_whole(&file, change(&file, data + 1, size - 1));
    free(file.bytes);
    if (dtri_store_open(fuzz_path, DTRI_STORE_READ, &store, &error) == DTR_OK) {
        use(store);
        dtri_store_close(store, NULL);
    }
    return 0;
}
