/* JSON Lines: one object an event, in the order of seq, with the name of its kind and its fields
 * by name; times count from the base time of the run, which the first line states. */
#include <math.h>
#include <string.h>

#include "export/export.h"

static void write_value(const struct dtri_export *job, struct dtri_output *out,
                        const dtr_field_info *field, int64_t raw)
{
    double real;
    switch (field->unit) {
    case DTR_UNIT_NAME:
        if (raw == DTR_NONE)
            dtri_output_text(out, "null");
        else
            dtri_output_json(out, dtri_names_text(job->names, raw));
        return;
    case DTR_UNIT_REAL:
        memcpy(&real, &raw, sizeof real);
        if (isfinite(real))
            dtri_output_format(out, "%.17g", real);
        else
            dtri_output_text(out, isnan(real) ? "null" : real > 0 ? "1e999" : "-1e999");
        return;
    case DTR_UNIT_CODE:
        dtri_output_int(out, raw);
        return;
    default:
        if (raw == DTR_NONE && strcmp(field->name, "delta") != 0)
            dtri_output_text(out, "null");
        else
            dtri_output_int(out, raw);
    }
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct dtri_stream *stream;
    struct dtri_stream_options options = {job->run->id, job->kinds, job->ts_min, job->ts_max};
    const dtr_event *event;
    dtr_status status = dtri_stream_open(job->store, &options, &stream, error);
    if (status != DTR_OK)
        return status;
    dtri_output_text(out, "{\"event\":\"run\",\"uuid\":");
    dtri_output_json(out, job->run->uuid);
    dtri_output_text(out, ",\"base_ts_ns\":");
    dtri_output_int(out, job->run->base_ts_ns);
    dtri_output_text(out, "}\n");
    while ((status = dtri_stream_next(stream, &event, error)) == DTR_OK && event &&
           dtri_output_good(out)) {
        const dtr_event_info *info = dtr_event_info_of(event->kind);
        dtri_output_format(out, "{\"event\":\"%s\",\"ts_ns\":", info->name);
        dtri_output_int(out, event->ts_ns - job->run->base_ts_ns);
        dtri_output_text(out, ",\"seq\":");
        dtri_output_int(out, event->seq);
        for (int i = 0; i < info->n_fields; i++) {
            dtri_output_format(out, ",\"%s\":", info->fields[i].name);
            write_value(job, out, &info->fields[i], event->u.raw[i]);
        }
        dtri_output_text(out, "}\n");
    }
    dtri_stream_free(stream);
    return status;
}

const struct dtri_export_format dtri_export_jsonl = {
    .name = "jsonl",
    .extension = "jsonl",
    .summary = "one JSON object an event",
    .write = write,
};
