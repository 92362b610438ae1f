/* Use of the bytes of allocations and of shared memory: uninitialised reads, unused memory, unordered
 * operations. */
#include "memory.h"
#include "analysis/base/runs.h"
#include "memtrace/record.h"
#include "analysis/onchip/onchip.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "memtrace/host.h"

#include <stdlib.h>
#include <string.h>

enum { PADDING_WORD = 4 };

/* ---- members of structs ---- */

static uint64_t padding_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t padding_distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* Returns the greatest common divisor of a step and all distances from lane to lane; 0: not known. */
static uint64_t padding_step(const struct mt_access_run *r, uint64_t step)
{
    for (uint32_t i = 1; i < (r->addresses ? r->count : r->count > 1 ? 2 : 1); i++) {
        const uint64_t by = padding_distance(mt_run_address(r, i - 1), mt_run_address(r, i));
        if (!step || step & (step - 1) || by & (step - 1)) /* not a multiple of a power of two */
            step = padding_divisor(step, by);
    }
    return step;
}

static int members_known(const struct mt_members *m)
{
    return m->step && m->step <= MT_MEMBERS_STEP;
}

static void members_begin(struct mt_members *m, uint64_t offset)
{
    m->begins[offset % m->step / 64] |= 1ull << offset % m->step % 64;
}

static int members_begins(const struct mt_members *m, uint64_t offset)
{
    return m->begins[offset % m->step / 64] >> offset % m->step % 64 & 1;
}

/* Changes to a smaller step; known offsets are folded into it. */
static void members_fold(struct mt_members *m, uint64_t step)
{
    struct mt_members old = *m;
    m->step = step;
    memset(m->begins, 0, sizeof m->begins);
    for (uint64_t i = 0; members_known(m) && members_known(&old) && i < old.step; i++)
        if (members_begins(&old, i))
            members_begin(m, i);
}

/* Records a run of stores, `offset` bytes into the block. whole: the run copies structs, and may begin
 * anywhere. */
static void members_store(struct mt_members *m, const struct mt_access_run *r, uint64_t offset, int whole)
{
    uint64_t step = padding_step(r, m->step);
    if (m->widest < mt_run_size(r))
        m->widest = mt_run_size(r);
    if (step != m->step)
        members_fold(m, step);
    if (members_known(m) && !whole)
        members_begin(m, offset);
}

/* Records a copy from the host, or (from != NULL) from another block. */
static void members_take(struct mt_members *m, const struct mt_members *from)
{
    uint32_t widest = m->widest;
    if (from && !m->step)
        *m = *from;
    m->host |= !from || from->host;
    if (m->widest < widest)
        m->widest = widest;
    if (from && m->widest < from->widest)
        m->widest = from->widest;
}

/* Returns 1 if at least two members of a struct are known. */
static int members_several(const struct mt_members *m)
{
    int n = 0;
    for (uint64_t i = 0; members_known(m) && i < m->step; i++)
        n += members_begins(m, i);
    return n > 1;
}

/* ---- padding ---- */

static uint64_t written_run(const struct mt_written *w, uint64_t from, uint64_t n, int *set);

static int padding_unwritten(const struct mt_written *w, uint64_t at)
{
    int set;
    written_run(w, at, 1, &set);
    return !set;
}

/* Returns 1 if bytes from .. to - 1 may be padding before something with this alignment. */
static int padding_fits(const struct mt_members *m, uint64_t from, uint64_t to, uint64_t align,
                        uint32_t aligned)
{
    const int words = from % PADDING_WORD == 0 && to % PADDING_WORD == 0;
    uint64_t most = words || (m->widest < PADDING_WORD && !m->host) ? m->widest : MT_MEMBERS_ALIGNED;
    if (to % align || to - from >= align)
        return 0;
    for (uint64_t i = from; members_known(m) && i < to; i++)
        if (members_begins(m, i))
            return 0;
    if (to - from >= PADDING_WORD && most < aligned)
        most = aligned;
    return align <= most;
}

/* Returns the number of padding bytes from this unwritten byte on; 0: none. host: bytes last written by the
 * host, or NULL. aligned: further alignment known in the block, 0: none. */
static uint64_t mt_padding(const struct mt_written *written, const struct mt_written *host,
                           const struct mt_members *m, uint64_t at, uint32_t aligned)
{
    uint64_t from = at, left;
    int set = 0;
    while (from && at - from < MT_MEMBERS_ALIGNED && padding_unwritten(written, from - 1))
        from--;
    if (!from || at - from == MT_MEMBERS_ALIGNED)
        return 0;
    if (host)
        written_run(host, from - 1, 1, &set);
    left = written_run(written, at, MT_MEMBERS_ALIGNED, &(int){0});
    for (uint64_t align = 2; !set && align <= MT_MEMBERS_ALIGNED; align *= 2) {
        uint64_t n = align - at % align;
        n = n < left ? n : left;
        if (padding_fits(m, from, at + n, align, aligned))
            return n;
    }
    return 0;
}

/* clang copies data with an alignment of 16 in two halves. */
static uint64_t padding_read(const struct mt_written *written, const struct mt_written *host,
                             const struct mt_members *m, uint64_t at, uint64_t n, uint32_t size, int whole)
{
    uint32_t aligned = whole && size == 8 ? MT_MEMBERS_ALIGNED : size;
    uint64_t padding =
        size >= PADDING_WORD && n == size && !whole ? 0 : mt_padding(written, host, m, at, aligned);
    return padding < n ? padding : n;
}

/* ---- copies of structs ---- */

MT_ORDER_POINTED(padding_place_order, struct mt_site_event,
                 MT_ORDER_TEXT(x->file, y->file) MT_ORDER_DIFFER(x, y, line) MT_ORDER_DIFFER(x, y, column)
                     MT_ORDER_TEXT(x->function, y->function))

/* Examines the sites list[n] of one place. */
static int padding_copies_at(struct mt_pairmap *sites, size_t input, const struct mt_site_event **list,
                             size_t n)
{
    uint64_t sizes[2] = {0, 0}, count[2] = {0, 0};
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        int store = strcmp(list[i]->op, "store") == 0;
        sizes[store] |= list[i]->size;
        count[store]++;
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        if (count[0] > 1 && count[1] > 1 && list[i]->size & sizes[0] & sizes[1])
            rc = mt_pairmap_get(sites, list[i]->id, input, 1) ? 0 : -1;
    return rc;
}

static int padding_copies_of(struct mt_pairmap *sites, size_t input, const struct mt_companion *c)
{
    const struct mt_site_event **list = malloc((c->nsites + 1) * sizeof *list);
    size_t n = 0;
    int rc = list ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < c->nsites; i++)
        if (*c->sites[i].file)
            list[n++] = &c->sites[i];
    if (n)
        qsort(list, n, sizeof *list, padding_place_order);
    for (size_t i = 0, end; i < n && rc == 0; i = end) {
        for (end = i + 1; end < n && padding_place_order(&list[i], &list[end]) == 0;)
            end++;
        rc = padding_copies_at(sites, input, list + i, end - i);
    }
    free((void *)list);
    return rc;
}

/* Finds the sites (id, input) that copy structs in parts: a place has loads and stores of the same sizes.
 * Returns 0, or -1 without memory. */
static int padding_copies(struct mt_pairmap *sites, const struct mt_source *s)
{
    const struct mt_companion *c;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < mt_source_inputs(s); i++)
        if ((c = mt_source_companion(s, i)))
            rc = padding_copies_of(sites, i, c);
    return rc;
}

enum {
    BYTES = 1 << 20,
    WARPS = 32,
    MOST_SIZE = 16,
    MOST_SHARE = 32
}; /* BYTES: more shared memory than any
    * GPU has */

static void written_free(struct mt_written *w);

/* Begins a launch. blind: its trace lacks accesses. */
static void check_shared_launch(struct mt_check_shared *x, int blind)
{
    for (uint64_t i = 0; x->written && i < x->count && i < MT_SHARED_CTAS; i++)
        written_free(&x->written[i]);
    mt_pairmap_clear(&x->numbers);
    x->count = 0;
    x->last = NULL;
    x->members = (struct mt_members){0};
    x->blind = blind;
}

static void check_shared_free(struct mt_check_shared *x)
{
    check_shared_launch(x, 0);
    mt_pairmap_free(&x->numbers);
    free(x->written);
    memset(x, 0, sizeof *x);
}

static int written_init(struct mt_written *w, uint64_t bytes);

/* Finds the written bytes of a CTA; *w is NULL if they were dropped. Returns 0, or -1 without memory. */
static int shared_cta(struct mt_check_shared *x, uint64_t cta, struct mt_written **w, uint64_t *number)
{
    if (x->last && x->last_cta == cta) {
        *number = x->last_number;
        *w = x->last;
        return 0;
    }
    const uint64_t *at = mt_pairmap_get(&x->numbers, cta, 0, x->count);
    if (!at || (!x->written && !(x->written = calloc(MT_SHARED_CTAS, sizeof *x->written))))
        return -1;
    *number = *at;
    *w = *at + MT_SHARED_CTAS < x->count ? NULL : &x->written[*at % MT_SHARED_CTAS];
    x->last = *w;
    x->last_cta = cta;
    x->last_number = *at;
    if (*at != x->count)
        return 0;
    x->count++;
    written_free(*w);
    return written_init(*w, BYTES);
}

static enum mt_access_type unwritten_way(struct mt_unwritten *u, const struct mt_access_run *r);
static int written_of_run(const struct mt_written *w, const struct mt_access_run *r, uint64_t base,
                          uint64_t lowest, uint64_t extent);
static int unwritten_add(struct mt_unwritten *u, const struct mt_access_run *r, uint32_t first,
                         uint64_t begin, uint64_t address, uint64_t n, uint64_t memory,
                         const struct mt_alloc_event *alloc);

/* Checks a lane's read. */
static int shared_read(const struct mt_check_shared *x, const struct mt_written *w,
                       const struct mt_access_run *r, uint32_t access, uint64_t memory, int whole,
                       struct mt_unwritten *u)
{
    const uint64_t size = mt_run_size(r), address = mt_run_address(r, access);
    for (uint64_t i = 0, n; i < size; i += n) {
        int set;
        n = written_run(w, address + i, size - i, &set);
        uint64_t padding =
            set ? n : padding_read(w, NULL, &x->members, address + i, n, (uint32_t)size, whole);
        if (padding)
            n = padding;
        else if (unwritten_add(u, r, access, address, address + i, n, memory, NULL) != 0)
            return -1;
    }
    return 0;
}

/* Checks consecutive accesses, from `first` on. */
static int shared_piece(const struct mt_check_shared *x, const struct mt_written *w,
                        const struct mt_access_run *r, const struct mt_piece *p, uint32_t first,
                        uint64_t memory, int whole, struct mt_unwritten *u)
{
    int set, rc = 0;
    if (written_run(w, p->address, p->bytes, &set) == p->bytes && set)
        return 0;
    for (uint32_t i = 0; i < p->accesses && rc == 0; i++)
        rc = shared_read(x, w, r, first + i, memory, whole, u);
    return rc;
}

static int written_set(struct mt_written *w, uint64_t from, uint64_t n);

/* Checks a run. whole: it copies structs. Returns 0, or -1 without memory. */
static int check_shared_run(struct mt_check_shared *x, const struct mt_access_run *r, int whole,
                            struct mt_unwritten *u)
{
    const uint32_t type = mt_run_type(r), way = unwritten_way(u, r), size = mt_run_size(r);
    const int loads = way != MT_STORE && size <= (r->mask == UINT32_MAX ? MOST_SHARE : MOST_SIZE);
    struct mt_written *w;
    struct mt_piece p;
    uint64_t number, lowest, extent;
    uint32_t at = 0, first = 0;
    if (type >= MT_SYNC_BARRIER || mt_rec_space(type) != MT_IN_SHARED || x->blind || !r->count)
        return 0;
    if (r->warp >= WARPS || !r->mask) {
        x->blind = 1;
        return 0;
    }
    if (shared_cta(x, r->cta, &w, &number) != 0)
        return -1;
    if (w && way != MT_LOAD)
        members_store(&x->members, r, mt_run_address(r, 0), whole);
    if (w && (extent = mt_run_extent(r, &lowest)) && written_of_run(w, r, 0, lowest, extent))
        return 0;
    for (; w && mt_run_piece(r, &at, &p); first = at)
        if (p.address > BYTES || p.bytes > BYTES - p.address) /* memory of another CTA of the cluster */
            x->blind |= way != MT_LOAD;
        else if ((loads && shared_piece(x, w, r, &p, first, 1 + number, whole, u) != 0) ||
                 (way != MT_LOAD && written_set(w, p.address, p.bytes) != 0))
            return -1;
    return 0;
}

enum { WRITTEN_PAGE_BITS = 12, WRITTEN_PAGE = 1 << WRITTEN_PAGE_BITS, WRITTEN_WORDS = WRITTEN_PAGE / 64 };
static uint64_t full[1]; /* marks a page that is written completely */

static uint64_t written_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Initialises a set in which none of `bytes` bytes is written. Returns 0, or -1 without memory. */
static int written_init(struct mt_written *w, uint64_t bytes)
{
    w->bytes = bytes;
    w->page = calloc((bytes >> WRITTEN_PAGE_BITS) + 1, sizeof(uint64_t *));
    return w->page ? 0 : -1;
}

static void written_drop(struct mt_written *w)
{
    for (uint64_t i = 0; w->page && i <= w->bytes >> WRITTEN_PAGE_BITS; i++)
        if (w->page[i] != full)
            free(w->page[i]);
    free((void *)w->page);
    w->page = NULL;
}

static void written_free(struct mt_written *w)
{
    written_drop(w);
    *w = (struct mt_written){0};
}

static void written_all(struct mt_written *w)
{
    written_drop(w);
    w->all = 1;
}

/* Returns a mask of `n` bits from `bit` on, up to the word's end. */
static uint64_t written_mask(unsigned bit, uint64_t n)
{
    return (n >= 64 - bit ? UINT64_MAX : (1ull << (bit + n)) - 1) & (UINT64_MAX << bit);
}

/* Frees the words of a page whose bits are all set. */
static void written_close(uint64_t **page)
{
    for (int i = 0; i < WRITTEN_WORDS; i++)
        if ((*page)[i] != UINT64_MAX)
            return;
    free(*page);
    *page = full;
}

/* Allocates words for page number `at` if it has none. Bits of bytes beyond the end are set. */
static int written_open(struct mt_written *w, uint64_t at)
{
    uint64_t **page = &w->page[at], bytes = w->bytes - (at << WRITTEN_PAGE_BITS);
    int set = *page == full;
    if (*page && !set)
        return 0;
    if (!(*page = malloc(WRITTEN_WORDS * sizeof(uint64_t))))
        return -1;
    memset(*page, set ? 0xff : 0, WRITTEN_WORDS * sizeof(uint64_t));
    for (unsigned i = 0; bytes < WRITTEN_PAGE && i < WRITTEN_WORDS; i++)
        if (64 * (i + 1) > bytes)
            (*page)[i] |= 64 * i < bytes ? UINT64_MAX << bytes % 64 : UINT64_MAX;
    return 0;
}

static int written_page(struct mt_written *w, uint64_t number, unsigned from, uint64_t n)
{
    uint64_t **page = &w->page[number];
    if (*page == full)
        return 0;
    if (n == WRITTEN_PAGE) {
        free(*page);
        *page = full;
        return 0;
    }
    if (written_open(w, number) != 0)
        return -1;
    int whole = 0;
    for (unsigned at = from, end = from + (unsigned)n; at < end; at = (at | 63) + 1) {
        (*page)[at / 64] |= written_mask(at % 64, end - at);
        whole |= (*page)[at / 64] == UINT64_MAX;
    }
    /* usually written in ascending order, so checked at the last byte */
    if (whole && (from + n == WRITTEN_PAGE || (number << WRITTEN_PAGE_BITS) + from + n == w->bytes))
        written_close(page);
    return 0;
}

/* Marks bytes from .. from + n - 1 as written. Bytes beyond the end are ignored. Returns 0, or -1 without
 * memory. */
static int written_set(struct mt_written *w, uint64_t from, uint64_t n)
{
    uint64_t end = from >= w->bytes || w->all ? from : from + written_least(n, w->bytes - from);
    while (from < end) {
        uint64_t here = written_least(end - from, WRITTEN_PAGE - from % WRITTEN_PAGE);
        if (written_page(w, from >> WRITTEN_PAGE_BITS, from % WRITTEN_PAGE, here) != 0)
            return -1;
        from += here;
    }
    return 0;
}

/* Marks bytes as not written. */
static int written_clear(struct mt_written *w, uint64_t from, uint64_t n)
{
    uint64_t end = from >= w->bytes || w->all || !w->page ? from : from + written_least(n, w->bytes - from);
    while (from < end) {
        uint64_t **page = &w->page[from >> WRITTEN_PAGE_BITS];
        uint64_t here = written_least(end - from, WRITTEN_PAGE - from % WRITTEN_PAGE);
        if (*page && written_open(w, from >> WRITTEN_PAGE_BITS) != 0)
            return -1;
        for (uint64_t at = from, to = from + here; *page && at < to; at = (at | 63) + 1)
            (*page)[at % WRITTEN_PAGE / 64] &= ~written_mask(at % 64, to - at);
        from += here;
    }
    return 0;
}

/* Counts equal bits within a page. */
static uint64_t written_same(const uint64_t *page, unsigned from, uint64_t n, int *set)
{
    if (!page || page == full) {
        *set = page == full;
        return n;
    }
    *set = page[from / 64] >> from % 64 & 1;
    unsigned at = from, end = from + (unsigned)n;
    while (at < end) {
        uint64_t other = (*set ? ~page[at / 64] : page[at / 64]) & (UINT64_MAX << at % 64);
        if (other)
            return written_least((at & ~63u) + (unsigned)__builtin_ctzll(other), end) - from;
        at = (at | 63) + 1;
    }
    return n;
}

/* Returns how many of `n` bytes have the state of the first one; *set: 1 if it was written. Bytes beyond the
 * end count as written. */
static uint64_t written_run(const struct mt_written *w, uint64_t from, uint64_t n, int *set)
{
    uint64_t end = from >= w->bytes ? from : from + written_least(n, w->bytes - from), at = from;
    int same = 1;
    *set = 1;
    if (from >= w->bytes || w->all)
        return n;
    while (at < end) {
        int here;
        uint64_t part = written_least(end - at, WRITTEN_PAGE - at % WRITTEN_PAGE),
                 run = written_same(w->page[at >> WRITTEN_PAGE_BITS], at % WRITTEN_PAGE, part, &here);
        *set = at == from ? here : *set;
        same = here == *set;
        if (!same)
            break;
        at += run;
        if (run < part)
            break;
    }
    return at - from;
}

/* Returns 1 if n bytes of a word of 64 are written; 0 if not, or if there is more to it. */
static inline int written_has(const struct mt_written *w, uint64_t from, uint32_t n)
{
    const uint64_t *page = w->page[from >> WRITTEN_PAGE_BITS];
    const uint64_t bits = n < 64 ? ((1ull << n) - 1) << from % 64 : UINT64_MAX;
    if (!page || from % 64 + n > 64)
        return 0;
    return page == full || (page[from % WRITTEN_PAGE / 64] & bits) == bits;
}

/* Returns 1 if all that a run accesses is written, 0 if not or if it is not easily told. lowest, extent: from
 * mt_run_extent, of bytes of the set; base: address of its first byte. */
static int written_of_run(const struct mt_written *w, const struct mt_access_run *r, uint64_t base,
                          uint64_t lowest, uint64_t extent)
{
    const uint32_t size = mt_run_size(r);
    const uint64_t from = lowest - base;
    int set;
    if (w->all)
        return 1;
    if (from > w->bytes || extent > w->bytes - from)
        return 0;
    if (extent <= 64ull * r->count && written_run(w, from, extent, &set) == extent && set)
        return 1;
    for (uint32_t i = 0; i < r->count; i++)
        if (!written_has(w, mt_run_address(r, i) - base, size))
            return 0;
    return 1;
}

enum { MOST = 1 << 20, UNWRITTEN_WORD = 4 };

static const char *const unwritten_ops[] = {"load", "store", "atomic", "access"};

/* Returns the lane of an access: inactive lanes are skipped. */
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
    uint64_t *at = mt_pairmap_get(&u->words, byte / UNWRITTEN_WORD, memory, u->count);
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

/* Adds `n` unwritten bytes at `address`, of consecutive accesses of a run that begin at `begin`; the first
 * has number `first`. memory: 0, or 1 + number of a CTA. Returns 0, or -1 without memory. */
static int unwritten_add(struct mt_unwritten *u, const struct mt_access_run *r, uint32_t first,
                         uint64_t begin, uint64_t address, uint64_t n, uint64_t memory,
                         const struct mt_alloc_event *alloc)
{
    for (uint64_t word = address / UNWRITTEN_WORD;
         word <= (address + n - 1) / UNWRITTEN_WORD && u->count < MOST; word++) {
        uint64_t byte = word * UNWRITTEN_WORD > address ? word * UNWRITTEN_WORD : address;
        if (unwritten_word(u, r, first + (uint32_t)((byte - begin) / mt_run_size(r)), byte, memory, alloc))
            return -1;
    }
    return 0;
}

/* Returns how a run accesses its memory: an exchange whose result nobody uses is a store. */
static enum mt_access_type unwritten_way(struct mt_unwritten *u, const struct mt_access_run *r)
{
    const uint32_t way = mt_run_type(r) & 3;
    if (way == MT_ATOMIC && (!u->known || u->site != r->site)) {
        const struct mt_site_event *s = mt_companion_site(mt_source_companion(u->source, u->input), r->site);
        u->known = 1;
        u->site = r->site;
        u->overwrites = s && s->overwrites;
    }
    return way == MT_ATOMIC && u->overwrites ? MT_STORE : (enum mt_access_type)way;
}

/* Marks words that a CTA stores to in global memory. */
static void unwritten_settle(struct mt_unwritten *u, uint64_t cta, uint64_t address, uint64_t n)
{
    for (uint64_t word = address / UNWRITTEN_WORD; u->count && word <= (address + n - 1) / UNWRITTEN_WORD;
         word++) {
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
                 .stack = s ? s->inlined : NULL,
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
    mt_finding_launched(&f, u->launch);
    return mt_findings_add(u->findings, &f);
}

/* Reports the words at the launch's end. Returns 0, or -1 without memory. */
static int unwritten_end(struct mt_unwritten *u)
{
    int rc = 0;
    for (size_t i = 0; i < u->count && rc == 0; i++)
        rc = u->list[i].stored ? 0 : unwritten_report(u, &u->list[i]);
    u->count = 0;
    mt_pairmap_clear(&u->words);
    return rc;
}

static void unwritten_free(struct mt_unwritten *u)
{
    free(u->list);
    mt_pairmap_free(&u->words);
}

enum {
    UNORDERED_MOST_ROWS = 4096,
    UNORDERED_PAGE_BITS = 12,
    UNORDERED_WORDS = (1 << UNORDERED_PAGE_BITS) / 64,
    MOST_PAGES = 1 << 17,
    UNORDERED_STRONG = 3
};

struct mt_unordered_page {
    uint64_t number;
    uint64_t bits[4][UNORDERED_WORDS]; /* by MT_LOAD, MT_STORE, MT_ATOMIC; UNORDERED_STRONG */
};

/* ---- the order ---- */

MT_ORDER_POINTED_2(unordered_by_n, struct mt_order_event, n, op)
MT_ORDER_POINTED_2(unordered_by_op, struct mt_order_event, op, n)

static int unordered_collect(struct mt_check_unordered *u, const struct mt_companion *c)
{
    size_t room[MT_UNORDERED_STREAMS] = {0}, rooms = 0;
    for (size_t i = 0; i < c->norders; i++) {
        const struct mt_order_event *e = &c->orders[i];
        if (e->stream >= MT_UNORDERED_STREAMS)
            continue;
        if (mt_grow((void *)&u->orders[e->stream], &room[e->stream], u->norders[e->stream] + 1,
                    sizeof(void *)) != 0 ||
            mt_grow((void *)&u->by_op, &rooms, u->nops + 1, sizeof(void *)) != 0)
            return -1;
        u->orders[e->stream][u->norders[e->stream]++] = e;
        u->by_op[u->nops++] = e;
    }
    return 0;
}

static const struct mt_order_event *unordered_find(const struct mt_check_unordered *u, uint64_t op)
{
    size_t at = MT_FIRST(i, u->nops, u->by_op[i]->op >= op);
    return op && at < u->nops && u->by_op[at]->op == op ? u->by_op[at] : NULL;
}

static int unordered_by_life(const void *x, const void *y)
{
    const struct mt_unordered_life *a = x, *b = y;
    return (a->order->n > b->order->n) - (a->order->n < b->order->n);
}

static int unordered_lives(struct mt_check_unordered *u, const struct mt_companion *c)
{
    size_t room[MT_UNORDERED_STREAMS] = {0};
    for (size_t i = 0; i < c->nordereds; i++) {
        const struct mt_order_event *e = unordered_find(u, c->ordereds[i].op);
        size_t s = e ? e->stream : 0;
        if (!e)
            continue;
        if (mt_grow(&u->lives[s], &room[s], u->nlives[s] + 1, sizeof *u->lives[s]) != 0)
            return -1;
        u->lives[s][u->nlives[s]++] = (struct mt_unordered_life){&c->ordereds[i], e};
    }
    for (int i = 0; i < MT_UNORDERED_STREAMS; i++)
        if (u->nlives[i])
            qsort(u->lives[i], u->nlives[i], sizeof *u->lives[i], unordered_by_life);
    return 0;
}

/* Functions return 0, or -1 without memory. */
static int check_unordered_init(struct mt_check_unordered *u, struct mt_source *s,
                                struct mt_findings *findings, struct mt_buffers *buffers)
{
    memset(u, 0, sizeof *u);
    u->findings = findings;
    u->buffers = buffers;
    u->source = s;
    u->site = UINT32_MAX;
    const struct mt_companion *c = mt_findings_companion(findings, s);
    u->companion = c;
    if (c && unordered_collect(u, c) != 0)
        return -1;
    for (int i = 0; i < MT_UNORDERED_STREAMS; i++)
        if (u->norders[i])
            qsort(u->orders[i], u->norders[i], sizeof(void *), unordered_by_n);
    if (u->nops)
        qsort(u->by_op, u->nops, sizeof(void *), unordered_by_op);
    return c ? unordered_lives(u, c) : 0;
}

/* Returns how many operations of that stream precede the operation. */
static uint64_t unordered_after(const struct mt_order_event *e, uint64_t stream)
{
    for (size_t i = 0; i < e->nafter; i++)
        if (e->after[i].stream == stream)
            return e->after[i].n;
    return e->stream == stream ? e->n - 1 : 0;
}

/* Returns whether an operation comes before another one. */
static int unordered_precedes(const struct mt_order_event *a, const struct mt_order_event *b)
{
    int before = unordered_after(b, a->stream) >= a->n;
    for (size_t i = 0; i < a->nbefore && !before; i++)
        before = unordered_after(b, a->before[i].stream) >= a->before[i].n;
    return before;
}

/* Returns the last operation of the stream that does not come after it. */
static uint64_t unordered_until(const struct mt_check_unordered *u, const struct mt_order_event *e,
                                uint64_t stream)
{
    const struct mt_order_event **list = u->orders[stream];
    /* What comes after one comes after those before it in its stream. */
    size_t n = MT_FIRST(i, u->norders[stream], unordered_precedes(e, list[i]));
    return n ? list[n - 1]->n : 0;
}

/* ---- operations ---- */

static void unordered_drop(struct mt_check_unordered *u, struct mt_unordered_op *o)
{
    u->pages -= o->npages;
    free(o->pages);
    mt_pairmap_free(&o->at);
    free(o);
}

static int unordered_is_over(const struct mt_check_unordered *u, const struct mt_unordered_op *o)
{
    for (uint64_t t = 0; t < MT_UNORDERED_STREAMS; t++)
        if (t != o->order->stream && o->until[t] > u->done[t])
            return 0;
    return 1;
}

static void unordered_sweep(struct mt_check_unordered *u)
{
    size_t n = 0;
    for (size_t i = 0; i < u->nopen; i++)
        if (unordered_is_over(u, u->open[i]))
            unordered_drop(u, u->open[i]);
        else
            u->open[n++] = u->open[i];
    u->nopen = n;
}

/* Returns the allocation of this id, or NULL. */
static const struct mt_alloc_event *unordered_alloc(const struct mt_check_unordered *u, uint64_t id)
{
    const struct mt_buffers *b = u->buffers;
    size_t at = MT_FIRST(i, b->nallocs, b->allocs[i].id >= id);
    return at < b->nallocs && b->allocs[at].id == id ? &b->allocs[at] : NULL;
}

/* Returns the first life of the stream that does not come before the operation, for a loop until the last one
 * that does not come after it. */
static const struct mt_unordered_life *unordered_first(const struct mt_check_unordered *u,
                                                       const struct mt_unordered_op *o, uint64_t stream)
{
    uint64_t after = unordered_after(o->order, stream);
    return u->lives[stream] + MT_FIRST(i, u->nlives[stream], u->lives[stream][i].order->n > after);
}

static int unordered_is_life(const struct mt_check_unordered *u, const struct mt_unordered_op *o,
                             uint64_t stream, const struct mt_unordered_life *l)
{
    return l < u->lives[stream] + u->nlives[stream] && l->order->n <= o->until[stream];
}

/* Lists memory whose free was reached before the operation, without an order between the two. */
static int unordered_late(struct mt_check_unordered *u, const struct mt_unordered_op *o)
{
    for (uint64_t t = 0; t < MT_UNORDERED_STREAMS; t++)
        for (const struct mt_unordered_life *l = unordered_first(u, o, t); unordered_is_life(u, o, t, l);
             l++) {
            const struct mt_alloc_event *a =
                l->event->freed && l->event->seq < o->seq ? unordered_alloc(u, l->event->id) : NULL;
            if (!a || a->free_seq > o->seq)
                continue;
            if (mt_grow((void *)&u->late, &u->late_room, u->nlate + 1, sizeof *u->late) != 0)
                return -1;
            u->late[u->nlate++] = a;
        }
    return 0;
}

/* Returns the allocation that contains the byte for the current operation, or NULL. */
static const struct mt_alloc_event *unordered_holds(struct mt_check_unordered *u, uint64_t address)
{
    const struct mt_alloc_event *a = mt_buffers_find(u->buffers, address);
    for (size_t i = 0; i < u->nlate && !a; i++)
        a = address - u->late[i]->base < u->late[i]->bytes ? u->late[i] : NULL;
    return a;
}

/* Begins an operation, if anything can run concurrently. */
static int unordered_begin(struct mt_check_unordered *u, const struct mt_order_event *e, const char *kernel,
                           struct mt_finding_side by, uint64_t step, uint64_t seq)
{
    struct mt_unordered_op *o = e && e->stream < MT_UNORDERED_STREAMS ? calloc(1, sizeof *o) : NULL;
    int any = 0;
    if (!o)
        return e && e->stream < MT_UNORDERED_STREAMS ? -1 : 0;
    *o = (struct mt_unordered_op){.order = e, .kernel = kernel, .by = by, .step = step, .seq = seq};
    for (uint64_t t = 0; t < MT_UNORDERED_STREAMS; t++)
        if (t != e->stream && u->norders[t]) {
            o->until[t] = unordered_until(u, e, t);
            any |= o->until[t] > unordered_after(e, t);
        }
    if (e->n > u->done[e->stream])
        u->done[e->stream] = e->n;
    if (any && u->pages < MOST_PAGES) {
        u->now = o;
        return unordered_late(u, o);
    }
    u->findings->uncompared += (uint64_t)any;
    free(o);
    return 0;
}

/* ---- accesses ---- */

static struct mt_unordered_page *unordered_page(struct mt_check_unordered *u, uint64_t number)
{
    struct mt_unordered_op *o = u->now;
    uint64_t *at = mt_pairmap_get(&o->at, number, 0, o->npages);
    if (!at || (*at == o->npages && mt_grow(&o->pages, &o->page_room, o->npages + 1, sizeof *o->pages) != 0))
        return NULL;
    if (*at == o->npages) {
        memset(&o->pages[o->npages], 0, sizeof *o->pages);
        o->pages[o->npages++].number = number;
        u->pages++;
    }
    return &o->pages[*at];
}

static int unordered_touch(struct mt_check_unordered *u, uint64_t address, uint64_t n, uint32_t type)
{
    for (uint64_t i = 0, here; i < n && u->pages < MOST_PAGES; i += here) {
        uint64_t in = (address + i) & ((1 << UNORDERED_PAGE_BITS) - 1),
                 left = (1 << UNORDERED_PAGE_BITS) - in;
        struct mt_unordered_page *p = unordered_page(u, (address + i) >> UNORDERED_PAGE_BITS);
        if (!p)
            return -1;
        here = n - i < left ? n - i : left;
        for (uint64_t b = in; b < in + here;) {
            uint64_t bits = in + here - b < 64 - b % 64 ? in + here - b : 64 - b % 64;
            p->bits[type][b / 64] |= (bits == 64 ? UINT64_MAX : (1ull << bits) - 1) << b % 64;
            b += bits;
        }
    }
    return 0;
}

/* Returns 1 if kernels and the host may talk by the accesses of a site: strong ones whose scope includes the
 * host's threads, or is not known. */
static int unordered_strong(struct mt_check_unordered *u, uint32_t site, uint32_t type)
{
    if (site != u->site) {
        const struct mt_site_event *s = mt_companion_site(mt_source_companion(u->source, u->input), site);
        u->site = site;
        u->strong = s && s->strong;
        u->narrow = s && s->scope != MT_SCOPE_NONE && s->scope != MT_SCOPE_SYS;
    }
    return (type == MT_ATOMIC || u->strong) && !u->narrow;
}

static int check_unordered_runs(struct mt_check_unordered *u, const struct mt_access_run *runs, size_t n)
{
    struct mt_piece p;
    for (size_t i = 0; u->now && i < n; i++) {
        uint32_t type = mt_run_type(&runs[i]), at = 0;
        if (mt_rec_space(type) != MT_IN_GLOBAL || type > MT_ATOMIC || u->pages >= MOST_PAGES)
            continue;
        int strong = unordered_strong(u, runs[i].site, type);
        while (mt_run_piece(&runs[i], &at, &p))
            if (unordered_touch(u, p.address, p.bytes, type) != 0 ||
                (strong && unordered_touch(u, p.address, p.bytes, UNORDERED_STRONG) != 0))
                return -1;
    }
    return 0;
}

/* ---- comparison of two operations ---- */

static const char *const ops[] = {"load", "store", "atomic"};

struct meeting {
    uint64_t bytes, first;
    int here, other; /* kinds of access at the first byte */
};

/* Returns the bytes of a word at which these kinds of access race. */
static uint64_t unordered_word(const struct mt_unordered_page *a, const struct mt_unordered_page *b, int w)
{
    uint64_t sa = a->bits[MT_STORE][w], sb = b->bits[MT_STORE][w], la = a->bits[MT_LOAD][w],
             lb = b->bits[MT_LOAD][w], aa = a->bits[MT_ATOMIC][w], ab = b->bits[MT_ATOMIC][w];
    return (sa & (sb | lb | ab)) | (sb & (la | aa)) | (aa & lb) | (ab & la);
}

static int unordered_kind(const struct mt_unordered_page *p, int w, int bit)
{
    return p->bits[MT_STORE][w] >> bit & 1    ? MT_STORE
           : p->bits[MT_ATOMIC][w] >> bit & 1 ? MT_ATOMIC
                                              : MT_LOAD;
}

static void unordered_pages(struct meeting *m, const struct mt_unordered_page *a,
                            const struct mt_unordered_page *b)
{
    for (int w = 0; w < UNORDERED_WORDS; w++) {
        uint64_t bad = unordered_word(a, b, w);
        if (bad && (!m->bytes || (a->number << UNORDERED_PAGE_BITS) + (uint64_t)w * 64 < m->first)) {
            int bit = __builtin_ctzll(bad);
            m->first = (a->number << UNORDERED_PAGE_BITS) + (uint64_t)w * 64 + (uint64_t)bit;
            m->here = unordered_kind(a, w, bit);
            m->other = unordered_kind(b, w, bit);
        }
        m->bytes += (uint64_t)__builtin_popcountll(bad);
    }
}

static int unordered_meet(struct mt_check_unordered *u, const struct mt_unordered_op *a,
                          const struct mt_unordered_op *b)
{
    struct meeting m = {0};
    for (size_t i = 0; i < a->npages; i++) {
        const uint64_t *at = mt_pairmap_find(&b->at, a->pages[i].number, 0);
        if (at)
            unordered_pages(&m, &a->pages[i], &b->pages[*at]);
    }
    struct mt_finding f = {.kind = MT_FINDING_OF_UNORDERED,
                           .kernel = a->kernel,
                           .other_kernel = b->kernel,
                           .here = a->by,
                           .other = b->by,
                           .count = m.bytes,
                           .launches = 1,
                           .alloc = m.bytes ? unordered_holds(u, m.first) : NULL};
    f.here.op = ops[m.here];
    f.other.op = ops[m.other];
    return m.bytes ? mt_findings_add(u->findings, &f) : 0;
}

/* ---- memory that is allocated or freed in the order of another stream ---- */

/* Returns how many bytes of the allocation the operation touches; *first and *op: the first one, and how. */
static uint64_t unordered_within(const struct mt_unordered_op *o, const struct mt_alloc_event *a,
                                 struct meeting *m)
{
    for (size_t i = 0; i < o->npages; i++) {
        const struct mt_unordered_page *p = &o->pages[i];
        uint64_t base = p->number << UNORDERED_PAGE_BITS;
        for (uint64_t b = 0; b < 1 << UNORDERED_PAGE_BITS; b++) {
            if (base + b - a->base >= a->bytes ||
                !((p->bits[MT_LOAD][b / 64] | p->bits[MT_STORE][b / 64] | p->bits[MT_ATOMIC][b / 64]) >>
                      b % 64 &
                  1))
                continue;
            if (!m->bytes++ || base + b < m->first) {
                m->first = base + b;
                m->here = unordered_kind(p, (int)(b / 64), (int)(b % 64));
            }
        }
    }
    return m->bytes;
}

/* Returns 1 if the operation and the event may change places. */
static int unordered_swaps(const struct mt_order_event *o, const struct mt_order_event *e)
{
    return o->stream != e->stream && !unordered_precedes(e, o) && !unordered_precedes(o, e);
}

/* The address of memory that was freed in time may belong to other memory. */
static int unordered_memory(struct mt_check_unordered *u, const struct mt_unordered_op *o,
                            const struct mt_unordered_life *l)
{
    struct meeting m = {0};
    const struct mt_ordered_event *e = l->event;
    const struct mt_alloc_event *a = unordered_alloc(u, e->id);
    if (!a || a->seq > o->seq || !unordered_swaps(o->order, l->order) || !unordered_within(o, a, &m) ||
        unordered_holds(u, m.first) != a)
        return 0;
    struct mt_finding f = {.kind = MT_FINDING_OF_UNORDERED,
                           .kernel = o->kernel,
                           .other_kernel = e->freed ? "<free>" : "<allocation>",
                           .here = o->by,
                           .other = {.file = e->freed ? e->file : a->file,
                                     .line = e->freed ? e->line : a->line,
                                     .at = e->freed ? e->at : a->at,
                                     .callers = e->freed ? e->callers : a->callers,
                                     .op = e->freed ? "free" : "allocation"},
                           .count = m.bytes,
                           .launches = 1,
                           .alloc = a};
    f.here.op = ops[m.here];
    return mt_findings_add(u->findings, &f);
}

static int unordered_memories(struct mt_check_unordered *u, const struct mt_unordered_op *o)
{
    int rc = 0;
    for (uint64_t t = 0; t < MT_UNORDERED_STREAMS; t++)
        for (const struct mt_unordered_life *l = unordered_first(u, o, t);
             rc == 0 && unordered_is_life(u, o, t, l); l++)
            rc = unordered_memory(u, o, l);
    return rc;
}

static int touch_meet(struct mt_check_unordered *u, const struct mt_unordered_op *o,
                      const struct mt_unordered_op *host);

/* Ends the current operation. */
static int unordered_end(struct mt_check_unordered *u)
{
    struct mt_unordered_op *o = u->now;
    int rc = 0;
    u->now = NULL;
    if (o)
        rc = unordered_memories(u, o);
    for (size_t i = 0; o && i < u->nopen && rc == 0; i++)
        if (unordered_swaps(o->order, u->open[i]->order))
            rc = u->open[i]->touch ? touch_meet(u, o, u->open[i]) : unordered_meet(u, o, u->open[i]);
    if (o && (rc != 0 || mt_grow((void *)&u->open, &u->open_room, u->nopen + 1, sizeof *u->open) != 0)) {
        unordered_drop(u, o);
        return -1;
    }
    if (o) {
        u->open[u->nopen++] = o;
        u->findings->uncompared += u->pages >= MOST_PAGES; /* its last accesses may be missing */
    }
    u->nlate = 0;
    unordered_sweep(u);
    return rc;
}

/* ---- accesses of the host ---- */

/* Returns how the operation accesses the byte in a way that races with the host's access, or -1. */
static int touch_kind(const struct mt_unordered_op *o, const struct mt_touch_event *t)
{
    const uint64_t *at = mt_pairmap_find(&o->at, t->address >> UNORDERED_PAGE_BITS, 0);
    unsigned byte = t->address & ((1 << UNORDERED_PAGE_BITS) - 1), w = byte / 64, bit = byte % 64;
    const struct mt_unordered_page *p = at ? &o->pages[*at] : NULL;
    if (!p || p->bits[UNORDERED_STRONG][w] >> bit & 1)
        return -1;
    return p->bits[MT_STORE][w] >> bit & 1               ? MT_STORE
           : p->bits[MT_ATOMIC][w] >> bit & 1            ? MT_ATOMIC
           : t->writes && p->bits[MT_LOAD][w] >> bit & 1 ? MT_LOAD
                                                         : -1;
}

/* Returns 1 for memory that the host can read. */
static int touch_shared(struct mt_check_unordered *u, uint64_t address)
{
    static const char *const kinds[] = {"managed", "host", "registered"};
    const struct mt_alloc_event *a = mt_buffers_find(u->buffers, address);
    for (size_t i = 0; a && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(a->kind, kinds[i]) == 0)
            return 1;
    return 0;
}

/* Returns 1 if the operation and the host may have talked by a word that the host may have read. */
static int touch_talks(struct mt_check_unordered *u, const struct mt_unordered_op *o,
                       const struct mt_touch_event *t)
{
    for (size_t i = 0; i < o->npages; i++) {
        const struct mt_unordered_page *p = &o->pages[i];
        uint64_t base = p->number << UNORDERED_PAGE_BITS;
        for (int w = 0; w < UNORDERED_WORDS; w++)
            if (p->bits[UNORDERED_STRONG][w] &&
                (base + (uint64_t)w * 64 + 63 - t->base < t->bytes + 63 ||
                 (t->blind && touch_shared(u, base + (uint64_t)w * 64 +
                                                  (uint64_t)__builtin_ctzll(p->bits[UNORDERED_STRONG][w])))))
                return 1;
    }
    return 0;
}

/* Returns whether the host knows that the operation has ended. */
static int touch_knows(const struct mt_check_unordered *u, const struct mt_order_event *e)
{
    int knows = u->seen[e->stream] >= e->n;
    for (size_t i = 0; i < e->nbefore && !knows; i++)
        knows = e->before[i].stream < MT_UNORDERED_STREAMS && u->seen[e->before[i].stream] >= e->before[i].n;
    return knows;
}

/* From now on the host knows that the operation, and all before it, has ended. */
static void touch_sees(struct mt_check_unordered *u, const struct mt_order_event *e)
{
    for (uint64_t t = 0; t < MT_UNORDERED_STREAMS; t++) {
        uint64_t n = t == e->stream ? e->n : unordered_after(e, t);
        u->seen[t] = n > u->seen[t] ? n : u->seen[t];
    }
}

static int touch_race(struct mt_check_unordered *u, const struct mt_unordered_op *o,
                      const struct mt_touch_event *t)
{
    int kind = touch_kind(o, t);
    struct mt_finding f = {
        .kind = MT_FINDING_OF_HOST_RACE,
        .kernel = t->function ? "<function>" : "",
        .other_kernel = o->kernel,
        .here = {.file = t->file, .line = t->line, .at = t->at, .callers = t->callers, .op = ops[t->writes]},
        .other = o->by,
        .count = 1,
        .launches = 1,
        .alloc = mt_buffers_find(u->buffers, t->address)};
    f.other.op = ops[kind < 0 ? 0 : kind];
    return kind < 0 ? 0 : mt_findings_add(u->findings, &f);
}

/* Compares a launch or copy with an earlier access of a host function that it is not ordered to. The function
 * may have told it by a word that all of its accesses are done. */
static int touch_meet(struct mt_check_unordered *u, const struct mt_unordered_op *o,
                      const struct mt_unordered_op *host)
{
    int talks = 0;
    for (size_t i = 0; i < u->nopen && !talks; i++)
        talks = u->open[i]->order == host->order && touch_talks(u, o, u->open[i]->touch);
    return talks ? 0 : touch_race(u, o, host->touch);
}

/* Keeps an access of a host function for launches and copies that run later. */
static int touch_keep(struct mt_check_unordered *u, const struct mt_touch_event *t,
                      const struct mt_order_event *e)
{
    struct mt_unordered_op *o;
    if (unordered_begin(u, e, "", (struct mt_finding_side){0}, 0, t->seq) != 0)
        return -1;
    o = u->now;
    u->now = NULL;
    u->nlate = 0;
    if (!o)
        return 0;
    o->touch = t;
    if (mt_grow((void *)&u->open, &u->open_room, u->nopen + 1, sizeof *u->open) != 0) {
        unordered_drop(u, o);
        return -1;
    }
    u->open[u->nopen++] = o;
    return 0;
}

static int touch_check(struct mt_check_unordered *u, const struct mt_touch_event *t)
{
    const struct mt_order_event *e = unordered_find(u, t->op),
                                *at = t->function ? unordered_find(u, t->function) : e;
    int rc = 0;
    if (!e || !at)
        return 0;
    mt_buffers_launch(u->buffers, t->seq);
    for (int turn = !t->blind; turn < 3 && rc == 0; turn++) /* what was seen before; the access; its page */
        for (size_t i = 0; i < u->nopen && rc == 0; i++) {
            const struct mt_order_event *x = u->open[i]->order;
            if (u->open[i]->touch || touch_knows(u, x) || unordered_precedes(x, e) || !unordered_swaps(x, at))
                continue;
            if (turn == 1)
                rc = touch_race(u, u->open[i], t);
            else if (touch_talks(u, u->open[i], t))
                touch_sees(u, x);
        }
    u->done[e->stream] = e->n > u->done[e->stream] ? e->n : u->done[e->stream];
    return rc == 0 && t->function ? touch_keep(u, t, at) : rc;
}

/* Handles the host's accesses before this sequence number. */
static int touch_until(struct mt_check_unordered *u, uint64_t seq)
{
    const struct mt_companion *c = u->companion;
    int rc = 0;
    while (c && rc == 0 && u->touch < c->ntouches && c->touches[u->touch].seq < seq)
        rc = touch_check(u, &c->touches[u->touch++]);
    return rc;
}

static int check_unordered_launch(struct mt_check_unordered *u, const struct mt_run_launch *launch)
{
    const struct mt_launch_event *l = launch->event;
    if (unordered_end(u) != 0 || (l && touch_until(u, l->seq) != 0))
        return -1;
    u->input = launch->input;
    u->site = UINT32_MAX;
    struct mt_finding_side by = {0};
    if (!l)
        return 0;
    by = (struct mt_finding_side){.file = l->file, .line = l->line, .at = l->at, .callers = l->callers};
    return unordered_begin(u, unordered_find(u, l->op), launch->kernel, by, launch->superstep, l->seq);
}

static int check_unordered_copy(struct mt_check_unordered *u, const struct mt_copy_event *c)
{
    struct mt_finding_side by = {.file = c->file, .line = c->line, .at = c->at, .callers = c->callers};
    if (unordered_end(u) != 0 || touch_until(u, c->seq) != 0 ||
        unordered_begin(u, unordered_find(u, c->op), c->kind == MT_COPY_SET ? "<fill>" : "", by, 0, c->seq) !=
            0)
        return -1;
    if (u->now && c->height > UNORDERED_MOST_ROWS) {
        u->findings->uncompared++;
        return 0;
    }
    mt_buffers_launch(u->buffers, c->seq);
    int reads = c->kind == MT_COPY_D2H || c->kind == MT_COPY_D2D || touch_shared(u, c->src),
        writes = c->kind != MT_COPY_D2H || touch_shared(u, c->dst);
    for (uint64_t row = 0; u->now && row < c->height && u->pages < MOST_PAGES; row++) {
        if ((reads && unordered_touch(u, c->src + row * c->spitch, c->width, MT_LOAD) != 0) ||
            (writes && unordered_touch(u, c->dst + row * c->dpitch, c->width, MT_STORE) != 0))
            return -1;
    }
    return 0;
}

static void check_unordered_free(struct mt_check_unordered *u)
{
    if (u->now)
        unordered_drop(u, u->now);
    for (size_t i = 0; i < u->nopen; i++)
        unordered_drop(u, u->open[i]);
    for (int i = 0; i < MT_UNORDERED_STREAMS; i++)
        free((void *)u->orders[i]), free(u->lives[i]);
    free((void *)u->late);
    free((void *)u->by_op);
    free((void *)u->open);
    memset(u, 0, sizeof *u);
}

enum { MOST_ROWS = 4096, PAGE = 4096 };
#define MOST_BYTES (1ull << 36)
#define MOST_WORK (1ull << 31)

/* Handles launches without a trace, or in a trace that is not among the inputs, which may have written and
 * read everything. */
static void memory_untraced(struct mt_check_memory *m)
{
    m->blind = mt_source_partial(m->source);
    for (size_t i = 0; i < mt_source_inputs(m->source); i++) {
        const struct mt_companion *c = mt_source_companion(m->source, i);
        for (size_t k = 0; c && k < c->nlaunches && !m->blind; k++)
            m->blind = !c->launches[k].traced && !c->launches[k].status;
    }
    m->findings->unjudged += (uint64_t)m->blind;
    m->work = m->blind ? 0 : m->work;
}

MT_ORDER_1(memory_by_id, struct mt_alloc_event, id)

/* Handles memory shared with another process that may write, if only this process's trace is read. */
static void memory_shared(struct mt_check_memory *m)
{
    for (size_t i = 0; i < mt_source_inputs(m->source) && mt_source_processes(m->source) == 1; i++) {
        const struct mt_companion *c = mt_source_companion(m->source, i);
        for (size_t k = 0; c && k < c->nshares; k++) {
            struct mt_alloc_event key = {.id = c->shares[k].id},
                                  *a = bsearch(&key, m->allocs, m->nallocs, sizeof key, memory_by_id);
            if (a && !c->shares[k].opened)
                m->blocks[a - m->allocs] = (struct mt_check_block){.judged = 1, .loaded = 1, .stored = 1};
        }
    }
}

/* Returns the block of the allocation that this one has its bytes from, or NULL. */
static struct mt_check_block *memory_from(const struct mt_check_memory *m, const struct mt_alloc_event *a)
{
    struct mt_alloc_event key = {.id = a->from - 1},
                          *from =
                              a->from ? bsearch(&key, m->allocs, m->nallocs, sizeof key, memory_by_id) : NULL;
    return from && from->id < a->id ? &m->blocks[from - m->allocs] : NULL;
}

/* Returns whether the allocation is what a pool has left of its block. */
static int memory_is_rest(const struct mt_check_memory *m, const struct mt_alloc_event *a)
{
    const struct mt_check_block *from = memory_from(m, a);
    const struct mt_alloc_event *of = from ? &m->allocs[from - m->blocks] : a;
    return from && of->line == a->line && strcmp(of->file, a->file) == 0 && strcmp(of->at, a->at) == 0;
}

static void memory_given(struct mt_check_memory *m)
{
    for (size_t i = 0; i < m->nallocs; i++) {
        struct mt_check_block *from = memory_from(m, &m->allocs[i]);
        if (from)
            from->given = 1;
    }
}

enum { HOST_USED = 1, HOST_READ = 2 };

/* Finds the host traces beside traces of kernels. */
static int memory_hosts(struct mt_check_memory *m)
{
    size_t n = m->threads ? 0 : mt_source_inputs(m->source);
    if (!(m->hosts = calloc(n + 1, sizeof *m->hosts)))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct mt_companion *c = mt_source_companion(m->source, i);
        if (!c || !*c->engine)
            continue;
        struct mt_check_host *h = &m->hosts[m->nhosts++];
        *h = (struct mt_check_host){i, c, mt_live_allocs_new(c->allocs, c->nallocs),
                                    calloc(c->nallocs + 1, 1), 0};
        if (!h->live || !h->used || mt_live_allocs_cut(h->live, c->cuts, c->ncuts) != 0)
            return -1;
    }
    return 0;
}

static int memory_init(void *self, const struct mt_run_options *o)
{
    struct mt_check_memory *m = self;
    struct mt_source *source = o->source;
    struct mt_findings *findings = m->findings;
    *m = (struct mt_check_memory){.source = source, .findings = findings};
    m->unwritten.source = source;
    m->unwritten.findings = findings;
    m->work = MOST_WORK;
    m->threads = mt_source_threads(source);
    memory_untraced(m);
    m->allocs = mt_source_allocs(source, &m->nallocs);
    const struct mt_companion *c = mt_findings_companion(findings, source);
    m->ended = c && c->has_end;
    m->blind |= mt_source_processes(source) > 1; /* other processes may use unused memory */
    m->blocks = calloc(m->nallocs + 1, sizeof *m->blocks);
    if (m->blocks) {
        memory_shared(m);
        memory_given(m);
    }
    return m->blocks && memory_hosts(m) == 0 && padding_copies(&m->copying, source) == 0 &&
                   mt_buffers_init(&m->buffers, m->allocs, m->nallocs) == 0 &&
                   check_unordered_init(&m->unordered, source, findings, &m->buffers) == 0
               ? 0
               : -1;
}

static void memory_free(void *self)
{
    struct mt_check_memory *m = self;
    for (size_t i = 0; m->blocks && i < m->nallocs; i++)
        written_free(&m->blocks[i].written), written_free(&m->blocks[i].host);
    for (size_t i = 0; i < m->ncopies; i++)
        free(m->copies[i]);
    for (size_t i = 0; i < m->nhosts; i++)
        mt_live_allocs_free(m->hosts[i].live), free(m->hosts[i].used);
    free(m->hosts);
    free((void *)m->copies);
    free(m->blocks);
    unwritten_free(&m->unwritten);
    check_shared_free(&m->shared);
    mt_pairmap_free(&m->copying);
    check_unordered_free(&m->unordered);
    mt_buffers_free(&m->buffers);
    memset(m, 0, sizeof *m);
}

/* ---- blocks ---- */

/* Returns 1 for memory that a host program gets from malloc and similar functions. Its users are known;
 * uninitialised reads are not checked, since whole structs are copied with their padding. */
static int memory_is_heap(const struct mt_alloc_event *a)
{
    static const char *const kinds[] = {"malloc", "calloc", "realloc", "memalign", "new"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(a->kind, kinds[i]) == 0)
            return 1;
    return 0;
}

static int memory_is_judged(const struct mt_alloc_event *a)
{
    return (a->bytes <= MOST_BYTES &&
            (strcmp(a->kind, "cudaMalloc") == 0 || strcmp(a->kind, "async") == 0)) ||
           memory_is_heap(a);
}

/* Sets the bits of `to` that are set in `from`, which begins `ahead` bytes earlier, from byte `at` to `end`.
 */
static int written_take(struct mt_written *to, const struct mt_written *from, uint64_t ahead, uint64_t at,
                        uint64_t end)
{
    int set, rc = 0;
    for (uint64_t n; at < end && rc == 0; at += n) {
        n = written_run(from, at + ahead, end - at, &set);
        rc = set ? written_set(to, at, n) : 0;
    }
    return rc;
}

/* Gives a block the state of the one that it has its bytes from. One that nothing touched has that of another
 * in turn, and so have bytes beyond its end: a region that grew. */
static int memory_inherit(const struct mt_check_memory *m, struct mt_check_block *b)
{
    const struct mt_alloc_event *a = &m->allocs[b - m->blocks], *from;
    uint64_t taken = 0;
    int rc = 0;
    for (const struct mt_check_block *f = memory_from(m, a); f && taken < a->bytes && rc == 0;
         f = memory_from(m, from)) {
        from = &m->allocs[f - m->blocks];
        if ((!f->written.page && !f->written.all) || from->base > a->base)
            continue;
        uint64_t ahead = a->base - from->base,
                 end = from->bytes > ahead ? written_least(from->bytes - ahead, a->bytes) : 0;
        if (!ahead && !taken)
            b->members = f->members;
        rc = written_take(&b->host, &f->host, ahead, taken, end) ||
             written_take(&b->written, &f->written, ahead, taken, end);
        taken = end > taken ? end : taken;
    }
    return rc ? -1 : 0;
}

/* Creates a block's bits; all are set if a trace demands too much. */
static int memory_make(struct mt_check_memory *m, struct mt_check_block *b, uint64_t bytes)
{
    uint64_t room = 2 * (((bytes >> WRITTEN_PAGE_BITS) + 1) * sizeof(uint64_t *));
    if (m->threads || room > m->work) {
        m->blind |= !m->threads;
        written_all(&b->written);
        return 0;
    }
    m->work -= room;
    return written_init(&b->written, bytes) != 0 || written_init(&b->host, bytes) != 0 ? -1
                                                                                       : memory_inherit(m, b);
}

/* Returns the number of the n bytes that lie in one allocation, or in none (*block NULL); 0 without
 * memory. */
static uint64_t memory_part(struct mt_check_memory *m, uint64_t address, uint64_t n,
                            struct mt_check_block **block, uint64_t *offset)
{
    const struct mt_buffer_stretch *s = mt_buffers_stretch(&m->buffers, address);
    const struct mt_alloc_event *in = s->in;
    uint64_t left = s->last - address;
    for (size_t i = 0; i < m->unordered.nlate && !in; i++) {
        const struct mt_alloc_event *late = m->unordered.late[i];
        in = address - late->base < late->bytes ? late : NULL;
        left = written_least(left, late->base - address + (in ? late->bytes : 0) - 1);
    }
    struct mt_check_block *b = in ? &m->blocks[in - m->allocs] : NULL;
    if (b && !b->judged)
        b->judged = memory_is_judged(in) ? 2 : 1;
    *block = NULL;
    if (b && b->judged == 2) {
        *block = b;
        *offset = address - in->base;
        if (!b->written.page && !b->written.all && memory_make(m, b, in->bytes) != 0)
            return 0;
    }
    return left < n - 1 ? left + 1 : n;
}

/* Counts all memory as written and used from now on, because a launch is not recorded completely. */
static void memory_blind(struct mt_check_memory *m)
{
    m->blind = 1;
    m->findings->unjudged++;
    for (size_t i = 0; i < m->buffers.nlive; i++) {
        struct mt_check_block *b = &m->blocks[m->buffers.live[i] - m->allocs];
        written_all(&b->written);
        b->loaded = b->stored = 1;
        b->unread = NULL;
    }
}

/* ---- accesses of kernels ---- */

/* Returns 1 if the run copies part of a struct. */
static int memory_copies(const struct mt_check_memory *m, const struct mt_access_run *r)
{
    return m->copying.count && mt_pairmap_find(&m->copying, r->site, m->unwritten.input) != NULL;
}

/* Checks a read of `n` unwritten bytes of a piece, `at` bytes from its beginning and `offset` bytes into
 * their block. Each access is checked separately; smaller ones may copy a struct in parts. */
static int memory_read(struct mt_check_memory *m, const struct mt_access_run *r, const struct mt_piece *p,
                       uint32_t first, uint64_t at, uint64_t n, const struct mt_check_block *b,
                       uint64_t offset)
{
    const uint32_t size = mt_run_size(r);
    const int whole = memory_copies(m, r);
    uint64_t part, padding;
    for (uint64_t i = 0; i < n; i += part) {
        part = size - (at + i) % size;
        part = size < 4 || part > n - i ? n - i : part;
        padding = padding_read(&b->written, &b->host, &b->members, offset + i, part, size, whole);
        if (padding)
            part = padding;
        else if (unwritten_add(&m->unwritten, r, first, p->address, p->address + at + i, part, 0,
                               &m->allocs[b - m->blocks]) != 0)
            return -1;
    }
    return 0;
}

static int check_memory_load(struct mt_check_memory *m, const struct mt_access_run *r,
                             const struct mt_piece *p, uint32_t first)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part;
    for (uint64_t at = 0; at < p->bytes; at += part) {
        if (!(part = memory_part(m, p->address + at, p->bytes - at, &b, &offset)))
            return -1;
        if (!b)
            continue;
        b->loaded = 1;
        b->unread = NULL;
        uint64_t run;
        for (uint64_t i = 0; i < part; i += run) {
            int set;
            run = written_run(&b->written, offset + i, part - i, &set);
            if (!set && memory_read(m, r, p, first, at + i, run, b, offset + i) != 0)
                return -1;
        }
    }
    return 0;
}

static int check_memory_store(struct mt_check_memory *m, const struct mt_access_run *r,
                              const struct mt_piece *p)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part;
    if (unwritten_way(&m->unwritten, r) == MT_STORE)
        unwritten_settle(&m->unwritten, r->cta, p->address, p->bytes);
    for (uint64_t at = 0; at < p->bytes; at += part) {
        if (!(part = memory_part(m, p->address + at, p->bytes - at, &b, &offset)))
            return -1;
        if (b && (written_set(&b->written, offset, part) != 0 || written_clear(&b->host, offset, part) != 0))
            return -1;
        if (b)
            b->stored = 1;
    }
    return 0;
}

/* Records the layout of structs that a run of stores shows. */
static int memory_members(struct mt_check_memory *m, const struct mt_access_run *r)
{
    struct mt_check_block *b = NULL;
    uint64_t offset = 0;
    if (r->count && !memory_part(m, mt_run_address(r, 0), 1, &b, &offset))
        return -1;
    if (b)
        members_store(&b->members, r, offset, memory_copies(m, r));
    return 0;
}

/* Handles a run in one allocation that changes nothing there, and reads nothing unwritten. Returns 1, 0 for
 * other runs, or -1 without memory. */
static int memory_quick(struct mt_check_memory *m, const struct mt_access_run *r, enum mt_access_type type)
{
    struct mt_check_block *b;
    uint64_t offset = 0, lowest, extent = mt_run_extent(r, &lowest);
    int host = 0;
    if (!extent || (type == MT_STORE && m->unwritten.count))
        return 0;
    if (memory_part(m, lowest, extent, &b, &offset) != extent)
        return 0;
    if (!b)
        return 1;
    if (!written_of_run(&b->written, r, lowest - offset, lowest, extent) ||
        (type != MT_LOAD && (written_run(&b->host, offset, extent, &host) != extent || host)))
        return 0;
    b->stored |= type != MT_LOAD;
    b->loaded |= type != MT_STORE;
    b->unread = type != MT_STORE ? NULL : b->unread;
    return 1;
}

static int memory_run(struct mt_check_memory *m, const struct mt_access_run *r)
{
    struct mt_piece p;
    uint32_t at = 0, first = 0;
    if (mt_rec_space(mt_run_type(r)) != MT_IN_GLOBAL)
        return 0;
    const enum mt_access_type type = unwritten_way(&m->unwritten, r);
    if (type != MT_LOAD && memory_members(m, r) != 0)
        return -1;
    if (memory_quick(m, r, type))
        return 0;
    for (; mt_run_piece(r, &at, &p); first = at)
        if ((type != MT_STORE && check_memory_load(m, r, &p, first) != 0) ||
            (type != MT_LOAD && check_memory_store(m, r, &p) != 0))
            return -1;
    return 0;
}

static int memory_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_check_memory *m = self;
    const struct mt_launch_event *l = launch->event;
    int rc = unwritten_end(&m->unwritten);
    if (rc == 0)
        rc = check_unordered_launch(&m->unordered, launch);
    m->unwritten.launch = l;
    m->unwritten.kernel = launch->kernel;
    m->unwritten.input = launch->input;
    m->unwritten.known = 0;
    m->unwritten.step = launch->superstep;
    check_shared_launch(&m->shared, l && l->untraced);
    m->past = l && !m->threads && l->seq >= m->past ? l->seq + 1 : m->past;
    mt_buffers_launch(&m->buffers, l ? l->seq : MT_SEQ_NONE);
    if (rc == 0 && (!l || !l->traced || l->untraced || l->no_records || l->has_ctas))
        memory_blind(m);
    return rc;
}

/* ---- operations of the host ---- */

/* Handles a copy from the host, or a fill. */
static int memory_set(struct mt_check_memory *m, uint64_t address, uint64_t n,
                      const struct mt_copy_event *from)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part;
    for (uint64_t at = 0; at < n; at += part) {
        if (!(part = memory_part(m, address + at, n - at, &b, &offset)))
            return -1;
        if (!b)
            continue;
        if (written_set(&b->written, offset, part) != 0 || written_set(&b->host, offset, part) != 0)
            return -1;
        b->members.host = 1;
        b->copied_in = 1;
        b->unread = from->kind == MT_COPY_H2D ? from : b->unread;
    }
    return 0;
}

static int memory_put(struct mt_written *w, int set, uint64_t from, uint64_t n)
{
    return set ? written_set(w, from, n) : written_clear(w, from, n);
}

/* Copies the state of n bytes at `offset` of a block (NULL: written) to `address`, after a copy on the
 * device. */
static int memory_hand_on(struct mt_check_memory *m, const struct mt_check_block *from, uint64_t offset,
                          uint64_t address, uint64_t n)
{
    struct mt_check_block *b;
    uint64_t to = 0, part, run;
    for (uint64_t at = 0; at < n; at += part) {
        if (!(part = memory_part(m, address + at, n - at, &b, &to)))
            return -1;
        for (uint64_t i = 0; b && i < part; i += run) {
            uint64_t here = offset + at + i, host_run;
            int set = 1, host = 0;
            run = from ? written_run(&from->written, here, part - i, &set) : part;
            host_run = from ? written_run(&from->host, here, run, &host) : run;
            run = host_run < run ? host_run : run;
            if (memory_put(&b->written, set, to + i, run) != 0 ||
                memory_put(&b->host, host, to + i, run) != 0)
                return -1;
        }
        if (b)
            b->copied_in = 1;
        if (b)
            members_take(&b->members, from ? &from->members : NULL);
    }
    return 0;
}

static int memory_copy_finding(struct mt_check_memory *m, enum mt_finding_kind kind,
                               const struct mt_copy_event *c, uint64_t count, size_t alloc)
{
    struct mt_finding f = {
        .kind = kind,
        .here = {.file = c->file ? c->file : "", .line = c->line, .at = c->at, .callers = c->callers},
        .size = c->width * c->height,
        .count = count,
        .launches = 0,
        .alloc = &m->allocs[alloc]};
    return mt_findings_add(m->findings, &f);
}

/* Returns how many of n bytes of a block are copied to the host unwritten. */
static uint64_t memory_bad(const struct mt_check_block *b, uint64_t offset, uint64_t n)
{
    const uint32_t aligned = members_several(&b->members) ? MT_MEMBERS_ALIGNED : 0;
    uint64_t run, padding, bad = 0;
    for (uint64_t i = 0; i < n; i += run) {
        int set;
        run = written_run(&b->written, offset + i, n - i, &set);
        padding = set ? run : mt_padding(&b->written, &b->host, &b->members, offset + i, aligned);
        bad += padding ? 0 : run;
        run = padding && padding < run ? padding : run;
    }
    return bad;
}

/* Handles bytes that are copied to the host, or (to != 0) to another place on the device. */
static int memory_take(struct mt_check_memory *m, const struct mt_copy_event *c, uint64_t address, uint64_t n,
                       uint64_t to)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part, bad;
    for (uint64_t at = 0; at < n; at += part) {
        if (!(part = memory_part(m, address + at, n - at, &b, &offset)))
            return -1;
        if (b) {
            b->copied_out = 1;
            b->unread = NULL;
        }
        if (to && memory_hand_on(m, b, offset, to + at, part) != 0)
            return -1;
        bad = b && !to ? memory_bad(b, offset, part) : 0;
        if (bad && memory_copy_finding(m, MT_FINDING_OF_UNWRITTEN_COPY, c, bad, (size_t)(b - m->blocks)) != 0)
            return -1;
    }
    return 0;
}

/* Reports an earlier copy whose unread bytes this copy or fill replaces. */
static int memory_replaces(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    struct mt_check_block *b;
    uint64_t offset;
    if (!memory_part(m, c->dst, 1, &b, &offset))
        return -1;
    if (!b || !b->unread || m->blind || b->unread->dst != c->dst || b->unread->width > c->width ||
        b->unread->height > c->height)
        return 0;
    const struct mt_copy_event *old = b->unread;
    b->unread = NULL;
    return memory_copy_finding(m, MT_FINDING_OF_UNREAD_COPY, old, 1, (size_t)(b - m->blocks));
}

static const struct mt_copy_event *memory_keep(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    struct mt_copy_event *kept = malloc(sizeof *kept);
    if (!kept || mt_grow((void *)&m->copies, &m->copy_room, m->ncopies + 1, sizeof *m->copies) != 0) {
        free(kept);
        return NULL;
    }
    *kept = *c;
    m->copies[m->ncopies++] = kept;
    return kept;
}

/* Handles copies with too many rows or bytes: their destination counts as written. */
static int memory_too_much(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    uint64_t pages = c->width / PAGE * c->height + c->height;
    if (c->height <= MOST_ROWS && pages <= m->work) {
        m->work -= pages;
        return 0;
    }
    memory_blind(m);
    return 1;
}

/* Handles realloc in a host program: the new block gets the state of the old one. */
static int memory_moves(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    struct mt_check_block *b = NULL;
    uint64_t offset;
    if (!memory_part(m, c->src, 1, &b, &offset))
        return -1;
    if (b)
        b->loaded = 1;
    return 0;
}

static int memory_copy(void *self, const struct mt_copy_event *c)
{
    struct mt_check_memory *m = self;
    const struct mt_copy_event *kept = c;
    int rc = 0;
    if (unwritten_end(&m->unwritten) != 0)
        return -1;
    if (c->kind == MT_COPY_NEW || c->kind == MT_COPY_H2H)
        return 0;
    if (m->threads)
        return memory_moves(m, c);
    if (check_unordered_copy(&m->unordered, c) != 0)
        return -1;
    mt_buffers_launch(&m->buffers, c->seq);
    m->past = c->seq >= m->past ? c->seq + 1 : m->past;
    if ((c->kind == MT_COPY_H2D || c->kind == MT_COPY_SET) && memory_replaces(m, c) != 0)
        return -1;
    if (c->kind == MT_COPY_H2D && !(kept = memory_keep(m, c)))
        return -1;
    if (memory_too_much(m, c))
        return 0;
    for (uint64_t row = 0; row < c->height && rc == 0; row++) {
        uint64_t dst = c->dst + row * c->dpitch, src = c->src + row * c->spitch;
        if (c->kind == MT_COPY_H2D || c->kind == MT_COPY_SET)
            rc = memory_set(m, dst, c->width, kept);
        else
            rc = memory_take(m, c, src, c->width, c->kind == MT_COPY_D2D ? dst : 0);
    }
    return rc;
}

/* Handles accesses of host code. Ignored in a host program, whose runs have the same information. */
static int memory_host(void *self, const struct mt_item *item)
{
    struct mt_check_memory *m = self;
    struct mt_check_host *h = m->hosts;
    if (item->kind != MT_ITEM_HOST)
        return 0;
    while (h < m->hosts + m->nhosts && h->input != item->input)
        h++;
    if (h == m->hosts + m->nhosts)
        return 0;
    h->seen = 1;
    if (mt_live_allocs_advance(h->live, item->seq) != 0)
        return -1;
    for (size_t i = 0; i < item->count; i++) {
        const struct mt_host_access *x = &item->host[i];
        const struct mt_alloc_event *a = x->size ? mt_live_allocs_find(h->live, x->address) : NULL;
        if (a)
            h->used[a - h->companion->allocs] |=
                x->site->op == MT_HOST_STORE ? HOST_USED : HOST_USED | HOST_READ;
    }
    return 0;
}

static void memory_within(void *self, const struct mt_run_launch *l)
{
    struct mt_check_memory *m = self;
    mt_buffers_move(&m->buffers, l->seq);
}

static int memory_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_check_memory *m = self;
    for (size_t i = 0; i < n; i++)
        if (memory_run(m, &runs[i]) != 0)
            return -1;
    return m->threads ? 0 : check_unordered_runs(&m->unordered, runs, n);
}

static int memory_shared_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_check_memory *m = self;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0 && !m->threads; i++)
        rc = check_shared_run(&m->shared, &runs[i], memory_copies(m, &runs[i]), &m->unwritten);
    return rc;
}

const struct mt_analysis mt_check_memory_shared_analysis = {.needs = MT_NEEDS_ALL | MT_NEEDS_SPACES,
                                                            .runs = memory_shared_runs};

/* ---- end of the program ---- */

static int memory_use(struct mt_check_memory *m, enum mt_finding_kind kind, const struct mt_alloc_event *a)
{
    struct mt_finding f = {.kind = kind,
                           .here = {.file = a->file, .line = a->line, .at = a->at, .callers = a->callers},
                           .count = 1,
                           .size = a->bytes,
                           .total = a->bytes,
                           .alloc = a};
    if (a->stack) /* of a host program: its lines are known */
        f.here.stack = a->callers;
    return mt_findings_add(m->findings, &f);
}

/* Returns 1 for allocations of the C and C++ libraries, such as libstdc++'s pool for exceptions, which come
 * from a function without name: the user cannot change them. */
static int memory_is_foreign(const struct mt_alloc_event *a)
{
    int pool = !*a->file && strncmp(a->at, "libstdc++.so", 12) == 0 && !strchr(a->at, ':');
    return memory_is_heap(a) && (a->runtime || pool || (!*a->file && !a->ip));
}

static int memory_is_owned(const struct mt_alloc_event *a)
{
    return memory_is_judged(a) || strcmp(a->kind, "managed") == 0 || strcmp(a->kind, "host") == 0;
}

static int memory_end(struct mt_check_memory *m, size_t i)
{
    const struct mt_alloc_event *a = &m->allocs[i];
    const struct mt_check_block *b = &m->blocks[i];
    if (memory_is_foreign(a))
        return 0;
    if (m->ended && a->free_seq == MT_SEQ_NONE && memory_is_owned(a) &&
        memory_use(m, MT_FINDING_OF_LEAK, a) != 0)
        return -1;
    if (m->blind || !memory_is_judged(a) || b->given || memory_is_rest(m, a))
        return 0;
    if (b->loaded || b->copied_out) /* then only the last copy can be unread */
        return b->unread ? memory_copy_finding(m, MT_FINDING_OF_UNREAD_COPY, b->unread, 1, i) : 0;
    return memory_use(m, b->stored || b->copied_in ? MT_FINDING_OF_UNREAD : MT_FINDING_OF_UNUSED, a);
}

/* Handles the copies after the last launch, from the companion; a source only returns copies before
 * launches. */
static int memory_last_copies(struct mt_check_memory *m)
{
    const struct mt_companion *c = mt_findings_companion(m->findings, m->source);
    int rc = 0;
    for (size_t i = 0; c && i < c->ncopies && rc == 0; i++)
        rc = c->copies[i].seq < m->past ? 0 : memory_copy(m, &c->copies[i]);
    return rc;
}

/* Reports unused blocks of a host trace beside traces of kernels; they are not in the source's list. */
static int memory_host_end(struct mt_check_memory *m, const struct mt_check_host *h)
{
    const struct mt_companion *c = h->companion;
    int rc = 0;
    for (size_t i = 0; i < c->nallocs && rc == 0; i++) {
        const struct mt_alloc_event *a = &c->allocs[i];
        if (!memory_is_heap(a) || memory_is_foreign(a))
            continue;
        if (c->has_end && a->free_seq == MT_SEQ_NONE)
            rc = memory_use(m, MT_FINDING_OF_LEAK, a);
        if (rc == 0 && !m->blind && h->seen && c->complete && !(h->used[i] & HOST_READ))
            rc = memory_use(m, h->used[i] ? MT_FINDING_OF_UNREAD : MT_FINDING_OF_UNUSED, a);
    }
    return rc;
}

static int memory_finish(void *self)
{
    struct mt_check_memory *m = self;
    size_t damaged;
    int rc = unwritten_end(&m->unwritten);
    mt_source_problems(m->source, &damaged);
    m->blind |= damaged > 0; /* missing parts may have used the memory */
    if (rc == 0 && !damaged)
        rc = memory_last_copies(m);
    if (rc == 0)
        rc = unordered_end(&m->unordered) != 0 ? -1 : touch_until(&m->unordered, MT_SEQ_NONE);
    for (size_t i = 0; i < m->nallocs && rc == 0; i++)
        rc = memory_end(m, i);
    for (size_t i = 0; i < m->nhosts && rc == 0; i++)
        rc = memory_host_end(m, &m->hosts[i]);
    return rc;
}

const struct mt_analysis mt_check_memory_analysis = {.needs = MT_NEEDS_ALL,
                                                     .init = memory_init,
                                                     .launch = memory_launch,
                                                     .moves = memory_within,
                                                     .runs = memory_runs,
                                                     .copy = memory_copy,
                                                     .host = memory_host,
                                                     .finish = memory_finish,
                                                     .free = memory_free};
