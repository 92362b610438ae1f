/* Pages of the shadow, their table and memory; ranges written and copied. Inner loops: shadow.h, comm.c. */
#define _GNU_SOURCE

#include "shadow.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "memtrace/hash.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory: zeroed, in large chunks with huge pages, freed together ---- */

enum { FIRST_CHUNK = 256 << 10, CHUNK = 16 << 20, CHUNK_HEAD = 64 };

static void *arena_alloc(struct mt_arena *a, size_t bytes)
{
    if (a->used + bytes > a->size) {
        size_t size = a->chunk ? CHUNK : FIRST_CHUNK;
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
        if (size == CHUNK)
            madvise(p, size, MADV_HUGEPAGE);
        memcpy(p, &a->chunk, sizeof a->chunk);
        memcpy(p + sizeof a->chunk, &size, sizeof size);
        a->chunk = p;
        a->used = CHUNK_HEAD;
        a->size = size;
    }
    void *p = a->chunk + a->used;
    a->used += bytes;
    return p;
}

static void arena_free(struct mt_arena *a)
{
    while (a->chunk) {
        char *next;
        size_t size;
        memcpy(&next, a->chunk, sizeof next);
        memcpy(&size, a->chunk + sizeof next, sizeof size);
        munmap(a->chunk, size);
        a->chunk = next;
    }
}

enum { WORDS_BYTES = MT_PAGE_WORDS * sizeof(uint32_t), STARTS_BYTES = MT_PAGE_WORDS * sizeof(uint64_t) };

/* Returns an array of zeros, from the list of free ones if possible. */
static void *arena_reuse(struct mt_arena *a, void **list, size_t bytes)
{
    void *p = *list;
    if (!p)
        return arena_alloc(a, bytes);
    memcpy(list, p, sizeof p);
    return memset(p, 0, bytes);
}

static void arena_release(void **list, void *array)
{
    memcpy(array, list, sizeof *list);
    *list = array;
}

/* ---- the table of pages ---- */

static size_t shadow_slot_of(const struct mt_shadow *s, uint64_t number)
{
    size_t mask = ((size_t)1 << s->table_bits) - 1;
    size_t i = mt_hash_number(number) >> (64 - s->table_bits);
    while (s->table[i].page && s->table[i].number != number)
        i = (i + 1) & mask;
    return i;
}

static int table_grow(struct mt_shadow *s)
{
    struct mt_shadow old = {.table = s->table, .table_bits = s->table_bits};
    unsigned bits = old.table ? old.table_bits + 1 : 10;
    void *p = calloc((size_t)1 << bits, sizeof *s->table);
    if (!p)
        return -1;
    s->table = p;
    s->table_bits = bits;
    for (size_t i = 0; old.table && i < (size_t)1 << old.table_bits; i++)
        if (old.table[i].page)
            s->table[shadow_slot_of(s, old.table[i].number)] = old.table[i];
    free(old.table);
    return 0;
}

/* Drops the cached absence of pages, which something new may cover. */
static void recent_forget(struct mt_shadow *s)
{
    for (size_t i = 0; i < sizeof s->recent / sizeof *s->recent; i++)
        if (!s->recent[i].page)
            s->recent[i].number = UINT64_MAX; /* impossible as a page number, which has 52 bits */
}

int mt_shadow_init(struct mt_shadow *s, int starts)
{
    memset(s, 0, sizeof *s);
    s->starts = starts;
    recent_forget(s);
    return table_grow(s);
}

void mt_shadow_free(struct mt_shadow *s)
{
    free(s->table);
    free(s->combs);
    mt_spans_free(&s->spans);
    arena_free(&s->arena);
    s->table = NULL;
    s->combs = NULL;
}

struct mt_page *mt_shadow_peek(const struct mt_shadow *s, uint64_t number)
{
    return s->table[shadow_slot_of(s, number)].page;
}

/* Finds the rows [*first, *end) of the comb that touch the page. Returns 0 if there are none. */
static int comb_rows(const struct mt_comb *c, uint64_t page, uint64_t *first, uint64_t *end)
{
    uint64_t low = page << MT_PAGE_BITS, high = low + (MT_PAGE_BYTES - 1); /* range of the page's addresses,
                                                                            * both ends included */
    if (high < c->dst || low > c->dst + (c->height - 1) * c->pitch + (c->width - 1))
        return 0;
    *first = low < c->dst + c->width ? 0 : (low - c->dst - c->width) / c->pitch + 1;
    *end = (high - c->dst) / c->pitch + 1;
    if (*end > c->height)
        *end = c->height;
    return *first < *end;
}

static void fill_page(struct mt_shadow *s, uint64_t number, unsigned from, unsigned to, uint32_t entry,
                      uint64_t start);

static void comb_apply(struct mt_shadow *s, const struct mt_comb *c, uint64_t page)
{
    uint64_t row, end, low = page << MT_PAGE_BITS;
    if (!comb_rows(c, page, &row, &end))
        return;
    for (; row < end; row++) {
        uint64_t at = c->dst + row * c->pitch, last = at + (c->width - 1);
        unsigned from = at < low ? 0 : (unsigned)(at - low);
        unsigned to = last - low >= MT_PAGE_BYTES ? MT_PAGE_BYTES : (unsigned)(last - low) + 1;
        fill_page(s, page, from, to, c->entry, c->start);
    }
}

/* Creates the page from spans and combs. Returns NULL if none covers it, or without memory. */
static struct mt_page *page_new(struct mt_shadow *s, uint64_t number);
static struct mt_page *page_of_many(struct mt_shadow *s, uint64_t number)
{
    const struct mt_page_span *span = mt_spans_find(&s->spans, number);
    uint64_t version = span ? span->version : 0, row, end;
    struct mt_page *p = NULL;
    size_t i = s->ncombs;
    while (i > 0 && s->combs[i - 1].version > version)
        i--;
    int any = span && span->entry;
    for (size_t k = i; k < s->ncombs && !any; k++)
        any = comb_rows(&s->combs[k], number, &row, &end);
    if (!any || !(p = page_new(s, number)))
        return NULL;
    if (span) {
        p->uniform = span->entry;
        p->uniform_start = span->start;
    }
    for (; i < s->ncombs; i++)
        comb_apply(s, &s->combs[i], number);
    return p;
}

struct mt_page *mt_shadow_find_slow(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p = mt_shadow_peek(s, number);
    if (!p && (s->spans.n || s->ncombs) && (p = page_of_many(s, number)))
        return p;
    s->recent[number & 1023].number = number;
    s->recent[number & 1023].page = p;
    return p;
}

/* Finds or creates a page; a new one is uniform with entry 0. */
static struct mt_page *page_any(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p = mt_shadow_find(s, number);
    return p || s->failed ? p : page_new(s, number);
}

static struct mt_page *page_new(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p;
    if ((s->pages + 1) * 2 > (size_t)1 << s->table_bits && table_grow(s) != 0)
        goto fail;
    if (!(p = arena_alloc(&s->arena, sizeof *p)))
        goto fail;
    p->entry = &p->uniform;
    size_t i = shadow_slot_of(s, number);
    s->table[i].number = number;
    s->table[i].page = p;
    s->pages++;
    s->recent[number & 1023].number = number;
    s->recent[number & 1023].page = p;
    return p;
fail:
    s->failed = 1;
    return NULL;
}

struct mt_page *mt_shadow_make_slow(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p = page_any(s, number);
    return p && p->mask == 0 && mt_page_to_words(s, p) != 0 ? NULL : p;
}

int mt_page_to_words(struct mt_shadow *s, struct mt_page *p)
{
    uint32_t *words = arena_reuse(&s->arena, &s->arena.free_words, WORDS_BYTES);
    uint64_t *start = p->start;
    if (!start && s->starts && words)
        start = arena_reuse(&s->arena, &s->arena.free_starts, STARTS_BYTES);
    if (!words || (s->starts && !start)) {
        s->failed = 1;
        return -1;
    }
    for (size_t i = 0; p->uniform && i < MT_PAGE_WORDS; i++)
        words[i] = p->uniform;
    for (size_t i = 0; start && i < MT_PAGE_WORDS; i++)
        start[i] = p->uniform_start;
    p->entry = words;
    p->start = start;
    p->mask = MT_PAGE_WORDS - 1;
    return 0;
}

uint32_t *mt_page_piece(struct mt_shadow *s, struct mt_page *p, unsigned piece)
{
    uint32_t *entry = p->bytes->piece[piece];
    if (entry)
        return entry;
    entry = arena_alloc(&s->arena, MT_PIECE_BYTES * (sizeof *entry + (s->starts ? sizeof(uint64_t) : 0)));
    if (!entry) {
        s->failed = 1;
        return NULL;
    }
    uint64_t *start = (uint64_t *)(entry + MT_PIECE_BYTES);
    for (size_t i = 0; i < MT_PIECE_BYTES; i++) {
        entry[i] = p->uniform;
        if (s->starts)
            start[i] = p->uniform_start;
    }
    return p->bytes->piece[piece] = entry;
}

/* Writes the entries of a piece's words to its bytes, if any of them is not 0. Returns 0, or -1 without
 * memory. */
static int page_piece_of_words(struct mt_shadow *s, struct mt_page *p, unsigned piece, const uint32_t *words)
{
    enum { WORDS = MT_PIECE_BYTES / 4 };
    const size_t first = (size_t)piece * WORDS;
    uint32_t any = 0;
    for (size_t i = 0; i < WORDS; i++)
        any |= words[first + i];
    uint32_t *entry = any ? mt_page_piece(s, p, piece) : NULL;
    if (!entry)
        return any ? -1 : 0;
    uint64_t *start = (uint64_t *)(entry + MT_PIECE_BYTES);
    for (size_t i = 0; i < MT_PIECE_BYTES; i++) {
        entry[i] = words[first + i / 4];
        if (s->starts)
            start[i] = p->start[first + i / 4];
    }
    return 0;
}

int mt_page_to_bytes(struct mt_shadow *s, struct mt_page *p)
{
    const struct mt_page was = *p;
    if (p->mask == MT_PAGE_BYTES - 1)
        return 0;
    p->bytes = arena_alloc(&s->arena, sizeof *p->bytes);
    if (was.mask)
        p->uniform = 0;
    int rc = p->bytes ? 0 : -1;
    for (unsigned k = 0; k < MT_PAGE_PIECES && was.mask && rc == 0; k++)
        rc = page_piece_of_words(s, p, k, was.entry);
    if (rc != 0) {
        *p = was;
        s->failed = 1;
        return -1;
    }
    if (was.mask)
        arena_release(&s->arena.free_words, was.entry);
    if (was.start)
        arena_release(&s->arena.free_starts, was.start);
    p->start = NULL;
    p->mask = MT_PAGE_BYTES - 1;
    return 0;
}

/* ---- ranges ---- */

/* Fills bytes of a page in byte form. */
static void fill_bytes(struct mt_shadow *s, struct mt_page *p, unsigned from, unsigned to, uint32_t entry,
                       uint64_t start)
{
    if (to - from == MT_PAGE_BYTES) {
        p->uniform = entry;
        p->uniform_start = start;
    }
    for (unsigned end; from < to; from = end) {
        const unsigned k = from >> MT_PIECE_BITS, in = from & (MT_PIECE_BYTES - 1);
        end = (k + 1) << MT_PIECE_BITS;
        end = end < to ? end : to;
        if (!p->bytes->piece[k] && p->uniform == entry && (!s->starts || !entry || p->uniform_start == start))
            continue;
        uint32_t *bytes = p->bytes->piece[k] ? p->bytes->piece[k] : mt_page_piece(s, p, k);
        if (!bytes)
            return;
        for (unsigned i = in; i < in + (end - from); i++)
            bytes[i] = entry;
        uint64_t *starts = (uint64_t *)(bytes + MT_PIECE_BYTES);
        for (unsigned i = in; s->starts && i < in + (end - from); i++)
            starts[i] = start;
    }
}

static void fill_page(struct mt_shadow *s, uint64_t number, unsigned from, unsigned to, uint32_t entry,
                      uint64_t start)
{
    struct mt_page *p = mt_shadow_find(s, number);
    int uniform = entry == 0 || (entry & MT_ENTRY_HOST);
    if (p && p->mask == MT_PAGE_BYTES - 1) {
        fill_bytes(s, p, from, to, entry, start);
        return;
    }
    if (!p && entry == 0)
        return;
    if (!p && !(p = page_any(s, number)))
        return;
    if (p->mask == 0 &&
        ((p->uniform == entry && p->uniform_start == start) || (uniform && to - from == MT_PAGE_BYTES))) {
        p->uniform = entry;
        p->uniform_start = start;
        return;
    }
    if (p->mask == MT_PAGE_WORDS - 1 && uniform && to - from == MT_PAGE_BYTES) {
        arena_release(&s->arena.free_words, p->entry); /* its starts, if any, are kept for reuse */
        p->entry = &p->uniform;
        p->uniform = entry;
        p->uniform_start = start;
        p->mask = 0;
        return;
    }
    if ((from | to) & 3) {
        if (mt_page_to_bytes(s, p) == 0)
            fill_bytes(s, p, from, to, entry, start);
        return;
    }
    if (p->mask == 0 && mt_page_to_words(s, p) != 0)
        return;
    for (unsigned i = from >> 2; i < to >> 2; i++) {
        p->entry[i] = entry;
        if (p->start)
            p->start[i] = start;
    }
}

/* Lists the existing pages of a range: looks up each page, or scans all pages, whichever is faster. */
static uint64_t *shadow_existing(struct mt_shadow *s, uint64_t first, uint64_t end, size_t *n)
{
    size_t slots = (size_t)1 << s->table_bits,
           room = end - first < s->pages ? (size_t)(end - first) : s->pages;
    uint64_t *list = malloc((room + 1) * sizeof *list);
    *n = 0;
    if (!list) {
        s->failed = 1;
        return NULL;
    }
    if (end - first <= slots) {
        for (uint64_t page = first; page < end; page++)
            if (mt_shadow_peek(s, page))
                list[(*n)++] = page;
        return list;
    }
    for (size_t i = 0; i < slots; i++)
        if (s->table[i].page && s->table[i].number >= first && s->table[i].number < end)
            list[(*n)++] = s->table[i].number;
    if (*n)
        qsort(list, *n, sizeof *list, mt_order_u64);
    return list;
}

/* Fills whole pages: existing ones now, the others when they are needed. */
static void fill_span(struct mt_shadow *s, uint64_t first, uint64_t end, uint32_t entry, uint64_t start)
{
    size_t n, kept = 0;
    uint64_t *pages = shadow_existing(s, first, end, &n);
    for (size_t i = 0; pages && i < n; i++)
        fill_page(s, pages[i], 0, MT_PAGE_BYTES, entry, start);
    free(pages);
    for (size_t i = 0; i < s->ncombs; i++) { /* combs inside the range are obsolete */
        const struct mt_comb *c = &s->combs[i];
        uint64_t last = c->dst + (c->height - 1) * c->pitch + (c->width - 1);
        if (c->dst >> MT_PAGE_BITS < first || last >> MT_PAGE_BITS >= end)
            s->combs[kept++] = *c;
    }
    s->ncombs = kept;
    struct mt_page_span span = {first, end, entry, start, ++s->version};
    if ((entry || s->ncombs ? mt_spans_set(&s->spans, &span) : mt_spans_clear(&s->spans, first, end)) != 0)
        s->failed = 1;
    recent_forget(s);
}

enum { SPAN_FROM = 32 }; /* pages; more than a region of a shard has */

void mt_shadow_fill(struct mt_shadow *s, uint64_t address, uint64_t length, uint32_t entry, uint64_t start)
{
    while (length > 0 && !s->failed) {
        uint64_t page = address >> MT_PAGE_BITS;
        unsigned from = address & (MT_PAGE_BYTES - 1);
        uint64_t n = length < MT_PAGE_BYTES - from ? length : MT_PAGE_BYTES - from;
        uint64_t whole = from == 0 ? length >> MT_PAGE_BITS : 0,
                 most = (UINT64_MAX >> MT_PAGE_BITS) + 1 - page;
        whole = whole < most ? whole : most; /* wraps around the end of the address space */
        if (whole >= SPAN_FROM) {
            fill_span(s, page, page + whole, entry, start);
            n = whole << MT_PAGE_BITS;
        } else if (entry != 0 || mt_shadow_find(s, page)) { /* without writer, unwritten pages stay so */
            fill_page(s, page, from, from + (unsigned)n, entry, start);
        }
        address += n;
        length -= n;
    }
}

void mt_shadow_fill_rows(struct mt_shadow *s, const struct mt_comb *rows)
{
    uint64_t length;
    struct mt_comb c = *rows;
    int far = __builtin_mul_overflow(c.height - 1, c.pitch, &length) ||
              __builtin_add_overflow(length, c.width - 1, &length) || c.dst + length < c.dst;
    if (c.height > 1 && c.pitch <= c.width && !far) { /* rows without gaps are one range */
        mt_shadow_fill(s, c.dst, length + 1, c.entry, c.start);
        return;
    }
    if (c.height <= MT_SHADOW_TALL) {
        for (uint64_t row = 0; row < c.height && !s->failed; row++)
            mt_shadow_fill(s, c.dst + row * c.pitch, c.width, c.entry, c.start);
        return;
    }
    if (far || (c.entry == 0 && s->spans.n == 0 && s->pages == 0 && s->ncombs == 0))
        return; /* impossible rows, or nothing to forget */
    size_t n, kept = 0;
    uint64_t *pages = shadow_existing(s, c.dst >> MT_PAGE_BITS, ((c.dst + length) >> MT_PAGE_BITS) + 1, &n);
    for (size_t i = 0; pages && i < n; i++)
        comb_apply(s, &c, pages[i]);
    free(pages);
    for (size_t i = 0; i < s->ncombs; i++) { /* the same rows written again replace the old ones */
        const struct mt_comb *o = &s->combs[i];
        if (o->dst != c.dst || o->width != c.width || o->height != c.height || o->pitch != c.pitch)
            s->combs[kept++] = *o;
    }
    s->ncombs = kept;
    if (mt_grow(&s->combs, &s->comb_room, s->ncombs + 1, sizeof *s->combs) != 0) {
        s->failed = 1;
        return;
    }
    c.version = ++s->version;
    s->combs[s->ncombs++] = c;
    recent_forget(s);
}

size_t mt_shadow_stretches(struct mt_shadow *s, uint64_t address, unsigned length, struct mt_stretch *runs)
{
    struct mt_page *p = mt_shadow_find(s, address >> MT_PAGE_BITS);
    unsigned from = address & (MT_PAGE_BYTES - 1);
    if (!p || p->mask == 0) {
        runs[0] = (struct mt_stretch){p ? p->uniform & ~MT_ENTRY_READ : 0, length, p ? p->uniform_start : 0};
        return 1;
    }
    size_t n = 0;
    for (unsigned i = from, step; i < from + length; i += step) {
        const struct mt_page_part part = mt_page_part_at(p, i);
        const unsigned at = (i - part.first) >> part.shift;
        step = part.first + ((at + 1) << part.shift) - i;
        if (step > from + length - i)
            step = from + length - i;
        uint32_t entry = part.entry[at] & ~MT_ENTRY_READ;
        uint64_t start = s->starts ? part.start[at] : 0;
        if (n > 0 && runs[n - 1].entry == entry && runs[n - 1].start == start)
            runs[n - 1].length += step;
        else
            runs[n++] = (struct mt_stretch){entry, step, start};
    }
    return n;
}

/* ---- sets of readers, as a tree ----
 * To find whether a set has a pair, the tree is divided into paths: the first child of a set is on its path,
 * other children begin new paths. Indices ascend along a path. */

struct mt_read_way {
    uint32_t head; /* first set of the path */
    uint32_t next; /* next set on the path; 0: none yet */
};

#define BRANCH 0x80000000u /* in a slot: the key is the parent set, otherwise the path */
enum {
    PATHS = 64 /* maximum number of paths examined; a missed pair is added twice, which is harmless */
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

/* ---- index; entries of earlier launches are free ---- */

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

/* Returns the slot of the pair after set `key`, or on the path `key`; it is free if there is none. */
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

/* Makes room for the two entries of one more set. */
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

/* Returns the child of the set with this pair, or 0. */
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

/* Returns the set that bytes of `set` belong to after the pair; 0 on failure. */
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

/* Adds a read of entries [i, end) of a page, `width` bytes each. */
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

/* Adds a read of bytes [from, to) of a page. */
static int readers_page(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t number, unsigned from,
                        unsigned to)
{
    const int parts = ((from | to) & 3) != 0; /* of words */
    struct mt_page *p = parts ? page_any(r->state, number) : mt_shadow_make(r->state, number);
    if (!p || (parts && mt_page_to_bytes(r->state, p) != 0))
        return -1;
    if (p->mask == MT_PAGE_WORDS - 1)
        return readers_entries(r, src, dst, p->entry + (from >> 2), p->entry + (to >> 2), 4);
    for (unsigned end; from < to; from = end) {
        const unsigned k = from >> MT_PIECE_BITS, first = k << MT_PIECE_BITS;
        end = first + MT_PIECE_BYTES < to ? first + MT_PIECE_BYTES : to;
        uint32_t *entry = mt_page_piece(r->state, p, k);
        if (!entry || readers_entries(r, src, dst, entry + (from - first), entry + (end - first), 1) != 0)
            return -1;
    }
    return 0;
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

/* ---- copies in the shadow: existing pages one by one, the gaps between them in stretches ---- */

enum { MOST_PAGES = 1 << 18 }; /* maximum number of pages that copies may create from rows */

struct move {
    const struct mt_shadow_parts *p;
    uint32_t nobody;
    uint64_t *pages; /* existing pages of the source */
    size_t n;
    struct mt_stretch *room; /* room for the stretches of a page */
};

static unsigned move_owner(const struct mt_shadow_parts *p, uint64_t address)
{
    return p->n > 1 ? p->owner(address, p->n) : 0;
}

static int move_failed(const struct mt_shadow_parts *p)
{
    int failed = 0;
    for (unsigned i = 0; i < p->n; i++)
        failed |= p->part[i]->failed;
    return failed ? -1 : 0;
}

/* Writes to all shards if the range is large, as other writes do, otherwise to its owners. */
static void move_put(const struct mt_shadow_parts *p, uint64_t to, uint64_t length, uint32_t entry,
                     uint64_t start)
{
    if (p->n == 1 || length >= MT_SHADOW_FAR) {
        for (unsigned i = 0; i < p->n; i++)
            mt_shadow_fill(p->part[i], to, length, entry, start);
        return;
    }
    for (uint64_t n; length > 0; to += n, length -= n) {
        n = p->region - (to & (p->region - 1));
        n = n < length ? n : length;
        mt_shadow_fill(p->part[move_owner(p, to)], to, n, entry, start);
    }
}

/* ---- source ---- */

/* Turns rows of the comb inside [src, last] into pages. Returns 0, -1, or -2: too many. */
static int move_unfold(const struct mt_shadow_parts *p, const struct mt_comb *c, uint64_t src, uint64_t last,
                       uint64_t *made)
{
    uint64_t end = c->dst + (c->height - 1) * c->pitch + (c->width - 1);
    if (src > end || last < c->dst)
        return 0;
    uint64_t row = src < c->dst + c->width ? 0 : (src - c->dst - c->width) / c->pitch + 1;
    uint64_t before = UINT64_MAX;
    for (; row < c->height && c->dst + row * c->pitch <= last; row++) {
        uint64_t at = c->dst + row * c->pitch, page = at >> MT_PAGE_BITS;
        for (; page <= (at + c->width - 1) >> MT_PAGE_BITS; page++) {
            if (page == before || page < src >> MT_PAGE_BITS || page > last >> MT_PAGE_BITS)
                continue;
            before = page;
            mt_shadow_find(p->part[move_owner(p, page << MT_PAGE_BITS)], page);
            if (++*made > MOST_PAGES)
                return -2;
        }
        if (move_failed(p) != 0)
            return -1;
    }
    return 0;
}

/* Fills m->pages with the pages of [src, last] that exist in their owners. Returns 0, -1 or -2. */
static int move_list(struct move *m, uint64_t src, uint64_t last)
{
    uint64_t made = 0;
    int rc = 0;
    for (unsigned i = 0; i < m->p->n && rc == 0; i++)
        for (size_t k = 0; k < m->p->part[i]->ncombs && rc == 0; k++)
            rc = move_unfold(m->p, &m->p->part[i]->combs[k], src, last, &made);
    free(m->pages);
    m->pages = NULL;
    m->n = 0;
    size_t room = 0;
    for (unsigned i = 0; i < m->p->n && rc == 0; i++) {
        size_t n;
        uint64_t *pages = shadow_existing(m->p->part[i], src >> MT_PAGE_BITS, (last >> MT_PAGE_BITS) + 1, &n);
        rc = pages ? mt_grow(&m->pages, &room, m->n + n, sizeof *m->pages) : -1;
        for (size_t k = 0; rc == 0 && k < n; k++)
            if (move_owner(m->p, pages[k] << MT_PAGE_BITS) == i)
                m->pages[m->n++] = pages[k];
        free(pages);
    }
    if (m->p->n > 1 && m->n)
        qsort(m->pages, m->n, sizeof *m->pages, mt_order_u64);
    if (rc == -1)
        m->p->part[0]->failed = 1;
    return rc;
}

/* ---- one row ---- */

static void move_page(struct move *m, uint64_t to, uint64_t from, unsigned bytes)
{
    struct mt_shadow *s = m->p->part[move_owner(m->p, from)];
    size_t count = mt_shadow_stretches(s, from, bytes, m->room);
    for (size_t i = 0; i < count; to += m->room[i++].length)
        move_put(m->p, to, m->room[i].length, m->room[i].entry ? m->room[i].entry : m->nobody,
                 m->room[i].start);
}

/* Returns how many bytes, `most` at most, from `at` on are in absent source pages with one writer. */
static uint64_t gap_forward(const struct move *m, uint64_t at, uint64_t most,
                            const struct mt_page_span **span)
{
    const struct mt_spans *s = &m->p->part[0]->spans;
    uint64_t page = at >> MT_PAGE_BITS;
    size_t i = mt_spans_at(s, page);
    *span = i < s->n && s->at[i].first <= page ? &s->at[i] : NULL;
    uint64_t n = *span      ? ((*span)->end << MT_PAGE_BITS) - at
                 : i < s->n ? (s->at[i].first << MT_PAGE_BITS) - at
                            : most;
    return n < most ? n : most;
}

/* Works as gap_forward, backwards from the byte `at`. */
static uint64_t gap_backward(const struct move *m, uint64_t at, uint64_t most,
                             const struct mt_page_span **span)
{
    const struct mt_spans *s = &m->p->part[0]->spans;
    uint64_t page = at >> MT_PAGE_BITS;
    size_t i = mt_spans_at(s, page);
    *span = i < s->n && s->at[i].first <= page ? &s->at[i] : NULL;
    uint64_t low = *span ? (*span)->first : i > 0 ? s->at[i - 1].end : 0, n = at - (low << MT_PAGE_BITS) + 1;
    return n && n < most ? n : most;
}

static void move_gap(struct move *m, uint64_t to, uint64_t bytes, const struct mt_page_span *span)
{
    uint32_t entry = span ? span->entry & ~MT_ENTRY_READ : 0;
    uint64_t start = entry ? span->start : 0;
    move_put(m->p, to, bytes, entry ? entry : m->nobody, start);
}

/* Copies a row, from its end if the copy would otherwise overwrite its source. */
static int move_row(struct move *m, uint64_t dst, uint64_t src, uint64_t length)
{
    if (dst == src && m->nobody == 0)
        return 0;
    int backward = dst - src < length, rc = move_list(m, src, src + length - 1);
    size_t k = backward ? m->n : 0;
    for (uint64_t done = 0, n; rc == 0 && done < length; done += n) {
        const struct mt_page_span *span;
        uint64_t left = length - done, at = backward ? src + left - 1 : src + done, page = at >> MT_PAGE_BITS;
        uint64_t in = at & (MT_PAGE_BYTES - 1);
        while (backward ? k > 0 && m->pages[k - 1] > page : k < m->n && m->pages[k] < page)
            k += backward ? (size_t)-1 : 1;
        int exists = backward ? k > 0 && m->pages[k - 1] == page : k < m->n && m->pages[k] == page;
        if (exists) {
            n = backward ? in + 1 : MT_PAGE_BYTES - in;
            n = n < left ? n : left;
        } else if (backward) {
            uint64_t most = k > 0 ? at - ((m->pages[k - 1] + 1) << MT_PAGE_BITS) + 1 : left;
            n = gap_backward(m, at, most < left ? most : left, &span);
        } else {
            uint64_t most = k < m->n ? (m->pages[k] << MT_PAGE_BITS) - at : left;
            n = gap_forward(m, at, most < left ? most : left, &span);
        }
        uint64_t offset = backward ? left - n : done;
        if (exists)
            move_page(m, dst + offset, src + offset, (unsigned)n);
        else
            move_gap(m, dst + offset, n, span);
        rc = move_failed(m->p);
    }
    return rc;
}

/* ---- many rows ---- */

/* Sets the writer of rows [first, end) to `entry`. */
static void rows_put(struct move *m, const struct mt_rows *r, uint64_t first, uint64_t end, uint32_t entry,
                     uint64_t start)
{
    struct mt_comb c = {r->dst + first * r->dpitch, r->width, end - first, r->dpitch, entry, start, 0};
    if (end - first > MT_SHADOW_TALL)
        for (unsigned i = 0; i < m->p->n; i++)
            mt_shadow_fill_rows(m->p->part[i], &c);
    else
        for (uint64_t row = first; row < end; row++)
            move_put(m->p, r->dst + row * r->dpitch, r->width, entry, start);
}

/* Copies the bytes [low, high] of the source, as far as rows cover them. */
static void rows_clip(struct move *m, const struct mt_rows *r, uint64_t row, uint64_t low, uint64_t high,
                      uint32_t entry, uint64_t start)
{
    uint64_t at = r->src + row * r->spitch, last = at + (r->width - 1);
    if (row >= r->height || last < low || at > high)
        return;
    uint64_t from = at > low ? at : low, to = last < high ? last : high;
    move_put(m->p, r->dst + row * r->dpitch + (from - at), to - from + 1, entry, start);
}

/* Copies all rows inside the span at once, those at its ends separately. */
static void rows_of_span(struct move *m, const struct mt_rows *r, const struct mt_page_span *span)
{
    uint64_t low = span->first << MT_PAGE_BITS, high = (span->end << MT_PAGE_BITS) - 1;
    uint32_t entry = span->entry & ~MT_ENTRY_READ;
    if (!entry || high < r->src)
        return;
    uint64_t first = low <= r->src ? 0 : (low - r->src + r->spitch - 1) / r->spitch;
    uint64_t end = high - r->src < r->width - 1 ? 0 : (high - r->src - (r->width - 1)) / r->spitch + 1;
    end = end < r->height ? end : r->height;
    first = first < r->height ? first : r->height;
    if (first > 0)
        rows_clip(m, r, first - 1, low, high, entry, span->start);
    if (first < end)
        rows_put(m, r, first, end, entry, span->start);
    if (end >= first)
        rows_clip(m, r, end, low, high, entry, span->start);
}

/* Existing stretch of the source, and its destination. */
struct rows_piece {
    uint64_t to, length, start;
    uint32_t entry;
};
struct rows_pieces {
    struct rows_piece *at;
    size_t n, room;
};

static int rows_piece(struct rows_pieces *x, const struct rows_piece *piece)
{
    if (mt_grow(&x->at, &x->room, x->n + 1, sizeof *x->at) != 0)
        return -1;
    x->at[x->n++] = *piece;
    return 0;
}

static int rows_of_page(struct move *m, const struct mt_rows *r, uint64_t page, struct rows_pieces *x)
{
    uint64_t low = page << MT_PAGE_BITS, high = low + (MT_PAGE_BYTES - 1);
    uint64_t row = low < r->src + r->width ? 0 : (low - r->src - r->width) / r->spitch + 1;
    for (; row < r->height && r->src + row * r->spitch <= high; row++) {
        uint64_t at = r->src + row * r->spitch, last = at + (r->width - 1);
        uint64_t from = at > low ? at : low, end = last < high ? last : high;
        size_t count = mt_shadow_stretches(m->p->part[move_owner(m->p, from)], from,
                                           (unsigned)(end - from) + 1, m->room);
        struct rows_piece piece = {.to = r->dst + row * r->dpitch + (from - at)};
        for (size_t i = 0; i < count; i++) {
            piece.length = m->room[i].length;
            piece.entry = m->room[i].entry ? m->room[i].entry : m->nobody;
            piece.start = m->room[i].start;
            if (rows_piece(x, &piece) != 0)
                return -1;
            piece.to += piece.length;
        }
    }
    return 0;
}

/* Copies rows; the source is read completely before anything is written. */
static int move_rows(struct move *m, const struct mt_rows *r)
{
    struct rows_pieces x = {0};
    uint64_t last = r->src + (r->height - 1) * r->spitch + (r->width - 1);
    int rc = move_list(m, r->src, last);
    const struct mt_spans *spans = &m->p->part[0]->spans;
    size_t first = mt_spans_at(spans, r->src >> MT_PAGE_BITS), n = 0;
    while (first + n < spans->n && spans->at[first + n].first <= last >> MT_PAGE_BITS)
        n++;
    struct mt_page_span *copy = malloc((n + 1) * sizeof *copy);
    for (size_t i = 0; rc == 0 && i < m->n; i++)
        rc = rows_of_page(m, r, m->pages[i], &x);
    if (rc == 0 && !copy)
        rc = -1;
    if (rc == -1)
        m->p->part[0]->failed = 1;
    if (rc == 0) {
        if (n)
            memcpy(copy, spans->at + first, n * sizeof *copy);
        rows_put(m, r, 0, r->height, m->nobody, 0);
        for (size_t i = 0; i < n; i++)
            rows_of_span(m, r, &copy[i]);
        for (size_t i = 0; i < x.n; i++)
            move_put(m->p, x.at[i].to, x.at[i].length, x.at[i].entry, x.at[i].start);
        rc = move_failed(m->p);
    }
    free(copy);
    free(x.at);
    return rc;
}

/* Returns 1 if all rows lie within the address space and do not overlap. */
static int shadow_rows_fit(uint64_t base, uint64_t pitch, const struct mt_rows *r)
{
    uint64_t length;
    return pitch >= r->width && !__builtin_mul_overflow(r->height - 1, pitch, &length) &&
           !__builtin_add_overflow(length, r->width - 1, &length) && base + length >= base;
}

int mt_shadow_move(const struct mt_shadow_parts *p, const struct mt_rows *rows, uint32_t nobody)
{
    struct move m = {.p = p, .nobody = nobody, .room = malloc(MT_PAGE_BYTES * sizeof *m.room)};
    struct mt_rows r = *rows;
    int rc = m.room ? 0 : -1;
    if (!m.room)
        p->part[0]->failed = 1;
    uint64_t all, apart = r.dst - r.src < r.src - r.dst ? r.dst - r.src : r.src - r.dst;
    if (r.height > 1 && r.dpitch == r.width && r.spitch == r.width &&
        !__builtin_mul_overflow(r.width, r.height, &all) &&
        apart >= all) { /* otherwise the order of rows matters */
        r.width = all;
        r.height = 1;
    }
    if (rc == 0 && r.height > MT_SHADOW_TALL)
        rc = shadow_rows_fit(r.dst, r.dpitch, &r) && shadow_rows_fit(r.src, r.spitch, &r) ? move_rows(&m, &r)
                                                                                          : -2;
    else
        for (uint64_t row = 0; row < r.height && rc == 0; row++)
            rc = move_row(&m, r.dst + row * r.dpitch, r.src + row * r.spitch, r.width);
    free(m.pages);
    free(m.room);
    return rc;
}
