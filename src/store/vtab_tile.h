#ifndef DTRI_STORE_VTAB_TILE_H
#define DTRI_STORE_VTAB_TILE_H

struct sqlite3;
int dtri_vtab_tile_register(struct sqlite3 *db);

#endif
