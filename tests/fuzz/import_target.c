/* The import under fuzzing: any bytes give an error with a text, or a database whose runs add up.
 *
 * With DTR_FUZZ and clang this makes a libFuzzer target for each format (IMPORT_FORMAT); otherwise
 * test_import_corpus.c includes it and feeds it the saved inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/import.h"
#include "store/store.h"
#include "store/stream.h"

#ifndef IMPORT_FORMAT
#define IMPORT_FORMAT DTRI_IMPORT_AUTO
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
static enum dtri_import_format import_format = IMPORT_FORMAT;

static _Noreturn void hole(const char *what, const char *text)
{
    fprintf(stderr, "%s: %s\n", what, text);
    abort();
}

/* Bytes in use follow from allocations and freeings, names have texts, frames come before their
 * callees, and seq rises. */
static void check_run(struct dtri_store *store, const struct dtri_run *run)
{
    struct dtri_stream_options options = {run->id, DTRI_ALL_KINDS, INT64_MIN, INT64_MAX};
    struct dtri_stream *stream;
    struct dtri_names *names;
    const dtr_event *event;
    dtr_error error = {0};
    int64_t in_use = 0, next_seq = 0, next_storage = 0;
    if (dtri_stream_open(store, &options, &stream, &error) != DTR_OK ||
        dtri_names_load(store, run->id, &names, &error) != DTR_OK)
        hole("reading back", error.text);
    while (dtri_stream_next(stream, &event, &error) == DTR_OK && event) {
        const dtr_event_info *info = dtr_event_info_of(event->kind);
        if (event->seq != next_seq++)
            hole("seq", info->name);
        if (event->kind == DTR_EVENT_STORAGE && event->u.storage_.storage != next_storage++)
            hole("storage", info->name);
        if (event->kind == DTR_EVENT_ALLOCATION)
            in_use += event->u.allocation_.bytes;
        if (event->kind == DTR_EVENT_FREEING)
            in_use -= event->u.freeing_.bytes;
        if ((event->kind == DTR_EVENT_ALLOCATION && event->u.allocation_.in_use != in_use) ||
            (event->kind == DTR_EVENT_FREEING && event->u.freeing_.in_use != in_use) || in_use < 0)
            hole("bytes in use", info->name);
        for (int i = 0; i < info->n_fields; i++)
            if (info->fields[i].unit == DTR_UNIT_NAME && event->u.raw[i] != DTR_NONE &&
                strcmp(dtri_names_text(names, event->u.raw[i]), "?") == 0)
                hole("a name without a text", info->name);
        if (event->ts_ns < run->base_ts_ns)
            hole("an event before the run", info->name);
    }
    if (error.text[0])
        hole("reading back", error.text);
    dtri_names_free(names);
    dtri_stream_free(stream);
}

static void check_file(const char *path, const struct dtri_import_result *result)
{
    struct dtri_store *store;
    struct dtri_run *runs;
    dtr_error error = {0};
    int n;
    if (dtri_store_open(path, DTRI_STORE_READ, &store, &error) != DTR_OK ||
        dtri_store_runs(store, &runs, &n, &error) != DTR_OK)
        hole("opening", error.text);
    if (n != result->n_runs || n == 0)
        hole("runs", "their number");
    for (int i = 0; i < n; i++)
        check_run(store, &runs[i]);
    free(runs);
    dtri_store_close(store, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = P_tmpdir "/dtrscope-fuzz-XXXXXX", output[sizeof path + 8];
    struct dtri_import_result result;
    dtr_error error = {0};
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0)
        abort();
    snprintf(output, sizeof output, "%s.db", path);
    struct dtri_import_options options = {.path = path, .output = output, .format = import_format};
    if (dtri_import_file(&options, &result, &error) == DTR_OK)
        check_file(output, &result);
    else if (!error.text[0] || access(output, F_OK) == 0)
        hole("an error without a text, or with an output", error.text);
    unlink(output);
    unlink(path);
    return 0;
}
