/* Chunks decoded by several threads come out whole, once, and in order: from a file, from a FIFO that fills
 * slowly, after seeking, around damage and through a source. The reference are the runs that were written. */
#define _GNU_SOURCE
#include "format/container/writer.h"
#include "memtrace/host.h"
#include "some_runs.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { LAUNCHES = 12, CHUNKS = 40, LONGEST = 40000, ROOM = 600000 };

struct trace {
    unsigned char *bytes;
    size_t n, room;
    struct mt_access_run *runs; /* of all chunks, by launch */
    size_t count;
    unsigned nchunks;
    size_t at[CHUNKS * LAUNCHES + 1];    /* in `bytes`: where the chunk is, in the order of the file */
    size_t first[CHUNKS * LAUNCHES + 1]; /* in `runs` */
    unsigned launch[CHUNKS * LAUNCHES];
};

static const unsigned some_threads[] = {1, 2, 3, 5, 9};
enum { NTHREADS = sizeof some_threads / sizeof *some_threads };

static int decoders_append(void *self, const void *data, size_t bytes)
{
    struct trace *t = self;
    if (t->n + bytes > t->room) {
        t->room = 2 * (t->n + bytes);
        t->bytes = realloc(t->bytes, t->room);
        assert_non_null(t->bytes);
    }
    memcpy(t->bytes + t->n, data, bytes);
    t->n += bytes;
    return 0;
}

/* Chunks shorter and longer than a block, and longer than all that is decoded ahead. */
static size_t decoders_length(unsigned chunk)
{
    static const size_t some[] = {1, 1023, 1024, 1025, 3000, 0, 8191, 8192, 8193, 20000, 7};
    return chunk == 3 ? LONGEST : some[some_draw(sizeof some / sizeof *some)];
}

/* Run i is known by its base: no two are alike. */
static void make_run(struct mt_access_run *r, size_t i)
{
    *r = (struct mt_access_run){.base = i << 20,
                                .stride = 4,
                                .cta = (uint64_t)(i / 8 % 50) << 32,
                                .meta = 4,
                                .count = 32,
                                .mask = UINT32_MAX,
                                .warp = i % 8,
                                .site = 4 + i % 5};
    if (i & 0x4000 && some_draw(4) == 0) { /* blocks are longer where none has a list */
        static uint64_t lanes[32];
        for (unsigned k = 0; k < 32; k++)
            lanes[k] = r->base + (k ? some_draw(1 << 18) : 0);
        r->addresses = lanes;
    }
}

/* Launch by launch, each of one chunk or several. */
static void decoders_make(struct trace *t, uint64_t seed)
{
    static const char names[] = "{\"ev\": \"kernel\", \"id\": 1, \"name\": \"a\"}\n";
    struct mt_mtc_file file = {decoders_append, t};
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    struct mt_access_run *chunk = malloc(LONGEST * sizeof *chunk);
    uint64_t *lanes = malloc((size_t)LONGEST * 32 * sizeof *lanes);
    char why[100];
    memset(t, 0, sizeof *t);
    some_seed = seed;
    t->runs = malloc(ROOM * sizeof *t->runs);
    assert_true(t->runs && chunk && lanes);
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE, 1, why, sizeof why);
    assert_non_null(w);
    assert_int_equal(mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 1, names, strlen(names)), 0);
    for (unsigned l = 0; l < LAUNCHES; l++) {
        unsigned chunks = 1 + some_draw(8);
        for (unsigned c = 0; c < chunks; c++) {
            const void *payload;
            const char *bad;
            uint64_t accesses;
            size_t n = decoders_length(t->nchunks);
            assert_true(t->count + n <= ROOM);
            t->at[t->nchunks] = t->n;
            t->launch[t->nchunks] = l;
            t->first[t->nchunks++] = t->count;
            for (size_t i = 0; i < n; i++, t->count++) {
                make_run(&chunk[i], t->count);
                if (chunk[i].addresses)
                    chunk[i].addresses = memcpy(lanes + i * 32, chunk[i].addresses, 32 * sizeof *lanes);
                t->runs[t->count] = chunk[i];
                /* enough to know the lanes by */
                t->runs[t->count].stride = chunk[i].addresses ? (int64_t)chunk[i].addresses[31] : 4;
            }
            size_t bytes = mt_mtc_encode_device(e, chunk, n, &accesses, &payload, &bad);
            assert_int_equal(mt_mtc_write(w, MT_MTC_DEVICE,
                                          (c == 0 ? MT_MTC_BEGIN : 0) | (c + 1 == chunks ? MT_MTC_END : 0),
                                          MT_MTC_DEVICE_KEY(0, 1), 10 + l, 10 + l, accesses, payload, bytes),
                             0);
        }
    }
    t->at[t->nchunks] = t->n;
    t->first[t->nchunks] = t->count;
    assert_int_equal(mt_mtc_writer_close(w), 0);
    mt_mtc_device_encoder_free(e);
    free(chunk);
    free(lanes);
}

static void decoders_unmake(struct trace *t)
{
    free(t->bytes);
    free(t->runs);
}

/* The runs are those of the trace from *at on, in their order. */
static void decoders_follow(const struct trace *t, size_t *at, const struct mt_access_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++, ++*at) {
        assert_true(*at < t->count);
        const struct mt_access_run *want = &t->runs[*at], *got = &runs[i];
        assert_true(got->base == want->base && got->cta == want->cta && got->site == want->site &&
                    got->warp == want->warp && got->count == 32);
        assert_true(!got->addresses == !want->addresses);
        if (got->addresses)
            assert_true(got->addresses[0] == want->base && got->addresses[31] == (uint64_t)want->stride);
    }
}

static int in_memory(const struct trace *t, size_t n, char *path)
{
    int fd = memfd_create("mtc", 0);
    for (size_t done = 0; done < n;) {
        ssize_t some = write(fd, t->bytes + done, n - done);
        assert_true(some > 0);
        done += (size_t)some;
    }
    sprintf(path, "/proc/self/fd/%d", fd);
    return fd;
}

/* Reads to the end; what is not damaged has to come. */
static void read_all(const struct trace *t, struct mt_host_reader *r, size_t at)
{
    struct mt_error err;
    struct mt_run_batch b;
    unsigned launch = UINT32_MAX, begun = 0, ended = 0;
    int rc;
    while ((rc = mt_device_next(r, &b, &err)) > 0) {
        begun += (b.flags & MT_BATCH_BEGIN) != 0;
        ended += (b.flags & MT_BATCH_END) != 0;
        if (launch != UINT32_MAX && b.seq != 10 + launch)
            assert_true(b.flags & MT_BATCH_BEGIN);
        launch = (unsigned)b.seq - 10;
        decoders_follow(t, &at, b.runs, b.count);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(at, t->count);
    assert_true(begun > 0 && begun == ended);
}

static void whole_file(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 3; seed++) {
        struct trace t;
        struct mt_error err;
        char path[64];
        decoders_make(&t, seed);
        int fd = in_memory(&t, t.n, path);
        for (unsigned i = 0; i < NTHREADS; i++) {
            struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
            assert_non_null(r);
            mt_host_reader_threads(r, some_threads[i]);
            read_all(&t, r, 0);
            assert_int_equal(mt_host_rewind(r, &err), 0);
            read_all(&t, r, 0);
            mt_host_reader_close(r);
        }
        close(fd);
        decoders_unmake(&t);
    }
}

/* Into the caller's room, which is smaller than a block, or larger. */
static void decoders_filled(void **state)
{
    static struct mt_access_run room[3000];
    static uint64_t lanes[3000 * MT_MTC_MAX_LANES];
    static const size_t rooms[] = {1000, 1024, 3000, 7};
    (void)state;
    struct trace t;
    struct mt_error err;
    struct mt_run_batch b;
    char path[64];
    decoders_make(&t, 11);
    int fd = in_memory(&t, t.n, path);
    for (unsigned i = 0; i < 4; i++) {
        struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
        size_t at = 0;
        unsigned ended = 0;
        mt_host_reader_threads(r, 1 + i);
        while (mt_device_fill(r, room, lanes, rooms[i], &b, &err) > 0) {
            uint64_t accesses = 0;
            assert_true(b.runs == room && b.count <= rooms[i]);
            for (size_t k = 0; k < b.count; k++)
                accesses += b.runs[k].count;
            assert_int_equal(b.accesses, accesses);
            decoders_follow(&t, &at, b.runs, b.count);
            ended += (b.flags & MT_BATCH_END) != 0;
        }
        assert_int_equal(at, t.count);
        assert_int_equal(ended, LAUNCHES);
        mt_host_reader_close(r);
    }
    close(fd);
    decoders_unmake(&t);
}

/* To and fro, and away while others are still decoding. */
static void decoders_seeks(void **state)
{
    (void)state;
    struct trace t;
    struct mt_error err;
    struct mt_run_batch b;
    char path[64];
    decoders_make(&t, 21);
    int fd = in_memory(&t, t.n, path);
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    mt_host_reader_threads(r, 4);
    for (unsigned i = 0; i < 100; i++) {
        unsigned launch = some_draw(LAUNCHES), c = 0;
        while (t.launch[c] != launch)
            c++;
        size_t at = t.first[c];
        mt_device_seek(r, launch);
        for (unsigned k = some_draw(20); k > 0 && mt_device_next(r, &b, &err) > 0; k--)
            decoders_follow(&t, &at, b.runs, b.count);
    }
    mt_host_reader_close(r); /* wherever it is */
    close(fd);
    decoders_unmake(&t);
}

struct feeder {
    const struct trace *t;
    int fd;
};

/* Pieces of any length: a chunk may have come in part. */
static void *decoders_feed(void *arg)
{
    struct feeder *f = arg;
    uint32_t piece = 1;
    for (size_t done = 0; done < f->t->n;) {
        size_t n = piece < f->t->n - done ? piece : f->t->n - done;
        ssize_t some = write(f->fd, f->t->bytes + done, n);
        if (some <= 0)
            break;
        done += (size_t)some;
        piece = (piece * 1103515245 + 12345) % 9001 + 1;
        if (piece % 16 == 0)
            usleep(200);
    }
    close(f->fd);
    return NULL;
}

static void from_a_pipe(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NTHREADS; i++) {
        struct trace t;
        struct mt_error err;
        pthread_t thread;
        int fd[2];
        char path[64];
        decoders_make(&t, 31 + i);
        assert_int_equal(pipe(fd), 0);
        struct feeder f = {&t, fd[1]};
        sprintf(path, "/proc/self/fd/%d", fd[0]);
        assert_int_equal(pthread_create(&thread, NULL, decoders_feed, &f), 0);
        struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err); /* waits for the head */
        assert_non_null(r);
        mt_host_reader_threads(r, some_threads[i]);
        read_all(&t, r, 0);
        mt_host_reader_close(r);
        pthread_join(thread, NULL);
        close(fd[0]);
        decoders_unmake(&t);
    }
}

/* What is handed out, problems included, as lines: the same for any number of threads. */
static char *decoders_story(const char *path, unsigned threads)
{
    struct mt_error err;
    struct mt_run_batch b;
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    if (r)
        mt_host_reader_threads(r, threads);
    for (int rc; r && (rc = mt_device_next(r, &b, &err)) != 0;) {
        if (rc < 0)
            fprintf(f, "! %d %llu %s\n", (int)err.code, (unsigned long long)err.offset, err.message);
        for (size_t i = 0; rc > 0 && i < b.count; i++)
            fprintf(f, "%llx\n", (unsigned long long)b.runs[i].base);
        if (rc > 0)
            fprintf(f, "%llu %u %llu\n", (unsigned long long)b.seq, b.flags, (unsigned long long)b.offset);
    }
    mt_host_reader_close(r);
    fclose(f);
    return text;
}

/* A byte of a chunk is wrong, or the file ends in it: the other chunks come, in order, with the message at
 * the place of the missing one. */
static void decoders_damaged(void **state)
{
    (void)state;
    struct trace t;
    decoders_make(&t, 41);
    for (unsigned c = 0; c < t.nchunks; c += 1 + some_draw(3)) {
        char path[64], line[32];
        size_t where = t.at[c] + some_draw((uint32_t)(t.at[c + 1] - t.at[c]));
        int cut = c % 4 == 3;
        t.bytes[where] ^= 1;
        int fd = in_memory(&t, cut ? where : t.n, path);
        t.bytes[where] ^= 1;
        char *alone = decoders_story(path, 1), *many = decoders_story(path, 2 + c % 5);
        assert_string_equal(alone, many);
        /* by the trace itself: all runs before the chunk, none of its own unless only padding was hit */
        const char *at = alone;
        for (size_t i = 0; i < t.first[c]; i += 31) {
            sprintf(line, "%llx\n", (unsigned long long)t.runs[i].base);
            assert_non_null(at = strstr(at, line));
        }
        if (!cut)
            for (size_t i = t.first[c + 1]; i < t.count; i += 97) {
                sprintf(line, "\n%llx\n", (unsigned long long)t.runs[i].base);
                assert_non_null(at = strstr(at, line));
            }
        free(alone);
        free(many);
        close(fd);
    }
    decoders_unmake(&t);
}

/* As items of a source, which is also left in the middle, and read twice. */
static void by_source(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NTHREADS; i++) {
        struct trace t;
        struct mt_error err;
        struct mt_item item;
        char path[64];
        decoders_make(&t, 51 + i);
        int fd = in_memory(&t, t.n, path);
        struct mt_source_options o = {.flags = MT_SOURCE_OWN_RUNS | MT_SOURCE_REWIND,
                                      .threads = some_threads[i]};
        struct mt_source *s = mt_source_open((const char *const[]){path}, 1, &o, &err);
        assert_non_null(s);
        for (unsigned pass = 0; pass < 3; pass++) {
            size_t at = 0, stop = pass == i % 3 ? t.count / 3 : SIZE_MAX;
            while (at < stop && mt_source_next(s, &item, &err) > 0)
                decoders_follow(&t, &at, item.runs, item.count);
            assert_true(at == t.count || at >= stop);
            assert_int_equal(mt_source_rewind(s, &err), 0);
        }
        mt_source_close(s);
        close(fd);
        decoders_unmake(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_file),       cmocka_unit_test(decoders_filled),
                                       cmocka_unit_test(decoders_seeks),   cmocka_unit_test(from_a_pipe),
                                       cmocka_unit_test(decoders_damaged), cmocka_unit_test(by_source)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
