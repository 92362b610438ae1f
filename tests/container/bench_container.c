/* Speed of encoder and reader, and bytes an access, on patterns: bench_container [MILLIONS]. Not a test. */
#define _GNU_SOURCE
#include "format/container/writer.h"
#include "memtrace/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 18 };

static double bench_container_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may run */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t bench_container_rnd(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

/* c[i] = a[i] + b[i], rows of 1000. */
static void bench_container_loop(struct mt_host_entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = i / 3 % 1000 + i / 3000 * 1024;
        e[i] =
            (struct mt_host_entry){0x7f0000000000 + i % 3 * (1 << 28) + k * 8, (uint32_t)(4 + i % 3 * 4), 0};
    }
}
/* t[random]++ in 128 MiB. */
static void random_table(struct mt_host_entry *e, size_t n)
{
    uint64_t address = 0;
    for (size_t i = 0; i < n; i++) {
        address = i % 2 ? address : 0x7f0000000000 + bench_container_rnd() % (1 << 24) * 8;
        e[i] = (struct mt_host_entry){address, (uint32_t)(4 + i % 2 * 4), 0};
    }
}
/* Every access anywhere. */
static void bench_container_anywhere(struct mt_host_entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        e[i] = (struct mt_host_entry){0x7f0000000000 + bench_container_rnd() % (1 << 28),
                                      (uint32_t)(4 + i % 7 * 4), 0};
}
/* key, then next, of nodes in random order. */
static void bench_container_list(struct mt_host_entry *e, size_t n)
{
    uint64_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = i % 2 ? node : 0x600000000000 + bench_container_rnd() % 100000 * 64;
        e[i] = (struct mt_host_entry){node + i % 2 * 8, (uint32_t)(4 + i % 2 * 4), 0};
    }
}

static int to_file(void *self, const void *data, size_t bytes)
{
    return fwrite(data, 1, bytes, self) == bytes ? 0 : 5;
}

static double read_all(const char *path)
{
    struct mt_error err;
    struct mt_host_item item;
    double t = bench_container_now();
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    while (r && mt_host_next(r, &item, &err) > 0) {
    }
    mt_host_reader_close(r);
    return bench_container_now() - t;
}

static void bench_container_measure(const char *name, void (*fill)(struct mt_host_entry *, size_t),
                                    struct mt_host_entry *e, size_t n)
{
    struct mt_mtc_encoder *x = mt_mtc_encoder_new();
    uint64_t items, seq = 0;
    const void *payload;
    double best = 1e9, packed;
    char path[64], why[100];
    int fd = memfd_create("bench", 0);
    FILE *f = fdopen(fd, "wb");
    struct mt_mtc_file file = {to_file, f};
    fill(e, n);
    for (int round = 0; round < 3; round++) {
        double t = bench_container_now();
        for (size_t i = 0; i < n; i += CHUNK)
            mt_mtc_encode(x, e + i, n - i < CHUNK ? n - i : CHUNK, &items, &seq, &payload);
        best = bench_container_now() - t < best ? bench_container_now() - t : best;
    }
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_HOST, 1, why, sizeof why);
    packed = bench_container_now();
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t bytes = mt_mtc_encode(x, e + i, n - i < CHUNK ? n - i : CHUNK, &items, &seq, &payload);
        mt_mtc_write(w, MT_MTC_HOST, 0, 0, 0, 0, items, payload, bytes);
    }
    packed = bench_container_now() - packed;
    double stored = (double)mt_mtc_writer_bytes(w) / (double)n;
    mt_mtc_writer_close(w);
    fflush(f);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    printf("%-14s encode %6.0f M/s, with zstd -1 %6.0f M/s, read %6.0f M/s, %.3f bytes an access\n", name,
           (double)n / best * 1e-6, (double)n / packed * 1e-6, (double)n / read_all(path) * 1e-6, stored);
    fclose(f);
    mt_mtc_encoder_free(x);
}

int main(int argc, char **argv)
{
    size_t n = (size_t)(argc > 1 ? atoi(argv[1]) : 8) * 1000000;
    struct mt_host_entry *e = malloc(n * sizeof *e);
    if (!e || !n)
        return 1;
    bench_container_measure("loop", bench_container_loop, e, n);
    bench_container_measure("list", bench_container_list, e, n);
    bench_container_measure("random table", random_table, e, n);
    bench_container_measure("anywhere", bench_container_anywhere, e, n);
    free(e);
    return 0;
}
