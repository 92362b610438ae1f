/* Packets as runs, for compact traces: a packet is what a warp did already. */
#include "gather.h"
#include <string.h>

void mt_gather_clear(struct mt_gather *g)
{
    g->runs = g->addresses = 0;
    g->accesses = 0;
    g->next = NULL;
}

static struct mt_access_run *gather_add(struct mt_gather *g, const struct mt_packet *p, uint32_t site,
                                        uint32_t mask)
{
    struct mt_access_run *r = &g->run[g->runs++];
    *r = (struct mt_access_run){.cta = p->cta,
                                .smid = p->smid,
                                .meta = p->meta,
                                .count = mt_ring_lanes(mask),
                                .mask = mask,
                                .warp = p->warp,
                                .site = site};
    g->accesses += r->count;
    return r;
}

static uint64_t put_lanes(struct mt_gather *g, const struct mt_packet *p, uint32_t site)
{
    uint32_t n = mt_ring_lanes(p->mask);
    if (g->runs == MT_GATHER_RUNS || g->addresses + n > MT_GATHER_ADDRESSES)
        return 0;
    struct mt_access_run *r = gather_add(g, p, site, p->mask);
    r->base = p->words[0];
    if (p->kind == MT_PACKET_REGULAR) {
        r->stride = (int64_t)p->words[1];
    } else {
        uint64_t *list = &g->address[g->addresses];
        memcpy(list, p->words, n * sizeof *list);
        r->addresses = list;
        g->addresses += n;
    }
    return n;
}

/* Block copies, each lane with a length of its own: an access has one size, so lanes are alone. */
static uint64_t put_blocks(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site)
{
    uint64_t made = 0;
    uint32_t mask = p->mask;
    for (uint32_t i = 0; mask; i++, mask &= mask - 1) {
        uint64_t address = p->words[2 * i], bytes = p->words[2 * i + 1], at = 0;
        for (; at < bytes; at += MT_RAW_MAX_SIZE) {
            if (from) {
                from--;
                continue;
            }
            if (g->runs == MT_GATHER_RUNS)
                return made;
            uint64_t left = bytes - at;
            struct mt_access_run *r = gather_add(g, p, site, mask & -mask);
            r->base = address + at;
            r->meta = mt_rec_meta(p->meta >> 28, left < MT_RAW_MAX_SIZE ? (uint32_t)left : MT_RAW_MAX_SIZE);
            made++;
        }
    }
    return made;
}

uint64_t mt_gather_put(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site)
{
    return p->kind == MT_PACKET_BLOCKS ? put_blocks(g, p, from, site) : put_lanes(g, p, site);
}
