/* A container cut at every byte and with every bit flipped: what is whole before (and after) the damage
 * comes out, the rest is said, and nothing is invented. Also: order of calls, limits, stopping. */
#define _GNU_SOURCE
#include "format/container/writer.h"
#include "memtrace/host.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { CHUNKS = 6, PER_CHUNK = 7, RECORDS = CHUNKS * PER_CHUNK };

struct buffer {
    unsigned char bytes[1 << 14];
    size_t n;
    size_t end[CHUNKS + 2]; /* after the head and each chunk */
    int fail_at;            /* a write that would go beyond fails; 0: none */
};

static int to_buffer(void *self, const void *data, size_t bytes)
{
    struct buffer *b = self;
    if (b->fail_at && b->n + bytes > (size_t)b->fail_at)
        return 28;
    assert_true(b->n + bytes <= sizeof b->bytes);
    memcpy(b->bytes + b->n, data, bytes);
    b->n += bytes;
    return 0;
}

/* Records are 4 bytes at 1000, 1001, …: each says which one it is. */
static void damage_make(struct buffer *b, int level)
{
    struct mt_mtc_file file = {to_buffer, b};
    char why[100];
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_HOST, level, why, sizeof why);
    struct mt_mtc_encoder *e = mt_mtc_encoder_new();
    assert_non_null(w);
    b->end[0] = b->n;
    for (uint64_t c = 0; c < CHUNKS; c++) {
        struct mt_host_entry entries[PER_CHUNK];
        uint64_t items, seq = 0;
        const void *payload;
        for (uint64_t i = 0; i < PER_CHUNK; i++)
            entries[i] = (struct mt_host_entry){1000 + c * PER_CHUNK + i, 4, 4};
        size_t bytes = mt_mtc_encode(e, entries, PER_CHUNK, &items, &seq, &payload);
        assert_int_equal(items, PER_CHUNK);
        assert_int_equal(mt_mtc_write(w, MT_MTC_HOST, 0, c % 2, 0, 0, items, payload, bytes), 0);
        b->end[c + 1] = b->n;
    }
    assert_int_equal(mt_mtc_writer_bytes(w), b->n);
    assert_int_equal(mt_mtc_writer_close(w), 0);
    mt_mtc_encoder_free(e);
}

struct seen {
    unsigned char record[RECORDS];
    unsigned errors, foreign;
    struct mt_error first;
};

static void read_all(const void *bytes, size_t n, enum mt_host_order order, struct seen *s)
{
    char path[64];
    int fd = memfd_create("mtc", 0);
    struct mt_error err;
    struct mt_host_item item;
    memset(s, 0, sizeof *s);
    assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    if (!r) {
        s->errors = 1;
        s->first = err;
        close(fd);
        return;
    }
    assert_int_equal(mt_host_reader_order(r, order, &err), 0);
    for (int rc; (rc = mt_host_next(r, &item, &err)) != 0;) {
        if (rc < 0) {
            if (s->errors++ == 0)
                s->first = err;
            assert_int_not_equal(err.code, MT_E_SYSTEM);
            continue;
        }
        for (size_t i = 0; i < item.count; i++) {
            uint64_t k = item.records[i].address - 1000;
            if (k >= RECORDS || item.records[i].site != 4 || item.records[i].size != 4 || s->record[k]++)
                s->foreign++;
        }
    }
    mt_host_reader_close(r);
    close(fd);
}

static unsigned damage_whole(const struct seen *s, unsigned chunk)
{
    unsigned n = 0;
    for (unsigned i = 0; i < PER_CHUNK; i++)
        n += s->record[chunk * PER_CHUNK + i];
    return n;
}

static void damage_cuts(void **state)
{
    static struct buffer b;
    struct seen s;
    damage_make(&b, 1);
    for (size_t n = 0; n <= b.n; n++) {
        read_all(b.bytes, n, n % 2 ? MT_HOST_BY_FILE : MT_HOST_BY_SEQ, &s);
        assert_int_equal(s.foreign, 0);
        int clean = n == b.n;
        for (unsigned c = 0; c < CHUNKS; c++) {
            assert_int_equal(damage_whole(&s, c), n >= (b.end[c + 1] & ~7u) - 7 && damage_whole(&s, c)
                                                      ? PER_CHUNK
                                                  : n >= b.end[c + 1] ? PER_CHUNK
                                                                      : 0);
            clean |= n == b.end[c];
        }
        clean |= n == b.end[CHUNKS];
        if (clean)
            assert_int_equal(s.errors, 0);
        else if (s.errors) {
            assert_int_equal(s.errors, 1);
            assert_int_equal(s.first.code, n >= 8 || n == 0 ? MT_E_TRUNCATED : MT_E_INPUT);
            assert_true(s.first.offset <= n);
        }
    }
}

static void damage_flips(void **state)
{
    static struct buffer b;
    struct seen s;
    unsigned silent = 0;
    damage_make(&b, 0);
    for (size_t i = 0; i < b.n * 8; i++) {
        b.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        read_all(b.bytes, b.n, i % 2 ? MT_HOST_BY_FILE : MT_HOST_BY_SEQ, &s);
        b.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        assert_int_equal(s.foreign, 0);
        if (i / 8 < b.end[0]) { /* the head: nothing can be said */
            assert_int_equal(s.errors, 1);
            continue;
        }
        for (unsigned c = 0; c < CHUNKS; c++)
            if (i / 8 < b.end[c] || i / 8 >= b.end[c + 1])
                assert_int_equal(damage_whole(&s, c), PER_CHUNK);
        silent += s.errors == 0;
    }
    /* Only the zeros that pad chunks to 8 bytes are not covered by a checksum. */
    assert_true(silent <= (CHUNKS + 1) * 7 * 8);
}

static void writer_errors(void **state)
{
    static struct buffer b;
    struct mt_mtc_file file = {to_buffer, &b};
    char why[100];
    struct seen s;
    b.fail_at = 10;
    assert_null(mt_mtc_writer_open(&file, MT_MTC_HAS_HOST, 1, why, sizeof why));
    assert_non_null(strstr(why, "No space left"));
    b.fail_at = 300;
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_HOST, 1, why, sizeof why);
    struct mt_mtc_encoder *e = mt_mtc_encoder_new();
    struct mt_host_entry entry = {1000, 4, 4};
    uint64_t items, seq = 0, lost = 0;
    const void *payload;
    size_t bytes = mt_mtc_encode(e, &entry, 1, &items, &seq, &payload);
    for (int i = 0; i < 9; i++)
        lost += mt_mtc_write(w, MT_MTC_HOST, 0, 0, 0, 0, items, payload, bytes) != 0;
    assert_true(lost > 0);
    assert_int_equal(mt_mtc_writer_close(w), 28);
    read_all(b.bytes, 64 + 72, MT_HOST_BY_FILE, &s);
    assert_int_equal(s.errors, 0);
    assert_int_equal(s.record[0], 1);
    assert_int_equal(mt_mtc_encode(e, &entry, MT_MTC_MAX_ITEMS + 1, &items, &seq, &payload), 0);
    mt_mtc_encoder_free(e);
}

/* ---- several threads, one writer ---- */

enum { WRITERS = 4, EACH = 60 };
static struct mt_mtc_writer *shared;

static void *write_some(void *number)
{
    struct mt_mtc_encoder *e = mt_mtc_encoder_new();
    for (uint64_t c = 0; c < EACH; c++) {
        struct mt_host_entry entries[200];
        uint64_t items, seq = 0;
        const void *payload;
        for (uint64_t i = 0; i < 200; i++)
            entries[i] = (struct mt_host_entry){(c * 200 + i) * 3, 4 + (uint32_t)(i % 5) * 4, 1};
        size_t bytes = mt_mtc_encode(e, entries, 200, &items, &seq, &payload);
        if (mt_mtc_write(shared, MT_MTC_HOST, 0, (uintptr_t)number, 0, 0, items, payload, bytes) != 0)
            break;
    }
    mt_mtc_encoder_free(e);
    return NULL;
}

static int to_descriptor(void *self, const void *data, size_t bytes)
{
    return write(*(int *)self, data, bytes) == (ssize_t)bytes ? 0 : 5;
}

static void damage_threads(void **state)
{
    char path[64], why[100];
    int fd = memfd_create("mtc", 0);
    struct mt_mtc_file file = {to_descriptor, &fd};
    struct mt_error err;
    struct mt_host_item item;
    pthread_t t[WRITERS];
    uint64_t next[WRITERS] = {0};
    shared = mt_mtc_writer_open(&file, MT_MTC_HAS_HOST, 1, why, sizeof why);
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, write_some, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(mt_mtc_writer_close(shared), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    assert_non_null(r);
    while (mt_host_next(r, &item, &err) > 0)
        for (size_t i = 0; i < item.count; i++)
            assert_int_equal(item.records[i].address, 3 * next[item.thread]++);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(next[i], EACH * 200);
    mt_host_reader_close(r);
    close(fd);
}

static void damage_rules(void **state)
{
    static struct buffer b;
    struct mt_error err;
    struct mt_host_item item;
    volatile sig_atomic_t stop = 0;
    char path[64];
    int fd = memfd_create("mtc", 0);
    damage_make(&b, 1);
    assert_true(write(fd, b.bytes, b.n) == (ssize_t)b.n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(mt_is_container(path), 1);
    assert_int_equal(mt_is_container("/dev/null"), 0);
    struct mt_host_reader *r = mt_host_reader_open(path, &stop, &err);
    assert_non_null(r);
    assert_int_equal(mt_host_reader_order(r, MT_HOST_BY_TIME, &err), -1); /* no times */
    assert_int_equal(err.code, MT_E_INPUT);
    assert_int_equal(mt_host_next(r, &item, &err), 1);
    assert_int_equal(mt_host_reader_order(r, MT_HOST_BY_SEQ, &err), -1); /* too late */
    unsigned n = (unsigned)item.count;
    while (mt_host_next(r, &item, &err) > 0)
        n += (unsigned)item.count;
    assert_int_equal(n, RECORDS);
    assert_int_equal(mt_host_rewind(r, &err), 0);
    assert_int_equal(mt_host_reader_order(r, MT_HOST_BY_SEQ, &err), 0);
    assert_int_equal(mt_host_next(r, &item, &err), 1);
    assert_int_equal(item.thread, 0);
    stop = 1;
    assert_int_equal(mt_host_next(r, &item, &err), -1);
    assert_int_equal(err.code, MT_E_STOPPED);
    mt_host_reader_close(r);
    close(fd);
    assert_null(mt_host_reader_open("/nowhere/x.mtc", NULL, &err));
    assert_int_equal(err.code, MT_E_INPUT);
    assert_null(mt_host_reader_open("/", NULL, &err));
    assert_int_equal(err.code, MT_E_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damage_cuts), cmocka_unit_test(damage_flips),
                                       cmocka_unit_test(writer_errors), cmocka_unit_test(damage_threads),
                                       cmocka_unit_test(damage_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
