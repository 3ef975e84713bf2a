/* A session: a runtime set up by its environment, with a recorder if one is asked for.
 *
 * A program opens one session around its run.  Each setting is the default of dtrscope, unless the
 * program chooses another, unless the environment does (`dtrscope record` sets it):
 *
 *     DTR_BUDGET=6GiB|none   DTR_HEURISTIC=dtr-eq   DTR_SEARCH=auto|scan|index|sample
 *     DTR_DEALLOCATION=eager|ignore|banish          DTR_SEED=N
 *     DTR_REMAT_LIMIT=20s|100x  DTR_OVERSHOOT=1        DTR_RECORD=run.dtr.sqlite
 *     DTR_RING_EVENTS=65536  DTR_RING_FULL=block|drop   DTR_COMMIT_INTERVAL=1s
 *     DTR_DELAY=10s          DTR_DURATION=5s            DTR_STEPS=10:12
 *     DTR_KEEP_EVENTS=N      DTR_KEEP_TIME=5s           DTR_STACKS=16
 *     DTR_CLOCK=monotonic|tsc  DTR_COMPRESS=none|zstd
 *
 * The settings in force are stored in the file, each with its origin.
 *
 * Under `dtrscope record`, events go into memory that it shares (DTR_CHANNEL says where), and it
 * writes the file; alone, the session has a writer thread of its own.  What was emitted before the
 * program is killed is in the file in the first case, and what is older than the commit interval in
 * the second.  Sessions of one process that record into the same file share its writer, and the
 * recording settings of the first hold.  After a fork the session is the parent's: in the child it
 * records nothing, and closing it frees memory only.  A session that the child opens itself is a
 * run of its own; alone, it needs another file (DTR_RECORD=run-%p.dtr.sqlite). */
#ifndef DTR_SESSION_H
#define DTR_SESSION_H

#include <stddef.h>

#include "dtr/recorder.h"
#include "dtr/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dtr_session dtr_session;

typedef struct dtr_session_options {
    size_t size;                /* set by dtr_session_options_init */
    const dtr_backend *backend; /* borrowed until the session is closed */
    const char *program;        /* for the file; may be NULL */
    /* The program's own choices, as texts in the form of the environment; NULL: the default. */
    const char *budget, *heuristic, *search, *deallocation, *record, *remat_limit;
    /* The call stacks of DTR_STACKS are the host's own, as those of an interpreter: `stack` stores
     * at most n keys, the innermost call first, and returns how many; `describe` gives a key's
     * text, once.  Equal keys are equal places.  Called by the thread that uses the runtime.  NULL:
     * the C stack. */
    int (*stack)(void *self, void **out_keys, int n);
    void (*describe)(void *self, void *key, char *out_text, size_t size);
    void *stack_self;
} dtr_session_options;

DTR_API void dtr_session_options_init(dtr_session_options *options);
/* DTR_E_INVALID names the setting and its value; nothing is left open then. */
DTR_API dtr_status dtr_session_open(const dtr_session_options *options, dtr_session **out_session,
                                    dtr_error *error);
DTR_API dtr_runtime *dtr_session_runtime(dtr_session *session); /* borrowed */
/* How many frames of each operator's call stack are recorded; 0: none. */
DTR_API int dtr_session_stack_depth(const dtr_session *session);
/* Recording off, and on again; any thread.  Does nothing without a recorder. */
DTR_API void dtr_session_pause(dtr_session *session, bool pause);
/* Has the events that a flight recorder (DTR_KEEP_*) keeps written into the file.  From the thread
 * that uses the runtime. */
DTR_API void dtr_session_dump(dtr_session *session);
/* Tells how the run ended; without it, closing says DTR_OK. */
DTR_API void dtr_session_set_result(dtr_session *session, dtr_status result, const char *why);
/* Writes the results and closes the file; the runtime goes on unrecorded, until dtr_session_close:
 * for a program that is about to end and whose tensors may still be asked for.  Errors as there. */
DTR_API dtr_status dtr_session_stop_recording(dtr_session *session, dtr_recorder_stats *out_stats,
                                              dtr_error *error);
/* Writes the results, closes the file and frees the runtime.  Accepts NULL.  A failure means that
 * the file is not complete; *out_stats (optional) are the recorder's counts, all 0 without one. */
DTR_API dtr_status dtr_session_close(dtr_session *session, dtr_recorder_stats *out_stats,
                                     dtr_error *error);

#ifdef __cplusplus
}
#endif
#endif
