/* Size and speed of device chunks for some kernels, compared with raw records: mt-bench-container [FILE].
 *
 * `write` makes chunks of runs (including zstd) and writes them to FILE; `raw` writes the records of the same
 * accesses. `decode` reads the compact trace as tools do, decoding runs; `cat` reads the raw records without
 * decoding. Prints wall time, the shortest of some repeats. FILE is removed in the end. */
#define _GNU_SOURCE
#include "format/container/writer.h"
#include "memtrace/trace.h"
#include "streams.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 1 << 19, CHUNK = 1 << 17, BATCH = 4096, REPEATS = 5 };

static double container_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* processor time of all threads, including the system's */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int container_put(void *self, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(*(int *)self, (const char *)data + done, bytes - done);
        if (n < 0)
            return 5;
        done += (size_t)n;
    }
    return 0;
}

/* Writes all chunks. Returns the number of bytes, or 0 after a failure. */
static uint64_t container_encode(int fd, const struct stream *s)
{
    struct mt_mtc_file file = {container_put, &fd};
    char text[100];
    const char *why = NULL;
    const void *payload;
    uint64_t items;
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE, 1, text, sizeof text);
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    static const char name[] = "{\"ev\": \"kernel\", \"id\": 1, \"name\": \"k\"}\n";
    int bad = !w || !e || mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 1, name, sizeof name - 1) != 0;
    for (size_t i = 0; !bad && i < s->count; i += CHUNK) {
        size_t n = s->count - i < CHUNK ? s->count - i : CHUNK;
        size_t bytes = mt_mtc_encode_device(e, s->runs + i, n, &items, &payload, &why);
        bad = !bytes ||
              mt_mtc_write(w, MT_MTC_DEVICE, (i ? 0 : MT_MTC_BEGIN) | (i + n == s->count ? MT_MTC_END : 0),
                           MT_MTC_DEVICE_KEY(0, 1), 1, 1, items, payload, bytes) != 0;
    }
    bad |= w && mt_mtc_writer_close(w) != 0;
    mt_mtc_device_encoder_free(e);
    return bad ? 0 : (uint64_t)lseek(fd, 0, SEEK_CUR);
}

/* Reads all chunks, decoding runs as tools do. Returns the number of accesses; *sum adds up their first
 * addresses. */
static uint64_t container_decode(const char *path, uint64_t *sum)
{
    struct mt_source_options o = {.flags = MT_SOURCE_RUNS};
    struct mt_error err;
    struct mt_item item;
    uint64_t accesses = 0;
    struct mt_source *source = mt_source_open(&path, 1, &o, &err);
    while (source && mt_source_next(source, &item, &err) > 0)
        for (size_t i = 0; i < item.count; i++) {
            *sum += item.runs[i].base;
            accesses += item.runs[i].count;
        }
    mt_source_close(source);
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
            bad = container_put(&fd, room, n * sizeof *room);
            n = 0;
        }
    }
    return bad;
}

static double container_cat(int fd)
{
    static char room[1 << 20];
    double begin = container_now();
    lseek(fd, 0, SEEK_SET);
    while (read(fd, room, sizeof room) > 0)
        ;
    return container_now() - begin;
}

static int container_fresh(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

struct figures {
    double write, raw, decode, cat; /* shortest time of all repeats, in seconds */
    uint64_t bytes;
};

static void container_least(double *to, double seconds)
{
    if (*to == 0 || seconds < *to)
        *to = seconds;
}

static int container_measure(const char *path, const struct stream *s, uint64_t want, struct figures *f)
{
    uint64_t sum = 0;
    int fd = container_fresh(path);
    double t0 = container_now();
    f->bytes = fd < 0 ? 0 : container_encode(fd, s);
    container_least(&f->write, container_now() - t0);
    if (!f->bytes)
        return -1;
    t0 = container_now();
    uint64_t accesses = container_decode(path, &sum);
    container_least(&f->decode, container_now() - t0);
    close(fd);
    fd = container_fresh(path);
    t0 = container_now();
    int bad = fd < 0 || write_raw(fd, s) != 0;
    container_least(&f->raw, container_now() - t0);
    container_least(&f->cat, container_cat(fd));
    close(fd);
    return bad || sum != want || accesses != s->accesses ? -1 : 0;
}

static int container_one(const char *path, unsigned which, enum stream_order order)
{
    struct stream s;
    struct figures f = {0};
    uint64_t want = 0;
    int bad = stream_make(&s, which, order, RUNS);
    if (bad)
        return bad;
    for (size_t i = 0; i < s.count; i++)
        want += s.runs[i].base;
    for (int i = 0; i < REPEATS && !bad; i++)
        bad = container_measure(path, &s, want, &f);
    double n = (double)s.accesses;
    printf("%-14s %-6s %9.4f %9.2f %9.2f %9.2f %9.2f %9.0f\n", stream_names[which],
           order == STREAM_CTAS ? "CTAs" : "mixed", (double)f.bytes / n, 1e9 * f.write / n, 1e9 * f.raw / n,
           1e9 * f.decode / n, 1e9 * f.cat / n, 1e-6 * n / f.decode);
    stream_free(&s);
    return bad;
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
            bad = container_one(path, i, o);
    unlink(path);
    if (bad)
        fputs("mt-bench-container: failed\n", stderr);
    return bad != 0;
}
