/* dtrscope: finds the verb in the command table and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define ENTRY(verb) &dtri_command_##verb,
static const struct dtri_command *const commands[] = {DTRI_CLI_COMMANDS(ENTRY)};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fputs("dtrscope: see what Dynamic Tensor Rematerialization does to a training run\n\n"
          "usage: dtrscope COMMAND [ARGUMENTS]\n\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`dtrscope COMMAND --help` lists the arguments of one command.\n", out);
}

static const struct dtri_command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return DTRI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = (char[]){"version"};
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return DTRI_EXIT_OK;
    }
    const struct dtri_command *command = find(argv[1]);
    if (!command) {
        fprintf(stderr, "dtrscope: there is no command '%s'; `dtrscope help` lists them\n",
                argv[1]);
        return DTRI_EXIT_USAGE;
    }
    return command->run(argc - 1, argv + 1);
}
