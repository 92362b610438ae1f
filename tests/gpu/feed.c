/* feed SLOTS [LAUNCHES]: fills 32 rings of SLOTS slots with packets, as CTAs of LAUNCHES launches of one
 * stream would, and reads them into a trace, as a GPU's reader does; MEMTRACE_GPU_READERS says with how many
 * threads. Prints packets, seconds.
 *
 * A CTA's packets are in one ring; packet j of CTA c stores or loads 4 bytes a lane at c << 24 | j << 7. A
 * launch's packets come while its predecessor's do, and then while its successor's do. */
#include "gpu/flight.h"
#include "gpu/readers.h"
#include "memtrace/device.h"
#include "trace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RINGS = 32, CTAS = 8, LAUNCHES = 64, SLOTS_LEAST = 1024 };
static struct mt_ring rings[RINGS];
static struct mt_flight *_Atomic flights[LAUNCHES];
static uint64_t records[LAUNCHES], counts[LAUNCHES][RINGS * CTAS];
static unsigned launches = 1, left, batch = 4096; /* packets that are taken from a ring at once */

static void feed_damaged(void *owner)
{
    (void)owner;
    fprintf(stderr, "feed: a packet made no sense\n");
    exit(1);
}

static void feed_came(void *owner, uint32_t context, uint64_t n, int known)
{
    (void)owner, (void)context, (void)n;
    if (!known)
        feed_damaged(NULL);
}

static void feed_left(struct mt_flight *f)
{
    flights[f->context] = NULL;
    left++;
}

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
        rings[r] = (struct mt_ring){s, tail, slots - 1, 0, 0};
    }
    return 0;
}

static void feed_launch(struct mt_trace *trace, uint32_t number)
{
    struct mt_flight *f = calloc(1, sizeof *f);
    struct mt_flight_queue *q = mt_queue_enter(trace);
    if (!f || !q)
        feed_damaged(NULL);
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
    flights[number] = f;
    mt_flight_add(q, f);
    mt_flight_issued(f);
    mt_queue_leave(q);
}

static unsigned feed_drain(void)
{
    static const struct mt_readers_ops ops = {feed_came, feed_damaged};
    struct mt_readers_ring all[RINGS];
    for (unsigned r = 0; r < RINGS; r++)
        all[r] = (struct mt_readers_ring){&rings[r], flights, LAUNCHES, NULL};
    return mt_readers_drain(all, RINGS, batch, &ops);
}

static double feed_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Launches end when all their packets are there, one after the other. */
static void feed_end(void)
{
    for (struct mt_flight *f; left < launches && (f = flights[left]) && f->taken == records[left];) {
        f->counted = f->taken;
        f->ended = 1;
        mt_flight_retire(feed_left, 1, 1);
    }
}

int main(int argc, char **argv)
{
    uint64_t slots = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, packets = 0;
    launches = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    if (slots < SLOTS_LEAST || slots & (slots - 1) || slots > 1u << 24 || !launches || launches > LAUNCHES)
        return fprintf(stderr, "usage: feed SLOTS [LAUNCHES]: a power of two from 1024 on, 1 to 64\n"), 2;
    if (slots / 16 < batch)
        batch = (unsigned)slots / 16;
    if (feed_fill(slots))
        return fprintf(stderr, "feed: no memory\n"), 1;
    mt_trace_device("gpu", "fed", RINGS);
    struct mt_trace *trace = mt_trace_open();
    for (unsigned i = 0; i < launches; i++)
        feed_launch(trace, i);
    double begin = feed_now();
    for (unsigned n; (n = feed_drain()); feed_end())
        packets += n;
    double seconds = feed_now() - begin;
    mt_trace_close(trace);
    mt_trace_finish();
    printf("%llu %.6f\n", (unsigned long long)packets, seconds);
    return packets == slots * RINGS && left == launches ? 0 : 1;
}
