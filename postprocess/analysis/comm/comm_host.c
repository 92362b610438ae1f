/* The host in the communication analysis: copies, and accesses of host code when a host trace has them. */
#define _GNU_SOURCE
#include "comm_internal.h"
#include <stdlib.h>
#include <string.h>

/* The host actor of each site that was met lately, by the site's number. */
enum { RECENT = 1024 };
struct mt_host_recent {
    const struct mt_host_site_info *info;
    uint32_t superstep, host;
};

int mt_comm_host_init(struct mt_comm *c)
{
    if (mt_host_locations_init(&c->places) != 0 ||
        (c->options.host && !(c->host_recent = calloc(RECENT, sizeof *c->host_recent))))
        return mt_comm_fail(c, "out of memory");
    return 0;
}

void mt_comm_host_free(struct mt_comm *c)
{
    mt_host_locations_free(&c->places);
    mt_pairmap_free(&c->host_index);
    free(c->host_recent);
    free(c->hosts);
}

/* The superstep that host code is in: before the next launch, or within a program. */
static uint32_t host_step(const struct mt_comm *c)
{
    return (uint32_t)c->nlaunches - (c->options.threads && c->nlaunches > 0);
}

/* The host actor of a place in the superstep under way, made if need be; UINT32_MAX on failure. */
static uint32_t host_actor(struct mt_comm *c, uint32_t place)
{
    uint64_t *known = mt_pairmap_get(&c->host_index, place, host_step(c), 0);
    if (!known) {
        mt_comm_fail(c, "out of memory");
        return UINT32_MAX;
    }
    if (*known)
        return (uint32_t)(*known - 1);
    if (c->nhosts > MT_ENTRY_MAX) {
        mt_comm_fail(c, "more than 2^30 host writes");
        return UINT32_MAX;
    }
    if (mt_comm_reserve(c, &c->hosts, c->nhosts, &c->host_room, sizeof *c->hosts) != 0)
        return UINT32_MAX;
    c->hosts[c->nhosts] = (struct mt_host_actor){.superstep = host_step(c), .place = place};
    *known = ++c->nhosts;
    return (uint32_t)(c->nhosts - 1);
}

/* ---- copies ---- */

int mt_comm_moves(const struct mt_comm *c, const struct mt_copy_event *e)
{
    int from_host = e->kind == MT_COPY_H2D || e->kind == MT_COPY_H2H;
    return e->kind == MT_COPY_D2D || e->kind == MT_COPY_D2H || (from_host && c->options.host);
}

int mt_comm_nobody(struct mt_comm *c, const struct mt_copy_event *e, uint32_t *nobody)
{
    *nobody = 0;
    if (e->kind == MT_COPY_H2D || e->kind == MT_COPY_H2H || e->kind == MT_COPY_SET) {
        uint32_t host = host_actor(c, 0);
        if (host == UINT32_MAX)
            return -1;
        *nobody = MT_ENTRY_HOST | host;
    }
    return 0;
}

int mt_comm_copy(struct mt_comm *c, const struct mt_copy_event *e)
{
    uint32_t nobody;
    if (c->options.volumes)
        return 0;
    if (mt_comm_nobody(c, e, &nobody) != 0)
        return -1;
    if (!mt_comm_moves(c, e)) {
        mt_comm_fill_rows(c, e, nobody);
        return c->shadow->failed ? mt_comm_fail(c, "out of memory") : 0;
    }
    return c->shards <= 1 ? mt_comm_move(&c, 1, e) : 0;
}

/* ---- accesses ---- */

/* `bytes` bytes that an actor wrote. */
static int host_takes(struct mt_comm *c, uint32_t host, uint32_t src, unsigned bytes, int crossing)
{
    c->hosts[host].comm_load += bytes;
    if (!c->options.transfers || !mt_comm_host_selected(c, &c->hosts[host]))
        return 0;
    size_t i = mt_comm_transfer(c, c->actors[src].instance, MT_ENTRY_HOST | host);
    if (i == SIZE_MAX)
        return -1;
    struct mt_transfer *t = &c->transfers[i];
    t->size += bytes;
    if (crossing) {
        mt_comm_cross(c, c->host_accesses, t->src, t->dst);
        return 0;
    }
    t->count += t->last != c->host_accesses;
    t->last = c->host_accesses;
    return 0;
}

/* The page as it is; NULL: none, a span may say more. */
static const struct mt_page *page_of(struct mt_comm *c, uint64_t number)
{
    return c->shadow->ncombs ? mt_shadow_find(c->shadow, number) : mt_shadow_peek(c->shadow, number);
}

/* What the host reads stays unread for CTAs: it is not communication between CTAs. */
static int host_load(struct mt_comm *c, uint32_t host, uint64_t address, uint64_t size)
{
    int crossing = c->shards > 1 && address >> MT_REGION_BITS != (address + size - 1) >> MT_REGION_BITS;
    while (size > 0) {
        unsigned from = address & (MT_PAGE_BYTES - 1);
        unsigned n = size < MT_PAGE_BYTES - from ? (unsigned)size : MT_PAGE_BYTES - from;
        int mine = c->shards <= 1 || mt_comm_owns(c, address);
        const struct mt_page *p = mine ? page_of(c, address >> MT_PAGE_BITS) : NULL;
        const struct mt_page_span *span =
            mine && !p ? mt_spans_find(&c->shadow->spans, address >> MT_PAGE_BITS) : NULL;
        uint32_t all = (p && !p->mask ? p->uniform : span ? span->entry : 0) & ~MT_ENTRY_READ;
        if (all && !(all & MT_ENTRY_HOST) && host_takes(c, host, all, n, crossing) != 0)
            return -1;
        for (unsigned i = from; p && p->mask && i < from + n;) {
            unsigned shift = p->mask == MT_PAGE_WORDS - 1 ? 2 : 0, end = shift ? (i | 3) + 1 : i + 1;
            if (end > from + n)
                end = from + n;
            uint32_t src = p->entry[i >> shift] & ~MT_ENTRY_READ;
            if (src && !(src & MT_ENTRY_HOST) && host_takes(c, host, src, end - i, crossing) != 0)
                return -1;
            i = end;
        }
        address += n;
        size -= n;
    }
    return 0;
}

static uint32_t host_of_site(struct mt_comm *c, const struct mt_host_site_info *info)
{
    struct mt_host_recent *r = &c->host_recent[(info->site >> 2 ^ info->site << 8) % RECENT];
    if (r->info == info && r->superstep == host_step(c))
        return r->host;
    uint32_t place = mt_host_locations_of(&c->places, info);
    if (place == MT_LOCATION_FAILED) {
        mt_comm_fail(c, "out of memory");
        return UINT32_MAX;
    }
    uint32_t host = host_actor(c, place);
    if (host != UINT32_MAX)
        *r = (struct mt_host_recent){info, host_step(c), host};
    return host;
}

int mt_comm_host(struct mt_comm *c, const struct mt_host_access *a, size_t count)
{
    static const struct {
        unsigned char reads, writes;
    } does[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = {reads, writes},
#include "memtrace/container.def"
    };
    for (size_t i = 0; i < count; i++) {
        unsigned op = (unsigned)a[i].site->op;
        if (op >= sizeof does / sizeof *does || !(does[op].reads | does[op].writes))
            continue;
        uint32_t host = host_of_site(c, a[i].site);
        if (host == UINT32_MAX)
            return -1;
        c->host_accesses++;
        int mine = c->shards <= 1 || mt_comm_owns(c, a[i].address);
        if (does[op].reads) {
            c->hosts[host].load += mine ? a[i].size : 0;
            if (!c->options.threads && host_load(c, host, a[i].address, a[i].size) != 0)
                return -1;
        }
        if (does[op].writes) {
            c->hosts[host].store += mine ? a[i].size : 0;
            if (!c->options.threads)
                mt_comm_fill(c, a[i].address, a[i].size, MT_ENTRY_HOST | host, 0);
        }
    }
    return c->shadow->failed ? mt_comm_fail(c, "out of memory") : 0;
}
