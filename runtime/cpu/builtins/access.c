/* Record calls, which the pass puts before each access. */
#include "access.h"
#include "format/container/region.h"
#include "memtrace/device.h"
#include <stddef.h>

MT_INLINED void __mt_access_global(void *p, uint32_t meta, uint32_t site)
{
    access_record((uint64_t)p, meta, site);
}

MT_INLINED void __mt_access_generic(void *p, uint32_t meta, uint32_t site)
{
    if (mt_is_global((uint64_t)p))
        access_record((uint64_t)p, meta, site);
}

MT_INLINED void *__mt_access_global_to(void *p, uint32_t meta, uint32_t site)
{
    return (void *)access_place((uint64_t)p, meta, site);
}

MT_INLINED void *__mt_access_generic_to(void *p, uint32_t meta, uint32_t site)
{
    return mt_is_global((uint64_t)p) ? (void *)access_place((uint64_t)p, meta, site) : p;
}

MT_BUILTIN void __mt_access_global_n(void *p, uint64_t bytes, uint32_t type, uint32_t site)
{
    access_block((uint64_t)p, bytes, type, site);
}

MT_BUILTIN void __mt_access_generic_n(void *p, uint64_t bytes, uint32_t type, uint32_t site)
{
    if (mt_is_global((uint64_t)p))
        __mt_access_global_n(p, bytes, type, site);
}

/* Second count (llvm-pass/lower.c). */
MT_INLINED void __mt_count(void *p, uint64_t accesses, uint64_t bytes, uint32_t kind)
{
    if (accesses && mt_is_global((uint64_t)p)) {
        mt_cpu_tls.counts[2 * kind] += accesses;
        mt_cpu_tls.counts[2 * kind + 1] += bytes;
    }
}

/* Texture reads and the like: counted per launch. */
MT_INLINED void __mt_untraced(uint32_t note)
{
    mt_cpu_tls.untraced++;
}

/* Record calls of shared memory, local memory and barriers (option spaces of the pass), for compact traces
 * only. */

MT_BUILTIN void __mt_access_shared(void *p, uint32_t meta, uint32_t site)
{
    if (spaces_wanted())
        access_record(spaces_shared((uint64_t)p), meta, site);
}

MT_BUILTIN void __mt_access_shared_n(void *p, uint64_t bytes, uint32_t type, uint32_t site)
{
    if (spaces_wanted())
        access_block(spaces_shared((uint64_t)p), bytes, type, site);
}

/* Records local memory and barriers: the address is a number made by the pass. */
MT_BUILTIN void __mt_access_number(void *p, uint32_t meta, uint32_t site)
{
    if (spaces_wanted())
        access_record((uint64_t)p, meta, site);
}

/* p: pointer of an access to local memory. */
MT_BUILTIN void *__mt_access_number_to(void *number, uint32_t meta, uint32_t site, void *p)
{
    if (spaces_wanted() && access_append((uint64_t)number, meta, site))
        return (void *)mt_cpu_run_nowhere(meta);
    return p;
}

MT_BUILTIN void __mt_access_number_n(void *p, uint64_t bytes, uint32_t type, uint32_t site)
{
    if (spaces_wanted())
        access_block((uint64_t)p, bytes, type, site);
}

MT_BUILTIN void __mt_access_any(void *p, uint32_t meta, uint32_t site)
{
    uint64_t a = (uint64_t)p;
    uint32_t type = meta >> 28;
    if (spaces_of(&a, &type))
        access_record(a, type << 28 | (meta & RECORD_MAX), site);
}

MT_BUILTIN void *__mt_access_any_to(void *p, uint32_t meta, uint32_t site)
{
    if (mt_is_global((uint64_t)p))
        return (void *)access_place((uint64_t)p, (meta >> 28 & 3) << 28 | (meta & RECORD_MAX), site);
    __mt_access_any(p, meta, site);
    return p;
}

MT_BUILTIN void __mt_access_any_n(void *p, uint64_t bytes, uint32_t type, uint32_t site)
{
    uint64_t a = (uint64_t)p;
    if (spaces_of(&a, &type))
        access_block(a, bytes, type, site);
}

MT_BUILTIN void __mt_access_mbarrier(void *p, uint32_t meta, uint32_t site)
{
    if (spaces_wanted())
        access_record(spaces_object((uint64_t)p), meta, site);
}

MT_BUILTIN void __mt_access_mbarrier_n(void *p, uint64_t bytes, uint32_t type, uint32_t site)
{
    if (spaces_wanted())
        access_block(spaces_object((uint64_t)p), bytes, type, site);
}

MT_BUILTIN void __mt_access_phase(void *p, uint32_t meta, uint32_t site)
{
    if (spaces_wanted())
        access_record(access_phase((uint64_t)p, meta >> 28), meta, site);
}

MT_BUILTIN void __mt_access_phase_n(void *p, uint64_t bytes, uint32_t type, uint32_t site)
{
    if (spaces_wanted() && bytes)
        access_block(access_phase((uint64_t)p, type), bytes, type, site);
}

/* Names the place of the call that follows, a barrier or the like. */
MT_INLINED void __mt_access_place(uint32_t note)
{
    mt_cpu_tls.place = note + 1;
}

/* Checks a load of constant memory, under MEMTRACE_CHECK=1. */
MT_BUILTIN void __mt_access_constant(void *p, uint32_t meta, uint32_t site)
{
    uint64_t lane[32];
    if (__builtin_expect(mt_cpu_tls.run != mt_cpu_tls.run_end, 1))
        return;
    lane[mt_cpu_tls.laneid] = (uint64_t)p;
    if (mt_cpu_check_constant(lane, 1u << mt_cpu_tls.laneid, meta, site + access_site_base()))
        mt_cpu_run_bad();
}

/* Records of code for whole warps (llvm-pass/vector/record.c): an access of a warp is one run. `warp`: its
 * number in its CTA. */

#define LANES 32

_Static_assert(offsetof(struct mt_access_run, site) == offsetof(struct mt_access_run, meta) + 4,
               "type and site are one number");

/* of: meta in the low half, the site in the high half. */
struct what {
    uint64_t of;
    uint32_t warp;
};

/* apart: addresses of lanes that are not evenly spaced, or the distance between rows of lanes. */
static MT_INLINE void warp_append_as(struct mt_access_run *r, uint64_t base, int64_t stride, int64_t apart,
                                     uint32_t row, uint32_t mask, uint32_t count, struct what w)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    uint64_t of = w.of + ((uint64_t)access_site_base() << 32);
    r->base = base;
    r->stride = stride;
    r->apart = apart;
    r->row = row;
    r->cta = t->run_cta;
    r->smid = t->smid;
    r->count = count;
    r->mask = mask;
    r->warp = w.warp;
    __builtin_memcpy(&r->meta, &of, sizeof of); /* meta and the site */
    t->run = r + 1;
}

static MT_INLINE void warp_append(struct mt_access_run *r, uint64_t base, int64_t stride,
                                  const uint64_t *addresses, uint32_t mask, uint32_t count, struct what w)
{
    warp_append_as(r, base, stride, (int64_t)addresses, 0, mask, count, w);
}

/* A function of its own, as it makes its caller save all registers. */
static MT_KEPT uint64_t warp_more_room(uint64_t base, int64_t stride, const uint64_t *lane, uint32_t mask,
                                       uint64_t of)
{
    uint32_t site = (uint32_t)(of >> 32) + access_site_base();
    return mt_cpu_run_room(base, stride, lane, mask, (uint32_t)of, site).bad; /* at t->run */
}

/* Makes room for a run. Lane addresses: `lane`, or base + i * stride if it is NULL. */
static MT_INLINE struct mt_run_room warp_room(uint64_t base, int64_t stride, const uint64_t *lane,
                                              uint32_t mask, struct what w)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    struct mt_access_run *r = t->run;
    uint64_t bad = 0;
    if (__builtin_expect(r == t->run_end, 0)) {
        bad = warp_more_room(base, stride, lane, mask, w.of);
        r = t->run;
    }
    return (struct mt_run_room){r, bad};
}

/* Packs the lanes' addresses. Returns their number. */
static MT_INLINE uint32_t warp_gather(uint64_t *to, const uint64_t *lane, uint32_t mask)
{
    uint32_t n = 0;
    for (; mask; mask &= mask - 1)
        to[n++] = lane[__builtin_ctz(mask)];
    return n;
}

/* Records lanes with any addresses. */
MT_BUILTIN MT_KEPT uint32_t __mt_warp_global_lanes(const uint64_t *lane, uint32_t mask, uint64_t of,
                                                   uint32_t warp)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    struct what w = {of, warp};
    if (!mask)
        return 0;
    struct mt_run_room r = warp_room(0, 0, lane, mask, w);
    uint64_t *to = t->run_address, odd = 0;
    uint32_t n = LANES;
    if (mask == UINT32_MAX)
        __builtin_memcpy(to, lane, LANES * sizeof *to);
    else
        n = warp_gather(to, lane, mask);
    uint64_t stride = n > 1 ? to[1] - to[0] : 0;
    for (uint32_t i = 0; i < n; i++)
        odd |= to[i] ^ (to[0] + i * stride);
    warp_append(r.run, to[0], (int64_t)stride, odd ? to : 0, mask, n, w);
    if (odd)
        t->run_address = to + n;
    return (uint32_t)r.bad;
}

static MT_INLINE uint32_t warp_lanes(const uint64_t *lane, uint32_t mask, struct what w)
{
    return __mt_warp_global_lanes(lane, mask, w.of, w.warp);
}

/* All special cases have the same parameters, in the same registers. */
#define OTHER(function) __attribute__((musttail)) return function(base, stride, mask, of, warp)

/* Records some lanes of a row, with gaps between them. */
static MT_KEPT uint32_t warp_apart(uint64_t base, int64_t stride, uint32_t mask, uint64_t of, uint32_t warp)
{
    uint64_t lane[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        lane[i] = base + i * (uint64_t)stride;
    return warp_lanes(lane, mask, (struct what){of, warp});
}

/* Records some lanes of a row, or all if there is no room. */
static MT_KEPT uint32_t warp_other(uint64_t base, int64_t stride, uint32_t mask, uint64_t of, uint32_t warp)
{
    struct what w = {of, warp};
    uint32_t first = mask ? (uint32_t)__builtin_ctz(mask) : 0, m = mask >> first;
    if (!mask || (m & (m + 1) && stride))
        OTHER(warp_apart);
    struct mt_run_room r = warp_room(base, stride, 0, mask, w);
    warp_append(r.run, base + first * (uint64_t)stride, stride, 0, mask, (uint32_t)__builtin_popcount(mask),
                w);
    return (uint32_t)r.bad;
}

/* Returns the lanes of the mask whose addresses are global. */
static MT_INLINE uint32_t warp_globals(const uint64_t *lane, uint32_t mask)
{
    uint32_t global = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        global |= (uint32_t)mt_is_global(lane[i]) << i;
    }
    return global;
}

/* Records a row some of whose lanes may be in non-global memory. */
static MT_KEPT uint32_t warp_mixed(uint64_t base, int64_t stride, uint32_t mask, uint64_t of, uint32_t warp)
{
    uint64_t lane[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        lane[i] = base + i * (uint64_t)stride;
    mask = warp_globals(lane, mask);
    return mask ? warp_other(base, stride, mask, of, warp) : 0;
}

/* Returns whether [base, base + (n - 1) * stride] is surely global, as it meets neither of the non-global
 * ranges. */
static MT_INLINE bool warp_all_global(uint64_t base, int64_t stride, uint32_t n)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    uint64_t last = base + (n - 1) * (uint64_t)stride, low = stride < 0 ? last : base,
             size = stride < 0 ? base - last : last - base;
    return __builtin_expect(low - t->local_base >= t->local_bytes && t->local_base - low > size &&
                                low - t->const_base >= t->const_bytes && t->const_base - low > size,
                            1);
}

/* Records all lanes of an evenly spaced row with room for it, which nearly all accesses are. Uses few
 * registers, as each one must be saved. */
MT_BUILTIN MT_KEPT uint32_t __mt_warp_global(uint64_t base, int64_t stride, uint32_t mask, uint64_t of,
                                             uint32_t warp)
{
    if (__builtin_expect(mask != UINT32_MAX, 0))
        OTHER(warp_other);
    if (__builtin_expect(mt_cpu_tls.run == mt_cpu_tls.run_end, 0))
        OTHER(warp_other);
    warp_append(mt_cpu_tls.run, base, stride, 0, UINT32_MAX, LANES, (struct what){of, warp});
    return 0;
}

static MT_KEPT uint32_t warp_other_generic(uint64_t base, int64_t stride, uint32_t mask, uint64_t of,
                                           uint32_t warp)
{
    if (warp_all_global(base, stride, LANES))
        OTHER(warp_other);
    OTHER(warp_mixed);
}

MT_BUILTIN MT_KEPT uint32_t __mt_warp_generic(uint64_t base, int64_t stride, uint32_t mask, uint64_t of,
                                              uint32_t warp)
{
    if (__builtin_expect(mask != UINT32_MAX, 0))
        OTHER(warp_other_generic);
    if (__builtin_expect(mt_cpu_tls.run == mt_cpu_tls.run_end, 0))
        OTHER(warp_other_generic);
    if (!warp_all_global(base, stride, LANES))
        OTHER(warp_other_generic);
    warp_append(mt_cpu_tls.run, base, stride, 0, UINT32_MAX, LANES, (struct what){of, warp});
    return 0;
}

static MT_INLINE void warp_rows(uint64_t *to, uint64_t base, uint64_t base1, uint64_t stride)
{
    for (uint32_t i = 0; i < LANES / 2; i++)
        to[i] = base + i * stride;
    for (uint32_t i = 0; i < LANES / 2; i++)
        to[LANES / 2 + i] = base1 + i * stride;
}

static MT_INLINE bool warp_is_one_row(uint64_t base, uint64_t base1, int64_t stride)
{
    return base1 - base == LANES / 2 * (uint64_t)stride;
}

static MT_INLINE void warp_append_rows(uint64_t base, uint64_t base1, int64_t stride, struct what w)
{
    warp_append_as(mt_cpu_tls.run, base, stride, (int64_t)(base1 - base), LANES / 2, UINT32_MAX, LANES, w);
}

/* Records two rows that form one row, or that there is no room for. */
static MT_KEPT uint32_t warp_other_rows(uint64_t base, uint64_t base1, int64_t stride, uint64_t of,
                                        uint32_t warp)
{
    uint64_t lane[LANES], bad = 0;
    struct what w = {of, warp};
    if (mt_cpu_tls.run == mt_cpu_tls.run_end) {
        warp_rows(lane, base, base1, (uint64_t)stride);
        bad = warp_room(0, 0, lane, UINT32_MAX, w).bad;
    }
    if (warp_is_one_row(base, base1, stride))
        warp_append(mt_cpu_tls.run, base, stride, 0, UINT32_MAX, LANES, w);
    else
        warp_append_rows(base, base1, stride, w);
    return (uint32_t)bad;
}

/* Records all lanes of two rows of 16. */
MT_BUILTIN MT_KEPT uint32_t __mt_warp_global_rows(uint64_t base, uint64_t base1, int64_t stride, uint64_t of,
                                                  uint32_t warp)
{
    if (__builtin_expect(mt_cpu_tls.run == mt_cpu_tls.run_end, 0) ||
        __builtin_expect(warp_is_one_row(base, base1, stride), 0)) __attribute__
        ((musttail)) return warp_other_rows(base, base1, stride, of, warp);
    warp_append_rows(base, base1, stride, (struct what){of, warp});
    return 0;
}

MT_BUILTIN MT_KEPT uint32_t __mt_warp_generic_rows(uint64_t base, uint64_t base1, int64_t stride, uint64_t of,
                                                   uint32_t warp)
{
    uint64_t lane[LANES];
    if (warp_all_global(base, stride, LANES / 2) && warp_all_global(base1, stride, LANES / 2)) {
        return __mt_warp_global_rows(base, base1, stride, of, warp);
    }
    warp_rows(lane, base, base1, (uint64_t)stride);
    uint32_t mask = warp_globals(lane, UINT32_MAX);
    return warp_lanes(lane, mask, (struct what){of, warp});
}

MT_BUILTIN MT_KEPT uint32_t __mt_warp_generic_lanes(const uint64_t *lane, uint32_t mask, uint64_t of,
                                                    uint32_t warp)
{
    mask = warp_globals(lane, mask);
    return warp_lanes(lane, mask, (struct what){of, warp});
}

/* ---- regions (format/container/region.h): their code stores the bases ---- */

/* Calls that record are declared not to touch memory that other code sees (record.c of the pass), so LLVM
 * must not keep what it knows of the buffer's position across them. */
typedef struct mt_access_run *volatile region_position;

static MT_KEPT uint64_t *region_room(uint32_t units)
{
    return (uint64_t *)mt_cpu_region_room(units);
}

/* Returns the words of the next entry, or NULL if each access must be recorded by itself: under
 * MEMTRACE_CHECK. The entry counts once __mt_region_end is called. */
MT_INLINED uint64_t *__mt_region_begin(uint32_t units)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    struct mt_access_run *run = *(region_position *)&t->run, *end = *(region_position *)&t->run_end;
    if (__builtin_expect((uint64_t)((char *)end - (char *)run) < units * sizeof *run, 0))
        return t->checked ? NULL : region_room(units);
    return (uint64_t *)run;
}

/* Completes an entry, but for the laps and steps of a loop. */
MT_INLINED void __mt_region_end(uint64_t *word, const void *of, uint32_t warp, uint32_t units)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    word[MT_REGION_OF] = (uint64_t)of;
    word[MT_REGION_CTA] = t->run_cta;
    word[MT_REGION_WARP] = t->smid | (uint64_t)warp << 32;
    word[MT_REGION_BASE] = (uint64_t)access_site_base() << 32;
    word[MT_REGION_ZERO] = 0;
    *(region_position *)&t->run = (struct mt_access_run *)word + units;
}

/* Ends an entry after `laps` laps and the first `made` accesses of the next; the others are recorded by
 * themselves. */
MT_BUILTIN MT_KEPT void __mt_region_leave(uint64_t *word, const void *of, uint32_t warp, uint64_t laps,
                                          uint32_t made)
{
    const struct mt_region *g = of;
    uint64_t copy[MT_REGION_WORDS_MAX];
    if (!word)
        return;
    __builtin_memcpy(copy, word, g->units * sizeof(struct mt_access_run));
    copy[MT_REGION_CTA] = mt_cpu_tls.run_cta;
    copy[MT_REGION_WARP] = mt_cpu_tls.smid | (uint64_t)warp << 32;
    copy[MT_REGION_BASE] = (uint64_t)access_site_base() << 32;
    if (laps) {
        word[mt_region_word(g->bases)] = laps;
        __mt_region_end(word, of, warp, g->units);
    }
    for (uint32_t i = 0; i < made; i++) {
        struct mt_access_run run;
        mt_region_run(g, copy, i, laps, &run);
        struct what w = {run.meta | (uint64_t)g->access[i].site << 32, warp};
        *warp_room(run.base, run.stride, 0, UINT32_MAX, w).run = run;
        mt_cpu_tls.run++;
    }
}

/* Counts the accesses of a loop whose addresses were not evenly spaced after all, as its 32-bit numbers
 * wrapped. */
MT_BUILTIN MT_KEPT void __mt_region_lost(const void *of, uint64_t laps)
{
    mt_cpu_tls.untraced += laps * ((const struct mt_region *)of)->n * LANES;
}

static MT_KEPT void warp_end(void)
{
    mt_cpu_run_bad();
}

/* Ends the warp if lanes are bad, after records of accesses that cannot be skipped. */
MT_INLINED void __mt_warp_end(uint32_t bad)
{
    if (__builtin_expect(bad != 0, 0))
        warp_end();
}

/* Returns whether there is anything to record, with address and type as in the trace. */
static MT_INLINE bool warp_where(enum mt_record_of of, uint64_t *address, uint32_t *type)
{
    switch (of) {
    case MT_RECORD_GLOBAL:
        return true;
    case MT_RECORD_GENERIC:
        return mt_is_global(*address);
    case MT_RECORD_ANY:
        return spaces_of(address, type);
    case MT_RECORD_SHARED:
        *address = spaces_shared(*address);
        break;
    case MT_RECORD_MBARRIER:
        *address = spaces_object(*address);
        break;
    case MT_RECORD_PHASE:
        if (spaces_wanted())
            *address = access_phase(*address, *type);
        break;
    case MT_RECORD_NUMBER:
    case MT_RECORD_CONSTANT:
        break;
    }
    return spaces_wanted();
}

/* Records lanes with any addresses, with `bytes` (NULL: meta's size) and kind per lane; equal ones form
 * one access. Returns the bad lanes, as all of these functions do. */
MT_BUILTIN uint32_t __mt_warp_each(uint32_t space, const uint64_t *lane, const uint64_t *bytes, uint32_t mask,
                                   uint64_t of, uint32_t warp)
{
    uint64_t at[LANES], left[LANES], site = of >> 32 << 32;
    uint32_t type[LANES], some = 0, bad = 0, meta = (uint32_t)of;
    if (space == MT_RECORD_CONSTANT)
        return mt_cpu_tls.run == mt_cpu_tls.run_end
                   ? mt_cpu_check_constant(lane, mask, meta, (uint32_t)(of >> 32) + access_site_base())
                   : 0;
    if (space == MT_RECORD_SHARED && !bytes) { /* all of one kind */
        for (uint32_t m = mask; m; m &= m - 1)
            at[__builtin_ctz(m)] = spaces_shared(lane[__builtin_ctz(m)]);
        return spaces_wanted() ? warp_lanes(at, mask, (struct what){of, warp}) : 0;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        at[i] = lane[i];
        type[i] = bytes ? meta : meta >> 28;
        left[i] = bytes ? bytes[i] : meta & RECORD_MAX;
        if ((!bytes || left[i]) && warp_where((enum mt_record_of)space, &at[i], &type[i]))
            some |= 1u << i;
    }
    while (some) {
        uint32_t first = (uint32_t)__builtin_ctz(some), alike = 0, kind = type[first];
        uint64_t n = left[first], piece = n < RECORD_MAX ? n : RECORD_MAX;
        for (uint32_t m = some; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(m);
            alike |= (uint32_t)(type[i] == kind && left[i] == n) << i;
        }
        bad |= warp_lanes(at, alike, (struct what){site | kind << 28 | (uint32_t)piece, warp});
        for (uint32_t m = alike; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(m);
            at[i] += piece;
            left[i] -= piece;
        }
        if (n == piece)
            some &= ~alike;
    }
    return bad;
}

/* Here, like everything that code for whole warps calls. */
MT_BUILTIN void __mt_warp_undefined(uint32_t thread, uint32_t lanes, const uint32_t *from)
{
    mt_cpu_warp_undefined(thread / LANES, lanes, from);
}

/* Reports that these lanes reach a barrier while others are elsewhere. Called only if each access is
 * checked (MEMTRACE_CHECK). */
MT_INLINED void __mt_warp_apart(uint32_t thread, uint32_t lanes, uint32_t others)
{
    if (__builtin_expect(mt_cpu_tls.run == mt_cpu_tls.run_end, 0))
        mt_cpu_warp_apart(thread / LANES, lanes, others);
}

MT_BUILTIN void __mt_warp_matrix(const struct mt_matrix_op *op, void *const *p, const uint64_t *stride,
                                 const uint64_t *const *in, uint64_t *const *out, uint32_t lanes)
{
    mt_cpu_warp_matrix(op, p, stride, in, out, lanes);
}

MT_BUILTIN void __mt_warp_turn(void)
{
    mt_cpu_warp_turn();
}
