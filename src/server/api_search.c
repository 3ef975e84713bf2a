/* /api/search: operator runs by a part of the name, or anything by its number. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api.h"

#define MAX_TEXT  100
#define MAX_FOUND 50

static json_t *hit(const struct dtri_snapshot *s, const int64_t *run)
{
    return json_pack("{s:I, s:I, s:o, s:I, s:b}", "execution",
                     run[DTRI_AT(OPERATOR_RUN, execution)], "op", run[DTRI_AT(OPERATOR_RUN, op)],
                     "name",
                     dtri_json_text(dtri_snapshot_name(s, run[DTRI_AT(OPERATOR_RUN, name)])), "t",
                     run[DTRI_TS], "replay", run[DTRI_AT(OPERATOR_RUN, replay)] == 1);
}

static bool matches(const struct dtri_snapshot *s, const int64_t *run, const char *text,
                    int64_t number)
{
    return run[DTRI_AT(OPERATOR_RUN, op)] == number ||
           strcasestr(dtri_snapshot_name(s, run[DTRI_AT(OPERATOR_RUN, name)]), text);
}

dtr_status dtri_api_search(struct dtri_query *q, json_t **out, dtr_error *error)
{
    const struct dtri_snapshot *s = q->snapshot;
    const char *text = q->param(q->request, "text");
    if (!text || !text[0] || strlen(text) > MAX_TEXT)
        return dtri_fail(error, DTR_E_INVALID, 0, "parameter text has to have 1 to %d bytes",
                         MAX_TEXT);
    char *end;
    int64_t number = strtoll(text, &end, 10), found = 0;
    if (*end || number < 0)
        number = DTRI_NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < s->of[DTR_EVENT_OPERATOR_RUN].n; i++) {
        const int64_t *run = dtri_snapshot_row(s, DTR_EVENT_OPERATOR_RUN, i);
        if (matches(s, run, text, number) && found++ < MAX_FOUND)
            json_array_append_new(list, hit(s, run));
    }
    bool storage = number != DTRI_NULL && dtri_snapshot_storage(s, number);
    return dtri_json_result(json_pack("{s:o, s:I, s:o}", "executions", list, "not_shown",
                                      (json_int_t)(found > MAX_FOUND ? found - MAX_FOUND : 0),
                                      "storage", storage ? json_integer(number) : json_null()),
                            out, error);
}
