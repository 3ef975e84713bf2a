/* The server over a real socket: what it refuses, what it says, and that what it says is true.
 *
 * Each group starts `dtrscope serve` on a small recorded simulation and talks HTTP by hand, since a
 * client library would not send what an attacker sends. */
#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ANSWER (1 << 20)
#define PATIENCE_S 10

static struct {
    pid_t pid;
    int port;
    char token[64];
    char file[512];
} server;

/* --- programs ------------------------------------------------------------------------------------
 */

/* Starts dtrscope; its standard output comes through *out_fd. */
static pid_t spawn(char *const argv[], int *out_fd)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    *out_fd = ends[0];
    return pid;
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_program(char *const argv[])
{
    char text[4096];
    int fd;
    pid_t pid = spawn(argv, &fd);
    while (read(fd, text, sizeof text) > 0)
        ;
    close(fd);
    return wait_for(pid);
}

static char *binary(void)
{
    return (char *)(uintptr_t)environment("DTRSCOPE_BIN", "dtrscope");
}

static pid_t serve(char *file, char *port, char *line, size_t size)
{
    char *const argv[] = {binary(), "serve", file, "--port", port, NULL};
    int fd;
    size_t n = 0;
    pid_t pid = spawn(argv, &fd);
    while (n + 1 < size && read(fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    close(fd);
    return pid;
}

static int start(void **state)
{
    char log[1024], line[256];
    (void)state;
    snprintf(server.file, sizeof server.file, "%s", scratch("run.dtr.sqlite"));
    snprintf(log, sizeof log, "%s/tests/data/random/rnd8.log", environment("DTRSCOPE_SOURCE", "."));
    char *const simulate[] = {binary(),   "sim",       log,       "--budget", "60%",
                              "--record", server.file, "--force", NULL};
    assert_int_equal(run_program(simulate), 0);
    server.pid = serve(server.file, "0", line, sizeof line);
    assert_int_equal(
        sscanf(line, "http://127.0.0.1:%d/#token=%63[0-9a-f]", &server.port, server.token), 2);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    kill(server.pid, SIGINT);
    assert_int_equal(wait_for(server.pid), 0);
    return 0;
}

/* --- HTTP by hand --------------------------------------------------------------------------------
 */

static char answer[MAX_ANSWER];

/* Sends bytes, reads until the server closes or says nothing for `patience_s`; the status code, 0
 * without an answer. */
static int send_raw(const char *request, size_t size, int patience_s)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = patience_s};
    int fd = socket(AF_INET, SOCK_STREAM, 0), code = 0;
    size_t n = 0;
    ssize_t got;
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(send(fd, request, size, MSG_NOSIGNAL) >= 0);
    while (n + 1 < sizeof answer && (got = recv(fd, answer + n, sizeof answer - 1 - n, 0)) > 0)
        n += (size_t)got;
    answer[n] = '\0';
    close(fd);
    return sscanf(answer, "HTTP/1.1 %d", &code) == 1 ? code : 0;
}

/* One request with the headers given besides Host and Connection. */
static int request(const char *method, const char *target, const char *headers)
{
    static char text[64 * 1024];
    int n = snprintf(text, sizeof text,
                     "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%s\r\n", method,
                     target, server.port, headers);
    return send_raw(text, (size_t)n, PATIENCE_S);
}

static const char *bearer(void)
{
    static char header[128];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", server.token);
    return header;
}

static int get(const char *target)
{
    return request("GET", target, bearer());
}

static const char *body(void)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static bool has_header(const char *text)
{
    const char *end = strstr(answer, "\r\n\r\n"), *at = strcasestr(answer, text);
    return end && at && at < end;
}

static json_t *get_json(const char *target)
{
    json_error_t why;
    int code = get(target);
    if (code != 200)
        fail_msg("%s: %d %s", target, code, body());
    json_t *json = json_loads(body(), 0, &why);
    if (!json)
        fail_msg("%s: %s", target, why.text);
    return json;
}

static json_int_t number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* --- who may ask ---------------------------------------------------------------------------------
 */

/* A name that someone else's DNS points at this machine gets nothing, not even the page. */
static void refuses_foreign_hosts(void **state)
{
    static const char *const hosts[] = {
        "evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "", "0.0.0.0",
        "127.0.0.1:",   "127.0.0.1:99999999999"};
    static const char *const targets[] = {"/", "/app.js", "/api/files", "/nothing"};
    (void)state;
    for (size_t h = 0; h < sizeof hosts / sizeof hosts[0]; h++)
        for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
            char text[512];
            int n = snprintf(text, sizeof text,
                             "GET %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n",
                             targets[t], hosts[h], bearer());
            int code = send_raw(text, (size_t)n, PATIENCE_S);
            if (code != 403 && code != 400)
                fail_msg("Host '%s', %s: %d", hosts[h], targets[t], code);
        }
}

/* The page itself is open to this machine; data need the token or the cookie it is exchanged for.
 */
static void wants_the_token(void **state)
{
    char wrong[128], cookie[256];
    (void)state;
    assert_int_equal(request("GET", "/", ""), 200);
    assert_int_equal(request("GET", "/api/files", ""), 401);
    snprintf(wrong, sizeof wrong, "Authorization: Bearer %s\r\n", server.token);
    wrong[strlen(wrong) - 3] ^= 1;
    assert_int_equal(request("GET", "/api/files", wrong), 401);
    assert_int_equal(request("GET", "/api/session", wrong), 401);
    assert_int_equal(request("GET", "/api/files", "Authorization: Bearer \r\n"), 401);
    assert_int_equal(get("/api/files"), 200);

    int code = get("/api/session");
    assert_in_range(code, 200, 204);
    const char *set = strcasestr(answer, "Set-Cookie: ");
    assert_non_null(set);
    assert_true(has_header("HttpOnly") && has_header("SameSite=Strict"));
    set += strlen("Set-Cookie: ");
    snprintf(cookie, sizeof cookie, "Cookie: %.*s\r\n", (int)strcspn(set, ";\r"), set);
    assert_int_equal(request("GET", "/api/files", cookie), 200);
}

/* Nothing can be changed, so no other method is known. */
static void knows_get_and_head_only(void **state)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"};
    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        char headers[256];
        snprintf(headers, sizeof headers, "%sContent-Length: 0\r\n", bearer());
        assert_int_equal(request(methods[i], "/api/files", headers), 405);
    }
    assert_int_equal(request("HEAD", "/api/files", bearer()), 200);
    assert_string_equal(body(), "");
}

/* Every answer tells the browser to run nothing of others and to tell others nothing. */
static void sends_the_guarding_headers(void **state)
{
    static const char *const targets[] = {"/", "/app.js", "/app.css", "/api/files", "/nothing"};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        get(targets[i]);
        assert_true(has_header("Content-Security-Policy: default-src 'none'"));
        assert_false(has_header("unsafe-"));
        assert_true(has_header("frame-ancestors 'none'"));
        assert_true(has_header("X-Content-Type-Options: nosniff"));
        assert_true(has_header("Referrer-Policy: no-referrer"));
        assert_false(has_header("Access-Control-"));
    }
}

/* --- what may be asked ---------------------------------------------------------------------------
 */

/* Paths lead to no files, however they are written. */
static void leads_to_no_files(void **state)
{
    static const char *const targets[] = {"/../../etc/passwd",
                                          "/..%2f..%2fetc/passwd",
                                          "/%2e%2e/%2e%2e/etc/passwd",
                                          "//etc/passwd",
                                          "/app.js/../../etc/passwd",
                                          "/index.html%00.js",
                                          "/api/",
                                          "/api/../app.js",
                                          "/api/nothing",
                                          "/run.dtr.sqlite"};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        assert_int_equal(get(targets[i]), 404);
        assert_null(strstr(body(), "root:"));
    }
}

/* Long addresses and headers are refused, and the server goes on. */
static void refuses_what_is_too_long(void **state)
{
    static char target[40000];
    (void)state;
    for (size_t n = 3000; n < sizeof target; n *= 3) {
        memset(target, 'a', n);
        memcpy(target, "/api/search?q=", 14);
        target[n] = '\0';
        int code = get(target);
        assert_true(code == 414 || code == 431 || code == 400);
    }
    assert_int_equal(get("/api/files"), 200);
}

/* Bytes that are no HTTP end the connection and nothing else. */
static void survives_bytes_that_are_no_http(void **state)
{
    static const char *const texts[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET /%zz%%%1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\nConnection: close\r\n\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_not_equal(send_raw(texts[i], strlen(texts[i]), 1), 200);
    assert_int_equal(get("/api/files"), 200);
}

/* A parameter that is missing, no number or out of range gets a sentence, not a guess. */
static void names_a_bad_parameter(void **state)
{
    static const struct {
        const char *target;
        int code;
        const char *word;
    } cases[] = {
        {"/api/run?file=9&run=1", 400, "file"},
        {"/api/run?file=-1&run=1", 400, "file"},
        {"/api/run?run=77", 404, "77"},
        {"/api/run?run=1e3", 400, "run"},
        {"/api/memory?run=1&t0=5&t1=5", 400, "t1"},
        {"/api/memory?run=1&t0=9&t1=2", 400, "t1"},
        {"/api/memory?run=1&buckets=0", 400, "buckets"},
        {"/api/memory?run=1&buckets=2001", 400, "buckets"},
        {"/api/memory?run=1&t0=99999999999999999999", 400, "t0"},
        {"/api/residency?run=1&sort=colour", 400, "sort"},
        {"/api/residency?run=1&limit=100000", 400, "limit"},
        {"/api/decision?run=1&decision=99999", 404, "decision 99999"},
        {"/api/execution?run=1&execution=99999", 404, "99999"},
        {"/api/storage?run=1&storage=99999", 404, "storage 99999"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int code = get(cases[i].target);
        if (code != cases[i].code || !strstr(body(), cases[i].word))
            fail_msg("%s: %d %s", cases[i].target, code, body());
    }
}

/* --- what is answered ----------------------------------------------------------------------------
 */

/* The page comes gzipped to who takes it, and not again to who has it. */
static void compresses_and_revalidates_the_page(void **state)
{
    char headers[256];
    (void)state;
    assert_int_equal(request("GET", "/app.js", ""), 200);
    assert_false(has_header("Content-Encoding"));
    assert_int_equal(request("GET", "/app.js", "Accept-Encoding: gzip\r\n"), 200);
    assert_true(has_header("Content-Encoding: gzip"));
    const char *etag = strcasestr(answer, "ETag: ");
    assert_non_null(etag);
    etag += strlen("ETag: ");
    snprintf(headers, sizeof headers, "Accept-Encoding: gzip\r\nIf-None-Match: %.*s\r\n",
             (int)strcspn(etag, "\r"), etag);
    assert_int_equal(request("GET", "/app.js", headers), 304);
    assert_string_equal(body(), "");
}

/* The memory that is drawn is the memory that was counted: its top is the peak of the run, at any
 * number of buckets, and a window shows what the whole shows there. */
static void draws_the_memory_that_was_counted(void **state)
{
    static const int counts[] = {1, 7, 300, 2000};
    json_t *run = get_json("/api/run?run=1");
    json_int_t peak = number(json_object_get(run, "run"), "peak_bytes");
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char target[128];
        json_int_t top = 0;
        size_t b;
        json_t *value;
        snprintf(target, sizeof target, "/api/memory?run=1&buckets=%d", counts[i]);
        json_t *memory = get_json(target);
        assert_int_equal(json_array_size(json_object_get(memory, "max")), counts[i]);
        json_array_foreach(json_object_get(memory, "max"), b, value)
        {
            json_int_t max = json_integer_value(value);
            json_int_t min = json_integer_value(json_array_get(json_object_get(memory, "min"), b));
            json_int_t avg = json_integer_value(json_array_get(json_object_get(memory, "avg"), b));
            assert_true(min <= avg && avg <= max);
            top = max > top ? max : top;
        }
        assert_int_equal(top, peak);
        json_decref(memory);
    }
    json_decref(run);
}

/* However few slices are drawn, together they stand for every operator run. */
static void slices_stand_for_all_runs(void **state)
{
    static const int counts[] = {1, 10, 2000};
    json_t *run = get_json("/api/run?run=1");
    json_int_t runs = number(json_object_get(run, "run"), "operator_runs");
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char target[128];
        json_int_t sum = 0;
        size_t l, s;
        json_t *lane, *slice;
        snprintf(target, sizeof target, "/api/lanes?run=1&buckets=%d", counts[i]);
        json_t *lanes = get_json(target);
        json_array_foreach(json_object_get(lanes, "lanes"), l, lane)
            json_array_foreach(json_object_get(lane, "slices"), s, slice) sum +=
            json_integer_value(json_array_get(slice, 2));
        assert_int_equal(sum, runs);
        json_decref(lanes);
    }
    json_decref(run);
}

/* Every eviction for the budget has a decision, whose victim is its first and cheapest candidate.
 */
static void every_eviction_has_its_decision(void **state)
{
    json_t *run = get_json("/api/run?run=1");
    json_int_t evictions = number(json_object_get(run, "run"), "evictions"), seen = 0;
    json_t *ticks = get_json("/api/evictions?run=1&buckets=2000");
    json_t *tick;
    size_t i;
    (void)state;
    assert_true(evictions > 0);
    json_array_foreach(json_object_get(ticks, "ticks"), i, tick)
    {
        char target[128];
        seen += json_integer_value(json_array_get(tick, 1));
        snprintf(target, sizeof target, "/api/decision?run=1&decision=%lld",
                 (long long)json_integer_value(json_array_get(tick, 3)));
        json_t *decision = get_json(target), *listed = json_object_get(decision, "candidates");
        json_t *first = json_array_get(listed, 0), *second = json_array_get(listed, 1);
        assert_int_equal(number(json_object_get(decision, "victim"), "storage"),
                         json_integer_value(json_array_get(tick, 4)));
        assert_int_equal(number(json_object_get(first, "storage"), "storage"),
                         json_integer_value(json_array_get(tick, 4)));
        if (second)
            assert_true(json_number_value(json_object_get(first, "score")) <=
                        json_number_value(json_object_get(second, "score")));
        json_decref(decision);
    }
    assert_int_equal(seen, evictions);
    json_decref(ticks);
    json_decref(run);
}

/* --- starting ------------------------------------------------------------------------------------
 */

/* A port that was asked for and is taken, a file that is none, no file: an error and its code. */
static void refuses_to_start(void **state)
{
    char port[16], line[256];
    (void)state;
    snprintf(port, sizeof port, "%d", server.port);
    assert_int_equal(wait_for(serve(server.file, port, line, sizeof line)), 1);
    assert_string_equal(line, "");
    assert_int_equal(wait_for(serve("/nonexistent.dtr.sqlite", "0", line, sizeof line)), 1);
    assert_int_equal(wait_for(serve("/etc/passwd", "0", line, sizeof line)), 1);
    char *const none[] = {binary(), "serve", NULL};
    assert_int_equal(run_program(none), 2);
    char *const bad[] = {binary(), "serve", server.file, "--port", "70000", NULL};
    assert_int_equal(run_program(bad), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_foreign_hosts),
        cmocka_unit_test(wants_the_token),
        cmocka_unit_test(knows_get_and_head_only),
        cmocka_unit_test(sends_the_guarding_headers),
        cmocka_unit_test(leads_to_no_files),
        cmocka_unit_test(refuses_what_is_too_long),
        cmocka_unit_test(survives_bytes_that_are_no_http),
        cmocka_unit_test(names_a_bad_parameter),
        cmocka_unit_test(compresses_and_revalidates_the_page),
        cmocka_unit_test(draws_the_memory_that_was_counted),
        cmocka_unit_test(slices_stand_for_all_runs),
        cmocka_unit_test(every_eviction_has_its_decision),
        cmocka_unit_test(refuses_to_start),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
