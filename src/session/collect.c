#include "session/collect.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

#define RESERVE_BYTES   (1 << 20)
#define CLOCK_SAMPLE_NS INT64_C(10000000000)
#define TRIES           50
#define NEW_NS          INT64_C(3000000000)

/* A database that some runs go into.  `reserve` is a file without a name that keeps some of the
 * disk free: given up when the disk is full, so that the end of the run can be written. */
struct file {
    char *path;
    struct dtri_store *store;
    int reserve;
    struct file *next;
};

struct stream {
    struct file *file;
    struct dtri_store_writer *writer;
    struct dtri_run run;
    int64_t sampled_ns;
    bool tsc; /* its clock is that of its own process */
    bool ended;
    bool dirty;  /* something of it is not committed yet */
    bool broken; /* and was taken back, when the file could not be written */
};

/* A run that ended, or will not. */
struct past_run {
    struct file *file;
    int64_t id;
};

struct dtri_collect {
    enum dtri_collect_existing existing;
    bool compress;
    struct file *files;
    struct past_run *runs;
    size_t n_runs, cap_runs;
    char refused[DTR_ERROR_TEXT_BYTES];
    unsigned n_streams; /* that had a run */
    struct stream streams[DTRI_CHANNEL_RINGS];
};

/* --- files ------------------------------------------------------------------------------------ */

static int reserve_space(const char *path)
{
    char directory[DTRI_COLLECT_PATH];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory ? 1 : 0] = 0;
    int fd = open(slash ? directory : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, RESERVE_BYTES) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Made or changed in the last few seconds. */
static bool is_new(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 &&
           dtri_unix_ns() - about.st_mtim.tv_sec * INT64_C(1000000000) < NEW_NS;
}

static dtr_status open_store(struct dtri_collect *c, const char *path, struct dtri_store **out,
                             dtr_error *error)
{
    if (c->existing != DTRI_COLLECT_APPEND)
        return dtri_store_create(path, c->existing == DTRI_COLLECT_REPLACE, out, error);
    for (int try = 0;; try++) { /* another process may be making it just now */
        dtr_status status = access(path, F_OK) == 0
                                ? dtri_store_open(path, DTRI_STORE_WRITE, out, error)
                                : dtri_store_create(path, false, out, error);
        if (status == DTR_OK || try == TRIES || !is_new(path))
            return status;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static dtr_status find_file(struct dtri_collect *c, const char *path, struct file **out_file,
                            dtr_error *error)
{
    for (struct file *file = c->files; file; file = file->next)
        if (strcmp(file->path, path) == 0) {
            *out_file = file;
            return DTR_OK;
        }
    struct file *file = dtri_calloc(1, sizeof *file);
    char *copy = dtri_strdup(path);
    dtr_status status = file && copy ? open_store(c, path, &file->store, error)
                                     : dtri_fail_nomem(error, "a file to record into");
    if (status != DTR_OK) {
        dtri_free(file);
        dtri_free(copy);
        return status;
    }
    file->path = copy;
    file->reserve = reserve_space(path);
    file->next = c->files;
    *out_file = c->files = file;
    return DTR_OK;
}

static void give_up_reserve(struct file *file)
{
    if (file->reserve >= 0)
        close(file->reserve);
    file->reserve = -1;
}

static void break_stream(struct stream *s)
{
    s->broken = true;
    dtri_store_writer_free(s->writer);
    s->writer = NULL;
}

/* After a failure: what was not committed is taken back, of all runs in the file, and some space is
 * made, so that what is known of them can be written.  The others go on. */
static void break_file(struct dtri_collect *c, struct file *file)
{
    sqlite3 *db = dtri_store_db(file->store);
    if (!sqlite3_get_autocommit(db))
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    give_up_reserve(file);
    for (unsigned i = 0; i < c->n_streams; i++) {
        struct stream *s = &c->streams[i];
        if (s->file == file && s->dirty)
            break_stream(s);
    }
}

dtr_status dtri_collect_open(struct dtri_collect *c, const char *path, dtr_error *error)
{
    struct file *file;
    return find_file(c, path, &file, error);
}

/* --- what a session says ---------------------------------------------------------------------- */

static dtr_status wrong_message(dtr_error *error)
{
    return dtri_fail(error, DTR_E_FORMAT, 0,
                     "a session says what this dtrscope does not understand");
}

/* The runs in a file share its transactions: each commit takes along all that came of the others,
 * so that what a kill leaves of them has no holes. */
static dtr_status commit_file(struct dtri_collect *c, struct file *file, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (unsigned i = 0; i < c->n_streams && status == DTR_OK; i++)
        if (c->streams[i].file == file && c->streams[i].writer)
            status = dtri_store_writer_flush(c->streams[i].writer, error);
    if (status == DTR_OK)
        status = dtri_store_commit(file->store, error);
    for (unsigned i = 0; i < c->n_streams && status == DTR_OK; i++)
        if (c->streams[i].file == file)
            c->streams[i].dirty = false;
    return status;
}

static dtr_status add_run(struct dtri_collect *c, struct stream *s, struct file *file,
                          dtr_error *error)
{
    dtr_status status = DTR_OK;
    if (!DTRI_RESERVE(c->runs, c->cap_runs, c->n_runs + 1))
        status = dtri_fail_nomem(error, "the list of runs");
    if (status == DTR_OK)
        status = dtri_store_add_run(file->store, &s->run, error);
    if (status == DTR_OK)
        status = dtri_store_writer_new(file->store, s->run.id, &s->writer, error);
    if (status == DTR_OK)
        dtri_store_writer_compress(s->writer, c->compress);
    if (status == DTR_OK)
        status = commit_file(c, file, error);
    if (status != DTR_OK)
        break_file(c, file);
    return status;
}

static dtr_status begin_run(struct dtri_collect *c, struct stream *s, const void *data, size_t size,
                            dtr_error *error)
{
    struct dtri_message_run message;
    struct file *file;
    if (size != sizeof message || s->file)
        return wrong_message(error);
    memcpy(&message, data, sizeof message);
    message.path[sizeof message.path - 1] = 0;
    s->run = message.run;
    dtri_run_seal(&s->run);
    dtr_status status = find_file(c, message.path, &file, error);
    if (status == DTR_OK)
        status = add_run(c, s, file, error);
    if (status != DTR_OK)
        return status;
    s->file = file;
    s->sampled_ns = dtri_monotonic_ns();
    if (s >= c->streams + c->n_streams)
        c->n_streams = (unsigned)(s - c->streams) + 1;
    c->runs[c->n_runs++] = (struct past_run){file, s->run.id};
    return DTR_OK;
}

static dtr_status add_setting(struct stream *s, const char *data, size_t size, dtr_error *error)
{
    const char *texts[3];
    for (int i = 0; i < 3; i++) {
        const char *end = memchr(data, 0, size);
        if (!end)
            return wrong_message(error);
        texts[i] = data;
        size -= (size_t)(end + 1 - data);
        data = end + 1;
    }
    if (strcmp(texts[0], "clock") == 0)
        s->tsc = strcmp(texts[1], "tsc") == 0;
    return dtri_store_add_setting(s->file->store, s->run.id, texts[0], texts[1], texts[2], error);
}

static dtr_status add_clock(struct stream *s, const void *data, size_t size, dtr_error *error)
{
    int64_t values[3];
    if (size != sizeof values)
        return wrong_message(error);
    memcpy(values, data, sizeof values);
    return dtri_store_add_clock_sample(s->file->store, s->run.id, values[0], values[1], values[2],
                                       error);
}

static dtr_status take_result(struct stream *s, const void *data, size_t size, dtr_error *error)
{
    int64_t id = s->run.id;
    if (size != sizeof s->run)
        return wrong_message(error);
    memcpy(&s->run, data, sizeof s->run);
    dtri_run_seal(&s->run);
    s->run.id = id;
    s->ended = true;
    return DTR_OK;
}

/* Before something is written for a run. */
static dtr_status touch(struct stream *s, dtr_error *error)
{
    if (!s->file)
        return wrong_message(error);
    if (s->broken)
        return dtri_fail(error, DTR_E_IO, 0, "%s could not be written, see above", s->file->path);
    s->dirty = true;
    return DTR_OK;
}

/* And after it.  What a program says wrong is its own failure, not the file's. */
static dtr_status note(struct dtri_collect *c, struct stream *s, dtr_status status)
{
    if (status == DTR_OK || !s->file || s->broken)
        return status;
    bool wrong = sqlite3_errcode(dtri_store_db(s->file->store)) == SQLITE_CONSTRAINT;
    if (wrong || status == DTR_E_FORMAT || status == DTR_E_INVALID)
        break_stream(s);
    else
        break_file(c, s->file);
    return status;
}

static dtr_status take_message(void *self, unsigned stream, int64_t type, const void *data,
                               size_t size, dtr_error *error)
{
    struct dtri_collect *c = self;
    struct stream *s = &c->streams[stream];
    dtr_status status;
    if (type == DTRI_MESSAGE_RUN) {
        status = begin_run(c, s, data, size, error);
        if (status != DTR_OK && !c->refused[0])
            memcpy(c->refused, error->text, sizeof c->refused);
        return status;
    }
    if (type == DTRI_MESSAGE_RESULT)
        return take_result(s, data, size, error);
    status = touch(s, error);
    if (status != DTR_OK)
        return status;
    switch (type) {
    case DTRI_MESSAGE_SETTING:
        return note(c, s, add_setting(s, data, size, error));
    case DTRI_MESSAGE_CLOCK:
        return note(c, s, add_clock(s, data, size, error));
    default:
        return note(c, s, wrong_message(error));
    }
}

static dtr_status take_event(void *self, unsigned stream, const dtr_event *event, dtr_error *error)
{
    struct dtri_collect *c = self;
    struct stream *s = &c->streams[stream];
    dtr_status status = touch(s, error);
    return status == DTR_OK ? note(c, s, dtri_store_writer_add(s->writer, event, error)) : status;
}

static dtr_status take_name(void *self, unsigned stream, int64_t id, const char *text,
                            dtr_error *error)
{
    struct dtri_collect *c = self;
    struct stream *s = &c->streams[stream];
    dtr_status status = touch(s, error);
    return status == DTR_OK
               ? note(c, s, dtri_store_add_name(s->file->store, s->run.id, id, text, error))
               : status;
}

static dtr_status take_window(void *self, unsigned stream, const struct dtri_record_window *window,
                              dtr_error *error)
{
    struct dtri_collect *c = self;
    struct stream *s = &c->streams[stream];
    struct dtri_window row = {
        .id = window->id,
        .begin_ts_ns = window->begin_ts_ns,
        .end_ts_ns = window->end_ts_ns == INT64_MIN ? DTRI_NULL : window->end_ts_ns,
        .opened_by = dtri_window_causes[window->opened_by],
        .closed_by = window->closed_by < 0 ? NULL : dtri_window_causes[window->closed_by],
        .skipped = window->skipped,
    };
    dtr_status status = touch(s, error);
    return status == DTR_OK
               ? note(c, s, dtri_store_set_window(s->file->store, s->run.id, &row, error))
               : status;
}

/* The monotonic clock is the same in every process; another's counter is not known here. */
static dtr_status sample_clock(struct stream *s, dtr_error *error)
{
    int64_t clock, wall, uncertainty;
    if (dtri_monotonic_ns() - s->sampled_ns < CLOCK_SAMPLE_NS || s->tsc != dtri_clock_is_tsc())
        return DTR_OK;
    dtri_clock_pair(&clock, &wall, &uncertainty);
    s->sampled_ns = clock;
    return dtri_store_add_clock_sample(s->file->store, s->run.id, clock, wall, uncertainty, error);
}

static dtr_status commit(void *self, unsigned stream, dtr_error *error)
{
    struct dtri_collect *c = self;
    struct stream *s = &c->streams[stream];
    dtr_status status = touch(s, error);
    if (status == DTR_OK)
        status = sample_clock(s, error);
    if (status == DTR_OK)
        status = commit_file(c, s->file, error);
    return note(c, s, status);
}

/* --- the end of a run ------------------------------------------------------------------------- */

/* Events of the run that are in the file. */
static int64_t count_events(struct dtri_store *store, int64_t run)
{
    sqlite3_stmt *statement = NULL;
    int64_t n = 0;
    if (sqlite3_prepare_v2(dtri_store_db(store),
                           "SELECT coalesce(sum(n), 0) FROM event_chunk WHERE run = ?1", -1,
                           &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, run);
        if (sqlite3_step(statement) == SQLITE_ROW)
            n = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return n;
}

static dtr_status add_losses(struct stream *s, const struct dtri_stream_end *end, dtr_error *error)
{
    const struct {
        const char *reason;
        int64_t count;
    } losses[] = {
        {"ring full", end->lost_ring},
        {"overwritten", end->overwritten},
        {end->status == DTR_E_FULL ? "disk full" : "the file could not be written",
         end->status == DTR_OK
             ? 0
             : end->events + end->lost_output - count_events(s->file->store, s->run.id)},
        {"the program wrote nonsense", end->damaged ? DTRI_NULL : 0},
    };
    dtr_status status = DTR_OK;
    for (size_t i = 0; i < sizeof losses / sizeof losses[0] && status == DTR_OK; i++)
        if (losses[i].count)
            status = dtri_store_add_loss(s->file->store, s->run.id, losses[i].reason,
                                         losses[i].count, error);
    return status;
}

static dtr_status write_end(struct dtri_collect *c, struct stream *s,
                            const struct dtri_stream_end *end, dtr_error *error)
{
    struct dtri_run *run = &s->run;
    if (end->status != DTR_OK) { /* what it did not hand on is counted as lost */
        dtri_store_writer_free(s->writer);
        s->writer = NULL;
    }
    if (!s->ended) {
        dtri_run_set_text(run->result, "killed");
        dtri_run_set_text(run->why, "the program ended without closing its session");
        run->record_ns = 0;
    }
    bool known = run->record_ns >= 0 && run->record_ns <= INT64_MAX / 2;
    run->record_ns = (known ? run->record_ns : 0) + end->record_ns;
    dtr_status status = add_losses(s, end, error);
    if (status == DTR_OK)
        status = dtri_store_update_run(s->file->store, run, error);
    return status == DTR_OK ? commit_file(c, s->file, error) : status;
}

static dtr_status closed(void *self, unsigned stream, const struct dtri_stream_end *end,
                         dtr_error *error)
{
    struct dtri_collect *c = self;
    struct stream *s = &c->streams[stream];
    dtr_status status = DTR_OK;
    if (s->file) {
        status = write_end(c, s, end, error);
        if (status != DTR_OK) { /* the disk is full just now */
            break_file(c, s->file);
            status = write_end(c, s, end, error);
        }
    } else if (end->status != DTR_OK) {
        status = dtri_fail(error, end->status, 0, "%s", end->why);
    }
    dtri_store_writer_free(s->writer);
    *s = (struct stream){0};
    return status;
}

dtr_status dtri_collect_options(const struct dtri_settings *settings,
                                struct dtri_channel_options *out_channel,
                                struct dtri_collector_options *out_collector, dtr_error *error)
{
    *out_channel = (struct dtri_channel_options){
        .ring_events = settings->ring_events,
        .drop = settings->ring_full == 1,
    };
    *out_collector = (struct dtri_collector_options){
        .commit_interval_ns = settings->commit_interval_ns,
        .delay_ns = settings->delay_ns,
        .duration_ns = settings->duration_ns,
        .keep_events = settings->keep_events ? settings->keep_events : DTR_NONE,
        .keep_ns = settings->keep_ns ? settings->keep_ns : DTR_NONE,
    };
    return dtri_parse_steps(settings->steps, &out_channel->steps.begin, &out_channel->steps.end,
                            error);
}

/* --- life ------------------------------------------------------------------------------------- */

dtr_status dtri_collect_new(enum dtri_collect_existing existing, struct dtri_collect **out_collect,
                            dtr_error *error)
{
    struct dtri_collect *c = dtri_calloc(1, sizeof *c);
    if (!c)
        return dtri_fail_nomem(error, "the recorder");
    c->existing = existing;
    *out_collect = c;
    return DTR_OK;
}

void dtri_collect_compress(struct dtri_collect *c, bool compress)
{
    c->compress = compress;
}

struct dtri_collector_output dtri_collect_output(struct dtri_collect *collect)
{
    return (struct dtri_collector_output){
        .self = collect,
        .event = take_event,
        .name = take_name,
        .message = take_message,
        .window = take_window,
        .commit = commit,
        .closed = closed,
    };
}

const char *dtri_collect_refused(const struct dtri_collect *c)
{
    return c->refused[0] ? c->refused : NULL;
}

int dtri_collect_runs(const struct dtri_collect *c)
{
    return (int)c->n_runs;
}

dtr_status dtri_collect_finish(struct dtri_collect *c, int64_t exit_code, dtri_collect_told told,
                               void *user, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (size_t i = 0; i < c->n_runs; i++) {
        struct dtri_run run;
        struct dtri_store *store = c->runs[i].file->store;
        dtr_status done =
            dtri_store_run(store, c->runs[i].id, &run, status == DTR_OK ? error : NULL);
        if (done == DTR_OK && exit_code != DTRI_NULL) {
            run.exit_code = exit_code;
            done = dtri_store_update_run(store, &run, status == DTR_OK ? error : NULL);
        }
        if (done == DTR_OK && told)
            told(user, store, &run);
        status = status == DTR_OK ? done : status;
    }
    while (c->files) {
        struct file *file = c->files;
        c->files = file->next;
        give_up_reserve(file);
        dtr_status done = dtri_store_close(file->store, status == DTR_OK ? error : NULL);
        status = status == DTR_OK ? done : status;
        dtri_free(file->path);
        dtri_free(file);
    }
    c->n_runs = 0;
    return status;
}

void dtri_collect_free(struct dtri_collect *c)
{
    if (!c)
        return;
    dtri_collect_finish(c, DTRI_NULL, NULL, NULL, NULL);
    for (unsigned i = 0; i < DTRI_CHANNEL_RINGS; i++)
        dtri_store_writer_free(c->streams[i].writer);
    dtri_free(c->runs);
    dtri_free(c);
}
