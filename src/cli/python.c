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

bool dtri_python_is(const char *program)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

/* The first option in a word such as "-uI" that keeps Python from the adapter, or 0.  In
 * *out_value: the word takes the next one as its value; in *out_last: what follows is the
 * program's. */
static char harmful(const char *word, bool *out_value, bool *out_last)
{
    *out_value = strcmp(word, "--check-hash-based-pycs") == 0;
    *out_last = word[0] != '-' || word[1] == '\0';
    if (*out_last || word[1] == '-')
        return 0;
    for (const char *at = word + 1; *at; at++) {
        if (*at == 'c' || *at == 'm')
            *out_last = true;
        else if (*at == 'W' || *at == 'X')
            *out_value = at[1] == '\0';
        else if (strchr("IES", *at))
            return *at;
        else
            continue;
        break;
    }
    return 0;
}

char dtri_python_deaf_by(char *const *command)
{
    bool value = false, last = !dtri_python_is(command[0]);
    for (int i = 1; !last && command[i]; i++) {
        char option = harmful(command[i], &value, &last);
        if (option)
            return option;
        if (value && command[i + 1])
            i++;
    }
    return 0;
}
