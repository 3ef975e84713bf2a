#include "import/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

#define IN_MEMORY  (512u << 10) /* records */
#define READ_AHEAD 1024u        /* records of a piece while merging */

/* A sorted piece of the temporary file, or the records in memory. */
struct piece {
    int64_t next, n; /* in records: from the start of the file, and left */
    struct dtri_record *buffer;
    size_t at, have;
};

struct dtri_spool {
    const char *directory;
    int fd; /* -1: everything is in memory */
    struct dtri_record *records;
    size_t n, cap;
    int64_t n_written, n_added;
    int64_t *starts; /* of the pieces in the file */
    size_t n_starts, cap_starts;
    struct piece *pieces;
    struct piece **heap; /* by their first record */
    size_t n_pieces, n_heap;
    bool advance; /* the top of the heap was handed out */
};

dtr_status dtri_spool_new(const char *directory, struct dtri_spool **out_spool, dtr_error *error)
{
    struct dtri_spool *s = dtri_calloc(1, sizeof *s);
    if (!s)
        return dtri_fail_nomem(error, "sorting events");
    s->directory = directory;
    s->fd = -1;
    *out_spool = s;
    return DTR_OK;
}

static void free_pieces(struct dtri_spool *s)
{
    for (size_t i = 0; s->pieces && i < s->n_pieces; i++)
        dtri_free(s->pieces[i].buffer);
    dtri_free(s->pieces);
    dtri_free(s->heap);
    s->pieces = NULL;
    s->heap = NULL;
    s->n_pieces = s->n_heap = 0;
}

void dtri_spool_free(struct dtri_spool *s)
{
    if (!s)
        return;
    free_pieces(s);
    if (s->fd >= 0)
        close(s->fd);
    dtri_free(s->records);
    dtri_free(s->starts);
    dtri_free(s);
}

static int compare(const struct dtri_record *x, const struct dtri_record *y)
{
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int compare_void(const void *a, const void *b)
{
    return compare(a, b);
}

static void sort(struct dtri_spool *s)
{
    for (size_t i = 1; i < s->n; i++)
        if (compare(&s->records[i - 1], &s->records[i]) > 0) {
            qsort(s->records, s->n, sizeof *s->records, compare_void);
            return;
        }
}

/* --- the temporary file ----------------------------------------------------------------------- */

static dtr_status file_failed(const struct dtri_spool *s, dtr_error *error)
{
    int why = errno;
    return dtri_fail(error, why == ENOSPC ? DTR_E_FULL : DTR_E_IO, why,
                     "cannot sort the events in a temporary file in %s: %s", s->directory,
                     strerror(why));
}

static dtr_status open_file(struct dtri_spool *s, dtr_error *error)
{
    char path[4096];
    s->fd = open(s->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd >= 0)
        return DTR_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/.dtrscope-XXXXXX", s->directory) >= sizeof path)
        errno = ENAMETOOLONG;
    else if ((s->fd = mkostemp(path, O_CLOEXEC)) >= 0)
        unlink(path);
    return s->fd >= 0 ? DTR_OK : file_failed(s, error);
}

static dtr_status write_piece(struct dtri_spool *s, dtr_error *error)
{
    const char *from = (const char *)s->records;
    size_t left = s->n * sizeof *s->records;
    if (s->n == 0)
        return DTR_OK;
    if (s->fd < 0 && open_file(s, error) != DTR_OK)
        return error ? error->status : DTR_E_IO;
    if (!DTRI_RESERVE(s->starts, s->cap_starts, s->n_starts + 1))
        return dtri_fail_nomem(error, "sorting events");
    sort(s);
    off_t to = (off_t)s->n_written * (off_t)sizeof *s->records;
    while (left > 0) {
        ssize_t done = pwrite(s->fd, from, left, to);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return file_failed(s, error);
        from += done;
        to += done;
        left -= (size_t)done;
    }
    s->starts[s->n_starts++] = s->n_written;
    s->n_written += (int64_t)s->n;
    s->n = 0;
    return DTR_OK;
}

dtr_status dtri_spool_add(struct dtri_spool *s, const struct dtri_record *record, dtr_error *error)
{
    if (s->n == IN_MEMORY) {
        dtr_status status = write_piece(s, error);
        if (status != DTR_OK)
            return status;
    }
    if (!DTRI_RESERVE(s->records, s->cap, s->n + 1))
        return dtri_fail_nomem(error, "sorting events");
    s->records[s->n] = *record;
    s->records[s->n++].order = s->n_added++;
    return DTR_OK;
}

int64_t dtri_spool_count(const struct dtri_spool *s)
{
    return s->n_added;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Makes the piece's next record the one at `at`; have is 0 at its end. */
static dtr_status load(struct dtri_spool *s, struct piece *p, dtr_error *error)
{
    size_t want = p->n < READ_AHEAD ? (size_t)p->n : READ_AHEAD;
    char *to = (char *)p->buffer;
    off_t from = (off_t)p->next * (off_t)sizeof *p->buffer;
    size_t left = want * sizeof *p->buffer;
    while (left > 0) {
        ssize_t done = pread(s->fd, to, left, from);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = EIO;
        if (done <= 0)
            return file_failed(s, error);
        to += done;
        from += done;
        left -= (size_t)done;
    }
    p->at = 0;
    p->have = want;
    p->next += (int64_t)want;
    p->n -= (int64_t)want;
    return DTR_OK;
}

static bool less(const struct piece *x, const struct piece *y)
{
    return compare(&x->buffer[x->at], &y->buffer[y->at]) < 0;
}

static void sift_down(struct dtri_spool *s, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->n_heap)
            return;
        if (child + 1 < s->n_heap && less(s->heap[child + 1], s->heap[child]))
            child++;
        if (!less(s->heap[child], s->heap[i]))
            return;
        struct piece *kept = s->heap[i];
        s->heap[i] = s->heap[child];
        s->heap[child] = kept;
        i = child;
    }
}

static dtr_status open_pieces(struct dtri_spool *s, dtr_error *error)
{
    s->pieces = dtri_calloc(s->n_starts, sizeof *s->pieces);
    s->heap = dtri_calloc(s->n_starts, sizeof *s->heap);
    if (!s->pieces || !s->heap)
        return dtri_fail_nomem(error, "sorting events");
    s->n_pieces = s->n_starts;
    for (size_t i = 0; i < s->n_pieces; i++) {
        struct piece *p = &s->pieces[i];
        int64_t end = i + 1 < s->n_starts ? s->starts[i + 1] : s->n_written;
        p->next = s->starts[i];
        p->n = end - p->next;
        p->buffer = dtri_malloc(READ_AHEAD * sizeof *p->buffer);
        if (!p->buffer)
            return dtri_fail_nomem(error, "sorting events");
        dtr_status status = load(s, p, error);
        if (status != DTR_OK)
            return status;
        s->heap[s->n_heap++] = p;
    }
    for (size_t i = s->n_heap / 2; i-- > 0;)
        sift_down(s, i);
    return DTR_OK;
}

dtr_status dtri_spool_read(struct dtri_spool *s, dtr_error *error)
{
    free_pieces(s);
    s->advance = false;
    if (s->fd < 0) {
        sort(s);
        s->n_written = 0; /* the place in memory */
        return DTR_OK;
    }
    dtr_status status = write_piece(s, error);
    return status == DTR_OK ? open_pieces(s, error) : status;
}

static dtr_status step(struct dtri_spool *s, dtr_error *error)
{
    struct piece *top = s->heap[0];
    if (++top->at == top->have) {
        dtr_status status = load(s, top, error);
        if (status != DTR_OK)
            return status;
        if (top->have == 0)
            s->heap[0] = s->heap[--s->n_heap];
    }
    sift_down(s, 0);
    return DTR_OK;
}

dtr_status dtri_spool_next(struct dtri_spool *s, const struct dtri_record **out_record,
                           dtr_error *error)
{
    *out_record = NULL;
    if (s->fd < 0) {
        if ((size_t)s->n_written < s->n)
            *out_record = &s->records[s->n_written++];
        return DTR_OK;
    }
    if (s->advance) {
        dtr_status status = step(s, error);
        if (status != DTR_OK)
            return status;
    }
    s->advance = s->n_heap > 0;
    if (s->n_heap)
        *out_record = &s->heap[0]->buffer[s->heap[0]->at];
    return DTR_OK;
}
