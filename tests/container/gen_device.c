/* A random container of kernels' accesses, and what is in it: gen_device SEED LEVEL FILE [MOST]. With MOST no
 * access has more bytes than that, and some lie about the ends of 64 KiB. Writes to standard output
 * l SEQ STREAM KERNEL      a launch, KERNEL as its name a META CTA SMID WARP MASK SITE ADDRESS each of its
 * accesses, in order launch by launch. */
#define _GNU_SOURCE
#include "format/container/writer.h"
#include "some_runs.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 3, MOST = 60, KERNELS = 3 };
static const char *const kernels[KERNELS] = {"one", "ns::two<int, 3>", "b\\u00fccher"};
static const char *const shown[KERNELS] = {"one", "ns::two<int, 3>",
                                           "b\xc3\xbc"
                                           "cher"};

static uint32_t largest; /* bytes of an access; 0: any */

static int gen_device_append(void *file, const void *data, size_t bytes)
{
    return fwrite(data, 1, bytes, file) == bytes ? 0 : 5;
}

static void gen_device_text(struct mt_mtc_writer *w, const char *line)
{
    mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 1, line, strlen(line));
}

struct launch {
    uint64_t seq, accesses;
    unsigned stream, kernel, chunks, left;
    struct mt_access_run *runs; /* of all chunks, MOST each */
    uint64_t *lanes;
    size_t counts[4];
};

static void gen_device_limit(struct mt_access_run *r)
{
    uint32_t type = r->meta >> 28 << 28, size = r->meta & ((1u << 28) - 1);
    r->meta = type | (1 + (size - 1) % largest);
    if (!r->addresses && some_draw(3) == 0)
        r->base = (r->base | 0xffff) - some_draw(80);
}

static void gen_device_start(struct launch *l, unsigned stream, uint64_t seq)
{
    uint32_t tame = 1 + some_draw(20);
    *l = (struct launch){
        .seq = seq, .stream = stream, .kernel = some_draw(KERNELS), .chunks = 1 + some_draw(4)};
    l->left = l->chunks;
    l->runs = malloc(4 * MOST * sizeof *l->runs);
    l->lanes = malloc(4 * MOST * SOME_LANES * sizeof *l->lanes);
    for (unsigned c = 0; c < l->chunks; c++) {
        l->counts[c] = some_draw(4) ? some_draw(MOST) : 0;
        for (size_t i = 0; i < l->counts[c]; i++) {
            some_run(&l->runs[c * MOST + i], l->lanes + (c * MOST + i) * SOME_LANES, tame);
            if (largest)
                gen_device_limit(&l->runs[c * MOST + i]);
        }
    }
}

static void gen_device_chunk(struct mt_mtc_writer *w, struct mt_mtc_device_encoder *e, struct launch *l)
{
    unsigned c = l->chunks - l->left--;
    unsigned flags = (c == 0 ? MT_MTC_BEGIN : 0) | (l->left == 0 ? MT_MTC_END : 0);
    const void *payload;
    const char *why;
    uint64_t accesses;
    size_t bytes = mt_mtc_encode_device(e, l->runs + c * MOST, l->counts[c], &accesses, &payload, &why);
    if (!bytes || mt_mtc_write(w, MT_MTC_DEVICE, flags, MT_MTC_DEVICE_KEY(l->stream, l->kernel + 1), l->seq,
                               l->seq, accesses, payload, bytes) != 0)
        exit(1);
    l->accesses += accesses;
}

static void gen_device_show(const struct launch *l)
{
    printf("l %" PRIu64 " %u %s\n", l->seq, l->stream, shown[l->kernel]);
    for (unsigned c = 0; c < l->chunks; c++)
        for (size_t i = 0; i < l->counts[c]; i++) {
            const struct mt_access_run *r = &l->runs[c * MOST + i];
            for (uint32_t k = 0; k < r->count; k++)
                printf("a %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64
                       "\n",
                       r->meta, r->cta, r->smid, r->warp, r->mask, r->site,
                       r->addresses ? r->addresses[k] : r->base + k * (uint64_t)r->stride);
        }
}

int main(int argc, char **argv)
{
    char line[300], why[100];
    static struct launch all[40];
    unsigned count = 0, open = 0;
    if (argc != 4 && argc != 5)
        return 2;
    largest = argc == 5 ? (uint32_t)atoi(argv[4]) : 0;
    some_seed = strtoull(argv[1], NULL, 10) + 1;
    FILE *f = fopen(argv[3], "wb");
    struct mt_mtc_file file = {gen_device_append, f};
    struct mt_mtc_writer *w = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE, atoi(argv[2]), why, sizeof why);
    struct mt_mtc_device_encoder *e = mt_mtc_device_encoder_new();
    gen_device_text(w, "{\"ev\": \"header\", \"version\": 1, \"format\": \"compact\", \"pid\": 7}\n");
    for (unsigned k = 0; k < KERNELS; k++) {
        snprintf(line, sizeof line, "{\"ev\": \"kernel\", \"id\": %u, \"name\": \"%s\"}\n", k + 1,
                 kernels[k]);
        gen_device_text(w, line);
    }
    struct launch *now[STREAMS] = {NULL};
    unsigned most = 1 + some_draw(12);
    while (count < most || open) { /* launches of several streams take turns */
        unsigned s = some_draw(STREAMS);
        if (!now[s] && count < most) {
            gen_device_start(now[s] = &all[count], s, 3 + 2 * (uint64_t)count);
            count++;
            open++;
        }
        if (!now[s])
            continue;
        gen_device_chunk(w, e, now[s]);
        if (now[s]->left)
            continue;
        snprintf(line, sizeof line,
                 "{\"ev\": \"launch\", \"seq\": %" PRIu64
                 ", \"stream\": %u, \"kernel\": \"%s\", \"traced\": true, "
                 "\"records\": %" PRIu64 "}\n",
                 now[s]->seq, s, kernels[now[s]->kernel], now[s]->accesses);
        gen_device_text(w, line);
        now[s] = NULL;
        open--;
    }
    uint64_t records = 0;
    for (unsigned i = 0; i < count; i++) {
        records += all[i].accesses;
        gen_device_show(&all[i]);
        free(all[i].runs);
        free(all[i].lanes);
    }
    for (unsigned seq = 4; seq < 200; seq += 193) { /* a copy between launches, and one after the last */
        snprintf(
            line, sizeof line,
            "{\"ev\": \"memcpy\", \"seq\": %u, \"kind\": \"h2d\", \"dst\": \"0x10000\", \"src\": \"0x5\", "
            "\"bytes\": 64}\n",
            seq);
        gen_device_text(w, line);
    }
    snprintf(line, sizeof line, "{\"ev\": \"end\", \"records_written\": %" PRIu64 ", \"complete\": true}\n",
             records);
    gen_device_text(w, line);
    mt_mtc_device_encoder_free(e);
    return mt_mtc_writer_close(w) != 0 || fclose(f) != 0;
}
