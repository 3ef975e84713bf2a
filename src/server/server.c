#include "server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "server/api.h"
#include "server/assets.h"

#define TOKEN_BYTES    16
#define MAX_URI        2048
#define POOL           2
#define IDLE_SECONDS   60
#define MAX_CLIENTS    64
#define REQUEST_MEMORY (16 * 1024)

struct dtri_server {
    struct MHD_Daemon *daemon;
    int port;
    char token[2 * TOKEN_BYTES + 1];
    char cookie[32];   /* its name: cookies do not tell ports apart, so the port is in it */
    char hosts[2][32]; /* what Host may be */
    struct dtri_file *files;
    int n_files;
    int64_t max_events;
};

static const struct route {
    const char *path;
    enum dtri_need need;
    dtri_endpoint endpoint;
} routes[] = {
    {"/api/files", DTRI_NEED_NOTHING, dtri_api_files},
    {"/api/run", DTRI_NEED_OVERVIEW, dtri_api_run},
    {"/api/memory", DTRI_NEED_OVERVIEW, dtri_api_memory},
    {"/api/lanes", DTRI_NEED_OVERVIEW, dtri_api_lanes},
    {"/api/evictions", DTRI_NEED_OVERVIEW, dtri_api_evictions},
    {"/api/residency", DTRI_NEED_EVENTS, dtri_api_residency},
    {"/api/decision", DTRI_NEED_EVENTS, dtri_api_decision},
    {"/api/execution", DTRI_NEED_EVENTS, dtri_api_execution},
    {"/api/storage", DTRI_NEED_EVENTS, dtri_api_storage},
    {"/api/search", DTRI_NEED_EVENTS, dtri_api_search},
    {"/api/events", DTRI_NEED_EVENTS, dtri_api_events},
    {"/api/sweep", DTRI_NEED_FILE, dtri_api_sweep},
};

/* --- answers -------------------------------------------------------------------------------------
 */

static const char *const common_headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
};

/* Sends and lets go of a response. */
static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned code,
                                     struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    for (size_t i = 0; i < sizeof common_headers / sizeof common_headers[0]; i++)
        MHD_add_response_header(response, common_headers[i][0], common_headers[i][1]);
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

/* Takes `value`. */
static enum MHD_Result send_json(struct MHD_Connection *connection, unsigned code, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (response) {
        MHD_add_response_header(response, "Content-Type", "application/json");
        MHD_add_response_header(response, "Cache-Control", "no-store");
        if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
            MHD_add_response_header(response, "Allow", "GET, HEAD");
        if (code == MHD_HTTP_UNAUTHORIZED)
            MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    }
    return send_response(connection, code, response);
}

static enum MHD_Result send_error(struct MHD_Connection *connection, unsigned code,
                                  const char *status, const char *text)
{
    return send_json(
        connection, code,
        json_pack("{s:{s:s, s:o}}", "error", "status", status, "text", dtri_json_text(text)));
}

static unsigned http_code(dtr_status status)
{
    switch (status) {
    case DTR_E_INVALID:
        return MHD_HTTP_BAD_REQUEST;
    case DTR_E_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case DTR_E_LIMIT:
        return 413;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

static enum MHD_Result send_asset(struct MHD_Connection *connection, const struct dtri_asset *asset)
{
    char etag[24];
    const char *known = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "If-None-Match");
    const char *accepted =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept-Encoding");
    bool gzip = accepted && strstr(accepted, "gzip") && !strstr(accepted, "gzip;q=0");
    dtri_asset_etag(asset, etag);
    bool same = known && strstr(known, etag);
    const unsigned char *data = gzip ? asset->gzip : asset->data;
    size_t size = same ? 0 : gzip ? *asset->gzip_size : *asset->size;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)data, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", asset->type);
    MHD_add_response_header(response, "ETag", etag);
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "Vary", "Accept-Encoding");
    if (gzip && !same)
        MHD_add_response_header(response, "Content-Encoding", "gzip");
    return send_response(connection, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

/* --- who may ask ---------------------------------------------------------------------------------
 */

static bool host_allowed(const struct dtri_server *server, struct MHD_Connection *connection)
{
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    return host &&
           (strcasecmp(host, server->hosts[0]) == 0 || strcasecmp(host, server->hosts[1]) == 0);
}

/* Takes as long for a near miss as for any other text of the same length. */
static bool is_token(const struct dtri_server *server, const char *text, size_t length)
{
    unsigned char difference = 0;
    if (length != 2 * TOKEN_BYTES)
        return false;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(server->token[i] ^ text[i]);
    return difference == 0;
}

static bool has_bearer(const struct dtri_server *server, struct MHD_Connection *connection)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    return text && strncasecmp(text, "Bearer ", 7) == 0 &&
           is_token(server, text + 7, strlen(text + 7));
}

static bool has_cookie(const struct dtri_server *server, struct MHD_Connection *connection)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, server->cookie);
    return text && is_token(server, text, strlen(text));
}

/* Exchanges the token, sent as a bearer, for a cookie that scripts cannot read. */
static enum MHD_Result send_session(struct dtri_server *server, struct MHD_Connection *connection)
{
    char cookie[160];
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/", server->cookie,
             server->token);
    MHD_add_response_header(response, "Set-Cookie", cookie);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    return send_response(connection, MHD_HTTP_NO_CONTENT, response);
}

/* --- requests ------------------------------------------------------------------------------------
 */

static const char *param(void *request, const char *name)
{
    return MHD_lookup_connection_value(request, MHD_GET_ARGUMENT_KIND, name);
}

static enum MHD_Result answer_route(struct dtri_server *server, struct MHD_Connection *connection,
                                    const struct route *route)
{
    struct dtri_query query = {.param = param,
                               .request = connection,
                               .files = server->files,
                               .n_files = server->n_files,
                               .max_events = server->max_events};
    dtr_error error = {0};
    json_t *value = NULL;
    dtr_status status = dtri_query_open(&query, route->need, &error);
    if (status == DTR_OK)
        status = route->endpoint(&query, &value, &error);
    if (query.file)
        pthread_mutex_unlock(&query.file->lock);
    if (status != DTR_OK)
        return send_error(connection, http_code(status), dtr_status_name(status),
                          error.text[0] ? error.text : dtr_status_text(status));
    return send_json(connection, MHD_HTTP_OK, value);
}

static enum MHD_Result answer_api(struct dtri_server *server, struct MHD_Connection *connection,
                                  const char *path)
{
    if (strcmp(path, "/api/session") == 0 && has_bearer(server, connection))
        return send_session(server, connection);
    if (!has_bearer(server, connection) && !has_cookie(server, connection))
        return send_error(
            connection, MHD_HTTP_UNAUTHORIZED, "unauthorized",
            "open the address that `dtrscope serve` printed: it has the token of this "
            "start");
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (strcmp(routes[i].path, path) == 0)
            return answer_route(server, connection, &routes[i]);
    return send_error(connection, MHD_HTTP_NOT_FOUND, "E_NOT_FOUND", "there is no such address");
}

static int uri_too_long; /* only its address counts */

/* Called with the whole request line's address; what it returns is where *state starts. */
static void *note_uri(void *self, const char *uri, struct MHD_Connection *connection)
{
    (void)self;
    (void)connection;
    return strlen(uri) > MAX_URI ? &uri_too_long : NULL;
}

static enum MHD_Result answer(void *self, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct dtri_server *server = self;
    (void)version;
    (void)upload;
    (void)upload_size;
    if (!host_allowed(server, connection))
        return send_error(connection, MHD_HTTP_FORBIDDEN, "forbidden",
                          "this server answers on 127.0.0.1 and localhost only");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return send_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "method not allowed",
                          "only GET and HEAD: nothing here changes anything");
    if (*state == &uri_too_long)
        return send_error(connection, MHD_HTTP_URI_TOO_LONG, "E_LIMIT", "the address is too long");
    if (strncmp(path, "/api/", 5) == 0)
        return answer_api(server, connection, path);
    const struct dtri_asset *asset = dtri_asset_find(path);
    if (asset)
        return send_asset(connection, asset);
    return send_error(connection, MHD_HTTP_NOT_FOUND, "E_NOT_FOUND", "there is no such address");
}

/* --- starting and stopping -----------------------------------------------------------------------
 */

static int try_listen(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, MAX_CLIENTS) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static dtr_status listen_on(const struct dtri_server_options *options, int *out_fd, int *out_port,
                            dtr_error *error)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    int tries = options->port_only || options->port == 0 ? 1 : DTRI_SERVER_PORTS, fd = -1;
    for (int i = 0; i < tries && options->port + i <= 65535; i++) {
        fd = try_listen(options->port + i);
        if (fd >= 0 || errno != EADDRINUSE)
            break;
    }
    if (fd < 0)
        return dtri_fail(error, DTR_E_IO, errno, "cannot listen on 127.0.0.1:%d: %s%s",
                         options->port, strerror(errno),
                         errno == EADDRINUSE ? "; leave out --port to take the next free one" : "");
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        close(fd);
        return dtri_fail(error, DTR_E_IO, errno, "cannot read a socket's port: %s",
                         strerror(errno));
    }
    *out_fd = fd;
    *out_port = ntohs(address.sin_port);
    return DTR_OK;
}

static dtr_status make_token(struct dtri_server *server, dtr_error *error)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return dtri_fail(error, DTR_E_IO, errno, "the system gave no random bytes: %s",
                         strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(server->token + 2 * i, 3, "%02x", bytes[i]);
    return DTR_OK;
}

static dtr_status open_files(struct dtri_server *server, const struct dtri_server_options *options,
                             dtr_error *error)
{
    server->files = dtri_calloc((size_t)options->n_paths, sizeof *server->files);
    if (!server->files)
        return dtri_fail_nomem(error, "a list of files");
    for (int i = 0; i < options->n_paths; i++) {
        struct dtri_file *file = &server->files[i];
        dtr_status status =
            dtri_store_open(options->paths[i], DTRI_STORE_READ, &file->store, error);
        if (status != DTR_OK)
            return status;
        file->path = options->paths[i];
        pthread_mutex_init(&file->lock, NULL);
        server->n_files++;
    }
    return DTR_OK;
}

static dtr_status start_daemon(struct dtri_server *server, int fd, dtr_error *error)
{
    snprintf(server->cookie, sizeof server->cookie, "dtrscope_%d", server->port);
    snprintf(server->hosts[0], sizeof server->hosts[0], "127.0.0.1:%d", server->port);
    snprintf(server->hosts[1], sizeof server->hosts[1], "localhost:%d", server->port);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, server, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)POOL, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CLIENTS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MEMORY, MHD_OPTION_URI_LOG_CALLBACK,
        note_uri, NULL, MHD_OPTION_END);
    if (server->daemon)
        return DTR_OK;
    close(fd);
    return dtri_fail(error, DTR_E_IO, errno, "cannot start the web server: %s", strerror(errno));
}

dtr_status dtri_server_start(const struct dtri_server_options *options,
                             struct dtri_server **out_server, dtr_error *error)
{
    int fd = -1;
    struct dtri_server *server = dtri_calloc(1, sizeof *server);
    if (!server)
        return dtri_fail_nomem(error, "a server");
    server->max_events = options->max_events ? options->max_events : DTRI_SNAPSHOT_EVENTS;
    dtr_status status = make_token(server, error);
    if (status == DTR_OK)
        status = open_files(server, options, error);
    if (status == DTR_OK)
        status = listen_on(options, &fd, &server->port, error);
    if (status == DTR_OK)
        status = start_daemon(server, fd, error);
    if (status == DTR_OK)
        *out_server = server;
    else
        dtri_server_stop(server);
    return status;
}

int dtri_server_port(const struct dtri_server *server)
{
    return server->port;
}

const char *dtri_server_token(const struct dtri_server *server)
{
    return server->token;
}

void dtri_server_stop(struct dtri_server *server)
{
    if (!server)
        return;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    for (int i = 0; i < server->n_files; i++) {
        dtri_snapshot_free(server->files[i].snapshot);
        dtri_snapshot_free(server->files[i].overview);
        dtri_store_close(server->files[i].store, NULL);
        pthread_mutex_destroy(&server->files[i].lock);
    }
    dtri_free(server->files);
    dtri_free(server);
}
