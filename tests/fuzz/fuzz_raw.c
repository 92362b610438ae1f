/* libFuzzer target: any bytes as a raw trace, as a file and as a pipe, beside a second reader that knows
 * nothing but the format's page; the records as runs and back;
 * and any bytes as a companion. tests/fuzz/README.md */
#define _GNU_SOURCE
#include "memtrace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 64 }; /* small: batches end everywhere */

struct totals {
    uint64_t launches, ended, records, hash;
    int bad;
};

static void fuzz_raw_take(struct totals *t, const void *record)
{
    uint64_t w[3];
    memcpy(w, record, sizeof w);
    t->records++;
    for (int i = 0; i < 3; i++)
        t->hash = (t->hash ^ w[i]) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The format's page as a loop. */
static struct totals fuzz_raw_plainly(const unsigned char *p, size_t n)
{
    static const unsigned char eot[24];
    struct totals t = {0};
    size_t at = 1;
    if (n == 0 || p[0] != 24) {
        t.bad = 1;
        return t;
    }
    while (at < n) {
        const unsigned char *lf = memchr(p + at, '\n', n - at);
        if (!lf)
            break;
        at = (size_t)(lf - p) + 1;
        t.launches++;
        for (; n - at >= 24 && memcmp(p + at, eot, 24) != 0; at += 24) {
            uint32_t meta;
            memcpy(&meta, p + at, sizeof meta);
            if (meta >> 28 > 3 || !(meta & 0xfffffff))
                break;
            fuzz_raw_take(&t, p + at);
        }
        if (n - at < 24 || memcmp(p + at, eot, 24) != 0)
            break;
        at += 24;
        t.ended++;
    }
    t.bad = at != n;
    return t;
}

/* Records as runs and back are the same records. */
static void as_runs(const struct mt_batch *b)
{
    struct mt_access_run runs[ROOM];
    struct mt_raw_record back[ROOM];
    size_t taken, run = 0, n = mt_runs_from_records(b->records, b->count, runs, ROOM, &taken), got = 0;
    uint32_t lane = 0;
    if (taken != b->count)
        abort();
    while (run < n)
        got += mt_records_from_runs(runs, n, &run, &lane, back + got, got + 7 < ROOM ? 7 : ROOM - got);
    if (got != b->count || (got && memcmp(back, b->records, got * sizeof *back) != 0))
        abort();
}

static struct totals fuzz_raw_drain(struct mt_reader *r)
{
    struct mt_raw_record room[ROOM];
    struct mt_error err;
    struct mt_batch b;
    struct totals t = {0};
    int rc;
    while ((rc = mt_reader_fill(r, room, ROOM, &b, &err)) > 0) {
        t.launches += b.flags & MT_BATCH_BEGIN;
        t.ended += (b.flags & MT_BATCH_END) != 0;
        if (!b.count && !b.flags)
            abort();
        for (size_t i = 0; i < b.count; i++)
            fuzz_raw_take(&t, &b.records[i]);
        as_runs(&b);
        if (strlen(b.kernel) > 1 << 20)
            abort();
    }
    t.bad = rc < 0;
    mt_reader_close(r);
    return t;
}

/* What the plain loop found; names that are not text are damage for the reader alone. */
static void fuzz_raw_compare(const struct totals *want, const struct totals *got)
{
    if (got->bad ? got->records > want->records || got->launches > want->launches
                 : memcmp(want, got, sizeof *want) != 0)
        abort();
    if (want->bad && !got->bad)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct mt_error err;
    struct totals want = fuzz_raw_plainly(data, n), got;
    int fd = memfd_create("fuzz", 0), pipes[2];
    char path[64];
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct mt_reader *r = mt_reader_open(path, NULL, &err);
    if (!r)
        abort();
    got = fuzz_raw_drain(r);
    fuzz_raw_compare(&want, &got);
    struct mt_companion *c = mt_companion_load(path, &err);
    for (size_t i = 0; c && i < c->nlaunches; i++)
        want.hash += strlen(c->launches[i].kernel);
    mt_companion_free(c);
    close(fd);
    if (n > 60000 || pipe(pipes) != 0)
        return 0;
    if (write(pipes[1], data, n) != (ssize_t)n)
        abort();
    close(pipes[1]);
    r = mt_reader_open_fd(pipes[0], "pipe", 1, NULL, &err);
    if (!r)
        abort();
    got = fuzz_raw_drain(r);
    want = fuzz_raw_plainly(data, n);
    fuzz_raw_compare(&want, &got);
    return 0;
}
