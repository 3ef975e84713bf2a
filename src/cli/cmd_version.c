#include <stdio.h>

#include "cli/cli.h"

static int run(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("dtrscope " DTR_VERSION);
    return DTRI_EXIT_OK;
}

const struct dtri_command dtri_command_version = {
    .name = "version",
    .synopsis = "",
    .summary = "print the version",
    .run = run,
};
