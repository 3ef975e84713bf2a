/* /api/run: what one run is, how it was set, what came out, what is missing. */
#include "analyze/stats.h"
#include "base/error.h"
#include "server/api.h"

#define MAX_MARKS 1000

/* Rows of a query over one run, as arrays of texts and integers. */
static json_t *rows_of(struct dtri_store *store, int64_t run, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(dtri_store_db(store), sql, -1, &statement, NULL) != SQLITE_OK)
        return NULL;
    sqlite3_bind_int64(statement, 1, run);
    json_t *rows = json_array();
    while (sqlite3_step(statement) == SQLITE_ROW) {
        json_t *row = json_object();
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *text = (const char *)sqlite3_column_text(statement, i);
            json_t *value = sqlite3_column_type(statement, i) == SQLITE_INTEGER
                                ? json_integer(sqlite3_column_int64(statement, i))
                            : text ? dtri_json_text(text)
                                   : json_null();
            json_object_set_new(row, sqlite3_column_name(statement, i), value);
        }
        json_array_append_new(rows, row);
    }
    sqlite3_finalize(statement);
    return rows;
}

static json_t *top_of(const struct dtri_run_stats *stats)
{
    json_t *top = json_array();
    for (int i = 0; i < stats->n_top; i++) {
        const struct dtri_remade *r = &stats->top[i];
        json_array_append_new(top, json_pack("{s:I, s:I, s:I, s:I, s:o}", "op", r->op, "tensor",
                                             r->tensor, "replays", r->replays, "cost_ns",
                                             r->cost_ns, "name", dtri_json_text(r->text)));
    }
    return top;
}

static json_t *notes_of(const struct dtri_run_stats *stats)
{
    json_t *notes = json_array();
    for (int i = 0; i < stats->n_notes; i++) {
        const struct dtri_note *n = &stats->notes[i];
        json_array_append_new(notes, json_pack("{s:o, s:b, s:I, s:I, s:I, s:I}", "cause",
                                               dtri_json_text(n->text), "hazard", n->hazard,
                                               "count", n->count, "tensors", n->tensors, "replays",
                                               n->replays, "dur_ns", n->ns));
    }
    return notes;
}

static json_t *stats_json(const struct dtri_run_stats *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, "
                     "s:o}",
                     "first_ns", s->first_ns, "replay_ns", s->replay_ns, "search_ns", s->search_ns,
                     "record_ns", s->record_ns, "other_ns", s->other_ns, "total_ns", s->total_ns,
                     "first_runs", s->first_runs, "replays", s->replays, "evictions", s->evictions,
                     "eager_evictions", s->eager_evictions, "chains", s->chains, "deepest_chain",
                     s->deepest_chain, "decisions", s->decisions, "candidates", s->candidates,
                     "top", top_of(s), "notes", notes_of(s));
}

static json_t *marks_of(const struct dtri_snapshot *s)
{
    json_t *marks = json_array();
    for (size_t i = 0; i < s->of[DTR_EVENT_MARK].n && i < MAX_MARKS; i++) {
        const int64_t *row = dtri_snapshot_row(s, DTR_EVENT_MARK, i);
        json_array_append_new(
            marks,
            json_pack("{s:I, s:I, s:o, s:o}", "t", row[DTRI_TS], "mark", row[DTRI_AT(MARK, mark)],
                      "name", dtri_json_text(dtri_snapshot_name(s, row[DTRI_AT(MARK, name)])),
                      "value", dtri_json_id(row[DTRI_AT(MARK, value)])));
    }
    return marks;
}

dtr_status dtri_api_run(struct dtri_query *q, json_t **out, dtr_error *error)
{
    struct dtri_run_stats stats;
    struct dtri_store *store = q->file->store;
    dtr_status status = dtri_stats_compute(store, &q->run, &stats, error);
    if (status != DTR_OK)
        return status;
    size_t n_marks = q->snapshot->of[DTR_EVENT_MARK].n;
    return dtri_json_result(
        json_pack(
            "{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "run", dtri_json_run(&q->run),
            "begin", q->snapshot->begin, "end", q->snapshot->end, "stats", stats_json(&stats),
            "settings",
            rows_of(
                store, q->run.id,
                "SELECT name, value, origin FROM setting WHERE run = ?1 ORDER BY name LIMIT 200"),
            "losses",
            rows_of(store, q->run.id,
                    "SELECT reason, count FROM loss WHERE run = ?1 ORDER BY reason LIMIT 50"),
            "windows",
            rows_of(
                store, q->run.id,
                "SELECT w.id, w.begin_ts_ns - r.base_ts_ns AS begin, w.end_ts_ns - r.base_ts_ns AS "
                "\"end\", w.opened_by, w.closed_by, w.skipped FROM recording_window AS w JOIN run "
                "AS r "
                "ON r.id = w.run WHERE w.run = ?1 ORDER BY w.id LIMIT 1000"),
            "marks", marks_of(q->snapshot), "marks_not_shown",
            (json_int_t)(n_marks > MAX_MARKS ? n_marks - MAX_MARKS : 0), "storages",
            (json_int_t)q->snapshot->n_storages),
        out, error);
}
