/* The published operator log: JSON lines, one instruction each.
 *
 * Names are variables: CALL, CONSTANT, COPY, COPY_FROM and MUTATE bind them, and what they are
 * bound to does not depend on evictions, so they are resolved here.  What each instruction means is
 * in Kirisame et al., C.6, and in the authors' prototype, which writes these logs. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "trace/lines.h"
#include "trace/trace.h"

struct log_reader {
    const char *path;
    struct dtri_lines *lines;
    struct dtri_trace_builder build;
    struct dtri_intern names; /* bound so far, in the order of their first binding */
    uint32_t *bound;          /* by name: the tensor */
    size_t cap_bound;
    uint32_t *args;
    struct dtri_trace_tensor *outputs;
    size_t *mutated;
    size_t cap_args, cap_outputs, cap_mutated;
    json_t *line;
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        dtr_status status_ = (call);                                                               \
        if (status_ != DTR_OK)                                                                     \
            return status_;                                                                        \
    } while (0)

/* A failure at the current line. */
static dtr_status bad(struct log_reader *r, dtr_error *error, const char *what, const char *detail)
{
    return dtri_fail(error, DTR_E_FORMAT, 0, "%s:%lld: %s%s%.100s%s", r->path,
                     (long long)dtri_lines_number(r->lines), what, detail ? " '" : "",
                     detail ? detail : "", detail ? "'" : "");
}

/* Puts the line in front of what a builder said. */
static dtr_status located(struct log_reader *r, dtr_status status, dtr_error *error)
{
    if (status == DTR_OK || !error)
        return status;
    dtr_error inner = *error;
    return dtri_fail(error, status, inner.foreign, "%s:%lld: %.400s", r->path,
                     (long long)dtri_lines_number(r->lines), inner.text);
}

/* --- fields ----------------------------------------------------------------------------------- */

static dtr_status text_field(struct log_reader *r, const char *key, const char **out,
                             dtr_error *error)
{
    *out = json_string_value(json_object_get(r->line, key));
    return *out ? DTR_OK : bad(r, error, "the line lacks the text field", key);
}

/* Numbers are decimal strings in these logs; plain JSON integers are taken too. */
static dtr_status number_field(struct log_reader *r, const char *key, int64_t min, int64_t *out,
                               dtr_error *error)
{
    json_t *value = json_object_get(r->line, key);
    char *end = "";
    errno = 0;
    if (json_is_integer(value))
        *out = json_integer_value(value);
    else if (json_is_string(value) && json_string_length(value))
        *out = strtoll(json_string_value(value), &end, 10);
    else
        return bad(r, error, "the line lacks the number", key);
    if (errno || *end || *out < min)
        return bad(r, error, "out of range or no number:", key);
    return DTR_OK;
}

static dtr_status list_field(struct log_reader *r, const char *key, json_t **out, dtr_error *error)
{
    *out = json_object_get(r->line, key);
    return json_is_array(*out) ? DTR_OK : bad(r, error, "the line lacks the list", key);
}

/* --- names ------------------------------------------------------------------------------------ */

static dtr_status bind(struct log_reader *r, const char *name, uint32_t tensor, dtr_error *error)
{
    int64_t id = dtri_intern(&r->names, name, NULL);
    if (id < 0 || !DTRI_RESERVE(r->bound, r->cap_bound, (size_t)id + 1))
        return dtri_fail_nomem(error, "names of a log");
    r->bound[id] = tensor;
    return DTR_OK;
}

static dtr_status look_up(struct log_reader *r, const char *name, uint32_t *out, dtr_error *error)
{
    int64_t id = dtri_intern_find(&r->names, name);
    if (id < 0)
        return bad(r, error, "no tensor has the name", name);
    if (r->build.references[r->bound[id]] == 0)
        return bad(r, error, "the tensor was released before:", name);
    *out = r->bound[id];
    return DTR_OK;
}

static dtr_status look_up_field(struct log_reader *r, const char *key, uint32_t *out,
                                dtr_error *error)
{
    const char *name;
    TRY(text_field(r, key, &name, error));
    return look_up(r, name, out, error);
}

static dtr_status look_up_args(struct log_reader *r, size_t *out_n, dtr_error *error)
{
    json_t *list;
    TRY(list_field(r, "ARGS", &list, error));
    *out_n = json_array_size(list);
    if (!DTRI_RESERVE(r->args, r->cap_args, *out_n + 1))
        return dtri_fail_nomem(error, "arguments of an operator");
    for (size_t i = 0; i < *out_n; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name)
            return bad(r, error, "an argument is no text", NULL);
        TRY(look_up(r, name, &r->args[i], error));
    }
    return DTR_OK;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* The next line as JSON in r->line, NULL at the end. */
static dtr_status next_line(struct log_reader *r, dtr_error *error)
{
    char *text;
    size_t length;
    json_error_t why;
    json_decref(r->line);
    r->line = NULL;
    TRY(dtri_lines_next(r->lines, &text, &length, error));
    if (!text)
        return DTR_OK;
    r->line = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (!r->line)
        return bad(r, error, "not JSON:", why.text);
    if (!json_is_object(r->line))
        return bad(r, error, "the line is no JSON object", NULL);
    return DTR_OK;
}

/* The next line, which has to be `instruction` for the tensor `name`. */
static dtr_status expect(struct log_reader *r, const char *instruction, const char *name,
                         dtr_error *error)
{
    const char *found, *subject;
    TRY(next_line(r, error));
    if (!r->line)
        return bad(r, error, "the log is cut short: what should follow is", instruction);
    TRY(text_field(r, "INSTRUCTION", &found, error));
    if (strcmp(found, instruction) != 0)
        return bad(r, error, "what should stand here is", instruction);
    TRY(text_field(r, "NAME", &subject, error));
    if (strcmp(subject, name) != 0)
        return bad(r, error, "the line is about another tensor than", name);
    return DTR_OK;
}

static dtr_status read_constant(struct log_reader *r, dtr_error *error)
{
    const char *name;
    int64_t bytes;
    uint32_t tensor;
    TRY(text_field(r, "NAME", &name, error));
    json_t *held = json_incref(r->line); /* `name` outlives its line */
    dtr_status status = expect(r, "MEMORY", name, error);
    if (status == DTR_OK)
        status = number_field(r, "MEMORY", 0, &bytes, error);
    if (status == DTR_OK)
        status = located(r, dtri_trace_add_constant(&r->build, bytes, &tensor, error), error);
    if (status == DTR_OK)
        status = bind(r, name, tensor, error);
    json_decref(held);
    return status;
}

static dtr_status read_outputs(struct log_reader *r, json_t *results, size_t n_args,
                               dtr_error *error)
{
    for (size_t i = 0; i < json_array_size(results); i++) {
        const char *name = json_string_value(json_array_get(results, i));
        int64_t bytes, alias;
        TRY(expect(r, "MEMORY", name, error));
        TRY(number_field(r, "MEMORY", 0, &bytes, error));
        TRY(expect(r, "ALIAS", name, error));
        TRY(number_field(r, "ALIAS", -1, &alias, error));
        if (alias >= (int64_t)n_args)
            return bad(r, error, "ALIAS names an argument that the operator does not have", NULL);
        r->outputs[i] = (struct dtri_trace_tensor){alias < 0 ? bytes : 0, (int32_t)alias};
    }
    return DTR_OK;
}

/* Result names: texts, none twice, and none that is an argument of the same call. */
static dtr_status check_results(struct log_reader *r, json_t *call, json_t *results,
                                dtr_error *error)
{
    json_t *args = json_object_get(call, "ARGS");
    size_t n = json_array_size(results);
    if (n == 0)
        return bad(r, error, "the call has no result", NULL);
    if (n > 4096)
        return bad(r, error, "the call has more than 4096 results", NULL);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(results, i));
        if (!name)
            return bad(r, error, "a result is no text", NULL);
        for (size_t j = 0; j < i; j++)
            if (strcmp(name, json_string_value(json_array_get(results, j))) == 0)
                return bad(r, error, "two results have the name", name);
        for (size_t j = 0; j < json_array_size(args); j++)
            if (strcmp(name, json_string_value(json_array_get(args, j))) == 0)
                return bad(r, error, "a cycle: an argument of the call is its own result", name);
    }
    return DTR_OK;
}

static dtr_status read_call_of(struct log_reader *r, json_t *call, dtr_error *error)
{
    const char *name;
    int64_t cost;
    size_t n_args;
    json_t *results;
    uint32_t first;
    TRY(text_field(r, "NAME", &name, error));
    TRY(number_field(r, "TIME", 0, &cost, error));
    TRY(look_up_args(r, &n_args, error));
    TRY(list_field(r, "RESULT", &results, error));
    TRY(check_results(r, call, results, error));
    size_t n = json_array_size(results);
    if (!DTRI_RESERVE(r->outputs, r->cap_outputs, n))
        return dtri_fail_nomem(error, "results of an operator");
    TRY(read_outputs(r, results, n_args, error));
    TRY(located(r,
                dtri_trace_add_call(&r->build, name, cost, false, r->args, n_args, r->outputs, n,
                                    &first, error),
                error));
    for (size_t i = 0; i < n; i++)
        TRY(bind(r, json_string_value(json_array_get(results, i)), first + (uint32_t)i, error));
    return DTR_OK;
}

static dtr_status read_call(struct log_reader *r, dtr_error *error)
{
    json_t *call = json_incref(r->line);
    dtr_status status = read_call_of(r, call, error);
    json_decref(call);
    return status;
}

/* The places in MUTATE, checked, with the results that they ask for. */
static dtr_status read_mutated(struct log_reader *r, size_t n_args, size_t *out_n, dtr_error *error)
{
    json_t *list;
    TRY(list_field(r, "MUTATE", &list, error));
    *out_n = json_array_size(list);
    if (*out_n == 0)
        return bad(r, error, "MUTATE names no argument", NULL);
    if (!DTRI_RESERVE(r->outputs, r->cap_outputs, *out_n + 1) ||
        !DTRI_RESERVE(r->mutated, r->cap_mutated, *out_n + 1))
        return dtri_fail_nomem(error, "results of an operator");
    for (size_t i = 0; i < *out_n; i++) {
        json_t *value = json_array_get(list, i);
        char *end = "";
        long long at = -1;
        if (json_is_integer(value))
            at = json_integer_value(value);
        else if (json_is_string(value) && json_string_length(value))
            at = strtoll(json_string_value(value), &end, 10);
        if (*end || at < 0 || (size_t)at >= n_args)
            return bad(r, error, "MUTATE names an argument that the operator does not have", NULL);
        r->mutated[i] = (size_t)at;
        r->outputs[i] = (struct dtri_trace_tensor){r->build.storage_bytes[r->args[at]], -1};
    }
    return DTR_OK;
}

/* Copy on write: an operator over all arguments with a fresh result per mutated one, of the size of
 * its storage; the name then means the result. */
static dtr_status read_mutate(struct log_reader *r, dtr_error *error)
{
    const char *name;
    int64_t cost;
    size_t n_args, n;
    uint32_t first;
    TRY(text_field(r, "NAME", &name, error));
    TRY(number_field(r, "TIME", 0, &cost, error));
    TRY(look_up_args(r, &n_args, error));
    TRY(read_mutated(r, n_args, &n, error));
    TRY(located(r,
                dtri_trace_add_call(&r->build, name, cost, true, r->args, n_args, r->outputs, n,
                                    &first, error),
                error));
    json_t *args = json_object_get(r->line, "ARGS");
    for (size_t i = 0; i < n; i++) {
        uint32_t old = r->args[r->mutated[i]];
        TRY(located(r, dtri_trace_add_step(&r->build, DTRI_STEP_RELEASE, old, error), error));
        TRY(bind(r, json_string_value(json_array_get(args, r->mutated[i])), first + (uint32_t)i,
                 error));
    }
    return DTR_OK;
}

static dtr_status read_copy(struct log_reader *r, dtr_error *error)
{
    const char *to;
    uint32_t tensor = 0;
    TRY(text_field(r, "DST", &to, error));
    TRY(look_up_field(r, "SRC", &tensor, error));
    TRY(dtri_trace_add_step(&r->build, DTRI_STEP_RETAIN, tensor, error));
    return bind(r, to, tensor, error);
}

static dtr_status read_copy_from(struct log_reader *r, dtr_error *error)
{
    const char *to;
    uint32_t old = 0, tensor = 0;
    TRY(text_field(r, "DST", &to, error));
    TRY(look_up_field(r, "DST", &old, error));
    TRY(look_up_field(r, "SRC", &tensor, error));
    TRY(dtri_trace_add_step(&r->build, DTRI_STEP_RETAIN, tensor, error));
    TRY(located(r, dtri_trace_add_step(&r->build, DTRI_STEP_RELEASE, old, error), error));
    return bind(r, to, tensor, error);
}

/* Names from before the start of the log may be released; they are not known and do not matter. */
static dtr_status read_release(struct log_reader *r, dtr_error *error)
{
    const char *name;
    TRY(text_field(r, "NAME", &name, error));
    int64_t id = dtri_intern_find(&r->names, name);
    if (id < 0)
        return DTR_OK;
    return located(r, dtri_trace_add_step(&r->build, DTRI_STEP_RELEASE, r->bound[id], error),
                   error);
}

/* MARK, NAME and VALUE, of which the last two may be missing. */
static dtr_status read_mark(struct log_reader *r, dtr_error *error)
{
    const char *name = json_string_value(json_object_get(r->line, "NAME"));
    int64_t mark, value = DTR_NONE;
    TRY(number_field(r, "MARK", DTR_MARK_ITERATION, &mark, error));
    if (mark > DTR_MARK_END)
        return bad(r, error, "out of range or no number:", "MARK");
    if (json_object_get(r->line, "VALUE"))
        TRY(number_field(r, "VALUE", INT64_MIN, &value, error));
    return located(r, dtri_trace_add_mark(&r->build, (dtr_mark)mark, name, value, error), error);
}

/* A tensor may be unpinned after its last release. */
static dtr_status read_pin(struct log_reader *r, enum dtri_step_kind kind, dtr_error *error)
{
    const char *name;
    TRY(text_field(r, "NAME", &name, error));
    int64_t id = dtri_intern_find(&r->names, name);
    if (id < 0)
        return bad(r, error, "no tensor has the name", name);
    return located(r, dtri_trace_add_step(&r->build, kind, r->bound[id], error), error);
}

/* START and BACKWARD are the authors'; the others are what `dtrscope export` writes where the
 * format has no word for it. */
static dtr_status read_annotate(struct log_reader *r, dtr_error *error)
{
    const char *what;
    TRY(text_field(r, "ANNOTATION", &what, error));
    if (strcmp(what, "BACKWARD") == 0)
        return dtri_trace_add_mark(&r->build, DTR_MARK_BACKWARD, NULL, DTR_NONE, error);
    if (strcmp(what, "PIN") == 0)
        return read_pin(r, DTRI_STEP_PIN, error);
    if (strcmp(what, "UNPIN") == 0)
        return read_pin(r, DTRI_STEP_UNPIN, error);
    if (strcmp(what, "MAKE_CONSTANT") == 0)
        return read_pin(r, DTRI_STEP_MAKE_CONSTANT, error);
    if (strcmp(what, "MARK") == 0)
        return read_mark(r, error);
    if (strcmp(what, "LIVE") == 0)
        r->build.trace->live = true;
    return DTR_OK;
}

static const struct {
    const char *name;
    dtr_status (*read)(struct log_reader *, dtr_error *);
} instructions[] = {
    {"CALL", read_call},         {"CONSTANT", read_constant}, {"COPY", read_copy},
    {"RELEASE", read_release},   {"MUTATE", read_mutate},     {"COPY_FROM", read_copy_from},
    {"ANNOTATE", read_annotate},
};

static dtr_status read_instruction(struct log_reader *r, dtr_error *error)
{
    const char *name;
    TRY(text_field(r, "INSTRUCTION", &name, error));
    for (size_t i = 0; i < sizeof instructions / sizeof instructions[0]; i++)
        if (strcmp(name, instructions[i].name) == 0)
            return instructions[i].read(r, error);
    return bad(r, error, "unknown or misplaced instruction", name);
}

static dtr_status skip_to_start(struct log_reader *r, dtr_error *error)
{
    for (;;) {
        TRY(next_line(r, error));
        if (!r->line)
            return dtri_fail(error, DTR_E_FORMAT, 0,
                             "%s: there is no ANNOTATE START in it; is it an operator log?",
                             r->path);
        const char *what = json_string_value(json_object_get(r->line, "ANNOTATION"));
        const char *name = json_string_value(json_object_get(r->line, "INSTRUCTION"));
        if (what && name && strcmp(name, "ANNOTATE") == 0 && strcmp(what, "START") == 0)
            return DTR_OK;
    }
}

static dtr_status read_all(struct log_reader *r, dtr_error *error)
{
    TRY(skip_to_start(r, error));
    for (;;) {
        TRY(next_line(r, error));
        if (!r->line)
            break;
        TRY(read_instruction(r, error));
    }
    for (size_t i = 0; i < r->names.n; i++)
        if (r->build.references[r->bound[i]] > 0)
            TRY(dtri_trace_add_output(&r->build, r->bound[i], error));
    return DTR_OK;
}

dtr_status dtri_trace_read_log(const char *path, struct dtri_trace **out_trace, dtr_error *error)
{
    struct log_reader r = {.path = strcmp(path, "-") == 0 ? "standard input" : path};
    TRY(dtri_trace_begin(&r.build, r.path, error));
    dtr_status status = dtri_lines_open(path, &r.lines, error);
    if (status == DTR_OK)
        status = read_all(&r, error);
    if (status == DTR_OK)
        status = dtri_trace_finish(&r.build, out_trace, error);
    json_decref(r.line);
    dtri_lines_close(r.lines);
    dtri_trace_abort(&r.build);
    dtri_intern_done(&r.names);
    dtri_free(r.bound);
    dtri_free(r.args);
    dtri_free(r.outputs);
    dtri_free(r.mutated);
    return status;
}
