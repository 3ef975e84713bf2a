/* What sessions say, into files: the output of a collector, in the recorded process or in
 * `dtrscope record`.
 *
 * A session tells over its ring what its run is and which file it goes into, then its settings,
 * clock samples and events, and at last how it ended.  A run that never says so was killed. */
#ifndef DTRI_SESSION_COLLECT_H
#define DTRI_SESSION_COLLECT_H

#include "record/collector.h"
#include "session/settings.h"
#include "store/store.h"

#define DTRI_COLLECT_PATH 1024

enum dtri_message {
    DTRI_MESSAGE_RUN,     /* struct dtri_message_run */
    DTRI_MESSAGE_SETTING, /* name, value and origin, each with its NUL */
    DTRI_MESSAGE_CLOCK,   /* int64_t clock_ns, unix_ns, uncertainty_ns */
    DTRI_MESSAGE_RESULT,  /* struct dtri_run, as it is to stand in the file */
};

struct dtri_message_run {
    char path[DTRI_COLLECT_PATH];
    struct dtri_run run;
};

enum dtri_collect_existing { /* what becomes of a file that is there already */
                             DTRI_COLLECT_APPEND,
                             DTRI_COLLECT_REFUSE,
                             DTRI_COLLECT_REPLACE,
};

/* The parts of the settings that are a channel's and a collector's; channel and output are left to
 * the caller. */
dtr_status dtri_collect_options(const struct dtri_settings *settings,
                                struct dtri_channel_options *out_channel,
                                struct dtri_collector_options *out_collector, dtr_error *error);

struct dtri_collect;
dtr_status dtri_collect_new(enum dtri_collect_existing existing, struct dtri_collect **out_collect,
                            dtr_error *error);
/* Chunks of runs that begin from now on in zstd frames.  Before a collector runs. */
void dtri_collect_compress(struct dtri_collect *collect, bool compress);
struct dtri_collector_output dtri_collect_output(struct dtri_collect *collect);
/* Opens a file before the first run needs it, so that a bad one is told at once.  Not while a
 * collector runs. */
dtr_status dtri_collect_open(struct dtri_collect *collect, const char *path, dtr_error *error);
/* After the collector ended: told once for each run, before its file is closed; the exit code of
 * the program goes into each run unless it is DTRI_NULL. */
typedef void (*dtri_collect_told)(void *user, struct dtri_store *store, const struct dtri_run *run);
dtr_status dtri_collect_finish(struct dtri_collect *collect, int64_t exit_code,
                               dtri_collect_told told, void *user, dtr_error *error);
/* Why the first run that could not begin did not, or NULL. */
const char *dtri_collect_refused(const struct dtri_collect *collect);
/* Runs that began. */
int dtri_collect_runs(const struct dtri_collect *collect);
void dtri_collect_free(struct dtri_collect *collect); /* accepts NULL */

#endif
