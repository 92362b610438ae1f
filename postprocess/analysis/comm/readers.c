/* Sets as a tree. To find whether a set has a pair, the tree is cut into paths: the first that follows a set
 * is on its path, others begin a path each. On a path indices ascend. */
#include "readers.h"
#include "memtrace/grow.h"
#include "shadow.h"
#include "memtrace/hash.h"

struct mt_read_way {
    uint32_t head; /* first set of the path */
    uint32_t next; /* set on it; 0: none yet */
};

#define BRANCH 0x80000000u /* in a slot: the set is found by the one before it, else by its path */
enum {
    PATHS = 64 /* looked at; a pair that is in the set unseen comes in once more, which changes no count */
};

void mt_readers_forget(struct mt_readers *r)
{
    if (r->state)
        mt_shadow_free(r->state);
    free(r->state);
    free(r->ways);
    free(r->slot);
    r->state = NULL;
    r->ways = NULL;
    r->slot = NULL;
}

void mt_readers_free(struct mt_readers *r)
{
    mt_readers_forget(r);
    free(r->sets);
    memset(r, 0, sizeof *r);
}

static void readers_lose(struct mt_readers *r)
{
    mt_readers_free(r);
    r->lost = 1;
}

void mt_readers_init(struct mt_readers *r)
{
    memset(r, 0, sizeof *r);
    r->n = r->first = 1;
    r->most = MT_READERS_MOST;
    r->state = malloc(sizeof *r->state);
    if (!r->state || mt_shadow_init(r->state, 0) != 0 || mt_grow(&r->sets, &r->room, 1, sizeof *r->sets) != 0)
        readers_lose(r);
    else
        memset(r->sets, 0, sizeof *r->sets);
}

void mt_readers_launch(struct mt_readers *r)
{
    r->first = (uint32_t)r->n;
}

/* ---- the index: what is of earlier launches is free ---- */

static size_t readers_hash(uint32_t key, uint32_t kind, uint32_t src, uint32_t dst)
{
    uint64_t a = (uint64_t)(key | kind) << 32 | src;
    a = mt_hash_number(a ^ dst * 0xd6e8feb86659fd93ull);
    return (size_t)(a ^ a >> 32);
}

static uint32_t readers_key(const struct mt_readers *r, uint32_t value)
{
    uint32_t set = value & ~BRANCH;
    return value & BRANCH ? r->sets[set].before : r->ways[set - r->first].head;
}

/* The slot of the pair after set `key`, or on the path `key`; free if there is none. */
static uint32_t *readers_slot(const struct mt_readers *r, uint32_t key, uint32_t kind, uint32_t src,
                              uint32_t dst)
{
    size_t mask = ((size_t)1 << r->bits) - 1, i = readers_hash(key, kind, src, dst) & mask;
    for (;; i = (i + 1) & mask) {
        uint32_t value = r->slot[i];
        const struct mt_read_set *s = &r->sets[value & ~BRANCH];
        if ((value & ~BRANCH) < r->first ||
            ((value & BRANCH) == kind && s->src == src && s->dst == dst && readers_key(r, value) == key))
            return &r->slot[i];
    }
}

static uint32_t readers_find(const struct mt_readers *r, uint32_t key, uint32_t kind, uint32_t src,
                             uint32_t dst)
{
    uint32_t set = *readers_slot(r, key, kind, src, dst) & ~BRANCH;
    return set < r->first ? 0 : set;
}

static void readers_put(struct mt_readers *r, uint32_t set, uint32_t kind)
{
    const struct mt_read_set *s = &r->sets[set];
    uint32_t key = kind ? s->before : r->ways[set - r->first].head;
    *readers_slot(r, key, kind, s->src, s->dst) = set | kind;
}

/* Room for the two entries of one more set. */
static int readers_reserve(struct mt_readers *r)
{
    if (r->slot && (r->n - r->first + 1) * 4 <= (size_t)1 << r->bits)
        return 0;
    unsigned bits = r->slot ? r->bits + 1 : 10;
    uint32_t *slot = calloc((size_t)1 << bits, sizeof *slot);
    if (!slot)
        return -1;
    free(r->slot);
    r->slot = slot;
    r->bits = bits;
    for (uint32_t set = r->first; set < r->n; set++) {
        readers_put(r, set, 0);
        if (r->ways[set - r->first].head == set)
            readers_put(r, set, BRANCH);
    }
    return 0;
}

/* ---- sets ---- */

static int readers_has(const struct mt_readers *r, uint32_t set, uint32_t src, uint32_t dst)
{
    for (int i = 0; set && i < PATHS; i++) {
        uint32_t head = r->ways[set - r->first].head, found = readers_find(r, head, 0, src, dst);
        if (found && found <= set)
            return 1;
        set = r->sets[head].before;
    }
    return 0;
}

/* The one with the pair more, if there is one; else 0. */
static uint32_t readers_after(const struct mt_readers *r, uint32_t set, uint32_t src, uint32_t dst)
{
    uint32_t next = set ? r->ways[set - r->first].next : 0;
    if (next && r->sets[next].src == src && r->sets[next].dst == dst)
        return next;
    return readers_find(r, set, BRANCH, src, dst);
}

static uint32_t readers_new(struct mt_readers *r, uint32_t set, uint32_t src, uint32_t dst)
{
    if (r->n > r->most || mt_grow(&r->sets, &r->room, r->n + 1, sizeof *r->sets) != 0 ||
        mt_grow(&r->ways, &r->way_room, r->n - r->first + 1, sizeof *r->ways) != 0)
        return 0;
    uint32_t made = (uint32_t)r->n++;
    struct mt_read_way *before = set ? &r->ways[set - r->first] : NULL;
    int goes_on = before && !before->next;
    r->sets[made] = (struct mt_read_set){set, src, dst, 0};
    r->ways[made - r->first] = (struct mt_read_way){goes_on ? before->head : made, 0};
    if (goes_on)
        before->next = made;
    else
        readers_put(r, made, BRANCH);
    readers_put(r, made, 0);
    return made;
}

/* The set of bytes of `set` after the pair came; 0 on failure. */
static uint32_t readers_step(struct mt_readers *r, uint32_t set, uint32_t src, uint32_t dst)
{
    set = set < r->first ? 0 : set;
    struct mt_read_step *s = &r->recent[(set ^ src ^ dst << 2) % 64];
    if (s->set == set && s->src == src && s->dst == dst && s->to >= r->first)
        return s->to;
    if (readers_reserve(r) != 0)
        return 0;
    uint32_t to = readers_has(r, set, src, dst) ? set : readers_after(r, set, src, dst);
    to = to ? to : readers_new(r, set, src, dst);
    *s = (struct mt_read_step){set, src, dst, to};
    return to;
}

/* Entries [i, end) of a page, `width` bytes each. */
static int readers_entries(struct mt_readers *r, uint32_t src, uint32_t dst, uint32_t *entry, uint32_t *end,
                           unsigned width)
{
    for (; entry < end; entry++) {
        uint32_t to = readers_step(r, *entry, src, dst);
        if (!to)
            return -1;
        r->sets[to].bytes += to == *entry ? 0 : width;
        *entry = to;
    }
    return 0;
}

/* Bytes [from, to) of a page. */
static int readers_page(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t number, unsigned from,
                        unsigned to)
{
    struct mt_page *p = mt_shadow_make(r->state, number);
    if (!p || (((from | to) & 3) && mt_page_to_bytes(r->state, p) != 0))
        return -1;
    unsigned shift = p->mask == MT_PAGE_BYTES - 1 ? 0 : 2;
    return readers_entries(r, src, dst, p->entry + (from >> shift), p->entry + (to >> shift), 1u << shift);
}

void mt_readers_read(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t address, uint64_t size)
{
    for (uint64_t n; size > 0 && !r->lost; address += n, size -= n) {
        unsigned from = address & (MT_PAGE_BYTES - 1);
        n = size < MT_PAGE_BYTES - from ? size : MT_PAGE_BYTES - from;
        if (readers_page(r, src, dst, address >> MT_PAGE_BITS, from, from + (unsigned)n) != 0)
            readers_lose(r);
    }
}

/* ---- many pages ---- */

int mt_readers_stretch(const struct mt_readers *r, uint64_t page, uint64_t end, uint64_t *next)
{
    const struct mt_spans *spans = &r->state->spans;
    if (mt_shadow_peek(r->state, page))
        return 0;
    size_t at = mt_spans_at(spans, page);
    if (at < spans->n) {
        const struct mt_page_span *s = &spans->at[at];
        uint64_t limit = s->first <= page ? s->end : s->first;
        end = end < limit ? end : limit;
    }
    for (*next = page + 1; *next < end && !mt_shadow_peek(r->state, *next);)
        ++*next;
    return 1;
}

void mt_readers_read_stretch(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t page, uint64_t end,
                             uint64_t bytes)
{
    const struct mt_page_span *s = mt_spans_find(&r->state->spans, page);
    uint32_t set = s ? s->entry : 0, to = readers_step(r, set, src, dst);
    struct mt_page_span read = {page, end, to, 0, 0};
    if (!to || (to != set && mt_spans_set(&r->state->spans, &read) != 0)) {
        readers_lose(r);
        return;
    }
    r->sets[to].bytes += to == set ? 0 : bytes;
}

/* ---- results ---- */

void mt_readers_add(struct mt_readers *r, const struct mt_read_set *sets, size_t n)
{
    size_t offset = r->n - 1;
    if (r->lost || !sets || r->n + n > UINT32_MAX ||
        mt_grow(&r->sets, &r->room, r->n + n, sizeof *r->sets) != 0) {
        readers_lose(r);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct mt_read_set s = sets[i];
        s.before += s.before ? (uint32_t)offset : 0;
        r->sets[r->n++] = s;
    }
}
