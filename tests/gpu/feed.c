/* feed SLOTS [LAUNCHES]: fills 32 rings of SLOTS slots with packets, as CTAs of LAUNCHES launches of one
 * stream would, and reads them into a trace, as a GPU's reader does; MEMTRACE_GPU_READERS says with how many
 * threads. Prints packets, seconds.
 *
 * A CTA's packets are in one ring; packet j of CTA c stores or loads 4 bytes a lane at c << 24 | j << 7. A
 * launch's packets come while its predecessor's do, and then while its successor's do. */
#include "gpu/rings.h"
#include "memtrace/device.h"
#include "trace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RINGS = MT_GPU_RINGS, CTAS = 8, LAUNCHES = 64, SLOTS_LEAST = 1024 };
static struct mt_rings rings;
static uint64_t records[LAUNCHES], counts[LAUNCHES][RINGS * CTAS];
static unsigned launches = 1;

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
static uint32_t feed_launch_of(uint64_t i, uint64_t slots)
{
    uint32_t part = (uint32_t)(i * launches / slots);
    return part && i / CTAS % 2 ? part - 1 : part;
}

static void feed_slot(struct mt_slot *s, unsigned ring, uint64_t i, uint64_t slots)
{
    uint32_t launch = feed_launch_of(i, slots), cta = ring + RINGS * (uint32_t)(i % CTAS);
    uint64_t address = (uint64_t)cta << 24 | counts[launch][cta]++ << 7, tag = mt_packet_tag(i, slots);
    uint32_t x = 4u << 16;
    s->w[0] = tag | mt_packet_first(MT_PACKET_REGULAR, counts[launch][cta] % 3 ? MT_LOAD : MT_STORE, 0, ring,
                                    launch, x);
    s->w[1] = tag | (uint64_t)UINT32_MAX << 31;
    s->w[2] = tag | mt_rec_cta(cta, 0, 0);
    s->w[3] = tag | 4ull << MT_REGULAR_ADDRESS_BITS | address;
    records[launch] += 32;
}

static int feed_fill(uint64_t slots)
{
    for (unsigned r = 0; r < RINGS; r++) {
        struct mt_slot *s = calloc(slots, sizeof *s);
        uint64_t *tail = calloc(1, 64);
        if (!s || !tail)
            return -1;
        for (uint64_t i = 0; i < slots; i++)
            feed_slot(&s[i], r, i, slots);
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
    f->counted = records[number];
    f->rings = &rings;
    rings.flight[number] = f;
    if (mt_flight_begin(f, &q))
        exit(1);
    mt_flight_issued(f);
    mt_queue_leave(q);
}

static double feed_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    uint64_t slots = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    launches = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    if (slots < SLOTS_LEAST || slots & (slots - 1) || slots > 1u << 24 || !launches || launches > LAUNCHES)
        return fprintf(stderr, "usage: feed SLOTS [LAUNCHES]: a power of two from 1024 on, 1 to 64\n"), 2;
    if (feed_fill(slots))
        return fprintf(stderr, "feed: no memory\n"), 1;
    rings.ops = &feed_ops;
    rings.count = RINGS;
    mt_trace_device("gpu", "fed", RINGS);
    struct mt_trace *trace = mt_trace_open();
    for (unsigned i = 0; i < launches; i++)
        feed_launch(trace, i);
    double begin = feed_now();
    rings.batch = slots / 16 < MT_GPU_BATCH ? (unsigned)slots / 16 : MT_GPU_BATCH;
    mt_rings_add(&rings);
    int lost = mt_flight_end(&(struct mt_flight_filter){0}, 20, NULL, NULL);
    double seconds = feed_now() - begin;
    mt_trace_close(trace);
    mt_trace_finish();
    printf("%llu %.6f\n", (unsigned long long)slots * RINGS, seconds);
    return lost || rings.damaged;
}
