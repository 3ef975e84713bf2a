#include "server/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* What a snapshot holds.  References, pins, overheads and candidates are read where needed. */
static const dtr_event_kind kinds[] = {
    DTR_EVENT_STORAGE,      DTR_EVENT_TENSOR,    DTR_EVENT_OPERATOR,   DTR_EVENT_OPERAND,
    DTR_EVENT_OPERATOR_RUN, DTR_EVENT_CHAIN,     DTR_EVENT_ALLOCATION, DTR_EVENT_FREEING,
    DTR_EVENT_EVICTION,     DTR_EVENT_DECISION,  DTR_EVENT_BUDGET,     DTR_EVENT_OUT_OF_MEMORY,
    DTR_EVENT_MARK,         DTR_EVENT_SIGNATURE,
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* --- asking SQLite -------------------------------------------------------------------------------
 */

static dtr_status query_int(struct dtri_store *store, const char *sql, int64_t run, int64_t *out,
                            dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = dtri_store_db(store);
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, run);
        code = sqlite3_step(statement);
    }
    dtr_status status = DTR_OK;
    if (code == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    else
        status = dtri_fail(error, DTR_E_FORMAT, code, "%s: %s", dtri_store_path(store),
                           sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    return status;
}

dtr_status dtri_snapshot_version(struct dtri_store *store, int64_t run, int64_t *out_version,
                                 dtr_error *error)
{
    int64_t chunk = 0, ended = 0;
    dtr_status status = query_int(
        store, "SELECT coalesce(max(id), 0) FROM event_chunk WHERE run = ?1", run, &chunk, error);
    if (status == DTR_OK)
        status =
            query_int(store, "SELECT coalesce(max(result <> 'running'), 0) FROM run WHERE id = ?1",
                      run, &ended, error);
    if (status == DTR_OK)
        *out_version = (int64_t)((uint64_t)chunk * 2 + (uint64_t)(ended != 0));
    return status;
}

#define HELD_KINDS "kind NOT IN (11, 12, 13)"

static int64_t minus(int64_t a, int64_t b)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

dtr_status dtri_snapshot_extent(struct dtri_store *store, const struct dtri_run *run,
                                struct dtri_extent *out, dtr_error *error)
{
    dtr_status status = query_int(
        store, "SELECT coalesce(sum(n), 0) FROM event_chunk WHERE run = ?1 AND " HELD_KINDS,
        run->id, &out->n, error);
    if (status == DTR_OK)
        status = query_int(store, "SELECT coalesce(min(ts_min), 0) FROM event_chunk WHERE run = ?1",
                           run->id, &out->begin, error);
    if (status == DTR_OK)
        status = query_int(store, "SELECT coalesce(max(ts_max), 0) FROM event_chunk WHERE run = ?1",
                           run->id, &out->end, error);
    out->begin = minus(out->begin, run->base_ts_ns);
    out->end = minus(out->end, run->base_ts_ns);
    return status;
}

dtr_status dtri_snapshot_count(struct dtri_store *store, const struct dtri_run *run, int64_t from,
                               int64_t to, int64_t *out_n, dtr_error *error)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT coalesce(sum(n), 0) FROM event_chunk WHERE run = ?1 AND " HELD_KINDS
             " AND ts_max >= %lld AND ts_min <= %lld",
             (long long)plus(from, run->base_ts_ns), (long long)plus(to, run->base_ts_ns));
    return query_int(store, sql, run->id, out_n, error);
}

static dtr_status load_names(struct dtri_snapshot *s, struct dtri_store *store, int64_t run,
                             dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = dtri_store_db(store);
    size_t cap = 0;
    dtr_status status = DTR_OK;
    int code = sqlite3_prepare_v2(db,
                                  "SELECT id, text FROM name WHERE run = ?1 AND id BETWEEN 0 AND "
                                  "1000000 ORDER BY id",
                                  -1, &statement, NULL);
    sqlite3_bind_int64(statement, 1, run);
    while (code == SQLITE_OK && status == DTR_OK && sqlite3_step(statement) == SQLITE_ROW) {
        size_t id = (size_t)sqlite3_column_int64(statement, 0);
        const char *text = (const char *)sqlite3_column_text(statement, 1);
        char *copy = dtri_strdup(text ? text : "");
        if (!copy || !DTRI_RESERVE(s->names, cap, id + 1)) {
            dtri_free(copy);
            status = dtri_fail_nomem(error, "names");
            break;
        }
        while (s->n_names <= id)
            s->names[s->n_names++] = NULL;
        s->names[id] = copy;
    }
    sqlite3_finalize(statement);
    return status;
}

/* --- rows and indexes ----------------------------------------------------------------------------
 */

static int by_time(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    if (x[DTRI_TS] != y[DTRI_TS])
        return x[DTRI_TS] < y[DTRI_TS] ? -1 : 1;
    return (x[DTRI_SEQ] > y[DTRI_SEQ]) - (x[DTRI_SEQ] < y[DTRI_SEQ]);
}

static void order_by_time(struct dtri_rows *rows, int64_t base)
{
    size_t width = (size_t)rows->n_columns;
    bool ordered = true;
    for (size_t i = 0; i < rows->n; i++) {
        int64_t *row = rows->rows + i * width;
        row[DTRI_TS] = (int64_t)((uint64_t)row[DTRI_TS] - (uint64_t)base);
        ordered = ordered && (i == 0 || row[DTRI_TS] >= row[DTRI_TS - (ptrdiff_t)width]);
    }
    if (!ordered)
        qsort(rows->rows, rows->n, width * sizeof *rows->rows, by_time);
}

/* Few, and wanted whatever the window. */
static bool is_rare(dtr_event_kind kind)
{
    return kind == DTR_EVENT_BUDGET || kind == DTR_EVENT_MARK || kind == DTR_EVENT_OUT_OF_MEMORY;
}

static dtr_status load_rows(struct dtri_snapshot *s, struct dtri_store *store,
                            const struct dtri_run *run, dtr_error *error)
{
    dtr_status status = DTR_OK;
    for (size_t i = 0; i < N_KINDS && status == DTR_OK; i++) {
        struct dtri_rows *rows = &s->of[kinds[i]];
        bool always = is_rare(kinds[i]);
        rows->n_columns = 2 + dtr_event_info_of(kinds[i])->n_fields;
        if (s->overview && !always)
            continue;
        status = dtri_store_load(store, run->id, kinds[i],
                                 always ? INT64_MIN : plus(s->from, run->base_ts_ns),
                                 always ? INT64_MAX : plus(s->to, run->base_ts_ns), rows, error);
        if (status == DTR_OK)
            order_by_time(rows, run->base_ts_ns);
    }
    return status;
}

static int by_column(const void *a, const void *b, void *user)
{
    const struct dtri_index *index = user;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    size_t width = (size_t)index->rows->n_columns;
    int64_t p = index->rows->rows[x * width + (size_t)index->column];
    int64_t q = index->rows->rows[y * width + (size_t)index->column];
    if (p != q)
        return p < q ? -1 : 1;
    return (x > y) - (x < y);
}

static dtr_status index_make(struct dtri_index *index, const struct dtri_rows *rows, int column,
                             dtr_error *error)
{
    *index = (struct dtri_index){rows, column, dtri_malloc(rows->n * sizeof *index->order)};
    if (!index->order)
        return dtri_fail_nomem(error, "an index of events");
    for (size_t i = 0; i < rows->n; i++)
        index->order[i] = (uint32_t)i;
    qsort_r(index->order, rows->n, sizeof *index->order, by_column, index);
    return DTR_OK;
}

static dtr_status make_indexes(struct dtri_snapshot *s, dtr_error *error)
{
    const struct {
        struct dtri_index *index;
        dtr_event_kind kind;
        int column;
    } wanted[] = {
        {&s->op_by_id, DTR_EVENT_OPERATOR, DTRI_AT(OPERATOR, op)},
        {&s->tensor_by_id, DTR_EVENT_TENSOR, DTRI_AT(TENSOR, tensor)},
        {&s->tensor_by_op, DTR_EVENT_TENSOR, DTRI_AT(TENSOR, op)},
        {&s->tensor_by_storage, DTR_EVENT_TENSOR, DTRI_AT(TENSOR, storage)},
        {&s->operand_by_op, DTR_EVENT_OPERAND, DTRI_AT(OPERAND, op)},
        {&s->run_by_id, DTR_EVENT_OPERATOR_RUN, DTRI_AT(OPERATOR_RUN, execution)},
        {&s->run_by_op, DTR_EVENT_OPERATOR_RUN, DTRI_AT(OPERATOR_RUN, op)},
        {&s->run_by_chain, DTR_EVENT_OPERATOR_RUN, DTRI_AT(OPERATOR_RUN, chain)},
        {&s->chain_by_id, DTR_EVENT_CHAIN, DTRI_AT(CHAIN, chain)},
        {&s->decision_by_id, DTR_EVENT_DECISION, DTRI_AT(DECISION, decision)},
        {&s->eviction_by_decision, DTR_EVENT_EVICTION, DTRI_AT(EVICTION, decision)},
        {&s->signature_by_op, DTR_EVENT_SIGNATURE, DTRI_AT(SIGNATURE, op)},
    };
    dtr_status status = DTR_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && status == DTR_OK; i++)
        status = index_make(wanted[i].index, &s->of[wanted[i].kind], wanted[i].column, error);
    return status;
}

void dtri_index_find(const struct dtri_index *index, int64_t value, size_t *out_first,
                     size_t *out_n)
{
    size_t low = 0, high = index->rows->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dtri_index_row(index, middle)[index->column] < value)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < index->rows->n && dtri_index_row(index, end)[index->column] == value)
        end++;
    *out_first = low;
    *out_n = end - low;
}

const int64_t *dtri_index_row(const struct dtri_index *index, size_t place)
{
    return index->rows->rows + index->order[place] * (size_t)index->rows->n_columns;
}

const int64_t *dtri_index_one(const struct dtri_index *index, int64_t value)
{
    size_t first, n;
    dtri_index_find(index, value, &first, &n);
    return n ? dtri_index_row(index, first) : NULL;
}

const int64_t *dtri_snapshot_row(const struct dtri_snapshot *s, dtr_event_kind kind, size_t i)
{
    return s->of[kind].rows + i * (size_t)s->of[kind].n_columns;
}

size_t dtri_rows_from(const struct dtri_rows *rows, int64_t ts)
{
    size_t low = 0, high = rows->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows->rows[middle * (size_t)rows->n_columns] < ts)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- what follows from the rows ------------------------------------------------------------------
 */

/* Allocations, freeings and evictions in one order: what changes a storage's residency. */
struct change {
    int64_t ts, seq, storage, in_use, bytes;
    bool resident;
};

static int by_change(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_storage(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->storage != y->storage)
        return x->storage < y->storage ? -1 : 1;
    return by_change(a, b);
}

static struct change *collect_changes(const struct dtri_snapshot *s, size_t *out_n)
{
    const struct {
        dtr_event_kind kind;
        int storage, in_use, bytes;
        bool resident;
    } from[] = {
        {DTR_EVENT_ALLOCATION, DTRI_AT(ALLOCATION, storage), DTRI_AT(ALLOCATION, in_use),
         DTRI_AT(ALLOCATION, bytes), true},
        {DTR_EVENT_FREEING, DTRI_AT(FREEING, storage), DTRI_AT(FREEING, in_use),
         DTRI_AT(FREEING, bytes), false},
        {DTR_EVENT_EVICTION, DTRI_AT(EVICTION, storage), DTRI_AT(EVICTION, in_use),
         DTRI_AT(EVICTION, bytes), false},
    };
    size_t n = 0;
    for (size_t k = 0; k < 3; k++)
        n += s->of[from[k].kind].n;
    struct change *changes = dtri_malloc(n * sizeof *changes);
    if (!changes)
        return NULL;
    n = 0;
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < s->of[from[k].kind].n; i++) {
            const int64_t *row = dtri_snapshot_row(s, from[k].kind, i);
            changes[n++] =
                (struct change){row[DTRI_TS],        row[DTRI_SEQ],      row[from[k].storage],
                                row[from[k].in_use], row[from[k].bytes], from[k].resident};
        }
    *out_n = n;
    return changes;
}

static dtr_status make_samples(struct dtri_snapshot *s, struct change *changes, size_t n,
                               dtr_error *error)
{
    qsort(changes, n, sizeof *changes, by_change);
    s->samples = dtri_malloc(n * sizeof *s->samples);
    if (!s->samples)
        return dtri_fail_nomem(error, "memory samples");
    for (size_t i = 0; i < n; i++)
        s->samples[i] = (struct dtri_sample){changes[i].ts, changes[i].seq, changes[i].in_use};
    if (n)
        s->in_use_before = changes[0].resident ? minus(changes[0].in_use, changes[0].bytes)
                                               : plus(changes[0].in_use, changes[0].bytes);
    s->n_samples = n;
    return DTR_OK;
}

static void find_extent(struct dtri_snapshot *s)
{
    const struct dtri_rows *runs = &s->of[DTR_EVENT_OPERATOR_RUN];
    bool any = false;
    for (size_t k = 0; k < N_KINDS; k++) {
        const struct dtri_rows *rows = &s->of[kinds[k]];
        if (!rows->n)
            continue;
        int64_t first = rows->rows[0], last = dtri_snapshot_row(s, kinds[k], rows->n - 1)[DTRI_TS];
        s->begin = any && s->begin < first ? s->begin : first;
        s->end = any && s->end > last ? s->end : last;
        any = true;
    }
    for (size_t i = 0; i < runs->n; i++) {
        const int64_t *row = dtri_snapshot_row(s, DTR_EVENT_OPERATOR_RUN, i);
        int64_t end;
        if (!__builtin_add_overflow(row[DTRI_TS], row[DTRI_AT(OPERATOR_RUN, dur_ns)], &end) &&
            end > s->end)
            s->end = end;
    }
}

/* Pairs each allocation with what ended it; a storage that stays is resident until the end. */
static dtr_status make_stays(struct dtri_snapshot *s, struct change *changes, size_t n,
                             dtr_error *error)
{
    qsort(changes, n, sizeof *changes, by_storage);
    s->stays = dtri_malloc(n * sizeof *s->stays);
    if (!s->stays)
        return dtri_fail_nomem(error, "residency");
    bool open = false;
    for (size_t i = 0; i < n; i++) {
        const struct change *c = &changes[i];
        bool first = i == 0 || changes[i - 1].storage != c->storage;
        if (first)
            open = false;
        if (first && !c->resident && c->bytes > 0)
            s->stays[s->n_stays++] =
                (struct dtri_stay){c->storage, s->begin, c->ts, c->bytes, .before = true};
        else if (open && !c->resident)
            s->stays[s->n_stays - 1].end = c->ts;
        else if (!open && c->resident)
            s->stays[s->n_stays++] =
                (struct dtri_stay){c->storage, c->ts, s->end, c->bytes, .before = false};
        open = c->resident;
    }
    return DTR_OK;
}

static int by_id(const void *a, const void *b)
{
    const struct dtri_storage_info *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* A storage that only its stays tell of: what made it was not recorded. */
static size_t add_unknown_storages(struct dtri_snapshot *s, size_t n_known)
{
    size_t n = n_known, at = 0;
    for (size_t i = 0; i < s->n_stays; i++) {
        const struct dtri_stay *stay = &s->stays[i];
        if (i && s->stays[i - 1].storage == stay->storage)
            continue;
        while (at < n_known && s->storages[at].id < stay->storage)
            at++;
        if (at == n_known || s->storages[at].id != stay->storage)
            s->storages[n++] = (struct dtri_storage_info){.id = stay->storage,
                                                          .bytes = stay->bytes,
                                                          .op = DTR_NONE,
                                                          .created = stay->begin,
                                                          .before = true};
    }
    return n;
}

static void find_stays(struct dtri_snapshot *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->n_storages; i++) {
        struct dtri_storage_info *info = &s->storages[i];
        while (at < s->n_stays && s->stays[at].storage < info->id)
            at++;
        info->first_stay = at;
        while (at < s->n_stays && s->stays[at].storage == info->id)
            info->before = s->stays[at++].before || info->before;
        info->n_stays = at - info->first_stay;
    }
}

static dtr_status make_storages(struct dtri_snapshot *s, dtr_error *error)
{
    const struct dtri_rows *rows = &s->of[DTR_EVENT_STORAGE];
    s->storages = dtri_calloc(rows->n + s->n_stays + 1, sizeof *s->storages);
    if (!s->storages)
        return dtri_fail_nomem(error, "storages");
    for (size_t i = 0; i < rows->n; i++) {
        const int64_t *row = dtri_snapshot_row(s, DTR_EVENT_STORAGE, i);
        const int64_t *root = dtri_index_one(&s->tensor_by_id, row[DTRI_AT(STORAGE, root)]);
        s->storages[i] = (struct dtri_storage_info){
            .id = row[DTRI_AT(STORAGE, storage)],
            .bytes = row[DTRI_AT(STORAGE, bytes)],
            .op = root ? root[DTRI_AT(TENSOR, op)] : DTR_NONE,
            .created = row[DTRI_TS],
        };
    }
    qsort(s->storages, rows->n, sizeof *s->storages, by_id);
    s->n_storages = add_unknown_storages(s, rows->n);
    qsort(s->storages, s->n_storages, sizeof *s->storages, by_id);
    find_stays(s);
    return DTR_OK;
}

/* Adds each replay to the storages that its operator makes. */
static void count_remakes(struct dtri_snapshot *s)
{
    for (size_t i = 0; i < s->of[DTR_EVENT_OPERATOR_RUN].n; i++) {
        const int64_t *row = dtri_snapshot_row(s, DTR_EVENT_OPERATOR_RUN, i);
        size_t first, n;
        if (row[DTRI_AT(OPERATOR_RUN, replay)] != 1)
            continue;
        dtri_index_find(&s->tensor_by_op, row[DTRI_AT(OPERATOR_RUN, op)], &first, &n);
        for (size_t j = first; j < first + n; j++) {
            const int64_t *tensor = dtri_index_row(&s->tensor_by_op, j);
            if (tensor[DTRI_AT(TENSOR, view_of)] != DTR_NONE)
                continue;
            struct dtri_storage_info *info = (struct dtri_storage_info *)dtri_snapshot_storage(
                s, tensor[DTRI_AT(TENSOR, storage)]);
            if (!info)
                continue;
            info->remakes++;
            info->remake_ns += row[DTRI_AT(OPERATOR_RUN, cost_ns)];
        }
    }
}

static dtr_status derive(struct dtri_snapshot *s, const struct dtri_extent *extent, bool part,
                         dtr_error *error)
{
    size_t n = 0;
    struct change *changes = collect_changes(s, &n);
    if (!changes)
        return dtri_fail_nomem(error, "residency");
    find_extent(s);
    if (part) { /* what is resident stays so as far as the part reaches */
        s->begin = s->from > extent->begin ? s->from : extent->begin;
        s->end = s->to < extent->end ? s->to : extent->end;
    }
    dtr_status status = make_samples(s, changes, n, error);
    if (status == DTR_OK)
        status = make_stays(s, changes, n, error);
    dtri_free(changes);
    if (status == DTR_OK)
        status = make_storages(s, error);
    if (status == DTR_OK)
        count_remakes(s);
    if (part) {
        s->begin = extent->begin;
        s->end = extent->end;
    }
    return status;
}

/* --- the whole -----------------------------------------------------------------------------------
 */

dtr_status dtri_snapshot_new(struct dtri_store *store, const struct dtri_run *run,
                             const struct dtri_extent *extent, enum dtri_snapshot_part part,
                             int64_t from, int64_t to, struct dtri_snapshot **out_snapshot,
                             dtr_error *error)
{
    struct dtri_snapshot *s = dtri_calloc(1, sizeof *s);
    if (!s)
        return dtri_fail_nomem(error, "a snapshot");
    s->from = part == DTRI_SNAPSHOT_WHOLE ? INT64_MIN : from;
    s->to = part == DTRI_SNAPSHOT_WHOLE ? INT64_MAX : to;
    s->overview = part == DTRI_SNAPSHOT_OVERVIEW;
    dtr_status status = dtri_snapshot_version(store, run->id, &s->version, error);
    if (status == DTR_OK)
        status = load_names(s, store, run->id, error);
    if (status == DTR_OK)
        status = load_rows(s, store, run, error);
    if (status == DTR_OK)
        status = make_indexes(s, error);
    if (status == DTR_OK)
        status = derive(s, extent, part != DTRI_SNAPSHOT_WHOLE, error);
    if (status == DTR_OK)
        *out_snapshot = s;
    else
        dtri_snapshot_free(s);
    return status;
}

void dtri_snapshot_free(struct dtri_snapshot *s)
{
    if (!s)
        return;
    struct dtri_index *const indexes[] = {
        &s->op_by_id,          &s->tensor_by_id,         &s->tensor_by_op,
        &s->tensor_by_storage, &s->operand_by_op,        &s->run_by_id,
        &s->run_by_op,         &s->run_by_chain,         &s->chain_by_id,
        &s->decision_by_id,    &s->eviction_by_decision,
    };
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++)
        dtri_free(indexes[i]->order);
    for (size_t i = 0; i < N_KINDS; i++)
        dtri_rows_done(&s->of[kinds[i]]);
    for (size_t i = 0; i < s->n_names; i++)
        dtri_free(s->names[i]);
    dtri_free(s->names);
    dtri_free(s->samples);
    dtri_free(s->stays);
    dtri_free(s->storages);
    dtri_free(s);
}

const struct dtri_storage_info *dtri_snapshot_storage(const struct dtri_snapshot *s, int64_t id)
{
    struct dtri_storage_info key = {.id = id};
    return bsearch(&key, s->storages, s->n_storages, sizeof *s->storages, by_id);
}

const char *dtri_snapshot_name(const struct dtri_snapshot *s, int64_t name)
{
    if (name < 0 || (uint64_t)name >= s->n_names || !s->names[name])
        return "";
    return s->names[name];
}

const char *dtri_snapshot_op_name(const struct dtri_snapshot *s, int64_t op)
{
    const int64_t *row = dtri_index_one(&s->op_by_id, op);
    return row ? dtri_snapshot_name(s, row[DTRI_AT(OPERATOR, name)]) : "";
}
