#include "store/clock.h"

#include "store/store_priv.h"

#define UNMEASURED_NS INT64_C(1000000)     /* of a pair whose taking was not timed */
#define REBOOT_NS     INT64_C(10000000000) /* boots lie further apart than wall clocks are set */

static bool add_overflows(int64_t a, int64_t b, int64_t *out)
{
    return __builtin_add_overflow(a, b, out);
}

dtr_status dtri_clock_alignment(struct dtri_store *store, int64_t run,
                                struct dtri_alignment *out_alignment, dtr_error *error)
{
    sqlite3_stmt *statement = NULL;
    int64_t least = INT64_MAX, most = INT64_MIN, widest = 0;
    int code = SQLITE_DONE;
    *out_alignment = (struct dtri_alignment){0};
    dtr_status status = dtri_store_prepare(
        store, "SELECT monotonic_ns, unix_ns, uncertainty_ns FROM clock_sample WHERE run = ?1",
        &statement, error);
    if (status != DTR_OK)
        return status;
    sqlite3_bind_int64(statement, 1, run);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        int64_t offset, taking = sqlite3_column_type(statement, 2) == SQLITE_NULL
                                     ? UNMEASURED_NS
                                     : sqlite3_column_int64(statement, 2);
        if (__builtin_sub_overflow(sqlite3_column_int64(statement, 1),
                                   sqlite3_column_int64(statement, 0), &offset))
            continue; /* no clock says that */
        least = offset < least ? offset : least;
        most = offset > most ? offset : most;
        widest = taking > widest ? taking : widest;
    }
    if (code != SQLITE_DONE)
        status = dtri_store_fail(store, "reading clock samples", error);
    sqlite3_finalize(statement);
    int64_t spread;
    if (status != DTR_OK || least > most || __builtin_sub_overflow(most, least, &spread))
        return status;
    out_alignment->known =
        !add_overflows(spread / 2 + spread % 2, widest, &out_alignment->uncertainty_ns);
    out_alignment->offset_ns = least + spread / 2;
    return DTR_OK;
}

bool dtri_clock_is_shared(const struct dtri_alignment *a, const struct dtri_alignment *b)
{
    int64_t apart;
    return a->known && b->known && !__builtin_sub_overflow(a->offset_ns, b->offset_ns, &apart) &&
           apart < REBOOT_NS && apart > -REBOOT_NS;
}
