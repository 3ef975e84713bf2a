/* Puts events that come a little late into the order of their time: holds back what is younger than
 * a window, in bounded memory.
 *
 * Two events with the same ts_ns keep the order in which they came.  An event that is older than
 * one that has been let go already is *late*: it is let go at once, marked and counted, and whoever
 * needs strict order deals with it. */
#ifndef DTRI_RECORD_REORDER_H
#define DTRI_RECORD_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtr/event.h"
#include "dtr/status.h"

struct dtri_reorder;

/* Holds back events until one comes that is more than `window_ns` (>= 0) younger, at most
 * `max_events` (>= 1) at a time. */
dtr_status dtri_reorder_new(int64_t window_ns, size_t max_events, struct dtri_reorder **out_reorder,
                            dtr_error *error);
/* False when it is full: pop first.  Pop until there is nothing ready, and it never is. */
bool dtri_reorder_push(struct dtri_reorder *reorder, const dtr_event *event);
/* The oldest event, if it need not wait: it is outside the window, or the buffer is full.
 * *out_late: an event younger than it was popped before. */
bool dtri_reorder_pop(struct dtri_reorder *reorder, dtr_event *out_event, bool *out_late);
/* No more events come: from now on none waits. */
void dtri_reorder_end(struct dtri_reorder *reorder);
/* Late events so far. */
int64_t dtri_reorder_late(const struct dtri_reorder *reorder);
void dtri_reorder_free(struct dtri_reorder *reorder); /* accepts NULL */

#endif
