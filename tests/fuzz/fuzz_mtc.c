/* libFuzzer target: any bytes as a container, in all orders, as a file and as a pipe; any bytes as a payload
 * inside a good one, since checksums keep mutations from getting that far; and any bytes as runs, which must
 * come back from the encoder as they went in. tests/fuzz/README.md */
#define _GNU_SOURCE
#include "format/container/device_decode.h"
#include "format/container/writer.h"
#include "memtrace/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t sum; /* every byte handed out is looked at */

static void fuzz_mtc_drain(const char *path, enum mt_host_order order)
{
    struct mt_error err;
    struct mt_host_item item;
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    if (!r)
        return;
    uint64_t records = 0;
    if (mt_host_reader_order(r, order, &err) == 0)
        for (int rc; (rc = mt_host_next(r, &item, &err)) != 0 && records < 1 << 22;) {
            if (rc < 0 && (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED))
                break;
            for (size_t i = 0; rc > 0 && item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++)
                sum += item.records[i].address + item.records[i].time + item.records[i].site;
            for (unsigned i = 0; rc > 0 && item.kind == MT_HOST_ITEM_EVENT && i < item.nargs; i++)
                sum += item.args[i];
            records += rc > 0 ? item.count : 0;
        }
    const struct mt_host_site_info *s = mt_host_site(r, 4);
    sum += s ? strlen(s->file) + strlen(s->text) : 0;
    mt_host_reader_close(r);
}

static uint64_t of_runs(const struct mt_access_run *runs, size_t count)
{
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++) {
        sum += runs[i].base + runs[i].cta + runs[i].smid + runs[i].site + runs[i].mask + runs[i].warp;
        for (uint32_t k = 0; runs[i].addresses && k < runs[i].count; k++)
            sum += runs[i].addresses[k];
        if (!runs[i].count || (runs[i].mask && (unsigned)__builtin_popcount(runs[i].mask) != runs[i].count) ||
            (runs[i].addresses && runs[i].addresses[0] != runs[i].base))
            abort(); /* the header promises otherwise */
        n += runs[i].count;
    }
    return n;
}

/* What comes out, in its order, as a number. */
static uint64_t drain_device(const char *path, unsigned threads)
{
    static struct mt_raw_record room[1 << 12];
    struct mt_error err;
    struct mt_run_batch b;
    struct mt_host_reader *r = mt_host_reader_open(path, NULL, &err);
    uint64_t accesses = 0, errors = 0, seen = 0;
    size_t launches = 0;
    if (r)
        mt_host_reader_threads(r, threads);
    for (int rc; r && (rc = mt_device_next(r, &b, &err)) != 0 && errors < 10000;) {
        size_t run = 0;
        uint32_t lane = 0;
        errors += rc < 0;
        seen = seen * 31 + (rc < 0 ? err.offset + strlen(err.message) : b.offset + b.accesses + b.flags);
        if (rc < 0 && (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED || err.code == MT_E_INPUT))
            break;
        if (rc < 0)
            continue;
        if (of_runs(b.runs, b.count) != b.accesses)
            abort();
        for (size_t i = 0; i < b.count; i++)
            seen = seen * 31 + b.runs[i].base + b.runs[i].meta + b.runs[i].count;
        sum += strlen(b.kernel) + b.seq;
        for (int i = 0; i < 4 && run < b.count; i++)
            accesses += mt_records_from_runs(b.runs, b.count, &run, &lane, room, sizeof room / sizeof *room);
    }
    if (r && mt_device_launches(r, &launches))
        for (size_t i = launches; i-- > 0 && i + 20 > launches;) {
            mt_device_seek(r, i);
            sum += (uint64_t)mt_device_next(r, &b, &err);
        }
    sum += accesses;
    mt_host_reader_close(r);
    return seen;
}

static void as_file(const void *data, size_t n)
{
    char path[64];
    int fd = memfd_create("fuzz", 0), pipes[2];
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fuzz_mtc_drain(path, MT_HOST_BY_FILE);
    fuzz_mtc_drain(path, MT_HOST_BY_SEQ);
    fuzz_mtc_drain(path, MT_HOST_BY_TIME);
    if (drain_device(path, 1) != drain_device(path, 3))
        abort(); /* however many decode */
    close(fd);
    if (n > 60000 || pipe(pipes) != 0)
        return;
    if (write(pipes[1], data, n) == (ssize_t)n) {
        close(pipes[1]);
        snprintf(path, sizeof path, "/proc/self/fd/%d", pipes[0]);
        fuzz_mtc_drain(path, MT_HOST_BY_FILE);
    }
    close(pipes[0]);
    if (pipe(pipes) != 0)
        return;
    if (write(pipes[1], data, n) == (ssize_t)n) {
        close(pipes[1]);
        snprintf(path, sizeof path, "/proc/self/fd/%d", pipes[0]);
        drain_device(path, 2);
    }
    close(pipes[0]);
}

static unsigned char out[1 << 20];
static size_t length;
static int fuzz_mtc_append(void *self, const void *data, size_t bytes)
{
    if (length + bytes > sizeof out)
        return 28;
    memcpy(out + length, data, bytes);
    length += bytes;
    return 0;
}

static void host_payloads(const uint8_t *data, size_t n)
{
    struct mt_mtc_file file = {fuzz_mtc_append, NULL};
    char why[100];
    length = 0;
    struct mt_mtc_writer *w =
        mt_mtc_writer_open(&file, data[0] & 1 ? MT_MTC_HAS_HOST | MT_MTC_HAS_TIMES : MT_MTC_HAS_HOST,
                           data[0] & 2, why, sizeof why);
    size_t half = data[0] & 4 ? 2 + data[1] % (n - 2) : n;
    half = half < 2 ? 2 : half;
    if (data[0] & 8)
        mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 1, data + 2, n - 2);
    mt_mtc_write(w, MT_MTC_HOST, 0, data[0] >> 6, 0, 0, data[1], data + 2, half - 2);
    mt_mtc_write(w, MT_MTC_HOST, 0, data[0] >> 5 & 1, 0, 0, data[1] * 64u, data + half, n - half);
    mt_mtc_writer_close(w);
    as_file(out, length);
}

/* Columns of the lengths that the first bytes say, so that mutations stay columns. */
static void device_payload(const uint8_t *data, size_t n)
{
    static unsigned char payload[1 << 16];
    static const char name[] = "{\"ev\": \"kernel\", \"id\": 1, \"name\": \"k\"}\n";
    struct mt_mtc_file file = {fuzz_mtc_append, NULL};
    struct mt_mtc_columns h = {0};
    char why[100];
    size_t left = n - 6 < sizeof payload - sizeof h ? n - 6 : sizeof payload - sizeof h;
    uint32_t *const parts[] = {&h.runs, &h.contexts, &h.shapes, &h.bases};
    h.lanes = (uint32_t)left;
    for (unsigned i = 0; i < 4; i++) {
        *parts[i] = (uint32_t)(h.lanes * data[1 + i] / 512);
        h.lanes -= *parts[i];
    }
    memcpy(payload, &h, sizeof h);
    memcpy(payload + sizeof h, data + 6, left);
    length = 0;
    uint64_t features = MT_MTC_HAS_DEVICE | (data[5] & 128 ? MT_MTC_HAS_BLOCKS : 0);
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, features, 0, why, sizeof why);
    mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 1, name, sizeof name - 1);
    for (unsigned i = 0; i < 2; i++) /* the second chunk says whether the first one left something behind */
        mt_mtc_write(w, MT_MTC_DEVICE, i ? MT_MTC_END : MT_MTC_BEGIN, MT_MTC_DEVICE_KEY(0, data[5] % 3), 5, 5,
                     h.runs, payload, sizeof h + left);
    mt_mtc_writer_close(w);
    as_file(out, length);
}

/* Runs made of the bytes, 16 for each. */
static void fuzz_mtc_runs(const uint8_t *data, size_t n)
{
    enum { MOST = 512 };
    static struct mt_access_run in[MOST], back[MOST];
    static uint64_t lanes[MOST * MT_MTC_MAX_LANES], room[MOST * MT_MTC_MAX_LANES];
    static struct mt_mtc_device_encoder *e;
    struct mt_device_decoder d = {0};
    const void *payload;
    const char *why;
    uint64_t accesses;
    size_t count = 0, got, i = 0;
    for (; n >= 16 && count < MOST; data += 16, n -= 16, count++) {
        struct mt_access_run *r = &in[count];
        *r = (struct mt_access_run){.site = data[0] & 15, .warp = data[1] & 8 ? MT_RUN_NO_WARP : data[1] & 7};
        r->meta = (uint32_t)(data[2] >> 6) << 28 | (1u << (data[2] & 15));
        memcpy(&r->base, data + 4, 7);
        r->cta = (uint64_t)(data[3] & 3) << 32 | (uint64_t)(data[3] >> 6) << 16 | (data[3] >> 4 & 3);
        r->smid = data[1] >> 4;
        r->stride = (int8_t)data[11] * (data[2] & 16 ? 4096 : 4);
        memcpy(&r->mask, data + 12, 4);
        r->mask = data[2] & 32 ? r->mask : 0xffffffff;
        r->count = (uint32_t)__builtin_popcount(r->mask);
        if (!r->count)
            r->count = 1 + data[11] % 32;
        if (data[0] & 64) {
            r->addresses = lanes + count * MT_MTC_MAX_LANES;
            for (uint32_t k = 0; k < r->count; k++)
                lanes[count * MT_MTC_MAX_LANES + k] =
                    r->base + ((uint64_t)data[(k * 5 + data[0]) % 16] << (data[11] & 31));
            r->base = r->addresses[0];
        }
    }
    if (!e && !(e = mt_mtc_device_encoder_new()))
        abort();
    size_t bytes = mt_mtc_encode_device(e, in, count, &accesses, &payload, &why);
    if (!bytes || mt_device_decode_start(&d, payload, bytes) != 0)
        abort();
    for (; mt_device_decode_next(&d, back, room, MOST, &got) == 0 && got; i += got)
        for (size_t k = 0; k < got; k++) {
            const struct mt_access_run *a = &in[i + k], *b = &back[k];
            if (i + k >= count || a->count != b->count || a->mask != b->mask || a->site != b->site ||
                a->meta != b->meta || a->cta != b->cta || a->smid != b->smid || a->warp != b->warp)
                abort();
            for (uint32_t l = 0; l < a->count; l++)
                if ((a->addresses ? a->addresses[l] : a->base + l * (uint64_t)a->stride) !=
                    (b->addresses ? b->addresses[l] : b->base + l * (uint64_t)b->stride))
                    abort();
        }
    if (i != count || d.accesses != accesses)
        abort();
    mt_device_decode_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    as_file(data, n);
    if (n < 8)
        return 0;
    if (!(data[0] & 16))
        host_payloads(data, n);
    else if (data[0] & 1)
        device_payload(data, n);
    else
        fuzz_mtc_runs(data + 1, n - 1);
    return 0;
}
