/* A container of kernels' accesses cut at every byte and with every bit flipped: what is whole comes out
 * once, the rest is said, nothing is invented. Also: launches by number, seeking, what a source says of one
 * without end. */
#define _GNU_SOURCE
#include "format/container/writer.h"
#include "memtrace/host.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { LAUNCHES = 3, CHUNKS = 2, RUNS = 4, LANES = 32, ACCESSES = LAUNCHES * CHUNKS * RUNS * LANES };
#define BASE UINT64_C(0x10000)

struct buffer {
    unsigned char bytes[1 << 14];
    size_t n;
    size_t
        end[LAUNCHES * CHUNKS + 1]; /* after the names and after each chunk, without the zeros that pad it */
};

static int to_buffer(void *self, const void *data, size_t bytes)
{
    struct buffer *b = self;
    assert_true(b->n + bytes <= sizeof b->bytes);
    memcpy(b->bytes + b->n, data, bytes);
    b->n += bytes;
    return 0;
}

/* Where the chunk that was written last, at `from`, ends. */
static size_t end_of(const struct buffer *b, size_t from)
{
    struct mt_mtc_chunk head;
    memcpy(&head, b->bytes + from, sizeof head);
    return from + sizeof head + head.stored_bytes;
}

/* Does the file end at `end`, perhaps with zeros after it? */
static int device_file_ends(size_t n, size_t end)
{
    return n >= end && n <= ((end + 7) & ~(size_t)7);
}

/* Access i of all is at BASE + 4 * i: each says which one it is. Launch k has number 10 + k. */
static void device_file_make(struct buffer *b, int level)
{
    static const char names[] = "{\"ev\": \"kernel\", \"id\": 1, \"name\": \"a\"}\n"
                                "{\"ev\": \"kernel\", \"id\": 2, \"name\": \"b\"}\n";
    struct mt_mtc_file file = {to_buffer, b};
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    char why[100];
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE, level, why, sizeof why);
    assert_non_null(w);
    assert_int_equal(mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 2, names, strlen(names)), 0);
    b->end[0] = end_of(b, sizeof(struct mt_mtc_head));
    for (unsigned c = 0; c < LAUNCHES * CHUNKS; c++) {
        struct mt_access_run runs[RUNS];
        const void *payload;
        const char *bad;
        uint64_t n;
        for (unsigned i = 0; i < RUNS; i++)
            runs[i] = (struct mt_access_run){.base = BASE + 4 * LANES * (uint64_t)(c * RUNS + i),
                                             .stride = 4,
                                             .cta = (uint64_t)i << 32,
                                             .meta = 4,
                                             .count = LANES,
                                             .mask = UINT32_MAX,
                                             .site = 7};
        size_t bytes = mt_mtc_encode_device(e, runs, RUNS, &n, &payload, &bad);
        unsigned launch = c / CHUNKS, flags = c % CHUNKS == 0 ? MT_MTC_BEGIN : MT_MTC_END;
        size_t from = b->n;
        assert_int_equal(mt_mtc_write(w, MT_MTC_DEVICE, flags, MT_MTC_DEVICE_KEY(0, 1 + launch % 2),
                                      10 + launch, 10 + launch, n, payload, bytes),
                         0);
        b->end[c + 1] = end_of(b, from);
    }
    assert_int_equal(mt_mtc_writer_close(w), 0);
    mt_mtc_device_encoder_free(e);
}

struct seen {
    unsigned char access[ACCESSES];
    unsigned errors, foreign, begun, ended;
    struct mt_error first;
};

static void device_file_look(struct seen *s, const struct mt_access_run *runs, size_t count, unsigned flags)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < runs[i].count; k++) {
            uint64_t n = (runs[i].base + k * (uint64_t)runs[i].stride - BASE) / 4;
            if (n >= ACCESSES || runs[i].site != 7 || s->access[n]++)
                s->foreign++;
        }
    s->begun += (flags & MT_BATCH_BEGIN) != 0;
    s->ended += (flags & MT_BATCH_END) != 0;
}

static void device_file_trouble(struct seen *s, const struct mt_error *err)
{
    if (s->errors++ == 0)
        s->first = *err;
    assert_int_not_equal(err->code, MT_E_SYSTEM);
}

static void in_memory(const void *bytes, size_t n, char *path, int *fd)
{
    *fd = memfd_create("mtc", 0);
    assert_true(*fd >= 0 && write(*fd, bytes, n) == (ssize_t)n);
    sprintf(path, "/proc/self/fd/%d", *fd);
}

static unsigned threads; /* now one decodes, now several */

static void by_next(const char *path, struct seen *s)
{
    struct mt_error err;
    struct mt_run_batch b;
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    memset(s, 0, sizeof *s);
    if (!r)
        device_file_trouble(s, &err);
    else
        mt_host_reader_threads(r, 1 + threads++ % 3);
    for (int rc; r && (rc = mt_device_next(r, &b, &err)) != 0;)
        if (rc > 0)
            device_file_look(s, b.runs, b.count, b.flags);
        else
            device_file_trouble(s, &err);
    mt_host_reader_close(r);
}

static void by_source(const char *path, struct seen *s)
{
    struct mt_error err;
    struct mt_item item;
    struct mt_source_options o = {.flags = MT_SOURCE_RUNS | MT_SOURCE_HOST, .threads = threads++ % 3};
    struct mt_source *source = mt_source_open(&path, 1, &o, &err);
    size_t n;
    memset(s, 0, sizeof *s);
    if (!source) {
        device_file_trouble(s, &err);
        return;
    }
    while (mt_source_next(source, &item, &err) > 0)
        if (item.kind == MT_ITEM_RUNS)
            device_file_look(s, item.runs, item.count, item.flags);
    const struct mt_error *p = mt_source_problems(source, &n);
    for (size_t i = 0; i < n; i++)
        device_file_trouble(s, &p[i]);
    mt_source_close(source);
}

/* Accesses of chunk c that came out: all of them, or none. */
static int device_file_whole(const struct seen *s, unsigned c)
{
    unsigned n = 0;
    for (unsigned i = 0; i < RUNS * LANES; i++)
        n += s->access[c * RUNS * LANES + i];
    assert_true(n == 0 || n == RUNS * LANES);
    return n != 0;
}

static void device_file_cuts(void **state)
{
    static struct buffer b;
    struct seen s;
    (void)state;
    for (int level = 0; level < 2; level++) {
        b.n = 0;
        device_file_make(&b, level);
        size_t index = end_of(&b, (b.end[LAUNCHES * CHUNKS] + 7) & ~(size_t)7);
        for (size_t n = 0; n <= b.n; n++)
            for (int how = 0; how < 2; how++) {
                char path[64];
                int fd;
                unsigned chunks = 0;
                in_memory(b.bytes, n, path, &fd);
                (how ? by_source : by_next)(path, &s);
                close(fd);
                assert_int_equal(s.foreign, 0);
                while (chunks < LAUNCHES * CHUNKS && n >= b.end[chunks + 1])
                    chunks++;
                for (unsigned c = 0; c < LAUNCHES * CHUNKS; c++)
                    assert_int_equal(device_file_whole(&s, c), n >= b.end[0] && c < chunks);
                int clean = n == b.n || n == 64 || device_file_ends(n, index) ||
                            (chunks % CHUNKS == 0 && device_file_ends(n, b.end[chunks]));
                if (how && n < sizeof(uint64_t))
                    continue; /* not long enough to differ from a raw trace */
                assert_int_equal(s.errors == 0, clean);
                assert_int_equal(s.ended, n >= b.end[0] ? chunks / CHUNKS : 0);
                if (n > 64 && n < b.n && !clean)
                    assert_true(s.first.offset <= n);
            }
    }
}

static void device_file_flips(void **state)
{
    static struct buffer b;
    struct seen s;
    unsigned lost = 0;
    (void)state;
    b.n = 0;
    device_file_make(&b, 1);
    for (size_t bit = 0; bit < b.n * 8; bit += 3) {
        char path[64];
        int fd;
        b.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        in_memory(b.bytes, b.n, path, &fd);
        (bit % 2 ? by_source : by_next)(path, &s);
        close(fd);
        b.bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(s.foreign, 0);
        unsigned missing = 0;
        for (unsigned c = 0; c < LAUNCHES * CHUNKS; c++)
            missing += !device_file_whole(&s, c);
        assert_true(s.errors || missing == 0);
        assert_true(bit / 8 < 64 ||
                    missing <= 1 + (bit / 8 < b.end[0])); /* one chunk, not what is after it */
        lost += missing;
    }
    assert_true(lost > 0);
}

static void device_file_launches(void **state)
{
    static struct buffer b;
    struct mt_error err;
    struct mt_run_batch batch;
    char path[64];
    int fd;
    size_t n;
    (void)state;
    b.n = 0;
    device_file_make(&b, 1);
    in_memory(b.bytes, b.n, path, &fd);
    assert_true(mt_container_features(path) == MT_MTC_HAS_DEVICE);
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    const struct mt_device_launch *l = mt_device_launches(r, &n);
    assert_int_equal(n, LAUNCHES);
    for (size_t i = LAUNCHES; i-- > 0;) {
        assert_int_equal(l[i].seq, 10 + i);
        assert_int_equal(l[i].accesses, CHUNKS * RUNS * LANES);
        assert_int_equal(l[i].chunks, CHUNKS);
        assert_true(l[i].whole);
        assert_string_equal(l[i].kernel, i % 2 ? "b" : "a");
        mt_device_seek(r, i);
        for (unsigned c = 0; c < CHUNKS; c++) {
            assert_int_equal(mt_device_next(r, &batch, &err), 1);
            assert_int_equal(batch.seq, 10 + i);
            assert_int_equal(batch.runs[0].base, BASE + (i * CHUNKS + c) * 4 * RUNS * LANES);
            assert_int_equal(batch.flags, c ? MT_BATCH_END : MT_BATCH_BEGIN);
            assert_int_equal(batch.accesses, RUNS * LANES);
        }
    }
    mt_device_seek(r, LAUNCHES);
    assert_int_equal(mt_device_next(r, &batch, &err), 0);
    mt_host_reader_close(r);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(device_file_cuts),
                                       cmocka_unit_test(device_file_flips),
                                       cmocka_unit_test(device_file_launches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
