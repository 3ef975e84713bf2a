/* The collectors of a process whose sessions write their files themselves: one a file, shared by
 * the sessions that record into it.  Any thread.
 *
 * A child of fork cannot go on with its parent's collectors, nor open the same files: SQLite
 * forbids it. */
#ifndef DTRI_SESSION_OWN_H
#define DTRI_SESSION_OWN_H

#include "record/channel.h"
#include "session/settings.h"

struct dtri_own;
/* Opens or makes the file, so that a bad one is told at once.  Where it is open already, it is
 * shared, and the settings with which it was opened hold. */
dtr_status dtri_own_open(const char *path, const struct dtri_settings *settings,
                         struct dtri_own **out_own, dtr_error *error);
struct dtri_channel *dtri_own_channel(const struct dtri_own *own); /* borrowed */
/* The last one closes the file.  In a child of fork, it frees memory only.  Accepts NULL. */
dtr_status dtri_own_close(struct dtri_own *own, dtr_error *error);

#endif
