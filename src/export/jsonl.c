/* JSON Lines: one object an event, in the order of seq, with the name of its kind and its fields
 * by name; times count from the base time of the run, which the first line states with what the run
 * lost. JSON knows no number that is not finite: such a score is "Infinity", "-Infinity" or "NaN",
 * which Number() and float() take. */
#include <math.h>
#include <string.h>

#include "export/export.h"

static void write_real(struct dtri_output *out, int64_t raw)
{
    double real;
    memcpy(&real, &raw, sizeof real);
    if (isfinite(real))
        dtri_output_format(out, "%.17g", real);
    else
        dtri_output_text(out, isnan(real) ? "\"NaN\""
                              : real > 0  ? "\"Infinity\""
                                          : "\"-Infinity\"");
}

static void write_value(const struct dtri_export *job, struct dtri_output *out,
                        const dtr_field_info *field, int64_t raw)
{
    if (dtri_export_none(field, raw))
        dtri_output_text(out, "null");
    else if (field->unit == DTR_UNIT_NAME)
        dtri_output_json(out, dtri_names_text(job->names, raw));
    else if (field->unit == DTR_UNIT_REAL)
        write_real(out, raw);
    else
        dtri_output_int(out, raw);
}

static void write_losses(const struct dtri_export *job, struct dtri_output *out)
{
    dtri_output_text(out, "{");
    for (size_t i = 0; i < job->n_losses; i++) {
        dtri_output_text(out, i ? "," : "");
        dtri_output_json(out, job->losses[i].reason);
        dtri_output_text(out, ":");
        if (job->losses[i].count == DTRI_NULL)
            dtri_output_text(out, "null");
        else
            dtri_output_int(out, job->losses[i].count);
    }
    dtri_output_text(out, "}");
}

static dtr_status write(const struct dtri_export *job, struct dtri_output *out, dtr_error *error)
{
    struct dtri_stream *stream;
    const dtr_event *event;
    dtr_status status = dtri_export_open(job, DTRI_ALL_KINDS, &stream, error);
    if (status != DTR_OK)
        return status;
    dtri_output_text(out, "{\"event\":\"run\",\"uuid\":");
    dtri_output_json(out, job->run->uuid);
    dtri_output_text(out, ",\"base_ts_ns\":");
    dtri_output_int(out, job->run->base_ts_ns);
    dtri_output_text(out, ",\"lost\":");
    write_losses(job, out);
    dtri_output_text(out, "}\n");
    while ((status = dtri_export_next(job, stream, &event, error)) == DTR_OK && event &&
           dtri_output_good(out)) {
        const dtr_event_info *info = dtr_event_info_of(event->kind);
        dtri_output_text(out, "{\"event\":\"");
        dtri_output_text(out, info->name);
        dtri_output_text(out, "\",\"ts_ns\":");
        dtri_output_int(out, event->ts_ns - job->run->base_ts_ns);
        dtri_output_text(out, ",\"seq\":");
        dtri_output_int(out, event->seq);
        for (int i = 0; i < info->n_fields; i++) {
            dtri_output_text(out, ",\"");
            dtri_output_text(out, info->fields[i].name);
            dtri_output_text(out, "\":");
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
