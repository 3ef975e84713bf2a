/* The web server: files in, pages and JSON out, on the loopback interface only.
 *
 * What keeps it safe on a machine with other users and a browser full of other pages:
 *   - it listens on 127.0.0.1 and answers only to a Host that names it (DNS rebinding);
 *   - every answer with data needs the token of this start, as a cookie or as a bearer;
 *   - GET and HEAD only, nothing changes state, databases are open for reading;
 *   - every answer is bounded, whatever is asked for.
 *
 * Threads: start and stop belong to one thread; requests are served by a pool of two. */
#ifndef DTRI_SERVER_SERVER_H
#define DTRI_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "dtr/status.h"

#define DTRI_SERVER_PORT  8125
#define DTRI_SERVER_PORTS 100 /* tried upwards from the first, unless one was asked for */

struct dtri_server;

struct dtri_server_options {
    const char *const *paths; /* borrowed until the server stops */
    int n_paths;
    int port;           /* 0: the system chooses */
    bool port_only;     /* fail when it is busy, rather than take the next */
    int64_t max_events; /* to hold of one run; 0: DTRI_SNAPSHOT_EVENTS */
};

dtr_status dtri_server_start(const struct dtri_server_options *options,
                             struct dtri_server **out_server, dtr_error *error);
int dtri_server_port(const struct dtri_server *server);
const char *dtri_server_token(const struct dtri_server *server); /* borrowed */
void dtri_server_stop(struct dtri_server *server);               /* accepts NULL */

#endif
