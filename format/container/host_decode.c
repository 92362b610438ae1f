/* Decoder of the payload of a host chunk to records and events: docs/trace-format.md, "Host chunk". */
#include "host_decode.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

enum { TOKEN_ACCESS = 0x80, TOKEN_ACCESS_END = 0xa0, TOKEN_EVENT = 0xc0, ARGS_MAX = 8 };
enum { HAS_SITE = 1, HAS_ADDRESS = 2, HAS_SIZE = 4, HAS_TIME = 8, SECOND_SITE = 16 };

int mt_decode_start(struct mt_decoder *d, const void *payload, size_t bytes, int timed, uint64_t seq)
{
    if (!d->sites) {
        d->sites = malloc(64 * sizeof *d->sites);
        if (!d->sites)
            return -1;
        d->room = 64;
    }
    mt_hash_clear(&d->numbers);
    memset(&d->sites[0], 0, sizeof d->sites[0]);
    d->nsites = 1;
    d->begin = d->at = payload;
    d->end = d->begin + bytes;
    d->timed = timed;
    d->previous = d->run = 0;
    d->address = d->time = d->items = 0;
    d->seq = seq;
    d->failed = 0;
    d->why = NULL;
    return 0;
}

void mt_decode_free(struct mt_decoder *d)
{
    free(d->sites);
    mt_hash_free(&d->numbers);
    memset(d, 0, sizeof *d);
}

static int host_decode_damaged(struct mt_decoder *d, const char *why)
{
    d->why = why;
    return -1;
}

static int host_decode_get(struct mt_decoder *d, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; d->at < d->end; shift += 7) {
        uint64_t byte = *d->at++;
        if (shift == 63 && byte > 1)
            return host_decode_damaged(d, "has a number of more than 64 bits");
        v |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return 0;
        }
    }
    return host_decode_damaged(d, "ends inside a number");
}

static int get_signed(struct mt_decoder *d, uint64_t *out)
{
    uint64_t v;
    if (host_decode_get(d, &v) != 0)
        return -1;
    *out = v >> 1 ^ (0 - (v & 1));
    return 0;
}

/* Returns the index of a site; a new site is predicted at the previous access's address. -1: no memory. */
static int64_t host_decode_position(struct mt_decoder *d, uint32_t site)
{
    uint64_t known = mt_hash_find(&d->numbers, site);
    if (known)
        return (int64_t)known;
    if (d->nsites > MT_MTC_MAX_ITEMS)
        return host_decode_damaged(d, "has more sites than a chunk has items");
    if (mt_grow(&d->sites, &d->room, (size_t)d->nsites + 1, sizeof *d->sites) != 0)
        return -1;
    if (mt_hash_put(&d->numbers, site, d->nsites) != 0)
        return -1;
    d->sites[d->nsites] = (struct mt_decode_site){
        .site = site, .last = d->address, .table = d->size_of ? d->size_of(d->arg, site) : 0};
    return d->nsites++;
}

static inline void host_decode_emit(struct mt_decoder *d, const struct mt_decode_site *s,
                                    struct mt_host_record *out)
{
    out->address = d->address;
    out->time = d->time;
    out->site = s->site;
    out->size = s->size ? s->size : s->table;
}

static inline uint64_t next_time(const struct mt_decoder *d, uint32_t site)
{
    return d->timed ? d->time + !MT_HOST_OPERAND(site) : 0;
}

/* Updates the state after an access at `address` by a known site. */
static inline void seen_again(struct mt_decoder *d, struct mt_decode_site *s, uint64_t address)
{
    uint64_t by_stride = s->last + s->stride, by_offset = d->address + s->offset, diff = address - s->last;
    if ((address == by_stride) != (address == by_offset))
        s->relative = address == by_offset;
    if (diff == s->difference)
        s->stride = diff;
    s->difference = diff;
}

static inline void host_decode_accessed(struct mt_decoder *d, struct mt_decode_site *s, uint64_t address)
{
    s->offset = address - d->address;
    s->last = address;
    d->address = address;
}

static inline uint64_t host_decode_predicted(const struct mt_decoder *d, const struct mt_decode_site *s)
{
    return s->relative ? d->address + s->offset : s->last + s->stride;
}

/* Decodes up to `n` predicted accesses. Returns their number, or -1. */
static int64_t host_decode_run(struct mt_decoder *d, struct mt_host_record *out, size_t n)
{
    struct mt_decode_site *p = &d->sites[d->previous];
    for (size_t i = 0; i < n; i++) {
        if (!p->next) {
            d->previous = (uint32_t)(p - d->sites);
            return i ? (int64_t)i : host_decode_damaged(d, "predicts an access where nothing is known");
        }
        struct mt_decode_site *s = &d->sites[p->next];
        uint64_t address = host_decode_predicted(d, s);
        d->time = next_time(d, s->site);
        seen_again(d, s, address);
        host_decode_accessed(d, s, address);
        host_decode_emit(d, s, &out[i]);
        p = s;
    }
    d->previous = (uint32_t)(p - d->sites);
    return (int64_t)n;
}

/* Decodes the site of an access with token `what`. Returns its index, or 0 with d->why (NULL: no memory). */
static uint32_t host_decode_site_of(struct mt_decoder *d, unsigned what)
{
    struct mt_decode_site *p = &d->sites[d->previous];
    uint32_t next = p->next;
    if (what & SECOND_SITE) {
        next = what & HAS_SITE ? 0 : p->second;
    } else if (what & HAS_SITE) {
        uint64_t diff;
        if (get_signed(d, &diff) != 0)
            return 0;
        uint64_t site = p->site + diff;
        if (site < 4 || site > UINT32_MAX) {
            host_decode_damaged(d, "names a site that cannot be");
            return 0;
        }
        int64_t at = host_decode_position(d, (uint32_t)site);
        if (at < 0)
            return 0;
        next = (uint32_t)at;
    }
    if (!next) {
        host_decode_damaged(d, "names no site");
        return 0;
    }
    p = &d->sites[d->previous]; /* the array may have moved */
    if (next != p->next) {
        p->second = p->next;
        p->next = next;
    }
    return next;
}

static int host_decode_single(struct mt_decoder *d, unsigned what, struct mt_host_record *out)
{
    uint32_t before = d->nsites, at = host_decode_site_of(d, what);
    if (!at)
        return -1;
    struct mt_decode_site *s = &d->sites[at];
    uint64_t address = host_decode_predicted(d, s), diff;
    if (what & HAS_ADDRESS) {
        if (get_signed(d, &diff) != 0)
            return -1;
        address += diff;
    }
    if (what & HAS_SIZE) {
        if (host_decode_get(d, &diff) != 0)
            return -1;
        if (diff > UINT32_MAX)
            return host_decode_damaged(d, "has an access of 4 GiB or more");
        s->size = (uint32_t)diff;
    }
    d->time = next_time(d, s->site);
    if (what & HAS_TIME) {
        if (!d->timed)
            return host_decode_damaged(d, "has times, which its container has not");
        if (get_signed(d, &diff) != 0)
            return -1;
        d->time += diff;
    }
    if (at < before)
        seen_again(d, s, address);
    host_decode_accessed(d, s, address);
    host_decode_emit(d, s, out);
    d->previous = at;
    return 0;
}

static int host_decode_event(struct mt_decoder *d, struct mt_host_item *item)
{
    static const unsigned char least[64] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = args,
#include "memtrace/container.def"
    };
    unsigned kind = *d->at++ & 63;
    uint64_t n;
    if (d->timed) {
        if (get_signed(d, &n) != 0)
            return -1;
        d->time += n;
    }
    if (host_decode_get(d, &n) != 0)
        return -1;
    if (kind == 0 || n > ARGS_MAX || n < least[kind])
        return host_decode_damaged(d, "has an event that cannot be");
    item->kind = MT_HOST_ITEM_EVENT;
    item->event = (enum mt_host_event)kind;
    item->nargs = (unsigned)n;
    for (size_t i = 0; i < n; i++)
        if (host_decode_get(d, &item->args[i]) != 0)
            return -1;
    if (kind == MT_HOST_EV_SEQ)
        d->seq = item->args[0];
    item->time = d->time;
    item->seq = d->seq;
    d->items++;
    return 0;
}

int mt_decode_next(struct mt_decoder *d, struct mt_host_record *room, size_t capacity, size_t *count,
                   struct mt_host_item *item)
{
    size_t n = 0;
    int bad = d->failed;
    *count = 0;
    while (!bad && n < capacity) {
        if (d->run) {
            int64_t made = host_decode_run(d, room + n, d->run < capacity - n ? d->run : capacity - n);
            bad = made < 0;
            d->run -= bad ? 0 : (unsigned)made;
            n += bad ? 0 : (size_t)made;
        } else if (d->at == d->end) {
            break;
        } else if (*d->at < TOKEN_ACCESS) {
            d->run = *d->at++ + 1u;
        } else if (*d->at < TOKEN_ACCESS_END) {
            bad = host_decode_single(d, *d->at++ & 31, &room[n]) != 0;
            n += !bad;
        } else if (*d->at < TOKEN_EVENT) {
            bad = host_decode_damaged(d, "has a token that has no meaning") != 0;
        } else if (n) {
            break;
        } else {
            memset(item, 0, sizeof *item);
            d->failed = host_decode_event(d, item) != 0;
            return d->failed ? -1 : 1;
        }
    }
    d->failed = bad;
    d->items += n;
    *count = n;
    return n ? 1 : bad ? -1 : 0;
}
