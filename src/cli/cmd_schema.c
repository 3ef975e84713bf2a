/* dtrscope schema: the reference of the file, from the same lists that the code is made from. */
#include <stdio.h>
#include <string.h>

#include "cli/common.h"
#include "dtr/event.h"

extern const unsigned char dtri_schema[];

struct settings {
    bool tables;
};

static const struct dtri_option table[] = {
    {.name = "sql",
     .type = DTRI_OPTION_FLAG,
     .offset = offsetof(struct settings, tables),
     .help = "the tables as commented SQL, instead of the event views"},
    {0},
};

static const char *unit_text(dtr_unit unit)
{
    static const char *const texts[] = {
        [DTR_UNIT_NS] = "ns",     [DTR_UNIT_BYTES] = "bytes", [DTR_UNIT_ID] = "id",
        [DTR_UNIT_NAME] = "text", [DTR_UNIT_COUNT] = "count", [DTR_UNIT_CODE] = "code",
        [DTR_UNIT_REAL] = "real",
    };
    return texts[unit];
}

static void print_views(void)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    puts("Every view also has `run` (id in table run), `ts_ns` (event time; subtract\n"
         "run.base_ts_ns) and `seq` (total order within a run).  NULL stands for \"none\".");
    for (int i = 0; i < n; i++) {
        printf("\n## %s\n\n%s (kind %d)\n\n| column | unit | meaning |\n| --- | --- | --- |\n",
               infos[i].name, infos[i].meaning, (int)infos[i].kind);
        for (int f = 0; f < infos[i].n_fields; f++)
            printf("| %s | %s | %s |\n", infos[i].fields[f].name,
                   unit_text(infos[i].fields[f].unit), infos[i].fields[f].meaning);
    }
}

static int run(int argc, char **argv)
{
    struct settings settings = {0};
    struct dtri_arguments arguments;
    dtr_error error = {0};
    const struct dtri_command *command = &dtri_command_schema;
    if (dtri_options_parse(table, &settings, argc, argv, &arguments, &error) != DTR_OK)
        return dtri_cli_fail(command, &error);
    if (arguments.help)
        return dtri_cli_help(command, table);
    if (arguments.n_positionals)
        return dtri_cli_usage(command, "it takes no file");
    if (settings.tables)
        fputs((const char *)dtri_schema, stdout);
    else
        print_views();
    return DTRI_EXIT_OK;
}

const struct dtri_command dtri_command_schema = {
    .name = "schema",
    .synopsis = "[--sql]",
    .summary = "the reference of the file: every event view and column with its unit",
    .run = run,
};
