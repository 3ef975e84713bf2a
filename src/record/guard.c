#include "record/guard.h"

#include <pthread.h>
#include <stdbool.h>

/* A fork waits until nobody is inside, and keeps others out meanwhile.  The lock stays taken over
 * the fork itself; a read-write lock would not do, since glibc's cannot be unlocked in the child.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static unsigned inside;
static bool forking;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    while (forking)
        pthread_cond_wait(&change, &lock);
    forking = true;
    while (inside)
        pthread_cond_wait(&change, &lock);
}

static void after_fork(void)
{
    forking = false;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    forking = false;
    change = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* nobody waits here */
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void dtri_guard_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    while (forking)
        pthread_cond_wait(&change, &lock);
    inside++;
    pthread_mutex_unlock(&lock);
}

void dtri_guard_leave(void)
{
    pthread_mutex_lock(&lock);
    if (--inside == 0)
        pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}
