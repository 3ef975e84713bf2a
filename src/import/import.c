#include "import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/context.h"
#include "import/input.h"

const char *const dtri_import_formats[] = {"auto", "simrd", "chrome", "torch-snapshot", NULL};

#define PATH_BYTES 4096

/* --- telling formats apart -------------------------------------------------------------------- */

static bool contains(const unsigned char *data, size_t n, const char *text)
{
    return memmem(data, n, text, strlen(text)) != NULL;
}

static dtr_status detect(const char *path, const unsigned char *head, size_t n,
                         enum dtri_import_format *out_format, dtr_error *error)
{
    size_t at = n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (n == 0)
        return dtri_fail(error, DTR_E_FORMAT, 0, "%s is empty; write it again", path);
    if (n >= 16 && memcmp(head, "SQLite format 3", 16) == 0)
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s is a database already, and needs no import; look at it with "
                         "`dtrscope info` or `dtrscope serve`",
                         path);
    while (at < n && strchr(" \t\r\n", head[at]) && head[at])
        at++;
    int first = at < n ? head[at] : 0, second = n >= 2 ? head[1] : 0;
    if (n >= 6 && memcmp(head,
                         "\xfd"
                         "7zXZ",
                         6) == 0)
        *out_format = DTRI_IMPORT_SIMRD;
    else if (head[0] == 0x80 || (head[0] == '(' && second == 'd') ||
             (head[0] == '}' && second == 'q'))
        *out_format = DTRI_IMPORT_SNAPSHOT;
    else if (first == '{' && contains(head, n, "\"INSTRUCTION\""))
        *out_format = DTRI_IMPORT_SIMRD;
    else if (first == '{' || first == '[')
        *out_format = DTRI_IMPORT_CHROME;
    else
        return dtri_fail(error, DTR_E_FORMAT, 0,
                         "%s is no operator log, no Chrome trace and no memory snapshot; if it is "
                         "one of them, say which with --format",
                         path);
    return DTR_OK;
}

dtr_status dtri_import_detect(const char *path, enum dtri_import_format *out_format,
                              dtr_error *error)
{
    struct dtri_input in;
    size_t n;
    dtr_status status = dtri_input_open(&in, path, error);
    if (status != DTR_OK)
        return status;
    const unsigned char *head = dtri_input_peek(&in, &n);
    status = dtri_input_check(&in, error);
    if (status == DTR_OK)
        status = detect(path, head, n, out_format, error);
    dtri_input_done(&in);
    return status;
}

/* --- the output ------------------------------------------------------------------------------- */

struct output {
    const char *path;
    char directory[PATH_BYTES], temporary[PATH_BYTES];
    struct dtri_store *store;
};

static dtr_status exists(const char *path, dtr_error *error)
{
    return dtri_fail(error, DTR_E_STATE, 0,
                     "%s exists; give another name, or --force to replace it", path);
}

/* Never replaces what it reads. */
static dtr_status check_output(const struct dtri_import_options *options, dtr_error *error)
{
    struct stat from, to;
    if (lstat(options->output, &to) != 0)
        return DTR_OK;
    if (stat(options->path, &from) == 0 && stat(options->output, &to) == 0 &&
        from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "%s is the file to be imported; give another name with -o",
                         options->output);
    if (S_ISDIR(to.st_mode))
        return dtri_fail(error, DTR_E_STATE, 0, "%s is a directory; give the name of a file",
                         options->output);
    return options->force ? DTR_OK : exists(options->output, error);
}

static dtr_status name_output(struct output *o, const char *path, dtr_error *error)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    o->path = path;
    if (n + 32 > sizeof o->directory || strlen(path) + 32 > sizeof o->temporary)
        return dtri_fail(error, DTR_E_INVALID, 0, "%.200s...: the name is too long", path);
    memcpy(o->directory, n ? path : "./", n ? n : 2);
    o->directory[n ? n : 2] = 0;
    snprintf(o->temporary, sizeof o->temporary, "%s.%ld.part", path, (long)getpid());
    return DTR_OK;
}

static dtr_status open_output(struct output *o, dtr_error *error)
{
    return dtri_store_create(o->temporary, false, &o->store, error);
}

static void remove_temporary(const struct output *o)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char path[PATH_BYTES + 16];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(path, sizeof path, "%s%s", o->temporary, endings[i]);
        unlink(path);
    }
}

/* The complete file takes its name in one step.  Without `force` a file that has come to be there
 * meanwhile stays. */
static dtr_status publish(const struct output *o, bool force, dtr_error *error)
{
    int fd = open(o->temporary, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    if (!force && link(o->temporary, o->path) == 0)
        return DTR_OK; /* the other name goes with the temporary files */
    if (!force && errno == EEXIST)
        return exists(o->path, error);
    if (rename(o->temporary, o->path) == 0)
        return DTR_OK;
    return dtri_fail(error, DTR_E_IO, errno, "cannot write %s: %s", o->path, strerror(errno));
}

/* --- records to runs -------------------------------------------------------------------------- */

static void log_counts(const struct dtri_import *import, FILE *log)
{
    for (int i = 0; log && i < DTRI_N_REASONS; i++) {
        int64_t sum = 0;
        for (size_t k = 0; k < import->n_lanes; k++)
            sum = dtri_import_add(sum, import->lanes[k].counts[i]);
        if (sum && i == DTRI_REASON_CUT)
            fprintf(log, "dtrscope import: incomplete: %s\n", dtri_import_reason_text(i));
        else if (sum)
            fprintf(log, "dtrscope import: %s%" PRId64 " %s\n",
                    dtri_import_reason_is_loss(i) ? "left out: " : "", sum,
                    dtri_import_reason_text(i));
    }
}

/* What was left out of lanes that become no run is told with the first that does. */
static void gather_counts(struct dtri_import *import)
{
    struct dtri_import_lane *first = NULL;
    for (size_t k = 0; k < import->n_lanes && !first; k++)
        if (import->lanes[k].span.any || import->lanes[k].span.memory)
            first = &import->lanes[k];
    for (size_t k = 0; k < import->n_lanes && first; k++) {
        struct dtri_import_lane *lane = &import->lanes[k];
        if (lane->span.any || lane->span.memory)
            continue;
        for (int i = 0; i < DTRI_N_REASONS; i++) {
            first->counts[i] += lane->counts[i];
            lane->counts[i] = 0;
        }
    }
}

static dtr_status read_records(struct dtri_import *import, enum dtri_import_format format,
                               dtr_error *error)
{
    dtr_status status = format == DTRI_IMPORT_CHROME ? dtri_import_chrome(import, error)
                                                     : dtri_import_snapshot(import, error);
    if (status == DTR_OK && dtri_spool_count(import->spool) == 0)
        status = dtri_fail(error, DTR_E_FORMAT, 0,
                           "%s holds no operators, ranges or memory events, so there is nothing to "
                           "import",
                           import->path);
    if (status == DTR_OK)
        status = dtri_import_measure(import, error);
    gather_counts(import);
    return status;
}

static dtr_status import_records(const struct dtri_import_options *options, struct output *o,
                                 struct dtri_import_result *result, dtr_error *error)
{
    struct dtri_import import = {.path = options->path,
                                 .output = options->output,
                                 .unix_offset_ns = DTRI_NULL,
                                 .rank = DTRI_NULL};
    dtr_status status = dtri_spool_new(o->directory, &import.spool, error);
    if (status != DTR_OK)
        return status;
    status = read_records(&import, result->format, error);
    if (status == DTR_OK)
        status = open_output(o, error);
    if (status == DTR_OK)
        status = dtri_import_write(&import, o->store, result, error);
    if (status == DTR_OK)
        log_counts(&import, options->log);
    for (size_t i = 0; i < import.n_lanes; i++)
        dtri_free(import.lanes[i].span.before);
    dtri_free(import.lanes);
    for (size_t i = 0; i < import.n_threads; i++)
        dtri_free(import.threads[i].stack);
    dtri_free(import.threads);
    dtri_intern_done(&import.names);
    dtri_frames_done(&import.frames);
    dtri_spool_free(import.spool);
    return status;
}

static dtr_status import_log(const struct dtri_import_options *options, struct output *o,
                             struct dtri_import_result *result, dtr_error *error)
{
    dtr_status status = open_output(o, error);
    result->n_runs = 1;
    return status == DTR_OK ? dtri_import_simrd(options->path, o->store, error) : status;
}

static int64_t count_events(struct dtri_store *store)
{
    sqlite3_stmt *statement = NULL;
    int64_t n = 0;
    if (sqlite3_prepare_v2(dtri_store_db(store), "SELECT total(n) FROM event_chunk", -1, &statement,
                           NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        n = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return n;
}

dtr_status dtri_import_file(const struct dtri_import_options *options,
                            struct dtri_import_result *out_result, dtr_error *error)
{
    struct output o = {.path = options->output};
    struct dtri_import_result result = {.format = options->format};
    enum dtri_import_format found;
    dtr_status status = dtri_import_detect(options->path, &found, error);
    if (status != DTR_OK && (result.format == DTRI_IMPORT_AUTO || status != DTR_E_FORMAT))
        return status;
    if (result.format == DTRI_IMPORT_AUTO)
        result.format = found;
    status = check_output(options, error);
    if (status == DTR_OK)
        status = name_output(&o, options->output, error);
    if (status != DTR_OK)
        return status;
    status = result.format == DTRI_IMPORT_SIMRD ? import_log(options, &o, &result, error)
                                                : import_records(options, &o, &result, error);
    if (status == DTR_OK)
        result.n_events = count_events(o.store);
    dtr_error close_error = {0};
    dtr_status closed = dtri_store_close(o.store, &close_error);
    if (status == DTR_OK && closed != DTR_OK) {
        status = closed;
        if (error)
            *error = close_error;
    }
    if (status == DTR_OK)
        status = publish(&o, options->force, error);
    if (o.store)
        remove_temporary(&o);
    if (status == DTR_OK)
        *out_result = result;
    return status;
}
