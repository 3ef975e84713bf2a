#include "server/assets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ASSET(path, type, symbol): the arrays come from cmake/embed.cmake, see CMakeLists.txt. */
#define ASSETS(ASSET)                                                                              \
    ASSET("/", "text/html; charset=utf-8", index)                                                  \
    ASSET("/app.js", "text/javascript; charset=utf-8", app_js)                                     \
    ASSET("/app.css", "text/css; charset=utf-8", app_css)                                          \
    ASSET("/icon.svg", "image/svg+xml", icon)

#define DECLARE(path, type, symbol)                                                                \
    extern const unsigned char dtri_asset_##symbol[], dtri_asset_##symbol##_gz[];                  \
    extern const unsigned dtri_asset_##symbol##_size, dtri_asset_##symbol##_gz_size;
ASSETS(DECLARE)

#define ENTRY(path, type, symbol)                                                                  \
    {path,                                                                                         \
     type,                                                                                         \
     dtri_asset_##symbol,                                                                          \
     dtri_asset_##symbol##_gz,                                                                     \
     &dtri_asset_##symbol##_size,                                                                  \
     &dtri_asset_##symbol##_gz_size},
static const struct dtri_asset assets[] = {ASSETS(ENTRY)};

const struct dtri_asset *dtri_asset_find(const char *path)
{
    for (size_t i = 0; i < sizeof assets / sizeof assets[0]; i++)
        if (strcmp(assets[i].path, path) == 0)
            return &assets[i];
    return NULL;
}

void dtri_asset_etag(const struct dtri_asset *asset, char out[24])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (unsigned i = 0; i < *asset->size; i++)
        hash = (hash ^ asset->data[i]) * UINT64_C(0x100000001b3);
    snprintf(out, 24, "\"%016" PRIx64 "\"", hash);
}
