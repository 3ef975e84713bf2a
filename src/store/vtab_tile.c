/* The time pyramid as a table: the read-only, eponymous virtual table dtr_tile, one row a bucket.
 *
 * Conditions on run, track and level (=) and ts_ns choose which pages are read.  See vtab.c. */
#include <string.h>

#ifdef DTRI_SQLITE_EXTENSION
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif
#include "store/tile_row.h"
#include "store/vtab_tile.h"

enum column { RUN, TRACK, LEVEL, TS_NS, WIDTH_NS, N, TOTAL, LEAST, MOST };

/* idxNum: the bits of the conditions; the arguments come in this order. */
enum condition { BY_RUN, BY_TRACK, BY_LEVEL, FROM_TS, TO_TS, N_CONDITIONS };

struct tile_table {
    sqlite3_vtab base;
    sqlite3 *db;
    int busy; /* reading table tile */
};

struct tile_cursor {
    sqlite3_vtab_cursor base;
    sqlite3_stmt *pages;
    struct dtri_page_key key;
    struct dtri_tile_row row;
    int64_t rowid;
    int at;
    int done;
};

static int tiles_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **out_error)
{
    (void)aux, (void)argc, (void)argv, (void)out_error;
    int code = sqlite3_declare_vtab(
        db, "CREATE TABLE x (run INTEGER, track INTEGER, level INTEGER, ts_ns INTEGER, "
            "width_ns INTEGER, n INTEGER, total INTEGER, least INTEGER, most INTEGER)");
    if (code != SQLITE_OK)
        return code;
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    struct tile_table *table = sqlite3_malloc(sizeof *table);
    if (!table)
        return SQLITE_NOMEM;
    memset(table, 0, sizeof *table);
    table->db = db;
    *out = &table->base;
    return SQLITE_OK;
}

static int tiles_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static int condition_of(const struct sqlite3_index_constraint *c)
{
    if (c->iColumn <= LEVEL && c->iColumn >= RUN && c->op == SQLITE_INDEX_CONSTRAINT_EQ)
        return BY_RUN + c->iColumn;
    if (c->iColumn != TS_NS)
        return -1;
    if (c->op == SQLITE_INDEX_CONSTRAINT_GT || c->op == SQLITE_INDEX_CONSTRAINT_GE)
        return FROM_TS;
    if (c->op == SQLITE_INDEX_CONSTRAINT_LT || c->op == SQLITE_INDEX_CONSTRAINT_LE)
        return TO_TS;
    return -1;
}

static int tiles_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    int place[N_CONDITIONS], n = 0;
    for (int k = 0; k < N_CONDITIONS; k++)
        place[k] = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        int k = info->aConstraint[i].usable ? condition_of(&info->aConstraint[i]) : -1;
        if (k >= 0)
            place[k] = i;
    }
    info->estimatedCost = 1e8;
    for (int k = 0; k < N_CONDITIONS; k++)
        if (place[k] >= 0) {
            info->aConstraintUsage[place[k]].argvIndex = ++n;
            info->idxNum |= 1 << k;
            info->estimatedCost /= 10;
        }
    return SQLITE_OK;
}

static int tiles_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
    (void)vtab;
    struct tile_cursor *cursor = sqlite3_malloc(sizeof *cursor);
    if (!cursor)
        return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
    *out = &cursor->base;
    return SQLITE_OK;
}

static int tiles_close(sqlite3_vtab_cursor *base)
{
    sqlite3_finalize(((struct tile_cursor *)base)->pages);
    sqlite3_free(base);
    return SQLITE_OK;
}

static int next_page(struct tile_cursor *cursor)
{
    struct tile_table *table = (struct tile_table *)cursor->base.pVtab;
    sqlite3_stmt *s = cursor->pages;
    table->busy = 1;
    int code = sqlite3_step(s);
    table->busy = 0;
    cursor->at = 0;
    if (code == SQLITE_DONE) {
        cursor->done = 1;
        return SQLITE_OK;
    }
    if (code != SQLITE_ROW)
        return code;
    cursor->key = (struct dtri_page_key){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                                         sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3)};
    const void *data = sqlite3_column_blob(s, 6);
    if (dtri_tile_row_decode(&cursor->key, sqlite3_column_int64(s, 4), sqlite3_column_int64(s, 5),
                             data, (size_t)sqlite3_column_bytes(s, 6), &cursor->row))
        return SQLITE_OK;
    sqlite3_free(table->base.zErrMsg);
    table->base.zErrMsg = sqlite3_mprintf(
        "page %lld of level %lld of track %lld of run %lld in table tile is damaged",
        cursor->key.page, cursor->key.level, cursor->key.track, cursor->key.run);
    return SQLITE_CORRUPT_VTAB;
}

/* Only a level that is known makes a range of pages.  Else whole levels are read: SQLite checks the
 * rows again. */
static int64_t page_of(int64_t ts, int64_t level)
{
    return ts >> dtri_tile_shift((int)level) >> 8;
}

static int tiles_filter(sqlite3_vtab_cursor *base, int which, const char *text, int argc,
                        sqlite3_value **argv)
{
    struct tile_cursor *cursor = (struct tile_cursor *)base;
    int64_t values[N_CONDITIONS];
    (void)text, (void)argc;
    if (((struct tile_table *)base->pVtab)->busy) /* as in vtab.c */
        return SQLITE_CORRUPT_VTAB;
    for (int k = 0, argument = 0; k < N_CONDITIONS; k++) {
        if (!(which & 1 << k))
            continue;
        sqlite3_value *value = argv[argument++];
        if (sqlite3_value_type(value) == SQLITE_INTEGER)
            values[k] = sqlite3_value_int64(value);
        else
            which &= ~(1 << k);
    }
    bool level = which & 1 << BY_LEVEL && values[BY_LEVEL] >= DTRI_TILE_LEVEL_MIN &&
                 values[BY_LEVEL] <= DTRI_TILE_LEVEL_MAX;
    cursor->done = 0;
    cursor->rowid = 0;
    sqlite3_finalize(cursor->pages);
    cursor->pages = NULL;
    char *sql = sqlite3_mprintf(
        "SELECT run, track, level, page, n, format, data FROM tile WHERE 1%s%s%s%s%s",
        which & 1 << BY_RUN ? " AND run = ?1" : "", which & 1 << BY_TRACK ? " AND track = ?2" : "",
        which & 1 << BY_LEVEL ? " AND level = ?3" : "",
        level && which & 1 << FROM_TS ? " AND page >= ?4" : "",
        level && which & 1 << TO_TS ? " AND page <= ?5" : "");
    int code = sql ? sqlite3_prepare_v2(((struct tile_table *)base->pVtab)->db, sql, -1,
                                        &cursor->pages, NULL)
                   : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code != SQLITE_OK)
        return code;
    for (int k = BY_RUN; k <= BY_LEVEL; k++)
        if (which & 1 << k)
            sqlite3_bind_int64(cursor->pages, 1 + k, values[k]);
    for (int k = FROM_TS; level && k <= TO_TS; k++)
        if (which & 1 << k)
            sqlite3_bind_int64(cursor->pages, 1 + k, page_of(values[k], values[BY_LEVEL]));
    return next_page(cursor);
}

static int tiles_next(sqlite3_vtab_cursor *base)
{
    struct tile_cursor *cursor = (struct tile_cursor *)base;
    cursor->rowid++;
    return ++cursor->at < cursor->row.n ? SQLITE_OK : next_page(cursor);
}

static int tiles_eof(sqlite3_vtab_cursor *base)
{
    return ((struct tile_cursor *)base)->done;
}

static int tiles_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct tile_cursor *cursor = (struct tile_cursor *)base;
    const struct dtri_page_key *key = &cursor->key;
    const int64_t bucket = cursor->row.columns[0][cursor->at];
    int shift = dtri_tile_shift((int)key->level);
    switch ((enum column)column) {
    case RUN:
        sqlite3_result_int64(context, key->run);
        break;
    case TRACK:
        sqlite3_result_int64(context, key->track);
        break;
    case LEVEL:
        sqlite3_result_int64(context, key->level);
        break;
    case TS_NS:
        sqlite3_result_int64(
            context, (int64_t)(((uint64_t)key->page * DTRI_TILE_PAGE + (uint64_t)bucket) << shift));
        break;
    case WIDTH_NS:
        sqlite3_result_int64(context, INT64_C(1) << shift);
        break;
    default: /* NULL where the track only counts */
        if (column == N || dtri_tile_columns(key->track) == DTRI_TILE_COLUMNS)
            sqlite3_result_int64(context, cursor->row.columns[column - N + 1][cursor->at]);
    }
    return SQLITE_OK;
}

static int tiles_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((struct tile_cursor *)base)->rowid;
    return SQLITE_OK;
}

int dtri_vtab_tile_register(sqlite3 *db)
{
    static const sqlite3_module module = {
        .iVersion = 1,
        .xConnect = tiles_connect, /* no xCreate: eponymous only */
        .xBestIndex = tiles_best_index,
        .xDisconnect = tiles_disconnect,
        .xOpen = tiles_open,
        .xClose = tiles_close,
        .xFilter = tiles_filter,
        .xNext = tiles_next,
        .xEof = tiles_eof,
        .xColumn = tiles_column,
        .xRowid = tiles_rowid,
    };
    return sqlite3_create_module(db, "dtr_tile", &module, NULL);
}
