/* dtrscope migrate: a file of an older schema version becomes one of the present version. */
#include <stdio.h>

#include "base/error.h"
#include "cli/common.h"
#include "store/store.h"

static const struct dtri_option table[] = {{0}};

static int run(int argc, char **argv)
{
    struct dtri_arguments arguments;
    struct dtri_store *store;
    int none, failed = 0;
    const struct dtri_command *command = &dtri_command_migrate;
    dtr_error error = {0};
    if (dtri_options_parse(table, &none, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals < 1)
        return dtri_cli_usage(command, "give a file");
    for (int i = 0; i < arguments.n_positionals; i++) {
        dtr_status status =
            dtri_store_open(arguments.positionals[i], DTRI_STORE_WRITE, &store, &error);
        if (status == DTR_OK)
            status = dtri_store_close(store, &error);
        if (status != DTR_OK)
            failed = dtri_cli_fail(command, &error);
        else
            printf("%s: schema version %d\n", arguments.positionals[i], DTRI_STORE_VERSION);
    }
    return failed;
}

const struct dtri_command dtri_command_migrate = {
    .name = "migrate",
    .synopsis = "FILE...",
    .summary = "bring files of older schema versions up to the present one, in place",
    .run = run,
};
