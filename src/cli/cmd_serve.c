/* dtrscope serve: shows files in a browser. */
#include <signal.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/common.h"
#include "server/server.h"

struct settings {
    int64_t port, max_events;
};

static const struct dtri_option table[] = {
    {.name = "port",
     .letter = 'p',
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = offsetof(struct settings, port),
     .min = 0,
     .max = 65535,
     .help = "only this port, 0 for any; by default the first free one from 8125 on"},
    {.name = "max-events",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = offsetof(struct settings, max_events),
     .min = 100000,
     .max = 1000000000,
     .help = "hold up to N events of a run in memory, some 100 bytes each; 8000000 by default.  A "
             "larger run is shown from its tiles until you zoom in"},
    {0},
};

#define PORT_DEFAULT (-1)

/* Serves until the user asks for an end.  The signals are blocked in all threads and waited for
 * here, so no handler runs anywhere. */
static dtr_status serve(const struct dtri_server_options *options, dtr_error *error)
{
    struct dtri_server *server;
    sigset_t ends;
    int signal;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    dtr_status status = dtri_server_start(options, &server, error);
    if (status != DTR_OK)
        return status;
    printf("http://127.0.0.1:%d/#token=%s\n", dtri_server_port(server), dtri_server_token(server));
    fflush(stdout);
    fputs("open this address in a browser on this machine; Ctrl-C ends the server\n", stderr);
    sigwait(&ends, &signal);
    dtri_server_stop(server);
    return DTR_OK;
}

static int run(int argc, char **argv)
{
    const struct dtri_command *command = &dtri_command_serve;
    struct settings settings = {.port = PORT_DEFAULT};
    struct dtri_arguments arguments;
    dtr_error error = {0};
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals < 1)
        return dtri_cli_usage(command, "give at least one file");
    struct dtri_server_options options = {
        .paths = (const char *const *)arguments.positionals,
        .n_paths = arguments.n_positionals,
        .port = settings.port == PORT_DEFAULT ? DTRI_SERVER_PORT : (int)settings.port,
        .port_only = settings.port != PORT_DEFAULT,
        .max_events = settings.max_events,
    };
    if (serve(&options, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    return DTRI_EXIT_OK;
}

const struct dtri_command dtri_command_serve = {
    .name = "serve",
    .synopsis = "FILE... [--port N] [--max-events N]",
    .summary = "look at runs and sweeps in the browser",
    .run = run,
};
