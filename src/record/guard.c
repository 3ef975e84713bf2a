#include "record/guard.h"

#include <pthread.h>

/* Those inside are readers, a fork is the writer: it waits for them, and they for it. */
#define UNLOCKED PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP

static pthread_rwlock_t guard = UNLOCKED;

static void before_fork(void)
{
    pthread_rwlock_wrlock(&guard);
}

static void after_fork(void)
{
    pthread_rwlock_unlock(&guard);
}

static void in_child(void)
{
    guard = (pthread_rwlock_t)UNLOCKED;
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void dtri_guard_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_rwlock_rdlock(&guard);
}

void dtri_guard_leave(void)
{
    pthread_rwlock_unlock(&guard);
}
