/* export_viewers_make FILE EVENTS [SEED]: a run that no runtime would record: operator runs that
 * overlap or touch, names of hostile bytes, ids beyond 2^53, marks that do not match.  Most of it
 * is plain, so that many events make a large run of the usual kind.  With a seed, all fields of all
 * kinds hold what is hard on arithmetic. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "store/store.h"

static const char *const names[] = {
    "plain",
    "quote \" and \\ backslash",
    "line\nfeed and tab\t and \x01\x1f\x7f",
    "bad \xff\xc0\xaf bytes",
    "cut \xe2\x82",
    "\xe2\x82\xac and \xf0\x9f\x98\x80",
    "</script><!--",
    "",
};
#define N_NAMES (int64_t)(sizeof names / sizeof names[0])

struct made {
    struct dtri_store_writer *writer;
    struct dtri_rng rng;
    int64_t seq, now, in_use, id;
};

static void check(dtr_status status, const dtr_error *error)
{
    if (status == DTR_OK)
        return;
    fprintf(stderr, "export_viewers_make: %s\n", error->text);
    exit(1);
}

static void add(struct made *m, dtr_event *event, dtr_event_kind kind, int64_t ts)
{
    dtr_error error = {0};
    event->kind = kind;
    event->ts_ns = ts;
    event->seq = m->seq++;
    check(dtri_store_writer_add(m->writer, event, &error), &error);
}

static int64_t below(struct made *m, int64_t n)
{
    return (int64_t)(dtri_rng_next(&m->rng) % (uint64_t)n);
}

static void add_run(struct made *m)
{
    dtr_event event = {0};
    int64_t dur = below(m, 4) ? below(m, 1000) : 0;
    bool overlaps = below(m, 50) == 0;
    int64_t begin = overlaps && m->now > 700 ? m->now - below(m, 700) : m->now;
    int64_t id = below(m, 1000) ? m->id : INT64_MAX - m->id;
    m->id++;
    event.u.operator_run_ = (dtr_event_operator_run){
        .execution = id,
        .op = m->id,
        .name = below(m, N_NAMES + 1) - 1, /* DTR_NONE, too */
        .dur_ns = dur,
        .cost_ns = dur,
        .replay = below(m, 3) == 0,
        .target = m->id,
        .cause = DTR_NONE,
        .chain = DTR_NONE,
        .in_use = m->in_use,
    };
    if (event.u.operator_run_.replay && below(m, 2))
        event.u.operator_run_.chain = m->id / 20;
    add(m, &event, DTR_EVENT_OPERATOR_RUN, begin);
    m->now = begin + dur > m->now ? begin + dur : m->now;
}

static void add_memory(struct made *m)
{
    dtr_event event = {0};
    int64_t bytes = 1 + below(m, 1 << 20);
    if (below(m, 2) && m->in_use >= bytes) {
        m->in_use -= bytes;
        event.u.eviction_ = (dtr_event_eviction){.storage = m->id,
                                                 .bytes = bytes,
                                                 .in_use = m->in_use,
                                                 .reason = below(m, 5),
                                                 .decision = DTR_NONE};
        add(m, &event, DTR_EVENT_EVICTION, m->now);
        return;
    }
    m->in_use += bytes;
    event.u.allocation_ = (dtr_event_allocation){
        .storage = m->id, .bytes = bytes, .in_use = m->in_use, .offset = DTR_NONE};
    add(m, &event, DTR_EVENT_ALLOCATION, m->now);
}

static void add_mark(struct made *m)
{
    dtr_event event = {0};
    int64_t mark = below(m, DTR_MARK_END + 1);
    event.u.mark_ = (dtr_event_mark){.mark = mark, .name = DTR_NONE, .value = DTR_NONE};
    if (mark == DTR_MARK_RANGE_BEGIN)
        event.u.mark_.name = below(m, N_NAMES);
    else if (mark == DTR_MARK_ITERATION)
        event.u.mark_.value = m->id;
    add(m, &event, DTR_EVENT_MARK, m->now);
}

static void add_extreme(struct made *m)
{
    static const int64_t hard[] = {
        INT64_MIN,        INT64_MIN + 1, -2,           -1, 0, 1, 2, 3, (INT64_C(1) << 53) - 1,
        INT64_C(1) << 53, INT64_MAX,     INT64_MAX - 1};
    enum { HARD = sizeof hard / sizeof hard[0], MILD = 5 };
    int n_kinds;
    const dtr_event_info *infos = dtr_event_infos(&n_kinds);
    const dtr_event_info *info = &infos[below(m, n_kinds)];
    dtr_event event = {0};
    for (int i = 0; i < info->n_fields; i++)
        event.u.raw[i] = below(m, 12) ? below(m, MILD) : hard[below(m, HARD)];
    add(m, &event, info->kind, below(m, 8) ? m->now : hard[below(m, HARD)]);
}

int main(int argc, char **argv)
{
    struct made m = {.now = INT64_C(1700000000000000000)};
    struct dtri_run run;
    struct dtri_store *store;
    dtr_error error = {0};
    if (argc < 3)
        return 2;
    int64_t n = atoll(argv[2]);
    dtri_rng_seed(&m.rng, argc > 3 ? strtoull(argv[3], NULL, 10) : 7);
    check(dtri_store_create(argv[1], true, &store, &error), &error);
    dtri_run_init(&run, "live");
    run.base_ts_ns = m.now;
    run.has_events = 1;
    dtri_run_set_text(run.program, "a \"program\" \xff");
    dtri_run_set_text(run.result, "ok");
    check(dtri_store_add_run(store, &run, &error), &error);
    for (int64_t i = 0; i < N_NAMES; i++)
        check(dtri_store_add_name(store, run.id, i, names[i], &error), &error);
    if (argc == 3) {
        check(dtri_store_add_loss(store, run.id, "ring \"full\"", 12, &error), &error);
        check(dtri_store_add_loss(store, run.id, "disk full", DTRI_NULL, &error), &error);
    }
    check(dtri_store_writer_new(store, run.id, &m.writer, &error), &error);
    for (int64_t i = 0; i < n; i++) {
        int64_t kind = below(&m, 100);
        if (argc > 3)
            add_extreme(&m);
        else if (kind < 50)
            add_run(&m);
        else if (kind < 98)
            add_memory(&m);
        else
            add_mark(&m);
        m.now += below(&m, 3) ? 0 : below(&m, 500);
    }
    check(dtri_store_writer_flush(m.writer, &error), &error);
    dtri_store_writer_free(m.writer);
    check(dtri_store_close(store, &error), &error);
    return 0;
}
