/* Call stacks of operators: a sink that adds, to the first call of each operator, where in the
 * program it came from, as frame and origin events.  Equal stacks share their frames. */
#ifndef DTRI_SESSION_STACKS_H
#define DTRI_SESSION_STACKS_H

#include "dtr/event.h"

struct dtri_stacks;

/* Where stacks come from, if not from the C stack; see dtr/session.h. */
struct dtri_stack_source {
    int (*stack)(void *self, void **out_keys, int n);
    void (*describe)(void *self, void *key, char *out_text, size_t size);
    void *self;
};
/* Passes on to `sink` (copied), with at most `depth` frames a stack.  Since its events come between
 * the runtime's, it numbers all of them anew. */
dtr_status dtri_stacks_new(const dtr_sink *sink, int depth, const struct dtri_stack_source *source,
                           struct dtri_stacks **out_stacks, dtr_error *error);
dtr_sink dtri_stacks_sink(struct dtri_stacks *stacks);
void dtri_stacks_free(struct dtri_stacks *stacks); /* accepts NULL */

#endif
