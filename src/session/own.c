#include "session/own.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "record/collector.h"
#include "record/guard.h"
#include "session/collect.h"

struct dtri_own {
    pid_t pid;
    int users;
    dev_t device;
    ino_t inode;
    struct dtri_channel *channel;
    struct dtri_collect *collect;
    struct dtri_collector *collector;
    struct dtri_own *next;
};

/* Taken only inside the guard, so that it is free in a child of fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dtri_own *all;

/* --- in the middle of the program's own thread ------------------------------------------------ */

/* Growing a file beyond a limit sends a signal that would end the program; without it there is just
 * an error. */
struct quiet {
    sigset_t before;
    bool pending;
};

static void enter(struct quiet *quiet)
{
    sigset_t limit, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    sigpending(&pending);
    quiet->pending = sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &quiet->before);
    dtri_guard_enter();
}

static void leave(const struct quiet *quiet)
{
    const struct timespec at_once = {0};
    sigset_t limit;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    dtri_guard_leave();
    if (!quiet->pending)
        sigtimedwait(&limit, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

/* --- the list --------------------------------------------------------------------------------- */

/* An open collector of that file, perhaps the parent's. */
static struct dtri_own *find(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return NULL;
    for (struct dtri_own *own = all; own; own = own->next)
        if (own->device == about.st_dev && own->inode == about.st_ino)
            return own;
    return NULL;
}

static void unlink_own(const struct dtri_own *own)
{
    struct dtri_own **link = &all;
    while (*link != own)
        link = &(*link)->next;
    *link = own->next;
}

static dtr_status finish(struct dtri_own *own, dtr_error *error)
{
    struct quiet quiet;
    dtri_collector_stop(own->collector);
    enter(&quiet);
    dtr_status status = DTR_OK;
    if (own->collect)
        status = dtri_collect_finish(own->collect, DTRI_NULL, NULL, NULL, error);
    dtri_collect_free(own->collect);
    leave(&quiet);
    dtri_channel_free(own->channel);
    dtri_free(own);
    return status;
}

static dtr_status make(const char *path, const struct dtri_settings *settings, struct dtri_own *own,
                       dtr_error *error)
{
    struct dtri_channel_options channel;
    struct dtri_collector_options options;
    struct stat about;
    dtr_status status = dtri_collect_new(DTRI_COLLECT_APPEND, &own->collect, error);
    if (status == DTR_OK)
        dtri_collect_compress(own->collect, settings->compress == 1);
    if (status == DTR_OK)
        status = dtri_collect_open(own->collect, path, error);
    if (status == DTR_OK)
        status = dtri_collect_options(settings, &channel, &options, error);
    if (status == DTR_OK)
        status = dtri_channel_create(&channel, &own->channel, error);
    if (status != DTR_OK)
        return status;
    if (stat(path, &about) == 0) {
        own->device = about.st_dev;
        own->inode = about.st_ino;
    }
    options.channel = own->channel;
    options.output = dtri_collect_output(own->collect);
    return dtri_collector_start(&options, &own->collector, error);
}

static dtr_status find_or_make(const char *path, const struct dtri_settings *settings,
                               struct dtri_own **out_own, dtr_error *error)
{
    struct dtri_own *own = find(path);
    if (own && own->pid != getpid())
        return dtri_fail(error, DTR_E_STATE, 0,
                         "%s is recorded into by the process that this one was forked from; give "
                         "each process a file with %%p in its name, or use `dtrscope record`",
                         path);
    if (own) {
        own->users++;
        *out_own = own;
        return DTR_OK;
    }
    own = dtri_calloc(1, sizeof *own);
    if (!own)
        return dtri_fail_nomem(error, "the recorder");
    own->pid = getpid();
    own->users = 1;
    *out_own = own;
    dtr_status status = make(path, settings, own, error);
    if (status == DTR_OK) {
        own->next = all;
        all = own;
    }
    return status;
}

dtr_status dtri_own_open(const char *path, const struct dtri_settings *settings,
                         struct dtri_own **out_own, dtr_error *error)
{
    struct dtri_own *own = NULL;
    struct quiet quiet;
    enter(&quiet);
    pthread_mutex_lock(&lock);
    dtr_status status = find_or_make(path, settings, &own, error);
    pthread_mutex_unlock(&lock);
    leave(&quiet);
    if (status == DTR_OK)
        *out_own = own;
    else if (own)
        finish(own, NULL);
    return status;
}

struct dtri_channel *dtri_own_channel(const struct dtri_own *own)
{
    return own->channel;
}

/* The entry stays, as a warning: SQLite still believes that it has the file open. */
static dtr_status close_in_child(struct dtri_own *own)
{
    if (--own->users == 0) {
        dtri_channel_free(own->channel);
        own->channel = NULL;
    }
    return DTR_OK;
}

dtr_status dtri_own_close(struct dtri_own *own, dtr_error *error)
{
    if (!own)
        return DTR_OK;
    if (own->pid != getpid())
        return close_in_child(own);
    dtri_guard_enter();
    pthread_mutex_lock(&lock);
    bool last = --own->users == 0;
    if (last)
        unlink_own(own);
    pthread_mutex_unlock(&lock);
    dtri_guard_leave();
    return last ? finish(own, error) : DTR_OK;
}
