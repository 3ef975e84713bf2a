/* The command table of dtrscope: one cmd_*.c a verb. */
#ifndef DTRI_CLI_CLI_H
#define DTRI_CLI_CLI_H

/* Exit codes.  `record` passes the program's own code through. */
enum dtri_exit {
    DTRI_EXIT_OK = 0,
    DTRI_EXIT_FAILURE = 1,    /* something the world did: a file, a port, a full disk */
    DTRI_EXIT_USAGE = 2,      /* a bad option or argument */
    DTRI_EXIT_INCOMPLETE = 3, /* check --strict: sound, but not all that happened is there */
    DTRI_EXIT_SCHEMA = 4,     /* a file of a schema that this program does not know */
};

struct dtri_command {
    const char *name;
    const char *synopsis;              /* the arguments, for the usage line */
    const char *summary;               /* one line for `dtrscope help` */
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns an exit code */
};

/* COMMAND(verb) declares dtri_command_<verb>, defined in cmd_<verb>.c. */
#include "cli/commands.def"

#endif
