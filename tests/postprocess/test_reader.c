/* The raw trace reader through its public header. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "memtrace/trace.h"

/* A trace in memory: bytes are put by hand, not by code of the library. */
static unsigned char bytes[1 << 16];
static size_t length;

static void put_u64(uint64_t v)
{
    for (int i = 0; i < 8; i++)
        bytes[length++] = (unsigned char)(v >> 8 * i);
}

static void put_record(uint32_t sm, uint32_t type, uint32_t size, uint64_t address, uint64_t x, uint64_t y,
                       uint64_t z)
{
    put_u64((uint64_t)sm << 32 | (uint64_t)type << 28 | size);
    put_u64(address);
    put_u64(x << 32 | y << 16 | z);
}

static void put_name(const char *name)
{
    memcpy(bytes + length, name, strlen(name));
    length += strlen(name);
    bytes[length++] = '\n';
}

static void put_end(void)
{
    memset(bytes + length, 0, 24);
    length += 24;
}

static void begin_trace(void)
{
    length = 0;
    bytes[length++] = 24;
}

static int file_of(const void *data, size_t n)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fflush(f), 0);
    int fd = dup(fileno(f));
    fclose(f);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static struct mt_reader *open_bytes(size_t n)
{
    struct mt_error err;
    struct mt_reader *r = mt_reader_open_fd(file_of(bytes, n), "test", 1, NULL, &err);
    assert_non_null(r);
    return r;
}

static void reader_fields(void **state)
{
    (void)state;
    begin_trace();
    put_name("ns::k<int, 3>");
    put_record(0x89abcdef, MT_ATOMIC, MT_RAW_MAX_SIZE, 0xfedcba9876543210, 0xffffffff, 0xfffe, 0xfffd);
    put_end();
    struct mt_reader *r = open_bytes(length);
    struct mt_batch b;
    struct mt_error err;
    assert_int_equal(mt_reader_next(r, &b, &err), 1);
    assert_string_equal(b.kernel, "ns::k<int, 3>");
    assert_int_equal(b.count, 1);
    assert_int_equal(b.flags, MT_BATCH_BEGIN | MT_BATCH_END);
    assert_int_equal(b.offset, 1 + 14);
    assert_int_equal(mt_rec_smid(b.records), 0x89abcdef);
    assert_int_equal(mt_rec_type(b.records), MT_ATOMIC);
    assert_int_equal(mt_rec_size(b.records), MT_RAW_MAX_SIZE);
    assert_int_equal(mt_rec_address(b.records), 0xfedcba9876543210);
    assert_int_equal(mt_rec_cta_x(b.records), 0xffffffff);
    assert_int_equal(mt_rec_cta_y(b.records), 0xfffe);
    assert_int_equal(mt_rec_cta_z(b.records), 0xfffd);
    assert_int_equal(mt_reader_next(r, &b, &err), 0);
    assert_int_equal(mt_reader_next(r, &b, &err), 0);
    assert_int_equal(mt_reader_offset(r), length);
    mt_reader_close(r);
}

/* Two launches with 5 and 0 records and one with 3; offsets of all record starts. */
static size_t starts[8];
static void three_launches(void)
{
    size_t n = 0;
    begin_trace();
    put_name("a");
    for (int i = 0; i < 5; i++) {
        starts[n++] = length;
        put_record(1, MT_LOAD, 4, 0x1000 + 4 * (uint64_t)i, 0, 0, 0);
    }
    put_end();
    put_name("empty");
    put_end();
    put_name("a");
    for (int i = 0; i < 3; i++) {
        starts[n++] = length;
        put_record(1, MT_STORE, 4, 0x2000 + 4 * (uint64_t)i, 0, 0, 0);
    }
    put_end();
}

/* Any room gives the same records, in whole batches, each launch begun once and ended once. */
static void reader_capacities(void **state)
{
    (void)state;
    three_launches();
    for (size_t capacity = 1; capacity < 9; capacity++) {
        struct mt_raw_record room[9];
        struct mt_reader *r = open_bytes(length);
        struct mt_batch b;
        struct mt_error err;
        size_t records = 0, begins = 0, ends = 0;
        const char *first = NULL;
        while (mt_reader_fill(r, room, capacity, &b, &err) > 0) {
            assert_true(b.count <= capacity);
            begins += (b.flags & MT_BATCH_BEGIN) != 0;
            assert_int_equal(b.launch, begins - 1);
            ends += (b.flags & MT_BATCH_END) != 0;
            for (size_t i = 0; i < b.count; i++, records++) {
                assert_int_equal(b.offset + 24 * i, starts[records]);
                uint64_t expected = records < 5 ? 0x1000 + 4 * records : 0x2000 + 4 * (records - 5);
                assert_int_equal(mt_rec_address(&b.records[i]), expected);
            }
            if (!first)
                first = b.kernel;
            assert_true(b.launch == 1 ? strcmp(b.kernel, "empty") == 0 : b.kernel == first);
        }
        assert_int_equal(records, 8);
        assert_int_equal(begins, 3);
        assert_int_equal(ends, 3);
        mt_reader_close(r);
    }
}

/* Cut at every byte: what is whole comes, then truncation with an offset that is inside the file; or the
 * clean end. */
static void reader_cuts(void **state)
{
    (void)state;
    three_launches();
    size_t ends[3] = {1 + 2 + 6 * 24, 1 + 2 + 6 * 24 + 6 + 24, length};
    for (size_t cut = 0; cut <= length; cut++) {
        size_t whole = 0, got = 0;
        for (size_t i = 0; i < 8; i++)
            whole += starts[i] + 24 <= cut;
        struct mt_reader *r = open_bytes(cut);
        struct mt_batch b;
        struct mt_error err;
        int rc;
        while ((rc = mt_reader_next(r, &b, &err)) > 0)
            got += b.count;
        assert_int_equal(got, whole);
        int clean = cut == 1 || cut == ends[0] || cut == ends[1] || cut == ends[2];
        assert_int_equal(rc, clean ? 0 : -1);
        if (!clean) {
            assert_int_equal(err.code, MT_E_TRUNCATED);
            assert_true(err.offset <= cut);
            char says[32];
            snprintf(says, sizeof says, "test: byte %zu: ", (size_t)err.offset);
            assert_int_equal(strncmp(err.message, says, strlen(says)), 0);
            struct mt_error again;
            assert_int_equal(mt_reader_next(r, &b, &again), -1);
            assert_string_equal(again.message, err.message);
            assert_int_equal(b.count, 0);
        }
        mt_reader_close(r);
    }
}

static void long_names(void **state)
{
    (void)state;
    size_t n = 3 << 20;
    char *text = malloc(n);
    memset(text, 'x', n);
    text[0] = 24;
    for (int fits = 0; fits < 2; fits++) {
        if (fits) {
            text[900001] = '\n';
            memset(text + 900002, 0, 24);
        }
        struct mt_error err;
        struct mt_reader *r = mt_reader_open_fd(file_of(text, fits ? 900026 : n), "test", 1, NULL, &err);
        struct mt_batch b;
        int rc = mt_reader_next(r, &b, &err);
        assert_int_equal(rc, fits ? 1 : -1);
        if (fits)
            assert_int_equal(strlen(b.kernel), 900000);
        else
            assert_int_equal(err.code, MT_E_CORRUPT);
        mt_reader_close(r);
    }
    free(text);
}

struct feeder {
    int fd;
    size_t step;
};

static void *reader_feed(void *arg)
{
    struct feeder *f = arg;
    for (size_t i = 0; i < length; i += f->step) {
        size_t n = length - i < f->step ? length - i : f->step;
        assert_int_equal(write(f->fd, bytes + i, n), n);
        if (i % 64 == 0)
            usleep(500);
    }
    close(f->fd);
    return NULL;
}

/* Pieces of any size through a pipe. */
static void reader_pipes(void **state)
{
    (void)state;
    three_launches();
    for (size_t step = 1; step < 60; step += 7) {
        int p[2];
        pthread_t t;
        assert_int_equal(pipe(p), 0);
        struct feeder f = {p[1], step};
        pthread_create(&t, NULL, reader_feed, &f);
        struct mt_error err;
        struct mt_reader *r = mt_reader_open_fd(p[0], "pipe", 1, NULL, &err);
        struct mt_batch b;
        size_t records = 0, launches = 0;
        int rc;
        while ((rc = mt_reader_next(r, &b, &err)) > 0) {
            records += b.count;
            launches += (b.flags & MT_BATCH_END) != 0;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(records, 8);
        assert_int_equal(launches, 3);
        pthread_join(t, NULL);
        mt_reader_close(r);
    }
}

static volatile sig_atomic_t stop;
static void *raise_later(void *arg)
{
    usleep(50000);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    return arg;
}

static void reader_stopping(void **state)
{
    (void)state;
    int p[2];
    pthread_t t;
    struct mt_error err;
    struct mt_batch b;
    assert_int_equal(pipe(p), 0);
    three_launches();
    assert_int_equal(write(p[1], bytes, starts[2]), starts[2]);
    stop = 0;
    struct mt_reader *r = mt_reader_open_fd(p[0], "pipe", 1, &stop, &err);
    assert_int_equal(mt_reader_next(r, &b, &err), 1);
    assert_int_equal(b.count, 2);
    pthread_create(&t, NULL, raise_later, NULL);
    assert_int_equal(mt_reader_next(r, &b, &err), -1);
    assert_int_equal(err.code, MT_E_STOPPED);
    pthread_join(t, NULL);
    mt_reader_close(r);
    close(p[1]);
}

static void bad_paths(void **state)
{
    (void)state;
    struct mt_error err;
    assert_null(mt_reader_open("/", NULL, &err));
    assert_int_equal(err.code, MT_E_INPUT);
    assert_int_equal(err.sys, EISDIR);
    assert_null(mt_reader_open("/no/such/file", NULL, &err));
    assert_int_equal(err.code, MT_E_INPUT);
    assert_int_equal(err.sys, ENOENT);
    assert_non_null(strstr(err.message, "/no/such/file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_fields), cmocka_unit_test(reader_capacities),
        cmocka_unit_test(reader_cuts),   cmocka_unit_test(long_names),
        cmocka_unit_test(reader_pipes),  cmocka_unit_test(reader_stopping),
        cmocka_unit_test(bad_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
