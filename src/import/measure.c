/* The first pass: what was in use before the first record.
 *
 * A freeing without an allocation, and a block in use at the end that no record allocated, were
 * allocated before the recording began.  Where the file tells totals, the first one says how much
 * else was in use. */
#include "base/alloc.h"
#include "base/error.h"
#include "import/context.h"

struct measure {
    struct dtri_import *import;
    struct dtri_import_lane *lane;
    struct dtri_live live, seen; /* seen: every address of the lane so far */
    int64_t in_use;              /* counted from the lane's begin, so it may be below 0 */
    int64_t reserved_at_end, reserve_sum;
};

static dtr_status push_before(struct measure *m, int64_t address, int64_t bytes, dtr_error *error)
{
    struct dtri_import_span *span = &m->lane->span;
    if (!DTRI_RESERVE(span->before, span->cap_before, span->n_before + 1))
        return dtri_fail_nomem(error, "allocations before the recording");
    span->before[span->n_before++] = (struct dtri_live_block){.address = address, .bytes = bytes};
    span->before_bytes = dtri_import_add(span->before_bytes, bytes);
    m->lane->counts[DTRI_REASON_BEFORE]++;
    return DTR_OK;
}

/* *out_new: the lane did not mention the address before. */
static dtr_status see_address(struct measure *m, int64_t address, bool *out_new, dtr_error *error)
{
    struct dtri_live_block block = {.address = address};
    *out_new = !dtri_live_find(&m->seen, address);
    if (*out_new && !dtri_live_add(&m->seen, &block))
        return dtri_fail_nomem(error, "addresses");
    return DTR_OK;
}

static dtr_status see_alloc(struct measure *m, const struct dtri_record *r, dtr_error *error)
{
    struct dtri_live_block block;
    if (dtri_live_take(&m->live, r->a, &block)) {
        m->in_use = dtri_import_add(m->in_use, -block.bytes);
        m->lane->counts[DTRI_REASON_NO_FREE]++;
    }
    block = (struct dtri_live_block){.address = r->a, .bytes = r->b};
    if (!dtri_live_add(&m->live, &block))
        return dtri_fail_nomem(error, "allocated blocks");
    m->in_use = dtri_import_add(m->in_use, r->b);
    bool is_new;
    return see_address(m, r->a, &is_new, error);
}

static dtr_status see_free(struct measure *m, const struct dtri_record *r, dtr_error *error)
{
    struct dtri_live_block block;
    if (dtri_live_take(&m->live, r->a, &block)) {
        m->in_use = dtri_import_add(m->in_use, -block.bytes);
        return DTR_OK;
    }
    int64_t bytes = r->b == DTR_NONE ? 0 : r->b;
    bool is_new;
    dtr_status status = see_address(m, r->a, &is_new, error);
    if (status != DTR_OK)
        return status;
    if (!is_new) {
        m->lane->counts[DTRI_REASON_TWICE]++;
        return DTR_OK;
    }
    m->in_use = dtri_import_add(m->in_use, -bytes);
    return push_before(m, r->a, bytes, error);
}

/* A block in use at the end: of before the recording, unless the records know it. */
static dtr_status see_block(struct measure *m, const struct dtri_record *r, dtr_error *error)
{
    bool is_new = false;
    if (dtri_live_find(&m->live, r->a))
        return DTR_OK;
    dtr_status status = see_address(m, r->a, &is_new, error);
    if (status == DTR_OK && is_new)
        return push_before(m, r->a, r->b, error);
    m->lane->counts[DTRI_REASON_BLOCK]++;
    return status;
}

static void see_total(struct measure *m, const struct dtri_record *r)
{
    struct dtri_import_span *span = &m->lane->span;
    int64_t base = dtri_import_add(r->a, -m->in_use);
    if (!span->has_total)
        span->base = base;
    else if (span->base != base)
        m->lane->counts[DTRI_REASON_TOTALS]++;
    span->has_total = true;
}

static void end_lane(struct measure *m)
{
    if (!m->lane)
        return;
    struct dtri_import_span *span = &m->lane->span;
    span->rest = span->has_total ? dtri_import_add(span->base, -span->before_bytes) : 0;
    span->rest = span->rest > 0 ? span->rest : 0;
    span->reserved = dtri_import_add(m->reserved_at_end, -m->reserve_sum);
    span->reserved = span->reserved > 0 ? span->reserved : 0;
}

static void begin_lane(struct measure *m, uint32_t lane)
{
    end_lane(m);
    m->lane = &m->import->lanes[lane];
    m->in_use = m->reserved_at_end = m->reserve_sum = 0;
    dtri_live_clear(&m->live);
    dtri_live_clear(&m->seen);
}

static void see_time(struct dtri_import_span *span, const struct dtri_record *r)
{
    int64_t begin = r->type == DTRI_RECORD_RUN ? r->time - r->a : r->time;
    if (!span->any || begin < span->first_ns)
        span->first_ns = begin;
    if (!span->any || r->time > span->last_ns)
        span->last_ns = r->time;
    span->any = true;
}

static dtr_status see(struct measure *m, const struct dtri_record *r, dtr_error *error)
{
    struct dtri_import_span *span = &m->lane->span;
    struct dtri_record begin;
    if (r->type != DTRI_RECORD_BLOCK && r->type != DTRI_RECORD_RESERVED)
        see_time(span, r);
    switch ((enum dtri_record_type)r->type) {
    case DTRI_RECORD_BEGIN:
        return dtri_import_begin_span(m->import, r, error);
    case DTRI_RECORD_END:
        if (!dtri_import_end_span(m->import, r, &begin))
            m->lane->counts[DTRI_REASON_NO_BEGIN]++;
        break;
    case DTRI_RECORD_ALLOC:
        span->memory = true;
        return see_alloc(m, r, error);
    case DTRI_RECORD_FREE:
        span->memory = true;
        return see_free(m, r, error);
    case DTRI_RECORD_TOTAL:
        see_total(m, r);
        break;
    case DTRI_RECORD_BLOCK:
        span->memory = true;
        return see_block(m, r, error);
    case DTRI_RECORD_RESERVE:
        m->reserve_sum = dtri_import_add(m->reserve_sum, r->a);
        break;
    case DTRI_RECORD_RESERVED:
        m->reserved_at_end = dtri_import_add(m->reserved_at_end, r->a);
        break;
    case DTRI_RECORD_RUN:
    case DTRI_RECORD_MARK:
    case DTRI_RECORD_OOM:
        break;
    }
    return DTR_OK;
}

/* Begins that never ended; the second pass starts without them. */
static void end_threads(struct dtri_import *import)
{
    for (size_t i = 0; i < import->n_threads; i++) {
        struct dtri_import_thread *thread = &import->threads[i];
        import->lanes[thread->lane].counts[DTRI_REASON_NO_END] += (int64_t)thread->n;
        thread->n = 0;
    }
}

dtr_status dtri_import_measure(struct dtri_import *import, dtr_error *error)
{
    struct measure m = {.import = import};
    const struct dtri_record *record = NULL;
    dtr_status status = dtri_spool_read(import->spool, error);
    while (status == DTR_OK) {
        status = dtri_spool_next(import->spool, &record, error);
        if (status != DTR_OK || !record)
            break;
        if (m.lane != &import->lanes[record->lane])
            begin_lane(&m, record->lane);
        status = see(&m, record, error);
    }
    end_lane(&m);
    end_threads(import);
    dtri_live_done(&m.live);
    dtri_live_done(&m.seen);
    return status;
}
