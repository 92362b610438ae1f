/* See unwritten.h. */
#include "unwritten.h"
#include "analysis/base/runs.h"
#include "analysis/onchip/onchip.h"
#include "memtrace/grow.h"
#include <stdlib.h>

enum { MOST = 1 << 20, WORD = 4 };

static const char *const unwritten_ops[] = {"load", "store", "atomic", "access"};

/* The lane of an access: lanes that do not take part are not counted. */
static uint32_t unwritten_lane(const struct mt_access_run *r, uint32_t access)
{
    uint32_t lanes = r->mask;
    for (uint32_t i = 0; i < access && lanes; i++)
        lanes &= lanes - 1;
    return lanes ? (uint32_t)__builtin_ctz(lanes) : 0;
}

static int unwritten_word(struct mt_unwritten *u, const struct mt_access_run *r, uint32_t access,
                          uint64_t byte, uint64_t memory, const struct mt_alloc_event *alloc)
{
    uint64_t *at = mt_pairmap_get(&u->words, byte / WORD, memory, u->count);
    if (!at || mt_grow(&u->list, &u->room, u->count + 1, sizeof *u->list) != 0)
        return -1;
    if (*at == u->count)
        u->list[u->count++] = (struct mt_unwritten_word){.cta = r->cta,
                                                         .site = r->site,
                                                         .warp = r->warp,
                                                         .lane = unwritten_lane(r, access),
                                                         .type = mt_run_type(r),
                                                         .bytes = mt_run_size(r),
                                                         .alloc = alloc,
                                                         .byte = alloc ? byte - alloc->base : byte};
    return 0;
}

int mt_unwritten_add(struct mt_unwritten *u, const struct mt_access_run *r, uint32_t first, uint64_t begin,
                     uint64_t address, uint64_t n, uint64_t memory, const struct mt_alloc_event *alloc)
{
    for (uint64_t word = address / WORD; word <= (address + n - 1) / WORD && u->count < MOST; word++) {
        uint64_t byte = word * WORD > address ? word * WORD : address;
        if (unwritten_word(u, r, first + (uint32_t)((byte - begin) / mt_run_size(r)), byte, memory, alloc))
            return -1;
    }
    return 0;
}

void mt_unwritten_settle(struct mt_unwritten *u, uint64_t cta, uint64_t address, uint64_t n)
{
    for (uint64_t word = address / WORD; u->count && word <= (address + n - 1) / WORD; word++) {
        const uint64_t *at = mt_pairmap_find(&u->words, word, 0);
        if (at)
            u->list[*at].stored |= u->list[*at].cta != cta;
    }
}

static int unwritten_report(struct mt_unwritten *u, const struct mt_unwritten_word *w)
{
    const struct mt_site_event *s = mt_companion_site(mt_source_companion(u->source, u->input), w->site);
    uint64_t x = u->launch ? u->launch->block[0] : 1024, y = u->launch ? u->launch->block[1] : 1,
             thread = (uint64_t)w->warp * 32 + w->lane;
    struct mt_finding f = {
        .kind = MT_FINDING_OF_UNWRITTEN,
        .kernel = u->kernel,
        .var = !s         ? ""
               : w->alloc ? s->var
                          : mt_onchip_variable(s),
        .here = {.file = s ? s->file : "",
                 .at = s ? s->at : "",
                 .op = unwritten_ops[w->type & 3],
                 .line = s ? s->line : 0,
                 .cta = {w->cta >> 32, w->cta >> 16 & 0xffff, w->cta & 0xffff},
                 .known = w->warp == MT_RUN_NO_WARP || !x || !y ? 1 : 2},
        .size = w->bytes,
        .count = 1,
        .launches = 1,
        .launch = u->step + 1,
        .alloc = w->alloc,
        .side = "inside",
        .distance = w->byte,
    };
    if (f.here.known == 2) {
        f.here.thread[0] = thread % x;
        f.here.thread[1] = thread / x % y;
        f.here.thread[2] = thread / x / y;
    }
    return mt_findings_add(u->findings, &f);
}

int mt_unwritten_end(struct mt_unwritten *u)
{
    int rc = 0;
    for (size_t i = 0; i < u->count && rc == 0; i++)
        rc = u->list[i].stored ? 0 : unwritten_report(u, &u->list[i]);
    u->count = 0;
    mt_pairmap_clear(&u->words);
    return rc;
}

void mt_unwritten_free(struct mt_unwritten *u)
{
    free(u->list);
    mt_pairmap_free(&u->words);
}
