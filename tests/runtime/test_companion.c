/* Companions, the process's log and the traces that tie them to sinks. Read back with jansson,
 * an independent reader. */
#define _GNU_SOURCE
#include "util.h"
#include "trace/events.h"
#include "base/json.h"
#include "base/options.h"
#include "trace/trace.h"
#include "cpu/cpu.h"
#include "memtrace/record.h"
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* Each test runs in a process of its own: log and numbering are the process's. */
static int companion_run(int (*fn)(void *))
{
    return in_child(fn, NULL);
}

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                          \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

/* All lines of a companion as one array; NULL when one is not a JSON object with "ev". */
static json_t *companion_load(const char *path)
{
    static json_t *loaded; /* nobody gives them back */
    char *text = slurp(path, NULL), *save = NULL;
    json_t *all = json_array();
    loaded = loaded ? loaded : json_array();
    json_array_append_new(loaded, all);
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        json_error_t e;
        json_t *o = json_loads(line, 0, &e);
        if (!json_is_string(json_object_get(o, "ev"))) {
            fprintf(stderr, "bad line: %s\n", line);
            return NULL;
        }
        json_array_append_new(all, o);
    }
    free(text);
    return all;
}

static json_t *companion_nth(json_t *all, const char *ev, int n)
{
    size_t i;
    json_t *o;
    json_array_foreach(all, i,
                       o) if (!strcmp(json_string_value(json_object_get(o, "ev")), ev) && n-- == 0) return o;
    return NULL;
}

static int companion_count(json_t *all, const char *ev)
{
    int n = 0;
    while (companion_nth(all, ev, n))
        n++;
    return n;
}

static long long companion_num(json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? json_integer_value(v) : json_is_boolean(v) ? json_is_true(v) : -999;
}

static const char *companion_str(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "(none)";
}

static const struct mt_host_site site = {"a.cu", "main", "f", 42, 7};

/* One launch of `n` records. `said` may differ: what the device claims to have counted. */
static void companion_launch(struct mt_trace *t, unsigned n, unsigned said_, int status)
{
    struct mt_launch_line l = {.kernel = "f<int>",
                               .mangled = "_Z1fIiEvv",
                               .signature = "void f<int>()",
                               .grid = {2, 3, 4},
                               .block = {32, 1, 1},
                               .shared = 128,
                               .site = &site};
    mt_trace_begin(t, &l);
    for (unsigned i = 0; t && i < n; i++) {
        struct mt_raw_record r = mt_rec_pack(i % 4, MT_LOAD, 4, 0x1000 + i, 0);
        mt_trace_append(t, &r, 1);
    }
    l.records = said_;
    l.untraced = 5;
    l.status = status;
    mt_trace_end(t, &l);
}

/* ---- the lines ---- */

static int companion_lines(void *arg)
{
    const char *dir = fresh_dir();
    CHECK(mt_event_alloc(0xabc000, 4096, "cudaMalloc", NULL, -1, &site, -1) == 0);
    CHECK(mt_event_alloc(0xdef000, 16, "symbol", "a \"b\" \\ \n\x01\xff\xc3\xa9", -1, NULL, -1) == 1);
    mt_event_memcpy(&(struct mt_memcpy_line){.kind = "h2d", .dst = 1, .src = ~0ull, .bytes = 9, .stream = -1},
                    &site);
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 3, 3, 0);
    mt_event_memset(
        &(struct mt_memset_line){.dst = 16, .value = 255, .bytes = 12, .width = 3, .height = 4, .pitch = 512},
        NULL);
    mt_event_sync("device", 0);
    mt_event_sync("stream", 0);
    mt_event_event("record", 6, 0);
    mt_event_free(0, 0xabc000);
    mt_trace_finish();
    json_t *a = companion_load(in_dir(dir, "MemTrace-pipe-0.meta"));
    CHECK(a);
    json_t *h = json_array_get(a, 0);
    CHECK(!strcmp(companion_str(h, "ev"), "header") && companion_num(h, "version") == 1 &&
          companion_num(h, "pid") == getpid());
    CHECK(!strcmp(companion_str(h, "trace"), "MemTrace-pipe-0") &&
          !strcmp(companion_str(h, "format"), "raw") && companion_num(h, "stream") == 0);
    CHECK(!strcmp(companion_str(h, "device"), "cpu") && companion_num(h, "sms") == 4 &&
          strstr(companion_str(h, "program"), "test_runtime_companion"));
    json_t *o = companion_nth(a, "alloc", 0);
    CHECK(companion_num(o, "seq") == 0 && companion_num(o, "id") == 0 &&
          !strcmp(companion_str(o, "base"), "0xabc000") && companion_num(o, "bytes") == 4096);
    CHECK(!strcmp(companion_str(o, "kind"), "cudaMalloc") && !strcmp(companion_str(o, "file"), "a.cu") &&
          companion_num(o, "line") == 42);
    CHECK(!strcmp(companion_str(companion_nth(a, "alloc", 1), "name"),
                  "a \"b\" \\ \n\x01\xef\xbf\xbd\xc3\xa9"));
    o = companion_nth(a, "memcpy", 0);
    CHECK(!strcmp(companion_str(o, "kind"), "h2d") &&
          !strcmp(companion_str(o, "src"), "0xffffffffffffffff") && companion_num(o, "stream") == -1);
    CHECK(!json_object_get(o, "width"));
    /* Events are written in their order, on one clock. */
    CHECK(companion_num(o, "begin_ns") > 0 &&
          companion_num(o, "begin_ns") <= companion_num(companion_nth(a, "launch", 0), "begin_ns"));
    CHECK(companion_num(companion_nth(a, "memset", 0), "begin_ns") >=
          companion_num(companion_nth(a, "launch", 0), "end_ns"));
    o = companion_nth(a, "launch", 0);
    CHECK(companion_num(o, "seq") == 3 && companion_num(o, "stream") == 0 &&
          !strcmp(companion_str(o, "kernel"), "f<int>"));
    CHECK(!strcmp(companion_str(o, "mangled"), "_Z1fIiEvv") &&
          !strcmp(companion_str(o, "signature"), "void f<int>()"));
    CHECK(json_integer_value(json_array_get(json_object_get(o, "grid"), 2)) == 4);
    CHECK(json_integer_value(json_array_get(json_object_get(o, "block"), 0)) == 32);
    CHECK(companion_num(o, "shared") == 128 && companion_num(o, "line") == 42 &&
          companion_num(o, "records") == 3 && companion_num(o, "untraced") == 5);
    CHECK(companion_num(o, "traced") == 1 && companion_num(o, "status") == 0 &&
          companion_num(o, "end_ns") >= companion_num(o, "begin_ns"));
    o = companion_nth(a, "memset", 0);
    CHECK(companion_num(o, "value") == 255 && companion_num(o, "width") == 3 &&
          companion_num(o, "height") == 4 && companion_num(o, "pitch") == 512);
    CHECK(!strcmp(companion_str(companion_nth(a, "sync", 0), "what"), "device") &&
          companion_num(companion_nth(a, "sync", 1), "stream") == 0);
    CHECK(!strcmp(companion_str(companion_nth(a, "event", 0), "op"), "record") &&
          companion_num(companion_nth(a, "event", 0), "event") == 6);
    CHECK(companion_num(companion_nth(a, "free", 0), "id") == 0);
    o = json_array_get(a, json_array_size(a) - 1);
    CHECK(!strcmp(companion_str(o, "ev"), "end") && companion_num(o, "records_written") == 3 &&
          companion_num(o, "records_counted") == 3);
    CHECK(companion_num(o, "launches") == 1 && companion_num(o, "complete") == 1 &&
          companion_count(a, "lost") == 0);
    return 0;
}

static int companion_sites(void *arg)
{
    const char *dir = fresh_dir();
    const struct mt_image_site s[] = {
        {"k.cu", "f", "x", 3, 4, MT_LOAD, 8, 8, MT_SCOPE_NONE, MT_ORDER_WEAK, 0, 0, 0},
        {"", "g", "", 0, 0, MT_ATOMIC, 0, 0, MT_SCOPE_GPU, MT_ORDER_RELAXED, 0, 1, 0},
        {"", "g", "", 0, 0, MT_STORE, 4, 4, MT_SCOPE_CLUSTER, MT_ORDER_RELEASE, 0, 0, 0},
    };
    struct mt_image_head head = {.sites = s, .nsites = 3};
    struct mt_image image = {.head = &head, .site_base = 100};
    struct mt_trace *t = mt_trace_open();
    mt_event_sites(image.head, image.site_base);
    companion_launch(t, 0, 0, 0);
    mt_trace_finish();
    json_t *a = companion_load(in_dir(dir, "MemTrace-pipe-0.meta"));
    CHECK(a && companion_count(a, "site") == 3);
    json_t *o = companion_nth(a, "site", 0);
    CHECK(companion_num(o, "id") == 100 && !strcmp(companion_str(o, "file"), "k.cu") &&
          companion_num(o, "line") == 3 && companion_num(o, "column") == 4);
    CHECK(!strcmp(companion_str(o, "function"), "f") && !strcmp(companion_str(o, "op"), "load") &&
          companion_num(o, "size") == 8);
    CHECK(!strcmp(companion_str(o, "var"), "x") && companion_num(companion_nth(a, "site", 1), "id") == 101);
    CHECK(!json_object_get(o, "strong") && !json_object_get(o, "scope") && !json_object_get(o, "order") &&
          !json_object_get(o, "overwrites"));
    o = companion_nth(a, "site", 1);
    CHECK(!strcmp(companion_str(o, "op"), "atomic") && !json_object_get(o, "strong"));
    CHECK(!strcmp(companion_str(o, "scope"), "gpu") && !strcmp(companion_str(o, "order"), "relaxed"));
    CHECK(json_is_true(json_object_get(o, "overwrites")));
    o = companion_nth(a, "site", 2);
    CHECK(json_is_true(json_object_get(o, "strong")));
    CHECK(!strcmp(companion_str(o, "scope"), "cluster") && !strcmp(companion_str(o, "order"), "release"));
    return 0;
}

/* Returns the features of a compact trace with shared memory. */
static int fences_features(uint64_t *features)
{
    const char *dir = fresh_dir();
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 0, 0, 0);
    mt_trace_finish();
    char *file = slurp(in_dir(dir, "MemTrace-pipe-0.mtc"), NULL);
    CHECK(file);
    memcpy(features, file + 16, sizeof *features);
    free(file);
    return 0;
}

static int fences_of_ptx(void *arg)
{
    uint64_t features;
    setenv("MEMTRACE_FORMAT", "compact", 1);
    setenv("MEMTRACE_SPACES", "global,shared", 1);
    return fences_features(&features) || features != (4 | 8 | 16 | 32 | 64);
}

/* NVIDIA's library does not report fences of machine code. */
static int fences_of_machine_code(void *arg)
{
    uint64_t features;
    setenv("MEMTRACE_FORMAT", "compact", 1);
    setenv("MEMTRACE_SPACES", "global,shared", 1);
    mt_trace_device("gpu", "test device", 4);
    mt_trace_sanitizer("13.0", NULL);
    return fences_features(&features) || features != (4 | 8 | 16);
}

/* ---- several streams ---- */

/* Process-wide lines are in every companion, also in one whose stream is long gone, and in order. */
static int companion_everywhere(void *arg)
{
    const char *dir = fresh_dir();
    struct mt_trace *t[3];
    for (int i = 0; i < 3; i++) {
        mt_event_alloc(0x1000u * (unsigned)(i + 1), 16, "cudaMalloc", NULL, -1, NULL, -1);
        t[i] = mt_trace_open();
        companion_launch(t[i], 1, 1, 0);
    }
    mt_trace_close(t[1]);
    json_t *early = companion_load(in_dir(dir, "MemTrace-pipe-1.meta"));
    CHECK(companion_count(early, "end") == 1 &&
          companion_num(companion_nth(early, "end", 0), "complete") == 1);
    mt_event_alloc(0x9000, 16, "cudaMalloc", NULL, -1, NULL, -1);
    companion_launch(NULL, 0, 0, 0); /* not traced, on a stream that never was */
    mt_trace_finish();
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "MemTrace-pipe-%d.meta", i);
        json_t *a = companion_load(in_dir(dir, name));
        CHECK(a && companion_count(a, "alloc") == 4 && companion_count(a, "header") == 1);
        CHECK(companion_count(a, "launch") == 2 &&
              companion_num(companion_nth(a, "launch", 0), "stream") == i);
        CHECK(companion_num(companion_nth(a, "launch", 1), "stream") == -1 &&
              companion_num(companion_nth(a, "launch", 1), "traced") == 0);
        CHECK(companion_count(a, "end") == (i == 1 ? 2 : 1));
        json_t *last = json_array_get(a, json_array_size(a) - 1);
        CHECK(!strcmp(companion_str(last, "ev"), "end") && companion_num(last, "complete") == 1 &&
              companion_num(last, "records_written") == 1);
        long long seq = -1;
        size_t k;
        json_t *o;
        json_array_foreach(a, k, o) if (json_object_get(o, "seq") && strcmp(companion_str(o, "ev"), "launch"))
        {
            CHECK(companion_num(o, "seq") > seq);
            seq = companion_num(o, "seq");
        }
    }
    return 0;
}

/* More lines than the log keeps in memory. */
static int long_log(void *arg)
{
    const char *dir = fresh_dir();
    enum { N = 30000 };
    for (unsigned i = 0; i < N; i++)
        mt_event_alloc(0x10000 + 64ull * i, 64, "cudaMalloc", NULL, -1, &site, -1);
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 1, 1, 0);
    for (unsigned i = 0; i < N; i++)
        mt_event_free(i, 0x10000 + 64ull * i);
    mt_trace_finish();
    json_t *a = companion_load(in_dir(dir, "MemTrace-pipe-0.meta"));
    CHECK(a && companion_count(a, "end") == 1);
    size_t k, allocs = 0, frees = 0;
    json_t *o;
    json_array_foreach(a, k, o)
    {
        if (!strcmp(companion_str(o, "ev"), "alloc"))
            CHECK(companion_num(o, "id") == (long long)allocs++);
        if (!strcmp(companion_str(o, "ev"), "free"))
            CHECK(companion_num(o, "id") == (long long)frees++);
    }
    CHECK(allocs == N && frees == N);
    return 0;
}

/* Many streams and many events: the first companion has all, the others stop repeating them and say where
 * they are. */
static int companion_bounded(void *arg)
{
    const char *dir = fresh_dir();
    enum { STREAMS = 40, EVENTS = 50 };
    mt_companion_repeats = 100000;
    size_t others = 0, n;
    for (int i = 0; i < STREAMS; i++) {
        for (int k = 0; k < EVENTS; k++)
            mt_event_alloc(i * 1000u + k, 1, "cudaMalloc", NULL, -1, &site, -1);
        struct mt_trace *t = mt_trace_open();
        companion_launch(t, 1, 1, 0);
        mt_trace_close(t);
    }
    mt_trace_finish();
    for (int i = 0; i < STREAMS; i++) {
        char name[64];
        snprintf(name, sizeof name, "MemTrace-pipe-%d.meta", i);
        json_t *a = companion_load(in_dir(dir, name));
        CHECK(a && companion_count(a, "launch") == 1);
        CHECK(companion_num(companion_nth(a, "end", companion_count(a, "end") - 1), "complete") == 1);
        if (i == 0)
            CHECK(companion_count(a, "alloc") == STREAMS * EVENTS && companion_count(a, "shared") == 0);
        else
            CHECK(companion_count(a, "alloc") == STREAMS * EVENTS ||
                  (companion_count(a, "shared") == 1 &&
                   !strcmp(companion_str(companion_nth(a, "shared", 0), "file"), "MemTrace-pipe-0.meta")));
        free(slurp(in_dir(dir, name), &n));
        others += i ? n : 0;
    }
    CHECK(others < 100000 + STREAMS * (1000 + 32768)); /* not 39 times 2000 lines: 10 MB */
    return 0;
}

/* With each stream there is an event of its own: files grow with the streams, not with their square (16 MB).
 */
static int companion_linear(void *arg)
{
    const char *dir = fresh_dir();
    enum { STREAMS = 300, A_STREAM = 3000, REPEATED = 1 << 20 };
    size_t sum = 0, n;
    for (unsigned i = 0; i < STREAMS; i++) {
        mt_event_alloc(i, 1, "cudaMalloc", NULL, -1, &site, -1);
        companion_launch(mt_trace_open(), 1, 1, 0);
    }
    mt_trace_finish();
    for (int i = 0; i < STREAMS; i++) {
        char name[64];
        snprintf(name, sizeof name, "MemTrace-pipe-%d.meta", i);
        free(slurp(in_dir(dir, name), &n));
        sum += n;
    }
    CHECK(sum < STREAMS * A_STREAM + REPEATED);
    return 0;
}

enum { THREADS = 4, EACH = 200 };

static void *companion_worker(void *arg)
{
    struct mt_trace *t = mt_trace_open();
    for (unsigned i = 0; i < EACH; i++) {
        uint64_t id = mt_event_alloc(i, 1, "cudaMalloc", NULL, -1, NULL, -1);
        companion_launch(t, i % 5, i % 5, 0);
        mt_trace_flush(0);
        mt_event_free(id, i);
    }
    return NULL;
}

static int companion_threads(void *arg)
{
    const char *dir = fresh_dir();
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, companion_worker, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    mt_trace_finish();
    for (int i = 0; i < THREADS; i++) {
        char name[64];
        snprintf(name, sizeof name, "MemTrace-pipe-%d.meta", i);
        json_t *a = companion_load(in_dir(dir, name));
        CHECK(a && companion_count(a, "launch") == EACH && companion_count(a, "alloc") == THREADS * EACH);
        CHECK(companion_count(a, "free") == THREADS * EACH &&
              companion_num(companion_nth(a, "end", 0), "complete") == 1);
        CHECK(companion_num(companion_nth(a, "end", 0), "records_written") == 2 * EACH);
        struct raw r;
        snprintf(name, sizeof name, "MemTrace-pipe-%d", i);
        CHECK(!raw_read(in_dir(dir, name), &r) && r.launch[4].records == 4);
    }
    return 0;
}

/* ---- what goes wrong ---- */

static int counts_differ(void *arg)
{
    const char *dir = fresh_dir();
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 3, 4, 0);
    mt_trace_finish();
    json_t *a = companion_load(in_dir(dir, "MemTrace-pipe-0.meta"));
    CHECK(companion_num(companion_nth(a, "end", 0), "complete") == 0 &&
          companion_num(companion_nth(a, "end", 0), "records_written") == 3);
    CHECK(companion_num(companion_nth(a, "end", 0), "records_counted") == 4 &&
          companion_num(companion_nth(a, "lost", 0), "count") == 1);
    return 0;
}

static int no_trace_file(void *arg)
{
    const char *dir = fresh_dir();
    CHECK(!symlink("/etc/passwd", in_dir(dir, "MemTrace-pipe-0")));
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 3, 3, 0);
    companion_launch(t, 3, 3, 0);
    mt_trace_finish();
    json_t *a = companion_load(in_dir(dir, "MemTrace-pipe-0.meta"));
    CHECK(a && companion_count(a, "launch") == 2 &&
          companion_num(companion_nth(a, "launch", 0), "traced") == 0);
    CHECK(companion_num(companion_nth(a, "lost", 0), "count") == 6 &&
          strstr(companion_str(companion_nth(a, "lost", 0), "why"), "symbolic link"));
    CHECK(companion_num(companion_nth(a, "end", 0), "complete") == 0);
    return 0;
}

static int no_companion(void *arg)
{
    const char *dir = fresh_dir();
    CHECK(!symlink("/etc/passwd", in_dir(dir, "MemTrace-pipe-0.meta")));
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 3, 3, 0);
    mt_trace_finish();
    struct raw r;
    CHECK(!raw_read(in_dir(dir, "MemTrace-pipe-0"), &r) && r.launch[0].records == 3 && r.whole == r.bytes);
    return 0;
}

static void *read_fifo(void *path)
{
    return slurp(path, NULL);
}

/* A companion that is a FIFO: its reader may come late. */
static int companion_fifo(void *arg)
{
    const char *dir = fresh_dir();
    char path[128];
    void *text;
    pthread_t reader;
    snprintf(path, sizeof path, "%s", in_dir(dir, "MemTrace-pipe-0.meta"));
    CHECK(!mkfifo(path, 0600));
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 1, 1, 0);
    pthread_create(&reader, NULL, read_fifo, path);
    companion_launch(t, 1, 1, 0);
    mt_trace_finish();
    pthread_join(reader, &text);
    CHECK(count_lines(text, "\"ev\":\"launch\"", NULL) == 2 &&
          count_lines(text, "\"ev\":\"header\"", NULL) == 1);
    CHECK(count_lines(text, "\"ev\":\"end\"", "\"complete\":true", NULL) == 1);
    free(text);
    return 0;
}

static int child_of_tracing(void *t)
{
    mt_event_alloc(7, 7, "cudaMalloc", "child", -1, NULL, -1);
    companion_launch(t, 1, 1, 0);
    companion_launch(mt_trace_open(), 1, 1, 0);
    mt_trace_flush(0);
    mt_trace_finish();
    return mt_tracing();
}

static int companion_forked(void *arg)
{
    const char *dir = fresh_dir();
    struct mt_trace *t = mt_trace_open();
    companion_launch(t, 1, 1, 0);
    CHECK(in_child(child_of_tracing, t) == 0);
    companion_launch(t, 1, 1, 0);
    mt_trace_finish();
    char *text = slurp(in_dir(dir, "MemTrace-pipe-0.meta"), NULL);
    CHECK(count_lines(text, "child", NULL) == 0 && count_lines(text, "\"ev\":\"launch\"", NULL) == 2);
    CHECK(count_lines(text, "\"ev\":\"end\"", "\"complete\":true", NULL) == 1);
    CHECK(access(in_dir(dir, "MemTrace-pipe-1"), F_OK) != 0);
    free(text);
    return 0;
}

static int companion_pattern(void *arg)
{
    char out[128], expect[128];
    CHECK(!mt_trace_path("/d", "a?b-%p-?", 12, out, sizeof out));
    snprintf(expect, sizeof expect, "/d/a12b-%d-12", (int)getpid());
    CHECK(!strcmp(out, expect));
    for (size_t n = 0; n < strlen(expect) + 1; n++)
        CHECK(mt_trace_path("/d", "a?b-%p-?", 12, out, n) == -1);
    CHECK(!mt_trace_path("/d", "a?b-%p-?", 12, out, strlen(expect) + 1));
    return 0;
}

#define IN_CHILD(name)                                                                                       \
    static void test_##name(void **state)                                                                    \
    {                                                                                                        \
        assert_int_equal(companion_run(name), 0);                                                            \
    }
IN_CHILD(companion_lines)
IN_CHILD(companion_sites)
IN_CHILD(fences_of_ptx)
IN_CHILD(fences_of_machine_code)
IN_CHILD(companion_everywhere)
IN_CHILD(long_log)
IN_CHILD(companion_bounded)
IN_CHILD(companion_linear)
IN_CHILD(companion_threads)
IN_CHILD(counts_differ)
IN_CHILD(no_trace_file)
IN_CHILD(no_companion)
IN_CHILD(companion_fifo)
IN_CHILD(companion_forked)
IN_CHILD(companion_pattern)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_companion_lines),      cmocka_unit_test(test_companion_sites),
        cmocka_unit_test(test_fences_of_ptx),        cmocka_unit_test(test_fences_of_machine_code),
        cmocka_unit_test(test_companion_everywhere), cmocka_unit_test(test_long_log),
        cmocka_unit_test(test_companion_bounded),    cmocka_unit_test(test_companion_linear),
        cmocka_unit_test(test_companion_threads),    cmocka_unit_test(test_counts_differ),
        cmocka_unit_test(test_no_trace_file),        cmocka_unit_test(test_no_companion),
        cmocka_unit_test(test_companion_fifo),       cmocka_unit_test(test_companion_forked),
        cmocka_unit_test(test_companion_pattern),
    };
    mt_trace_device("cpu", "test device", 4);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
