/* The figures of a launch: as bytes, and what they become when all is counted. */
#include "reuse.h"
#include "memtrace/order.h"
#include <math.h>

/* Most buckets are empty. */
static void reuse_pack_counts(struct mt_parcel *p, const struct mt_reuse_counts *c)
{
    uint64_t used = 0;
    for (int b = 0; b < MT_REUSE_BUCKETS; b++)
        used |= (uint64_t)(c->histogram[b] != 0) << b;
    mt_parcel_u64(p, used);
    for (int b = 0; b < MT_REUSE_BUCKETS; b++)
        if (c->histogram[b])
            mt_parcel_u64(p, c->histogram[b]);
    const uint64_t rest[] = {c->cold, c->contexts, c->lines, c->largest};
    mt_parcel_bytes(p, rest, sizeof rest);
}

static void reuse_unpack_counts(struct mt_unpack *u, struct mt_reuse_counts *c)
{
    uint64_t used = mt_unpack_u64(u);
    for (int b = 0; b < MT_REUSE_BUCKETS; b++)
        c->histogram[b] = used >> b & 1 ? mt_unpack_u64(u) : 0;
    c->cold = mt_unpack_u64(u);
    c->contexts = mt_unpack_u64(u);
    c->lines = mt_unpack_u64(u);
    c->largest = mt_unpack_u64(u);
}

void mt_reuse_launch_pack(struct mt_parcel *p, const struct mt_reuse_launch *l)
{
    mt_parcel_u64(p, l->superstep);
    mt_parcel_u64(p, l->uses);
    mt_parcel_bytes(p, l->sample_bits, sizeof l->sample_bits);
    mt_parcel_bytes(p, l->context_bits, sizeof l->context_bits);
    mt_parcel_bytes(p, l->context_squares, sizeof l->context_squares);
    mt_parcel_u64(p, l->squares);
    for (int level = 0; level < MT_REUSE_LEVELS; level++)
        reuse_pack_counts(p, &l->level[level]);
}

void mt_reuse_launch_unpack(struct mt_unpack *u, struct mt_reuse_launch *l)
{
    l->superstep = mt_unpack_u64(u);
    l->kernel = mt_unpack_kernel_of(u, l->superstep);
    l->selected = !u->failed && u->launches[l->superstep].selected;
    l->uses = mt_unpack_u64(u);
    mt_unpack_bytes(u, l->sample_bits, sizeof l->sample_bits);
    mt_unpack_bytes(u, l->context_bits, sizeof l->context_bits);
    mt_unpack_bytes(u, l->context_squares, sizeof l->context_squares);
    l->squares = mt_unpack_u64(u);
    for (int level = 0; level < MT_REUSE_LEVELS; level++) {
        u->failed |= l->sample_bits[level] > MT_REUSE_MOST_BITS;
        u->failed |= level < 2 && l->context_bits[level] > MT_REUSE_MOST_BITS;
        reuse_unpack_counts(u, &l->level[level]);
    }
}

static uint64_t reuse_counted(const struct mt_reuse_counts *c)
{
    uint64_t n = c->cold;
    for (int b = 0; b < MT_REUSE_BUCKETS; b++)
        n += c->histogram[b];
    return n;
}

/* How many uses there were is known: what a sample has too few or too many of are the lines used most often,
 * and those are used again soon. */
static void reuse_settle(struct mt_reuse_counts *c, uint64_t uses, int contexts)
{
    uint64_t counted = reuse_counted(c);
    if (contexts && counted) { /* those that are followed are as the others, as far as is known */
        const double part = (double)uses / (double)counted;
        c->cold = (uint64_t)((double)c->cold * part);
        for (int b = 0; b < MT_REUSE_BUCKETS; b++)
            c->histogram[b] = (uint64_t)((double)c->histogram[b] * part);
        counted = reuse_counted(c);
    }
    if (counted < uses)
        c->histogram[0] += uses - counted;
    for (int b = 0; counted > uses; b++) {
        uint64_t *n = b < MT_REUSE_BUCKETS ? &c->histogram[b] : &c->cold;
        const uint64_t less = *n < counted - uses ? *n : counted - uses;
        *n -= less;
        counted -= less;
    }
}

struct mt_reuse_launch *mt_reuse_launch_of(struct mt_reuse *x, uint64_t superstep)
{
    size_t n = MT_FIRST(i, x->count, x->launches[i].superstep > superstep);
    return &x->launches[n ? n - 1 : 0];
}

void mt_reuse_launch_settle(struct mt_reuse_launch *l)
{
    reuse_settle(&l->level[MT_REUSE_DEVICE], l->uses, 0);
    for (int level = 0; level < 2 && l->selected; level++)
        reuse_settle(&l->level[level], l->uses, l->context_bits[level] != 0);
}

double mt_reuse_error(const struct mt_reuse_launch *l)
{
    const double all = ldexp((double)l->squares, (int)l->sample_bits[MT_REUSE_DEVICE]);
    double most = 0;
    unsigned bits = 0;
    for (int level = 0; level < MT_REUSE_LEVELS; level++) {
        bits |= l->sample_bits[level] | (level < 2 ? l->context_bits[level] : 0);
        double error = (ldexp(1, (int)l->sample_bits[level]) - 1) * all;
        if (level < 2) /* in each a part of its uses; the sum of all uses is known, so a half is the worst */
            error += 0.25 * (ldexp(1, (int)l->context_bits[level]) - 1) * (double)l->context_squares[level];
        most = error > most ? error : most;
    }
    return bits ? sqrt(most) : -1;
}
