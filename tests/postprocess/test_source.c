/* Companions and mt_source: order of launches and copies, buffers, second passes, damage. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "memtrace/trace.h"
#include "../../postprocess/analysis/base/buffers.h"
#include "../../postprocess/analysis/comm/shadow.h"

static char folder[] = "/tmp/mt-source-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[4][64];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static const char *write_file(const char *name, const void *data, size_t n)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

/* A trace of launches with these names, each with one load of 4 bytes at 0x10 * (its index + 1). */
static const char *write_trace(const char *name, const char *const *kernels, size_t n)
{
    unsigned char b[1024];
    size_t at = 0;
    b[at++] = 24;
    for (size_t i = 0; i < n; i++) {
        at += (size_t)sprintf((char *)b + at, "%s\n", kernels[i]);
        memset(b + at, 0, 48);
        b[at] = 4;
        b[at + 8] = (unsigned char)(0x10 * (i + 1));
        at += 48;
    }
    return write_file(name, b, at);
}

static void source_companion(void **state)
{
    (void)state;
    const char *path = write_text(
        "c",
        "{\"ev\":\"header\",\"version\":1,\"pid\":77,\"start_ns\":123,\"stream\":2,\"sms\":16,\"device\":"
        "\"cpu\",\"trace\":\"x\"}\n"
        "{\"ev\":\"site\",\"id\":5,\"file\":\"k.cu\",\"line\":3,\"column\":9,\"function\":\"f(int)\",\"op\":"
        "\"load\",\"size\":8,\"var\":\"p\"}\n"
        "{\"ev\":\"alloc\",\"seq\":4,\"id\":9,\"base\":\"0xffffffffffff0000\",\"bytes\":65535,\"kind\":"
        "\"managed\"}\n"
        "{\"ev\":\"alloc\",\"seq\":1,\"id\":8,\"base\":\"0x1000\",\"bytes\":16,\"kind\":\"cudaMalloc\","
        "\"name\":\"a\\u00e9\"}\n"
        "{\"ev\":\"free\",\"seq\":6,\"id\":8,\"base\":\"0x1000\"}\n"
        "{\"ev\":\"memset\",\"seq\":8,\"dst\":\"0x10\",\"value\":0,\"bytes\":12,\"width\":4,\"height\":3,"
        "\"pitch\":16}\n"
        "{\"ev\":\"memcpy\",\"seq\":7,\"kind\":\"d2d\",\"dst\":\"0x20\",\"src\":\"0x40\",\"bytes\":8,"
        "\"stream\":3,\"begin_ns\":1000}\n"
        "{\"ev\":\"range\",\"seq\":9,\"begin\":3,\"name\":\"n\",\"domain\":\"d\",\"kind\":\"push\","
        "\"thread\":"
        "12,\"begin_ns\":5,\"end_ns\":7,\"open\":true}\n"
        "{\"ev\":\"launch\",\"seq\":5,\"kernel\":\"f\",\"signature\":\"f(int)\",\"grid\":[4,3,2],\"block\":["
        "32,1,1],\"records\":3,\"untraced\":1,\"traced\":true,\"status\":0}\n"
        "{\"ev\":\"unheard-of\"}\n"
        "\n"
        "{\"ev\":\"lost\",\"count\":2,\"why\":\"a\"}\n"
        "{\"ev\":\"lost\",\"count\":3,\"why\":\"b\"}\n"
        "{\"ev\":\"end\",\"records_written\":1,\"records_counted\":4,\"launches\":1,\"complete\":false}\n"
        "not json\n"
        "{\"ev\":\"launch\"}\n");
    struct mt_error err;
    struct mt_companion *c = mt_companion_load(path, &err);
    assert_non_null(c);
    assert_int_equal(c->pid, 77);
    assert_int_equal(c->stream, 2);
    assert_string_equal(c->device, "cpu");
    assert_string_equal(c->program, "");
    assert_int_equal(c->nsites, 1);
    assert_string_equal(c->sites[0].function, "f(int)");
    assert_int_equal(c->sites[0].column, 9);
    assert_int_equal(c->nallocs, 2); /* by id */
    assert_int_equal(c->allocs[0].id, 8);
    assert_int_equal(c->allocs[0].free_seq, 6);
    assert_string_equal(c->allocs[0].name, "a\xc3\xa9");
    assert_int_equal(c->allocs[1].base, 0xffffffffffff0000);
    assert_true(c->allocs[1].free_seq == MT_SEQ_NONE);
    assert_int_equal(c->ncopies, 2); /* by seq */
    assert_int_equal(c->copies[0].kind, MT_COPY_D2D);
    assert_int_equal(c->copies[0].width, 8);
    assert_int_equal(c->copies[0].height, 1);
    assert_int_equal(c->copies[1].kind, MT_COPY_SET);
    assert_int_equal(c->copies[1].height, 3);
    assert_int_equal(c->copies[1].dpitch, 16);
    assert_int_equal(c->copies[0].begin_ns, 1000);
    assert_int_equal(c->copies[0].stream, 3);
    assert_int_equal(c->copies[1].begin_ns, 0);
    assert_int_equal(c->copies[1].stream, -1);
    assert_int_equal(c->nranges, 1);
    assert_string_equal(c->ranges[0].name, "n");
    assert_string_equal(c->ranges[0].domain, "d");
    assert_true(c->ranges[0].open && c->ranges[0].begin == 3 && c->ranges[0].seq == 9);
    assert_true(c->ranges[0].thread == 12 && c->ranges[0].begin_ns == 5 && c->ranges[0].end_ns == 7);
    assert_int_equal(c->nlaunches, 1);
    assert_int_equal(c->launches[0].grid[1], 3);
    assert_int_equal(c->lost, 5);
    assert_true(c->has_end && !c->complete);
    assert_int_equal(c->records_counted, 4);
    assert_int_equal(c->bad_lines, 2);
    assert_int_equal(c->bad.code, MT_E_CORRUPT);
    mt_companion_free(c);
    assert_null(mt_companion_load(path_of("none"), &err));
    assert_int_equal(err.code, MT_E_INPUT);
}

/* Reads a source to its end into a text: kernel names, "+" per further batch, copies as "=SEQ". */
static void read_all(struct mt_source *s, char *out, size_t size)
{
    struct mt_item item;
    struct mt_error err;
    int rc;
    size_t n = 0;
    out[0] = 0;
    while ((rc = mt_source_next(s, &item, &err)) > 0) {
        if (item.kind == MT_ITEM_COPY)
            n += (size_t)snprintf(out + n, size - n, "=%d ", (int)item.copy->seq);
        else
            n += (size_t)snprintf(out + n, size - n, "%s%d.%zu ", item.kernel, (int)item.superstep,
                                  item.input);
    }
    assert_int_equal(rc, 0);
}

static void source_order(void **state)
{
    (void)state;
    const char *const p[] = {"p", "q", "r"}, *const x[] = {"x", "y"};
    const char *paths[2];
    paths[0] = strdup(write_trace("one", p, 3));
    paths[1] = strdup(write_trace("two", x, 2));
    const char *shared =
        "{\"ev\":\"memcpy\",\"seq\":1,\"kind\":\"h2d\",\"dst\":\"0x10\",\"src\":\"0x0\",\"bytes\":4}\n"
        "{\"ev\":\"memset\",\"seq\":6,\"dst\":\"0x10\",\"value\":1,\"bytes\":4}\n"
        "{\"ev\":\"alloc\",\"seq\":0,\"id\":1,\"base\":\"0x10\",\"bytes\":64,\"kind\":\"cudaMalloc\"}\n"
        "{\"ev\":\"memset\",\"seq\":9,\"dst\":\"0x10\",\"value\":1,\"bytes\":4}\n";
    char text[2048];
    snprintf(
        text, sizeof text,
        "%s{\"ev\":\"launch\",\"seq\":2,\"kernel\":\"p\"}\n{\"ev\":\"launch\",\"seq\":3,\"kernel\":\"gone\","
        "\"traced\":false}\n"
        "{\"ev\":\"launch\",\"seq\":5,\"kernel\":\"q\"}\n{\"ev\":\"launch\",\"seq\":8,\"kernel\":\"r\"}\n"
        "{\"ev\":\"end\",\"records_written\":3,\"complete\":true}\n",
        shared);
    write_text("one.meta", text);
    snprintf(
        text, sizeof text,
        "%s{\"ev\":\"launch\",\"seq\":4,\"kernel\":\"x\"}\n{\"ev\":\"launch\",\"seq\":7,\"kernel\":\"y\"}\n"
        "{\"ev\":\"end\",\"records_written\":2,\"complete\":true}\n",
        shared);
    write_text("two.meta", text);
    struct mt_error err;
    struct mt_source_options o = {.flags = MT_SOURCE_REWIND};
    struct mt_source *s = mt_source_open(paths, 2, &o, &err);
    assert_non_null(s);
    for (int pass = 0; pass < 3; pass++) {
        read_all(s, text, sizeof text);
        /* =0: the allocation, new memory without a writer */
        assert_string_equal(text, "=0 =1 p0.0 x1.1 q2.0 =6 y3.1 r4.0 ");
        assert_int_equal(mt_source_rewind(s, &err), 0);
    }
    size_t n;
    int complete;
    mt_source_notes(s, &n, &complete);
    assert_int_equal(n, 0);
    assert_true(complete && mt_source_ordered(s));
    uint64_t untraced, launches;
    assert_int_equal(mt_source_untraced(s, &untraced, &launches, &err), 0);
    assert_int_equal(launches, 1);
    assert_int_equal(mt_source_allocs(s, &n)->base, 0x10);
    assert_int_equal(n, 1);
    mt_source_close(s);

    for (int all = 0; all < 2; all++) { /* new memory is new without the host, too */
        o.flags = MT_SOURCE_NO_HOST | (all ? MT_SOURCE_NO_MEMORY : 0);
        s = mt_source_open(paths, 2, &o, &err);
        read_all(s, text, sizeof text);
        assert_string_equal(text, all ? "p0.0 x1.1 q2.0 y3.1 r4.0 " : "=0 p0.0 x1.1 q2.0 y3.1 r4.0 ");
        mt_source_close(s);
    }

    unlink(path_of("two.meta")); /* one companion is not enough to order */
    s = mt_source_open(paths, 2, NULL, &err);
    read_all(s, text, sizeof text);
    assert_string_equal(text, "p0.0 q1.0 r2.0 x3.1 y4.1 ");
    assert_false(mt_source_ordered(s));
    mt_source_notes(s, &n, &complete); /* of the order, and that nobody knows whether it is whole */
    assert_int_equal(n, 2);
    assert_false(complete || mt_source_lacks(s));
    mt_source_close(s);
    free((char *)paths[0]);
    free((char *)paths[1]);
}

/* A source may be closed or asked at any time, also with its thread waiting for an input or for room. */
static void early_close(void **state)
{
    (void)state;
    const char *fifo = path_of("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    struct mt_error err;
    struct mt_source_options o = {.flags = MT_SOURCE_NO_MEMORY};
    struct mt_source *s = mt_source_open(&fifo, 1, &o, &err);
    assert_non_null(s);
    mt_source_close(s); /* before the first read */

    const char *kernels[16] = {"k", "k", "k", "k", "k", "k", "k", "k",
                               "k", "k", "k", "k", "k", "k", "k", "k"};
    const char *path = write_trace("many", kernels, 14);
    struct mt_item item;
    s = mt_source_open(&path, 1, NULL, &err);
    assert_int_equal(mt_source_next(s, &item, &err), 1);
    usleep(20000); /* the ring fills */
    mt_source_close(s);

    s = mt_source_open(&path, 1, NULL, &err);
    assert_int_equal(mt_source_next(s, &item, &err), 1);
    size_t n;
    int complete;
    mt_source_notes(s, &n, &complete);
    assert_int_equal(mt_source_next(s, &item, &err), 0);
    mt_source_close(s);
}

static void source_damage(void **state)
{
    (void)state;
    const char *path = write_file("damaged", "\x18k\n\4\0\0", 6);
    struct mt_error err;
    struct mt_source_options o = {.flags = MT_SOURCE_REWIND};
    struct mt_source *s = mt_source_open(&path, 1, &o, &err);
    char text[256];
    for (int pass = 0; pass < 2; pass++) {
        read_all(s, text, sizeof text);
        assert_string_equal(text, "k0.0 ");
        size_t n;
        int complete;
        const struct mt_error *problem = mt_source_problems(s, &n);
        assert_int_equal(n, 1);
        assert_int_equal(problem->code, MT_E_TRUNCATED);
        assert_int_equal(problem->offset, 3);
        mt_source_notes(s, &n, &complete);
        assert_int_equal(n, 1);
        assert_false(complete);
        assert_int_equal(mt_source_rewind(s, &err), 0);
    }
    mt_source_close(s);
}

static uint64_t buffer_of(struct mt_buffers *b, uint64_t seq, uint64_t address)
{
    mt_buffers_launch(b, seq);
    const struct mt_alloc_event *a = mt_buffers_find(b, address);
    return a ? a->id : 0;
}

static void source_buffers(void **state)
{
    (void)state;
    const struct mt_alloc_event allocs[] = {
        {.seq = 1, .free_seq = 5, .id = 1, .base = 0x100, .bytes = 0x10, .kind = "cudaMalloc"},
        {.seq = 6, .free_seq = MT_SEQ_NONE, .id = 2, .base = 0x100, .bytes = 0x20, .kind = "cudaMalloc"},
        {.seq = 2, .free_seq = MT_SEQ_NONE, .id = 3, .base = 0x110, .bytes = 8, .kind = "cudaMalloc"},
        {.seq = 2, .free_seq = MT_SEQ_NONE, .id = 4, .base = 0x200, .bytes = 0, .kind = "array"},
        {.seq = 9, .free_seq = MT_SEQ_NONE, .id = 5, .base = 0x300, .bytes = 8, .kind = "device"},
    };
    struct mt_buffers b;
    assert_int_equal(mt_buffers_init(&b, allocs, 5), 0);
    assert_int_equal(buffer_of(&b, 0, 0x100), 0);
    assert_int_equal(buffer_of(&b, 3, 0xff), 0);
    assert_int_equal(buffer_of(&b, 3, 0x100), 1);
    assert_int_equal(buffer_of(&b, 3, 0x10f), 1);
    assert_int_equal(buffer_of(&b, 3, 0x110), 3);
    assert_int_equal(buffer_of(&b, 3, 0x118), 0);
    assert_int_equal(buffer_of(&b, 5 + 1, 0x100), 0);
    assert_int_equal(buffer_of(&b, 7, 0x100), 2);
    assert_int_equal(buffer_of(&b, 7, 0x200), 0);
    assert_int_equal(buffer_of(&b, 8, 0x300), 5);
    assert_int_equal(buffer_of(&b, MT_SEQ_NONE, 0x300), 0);
    mt_buffers_free(&b);
}

static void shadow_copy(struct mt_shadow *s, uint64_t to, uint64_t from, uint64_t n)
{
    struct mt_shadow *const one[] = {s};
    const struct mt_shadow_parts parts = {one, 1, NULL, 0};
    const struct mt_rows rows = {.dst = to, .src = from, .width = n, .height = 1};
    if (n > 0)
        mt_shadow_move(&parts, &rows, 0);
}

/* Fills and copies of a shadow against a plain array of writers. */
static void source_shadow(void **state)
{
    (void)state;
    enum { BASE = 0x7f0000003000, SPAN = 5 * 4096 };
    static uint32_t plain[SPAN], moved[SPAN];
    struct mt_shadow s;
    assert_int_equal(mt_shadow_init(&s, 0), 0);
    unsigned seed = 1;
    for (int step = 0; step < 4000; step++) {
        unsigned unit = rand_r(&seed) % 3 ? 4 : 1;
        uint32_t from = rand_r(&seed) % SPAN / unit * unit,
                 n = (rand_r(&seed) % (rand_r(&seed) % 4 ? 40 : 9000)) / unit * unit;
        n = from + n > SPAN ? SPAN - from : n;
        if (rand_r(&seed) % 3 == 0) {
            uint32_t to = rand_r(&seed) % (SPAN - n + 1);
            if (unit == 4)
                to = to / 4 * 4;
            memcpy(moved, plain + from, n * sizeof *plain);
            memcpy(plain + to, moved, n * sizeof *plain);
            shadow_copy(&s, BASE + to, BASE + from, n);
        } else {
            uint32_t entry = rand_r(&seed) % 5 == 0 ? MT_ENTRY_HOST | (unsigned)rand_r(&seed) % 3
                                                    : (unsigned)rand_r(&seed) % 50;
            for (uint32_t i = 0; i < n; i++)
                plain[from + i] = entry;
            mt_shadow_fill(&s, BASE + from, n, entry, 0);
        }
        for (uint32_t i = 0; step % 20 == 0 && i < SPAN; i++) {
            struct mt_page *p = mt_shadow_find(&s, (BASE + i) >> MT_PAGE_BITS);
            uint32_t in = (BASE + i) & (MT_PAGE_BYTES - 1);
            uint32_t got = !p ? 0 : mt_page_entry(p, in);
            assert_int_equal(got, plain[i]);
        }
    }
    mt_shadow_free(&s);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_companion), cmocka_unit_test(source_order),   cmocka_unit_test(early_close),
        cmocka_unit_test(source_damage),    cmocka_unit_test(source_buffers), cmocka_unit_test(source_shadow),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
