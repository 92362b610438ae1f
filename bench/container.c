/* Bytes and nanoseconds of device chunks for some kernels, beside raw records: mt-bench-container [FILE].
 *
 * `encode` packs runs into chunks (zstd included) and writes them to FILE, `raw` writes the records of the
 * same accesses there; `decode` and `cat` read them back. FILE is removed in the end. */
#define _GNU_SOURCE
#include "../postprocess/lib/device_decode.h"
#include "container/writer.h"
#include "memtrace/record.h"
#include "streams.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

enum { RUNS = 1 << 20, CHUNK = 1 << 17, BATCH = 4096 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int put(void *self, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(*(int *)self, (const char *)data + done, bytes - done);
        if (n < 0)
            return 5;
        done += (size_t)n;
    }
    return 0;
}

/* Writes all chunks; returns the bytes, 0: failed. */
static uint64_t encode(int fd, const struct stream *s)
{
    struct mt_mtc_file file = {put, &fd};
    char text[100];
    const char *why = NULL;
    const void *payload;
    uint64_t items;
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE, 1, text, sizeof text);
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    int bad = !w || !e;
    for (size_t i = 0; !bad && i < s->count; i += CHUNK) {
        size_t n = s->count - i < CHUNK ? s->count - i : CHUNK;
        size_t bytes = mt_mtc_encode_device(e, s->runs + i, n, &items, &payload, &why);
        bad = !bytes ||
              mt_mtc_write(w, MT_MTC_DEVICE, 0, MT_MTC_DEVICE_KEY(0, 1), 0, 0, items, payload, bytes) != 0;
    }
    bad |= w && mt_mtc_writer_close(w) != 0;
    mt_mtc_device_encoder_free(e);
    return bad ? 0 : (uint64_t)lseek(fd, 0, SEEK_CUR);
}

/* Reads them all back and compares the sum of the addresses; returns the accesses. */
static uint64_t decode(const unsigned char *data, uint64_t bytes, uint64_t *sum)
{
    static struct mt_access_run runs[BATCH];
    static uint64_t lanes[BATCH * MT_MTC_MAX_LANES];
    struct mt_device_decoder d = {0};
    struct mt_mtc_chunk head;
    uint64_t accesses = 0;
    unsigned char *plain = malloc(MT_MTC_MAX_PLAIN);
    for (uint64_t at = sizeof(struct mt_mtc_head); plain && at + sizeof head < bytes;
         at += sizeof head + ((head.stored_bytes + 7) & ~7ull)) {
        size_t n = 1;
        memcpy(&head, data + at, sizeof head);
        if (head.type != MT_MTC_DEVICE)
            continue;
        if (head.codec == MT_MTC_ZSTD)
            ZSTD_decompress(plain, MT_MTC_MAX_PLAIN, data + at + sizeof head, head.stored_bytes);
        else
            memcpy(plain, data + at + sizeof head, head.stored_bytes);
        if (mt_device_decode_start(&d, plain, head.plain_bytes) != 0)
            break;
        while (n && mt_device_decode_next(&d, runs, lanes, BATCH, &n) == 0)
            for (size_t i = 0; i < n; i++)
                *sum += runs[i].base;
        accesses += d.accesses;
    }
    free(plain);
    mt_device_decode_free(&d);
    return accesses;
}

static int write_raw(int fd, const struct stream *s)
{
    static struct mt_raw_record room[BATCH * 32];
    size_t n = 0;
    int bad = 0;
    for (size_t i = 0; i < s->count && !bad; i++) {
        const struct mt_access_run *r = &s->runs[i];
        for (uint32_t k = 0; k < r->count; k++)
            room[n++] = (struct mt_raw_record){
                {(uint64_t)r->smid << 32 | r->meta,
                 r->addresses ? r->addresses[k] : r->base + k * (uint64_t)r->stride, r->cta}};
        if (n > BATCH * 31 || i + 1 == s->count) {
            bad = put(&fd, room, n * sizeof *room);
            n = 0;
        }
    }
    return bad;
}

static double cat(int fd)
{
    static char room[1 << 20];
    double begin = now();
    lseek(fd, 0, SEEK_SET);
    while (read(fd, room, sizeof room) > 0)
        ;
    return now() - begin;
}

static int fresh(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static int one(const char *path, unsigned which, enum stream_order order)
{
    struct stream s;
    uint64_t sum = 0, want = 0;
    int fd = fresh(path);
    if (fd < 0 || stream_make(&s, which, order, RUNS) != 0)
        return -1;
    double t0 = now();
    uint64_t bytes = encode(fd, &s);
    double wrote = now() - t0;
    unsigned char *data = malloc(bytes + 1);
    if (!bytes || !data || pread(fd, data, bytes, 0) != (ssize_t)bytes)
        return -1;
    t0 = now();
    uint64_t accesses = decode(data, bytes, &sum);
    double took = now() - t0;
    close(fd);
    fd = fresh(path);
    t0 = now();
    int bad = fd < 0 || write_raw(fd, &s) != 0;
    double raw = now() - t0, seen = cat(fd);
    for (size_t i = 0; i < s.count; i++)
        want += s.runs[i].base;
    double n = (double)s.accesses;
    printf("%-14s %-6s %9.3f %9.2f %9.2f %9.2f %9.2f %9.0f\n", stream_names[which],
           order == STREAM_CTAS ? "CTAs" : "mixed", (double)bytes / n, 1e9 * wrote / n, 1e9 * raw / n,
           1e9 * took / n, 1e9 * seen / n, 1e-6 * n / took);
    bad |= sum != want || accesses != s.accesses;
    close(fd);
    free(data);
    stream_free(&s);
    return bad ? -1 : 0;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "/tmp/mt-bench-container";
    int bad = 0;
    printf("%-14s %-6s %9s %9s %9s %9s %9s %9s\n", "kernel", "order", "bytes", "write", "raw", "decode",
           "cat", "decode");
    printf("%-14s %-6s %9s %9s %9s %9s %9s %9s\n", "", "", "/access", "ns", "ns", "ns", "ns", "M/s");
    for (unsigned i = 0; stream_names[i] && !bad; i++)
        for (enum stream_order o = STREAM_CTAS; o <= STREAM_MIXED && !bad; o++)
            bad = one(path, i, o);
    unlink(path);
    if (bad)
        fputs("mt-bench-container: failed\n", stderr);
    return bad != 0;
}
