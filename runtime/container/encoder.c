/* Entries of a thread -> payload of a host chunk: docs/trace-format.md, "Host chunk". */
#define _GNU_SOURCE
#include "container/writer.h"
#include "container/pages.h"
#include <string.h>

enum {
    RUN_MAX = 128,     /* accesses in one run token */
    ENTRY_BYTES = 32,  /* most that one entry takes: token 1, site 5, address 10, size 5, time 10 */
    EVENT_ARGS_MAX = 8 /* as struct mt_host_item has room for */
};
enum { TOKEN_ACCESS = 0x80, TOKEN_EVENT = 0xc0 };
enum { HAS_SITE = 1, HAS_ADDRESS = 2, HAS_SIZE = 4, HAS_TIME = 8, SECOND_SITE = 16 };

/* What is known of a site. One cache line each: the hot loop touches one of these per access. */
struct site {
    uint64_t last, stride, difference, offset;
    uint32_t next, second; /* the two last different successors, latest first */
    uint32_t size;
    uint32_t epoch; /* number of the chunk that this belongs to: a new chunk forgets all at once */
    uint32_t relative;
    uint32_t pad[3];
};

struct mt_mtc_encoder {
    struct site *sites; /* by number */
    uint64_t nsites;
    uint32_t epoch;
    unsigned char *out;
    size_t out_room;
};

/* The state while a chunk is made. */
struct work {
    struct mt_mtc_encoder *e;
    unsigned char *out;
    uint32_t previous; /* site */
    unsigned run;
    uint64_t address, time, items, seq;
};

struct mt_mtc_encoder *mt_mtc_encoder_new(void)
{
    return mt_pages(sizeof(struct mt_mtc_encoder));
}

void mt_mtc_encoder_free(struct mt_mtc_encoder *e)
{
    if (!e)
        return;
    mt_pages_free(e->sites, e->nsites * sizeof *e->sites);
    mt_pages_free(e->out, e->out_room);
    mt_pages_free(e, sizeof *e);
}

/* Room for `site` in the table; -1: no memory. Untouched parts cost address space only. */
static int grow(struct mt_mtc_encoder *e, uint32_t site)
{
    uint64_t want = e->nsites * 2 > 1024 ? e->nsites * 2 : 1024;
    if (want <= site)
        want = ((uint64_t)site | 1023) + 1;
    struct site *sites = mt_pages(want * sizeof *sites);
    if (!sites)
        return -1;
    if (e->nsites)
        memcpy(sites, e->sites, e->nsites * sizeof *sites);
    mt_pages_free(e->sites, e->nsites * sizeof *sites);
    e->sites = sites;
    e->nsites = want;
    return 0;
}

/* Room for the output, and a clean table. 0, or -1 without memory. */
static int begin(struct mt_mtc_encoder *e, size_t count)
{
    size_t want = (count + 1) * ENTRY_BYTES;
    if (count > MT_MTC_MAX_ITEMS)
        return -1;
    if (want > e->out_room) {
        mt_pages_free(e->out, e->out_room);
        e->out_room = 0;
        if (!(e->out = mt_pages(want)))
            return -1;
        e->out_room = want;
    }
    if (!e->nsites && grow(e, 0) != 0)
        return -1;
    if (++e->epoch == 0) { /* after 2^32 chunks */
        memset(e->sites, 0, e->nsites * sizeof *e->sites);
        e->epoch = 1;
    }
    memset(&e->sites[0], 0, sizeof e->sites[0]); /* stands for "before the first access" */
    return 0;
}

static unsigned char *put(unsigned char *out, uint64_t v)
{
    while (v >= 0x80) {
        *out++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *out++ = (unsigned char)v;
    return out;
}

static unsigned char *put_signed(unsigned char *out, uint64_t v)
{
    return put(out, v << 1 ^ (0 - (v >> 63)));
}

static void end_run(struct work *w)
{
    if (w->run)
        *w->out++ = (unsigned char)(w->run - 1);
    w->run = 0;
}

/* The entry at `at`, whichever kind it is. */
static inline __attribute__((always_inline)) struct mt_host_timed_entry fetch(const char *at, int timed)
{
    struct mt_host_timed_entry t;
    struct mt_host_entry e;
    if (timed) {
        memcpy(&t, at, sizeof t);
        return t;
    }
    memcpy(&e, at, sizeof e);
    return (struct mt_host_timed_entry){e.address, 0, e.site, e.size};
}
static inline size_t entry_bytes(int timed)
{
    return timed ? sizeof(struct mt_host_timed_entry) : sizeof(struct mt_host_entry);
}

/* An event at `at`, `left` entries from the end; returns how many entries it takes. */
static size_t event(struct work *w, const char *at, size_t left, int timed)
{
    static const unsigned char least[64] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = args,
#include "memtrace/container.def"
    };
    struct mt_host_timed_entry first = fetch(at, timed), next;
    unsigned kind = first.size & 63;
    size_t more = 0; /* arguments behind the first */
    while (more + 1 < left) {
        next = fetch(at + (more + 1) * entry_bytes(timed), timed);
        if (next.site || next.size)
            break;
        more++;
    }
    size_t args = more ? more + 1 : least[kind] || first.address;
    end_run(w);
    *w->out++ = (unsigned char)(TOKEN_EVENT | kind);
    if (timed)
        w->out = put_signed(w->out, first.time - w->time);
    w->time = first.time;
    args = args < EVENT_ARGS_MAX ? args : EVENT_ARGS_MAX;
    *w->out++ = (unsigned char)args;
    for (size_t i = 0; i < args; i++)
        w->out = put(w->out, fetch(at + i * entry_bytes(timed), timed).address);
    if (kind == MT_HOST_EV_SEQ)
        w->seq = first.address;
    w->items++;
    return 1 + more;
}

static inline uint64_t expected_time(const struct work *w, uint32_t site)
{
    return w->time + !MT_HOST_OPERAND(site);
}

/* Token and site state of an access that is not as predicted (that of a new site never is). `p`:
 * the site before it. */
static void single(struct work *w, struct site *p, struct site *s, const struct mt_host_timed_entry *a,
                   int timed)
{
    int seen = s->epoch == w->e->epoch;
    if (!seen)
        *s = (struct site){.last = w->address, .epoch = w->e->epoch};
    uint64_t by_stride = s->last + s->stride, by_offset = w->address + s->offset;
    uint64_t predicted = seen && s->relative ? by_offset : by_stride;
    unsigned what = 0;
    if (p->next != a->site) {
        what |= p->second == a->site ? SECOND_SITE : HAS_SITE;
        p->second = p->next;
        p->next = a->site;
    }
    what |= (a->address != predicted ? HAS_ADDRESS : 0u) | (a->size != s->size ? HAS_SIZE : 0u) |
            (timed && a->time != expected_time(w, a->site) ? HAS_TIME : 0u);
    end_run(w);
    *w->out++ = (unsigned char)(TOKEN_ACCESS | what);
    if (what & HAS_SITE)
        w->out = put_signed(w->out, (uint64_t)a->site - w->previous);
    if (what & HAS_ADDRESS)
        w->out = put_signed(w->out, a->address - predicted);
    if (what & HAS_SIZE)
        w->out = put(w->out, a->size);
    if (what & HAS_TIME)
        w->out = put_signed(w->out, a->time - expected_time(w, a->site));
    if (seen) {
        uint64_t d = a->address - s->last;
        if ((a->address == by_stride) != (a->address == by_offset))
            s->relative = a->address == by_offset;
        if (d == s->difference)
            s->stride = d;
        s->difference = d;
    }
    s->size = a->size;
}

/* Inlined twice, with and without times. 0, or -1 without memory. */
static inline __attribute__((always_inline)) int encode(struct work *w, const char *at, size_t count,
                                                        int timed)
{
    const uint32_t epoch = w->e->epoch;
    struct site *p = &w->e->sites[0];
    for (size_t i = 0; i < count;) {
        const struct mt_host_timed_entry a = fetch(at, timed);
        if (a.site == 0) {
            size_t n = event(w, at, count - i, timed);
            i += n;
            at += n * entry_bytes(timed);
            continue;
        }
        if (__builtin_expect(a.site >= w->e->nsites, 0)) {
            if (grow(w->e, a.site) != 0)
                return -1;
            p = &w->e->sites[w->previous];
        }
        struct site *s = &w->e->sites[a.site];
        uint64_t d = a.address - s->last;
        int known = s->epoch == epoch && p->next == a.site && s->size == a.size &&
                    (s->relative ? a.address == w->address + s->offset : d == s->stride) &&
                    (!timed || a.time == expected_time(w, a.site));
        if (__builtin_expect(known, 1)) {
            if (++w->run == RUN_MAX)
                end_run(w);
            s->stride = d == s->difference ? d : s->stride;
            s->difference = d;
        } else {
            single(w, p, s, &a, timed);
        }
        s->offset = a.address - w->address;
        s->last = a.address;
        w->address = a.address;
        w->previous = a.site;
        w->time = timed ? a.time : 0;
        w->items++;
        p = s;
        i++;
        at += entry_bytes(timed);
    }
    end_run(w);
    return 0;
}

static size_t finish(const struct work *w, uint64_t *items, uint64_t *seq, const void **payload)
{
    *items = w->items;
    *seq = w->seq;
    *payload = w->e->out;
    return (size_t)(w->out - w->e->out);
}

size_t mt_mtc_encode(struct mt_mtc_encoder *e, const struct mt_host_entry *entries, size_t count,
                     uint64_t *items, uint64_t *seq, const void **payload)
{
    if (begin(e, count) != 0)
        return 0;
    struct work w = {.e = e, .out = e->out, .seq = *seq};
    return encode(&w, (const char *)entries, count, 0) == 0 ? finish(&w, items, seq, payload) : 0;
}

size_t mt_mtc_encode_timed(struct mt_mtc_encoder *e, const struct mt_host_timed_entry *entries, size_t count,
                           uint64_t *items, uint64_t *seq, const void **payload)
{
    if (begin(e, count) != 0)
        return 0;
    struct work w = {.e = e, .out = e->out, .seq = *seq};
    return encode(&w, (const char *)entries, count, 1) == 0 ? finish(&w, items, seq, payload) : 0;
}
