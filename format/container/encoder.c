/* Encoder of a thread's entries to the payload of a host chunk: docs/trace-format.md, "Host chunk". */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "writer.h"
#include "memtrace/container.h"
#include "leb.h"
#include "pages.h"

#ifndef MT_CONTAINER_STORED
#include <immintrin.h>
#endif
#include <stddef.h>
#include <string.h>

enum { MT_PERIOD_MAX = 15 };

/* ---- Detection of repeating entries, which are omitted before they are encoded ---- */

enum {
    LEAST = 128, /* minimum number of entries omitted at once */
    STEP = 16,   /* entries between two searches for a period */
    MISSES = 16, /* failed searches before the rest stays unchanged */
    REST_MAX = 64,
    WIDE = 7 /* longest period of which two fit into registers */
};

typedef uint64_t two_words __attribute__((vector_size(16), aligned(8), may_alias));
static size_t repeats_wide(const struct mt_host_entry *e, size_t left, size_t period);

typedef uint64_t four_words __attribute__((vector_size(32), aligned(8), may_alias));

#ifdef MT_CONTAINER_STORED /* PinCRT cannot query the processor */
static size_t repeats_wide(const struct mt_host_entry *e, size_t left, size_t period)
{
    return 0;
}
#else
/* Compares pairs of periods, with the predicted values in registers: one load per two entries. Always inlined
 * with a constant period. */
static inline __attribute__((always_inline, target("avx2"))) size_t
repeats_pairs(const struct mt_host_entry *e, size_t left, size_t period)
{
    const two_words *now = (const void *)(e + 1), *was = now - period, *earlier = was - period;
    const four_words *in = (const void *)now;
    two_words step[2 * WIDE], next[2 * WIDE];
    four_words by[WIDE], to[WIDE];
    size_t n = 0;
    for (size_t i = 0; i < 2 * period; i++) {
        step[i] = was[i % period] - earlier[i % period];
        step[i] += step[i];
        next[i] = earlier[i] + step[i];
    }
    memcpy(by, step, period * sizeof *by);
    memcpy(to, next, period * sizeof *to);
    for (; n + 2 * period <= left; n += 2 * period, in += period) {
        four_words odd = {0, 0, 0, 0};
#pragma GCC unroll 8
        for (size_t i = 0; i < period; i++) {
            odd |= in[i] ^ to[i];
            to[i] += by[i];
        }
        if (!_mm256_testz_si256((__m256i)odd, (__m256i)odd))
            break;
    }
    return n;
}

static __attribute__((target("avx2"))) size_t repeats_registers(const struct mt_host_entry *e, size_t left,
                                                                size_t period)
{
    switch (period) {
    case 1:
        return repeats_pairs(e, left, 1);
    case 2:
        return repeats_pairs(e, left, 2);
    case 3:
        return repeats_pairs(e, left, 3);
    case 4:
        return repeats_pairs(e, left, 4);
    case 5:
        return repeats_pairs(e, left, 5);
    case 6:
        return repeats_pairs(e, left, 6);
    case WIDE:
        return repeats_pairs(e, left, WIDE);
    default:
        return 0;
    }
}

static size_t repeats_wide(const struct mt_host_entry *e, size_t left, size_t period)
{
    return __builtin_cpu_supports("avx2") ? repeats_registers(e, left, period) : 0;
}
#endif

/* Returns how many of the `left` entries after `e` continue the pattern of the two periods up to `e`. Such an
 * entry differs from the one a period before in the same way as that differs from the one two periods
 * before. */
static size_t repeats_length(const struct mt_host_entry *e, size_t left, size_t period)
{
    const two_words *now = (const void *)(e + 1), *was = now - period, *earlier = was - period;
    size_t n = repeats_wide(e, left, period);
    for (; n + 4 <= left; n += 4) {
        two_words odd = {0, 0};
        for (size_t i = n; i < n + 4; i++)
            odd |= (now[i] - was[i]) ^ (was[i] - earlier[i]);
        if (odd[0] | odd[1])
            break;
    }
    for (; n < left; n++) {
        two_words odd = (now[n] - was[n]) ^ (was[n] - earlier[n]);
        if (odd[0] | odd[1])
            break;
    }
    return n;
}

/* Returns how many entries before `e` its site occurred last, or 0 unless `first` leaves two such periods. */
static size_t repeats_period(const struct mt_host_entry *first, const struct mt_host_entry *e)
{
    size_t room = (size_t)(e + 1 - first) / 2, most = room < MT_PERIOD_MAX ? room : MT_PERIOD_MAX;
    for (size_t period = 1; period <= most; period++)
        if (e[0 - period].site == e->site)
            return period;
    return 0;
}

/* Returns the length of the whole periods from `x` on that continue the two before it. */
static size_t repeats_from(const struct mt_host_entry *first, const struct mt_host_entry *x,
                           const struct mt_host_entry *end, size_t period)
{
    if (!period || (size_t)(x - first) < 2 * period)
        return 0;
    for (size_t k = 1; k <= period; k++) {
        const struct mt_host_entry *now = x - k, *was = now - period;
        if (!now->site || now->site != was->site || now->size != was->size)
            return 0;
        for (size_t i = 1; i < k; i++)
            if (x[0 - i].site == now->site)
                return 0;
    }
    size_t n = repeats_length(x - 1, (size_t)(end - x), period);
    n -= n % period;
    return n >= LEAST + 2 * period ? n : 0;
}

/* Tries the latest period, then another one. Returns the number of repeating entries. */
static size_t repeats_find(struct mt_mtc_repeats *r, const struct mt_host_entry *first,
                           const struct mt_host_entry *x, const struct mt_host_entry *end)
{
    size_t n = repeats_from(first, x, end, r->period), period;
    if (n || x == first || !(period = repeats_period(first, x - 1)) || period == r->period)
        return n;
    if ((n = repeats_from(first, x, end, period)))
        r->period = (uint32_t)period;
    return n;
}

/* Reduces the frequency of searches after failures. */
static void repeats_rest(struct mt_mtc_repeats *r, int found)
{
    uint32_t more = r->patience ? 2 * r->patience : 1;
    r->patience = found ? 0 : more < REST_MAX ? more : REST_MAX;
    r->rest = r->patience;
}

struct mt_host_entry *mt_mtc_shorten(struct mt_mtc_repeats *r, const struct mt_host_entry *first,
                                     struct mt_host_entry *from, const struct mt_host_entry *end)
{
    struct mt_host_entry *out = from, *keep = from,
                         *x = from; /* end of the output; start of entries to keep; current position */
    if (r->rest) {
        r->rest--;
        return from + (end - from);
    }
    for (unsigned misses = 0; end - x > LEAST && misses < MISSES;) {
        size_t n = repeats_find(r, first, x, end), out_of = n ? n - 2 * r->period : 0;
        if (!n) {
            x += STEP;
            misses++;
            continue;
        }
        memmove(out, keep, (size_t)(x - keep) * sizeof *x);
        out += x - keep;
        *out++ = (struct mt_host_entry){out_of, 0, MT_MTC_REPEAT | r->period << 6};
        keep = x + out_of;
        x += n;
        x += end - x < 2 * r->period ? end - x : 2 * r->period; /* the pattern may continue after a jump */
        r->left_out += out_of;
        first = keep;
    }
    repeats_rest(r, out != from);
    memmove(out, keep, (size_t)(end - keep) * sizeof *x);
    return out + (end - keep);
}

enum {
    RUN_MAX = 128,      /* maximum accesses in a run token */
    ENTRY_BYTES = 32,   /* maximum bytes of an entry: token 1, site 5, address 10, size 5, time 10 */
    EVENT_ARGS_MAX = 8, /* maximum arguments of an event, as in struct mt_host_item */
    CALM = 32           /* predicted accesses in a row before a period is searched */
};
_Static_assert(2 * MT_PERIOD_MAX < CALM, "two periods and the access before them");
enum { TOKEN_ACCESS = 0x80, TOKEN_EVENT = 0xc0 };
#define NONE UINT32_MAX
enum { HAS_SITE = 1, HAS_ADDRESS = 2, HAS_SIZE = 4, HAS_TIME = 8, SECOND_SITE = 16 };

/* State of a site, one cache line: the inner loop uses one per access. */
struct site {
    uint64_t last, stride, difference, offset;
    uint32_t next, second; /* the two latest different successors, latest first; NONE: none */
    uint32_t size;
    uint32_t epoch; /* number of the state's chunk, so that a new chunk invalidates all at once */
    uint32_t relative;
    uint32_t pad[3];
};

struct mt_mtc_encoder {
    struct site *sites; /* by site number */
    uint64_t nsites;
    uint32_t epoch;
    unsigned char *out;
    size_t out_room;
};

/* Position of the times of a chunk, if it has any. The functions below are inlined for each value. */
enum times {
    NO_TIMES,
    TIMES,  /* times are in the entries */
    COUNTED /* times are implicit, see mt_mtc_encode_counted */
};

/* State of a chunk under construction. */
struct work {
    struct mt_mtc_encoder *e;
    unsigned char *out;
    uint64_t time, items, seq;
    uint64_t shift;    /* COUNTED: extra time before the next entry */
    uint64_t repeated; /* number of omitted accesses */
};

/* Previous access. */
struct before {
    uint64_t address, time;
    uint32_t site, epoch; /* epoch: number of the chunk that the state belongs to */
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

/* Makes room for `site` in the table. Returns -1 without memory. Untouched parts cost address space only. */
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

/* Makes room for the output and invalidates the table. Returns 0, or -1 without memory. */
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
    if (++e->epoch == 0) { /* the counter wraps after 2^32 chunks */
        memset(e->sites, 0, e->nsites * sizeof *e->sites);
        e->epoch = 1;
    }
    e->sites[0] = (struct site){.next = NONE, .second = NONE}; /* stands for "before the first access" */
    return 0;
}

/* Variant of mt_leb() without a branch for values below 2^56: each group of 7 bits moves to its byte, and 8
 * bytes are stored; those after the last one will be overwritten. */
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
    *out = (unsigned char)(run - 1); /* overwritten if there is no run */
    return out + (run != 0);
}

/* Returns the entry at `at`, of either kind. */
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

/* Encodes an event at `at`, `left` entries before the end. Returns the number of its entries. */
static size_t encoder_event(struct work *w, const char *at, size_t left, enum times timed)
{
    static const unsigned char least[64] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = args,
#include "memtrace/container.def"
    };
    struct mt_host_timed_entry first = encoder_fetch(at, timed), next;
    unsigned kind = first.size & 63;
    size_t more = 0; /* number of arguments after the first */
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

/* Encodes an access that was not predicted and updates the sites; the caller stores the address. `p`:
 * previous site. `other`: the site was not predicted. Always inlined with a constant `other` and with few
 * other branches, which would be unpredictable. */
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

/* Updates the site and returns 1 if the access, whose site was predicted, is entirely as predicted. */
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

/* Returns 1 if accesses that continue two periods are as predicted. The two periods end at `e`, and their
 * sites are all different. step[k] is the distance between the periods for the access k before `e`;
 * step[period] equals step[0]. */
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

/* Updates the sites after the `n` predicted accesses up to `e`; at least one more period precedes them. */
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

/* Returns how many of the `left` entries after `e` continue a period, as in a loop, and are therefore
 * predicted; updates the sites. The CALM entries up to `e` were predicted. Costs one comparison per entry. */
static size_t encoder_skip(struct site *sites, const struct mt_host_entry *e, size_t left)
{
    uint64_t step[MT_PERIOD_MAX + 1];
    size_t period = repeats_period(e - CALM + 1, e);
    if (!period || !encoder_steady(sites, e, period, step))
        return 0;
    const struct mt_host_entry *was = e - period, *earlier = was - period; /* access before the last period */
    if (was->site != earlier->site || was->size != earlier->size ||
        was->address - earlier->address != step[0])
        return 0;
    size_t n = repeats_length(e, left, period);
    encoder_moved(sites, e + n, n, period);
    return n;
}

/* ---- omitted accesses (MT_MTC_REPEAT) ---- */

enum { AGAIN = 64 }; /* omitted accesses generated at once, until the sites predict them */

/* State of the expansion of a repeat entry, and position after it. */
struct left_out {
    uint64_t left;                         /* accesses still to be generated: whole periods */
    size_t period;                         /* number of accesses in a period; their sites are all different */
    const char *at, *end;                  /* entries after the repeat entry; at NULL: none */
    const char *now, *now_end, *now_again; /* current input; before now_again no period is searched */
    struct mt_host_entry entry[2 * MT_PERIOD_MAX + AGAIN];
};

/* Moves the last two periods before `end` to the beginning. Returns their last entry. */
static struct mt_host_entry *left_out_keep(struct left_out *l, const char *end)
{
    memmove(l->entry, end - 2 * l->period * sizeof *l->entry, 2 * l->period * sizeof *l->entry);
    return l->entry + 2 * l->period - 1;
}

/* Generates the next omitted accesses after the last two periods. Returns their end. */
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

/* Skips all remaining accesses at once if the sites predict them; returns their number. `e`, the last entry
 * of two periods, then stands for the last access; *address is its address. */
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

/* Selects the next input when all before `end` is encoded. Returns the predicted accesses that come first. */
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
        l->now_again = l->at + CALM * sizeof *last; /* a search for a period looks back that far */
        l->at = NULL;
    }
    return n;
}

/* Writes tokens of a run that may exceed one token; *run keeps the last part. */
static unsigned char *encoder_runs(unsigned char *out, unsigned *run, uint64_t more)
{
    for (more += *run; more >= RUN_MAX; more -= RUN_MAX)
        out = end_run(out, RUN_MAX);
    *run = (unsigned)more;
    return out;
}

/* Makes room for more entries in the output. Returns 0, or -1 without memory. */
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

/* Encodes a chunk. Returns 0, or -1 without memory. */
static inline __attribute__((always_inline)) int encoder_encode(struct work *w, const char *at, size_t count,
                                                                enum times timed)
{
    struct before b = {.epoch = w->e->epoch};
    const char *end = at + count * entry_bytes(timed), *again = at;
    struct site *sites = w->e->sites, *p = sites;
    uint64_t nsites = w->e->nsites, arguments = 0;
    size_t patience = CALM; /* entries until the next search for a period, after a failed one */
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
                             1)) { /* seen in this chunk, so in the table, and not an event */
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
            again = end = at; /* the input so far is encoded: the omitted accesses come next */
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
