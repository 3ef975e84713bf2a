/* The program that `dtrscope record` runs. */
#ifndef DTRI_CLI_CHILD_H
#define DTRI_CLI_CHILD_H

#include "record/collector.h"

/* Calls `prepare` in the new process, runs `command` there and waits for it.  SIGTERM and SIGHUP
 * are passed on; so is SIGINT when somebody sent it to this process alone (a terminal sends it to
 * both), and the third ends the program with SIGKILL.  SIGUSR1 has the newest events of a flight
 * recorder written, SIGUSR2 turns recording off and on (`collector` may be NULL).  The exit code is
 * the program's, 128 + n when signal n ended it, 126 or 127 when it could not be started. */
int dtri_run_child(char **command, void (*prepare)(void *user), void *user,
                   struct dtri_collector *collector);

#endif
