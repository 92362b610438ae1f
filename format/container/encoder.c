/* Entries of a thread -> payload of a host chunk: docs/trace-format.md, "Host chunk". */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "writer.h"
#include "leb.h"
#include "pages.h"
#include "repeats.h"
#include <string.h>

enum {
    RUN_MAX = 128,      /* accesses in one run token */
    ENTRY_BYTES = 32,   /* most that one entry takes: token 1, site 5, address 10, size 5, time 10 */
    EVENT_ARGS_MAX = 8, /* as struct mt_host_item has room for */
    CALM = 32           /* so many accesses as predicted: worth a look whether they repeat with a period */
};
_Static_assert(2 * MT_PERIOD_MAX < CALM, "two periods and the access before them");
enum { TOKEN_ACCESS = 0x80, TOKEN_EVENT = 0xc0 };
#define NONE UINT32_MAX
enum { HAS_SITE = 1, HAS_ADDRESS = 2, HAS_SIZE = 4, HAS_TIME = 8, SECOND_SITE = 16 };

/* What is known of a site. One cache line each: the hot loop touches one of these per access. */
struct site {
    uint64_t last, stride, difference, offset;
    uint32_t next, second; /* the two last different successors, latest first; NONE: none */
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

/* Whether the chunk has times, and where they are. The functions below are inlined for each. */
enum times {
    NO_TIMES,
    TIMES,  /* in the entries */
    COUNTED /* not in the entries: see mt_mtc_encode_counted */
};

/* The state while a chunk is made. */
struct work {
    struct mt_mtc_encoder *e;
    unsigned char *out;
    uint64_t time, items, seq;
    uint64_t shift;    /* COUNTED: how much later the next entry is than it would be */
    uint64_t repeated; /* accesses that were left out */
};

/* The access before. */
struct before {
    uint64_t address, time;
    uint32_t site, epoch; /* epoch: of the chunk */
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
static int encoder_grow(struct mt_mtc_encoder *e, uint32_t site)
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
static int encoder_begin(struct mt_mtc_encoder *e, size_t count)
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
    if (!e->nsites && encoder_grow(e, 0) != 0)
        return -1;
    if (++e->epoch == 0) { /* after 2^32 chunks */
        memset(e->sites, 0, e->nsites * sizeof *e->sites);
        e->epoch = 1;
    }
    e->sites[0] = (struct site){.next = NONE, .second = NONE}; /* stands for "before the first access" */
    return 0;
}

/* mt_leb() without a branch for values below 2^56: each group of 7 bits to its byte, and 8 bytes stored, of
 * which those after the last one will be written over. */
static inline unsigned char *put_fast(unsigned char *out, uint64_t v)
{
    if (__builtin_expect(v >> 56 != 0, 0))
        return mt_leb(out, v);
    unsigned more = (63u - (unsigned)__builtin_clzll(v | 1)) * 37 >> 8; /* bytes after the first: bits / 7 */
    v = (v & 0x00fffffff0000000u) << 4 | (v & 0x000000000fffffffu);
    v = (v & 0x0fffc0000fffc000u) << 2 | (v & 0x00003fff00003fffu);
    v = (v & 0x3f803f803f803f80u) << 1 | (v & 0x007f007f007f007fu);
    v |= 0x8080808080808080u & (((uint64_t)1 << 8 * more) - 1);
    memcpy(out, &v, sizeof v); /* x86-64: lowest byte first */
    return out + more + 1;
}

static inline unsigned char *end_run(unsigned char *out, unsigned run)
{
    *out = (unsigned char)(run - 1); /* without a run it is written over */
    return out + (run != 0);
}

/* The entry at `at`, whichever kind it is. */
static inline __attribute__((always_inline)) struct mt_host_timed_entry encoder_fetch(const char *at,
                                                                                      enum times timed)
{
    struct mt_host_timed_entry t;
    struct mt_host_entry e;
    if (timed == TIMES) {
        memcpy(&t, at, sizeof t);
        return t;
    }
    memcpy(&e, at, sizeof e);
    return (struct mt_host_timed_entry){e.address, 0, e.site, e.size};
}
static inline size_t entry_bytes(enum times timed)
{
    return timed == TIMES ? sizeof(struct mt_host_timed_entry) : sizeof(struct mt_host_entry);
}

/* An event at `at`, `left` entries from the end; returns how many entries it takes. */
static size_t encoder_event(struct work *w, const char *at, size_t left, enum times timed)
{
    static const unsigned char least[64] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = args,
#include "memtrace/container.def"
    };
    struct mt_host_timed_entry first = encoder_fetch(at, timed), next;
    unsigned kind = first.size & 63;
    size_t more = 0; /* arguments after the first */
    while (more + 1 < left) {
        next = encoder_fetch(at + (more + 1) * entry_bytes(timed), timed);
        if (next.site || next.size)
            break;
        more++;
    }
    size_t args = more ? more + 1 : least[kind] || first.address;
    *w->out++ = (unsigned char)(TOKEN_EVENT | kind);
    if (timed)
        w->out = mt_leb_signed(w->out, timed == TIMES ? first.time - w->time : w->shift);
    w->time = first.time;
    w->shift = 0;
    args = args < EVENT_ARGS_MAX ? args : EVENT_ARGS_MAX;
    *w->out++ = (unsigned char)args;
    for (size_t i = 0; i < args; i++)
        w->out = mt_leb(w->out, encoder_fetch(at + i * entry_bytes(timed), timed).address);
    if (kind == MT_HOST_EV_SEQ)
        w->seq = first.address;
    return 1 + more;
}

/* An access that is not as predicted: its token, and what that changes for the sites before the caller notes
 * where it was. `p`: the site before. `other`: the site is not the predicted one. Always inlined with a
 * constant `other`, and few branches beyond that: they could not be foreseen. */
static inline __attribute__((always_inline)) unsigned char *
encoder_single(unsigned char *out, struct site *p, struct site *s, const struct mt_host_timed_entry a,
               const struct before b, enum times timed, uint64_t shift, unsigned other)
{
    int seen = !other || s->epoch == b.epoch;
    if (__builtin_expect(!seen, 0))
        *s = (struct site){.last = b.address, .epoch = b.epoch, .next = NONE, .second = NONE};
    uint64_t d = a.address - s->last,
             late = timed == TIMES ? a.time - b.time - !MT_HOST_OPERAND(a.site) : shift;
    uint64_t from_stride = d - s->stride, from_offset = a.address - b.address - s->offset;
    uint64_t off = s->relative ? from_offset : from_stride;
    unsigned what = (off ? HAS_ADDRESS : 0u) | (a.size != s->size ? HAS_SIZE : 0u) |
                    (timed && late ? HAS_TIME : 0u) | other * (p->second == a.site ? SECOND_SITE : HAS_SITE);
    *out++ = (unsigned char)(TOKEN_ACCESS | what);
    if (__builtin_expect(what & HAS_SITE, 0))
        out = mt_leb_signed(out, (uint64_t)a.site - b.site);
    if (off) {
        out = put_fast(out, off << 1 ^ (0 - (off >> 63)));
        if (__builtin_expect(seen, 1))
            s->relative = !from_stride == !from_offset ? s->relative : !from_offset;
    }
    if (__builtin_expect(what & HAS_SIZE, 0))
        out = mt_leb(out, a.size);
    if (timed && what & HAS_TIME)
        out = mt_leb_signed(out, late);
    if (other) {
        p->second = p->next;
        p->next = a.site;
    }
    s->size = a.size;
    if (__builtin_expect(seen, 1)) {
        s->stride = d == s->difference ? d : s->stride;
        s->difference = d;
    }
    return out;
}

/* 1: the access, of the predicted site, is as predicted in all else, and what that changes is done. */
static inline __attribute__((always_inline)) int
encoder_known(struct site *s, const struct mt_host_timed_entry a, const struct before b, enum times timed)
{
    uint64_t d = a.address - s->last;
    if (s->size != a.size || (timed == TIMES && a.time != b.time + !MT_HOST_OPERAND(a.site)))
        return 0;
    if (!s->relative) {
        if (d != s->stride)
            return 0;
    } else {
        if (a.address - b.address != s->offset)
            return 0;
        if (d == s->difference)
            s->stride = d;
    }
    s->difference = d;
    return 1;
}

/* The sites know where the two periods up to `e` were, whose sites are all different, and from each access of
 * one to that of the other it is step[k], for the access k before `e`; step[period] is step[0] again. 1: what
 * goes on so will be as predicted. */
static int encoder_steady(const struct site *sites, const struct mt_host_entry *e, size_t period,
                          uint64_t *step)
{
    for (size_t k = 0; k < period; k++) {
        const struct mt_host_entry *now = e - k, *was = now - period;
        if (now->site != was->site || now->size != was->size)
            return 0;
        step[k] = now->address - was->address;
    }
    step[period] = step[0];
    for (size_t k = 0; k < period; k++) {
        const struct site *s = &sites[e[0 - k].site];
        if (s->relative ? step[k] != step[k + 1] : step[k] != s->stride)
            return 0;
    }
    return 1;
}

/* What the `n` accesses up to `e`, which were as predicted, change; `e` has a period and one more before it.
 */
static void encoder_moved(struct site *sites, const struct mt_host_entry *e, size_t n, size_t period)
{
    for (size_t k = 0; k < period && k < n; k++) {
        const struct mt_host_entry *now = e - k;
        struct site *s = &sites[now->site];
        s->last = now->address;
        s->offset = now->address - now[-1].address;
        s->stride = s->difference = now->address - now[0 - period].address;
    }
}

/* The CALM entries up to `e` were as predicted, and the sites know where they were. If they went round and
 * round, as in a loop: how many of the `left` after them go on so, which makes them as predicted, too. Does
 * what that changes, at the price of a comparison for each. */
static size_t encoder_skip(struct site *sites, const struct mt_host_entry *e, size_t left)
{
    uint64_t step[MT_PERIOD_MAX + 1];
    size_t period = mt_repeats_period(e - CALM + 1, e);
    if (!period || !encoder_steady(sites, e, period, step))
        return 0;
    const struct mt_host_entry *was = e - period,
                               *earlier = was - period; /* of the access before the last period */
    if (was->site != earlier->site || was->size != earlier->size ||
        was->address - earlier->address != step[0])
        return 0;
    size_t n = mt_repeats_length(e, left, period);
    encoder_moved(sites, e + n, n, period);
    return n;
}

/* ---- accesses that were left out (MT_MTC_REPEAT) ---- */

enum { AGAIN = 64 }; /* made at once, until the sites foresee them */

/* What is encoded in the place of the entry that stands for them, and where it goes on behind that. */
struct left_out {
    uint64_t left;                         /* still to be made: whole periods */
    size_t period;                         /* its sites are all different */
    const char *at, *end;                  /* behind it; at NULL: there is none at hand */
    const char *now, *now_end, *now_again; /* what comes next; before now_again nobody looks for a period */
    struct mt_host_entry entry[2 * MT_PERIOD_MAX + AGAIN];
};

/* The last two periods before `end`, to the begin. Returns the last entry of them. */
static struct mt_host_entry *left_out_keep(struct left_out *l, const char *end)
{
    memmove(l->entry, end - 2 * l->period * sizeof *l->entry, 2 * l->period * sizeof *l->entry);
    return l->entry + 2 * l->period - 1;
}

/* The next ones, behind these. Returns the end. */
static const char *left_out_make(struct left_out *l)
{
    size_t n = AGAIN - AGAIN % l->period;
    n = l->left < n ? l->left : n;
    for (size_t i = 2 * l->period; i < 2 * l->period + n; i++) {
        l->entry[i] = l->entry[i - l->period];
        l->entry[i].address += l->entry[i - l->period].address - l->entry[i - 2 * l->period].address;
    }
    l->left -= n;
    return (const char *)(l->entry + 2 * l->period + n);
}

/* All that is left at once, if the sites foresee it: how many. `e`, the last of two periods, is then the last
 * of all; *address is where it was. */
static uint64_t left_out_skip(struct left_out *l, struct site *sites, struct mt_host_entry *e,
                              uint64_t *address)
{
    uint64_t step[MT_PERIOD_MAX + 1], n = l->left;
    if (n < 2 * l->period || !encoder_steady(sites, e, l->period, step))
        return 0;
    for (size_t k = 0; k < 2 * l->period; k++)
        e[0 - k].address += step[k % l->period] * (n / l->period);
    encoder_moved(sites, e, l->period, l->period);
    *address = e->address;
    l->left = 0;
    return n;
}

/* What is before `end` is encoded: what comes next. Returns how many that are as predicted come before. */
static uint64_t left_out_go_on(struct left_out *l, struct site *sites, const char *end, uint64_t *address)
{
    struct mt_host_entry *last = left_out_keep(l, end);
    uint64_t n = l->left ? left_out_skip(l, sites, last, address) : 0;
    if (l->left) {
        l->now = (const char *)(last + 1);
        l->now_end = l->now_again = left_out_make(l);
    } else {
        l->now = l->at;
        l->now_end = l->end;
        l->now_again = l->at + CALM * sizeof *last; /* a look for a period is a look back */
        l->at = NULL;
    }
    return n;
}

/* Tokens for a run that may be longer than one; what remains is its last part. */
static unsigned char *encoder_runs(unsigned char *out, unsigned *run, uint64_t more)
{
    for (more += *run; more >= RUN_MAX; more -= RUN_MAX)
        out = end_run(out, RUN_MAX);
    *run = (unsigned)more;
    return out;
}

/* Room for so many more entries in the output. 0, or -1 without memory. */
static int encoder_room(struct mt_mtc_encoder *e, unsigned char **out, size_t entries)
{
    size_t used = (size_t)(*out - e->out), want = used + (entries + 1) * ENTRY_BYTES;
    if (want <= e->out_room)
        return 0;
    unsigned char *more = mt_pages(want);
    if (!more)
        return -1;
    memcpy(more, e->out, used);
    mt_pages_free(e->out, e->out_room);
    e->out = more;
    e->out_room = want;
    *out = more + used;
    return 0;
}

/* 0, or -1 without memory. */
static inline __attribute__((always_inline)) int encoder_encode(struct work *w, const char *at, size_t count,
                                                                enum times timed)
{
    struct before b = {.epoch = w->e->epoch};
    const char *end = at + count * entry_bytes(timed), *again = at;
    struct site *sites = w->e->sites, *p = sites;
    uint64_t nsites = w->e->nsites, arguments = 0;
    size_t patience = CALM; /* entries until the next look for a period, after one in vain */
    unsigned run = 0;
    unsigned char *out = w->out;
    struct left_out l = {.at = NULL};
    for (;;) {
        if (__builtin_expect(at == end, 0)) {
            if (timed == TIMES || !l.at)
                break;
            uint64_t n = left_out_go_on(&l, sites, end, &b.address);
            out = encoder_runs(out, &run, n);
            at = l.now;
            end = l.now_end;
            again = l.now_again;
            continue;
        }
        struct mt_host_timed_entry a = encoder_fetch(at, timed);
        struct site *s = &sites[a.site];
        if (__builtin_expect(p->next == a.site,
                             1)) { /* seen in this chunk, so it is in the table, and no event */
            if (__builtin_expect((timed == COUNTED && w->shift) || !encoder_known(s, a, b, timed), 0)) {
                out = encoder_single(end_run(out, run), p, s, a, b, timed, w->shift, 0);
                w->shift = 0;
                run = 0;
            } else if (__builtin_expect(++run % CALM == 0, 0)) {
                if (timed != TIMES && at >= again) {
                    s->offset = a.address - b.address;
                    s->last = a.address;
                    size_t n =
                        encoder_skip(sites, (const void *)at, (size_t)(end - at) / entry_bytes(timed) - 1);
                    patience = n >= 2 * CALM ? CALM : patience < 4096 ? patience * 2 : patience;
                    again = at + (n >= 2 * CALM ? 0 : patience * entry_bytes(timed));
                    if (n) {
                        run += (unsigned)n;
                        at += (n - 1) * entry_bytes(timed);
                        b.address = encoder_fetch(at, timed).address;
                        at += entry_bytes(timed);
                        a = encoder_fetch(at, timed);
                        s = &sites[a.site];
                    }
                }
                for (; run >= RUN_MAX; run -= RUN_MAX)
                    out = end_run(out, RUN_MAX);
            }
        } else if (timed == COUNTED && a.site == 0 && a.size == MT_MTC_SHIFT) {
            w->shift += a.address;
            at += entry_bytes(timed);
            arguments++;
            continue;
        } else if (timed != TIMES && a.site == 0 && (a.size & 63) == MT_MTC_REPEAT) {
            l.left = a.address;
            l.period = a.size >> 6;
            l.at = at + entry_bytes(timed);
            l.end = end;
            if (encoder_room(w->e, &out, (size_t)(end - at) / entry_bytes(timed) + l.left) != 0)
                return -1;
            w->repeated += l.left;
            arguments++;
            again = end = at; /* as if what comes now had been made already */
            continue;
        } else if (__builtin_expect(a.site == 0, 0)) {
            w->out = end_run(out, run);
            w->time = b.time;
            size_t n = encoder_event(w, at, (size_t)(end - at) / entry_bytes(timed), timed);
            at += n * entry_bytes(timed);
            arguments += n - 1;
            out = w->out;
            b.time = w->time;
            run = 0;
            continue;
        } else {
            if (__builtin_expect(a.site >= nsites, 0)) {
                if (encoder_grow(w->e, a.site) != 0)
                    return -1;
                sites = w->e->sites;
                nsites = w->e->nsites;
                p = &sites[b.site];
                s = &sites[a.site];
            }
            out = encoder_single(end_run(out, run), p, s, a, b, timed, w->shift, 1);
            w->shift = 0;
            run = 0;
        }
        s->offset = a.address - b.address;
        s->last = a.address;
        b.address = a.address;
        b.site = a.site;
        b.time = timed == TIMES ? a.time : 0;
        p = s;
        at += entry_bytes(timed);
    }
    w->out = end_run(out, run);
    w->items = count - arguments + w->repeated;
    return 0;
}

static size_t encoder_finish(const struct work *w, uint64_t *items, uint64_t *seq, const void **payload)
{
    *items = w->items;
    *seq = w->seq;
    *payload = w->e->out;
    return (size_t)(w->out - w->e->out);
}

size_t mt_mtc_encode(struct mt_mtc_encoder *e, const struct mt_host_entry *entries, size_t count,
                     uint64_t *items, uint64_t *seq, const void **payload)
{
    if (encoder_begin(e, count) != 0)
        return 0;
    struct work w = {.e = e, .out = e->out, .seq = *seq};
    return encoder_encode(&w, (const char *)entries, count, NO_TIMES) == 0
               ? encoder_finish(&w, items, seq, payload)
               : 0;
}

size_t mt_mtc_encode_timed(struct mt_mtc_encoder *e, const struct mt_host_timed_entry *entries, size_t count,
                           uint64_t *items, uint64_t *seq, const void **payload)
{
    if (encoder_begin(e, count) != 0)
        return 0;
    struct work w = {.e = e, .out = e->out, .seq = *seq};
    return encoder_encode(&w, (const char *)entries, count, TIMES) == 0
               ? encoder_finish(&w, items, seq, payload)
               : 0;
}

size_t mt_mtc_encode_counted(struct mt_mtc_encoder *e, const struct mt_host_entry *entries, size_t count,
                             uint64_t *items, uint64_t *seq, const void **payload)
{
    if (encoder_begin(e, count) != 0)
        return 0;
    struct work w = {.e = e, .out = e->out, .seq = *seq};
    return encoder_encode(&w, (const char *)entries, count, COUNTED) == 0
               ? encoder_finish(&w, items, seq, payload)
               : 0;
}
