/* The newest events of one stream, in memory: at most so many, at most so old.  What is overwritten
 * is counted. */
#ifndef DTRI_RECORD_FLIGHT_H
#define DTRI_RECORD_FLIGHT_H

#include <stdbool.h>

#include "dtr/event.h"

struct dtri_flight;
/* max_events >= 1; keep_ns: DTR_NONE for any age, else events older than the newest by more go. */
dtr_status dtri_flight_new(int64_t max_events, int64_t keep_ns, struct dtri_flight **out_flight,
                           dtr_error *error);
/* False when there is no memory: the event is lost, and not counted here. */
bool dtri_flight_push(struct dtri_flight *flight, const dtr_event *event);
/* The oldest event, removed; false when there is none. */
bool dtri_flight_pop(struct dtri_flight *flight, dtr_event *out_event);
int64_t dtri_flight_overwritten(const struct dtri_flight *flight);
void dtri_flight_free(struct dtri_flight *flight); /* accepts NULL */

#endif
