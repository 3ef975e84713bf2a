/* A pool of threads that take jobs by number and leave results in a list for the caller's thread.
 */
#include "sim/sweep.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct finished {
    struct finished *next;
    size_t job;
    dtr_status status;
    struct dtri_sim_result result;
    dtr_error error;
};

struct pool {
    const struct dtri_sweep_job *jobs;
    size_t n_jobs;
    const volatile sig_atomic_t *cancel;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t news;
    size_t next_job;
    int n_running; /* threads */
    bool stop;
    struct finished *first, **last;
};

static bool take_job(struct pool *pool, size_t *out_job)
{
    pthread_mutex_lock(&pool->lock);
    bool more = !pool->stop && !*pool->cancel && pool->next_job < pool->n_jobs;
    if (more)
        *out_job = pool->next_job++;
    pthread_mutex_unlock(&pool->lock);
    return more;
}

static void tell(struct pool *pool, struct finished *finished)
{
    pthread_mutex_lock(&pool->lock);
    *pool->last = finished;
    pool->last = &finished->next;
    pthread_cond_signal(&pool->news);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *self)
{
    struct pool *pool = self;
    size_t job;
    while (take_job(pool, &job)) {
        struct finished *finished = dtri_calloc(1, sizeof *finished);
        if (!finished)
            break; /* the caller sees that jobs are missing */
        finished->job = job;
        finished->status = dtri_sim_run(pool->jobs[job].trace, &pool->jobs[job].options,
                                        &finished->result, &finished->error);
        tell(pool, finished);
    }
    pthread_mutex_lock(&pool->lock);
    pool->n_running--;
    pthread_cond_signal(&pool->news);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The next finished job, or NULL when there will be none. */
static struct finished *wait_for_one(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->first && pool->n_running)
        pthread_cond_wait(&pool->news, &pool->lock);
    struct finished *finished = pool->first;
    if (finished) {
        pool->first = finished->next;
        if (!pool->first)
            pool->last = &pool->first;
    }
    pthread_mutex_unlock(&pool->lock);
    return finished;
}

static void stop(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_mutex_unlock(&pool->lock);
}

static dtr_status collect(struct pool *pool, dtri_sweep_done done, void *user, size_t *out_n,
                          dtr_error *error)
{
    dtr_status status = DTR_OK;
    struct finished *finished;
    while ((finished = wait_for_one(pool))) {
        if (status == DTR_OK)
            status = done(user, &pool->jobs[finished->job], finished->status, &finished->result,
                          &finished->error, error);
        if (status != DTR_OK)
            stop(pool);
        dtri_free(finished);
        ++*out_n;
    }
    return status;
}

dtr_status dtri_sweep_run(const struct dtri_sweep_job *jobs, size_t n_jobs, int n_threads,
                          const volatile sig_atomic_t *cancel, dtri_sweep_done done, void *user,
                          dtr_error *error)
{
    struct pool pool = {.jobs = jobs, .n_jobs = n_jobs, .cancel = cancel, .last = &pool.first};
    pthread_t threads[256];
    int n = 0;
    size_t n_done = 0;
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.news, NULL);
    pthread_mutex_lock(&pool.lock); /* so that n_running is right when the first one looks */
    while (n < n_threads && n < 256 && pthread_create(&threads[n], NULL, work, &pool) == 0)
        n++;
    pool.n_running = n;
    pthread_mutex_unlock(&pool.lock);
    dtr_status status = collect(&pool, done, user, &n_done, error);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&pool.news);
    pthread_mutex_destroy(&pool.lock);
    if (status == DTR_OK && *cancel)
        return dtri_fail(error, DTR_E_INTERRUPTED, 0, "interrupted after %zu of %zu runs", n_done,
                         n_jobs);
    if (status == DTR_OK && n_done < n_jobs)
        return dtri_fail_nomem(error, "a sweep");
    return status;
}
