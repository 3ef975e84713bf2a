/* A chain of a million operators on a small C stack: replaying it, forgetting it, and looking for a
 * victim next to it are loops and not recursion.  Each test runs in a thread with a stack of 256
 * KiB, a quarter of a byte for each operator, so a recursion ends in a crash. */
#include "../support.h"

#include <pthread.h>
#include <stdbool.h>

#include "dtr/runtime.h"

#define N_OPS       1000000
#define STACK_BYTES (256 * 1024)

/* What a test asks the thread for, and what came out. */
struct job {
    const char *heuristic;
    void (*act)(struct job *, dtr_runtime *, dtr_tensor last);
    int64_t budget;
    dtr_status status;
    dtr_error error;
    dtr_stats stats;
};

/* One operator after the other, each of cost 1 and size 1; only the last output is held. */
static dtr_status make_chain(dtr_runtime *rt, dtr_tensor *out_last, dtr_error *error)
{
    dtr_tensor first;
    dtr_status status = dtr_constant(rt, 1, &first, NULL, error);
    *out_last = first;
    for (int i = 0; i < N_OPS && status == DTR_OK; i++) {
        dtr_tensor input = *out_last;
        dtr_call call = {.name = DTR_NONE,
                         .cost_ns = 1,
                         .n_inputs = 1,
                         .n_outputs = 1,
                         .inputs = &input,
                         .outputs = &(dtr_output){.bytes = 1, .view_of = -1}};
        status = dtr_run(rt, &call, out_last, error);
        if (i > 0 && status == DTR_OK)
            status = dtr_release(rt, input);
    }
    return status;
}

static void *work(void *user)
{
    struct job *job = user;
    dtr_runtime_options options;
    dtr_runtime *rt;
    dtr_tensor last;
    dtr_runtime_options_init(&options);
    options.backend = dtr_backend_virtual();
    options.budget_bytes = job->budget;
    options.reclaim = true;
    dtr_selector_options selector = {.heuristic = job->heuristic};
    job->status = dtr_selector_new(&selector, &options.selector, &job->error);
    if (job->status == DTR_OK)
        job->status = dtr_runtime_new(&options, &rt, &job->error);
    if (job->status != DTR_OK)
        return NULL;
    job->status = make_chain(rt, &last, &job->error);
    if (job->status == DTR_OK)
        job->act(job, rt, last);
    dtr_runtime_stats(rt, &job->stats);
    dtr_runtime_free(rt);
    return NULL;
}

static void run_on_small_stack(struct job *job)
{
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, work, job), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_ok(job->status, &job->error);
}

static void replay_and_forget(struct job *job, dtr_runtime *rt, dtr_tensor last)
{
    dtr_stats stats;
    job->status = dtr_evict(rt, last);
    if (job->status == DTR_OK)
        job->status = dtr_require(rt, last, &job->error);
    dtr_runtime_stats(rt, &stats);
    if (job->status == DTR_OK && stats.rematerializations != N_OPS)
        job->status = DTR_E_STATE;
    if (job->status == DTR_OK)
        job->status = dtr_release(rt, last);
    if (job->status == DTR_OK) /* what the replay left behind goes, and the chain with it */
        job->status = dtr_set_budget(rt, 1, &job->error);
}

/* Asking for the end of a chain that is gone replays all of it, within a budget of 16 tensors; when
 * nobody holds the end any more and nothing of it is resident, all of it is forgotten. */
static void test_replay_and_reclaim(void **state)
{
    struct job job = {.heuristic = "lru", .act = replay_and_forget, .budget = 16};
    (void)state;
    run_on_small_stack(&job);
    assert_int_equal(job.stats.rematerializations, N_OPS);
    assert_int_equal(job.stats.peak_bytes, 16);
    assert_int_equal(job.stats.operators, 1); /* the constant at the beginning */
    assert_int_equal(job.stats.reclaimed, N_OPS);
}

static void lower_budget(struct job *job, dtr_runtime *rt, dtr_tensor last)
{
    (void)last;
    job->status = dtr_set_budget(rt, 1, &job->error);
}

/* A score that adds up a million evicted ancestors. */
static void test_score_of_neighbourhood(void **state)
{
    struct job job = {.heuristic = "dtr", .act = lower_budget, .budget = DTR_NONE};
    (void)state;
    run_on_small_stack(&job);
    assert_int_equal(job.stats.evictions, 1);
}

/* A million storages merged into one class. */
static void test_score_of_classes(void **state)
{
    struct job job = {.heuristic = "dtr-eq", .act = lower_budget, .budget = DTR_NONE};
    (void)state;
    run_on_small_stack(&job);
    assert_int_equal(job.stats.evictions, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_and_reclaim),
        cmocka_unit_test(test_score_of_neighbourhood),
        cmocka_unit_test(test_score_of_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
