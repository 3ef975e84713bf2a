/* Keeps a fork out of the middle of what its child could not go on from: a call into an output, and
 * with that into SQLite, whose locks would stay taken in the child for ever.
 *
 * Between enter and leave a thread must neither fork nor enter again. */
#ifndef DTRI_RECORD_GUARD_H
#define DTRI_RECORD_GUARD_H

void dtri_guard_enter(void);
void dtri_guard_leave(void);

#endif
