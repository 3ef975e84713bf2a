/* The event stream as tables: one read-only, eponymous virtual table dtr_event_<kind> for each
 * kind, with columns run, ts_ns, seq and the fields of the kind.
 *
 * Conditions on run (=) and ts_ns (<, <=, >, >=) choose which chunks are read; SQLite checks them
 * again on each row.  Only columns that the statement uses are unpacked.  The module reads nothing
 * but event_chunk, so it is safe in views of a file that is not trusted.
 *
 * Compiled twice: into dtrscope, and with DTRI_SQLITE_EXTENSION as what plain sqlite3 loads. */
#include <string.h>

#ifdef DTRI_SQLITE_EXTENSION
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1
int dtri_vtab_register(sqlite3 *db);
#include "dtr/event.h"
#else
#include "store/store.h"
#endif
#include "store/chunk.h"
#include "store/vtab_tile.h"

#define MAX_COLUMNS (2 + DTR_EVENT_MAX_FIELDS)

struct event_table {
    sqlite3_vtab base;
    sqlite3 *db;
    const dtr_event_info *info;
    int busy; /* reading event_chunk */
};

struct event_cursor {
    sqlite3_vtab_cursor base;
    sqlite3_stmt *chunks;
    int64_t *columns[MAX_COLUMNS];
    uint64_t wanted;
    struct dtri_chunk_codec codec;
    int64_t run, rowid;
    int n, at;
    int done;
};

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **out_error)
{
    (void)argc, (void)argv, (void)out_error;
    const dtr_event_info *info = aux;
    sqlite3_str *sql = sqlite3_str_new(db);
    sqlite3_str_appendall(sql, "CREATE TABLE x (run INTEGER, ts_ns INTEGER, seq INTEGER");
    for (int i = 0; i < info->n_fields; i++)
        sqlite3_str_appendf(sql, ", %s %s", info->fields[i].name,
                            info->fields[i].unit == DTR_UNIT_REAL ? "REAL" : "INTEGER");
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    int code = text ? sqlite3_declare_vtab(db, text) : SQLITE_NOMEM;
    sqlite3_free(text);
    if (code != SQLITE_OK)
        return code;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    struct event_table *table = sqlite3_malloc(sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof *table);
    table->db = db;
    table->info = info;
    *out = &table->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

/* idxNum: bit 0 run =, bit 1 ts >, bit 2 ts <.  The arguments come in this order. */
enum { BY_RUN = 1, FROM_TS = 2, TO_TS = 4 };

static int table_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    int place[3] = {-1, -1, -1};
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        if (!c->usable)
            continue;
        if (c->iColumn == 0 && c->op == SQLITE_INDEX_CONSTRAINT_EQ)
            place[0] = i;
        else if (c->iColumn == 1 &&
                 (c->op == SQLITE_INDEX_CONSTRAINT_GT || c->op == SQLITE_INDEX_CONSTRAINT_GE))
            place[1] = i;
        else if (c->iColumn == 1 &&
                 (c->op == SQLITE_INDEX_CONSTRAINT_LT || c->op == SQLITE_INDEX_CONSTRAINT_LE))
            place[2] = i;
    }
    int n = 0;
    info->estimatedCost = 1e7;
    for (int k = 0; k < 3; k++)
        if (place[k] >= 0) {
            info->aConstraintUsage[place[k]].argvIndex = ++n;
            info->idxNum |= 1 << k;
            info->estimatedCost /= 10;
        }
    uint64_t wanted = info->colUsed >> 1; /* our column 0 is ts_ns */
    info->idxStr = sqlite3_mprintf("%llu", wanted);
    info->needToFreeIdxStr = 1;
    return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int table_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    const dtr_event_info *info = ((struct event_table *)vtab)->info;
    int n_columns = 2 + info->n_fields;
    struct event_cursor *cursor = sqlite3_malloc(sizeof *cursor);
    int64_t *values =
        sqlite3_malloc64((sqlite3_uint64)n_columns * DTRI_CHUNK_EVENTS * sizeof *values);
    if (!cursor || !values) {
        sqlite3_free(cursor);
        sqlite3_free(values);
        return SQLITE_NOMEM;
    }
    memset(cursor, 0, sizeof *cursor);
    for (int c = 0; c < n_columns; c++)
        cursor->columns[c] = values + (size_t)c * DTRI_CHUNK_EVENTS;
    *out = &cursor->base;
    return SQLITE_OK;
}

static int table_close(sqlite3_vtab_cursor *base)
{
    struct event_cursor *cursor = (struct event_cursor *)base;
    sqlite3_finalize(cursor->chunks);
    dtri_chunk_codec_done(&cursor->codec);
    sqlite3_free(cursor->columns[0]);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int damaged(struct event_table *table, int64_t chunk)
{
    sqlite3_free(table->base.zErrMsg);
    table->base.zErrMsg = sqlite3_mprintf("event chunk %lld is damaged", chunk);
    return SQLITE_CORRUPT_VTAB;
}

static int next_chunk(struct event_cursor *cursor)
{
    struct event_table *table = (struct event_table *)cursor->base.pVtab;
    table->busy = 1;
    int code = sqlite3_step(cursor->chunks);
    table->busy = 0;
    if (code == SQLITE_DONE) {
        cursor->done = 1;
        return SQLITE_OK;
    }
    if (code != SQLITE_ROW)
        return code;
    int64_t n = sqlite3_column_int64(cursor->chunks, 1);
    const void *data = sqlite3_column_blob(cursor->chunks, 3);
    size_t size = (size_t)sqlite3_column_bytes(cursor->chunks, 3);
    dtr_status status =
        dtri_chunk_decode(&cursor->codec, sqlite3_column_int64(cursor->chunks, 2), data, size,
                          2 + table->info->n_fields, n, cursor->wanted, cursor->columns);
    if (status != DTR_OK)
        return status == DTR_E_NOMEM ? SQLITE_NOMEM
                                     : damaged(table, sqlite3_column_int64(cursor->chunks, 4));
    cursor->run = sqlite3_column_int64(cursor->chunks, 0);
    cursor->n = (int)n;
    cursor->at = 0;
    return SQLITE_OK;
}

static int table_filter(sqlite3_vtab_cursor *base, int which, const char *wanted, int argc,
                        sqlite3_value **argv)
{
    struct event_cursor *cursor = (struct event_cursor *)base;
    struct event_table *table = (struct event_table *)base->pVtab;
    (void)argc;
    if (table->busy) /* event_chunk is a view of a file that wants us to read ourselves for ever */
        return SQLITE_CORRUPT_VTAB;
    cursor->wanted = 0;
    for (const char *digit = wanted; *digit; digit++)
        cursor->wanted = cursor->wanted * 10 + (uint64_t)(*digit - '0');
    cursor->done = 0;
    cursor->rowid = 0;
    sqlite3_finalize(cursor->chunks);
    cursor->chunks = NULL;
    /* With a run, by the index, which has all that is asked; the data only of what it finds. */
    char *sql = sqlite3_mprintf(
        "SELECT c.run, c.n, c.format, c.data, c.id FROM (SELECT id FROM main.event_chunk "
        "WHERE kind = ?1%s%s%s ORDER BY id) AS o CROSS JOIN main.event_chunk AS c ON c.id = o.id",
        which & BY_RUN ? " AND run = ?2" : "", which & FROM_TS ? " AND ts_max >= ?3" : "",
        which & TO_TS ? " AND ts_min <= ?4" : "");
    int code = sql ? sqlite3_prepare_v2(table->db, sql, -1, &cursor->chunks, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int(cursor->chunks, 1, (int)table->info->kind);
    for (int k = 0, argument = 0; k < 3; k++)
        if (which & 1 << k)
            sqlite3_bind_value(cursor->chunks, 2 + k, argv[argument++]);
    return next_chunk(cursor);
}

static int table_next(sqlite3_vtab_cursor *base)
{
    struct event_cursor *cursor = (struct event_cursor *)base;
    cursor->rowid++;
    return ++cursor->at < cursor->n ? SQLITE_OK : next_chunk(cursor);
}

static int table_eof(sqlite3_vtab_cursor *base)
{
    return ((struct event_cursor *)base)->done;
}

static int table_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    struct event_cursor *cursor = (struct event_cursor *)base;
    const dtr_event_info *info = ((struct event_table *)base->pVtab)->info;
    if (column == 0) {
        sqlite3_result_int64(context, cursor->run);
        return SQLITE_OK;
    }
    int64_t value = cursor->columns[column - 1][cursor->at];
    if (column >= 3 && info->fields[column - 3].unit == DTR_UNIT_REAL) {
        double real;
        memcpy(&real, &value, sizeof real);
        sqlite3_result_double(context, real);
    } else if (column >= 3 && value == DTR_NONE && info->fields[column - 3].unit != DTR_UNIT_CODE &&
               strcmp(info->fields[column - 3].name, "delta") != 0) {
        sqlite3_result_null(context);
    } else {
        sqlite3_result_int64(context, value);
    }
    return SQLITE_OK;
}

static int table_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((struct event_cursor *)base)->rowid;
    return SQLITE_OK;
}

int dtri_vtab_register(sqlite3 *db)
{
    static const sqlite3_module module = {
        .iVersion = 1,
        .xConnect = table_connect, /* no xCreate: eponymous only */
        .xBestIndex = table_best_index,
        .xDisconnect = table_disconnect,
        .xOpen = table_open,
        .xClose = table_close,
        .xFilter = table_filter,
        .xNext = table_next,
        .xEof = table_eof,
        .xColumn = table_column,
        .xRowid = table_rowid,
    };
    int n, code = SQLITE_OK;
    const dtr_event_info *infos = dtr_event_infos(&n);
    for (int i = 0; i < n && code == SQLITE_OK; i++) {
        char *name = sqlite3_mprintf("dtr_event_%s", infos[i].name);
        code = name ? sqlite3_create_module(db, name, &module, (void *)&infos[i]) : SQLITE_NOMEM;
        sqlite3_free(name);
    }
    return code == SQLITE_OK ? dtri_vtab_tile_register(db) : code;
}

#ifdef DTRI_SQLITE_EXTENSION
int sqlite3_dtrscopesqlite_init(sqlite3 *db, char **out_error, const sqlite3_api_routines *api);
__attribute__((visibility("default"))) int
sqlite3_dtrscopesqlite_init(sqlite3 *db, char **out_error, const sqlite3_api_routines *api)
{
    (void)out_error;
    SQLITE_EXTENSION_INIT2(api);
    return dtri_vtab_register(db);
}
#endif
