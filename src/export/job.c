#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "export/export.h"

static dtr_status add_loss(struct dtri_export *job, sqlite3_stmt *row, dtr_error *error)
{
    const char *reason = (const char *)sqlite3_column_text(row, 0);
    char *copy = dtri_strdup(reason ? reason : "");
    if (!copy || !DTRI_RESERVE(job->losses, job->losses_cap, job->n_losses + 1)) {
        dtri_free(copy);
        return dtri_fail_nomem(error, "the losses of a run");
    }
    bool known = sqlite3_column_type(row, 1) != SQLITE_NULL;
    job->losses[job->n_losses++] =
        (struct dtri_export_loss){copy, known ? sqlite3_column_int64(row, 1) : DTRI_NULL};
    return DTR_OK;
}

static dtr_status load_losses(struct dtri_export *job, dtr_error *error)
{
    sqlite3 *db = dtri_store_db(job->store);
    sqlite3_stmt *statement = NULL;
    dtr_status status = DTR_OK;
    int code = sqlite3_prepare_v2(
        db, "SELECT reason, count FROM loss WHERE run = ?1 ORDER BY reason", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 1, job->run->id);
    while (code == SQLITE_OK && status == DTR_OK && sqlite3_step(statement) == SQLITE_ROW)
        status = add_loss(job, statement, error);
    code = sqlite3_finalize(statement);
    if (status == DTR_OK && code != SQLITE_OK)
        status = dtri_fail(error, DTR_E_FORMAT, code, "%s: reading losses: %s",
                           dtri_store_path(job->store), sqlite3_errmsg(db));
    return status;
}

dtr_status dtri_export_init(struct dtri_export *job, struct dtri_store *store,
                            const struct dtri_run *run, dtr_error *error)
{
    *job = (struct dtri_export){
        .store = store,
        .run = run,
        .kinds = DTRI_ALL_KINDS,
        .ts_min = INT64_MIN,
        .ts_max = INT64_MAX,
        .seq_min = INT64_MIN,
        .seq_max = INT64_MAX,
    };
    dtr_status status = dtri_names_load(store, run->id, &job->names, error);
    if (status == DTR_OK)
        status = load_losses(job, error);
    if (status != DTR_OK)
        dtri_export_done(job);
    return status;
}

void dtri_export_done(struct dtri_export *job)
{
    for (size_t i = 0; i < job->n_losses; i++)
        dtri_free(job->losses[i].reason);
    dtri_free(job->losses);
    dtri_names_free(job->names);
    *job = (struct dtri_export){0};
}

dtr_status dtri_export_open(const struct dtri_export *job, uint64_t kinds,
                            struct dtri_stream **out_stream, dtr_error *error)
{
    struct dtri_stream_options options = {job->run->id, job->kinds & kinds, job->ts_min,
                                          job->ts_max};
    return dtri_stream_open(job->store, &options, out_stream, error);
}

dtr_status dtri_export_next(const struct dtri_export *job, struct dtri_stream *stream,
                            const dtr_event **out_event, dtr_error *error)
{
    dtr_status status;
    do
        status = dtri_stream_next(stream, out_event, error);
    while (status == DTR_OK && *out_event &&
           ((*out_event)->seq < job->seq_min || (*out_event)->seq > job->seq_max));
    return status;
}

bool dtri_export_none(const dtr_field_info *field, int64_t raw)
{
    return raw == DTR_NONE && field->unit != DTR_UNIT_REAL && field->unit != DTR_UNIT_CODE &&
           strcmp(field->name, "delta") != 0;
}
