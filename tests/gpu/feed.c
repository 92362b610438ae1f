/* feed SLOTS [LAUNCHES [WARPS]]: fills 32 rings of SLOTS slots, or one with as many as these, with packets as
 * CTAs of LAUNCHES launches of one stream would, and reads them into a trace, as a GPU's reader does;
 * MEMTRACE_GPU_READERS says with how many threads. Prints packets, seconds, processor seconds, and seconds of
 * a plain copy of the packets.
 *
 * A CTA's packets are in one ring; packet j of CTA c stores or loads 4 bytes a lane at c << 24 | j << 7. A
 * launch's packets come while its predecessor's do, and then while its successor's do. Without WARPS, 8 CTAs
 * of a warp take turns in each ring. Else CTAs of 8 warps do, WARPS warps a
 * ring, slightly unevenly, as on a GPU; each adds two arrays to a third one, in steps of the grid. */
#include "gpu/rings.h"
#include "memtrace/device.h"
#include "trace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RINGS = MT_GPU_RINGS, CTAS = 8, LAUNCHES = 64, SLOTS_LEAST = 1024, WARPS_MOST = 512, CTA_WARPS = 8 };
static struct mt_rings rings;
static uint64_t slots, records[LAUNCHES], counts[LAUNCHES][RINGS * CTAS];
static unsigned launches = 1, warps;
static uint32_t steps[RINGS * WARPS_MOST]; /* of the warps of a ring */

static void feed_lent(struct mt_rings *r, struct mt_flight *f)
{
    (void)r, (void)f;
}

static int feed_returned(struct mt_rings *r, struct mt_flight *f)
{
    (void)r, (void)f;
    return 0;
}

/* All have ended, and each has all its packets in the rings. */
static unsigned feed_marked(struct mt_rings *r, struct mt_flight **ended)
{
    unsigned n = 0;
    for (unsigned i = 0; i < launches; i++)
        if (r->flight[i])
            ended[n++] = r->flight[i];
    return n;
}

static const struct mt_rings_ops feed_ops = {feed_lent, feed_returned, feed_marked, NULL, NULL};

/* Of packet number i of a ring. */
static uint32_t feed_launch_of(uint64_t i)
{
    uint32_t part = (uint32_t)(i * launches / slots);
    return part && i / CTAS % 2 ? part - 1 : part;
}

static void feed_put(struct mt_slot *s, uint64_t tag, uint64_t first, uint32_t site, uint64_t cta,
                     uint64_t address)
{
    s->w[0] = tag | first;
    s->w[1] = tag | (uint64_t)UINT32_MAX << 31 | site;
    s->w[2] = tag | cta;
    s->w[3] = tag | 4ull << MT_REGULAR_ADDRESS_BITS | address;
}

static void feed_slot(struct mt_slot *s, unsigned ring, uint64_t i)
{
    uint32_t launch = feed_launch_of(i),
             cta = ring + rings.count * (uint32_t)(i % (CTAS * RINGS / rings.count));
    uint64_t address = (uint64_t)cta << 24 | counts[launch][cta]++ << 7;
    uint32_t step = counts[launch][cta] % 3, type = step ? MT_LOAD : MT_STORE;
    feed_put(s, mt_packet_tag(i, slots),
             mt_packet_first(MT_PACKET_REGULAR, type, 0, cta % RINGS, launch, 4u << 16), 1 + step,
             mt_rec_cta(cta, 0, 0), address);
    records[launch] += 32;
}

/* A step of a[i] = b[i] + c[i] by the next warp of a ring. */
static void feed_step(struct mt_slot *s, unsigned ring, uint64_t i)
{
    static uint32_t now;
    static uint64_t random = 1;
    uint32_t count = warps * RINGS / rings.count;
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    now = (now + 1 + (random >> 61 == 0)) % count;
    uint32_t step = steps[now]++, launch = feed_launch_of(i), array = step % 3;
    uint32_t cta = ring + rings.count * (now / CTA_WARPS), warp = now % CTA_WARPS;
    uint64_t thread = ((uint64_t)(step / 3) * RINGS * warps / CTA_WARPS + cta) * CTA_WARPS + warp;
    feed_put(s, mt_packet_tag(i, slots),
             mt_packet_first(MT_PACKET_REGULAR, array == 2 ? MT_STORE : MT_LOAD, warp, cta % 132, launch,
                             4u << 16),
             array + 1, mt_rec_cta(cta, 0, 0),
             UINT64_C(0x7f1000000000) + ((uint64_t)array << 34) + (thread << 7));
    records[launch] += 32;
}

static uint32_t feed_site(const struct mt_flight *f, uint32_t site, uint32_t meta)
{
    (void)f, (void)meta;
    return site;
}

static int feed_fill(void)
{
    rings.count = mt_rings_readers() > 1 ? RINGS : 1;
    slots *= RINGS / rings.count;
    for (unsigned r = 0; r < rings.count; r++) {
        struct mt_slot *s = aligned_alloc(64, slots * sizeof *s);
        uint64_t *tail = aligned_alloc(64, 64);
        if (!s || !tail)
            return -1;
        memset(steps, 0, sizeof steps);
        *tail = 0;
        for (uint64_t i = 0; i < slots; i++)
            (warps ? feed_step : feed_slot)(&s[i], r, i);
        rings.ring[r] = (struct mt_ring){s, tail, slots - 1, 0, 0};
    }
    return 0;
}

static void feed_launch(struct mt_trace *trace, uint32_t number)
{
    struct mt_flight *f = calloc(1, sizeof *f);
    struct mt_flight_queue *q = NULL;
    if (!f)
        exit(1);
    f->launch.trace = trace;
    f->launch.line = (struct mt_launch_line){.kernel = "fed",
                                             .mangled = "fed",
                                             .signature = "fed",
                                             .grid = {RINGS * CTAS, 1, 1},
                                             .block = {32, 1, 1},
                                             .seq = number,
                                             .begin_ns = 1,
                                             .stream = 0,
                                             .traced = 1};
    f->context = number;
    f->site = feed_site;
    f->counted = records[number];
    f->rings = &rings;
    rings.flight[number] = f;
    if (mt_flight_begin(f, &q))
        exit(1);
    mt_flight_issued(f);
    mt_queue_leave(q);
}

static double feed_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Copies all packets a MiB at a time into the same place. Returns the processor seconds. */
static double feed_copy(void)
{
    static char to[1 << 20];
    double begin = feed_now(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned r = 0; r < rings.count; r++)
        for (uint64_t at = 0, bytes = slots * sizeof(struct mt_slot); at < bytes; at += sizeof to) {
            memcpy(to, (const char *)rings.ring[r].slots + at, bytes < sizeof to ? bytes : sizeof to);
            __asm__ volatile("" : : "r"(to) : "memory");
        }
    return feed_now(CLOCK_PROCESS_CPUTIME_ID) - begin;
}

static int feed_arguments(int argc, char **argv)
{
    slots = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    launches = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    warps = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    return slots >= SLOTS_LEAST && !(slots & (slots - 1)) && slots <= 1u << 24 && launches &&
           launches <= LAUNCHES && warps <= WARPS_MOST && warps % CTA_WARPS == 0;
}

int main(int argc, char **argv)
{
    if (!feed_arguments(argc, argv))
        return fprintf(stderr, "usage: feed SLOTS [LAUNCHES [WARPS]]: a power of two from 1024 on, 1 to 64, "
                               "0 to 512 by 8\n"),
               2;
    if (feed_fill())
        return fprintf(stderr, "feed: no memory\n"), 1;
    rings.ops = &feed_ops;
    mt_trace_device("gpu", "fed", RINGS);
    struct mt_trace *trace = mt_trace_open();
    for (unsigned i = 0; i < launches; i++)
        feed_launch(trace, i);
    double copied = feed_copy(), begin = feed_now(CLOCK_MONOTONIC), busy = feed_now(CLOCK_PROCESS_CPUTIME_ID);
    rings.batch = slots / 16 < MT_GPU_BATCH ? (unsigned)slots / 16 : MT_GPU_BATCH;
    mt_rings_add(&rings);
    int lost = mt_flight_end(&(struct mt_flight_filter){0}, 20, NULL, NULL);
    double seconds = feed_now(CLOCK_MONOTONIC) - begin;
    busy = feed_now(CLOCK_PROCESS_CPUTIME_ID) - busy;
    mt_trace_close(trace);
    mt_trace_finish();
    printf("%llu %.6f %.6f %.6f\n", (unsigned long long)slots * rings.count, seconds, busy, copied);
    return lost || rings.damaged;
}
