#include "cli/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 3 /* interrupts */

static volatile sig_atomic_t child_pid, interrupts;
static struct dtri_collector *volatile listening;

static void tell(int signal)
{
    if (child_pid > 0)
        kill((pid_t)child_pid, signal);
}

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)context;
    switch (signal) {
    case SIGINT:
        if (++interrupts >= PATIENCE)
            tell(SIGKILL);
        else if (info->si_code <= 0) /* from a process, not from the terminal */
            tell(signal);
        break;
    case SIGQUIT:
        if (info->si_code <= 0)
            tell(signal);
        break;
    case SIGUSR1:
        if (listening)
            dtri_collector_dump(listening, DTRI_WINDOW_SIGNAL);
        break;
    case SIGUSR2:
        if (listening)
            dtri_collector_toggle(listening);
        break;
    default:
        tell(signal);
    }
}

#define HANDLED ((void (*)(int))0)

/* Beside what is passed on: that nobody reads what is printed, or that a file may not grow, must
 * not end this process before the record is closed; and with SIGCHLD ignored, as some start their
 * children, nobody would tell how the program ended. */
static const struct {
    int signal;
    void (*how)(int);
} dispositions[] = {
    {SIGINT, HANDLED},  {SIGQUIT, HANDLED}, {SIGTERM, HANDLED},
    {SIGHUP, HANDLED},  {SIGUSR1, HANDLED}, {SIGUSR2, HANDLED},
    {SIGPIPE, SIG_IGN}, {SIGXFSZ, SIG_IGN}, {SIGCHLD, SIG_DFL},
};
#define N_DISPOSITIONS (sizeof dispositions / sizeof dispositions[0])

static void dispose(struct sigaction old[N_DISPOSITIONS])
{
    for (size_t i = 0; i < N_DISPOSITIONS; i++) {
        struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
        if (dispositions[i].how != HANDLED)
            action = (struct sigaction){.sa_handler = dispositions[i].how};
        sigaction(dispositions[i].signal, &action, &old[i]);
    }
}

static _Noreturn void start(char **command, void (*prepare)(void *user), void *user)
{
    prepare(user);
    execvp(command[0], command);
    int why = errno;
    fprintf(stderr, "dtrscope record: cannot run %s: %s\n", command[0], strerror(why));
    _exit(why == ENOENT ? 127 : 126);
}

int dtri_run_child(char **command, void (*prepare)(void *user), void *user,
                   struct dtri_collector *collector)
{
    struct sigaction old[N_DISPOSITIONS];
    sigset_t block, before;
    int state = 0;
    sigemptyset(&block);
    for (size_t i = 0; i < N_DISPOSITIONS; i++)
        sigaddset(&block, dispositions[i].signal);
    sigprocmask(SIG_BLOCK, &block, &before); /* until the child's number is known */
    listening = collector;
    dispose(old);
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < N_DISPOSITIONS; i++)
            sigaction(dispositions[i].signal, &old[i], NULL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        start(command, prepare, user);
    }
    child_pid = pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        fprintf(stderr, "dtrscope record: cannot start a process: %s\n", strerror(errno));
        return 126;
    }
    while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
        continue;
    /* From here on signals are taken and do nothing: the file gets its end first. */
    child_pid = 0;
    listening = NULL;
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}
