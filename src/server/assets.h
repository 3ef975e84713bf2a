/* The page, embedded in the binary: what web/dist held when it was built. */
#ifndef DTRI_SERVER_ASSETS_H
#define DTRI_SERVER_ASSETS_H

struct dtri_asset {
    const char *path; /* in the address, "/" included */
    const char *type; /* Content-Type */
    const unsigned char *data, *gzip;
    const unsigned *size, *gzip_size;
};

/* NULL for a path that is none.  Static storage; any thread. */
const struct dtri_asset *dtri_asset_find(const char *path);
/* A quoted ETag for the content: 64 bits of FNV-1a, enough to notice another build. */
void dtri_asset_etag(const struct dtri_asset *asset, char out[24]);

#endif
