/* Encoder of a launch's runs to the columns of a device chunk: docs/trace-format.md, "Device chunk". */
#include "device_halves.h"
#include "leb.h"
#include "memtrace/record.h"
#include <stddef.h>
#include <string.h>

/* Writes numbers of `width` (0 to 56) bits each, without gaps, and up to 8 bytes beyond the end. Returns the
 * position after the numbers. */
static unsigned char *device_encoder_bits(unsigned char *out, const uint64_t *a, uint32_t n, unsigned width)
{
    uint64_t bits = 0;
    unsigned have = 0;
    for (uint32_t i = 0; i < n; i++) {
        bits |= a[i] << have; /* have is below 8 */
        have += width;
        memcpy(out, &bits, sizeof bits);
        out += have / 8;
        bits >>= have / 8 * 8;
        have %= 8;
    }
    return out + (have != 0);
}

/* Writes numbers as multiples of 1 << shift above the anchor, up to 64 bits wide. Neighbours are combined
 * where possible, since each step depends on the one before. */
static unsigned char *device_encoder_bits_above(unsigned char *out, const uint64_t *a, uint32_t n,
                                                uint64_t anchor, unsigned shift, unsigned width)
{
    uint64_t v[MT_MTC_MAX_LANES];
    for (uint32_t i = 0; i < n; i++)
        v[i] = (a[i] - anchor) >> shift;
    if (width == 64) {
        memcpy(out, v, n * sizeof *v);
        return out + n * sizeof *v;
    }
    for (; width <= 28 && n % 2 == 0 && n; n /= 2, width *= 2)
        for (uint32_t i = 0; i < n / 2; i++)
            v[i] = v[2 * i] | v[2 * i + 1] << width;
    return device_encoder_bits(out, v, n, width);
}

static void own_later(struct mt_mtc_device_encoder *e, uint32_t c, uint32_t s, uint64_t address)
{
    if (__builtin_expect(e->nvisits == MT_VISITS, 0))
        mt_own_write(e);
    e->visits[e->nvisits++] = (struct mt_visit){c, s, address};
}

enum {
    ANONYMOUS = 64,
    FAR = 1 << 16
}; /* ANONYMOUS: slots for runs without site; FAR: distance from which
    * such addresses are unrelated */
enum { NEW_MASK = 1, NEW_COUNT = 2, NEW_STRIDE = 4 };
enum { SAME_LANES = 0x80, WHOLE = 64, PACKED_MAX = 56 };

/* ---- contexts (warps) ---- */

static unsigned char *put_context(unsigned char *out, const struct mt_access_run *r,
                                  const struct mt_context *b)
{
    unsigned char *flags = out++;
    uint64_t dx = (r->cta >> 32) - (b->cta >> 32);
    int beside = (uint32_t)dx == 1 && (uint32_t)r->cta == (uint32_t)b->cta;
    uint32_t warp = b->warp == MT_RUN_NO_WARP ? b->warp : r->cta == b->cta ? b->warp + 1 : 0;
    *flags = r->cta == b->cta ? 0 : beside ? 1 : 2;
    if (*flags == 2) {
        out = mt_leb_signed(out, (uint64_t)(int32_t)(uint32_t)dx);
        out = mt_leb_signed(out, (uint64_t)(int16_t)((r->cta >> 16) - (b->cta >> 16)));
        out = mt_leb_signed(out, (uint64_t)(int16_t)(r->cta - b->cta));
    }
    if (r->warp != warp) {
        *flags |= 4;
        out = mt_leb_signed(out, (uint64_t)(int32_t)(r->warp - warp));
    }
    if (r->smid != b->smid) {
        *flags |= 8;
        out = mt_leb_signed(out, (uint64_t)(int32_t)(r->smid - b->smid));
    }
    return out;
}

static int is_context(const struct mt_context *c, const struct mt_access_run *r)
{
    return c->cta == r->cta && c->warp == r->warp && c->smid == r->smid;
}

/* Creates the context of most new warps: the one after the newest warp, in its CTA or the first one in the
 * next. Returns MT_NONE for other warps. */
static inline uint32_t device_encoder_beside(struct mt_device_work *w, const struct mt_access_run *r)
{
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t before = w->context, now = e->ncontexts;
    struct mt_context *b = &e->contexts[before];
    uint64_t by = r->cta - b->cta;
    if (now == e->context_room || r->smid != b->smid || b->warp == MT_RUN_NO_WARP ||
        r->warp != (by ? 0 : b->warp + 1) || (by && by != UINT64_C(1) << 32) ||
        !mt_context_ahead(e, r->cta, r->warp))
        return MT_NONE;
    e->contexts[now] = (struct mt_context){
        .cta = r->cta, .warp = r->warp, .smid = r->smid, .successor = MT_NONE, .address = b->address};
    e->ncontexts++;
    *w->contexts++ = by != 0;
    w->token |= 3;
    return w->fresh = b->successor = now;
}

/* Returns the number of the run's context and adds its bits to w->token. MT_NONE: no memory. */
static inline uint32_t context_of(struct mt_device_work *w, const struct mt_access_run *r)
{
    static const struct mt_context none = {.warp = MT_RUN_NO_WARP};
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t before = w->context, now;
    int is_new = 0;
    if (before != MT_NONE) {
        const struct mt_context *b = &e->contexts[before];
        if (is_context(b, r))
            return before;
        if (b->successor == MT_NONE && (now = device_encoder_beside(w, r)) != MT_NONE)
            return now;
        w->fresh = MT_NONE;
        if (b->successor != MT_NONE && is_context(&e->contexts[b->successor], r)) {
            w->token |= 1;
            return b->successor;
        }
    }
    if ((now = mt_context_of(e, r, &is_new)) == MT_NONE)
        return now;
    if (!is_new) {
        w->token |= 2;
        w->contexts = mt_leb_signed(w->contexts, (uint64_t)now - before);
    } else {
        w->token |= 3;
        w->contexts = put_context(w->contexts, r, now ? &e->contexts[now - 1] : &none);
        e->contexts[now].address = before != MT_NONE ? e->contexts[before].address : 0;
        w->fresh = now;
    }
    if (before != MT_NONE)
        e->contexts[before].successor = now;
    return now;
}

/* ---- slots (accesses of the code) ---- */

/* Returns the address that base code `code` predicts; 3: the address that the difference is relative to.
 * `own`: the slot's last address in the context, or NULL. */
static inline uint64_t device_encoder_predict(const struct mt_mtc_device_encoder *e,
                                              const struct mt_table_slot *s, uint32_t c, const uint64_t *own,
                                              unsigned code)
{
    if (code == 0)
        return s->last + s->stride;
    if (code == 1)
        return e->contexts[c].address + s->offset;
    if (code == 2)
        return own ? *own + s->step : s->last;
    return own ? *own : s->last;
}

/* Returns 1 if this is the slot's first run in context c, which is new. */
static inline int device_encoder_first(const struct mt_device_work *w, const struct mt_table_slot *s,
                                       uint32_t c)
{
    return w->fresh == c && s->visited != c;
}

/* Returns the slot's last address in context c, or NULL. Valid until the next call. */
static inline const uint64_t *device_encoder_own(struct mt_device_work *w, uint32_t slot, uint32_t c)
{
    uint64_t who;
    if (device_encoder_first(w, &w->e->slots[slot], c))
        return NULL;
    if (w->e->nvisits)
        mt_own_write(w->e);
    const struct mt_own *o = mt_own_place(w->e, c, slot, &who);
    return o->who == who ? &o->address : NULL;
}

static int device_encoder_hits(struct mt_device_work *w, uint32_t slot, uint32_t c, uint64_t base)
{
    const struct mt_mtc_device_encoder *e = w->e;
    const struct mt_table_slot *s = &e->slots[slot];
    const uint64_t *own = device_encoder_own(w, slot, c);
    return device_encoder_predict(e, s, c, own, 0) == base ||
           device_encoder_predict(e, s, c, own, 1) == base || device_encoder_predict(e, s, c, own, 2) == base;
}

/* Returns the slot of a run without site that predicted the address, or had a near one; MT_NONE: create
 * one. */
static uint32_t device_encoder_anonymous(struct mt_device_work *w, const struct mt_access_run *r, uint32_t c)
{
    const struct mt_mtc_device_encoder *e = w->e;
    const struct mt_table_slot *l = &e->slots[e->contexts[c].slot];
    uint64_t nearest = UINT64_MAX;
    uint32_t best = MT_NONE, n = 0;
    if (l->next != MT_NONE && e->slots[l->next].site == 0 && e->slots[l->next].meta == r->meta &&
        device_encoder_hits(w, l->next, c, r->base))
        return l->next;
    if (l->second != MT_NONE && e->slots[l->second].site == 0 && e->slots[l->second].meta == r->meta &&
        device_encoder_hits(w, l->second, c, r->base))
        return l->second;
    for (uint32_t i = mt_slot_find(e, 0, r->meta); i != MT_NONE; i = e->slots[i].others, n++) {
        uint64_t d = r->base - e->slots[i].last;
        d = d >> 63 ? 0 - d : d;
        if (d < nearest) {
            nearest = d;
            best = i;
        }
    }
    return nearest < FAR || n >= ANONYMOUS ? best : MT_NONE;
}

static uint32_t slot_of(struct mt_device_work *w, const struct mt_access_run *r, uint32_t c)
{
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t before = e->contexts[c].slot, now;
    struct mt_table_slot *l = &e->slots[before];
    if (__builtin_expect(r->site == 0, 0))
        now = device_encoder_anonymous(w, r, c);
    else if (mt_is_slot(e, l->next, r))
        return l->next;
    else if (mt_is_slot(e, l->second, r))
        now = l->second;
    else
        now = mt_slot_find(e, r->site, r->meta);
    if (now == l->next && now != MT_NONE)
        return now;
    if (now == MT_NONE) {
        if ((now = mt_slot_add(e, r->site, r->meta)) == MT_NONE)
            return now;
        l = &e->slots[before]; /* the slots may have moved */
        w->token |= 3 << 2;
        w->shapes = mt_leb_signed(w->shapes, (uint64_t)(int32_t)(r->site - w->newest_site));
        w->shapes = mt_leb(w->shapes, r->meta);
        w->newest_site = r->site;
        e->slots[now].last = e->slots[now].low = e->contexts[c].address;
    } else if (now == l->second) {
        w->token |= 1 << 2;
    } else {
        w->token |= 2 << 2;
        w->contexts = mt_leb(w->contexts, now);
    }
    l->second = l->next;
    l->next = now;
    return now;
}

/* ---- shapes (lanes) ---- */

/* Returns 1 if the lanes are at the same distances from the first one as before. For a whole warp there is no
 * branch, so that the compiler vectorises it. */
static int device_encoder_as_before(const uint64_t *a, uint64_t base, const uint64_t *delta, uint32_t n)
{
    uint64_t odd = 0;
    if (n == MT_MTC_MAX_LANES)
        for (uint32_t i = 0; i < MT_MTC_MAX_LANES; i++)
            odd |= (a[i] - base) ^ delta[i];
    else
        for (uint32_t i = 1; i < n && !odd; i++)
            odd = (a[i] - base) ^ delta[i];
    return !odd;
}

/* Returns 1 if the rows are arranged as before. */
static int device_encoder_rows_as_before(const struct mt_shape *h, const struct mt_access_run *r)
{
    if (h->row == r->row)
        return h->stride == (uint64_t)r->stride && h->apart == (uint64_t)r->apart;
    uint64_t room[MT_RUN_ROWS];
    struct mt_access_run apart = mt_run_without_rows(r, room);
    return device_encoder_as_before(apart.addresses, r->base, h->delta, r->count);
}

static inline int is_shape(const struct mt_shape *h, const struct mt_access_run *r)
{
    if (h->mask != r->mask || h->count != r->count)
        return 0;
    if (__builtin_expect(r->row != 0, 0))
        return h->irregular && device_encoder_rows_as_before(h, r);
    if (!r->addresses)
        return !h->irregular && (h->stride == (uint64_t)r->stride || r->count == 1);
    return h->irregular && r->addresses[1] - r->base == h->delta[1] &&
           device_encoder_as_before(r->addresses, r->base, h->delta, r->count);
}

static void new_shape(struct mt_device_work *w, struct mt_shape *h, const struct mt_access_run *r)
{
    unsigned char *flags = w->shapes++;
    *flags = 0;
    if (r->mask && r->mask != UINT32_MAX) {
        *flags |= NEW_MASK;
        memcpy(w->shapes, &r->mask, sizeof r->mask);
        w->shapes += sizeof r->mask;
    } else if (!r->mask) {
        *flags |= NEW_COUNT;
        w->shapes = mt_leb(w->shapes, r->count);
    }
    uint64_t usual = r->meta & ((1u << 28) - 1), stride = r->count == 1 ? usual : (uint64_t)r->stride;
    if (stride != usual) {
        *flags |= NEW_STRIDE;
        w->shapes = mt_leb_signed(w->shapes, stride);
    }
    h->irregular = 0;
    h->mask = r->mask;
    h->count = r->count;
    h->stride = stride;
}

static unsigned bits_of(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

struct span {
    uint64_t low, high;
};

/* Finds the span of a whole warp's addresses, half a run at a time; signs are flipped because the processor
 * compares signed numbers. */
static MT_WIDE struct span device_encoder_span_wide(const uint64_t *a)
{
    const mt_half_run *v = (const void *)a, sign = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    __m256i low = (__m256i)(v[0] ^ sign), high = low;
    struct span s = {UINT64_MAX, 0};
    for (unsigned i = 1; i < MT_MTC_MAX_LANES / 4; i++) {
        __m256i now = (__m256i)(v[i] ^ sign);
        low = _mm256_blendv_epi8(low, now, _mm256_cmpgt_epi64(low, now));
        high = _mm256_blendv_epi8(high, now, _mm256_cmpgt_epi64(now, high));
    }
    mt_half_run least = (mt_half_run)low ^ sign, most = (mt_half_run)high ^ sign;
    for (unsigned i = 0; i < 4; i++) {
        s.low = least[i] < s.low ? least[i] : s.low;
        s.high = most[i] > s.high ? most[i] : s.high;
    }
    return s;
}

static struct span device_encoder_span(const uint64_t *a, uint32_t n)
{
    struct span s = {UINT64_MAX, 0};
    if (n == MT_MTC_MAX_LANES && __builtin_cpu_supports("avx2"))
        return device_encoder_span_wide(a);
    for (uint32_t i = 0; i < n; i++) {
        s.low = a[i] < s.low ? a[i] : s.low;
        s.high = a[i] > s.high ? a[i] : s.high;
    }
    return s;
}

/* Encodes lanes that have addresses of their own. Returns the token's base code. */
static __attribute__((noinline)) unsigned
device_encoder_gather(struct mt_device_work *w, struct mt_table_slot *s, const struct mt_access_run *run)
{
    uint64_t room[MT_RUN_ROWS];
    const struct mt_access_run apart = mt_run_without_rows(run, room), *r = &apart;
    const struct mt_shape *was = &s->shape[s->now];
    struct mt_shape *h = &s->shape[s->now ^= 1];
    struct span span = device_encoder_span(r->addresses, r->count);
    uint64_t low = span.low, high = span.high, any = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        h->delta[i] = r->addresses[i] - r->base;
        any |= h->delta[i];
    }
    /* Choice between the anchor of the previous run and a new one. */
    unsigned mine = bits_of(high - low), kept = bits_of(high - s->low), code = 0;
    if (low < s->low || (kept - mine) * r->count > 8 * (1 + bits_of(s->low ^ low) / 7)) {
        w->bases = mt_leb_signed(w->bases, low - s->low);
        s->low = low;
        code = 1;
    }
    any |= r->base - s->low;
    unsigned shift = any ? (unsigned)__builtin_ctzll(any) : 0, width = bits_of((high - s->low) >> shift);
    width = width > PACKED_MAX ? WHOLE : width > 4 && width < 8 ? 8 : width;
    int same = was->mask == r->mask && was->count == r->count;
    *w->lanes++ = (unsigned char)(width | (same ? SAME_LANES : 0));
    *w->lanes++ = (unsigned char)shift;
    if (!same) {
        memcpy(w->lanes, &r->mask, sizeof r->mask);
        w->lanes += sizeof r->mask;
        if (!r->mask)
            w->lanes = mt_leb(w->lanes, r->count);
    }
    w->lanes = device_encoder_bits_above(w->lanes, r->addresses, r->count, s->low, shift, width);
    h->irregular = 1;
    h->mask = r->mask;
    h->count = r->count;
    h->row = run->row;
    h->stride = (uint64_t)run->stride;
    h->apart = run->row ? (uint64_t)run->apart : 0;
    return code;
}

/* ---- runs ---- */

/* Updates the predictions after a run, except those from the slot's last address in the context. */
static inline void device_encoder_note(struct mt_table_slot *s, struct mt_context *x, uint64_t base)
{
    if (s->seen) {
        uint64_t d = base - s->last;
        s->stride = d == s->difference ? d : s->stride;
        s->difference = d;
    }
    s->offset = base - x->address;
    s->last = base;
    s->seen = 1;
    x->address = base;
}

/* Updates the predictions after a further run of the slot in context c. Returns 1 if it is as far from the
 * slot's last address in its context as the run before was in its own. */
static inline int device_encoder_again(struct mt_mtc_device_encoder *e, struct mt_table_slot *s, uint32_t c,
                                       uint32_t slot, uint64_t base)
{
    uint64_t who;
    int steady = 0;
    if (__builtin_expect(e->nvisits != 0, 0))
        mt_own_write(e);
    struct mt_own *o = mt_own_place(e, c, slot, &who);
    if (o->who == who) {
        uint64_t d = base - o->address;
        steady = d == s->own_difference;
        s->step = steady ? d : s->step;
        s->own_difference = d;
    }
    o->who = who;
    o->address = base;
    return steady;
}

/* Predicts that the slot's next run equals this one. Writes whole words, as parts are slow to read back. */
static inline void device_encoder_foresee(struct mt_table_slot *s, const struct mt_access_run *r)
{
    if (!r->site || (!r->row && r->addresses)) {
        s->like[1][MT_HALF_WORDS - 1] = UINT64_C(1) << 32;
        return;
    }
    s->like[0] = (mt_half_run){s->last + s->stride, (uint64_t)r->stride, (uint64_t)r->apart, 0};
    s->like[1] =
        (mt_half_run){0, r->meta | (uint64_t)r->site << 32, r->count | (uint64_t)r->mask << 32, r->row};
}

/* Encodes the run's first address and updates the predictions. */
static void device_encoder_base(struct mt_device_work *w, const struct mt_access_run *r, uint32_t c,
                                uint32_t slot)
{
    struct mt_mtc_device_encoder *e = w->e;
    struct mt_table_slot *s = &e->slots[slot];
    struct mt_context *x = &e->contexts[c];
    uint64_t base = r->base;
    const uint64_t *own = device_encoder_own(w, slot, c);
    unsigned code = 0;
    if (w->token >> 6 == 3) {
        code = device_encoder_gather(w, s, r);
    } else if (base != s->last + s->stride) {
        for (code = 1; code < 3 && device_encoder_predict(e, s, c, own, code) != base;)
            code++;
        if (code == 3)
            w->bases = mt_leb_signed(w->bases, base - device_encoder_predict(e, s, c, own, 3));
    }
    device_encoder_note(s, x, base);
    x->slot = slot;
    if (device_encoder_first(w, s, c))
        own_later(e, c, slot, base);
    else
        device_encoder_again(e, s, c, slot, base);
    s->visited = c;
    device_encoder_foresee(s, r);
    *w->tokens++ = (unsigned char)(w->token | code << 4);
    w->token = 0;
}

/* ---- predicted runs (the common case) ---- */

enum { STEADY = 2 * MT_LAP }; /* number of predicted runs before laps are searched */

/* Returns the number of predicted runs of context c, each with the slot that followed the warp's last one
 * before. Inner loop: each instruction counts. */
static inline __attribute__((always_inline)) MT_WIDE size_t
device_encoder_foreseen(struct mt_device_work *w, const struct mt_access_run *runs, size_t count, uint32_t c)
{
    struct mt_mtc_device_encoder *e = w->e;
    struct mt_context *x = &e->contexts[c];
    struct mt_table_slot *s = &e->slots[x->slot], *now;
    const mt_half_run of[2] = {{0, 0, 0, x->cta}, {x->smid | (uint64_t)x->warp << 32}};
    unsigned char *tokens = w->tokens;
    uint64_t before = x->address;
    uint32_t fresh = w->fresh, slot;
    size_t i = 0, steady = 0;
    for (; i < count && (slot = s->next) != MT_NONE; i++, s = now) {
        now = &e->slots[slot];
        if (!mt_half_is_zero(mt_run_odd(&runs[i], now->like, of)))
            break;
        uint64_t base = runs[i].base;
        if (fresh == c && now->visited != c)
            own_later(e, c, slot, base);
        else
            steady += (unsigned)device_encoder_again(e, now, c, slot, base);
        now->visited = c;
        now->difference = now->stride;
        now->offset = base - before;
        now->last = before = base;
        now->like[0] += (mt_half_run){
            now->stride}; /* the field is written as a whole, because it is soon read as a whole */
        tokens[i] = 0;
        if (__builtin_expect(steady == STEADY, 0)) {
            size_t n = mt_device_laps(w, now, c, &runs[i + 1], count - i - 1);
            memset(tokens + i + 1, 0, n);
            i += n;
            before = now->last;
            steady = 0;
        }
    }
    if (i) {
        *tokens = (unsigned char)w->token;
        w->token = 0;
        w->tokens = tokens + i;
        x->address = before;
        x->slot = (uint32_t)(s - e->slots);
    }
    return i;
}

/* Encodes the next run of w->context if it is as predicted except for its address. */
static __attribute__((noinline)) MT_WIDE int device_encoder_elsewhere(struct mt_device_work *w,
                                                                      const struct mt_access_run *r)
{
    static const mt_half_run rest = {0, UINT64_MAX, UINT64_MAX, 0};
    const struct mt_mtc_device_encoder *e = w->e;
    uint32_t slot = e->slots[e->contexts[w->context].slot].next;
    const mt_half_run *half = (const void *)r, *like;
    mt_half_run what = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    if (slot == MT_NONE)
        return 0;
    like = e->slots[slot].like;
    if (!mt_half_is_zero(((half[0] ^ like[0]) & rest) | (((half[1] & mt_half_real) ^ like[1]) & what)))
        return 0;
    device_encoder_base(w, r, w->context, slot);
    return 1;
}

/* Encodes all runs up to the first unpredicted one; its context is then w->context (MT_NONE: no memory). */
static MT_WIDE size_t device_encoder_wide(struct mt_device_work *w, const struct mt_access_run *runs,
                                          size_t count)
{
    size_t i = 0, n;
    do {
        uint32_t was = w->context;
        w->context = context_of(w, &runs[i]);
        n = w->context == MT_NONE ? 0 : device_encoder_foreseen(w, &runs[i], count - i, w->context);
        i += n;
        if (i == count || w->context == MT_NONE)
            break;
        if (is_context(&w->e->contexts[w->context], &runs[i]))
            i += n = (size_t)device_encoder_elsewhere(w, &runs[i]);
        else if (n && n <= MT_LAP && w->fresh == w->context && w->context != was)
            i += mt_device_warps(w, (uint32_t)n, w->context, &runs[i], count - i);
    } while (n && i < count);
    return i;
}

/* Encodes predicted runs; on an old processor one by one, as the other runs. */
static inline size_t device_encoder_quick(struct mt_device_work *w, const struct mt_access_run *runs,
                                          size_t count)
{
    int apart = !runs->row && runs->addresses; /* runs with addresses are never predicted */
    if (!apart && __builtin_expect(__builtin_cpu_supports("avx2") != 0, 1))
        return device_encoder_wide(w, runs, count);
    w->context = context_of(w, runs);
    return 0;
}

/* ---- any runs ---- */

/* Encodes a run of w->context. Returns 0, or -1 without memory. */
static int device_encoder_other(struct mt_device_work *w, const struct mt_access_run *r)
{
    uint32_t c = w->context, slot = c != MT_NONE ? slot_of(w, r, c) : MT_NONE;
    if (slot == MT_NONE)
        return -1;
    struct mt_table_slot *s = &w->e->slots[slot];
    if (!is_shape(&s->shape[s->now], r)) {
        int other = is_shape(&s->shape[s->now ^ 1], r), apart = r->row || r->addresses;
        w->token |= other ? 1 << 6 : apart ? 3 << 6 : 2 << 6;
        if (other || !apart)
            s->now ^= 1;
        if (!other && !apart)
            new_shape(w, &s->shape[s->now], r);
    }
    device_encoder_base(w, r, c, slot);
    return 0;
}

/* Replaces evenly spaced lane addresses in *r by a stride. */
static void device_encoder_straighten(struct mt_access_run *r)
{
    uint64_t stride = r->count > 1 ? r->addresses[1] - r->addresses[0] : 0;
    r->base = r->addresses[0];
    if (r->addresses[r->count - 1] != r->base + (r->count - 1) * stride)
        return;
    for (uint32_t i = 2; i < r->count; i++)
        if (r->addresses[i] - r->addresses[i - 1] != stride)
            return;
    r->stride = (int64_t)stride;
    r->addresses = NULL;
}

/* Encodes a run with addresses: as a regular one, or as pieces with as many lanes as a gather has. Returns 0,
 * or -1 without memory. */
static int encode_addresses(struct mt_device_work *w, const struct mt_access_run *from)
{
    struct mt_access_run r = *from;
    for (uint32_t left = from->count; left; left -= r.count) {
        r.addresses = from->addresses + (from->count - left);
        r.count = left < MT_MTC_MAX_LANES ? left : MT_MTC_MAX_LANES;
        device_encoder_straighten(&r);
        if ((r.addresses || !device_encoder_quick(w, &r, 1)) && device_encoder_other(w, &r) != 0)
            return -1;
    }
    return 0;
}

/* Encodes rows, or a run without rows. Returns 0, or -1 without memory. */
static int encode_rows(struct mt_device_work *w, const struct mt_access_run *from)
{
    struct mt_access_run r = *from;
    if (r.count <= r.row || (uint64_t)r.apart == r.row * (uint64_t)r.stride) {
        r.row = 0;
        r.addresses = NULL;
    }
    return device_encoder_quick(w, &r, 1) ? 0 : device_encoder_other(w, &r);
}

/* ---- runs that cannot be encoded ---- */

const char mt_device_bad[] =
    "a run without accesses, or with another number of lanes than its mask, or of no known type";

/* Returns 1 if the mask, which is not 0, has as many lanes as the run. */
static int device_encoder_counts(const struct mt_access_run *r)
{
    uint32_t m = r->mask;
    m -= m >> 1 & 0x55555555; /* not every x86-64 has an instruction to count bits */
    m = (m & 0x33333333) + (m >> 2 & 0x33333333);
    return ((m + (m >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24 == r->count;
}

int mt_device_good(const struct mt_access_run *r)
{
    if (!(r->meta & ((1u << 28) - 1)) || !mt_rec_known(r->meta >> 28))
        return 0;
    if (__builtin_expect(r->mask == UINT32_MAX, 1))
        return r->count == MT_MTC_MAX_LANES;
    return r->count && (!r->mask || device_encoder_counts(r)) && (!r->row || r->count <= MT_RUN_ROWS);
}

/* Encodes a run that was not predicted. Returns NULL, or the reason for failure. */
static const char *device_encoder_judged(struct mt_device_work *w, const struct mt_access_run *r)
{
    if (!mt_device_good(r))
        return mt_device_bad;
    int failed = r->row         ? encode_rows(w, r)
                 : r->addresses ? encode_addresses(w, r)
                                : device_encoder_other(w, r);
    return failed ? mt_device_no_memory : NULL;
}

const char *mt_device_encode(struct mt_device_work *w, const struct mt_access_run *runs, size_t count)
{
    const char *why = NULL;
    for (size_t i = 0; !why && i < count && (i += device_encoder_quick(w, &runs[i], count - i)) < count; i++)
        why = device_encoder_judged(w, &runs[i]);
    return why;
}
