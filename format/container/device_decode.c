/* Decoder of device chunks. All data from the payload is checked before use. */
#include "device_decode.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include "memtrace/record.h"
#include <string.h>

#define NONE UINT32_MAX
enum { NEW_MASK = 1, NEW_COUNT = 2, NEW_STRIDE = 4 };
enum { NEW_WARP = 4, NEW_SM = 8 };
enum { SAME_LANES = 0x80, WHOLE = 64, PACKED_MAX = 56 };
enum { EPOCHS = 1 << 22 };
enum { DEVICE_AHEAD = 16 };

struct mt_device_context {
    uint64_t cta, address;
    uint32_t warp, smid, slot, successor;
};

struct shape {
    uint64_t stride;
    uint32_t mask, count, irregular;
    uint64_t delta[MT_MTC_MAX_LANES];
};

struct mt_device_slot {
    uint64_t last, stride, difference, step, own_difference, offset, low;
    uint32_t next, second, site, meta, seen, now;
    struct shape shape[2];
};

struct mt_device_own {
    uint64_t who, address;
};

struct mt_device_region {
    uint32_t n, bases, warps;
    uint64_t laps;
    struct {
        uint32_t meta, site, rows, first; /* first: index of its first base */
        int64_t stride;
    } access[MT_MTC_REGION_ACCESSES];
    uint64_t base[2 * MT_MTC_REGION_ACCESSES], difference[2 * MT_MTC_REGION_ACCESSES],
        apart[2 * MT_MTC_REGION_ACCESSES], step[MT_MTC_REGION_ACCESSES];
};

/* ---- columns ---- */

static int device_decode_damaged(struct mt_device_decoder *d, const char *why)
{
    d->why = why;
    return -1;
}

static int device_decode_number(struct mt_device_decoder *d, struct mt_device_cursor *c, uint64_t *v)
{
    unsigned shift = 0;
    *v = 0;
    while (c->at < c->end) {
        unsigned char b = *c->at++;
        if (shift == 63 && b > 1)
            return device_decode_damaged(d, "has a number of more than 64 bits");
        *v |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return 0;
        if ((shift += 7) > 63)
            return device_decode_damaged(d, "has a number of more than 64 bits");
    }
    return device_decode_damaged(d, "ends inside a column");
}

static int number_signed(struct mt_device_decoder *d, struct mt_device_cursor *c, uint64_t *v)
{
    int rc = device_decode_number(d, c, v);
    *v = *v >> 1 ^ (0 - (*v & 1));
    return rc;
}

static int device_decode_bytes_of(struct mt_device_decoder *d, struct mt_device_cursor *c, void *to, size_t n)
{
    if ((size_t)(c->end - c->at) < n)
        return device_decode_damaged(d, "ends inside a column");
    memcpy(to, c->at, n);
    c->at += n;
    return 0;
}

static struct mt_device_cursor device_decode_column(const unsigned char **at, uint32_t bytes)
{
    struct mt_device_cursor c = {*at, *at + bytes};
    *at += bytes;
    return c;
}

int mt_device_decode_start(struct mt_device_decoder *d, const void *payload, size_t bytes)
{
    struct mt_mtc_columns h;
    const unsigned char *at = payload;
    d->why = NULL;
    d->accesses = 0;
    if (bytes < sizeof h)
        return device_decode_damaged(d, "is too short for its columns");
    memcpy(&h, at, sizeof h);
    at += sizeof h;
    if ((uint64_t)h.runs + h.contexts + h.shapes + h.bases + h.lanes != bytes - sizeof h ||
        h.runs > MT_MTC_MAX_RUNS)
        return device_decode_damaged(d, "has columns of another length than its head says");
    d->payload = payload;
    d->tokens = device_decode_column(&at, h.runs);
    d->contexts = device_decode_column(&at, h.contexts);
    d->shapes = device_decode_column(&at, h.shapes);
    d->bases = device_decode_column(&at, h.bases);
    d->lanes = device_decode_column(&at, h.lanes);
    if (!d->own && !(d->own = calloc(MT_MTC_OWN_PLACES, sizeof *d->own)))
        return device_decode_damaged(d, NULL);
    if (mt_grow(&d->slot, &d->slot_room, 1, sizeof *d->slot) != 0)
        return device_decode_damaged(d, NULL);
    if (++d->epoch == EPOCHS) {
        memset(d->own, 0, MT_MTC_OWN_PLACES * sizeof *d->own);
        d->epoch = 1;
    }
    d->ncontexts = 0;
    d->nslots = 1;
    d->slot[0].next = d->slot[0].second = NONE;
    d->before = NONE;
    d->nregions = d->newest = d->block_smid = d->block_warp = 0;
    d->block_cta = d->left = d->repeats = 0;
    d->block = MT_MTC_MAX_REGIONS;
    return 0;
}

void mt_device_decode_free(struct mt_device_decoder *d)
{
    free(d->region);
    free(d->context);
    free(d->slot);
    free(d->own);
    memset(d, 0, sizeof *d);
}

/* ---- contexts (warps) ---- */

static int new_context(struct mt_device_decoder *d)
{
    static const struct mt_device_context first = {.warp = MT_RUN_NO_WARP};
    uint32_t n = d->ncontexts;
    unsigned char flags;
    uint64_t v[5] = {0};
    if (mt_grow(&d->context, &d->context_room, (size_t)n + 1, sizeof *d->context) != 0)
        return device_decode_damaged(d, NULL);
    const struct mt_device_context *b = n ? &d->context[n - 1] : &first;
    struct mt_device_context *c = &d->context[n];
    if (device_decode_bytes_of(d, &d->contexts, &flags, 1) != 0)
        return -1;
    if (flags > 15 || (flags & 3) == 3)
        return device_decode_damaged(d, "has a warp with flags that have no meaning");
    for (unsigned i = 0; i < 3 && flags & 2; i++)
        if (number_signed(d, &d->contexts, &v[i]) != 0)
            return -1;
    if (flags & NEW_WARP && number_signed(d, &d->contexts, &v[3]) != 0)
        return -1;
    if (flags & NEW_SM && number_signed(d, &d->contexts, &v[4]) != 0)
        return -1;
    uint32_t x = (uint32_t)(b->cta >> 32) + (uint32_t)v[0] + (flags & 1);
    uint16_t y = (uint16_t)((b->cta >> 16) + v[1]), z = (uint16_t)(b->cta + v[2]);
    uint32_t warp = b->warp == MT_RUN_NO_WARP ? b->warp : flags & 3 ? 0 : b->warp + 1;
    *c = (struct mt_device_context){.cta = (uint64_t)x << 32 | (uint32_t)y << 16 | z,
                                    .address = d->before == NONE ? 0 : d->context[d->before].address,
                                    .warp = warp + (uint32_t)v[3],
                                    .smid = b->smid + (uint32_t)v[4],
                                    .successor = NONE};
    d->ncontexts++;
    return 0;
}

/* Decodes the run's context into d->before. */
static int device_decode_context_of(struct mt_device_decoder *d, unsigned token)
{
    uint64_t v;
    uint32_t before = d->before, now;
    switch (token & MT_RUN_CONTEXT) {
    case 0:
        return before == NONE ? device_decode_damaged(d, "begins in a warp that it does not name") : 0;
    case 1:
        if (before == NONE || (now = d->context[before].successor) == NONE)
            return device_decode_damaged(d, "continues in a warp that it does not name");
        break;
    case 2:
        if (number_signed(d, &d->contexts, &v) != 0)
            return -1;
        if (before == NONE || before + v >= d->ncontexts)
            return device_decode_damaged(d, "names a warp that was not there yet");
        now = (uint32_t)(before + v);
        break;
    default:
        if (new_context(d) != 0)
            return -1;
        now = d->ncontexts - 1;
    }
    if (before != NONE)
        d->context[before].successor = now;
    d->before = now;
    return 0;
}

/* ---- slots (accesses of the code) ---- */

static int device_decode_knows(const struct mt_device_decoder *d, uint64_t type)
{
    uint64_t most = d->features & MT_MTC_HAS_COPIES   ? MT_SYNC_COPY
                    : d->features & MT_MTC_HAS_SPACES ? MT_SYNC_WARP
                                                      : MT_UNKNOWN;
    return type <= most && mt_rec_known((uint32_t)type);
}

static int new_slot(struct mt_device_decoder *d)
{
    uint32_t n = d->nslots, before = n > 1 ? d->slot[n - 1].site : 0;
    uint64_t site, meta;
    if (mt_grow(&d->slot, &d->slot_room, (size_t)n + 1, sizeof *d->slot) != 0)
        return device_decode_damaged(d, NULL);
    if (number_signed(d, &d->shapes, &site) != 0 || device_decode_number(d, &d->shapes, &meta) != 0)
        return -1;
    if (!device_decode_knows(d, meta >> 28) || !(meta & ((1u << 28) - 1)))
        return device_decode_damaged(d, "has an access of no known type, or of 0 bytes");
    struct mt_device_slot *s = &d->slot[n];
    memset(s, 0, offsetof(struct mt_device_slot, shape));
    memset(&s->shape[0], 0, offsetof(struct shape, delta));
    memset(&s->shape[1], 0, offsetof(struct shape, delta));
    s->next = s->second = NONE;
    s->site = before + (uint32_t)site;
    s->meta = (uint32_t)meta;
    s->last = s->low = d->context[d->before].address;
    d->nslots++;
    return 0;
}

/* Returns the number of the slot, or NONE with d->why set. */
static uint32_t device_decode_slot_of(struct mt_device_decoder *d, unsigned token)
{
    uint32_t before = d->context[d->before].slot, now = NONE;
    uint64_t v;
    switch (token >> 2 & 3) {
    case 0:
        now = d->slot[before].next;
        break;
    case 1:
        now = d->slot[before].second;
        break;
    case 2:
        if (device_decode_number(d, &d->contexts, &v) != 0)
            return NONE;
        now = v > 0 && v < d->nslots ? (uint32_t)v : NONE;
        break;
    default:
        if (new_slot(d) != 0)
            return NONE;
        now = d->nslots - 1;
    }
    if (now == NONE) {
        device_decode_damaged(d, "names an access that was not there yet");
        return NONE;
    }
    struct mt_device_slot *p = &d->slot[before];
    if (now != p->next) {
        p->second = p->next;
        p->next = now;
    }
    return now;
}

/* ---- shapes (lanes) ---- */

/* Counts the bits of a mask. Old processors have no instruction for it, and a call takes longer. */
static inline uint32_t device_decode_bits(uint32_t x)
{
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24;
}

static int device_decode_new_shape(struct mt_device_decoder *d, struct mt_device_slot *s)
{
    struct shape *h = &s->shape[s->now ^= 1];
    unsigned char flags;
    uint64_t count = 32;
    h->irregular = 0;
    h->mask = UINT32_MAX;
    h->stride = s->meta & ((1u << 28) - 1);
    if (device_decode_bytes_of(d, &d->shapes, &flags, 1) != 0)
        return -1;
    if (flags > 7 || (flags & 3) == 3)
        return device_decode_damaged(d, "has lanes with flags that have no meaning");
    if (flags & NEW_MASK) {
        if (device_decode_bytes_of(d, &d->shapes, &h->mask, sizeof h->mask) != 0)
            return -1;
        count = device_decode_bits(h->mask);
    } else if (flags & NEW_COUNT) {
        h->mask = 0;
        if (device_decode_number(d, &d->shapes, &count) != 0)
            return -1;
    }
    if (count == 0 || count > MT_MTC_MAX_ACCESSES)
        return device_decode_damaged(d, "has a run of no lanes, or of too many");
    h->count = (uint32_t)count;
    return flags & NEW_STRIDE ? number_signed(d, &d->shapes, &h->stride) : 0;
}

/* Returns how many of n values of `width` bits can be read as words of 8 bytes. */
static uint32_t device_decode_words(size_t bytes, unsigned width, uint32_t n)
{
    const size_t most = bytes < 8 ? 0 : width ? (8 * (bytes - 8) + 7) / width + 1 : n;
    return most < n ? (uint32_t)most : n;
}

/* Reads values of `width` bits, lowest first, without reading beyond the last one, and shifts them. */
static void device_decode_unpack(const unsigned char *at, const unsigned char *end, unsigned width,
                                 unsigned shift, uint32_t n, uint64_t *out)
{
    const uint64_t keep = width == WHOLE ? UINT64_MAX : ((uint64_t)1 << width) - 1;
    const uint32_t words = device_decode_words((size_t)(end - at), width, n);
    uint64_t word;
    for (uint32_t i = 0; i < words; i++) {
        const size_t bit = (size_t)i * width;
        memcpy(&word, at + bit / 8, 8);
        out[i] = (word >> bit % 8 & keep) << shift;
    }
    for (uint32_t i = words; i < n; i++) {
        const size_t bit = (size_t)i * width;
        const unsigned char *p = at + bit / 8;
        word = 0;
        memcpy(&word, p, end - p < 8 ? (size_t)(end - p) : 8);
        out[i] = (word >> bit % 8 & keep) << shift;
    }
}

static int device_decode_gather(struct mt_device_decoder *d, struct mt_device_slot *s, int new_anchor,
                                uint64_t *base)
{
    const struct shape *was = &s->shape[s->now];
    struct shape *h = &s->shape[s->now ^= 1];
    unsigned char head[2];
    uint64_t count, v;
    if (new_anchor) {
        if (number_signed(d, &d->bases, &v) != 0)
            return -1;
        s->low += v;
    }
    if (device_decode_bytes_of(d, &d->lanes, head, 2) != 0)
        return -1;
    unsigned width = head[0] & 0x7f, shift = head[1];
    if ((width > PACKED_MAX && width != WHOLE) || shift > 63)
        return device_decode_damaged(d, "has lanes that are packed in no known way");
    h->irregular = 1;
    h->mask = was->mask;
    count = was->count;
    if (!(head[0] & SAME_LANES)) {
        if (device_decode_bytes_of(d, &d->lanes, &h->mask, sizeof h->mask) != 0)
            return -1;
        count = device_decode_bits(h->mask);
        if (!h->mask && device_decode_number(d, &d->lanes, &count) != 0)
            return -1;
    }
    if (count == 0 || count > MT_MTC_MAX_LANES)
        return device_decode_damaged(d, "has a gather of no lanes, or of too many");
    h->count = (uint32_t)count;
    size_t bytes = (count * width + 7) / 8;
    if ((size_t)(d->lanes.end - d->lanes.at) < bytes)
        return device_decode_damaged(d, "ends inside a column");
    device_decode_unpack(d->lanes.at, d->lanes.end, width, shift, h->count, h->delta);
    d->lanes.at += bytes;
    const uint64_t first = h->delta[0];
    *base = s->low + first;
    for (uint32_t i = 0; i < h->count; i++)
        h->delta[i] -= first;
    return 0;
}

/* ---- runs ---- */

/* Updates the predictions after a run. */
static inline void device_decode_note(struct mt_device_decoder *d, struct mt_device_slot *s, uint32_t slot,
                                      struct mt_device_own *own, uint64_t base)
{
    struct mt_device_context *x = &d->context[d->before];
    uint64_t who = (uint64_t)d->epoch << 42 | (uint64_t)d->before << 21 | slot;
    if (s->seen) {
        uint64_t difference = base - s->last;
        s->stride = difference == s->difference ? difference : s->stride;
        s->difference = difference;
    }
    if (own->who == who) {
        uint64_t difference = base - own->address;
        s->step = difference == s->own_difference ? difference : s->step;
        s->own_difference = difference;
    }
    *own = (struct mt_device_own){who, base};
    s->offset = base - x->address;
    s->last = base;
    s->seen = 1;
    x->address = base;
    x->slot = slot;
    __builtin_prefetch(&d->own[MT_MTC_OWN_PLACE(d->before, s->next)], 1); /* likely the next one */
}

static int base_of(struct mt_device_decoder *d, const struct mt_device_slot *s, uint32_t slot,
                   const struct mt_device_own *own, unsigned code, uint64_t *base)
{
    int mine = own->who == ((uint64_t)d->epoch << 42 | (uint64_t)d->before << 21 | slot);
    uint64_t v;
    switch (code) {
    case 0:
        *base = s->last + s->stride;
        return 0;
    case 1:
        *base = d->context[d->before].address + s->offset;
        return 0;
    case 2:
        *base = mine ? own->address + s->step : s->last;
        return 0;
    default:
        if (number_signed(d, &d->bases, &v) != 0)
            return -1;
        *base = (mine ? own->address : s->last) + v;
        return 0;
    }
}

static void device_decode_lanes(uint64_t *restrict lanes, uint64_t base, const uint64_t *restrict delta,
                                uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        lanes[i] = base + delta[i];
}

/* ---- blocks ---- */

static int device_decode_new_region(struct mt_device_decoder *d)
{
    uint64_t n, v, meta;
    unsigned char rows;
    if (d->nregions == MT_MTC_MAX_REGIONS)
        return device_decode_damaged(d, "has too many regions");
    if (mt_grow(&d->region, &d->region_room, (size_t)d->nregions + 1, sizeof *d->region) != 0)
        return device_decode_damaged(d, NULL);
    struct mt_device_region *g = &d->region[d->nregions];
    memset(g, 0, sizeof *g);
    g->warps = 1;
    g->laps = 1;
    if (device_decode_number(d, &d->shapes, &n) != 0)
        return -1;
    if (n < 1 || n > MT_MTC_REGION_ACCESSES)
        return device_decode_damaged(d, "has a region of no accesses, or of too many");
    for (g->n = 0; g->n < n; g->n++) {
        if (number_signed(d, &d->shapes, &v) != 0 || device_decode_number(d, &d->shapes, &meta) != 0 ||
            device_decode_bytes_of(d, &d->shapes, &rows, 1) != 0)
            return -1;
        d->newest += (uint32_t)v;
        if (!device_decode_knows(d, meta >> 28) || !(meta & ((1u << 28) - 1)))
            return device_decode_damaged(d, "has an access of no known type, or of 0 bytes");
        if (rows != 1 && rows != 2)
            return device_decode_damaged(d, "has a region with rows of no known length");
        if (number_signed(d, &d->shapes, &v) != 0)
            return -1;
        g->access[g->n].meta = (uint32_t)meta;
        g->access[g->n].site = d->newest;
        g->access[g->n].rows = rows;
        g->access[g->n].first = g->bases;
        g->access[g->n].stride = (int64_t)v;
        g->bases += rows;
    }
    d->nregions++;
    return 0;
}

/* Returns the block's region, or NULL with d->why set. */
static struct mt_device_region *device_decode_region(struct mt_device_decoder *d, unsigned token, int *same)
{
    uint64_t number = d->block;
    *same = !(token & MT_BLOCK_OTHER);
    if (!*same) {
        if (device_decode_number(d, &d->contexts, &number) != 0 ||
            (number == d->nregions && device_decode_new_region(d) != 0))
            return NULL;
    }
    if (number >= d->nregions) {
        device_decode_damaged(d, "names a region that was not there yet");
        return NULL;
    }
    d->block = (uint32_t)number;
    return &d->region[number];
}

/* Decodes who made the block's accesses. */
static int device_decode_who(struct mt_device_decoder *d, struct mt_device_region *g, unsigned flags,
                             int same)
{
    uint64_t v[3] = {0}, warp = 0, smid = 0, warps = g->warps, laps = g->laps, was = d->block_cta;
    if ((flags & MT_BLOCK_CTA) == MT_BLOCK_CTA)
        return device_decode_damaged(d, "has a block with flags that have no meaning");
    for (unsigned i = 0; i < 3 && flags & 2; i++)
        if (number_signed(d, &d->contexts, &v[i]) != 0)
            return -1;
    if ((flags & MT_BLOCK_WARP && number_signed(d, &d->contexts, &warp) != 0) ||
        (flags & MT_BLOCK_SM && number_signed(d, &d->contexts, &smid) != 0) ||
        (flags & MT_BLOCK_WARPS && device_decode_number(d, &d->contexts, &warps) != 0) ||
        (flags & MT_BLOCK_LAPS && device_decode_number(d, &d->contexts, &laps) != 0))
        return -1;
    if (!warps || !laps || warps > MT_MTC_MAX_ACCESSES || laps > MT_MTC_MAX_ACCESSES ||
        warps * laps > MT_MTC_MAX_ACCESSES / MT_MTC_MAX_LANES / g->n)
        return device_decode_damaged(d, "has a block of no accesses, or of too many");
    uint32_t x = (uint32_t)(was >> 32) + (uint32_t)v[0] + (flags & 1);
    uint16_t y = (uint16_t)((was >> 16) + v[1]), z = (uint16_t)(was + v[2]);
    d->block_warp = (flags & MT_BLOCK_CTA ? 0 : d->block_warp + (same ? g->warps : 0)) + (uint32_t)warp;
    d->block_cta = (uint64_t)x << 32 | (uint32_t)y << 16 | z;
    d->block_smid += (uint32_t)smid;
    g->warps = (uint32_t)warps;
    g->laps = laps;
    return 0;
}

static int device_decode_numbers(struct mt_device_decoder *d, uint64_t *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (number_signed(d, &d->shapes, &to[i]) != 0)
            return -1;
    return 0;
}

static void device_decode_begin(struct mt_device_decoder *d, const struct mt_device_region *g)
{
    d->at_warp = d->at_access = 0;
    d->at_lap = 0;
    d->left = g->warps * g->laps * g->n;
}

/* Goes on to the next block of those that do the same. */
static void device_decode_repeat(struct mt_device_decoder *d)
{
    struct mt_device_region *g = &d->region[d->block];
    uint32_t x = (uint32_t)(d->block_cta >> 32) + 1;
    d->block_cta = (uint64_t)x << 32 | (uint32_t)d->block_cta;
    d->block_smid = (d->block_smid + 1) % d->sms;
    d->block_warp = 0;
    for (uint32_t i = 0; i < g->bases; i++)
        g->base[i] += g->difference[i];
    d->repeats--;
    device_decode_begin(d, g);
}

static int device_decode_repeats(struct mt_device_decoder *d)
{
    uint64_t repeats, sms;
    if (device_decode_number(d, &d->contexts, &repeats) != 0 ||
        device_decode_number(d, &d->contexts, &sms) != 0)
        return -1;
    if (d->block >= d->nregions)
        return device_decode_damaged(d, "names a region that was not there yet");
    const struct mt_device_region *g = &d->region[d->block];
    if (!repeats || repeats > MT_MTC_MAX_ACCESSES / MT_MTC_MAX_LANES / (g->warps * g->laps * g->n) || !sms ||
        sms > UINT32_MAX)
        return device_decode_damaged(d, "has blocks of no accesses, or of too many");
    d->repeats = repeats;
    d->sms = (uint32_t)sms;
    device_decode_repeat(d);
    return 0;
}

static int device_decode_block(struct mt_device_decoder *d, unsigned token)
{
    unsigned char flags;
    uint64_t v = 0;
    int same;
    if (token == (MT_RUN_BLOCK | MT_BLOCK_REPEATS))
        return device_decode_repeats(d);
    if (token & ~(unsigned)(MT_RUN_BLOCK | MT_BLOCK_OTHER | MT_BLOCK_BASES))
        return device_decode_damaged(d, "has a token that has no meaning");
    struct mt_device_region *g = device_decode_region(d, token, &same);
    if (!g || device_decode_bytes_of(d, &d->contexts, &flags, 1) != 0 ||
        device_decode_who(d, g, flags, same) != 0 ||
        (flags & MT_BLOCK_APART && device_decode_numbers(d, g->apart, g->bases) != 0) ||
        (flags & MT_BLOCK_STEPS && device_decode_numbers(d, g->step, g->n) != 0))
        return -1;
    for (uint32_t i = 0; i < g->bases; i++) {
        if (token & MT_BLOCK_BASES && number_signed(d, &d->bases, &v) != 0)
            return -1;
        g->difference[i] += v;
        g->base[i] += g->difference[i];
    }
    device_decode_begin(d, g);
    return 0;
}

/* Returns the next run of the block. */
static void device_decode_block_run(struct mt_device_decoder *d, struct mt_access_run *r, uint64_t *lanes)
{
    const struct mt_device_region *g = &d->region[d->block];
    uint32_t i = d->at_access, b = g->access[i].first;
    uint64_t far = d->at_lap * g->step[i], base = g->base[b] + d->at_warp * g->apart[b] + far,
             stride = (uint64_t)g->access[i].stride;
    *r = (struct mt_access_run){.base = base,
                                .stride = (int64_t)stride,
                                .cta = d->block_cta,
                                .smid = d->block_smid,
                                .meta = g->access[i].meta,
                                .count = MT_MTC_MAX_LANES,
                                .mask = UINT32_MAX,
                                .warp = d->block_warp + d->at_warp,
                                .site = g->access[i].site};
    uint64_t second = g->access[i].rows == 2 ? g->base[b + 1] + d->at_warp * g->apart[b + 1] + far
                                             : base + MT_MTC_MAX_LANES / 2 * stride;
    if (second != base + MT_MTC_MAX_LANES / 2 * stride) {
        for (uint32_t k = 0; k < MT_MTC_MAX_LANES / 2; k++) {
            lanes[k] = base + k * stride;
            lanes[MT_MTC_MAX_LANES / 2 + k] = second + k * stride;
        }
        r->addresses = lanes;
    }
    d->accesses += MT_MTC_MAX_LANES;
    d->left--;
    if (++d->at_access < g->n)
        return;
    d->at_access = 0;
    if (++d->at_lap < g->laps)
        return;
    d->at_lap = 0;
    d->at_warp++;
    if (!d->left && d->repeats)
        device_decode_repeat(d);
}

static int device_decode_run(struct mt_device_decoder *d, struct mt_access_run *r, uint64_t *lanes)
{
    unsigned token = *d->tokens.at++, code = token >> 4 & 3;
    uint64_t base = 0;
    if (device_decode_context_of(d, token) != 0)
        return -1;
    uint32_t slot = device_decode_slot_of(d, token);
    if (slot == NONE)
        return -1;
    struct mt_device_slot *s = &d->slot[slot];
    struct mt_device_own *own = &d->own[MT_MTC_OWN_PLACE(d->before, slot)];
    switch (token >> 6) {
    case 1:
        s->now ^= 1;
        break;
    case 2:
        if (device_decode_new_shape(d, s) != 0)
            return -1;
        break;
    case 3:
        if (code > 1)
            return device_decode_damaged(d, "has a token that has no meaning");
        if (device_decode_gather(d, s, code == 1, &base) != 0)
            return -1;
        break;
    default:
        break;
    }
    const struct shape *h = &s->shape[s->now];
    if (!h->count)
        return device_decode_damaged(d, "has a run of lanes that it does not name");
    if (token >> 6 != 3 && base_of(d, s, slot, own, code, &base) != 0)
        return -1;
    device_decode_note(d, s, slot, own, base);
    d->accesses += h->count;
    const struct mt_device_context *x = &d->context[d->before];
    *r = (struct mt_access_run){.base = base,
                                .stride = (int64_t)h->stride,
                                .addresses = h->irregular ? lanes : NULL,
                                .cta = x->cta,
                                .smid = x->smid,
                                .meta = s->meta,
                                .count = h->count,
                                .mask = h->mask,
                                .warp = x->warp,
                                .site = s->site};
    if (h->irregular)
        device_decode_lanes(lanes, base, h->delta, h->count);
    return 0;
}

int mt_device_decode_next(struct mt_device_decoder *d, struct mt_access_run *runs, uint64_t *lanes,
                          size_t capacity, size_t *count)
{
    size_t n = 0;
    int rc = 0;
    while (rc == 0 && n < capacity && mt_device_decode_more(d)) {
        if (!d->left && d->features & MT_MTC_HAS_BLOCKS && (*d->tokens.at & MT_RUN_BLOCK) == MT_RUN_BLOCK)
            rc = device_decode_block(d, *d->tokens.at++);
        if (d->left) {
            if (n + DEVICE_AHEAD < capacity)
                __builtin_prefetch(&runs[n + DEVICE_AHEAD], 1); /* another processor has read it */
            device_decode_block_run(d, &runs[n], lanes);
        } else if (rc == 0)
            rc = device_decode_run(d, &runs[n], lanes);
        if (rc == 0 && d->accesses > MT_MTC_MAX_ACCESSES)
            rc = device_decode_damaged(d, "has more accesses than any has");
        if (rc != 0)
            break;
        if (mt_rec_space(runs[n].meta >> 28) && !d->spaces)
            continue;
        lanes += runs[n].addresses ? runs[n].count : 0;
        n++;
    }
    *count = n;
    if (rc == 0 && n == 0 && !mt_device_decode_done(d))
        return device_decode_damaged(d, "has bytes in its columns that belong to no run");
    return rc;
}

int mt_device_decode_more(const struct mt_device_decoder *d)
{
    return d->left || d->tokens.at < d->tokens.end;
}

int mt_device_decode_done(const struct mt_device_decoder *d)
{
    return !mt_device_decode_more(d) && d->contexts.at == d->contexts.end && d->shapes.at == d->shapes.end &&
           d->bases.at == d->bases.end && d->lanes.at == d->lanes.end;
}
