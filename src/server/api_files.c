/* /api/files: what is served. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "server/api.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static json_t *describe(const char *path, int number, const struct dtri_run *runs, int n)
{
    json_t *list = json_array();
    int64_t without_events = 0, not_shown = 0;
    for (int i = 0; i < n; i++) {
        if (runs[i].has_events != 1)
            without_events++;
        else if (json_array_size(list) < DTRI_MAX_RELATED)
            json_array_append_new(list, dtri_json_run(&runs[i]));
        else
            not_shown++;
    }
    return json_pack("{s:i, s:o, s:o, s:I, s:I}", "file", number, "name",
                     dtri_json_text(base_name(path)), "runs", list, "sweep_runs", without_events,
                     "not_shown", not_shown);
}

dtr_status dtri_api_files(struct dtri_query *q, json_t **out, dtr_error *error)
{
    json_t *files = json_array();
    dtr_status status = DTR_OK;
    for (int i = 0; i < q->n_files && status == DTR_OK; i++) {
        struct dtri_file *file = &q->files[i];
        struct dtri_run *runs = NULL;
        int n;
        pthread_mutex_lock(&file->lock);
        status = dtri_store_runs(file->store, &runs, &n, error);
        pthread_mutex_unlock(&file->lock);
        if (status == DTR_OK && json_array_append_new(files, describe(file->path, i, runs, n)))
            status = dtri_fail_nomem(error, "an answer");
        dtri_free(runs);
    }
    if (status != DTR_OK) {
        json_decref(files);
        return status;
    }
    return dtri_json_result(json_pack("{s:s, s:o}", "version", DTR_VERSION, "files", files), out,
                            error);
}
