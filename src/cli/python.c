#include "cli/python.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Next to the program in a build, under lib/dtrscope when it is installed. */
static const char *const places[] = {"python", "../lib/dtrscope/python"};

void dtri_python_environment(void)
{
    char program[PATH_MAX], directory[PATH_MAX], paths[3 * PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return;
    program[n] = '\0';
    const char *home = dirname(program);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(paths, sizeof paths, "%s/%s/auto", home, places[i]);
        if (!realpath(paths, directory))
            continue;
        const char *set = getenv("PYTHONPATH");
        snprintf(paths, sizeof paths, "%s:%.*s%s%s", directory,
                 (int)(strlen(directory) - strlen("/auto")), directory, set && set[0] ? ":" : "",
                 set ? set : "");
        setenv("PYTHONPATH", paths, 1);
        return;
    }
}
