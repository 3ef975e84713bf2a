/* /api/events: the raw events of one kind in a window, every field by name. */
#include <string.h>

#include "base/error.h"
#include "server/api.h"

#define MAX_EVENTS 1000

static const dtr_event_info *kind_of(const struct dtri_query *q)
{
    const char *name = q->param(q->request, "kind");
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    for (int i = 0; name && i < n; i++)
        if (strcmp(infos[i].name, name) == 0)
            return &infos[i];
    return NULL;
}

static json_t *field_json(const struct dtri_snapshot *s, dtr_unit unit, int64_t value)
{
    double real;
    switch (unit) {
    case DTR_UNIT_REAL:
        memcpy(&real, &value, sizeof real);
        return dtri_json_real(real);
    case DTR_UNIT_NAME:
        return dtri_json_text(dtri_snapshot_name(s, value));
    default:
        return json_integer(value);
    }
}

static json_t *event_json(const struct dtri_query *q, const dtr_event_info *info,
                          const int64_t *const *columns, int row)
{
    json_t *event = json_pack("{s:I, s:I}", "t",
                              (json_int_t)((uint64_t)columns[0][row] - (uint64_t)q->run.base_ts_ns),
                              "seq", columns[1][row]);
    for (int f = 0; f < info->n_fields; f++)
        json_object_set_new(event, info->fields[f].name,
                            field_json(q->snapshot, info->fields[f].unit, columns[2 + f][row]));
    return event;
}

dtr_status dtri_api_events(struct dtri_query *q, json_t **out, dtr_error *error)
{
    const dtr_event_info *info = kind_of(q);
    struct dtri_store_reader *reader;
    if (!info)
        return dtri_fail(error, DTR_E_INVALID, 0, "parameter kind has to name a kind of event");
    int64_t base = q->run.base_ts_ns, not_shown = 0, from, to;
    if (__builtin_add_overflow(q->t0, base, &from) || __builtin_add_overflow(q->t1, base, &to))
        return dtri_fail(error, DTR_E_INVALID, 0, "the window is out of range");
    dtr_status status = dtri_store_reader_new(q->file->store, q->run.id, info->kind, from, to,
                                              DTRI_ALL_COLUMNS, &reader, error);
    if (status != DTR_OK)
        return status;
    json_t *events = json_array();
    const int64_t *const *columns;
    int n;
    while ((status = dtri_store_reader_next(reader, &n, &columns, error)) == DTR_OK && n)
        for (int i = 0; i < n; i++) {
            if (columns[0][i] < from || columns[0][i] > to)
                continue;
            if (json_array_size(events) < MAX_EVENTS)
                json_array_append_new(events, event_json(q, info, columns, i));
            else
                not_shown++;
        }
    dtri_store_reader_free(reader);
    if (status != DTR_OK) {
        json_decref(events);
        return status;
    }
    return dtri_json_result(
        json_pack("{s:s, s:o, s:I}", "kind", info->name, "events", events, "not_shown", not_shown),
        out, error);
}
