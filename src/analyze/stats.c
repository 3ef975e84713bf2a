/* One pass over each kind of event that matters, column by column. */
#include "analyze/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct pass {
    struct dtri_store *store;
    const struct dtri_run *run;
    struct dtri_run_stats *stats;
    struct dtri_remade *ops; /* by operator id */
    size_t n_ops, cap_ops;
};

/* Calls `visit` for every chunk of a kind; columns[0] is ts_ns, [1] seq, [2..] the fields. */
static dtr_status each_chunk(struct pass *p, dtr_event_kind kind,
                             dtr_status (*visit)(struct pass *, const int64_t *const *columns,
                                                 int n, dtr_error *),
                             dtr_error *error)
{
    struct dtri_store_reader *reader;
    dtr_status status = dtri_store_reader_new(p->store, p->run->id, kind, INT64_MIN, INT64_MAX,
                                              DTRI_ALL_COLUMNS, &reader, error);
    if (status != DTR_OK)
        return status;
    for (;;) {
        int n;
        const int64_t *const *columns;
        status = dtri_store_reader_next(reader, &n, &columns, error);
        if (status == DTR_OK && n)
            status = visit(p, columns, n, error);
        if (status != DTR_OK || n == 0)
            break;
    }
    dtri_store_reader_free(reader);
    return status;
}

static dtr_status note_replay(struct pass *p, const int64_t *const *c, int i, dtr_error *error)
{
    int64_t op = c[3][i];
    if (op < 0 || op > INT32_MAX)
        return dtri_fail(error, DTR_E_FORMAT, 0, "%s: operator %lld is out of range",
                         dtri_store_path(p->store), (long long)op);
    if (!DTRI_RESERVE(p->ops, p->cap_ops, (size_t)op + 1))
        return dtri_fail_nomem(error, "statistics");
    for (; p->n_ops <= (size_t)op; p->n_ops++)
        p->ops[p->n_ops] = (struct dtri_remade){0};
    struct dtri_remade *made = &p->ops[op];
    made->op = op;
    made->name = c[4][i];
    made->tensor = c[8][i];
    made->replays++;
    made->cost_ns += c[5][i];
    return DTR_OK;
}

static dtr_status visit_runs(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    struct dtri_run_stats *s = p->stats;
    for (int i = 0; i < n; i++) {
        if (c[12][i] > s->peak_in_use)
            s->peak_in_use = c[12][i];
        if (!c[7][i]) {
            s->first_runs++;
            s->first_ns += c[5][i];
            continue;
        }
        s->replays++;
        s->replay_ns += c[5][i];
        dtr_status status = note_replay(p, c, i, error);
        if (status != DTR_OK)
            return status;
    }
    return DTR_OK;
}

static dtr_status visit_allocations(struct pass *p, const int64_t *const *c, int n,
                                    dtr_error *error)
{
    (void)error;
    for (int i = 0; i < n; i++)
        if (c[4][i] > p->stats->peak_resident)
            p->stats->peak_resident = c[4][i];
    return DTR_OK;
}

static dtr_status visit_evictions(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    (void)error;
    for (int i = 0; i < n; i++) {
        if (c[5][i] == DTR_EVICTED_FOR_BUDGET)
            p->stats->evictions++;
        else if (c[5][i] == DTR_EVICTED_EAGERLY)
            p->stats->eager_evictions++;
        else
            p->stats->other_evictions++;
    }
    return DTR_OK;
}

static dtr_status visit_freeings(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    (void)c, (void)error;
    p->stats->freed += n;
    return DTR_OK;
}

static dtr_status visit_chains(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    struct dtri_run_stats *s = p->stats;
    (void)error;
    s->chains += n;
    for (int i = 0; i < n; i++) {
        if (c[7][i] > s->deepest_chain)
            s->deepest_chain = c[7][i];
        if (c[5][i] > s->longest_chain_runs)
            s->longest_chain_runs = c[5][i];
    }
    return DTR_OK;
}

static dtr_status visit_decisions(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    (void)error;
    p->stats->decisions += n;
    for (int i = 0; i < n; i++) {
        p->stats->candidates += c[8][i];
        p->stats->tied_decisions += c[10][i] != 0;
        if (c[11][i] != DTR_NONE)
            p->stats->search_ns += c[11][i];
    }
    return DTR_OK;
}

static dtr_status visit_out_of_memory(struct pass *p, const int64_t *const *c, int n,
                                      dtr_error *error)
{
    (void)error;
    for (int i = 0; i < n; i++) {
        if (c[7][i])
            p->stats->overshoots++;
        else
            p->stats->out_of_memory++;
    }
    return DTR_OK;
}

static struct dtri_note *note_of(struct pass *p, int64_t name, bool is_hazard)
{
    struct dtri_run_stats *s = p->stats;
    for (int i = 0; i < s->n_notes; i++)
        if (s->notes[i].name == name && s->notes[i].hazard == is_hazard)
            return &s->notes[i];
    if (s->n_notes == DTRI_NOTES)
        return &s->notes[DTRI_NOTES - 1];
    struct dtri_note *note = &s->notes[s->n_notes++];
    *note = (struct dtri_note){.name = name, .hazard = is_hazard};
    return note;
}

static dtr_status visit_barriers(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    (void)error;
    for (int i = 0; i < n; i++) {
        struct dtri_note *note = note_of(p, c[2][i], false);
        note->count++;
        note->tensors += c[3][i];
        note->replays += c[4][i];
        note->ns += c[5][i];
    }
    return DTR_OK;
}

static dtr_status visit_hazards(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    (void)error;
    for (int i = 0; i < n; i++)
        note_of(p, c[3][i], true)->count++;
    return DTR_OK;
}

static dtr_status visit_allocator(struct pass *p, const int64_t *const *c, int n, dtr_error *error)
{
    struct dtri_run_stats *s = p->stats;
    (void)error;
    for (int i = 0; i < n; i++)
        if (s->allocator_looks++ == 0 || c[2][i] - c[4][i] > s->widest_gap)
            s->widest_gap = c[2][i] - c[4][i];
    return DTR_OK;
}

static int by_kind_and_count(const void *a, const void *b)
{
    const struct dtri_note *x = a, *y = b;
    if (x->hazard != y->hazard)
        return x->hazard ? 1 : -1;
    return (x->count < y->count) - (x->count > y->count);
}

/* --- the most re-made
 * ----------------------------------------------------------------------------- */

static int by_replays(const void *a, const void *b)
{
    const struct dtri_remade *x = a, *y = b;
    if (x->replays != y->replays)
        return x->replays < y->replays ? 1 : -1;
    if (x->cost_ns != y->cost_ns)
        return x->cost_ns < y->cost_ns ? 1 : -1;
    return (x->op > y->op) - (x->op < y->op);
}

/* The text of a NAME id, if there is one. */
static void find_name(const struct pass *p, int64_t name, char *text, size_t size)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(dtri_store_db(p->store),
                           "SELECT text FROM name WHERE run = ?1 AND id = ?2", -1, &statement,
                           NULL) == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, p->run->id);
        sqlite3_bind_int64(statement, 2, name);
        if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0))
            snprintf(text, size, "%s", (const char *)sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
}

static void name_notes(struct pass *p)
{
    struct dtri_run_stats *s = p->stats;
    if (s->n_notes)
        qsort(s->notes, (size_t)s->n_notes, sizeof *s->notes, by_kind_and_count);
    for (int i = 0; i < s->n_notes; i++) {
        snprintf(s->notes[i].text, sizeof s->notes[i].text, "no cause given");
        find_name(p, s->notes[i].name, s->notes[i].text, sizeof s->notes[i].text);
    }
}

static void pick_top(struct pass *p)
{
    struct dtri_run_stats *s = p->stats;
    if (p->n_ops)
        qsort(p->ops, p->n_ops, sizeof *p->ops, by_replays);
    while (s->n_top < DTRI_TOP && (size_t)s->n_top < p->n_ops && p->ops[s->n_top].replays) {
        s->top[s->n_top] = p->ops[s->n_top];
        struct dtri_remade *made = &s->top[s->n_top];
        snprintf(made->text, sizeof made->text, "operator %lld", (long long)made->op);
        find_name(p, made->name, made->text, sizeof made->text);
        s->n_top++;
    }
}

/* What is left of the whole: the program itself, and bookkeeping that is not measured apart. */
static void split_time(struct pass *p)
{
    struct dtri_run_stats *s = p->stats;
    bool live = p->run->wall_ns != DTRI_NULL;
    s->record_ns = p->run->record_ns == DTRI_NULL ? 0 : p->run->record_ns;
    s->total_ns = live ? p->run->wall_ns : s->first_ns + s->replay_ns;
    s->other_ns = s->total_ns - s->first_ns - s->replay_ns - s->search_ns - s->record_ns;
    if (s->other_ns < 0)
        s->other_ns = 0;
}

dtr_status dtri_stats_compute(struct dtri_store *store, const struct dtri_run *run,
                              struct dtri_run_stats *out_stats, dtr_error *error)
{
    static const struct {
        dtr_event_kind kind;
        dtr_status (*visit)(struct pass *, const int64_t *const *, int, dtr_error *);
    } passes[] = {
        {DTR_EVENT_OPERATOR_RUN, visit_runs},
        {DTR_EVENT_ALLOCATION, visit_allocations},
        {DTR_EVENT_EVICTION, visit_evictions},
        {DTR_EVENT_FREEING, visit_freeings},
        {DTR_EVENT_CHAIN, visit_chains},
        {DTR_EVENT_DECISION, visit_decisions},
        {DTR_EVENT_OUT_OF_MEMORY, visit_out_of_memory},
        {DTR_EVENT_BARRIER, visit_barriers},
        {DTR_EVENT_HAZARD, visit_hazards},
        {DTR_EVENT_ALLOCATOR, visit_allocator},
    };
    struct dtri_run_stats stats = {0};
    struct pass p = {.store = store, .run = run, .stats = &stats};
    dtr_status status = DTR_OK;
    if (run->has_events != 1)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                         "%s: run %lld has results but no events to compute statistics from",
                         dtri_store_path(store), (long long)run->id);
    for (size_t i = 0; i < sizeof passes / sizeof passes[0] && status == DTR_OK; i++)
        status = each_chunk(&p, passes[i].kind, passes[i].visit, error);
    /* What is resident is in use; an imported run may have no operators to say so. */
    if (stats.peak_in_use < stats.peak_resident)
        stats.peak_in_use = stats.peak_resident;
    if (status == DTR_OK) {
        split_time(&p);
        pick_top(&p);
        name_notes(&p);
        *out_stats = stats;
    }
    dtri_free(p.ops);
    return status;
}
