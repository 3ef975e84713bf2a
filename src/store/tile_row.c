/* What the tracks are, and reading one row of table tile.  Also a part of what plain sqlite3 loads:
 * needs nothing of the store. */
#include "store/tile_row.h"

#include <string.h>

#include "store/chunk.h"

static const struct dtri_track_info infos[] = {
#define INFO(NAME, name, id, unit, meaning) {(id), #name, (unit), (meaning)},
    DTRI_TRACKS(INFO)
#undef INFO
};
#define N_TRACKS (int)(sizeof infos / sizeof infos[0])

const struct dtri_track_info *dtri_track_infos(int *out_n)
{
    *out_n = N_TRACKS;
    return infos;
}

const struct dtri_track_info *dtri_track_info_of(int64_t id)
{
    for (int i = 0; i < N_TRACKS; i++)
        if (infos[i].id == id)
            return &infos[i];
    return NULL;
}

/* A track that only counts leaves out the last three. */
int dtri_tile_columns(int64_t track)
{
    const struct dtri_track_info *info = dtri_track_info_of(track);
    return info && !info->unit ? 2 : DTRI_TILE_COLUMNS;
}

bool dtri_tile_row_decode(const struct dtri_page_key *key, int64_t n, int64_t format,
                          const void *data, size_t size, struct dtri_tile_row *out_row)
{
    int64_t *columns[DTRI_TILE_COLUMNS];
    int n_columns = dtri_tile_columns(key->track);
    for (int c = 0; c < DTRI_TILE_COLUMNS; c++)
        columns[c] = out_row->columns[c];
    if (n < 1 || n > DTRI_TILE_PAGE || !data || format != DTRI_CHUNK_FORMAT ||
        key->level < DTRI_TILE_LEVEL_MIN || key->level > DTRI_TILE_LEVEL_MAX ||
        !dtri_chunk_unpack(data, size, n_columns, (int)n, UINT64_MAX, columns))
        return false;
    out_row->n = (int)n;
    if (n_columns == 2)
        for (int c = 2; c < DTRI_TILE_COLUMNS; c++)
            memset(columns[c], 0, (size_t)n * sizeof(int64_t));
    for (int i = 0; i < n; i++)
        if (columns[0][i] <= (i ? columns[0][i - 1] : -1) || columns[0][i] >= DTRI_TILE_PAGE ||
            columns[1][i] < 1)
            return false;
    return true;
}
