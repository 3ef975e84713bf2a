#include "export/range.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"

/* --- kinds ------------------------------------------------------------------------------------ */

static dtr_status unknown_kind(const char *name, size_t size, dtr_error *error)
{
    char known[400] = "";
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    for (int i = 0; i < n; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", infos[i].name);
    }
    return dtri_fail(error, DTR_E_INVALID, 0, "--events: '%.*s' is none of %s",
                     (int)(size < 40 ? size : 40), name, known);
}

static dtr_status select_kinds(struct dtri_export *job, const char *names, dtr_error *error)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    job->kinds = 0;
    for (;;) {
        size_t size = strcspn(names, ",");
        uint64_t bit = 0;
        for (int i = 0; i < n; i++)
            if (strlen(infos[i].name) == size && memcmp(infos[i].name, names, size) == 0)
                bit = DTRI_KIND_BIT(infos[i].kind);
        if (!bit)
            return unknown_kind(names, size, error);
        job->kinds |= bit;
        if (!names[size])
            return DTR_OK;
        names += size + 1;
    }
}

/* --- time ------------------------------------------------------------------------------------- */

static dtr_status last_ts(const struct dtri_export *job, int64_t *out_ts, dtr_error *error)
{
    sqlite3 *db = dtri_store_db(job->store);
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "SELECT max(ts_max) FROM event_chunk WHERE run = ?1", -1,
                                  &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 1, job->run->id);
    *out_ts = code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW
                  ? sqlite3_column_int64(statement, 0)
                  : job->run->base_ts_ns;
    code = sqlite3_finalize(statement);
    if (code == SQLITE_OK)
        return DTR_OK;
    return dtri_fail(error, DTR_E_FORMAT, code, "%s: %s", dtri_store_path(job->store),
                     sqlite3_errmsg(db));
}

/* "1.5s", "30%" to a time of the run's clock. */
static dtr_status parse_moment(const struct dtri_export *job, const char *option, const char *text,
                               int64_t *out_ts, dtr_error *error)
{
    int64_t base = job->run->base_ts_ns, offset, last = 0;
    size_t n = strlen(text);
    dtr_error why = {0};
    dtr_status status;
    if (n > 1 && text[n - 1] == '%') {
        char *rest;
        double share = text[0] >= '0' && text[0] <= '9' ? strtod(text, &rest) : NAN;
        if (!(share >= 0 && share <= 100) || strcmp(rest, "%") != 0)
            return dtri_fail(error, DTR_E_INVALID, 0,
                             "--%s: '%.32s' is no share of the run; write 0%% to 100%%", option,
                             text);
        status = last_ts(job, &last, error);
        if (status != DTR_OK)
            return status;
        /* The last event lies before 100 %, so that it is within. */
        double whole = (double)last - (double)base + 1;
        offset = share == 100 ? INT64_C(1) << 62 : (int64_t)(share / 100 * fmax(whole, 0));
    } else {
        status = dtri_parse_duration(text, &offset, &why);
        if (status != DTR_OK)
            return dtri_fail(error, status, 0, "--%s: %.400s", option, why.text);
    }
    if (__builtin_add_overflow(base, offset, out_ts))
        *out_ts = INT64_MAX;
    return DTR_OK;
}

static dtr_status select_time(struct dtri_export *job, const struct dtri_export_range *range,
                              dtr_error *error)
{
    dtr_status status = DTR_OK;
    int64_t end;
    if (range->start)
        status = parse_moment(job, "start", range->start, &job->ts_min, error);
    if (status == DTR_OK && range->end) {
        status = parse_moment(job, "end", range->end, &end, error);
        if (status == DTR_OK)
            job->ts_max = end - 1;
    }
    if (status == DTR_OK && job->ts_min > job->ts_max)
        status = dtri_fail(error, DTR_E_INVALID, 0,
                           "--end has to be after --start; '%.32s' is not after '%.32s'",
                           range->end, range->start ? range->start : "0");
    return status;
}

/* --- steps ------------------------------------------------------------------------------------ */

static dtr_status parse_steps(const char *text, int64_t *out_first, int64_t *out_end,
                              dtr_error *error)
{
    char *rest;
    bool digit = text[0] >= '0' && text[0] <= '9';
    *out_first = digit ? strtoll(text, &rest, 10) : 0;
    if (digit && strcmp(rest, ":") == 0) {
        *out_end = INT64_MAX;
        return DTR_OK;
    }
    if (digit && rest[0] == ':' && rest[1] >= '0' && rest[1] <= '9') {
        *out_end = strtoll(rest + 1, &rest, 10);
        if (!*rest && *out_end > *out_first)
            return DTR_OK;
    }
    return dtri_fail(error, DTR_E_INVALID, 0,
                     "--steps: '%.64s' is no range of steps; write 2:5 for the steps 2, 3 and 4, "
                     "or 2: for all from 2",
                     text);
}

static dtr_status no_step(const struct dtri_export *job, int64_t wanted, int64_t least,
                          int64_t most, dtr_error *error)
{
    if (least > most)
        return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                         "--steps: %s: run %" PRId64 " has no iteration marks",
                         dtri_store_path(job->store), job->run->id);
    return dtri_fail(error, DTR_E_NOT_FOUND, 0,
                     "--steps: %s: run %" PRId64 " has no step %" PRId64 "; it has %" PRId64
                     " to %" PRId64,
                     dtri_store_path(job->store), job->run->id, wanted, least, most);
}

/* An event between two marks has its seq between theirs; times alone can be equal. */
static dtr_status select_steps(struct dtri_export *job, const char *text, dtr_error *error)
{
    int64_t first, end = 0, least = INT64_MAX, most = INT64_MIN;
    bool begun = false, ended = false;
    struct dtri_stream *stream;
    struct dtri_stream_options options = {job->run->id, DTRI_KIND_BIT(DTR_EVENT_MARK), INT64_MIN,
                                          INT64_MAX};
    const dtr_event *event;
    dtr_status status = parse_steps(text, &first, &end, error);
    if (status == DTR_OK)
        status = dtri_stream_open(job->store, &options, &stream, error);
    if (status != DTR_OK)
        return status;
    while (!ended && (status = dtri_stream_next(stream, &event, error)) == DTR_OK && event) {
        int64_t value = event->u.mark_.value;
        if (event->u.mark_.mark != DTR_MARK_ITERATION)
            continue;
        least = value < least ? value : least;
        most = value > most ? value : most;
        if (!begun && value == first) {
            begun = true;
            job->seq_min = event->seq;
            job->ts_min = event->ts_ns;
        } else if (begun && value >= end) {
            ended = true;
            job->seq_max = event->seq - 1;
            job->ts_max = event->ts_ns;
        }
    }
    dtri_stream_free(stream);
    if (status == DTR_OK && !begun)
        status = no_step(job, first, least, most, error);
    return status;
}

dtr_status dtri_export_select(struct dtri_export *job, const struct dtri_export_range *range,
                              dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (range->steps && (range->start || range->end))
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "--steps and --start or --end do not go together; give one of them");
    if (range->events)
        status = select_kinds(job, range->events, error);
    if (status == DTR_OK && range->steps)
        status = select_steps(job, range->steps, error);
    else if (status == DTR_OK)
        status = select_time(job, range, error);
    return status;
}
