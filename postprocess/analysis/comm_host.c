/* The host in the communication analysis: copies, and accesses of host code when a host trace tells them. */
#define _GNU_SOURCE
#include "comm_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct site {
    const struct mt_host_site_info *info;
    uint32_t place;
    UT_hash_handle hh;
};

struct place {
    uint32_t place;
    UT_hash_handle hh;
    char name[];
};

/* Which place each site is at. Hot: `recent`, the host actor of a site. */
struct mt_sites {
    struct site *sites;
    struct place *places;
    struct {
        const struct mt_host_site_info *info;
        uint32_t superstep, host;
    } recent[1024];
};

int mt_comm_host_init(struct mt_comm *c)
{
    if (mt_comm_reserve(c, (void **)&c->places, 0, &c->place_room, sizeof *c->places) != 0)
        return -1;
    c->places[0] = (struct mt_host_place){0};
    c->nplaces = 1;
    if (c->options.host && !(c->sites = calloc(1, sizeof *c->sites)))
        return mt_comm_fail(c, "out of memory");
    return 0;
}

void mt_comm_host_free(struct mt_comm *c)
{
    struct mt_sites *s = c->sites;
    if (s) {
        struct site *site, *next;
        HASH_ITER(hh, s->sites, site, next)
        {
            HASH_DEL(s->sites, site); // NOLINT(clang-analyzer-unix.Malloc): the macro reads no freed entry
            free(site);
        }
        struct place *place, *after;
        HASH_ITER(hh, s->places, place, after)
        {
            HASH_DEL(s->places, place); // NOLINT(clang-analyzer-unix.Malloc)
            free(place);
        }
    }
    for (size_t i = 1; i < c->nplaces; i++)
        free(c->places[i].name);
    free(c->sites);
    free(c->places);
    free(c->hosts);
}

/* ---- places and actors ---- */

/* "file:line", or what else is known of a site; 0: nothing is. */
static int name_of(const struct mt_host_site_info *info, char *out, size_t size)
{
    if (*info->file)
        return snprintf(out, size, "%s:%u", info->file, info->line);
    if (*info->function)
        return snprintf(out, size, "%s%s%s", info->module, *info->module ? ":" : "", info->function);
    return snprintf(out, size, "%s", info->module);
}

static struct place *place_add(struct mt_comm *c, const char *name, size_t n)
{
    struct place *p;
    if (c->nplaces > MT_ENTRY_MAX) {
        mt_comm_fail(c, "more than 2^30 places of host code");
        return NULL;
    }
    if (mt_comm_reserve(c, (void **)&c->places, c->nplaces, &c->place_room, sizeof *c->places) != 0)
        return NULL;
    char *copy = strdup(name);
    p = copy ? malloc(sizeof *p + n + 1) : NULL;
    if (!p) {
        free(copy);
        mt_comm_fail(c, "out of memory");
        return NULL;
    }
    memcpy(p->name, name, n + 1);
    p->place = (uint32_t)c->nplaces;
    c->places[c->nplaces++] = (struct mt_host_place){copy, 0};
    HASH_ADD_KEYPTR(hh, c->sites->places, p->name, n, p);
    return p;
}

/* The place of a site; UINT32_MAX on failure. */
static uint32_t place_of(struct mt_comm *c, const struct mt_host_site_info *info)
{
    struct site *s;
    HASH_FIND_PTR(c->sites->sites, &info, s);
    if (s)
        return s->place;
    char name[4600];
    int n = name_of(info, name, sizeof name);
    if (n >= (int)sizeof name)
        n = (int)sizeof name - 1;
    struct place *p = NULL;
    if (n > 0) {
        HASH_FIND(hh, c->sites->places, name, (size_t)n, p);
        if (!p && !(p = place_add(c, name, (size_t)n)))
            return UINT32_MAX;
    }
    if (!(s = malloc(sizeof *s))) {
        mt_comm_fail(c, "out of memory");
        return UINT32_MAX;
    }
    s->info = info;
    s->place = p ? p->place : 0;
    HASH_ADD_PTR(c->sites->sites, info, s);
    return s->place;
}

/* The host actor of a place in the superstep under way, made if need be; UINT32_MAX on failure. */
static uint32_t host_actor(struct mt_comm *c, uint32_t place)
{
    uint32_t *last = &c->places[place].last;
    if (*last && c->hosts[*last - 1].superstep == c->nlaunches)
        return *last - 1;
    if (c->nhosts > MT_ENTRY_MAX) {
        mt_comm_fail(c, "more than 2^30 host writes");
        return UINT32_MAX;
    }
    if (mt_comm_reserve(c, (void **)&c->hosts, c->nhosts, &c->host_room, sizeof *c->hosts) != 0)
        return UINT32_MAX;
    c->hosts[c->nhosts] = (struct mt_host_actor){.superstep = (uint32_t)c->nlaunches, .place = place};
    *last = (uint32_t)++c->nhosts;
    return *last - 1;
}

/* ---- copies ---- */

int mt_comm_copy(struct mt_comm *c, const struct mt_copy_event *e)
{
    int from_host = e->kind == MT_COPY_H2D || e->kind == MT_COPY_H2H;
    int moves = e->kind == MT_COPY_D2D || e->kind == MT_COPY_D2H || (from_host && c->options.host);
    uint32_t nobody = 0; /* who wrote bytes of which no writer is known */
    if (from_host || e->kind == MT_COPY_SET) {
        uint32_t host = host_actor(c, 0);
        if (host == UINT32_MAX)
            return -1;
        nobody = MT_ENTRY_HOST | host;
    }
    for (uint64_t row = 0; row < e->height && !c->shadow->failed; row++) {
        if (moves)
            mt_shadow_copy(c->shadow, e->dst + row * e->dpitch, e->src + row * e->spitch, e->width, nobody);
        else
            mt_shadow_fill(c->shadow, e->dst + row * e->dpitch, e->width, nobody, 0);
    }
    return c->shadow->failed ? mt_comm_fail(c, "out of memory") : 0;
}

/* ---- accesses ---- */

/* `bytes` bytes that an actor wrote. */
static int host_takes(struct mt_comm *c, uint32_t host, uint32_t src, unsigned bytes)
{
    c->hosts[host].comm_load += bytes;
    if (!c->options.transfers || !mt_comm_host_selected(c, &c->hosts[host]))
        return 0;
    size_t i = mt_comm_transfer(c, c->actors[src].instance, MT_ENTRY_HOST | host);
    if (i == SIZE_MAX)
        return -1;
    struct mt_transfer *t = &c->transfers[i];
    t->size += bytes;
    t->count += t->last != c->host_accesses;
    t->last = c->host_accesses;
    return 0;
}

/* What the host reads stays unread for CTAs: it is no communication between CTAs. */
static int host_load(struct mt_comm *c, uint32_t host, uint64_t address, uint64_t size)
{
    while (size > 0) {
        unsigned from = address & (MT_PAGE_BYTES - 1);
        unsigned n = size < MT_PAGE_BYTES - from ? (unsigned)size : MT_PAGE_BYTES - from;
        const struct mt_page *p = mt_shadow_find(c->shadow, address >> MT_PAGE_BITS);
        for (unsigned i = from; p && p->mask && i < from + n;) { /* no actor has a uniform page */
            unsigned shift = p->mask == MT_PAGE_WORDS - 1 ? 2 : 0, end = shift ? (i | 3) + 1 : i + 1;
            if (end > from + n)
                end = from + n;
            uint32_t src = p->entry[i >> shift] & ~MT_ENTRY_READ;
            if (src && !(src & MT_ENTRY_HOST) && host_takes(c, host, src, end - i) != 0)
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
    unsigned slot = info->site & 1023;
    if (c->sites->recent[slot].info == info && c->sites->recent[slot].superstep == c->nlaunches)
        return c->sites->recent[slot].host;
    uint32_t place = place_of(c, info), host = place == UINT32_MAX ? place : host_actor(c, place);
    if (host == UINT32_MAX)
        return host;
    c->sites->recent[slot].info = info;
    c->sites->recent[slot].superstep = (uint32_t)c->nlaunches;
    c->sites->recent[slot].host = host;
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
        if (does[op].reads) {
            c->hosts[host].load += a[i].size;
            if (host_load(c, host, a[i].address, a[i].size) != 0)
                return -1;
        }
        if (does[op].writes) {
            c->hosts[host].store += a[i].size;
            mt_shadow_fill(c->shadow, a[i].address, a[i].size, MT_ENTRY_HOST | host, 0);
        }
    }
    return c->shadow->failed ? mt_comm_fail(c, "out of memory") : 0;
}
