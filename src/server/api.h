/* The data endpoints: one function each, from a parsed query to a JSON value.
 *
 * schema/openapi.yaml describes every answer field by field.  An endpoint runs with its file's lock
 * held, reads the store or the snapshot, and never sends anything itself.  All answers are bounded
 * by the limits below; where one leaves something out it says how much in `not_shown`. */
#ifndef DTRI_SERVER_API_H
#define DTRI_SERVER_API_H

#include <jansson.h>
#include <pthread.h>

#include "server/snapshot.h"

#define DTRI_MAX_BUCKETS 2000
#define DTRI_MAX_ITEMS   5000 /* in one list */
#define DTRI_MAX_RELATED 200  /* runs of a chain, inputs of an operator, rows of a page */
#define DTRI_MAX_LANES   12   /* of replays, by depth; the last holds all that are deeper */
#define DTRI_MAX_SAFE    (INT64_C(1) << 53) /* integers beyond it are not exact in a browser */

/* One file that is served.  `lock` guards all but `path`. */
struct dtri_file {
    const char *path;
    pthread_mutex_t lock;
    struct dtri_store *store;
    struct dtri_snapshot *snapshot; /* of the run asked for last, or of a window of it */
    struct dtri_snapshot *overview; /* of a run too large for one */
    int64_t snapshot_run, overview_run;
};

/* Reads parameter `name` of the request, or NULL. */
typedef const char *(*dtri_param)(void *request, const char *name);

struct dtri_query {
    dtri_param param;
    void *request;
    struct dtri_file *files;
    int n_files;
    int64_t max_events; /* that a snapshot may hold; a window of a larger run an eighth of it */
    /* What the route needs, and so is set: */
    struct dtri_file *file;
    struct dtri_run run;
    const struct dtri_snapshot *snapshot;
    int64_t t0, t1;  /* the window: t0 < t1 */
    int64_t buckets; /* pixels, 1..DTRI_MAX_BUCKETS */
};

/* OVERVIEW: the endpoint can do with an overview; EVENTS: it needs the events of the window. */
enum dtri_need { DTRI_NEED_NOTHING, DTRI_NEED_FILE, DTRI_NEED_OVERVIEW, DTRI_NEED_EVENTS };

/* Returns owned JSON in *out. */
typedef dtr_status (*dtri_endpoint)(struct dtri_query *query, json_t **out, dtr_error *error);

dtr_status dtri_api_files(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_run(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_memory(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_lanes(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_evictions(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_residency(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_decision(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_execution(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_storage(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_search(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_events(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_api_sweep(struct dtri_query *query, json_t **out, dtr_error *error);
/* The same from tiles, where the snapshot is an overview. */
dtr_status dtri_overview_memory(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_overview_lanes(struct dtri_query *query, json_t **out, dtr_error *error);
dtr_status dtri_overview_evictions(struct dtri_query *query, json_t **out, dtr_error *error);

/* --- shared by endpoints (api.c) --- */

/* Opens what `need` asks for and fills the query.  The caller holds no lock, and unlocks
 * query->file->lock afterwards if query->file is set, also on failure. */
dtr_status dtri_query_open(struct dtri_query *query, enum dtri_need need, dtr_error *error);
/* A whole number within [min, max].  `fallback` where the parameter is absent: one outside the
 * range makes the parameter required. */
dtr_status dtri_query_int(const struct dtri_query *query, const char *name, int64_t min,
                          int64_t max, int64_t fallback, int64_t *out, dtr_error *error);
/* "budget" of /api/memory and "out_of_memory" of /api/evictions. */
json_t *dtri_json_budgets(const struct dtri_query *query);
json_t *dtri_json_out_of_memory(const struct dtri_query *query);
/* Which pixel of the window a time is in, clamped to it. */
int64_t dtri_query_bucket(const struct dtri_query *query, int64_t ts);
json_t *dtri_json_int(int64_t value); /* null for DTRI_NULL */
json_t *dtri_json_real(double value); /* null unless finite */
json_t *dtri_json_id(int64_t id);     /* null for DTR_NONE */
json_t *dtri_json_text(const char *text);
/* All columns of a run. */
json_t *dtri_json_run(const struct dtri_run *run);
/* {"op", "name"} of an operator, null for none. */
json_t *dtri_json_op(const struct dtri_snapshot *s, int64_t op);
/* DTR_OK, or what a NULL `value` means; for the end of an endpoint. */
dtr_status dtri_json_result(json_t *value, json_t **out, dtr_error *error);

#endif
