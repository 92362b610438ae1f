/* Pages, their table and memory; ranges written and copied. The hot paths are in shadow.h and comm.c. */
#define _GNU_SOURCE
#include "shadow.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "memtrace/hash.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory: zeroed, big chunks in huge pages, freed as a whole ---- */

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

static uint32_t *words_alloc(struct mt_arena *a)
{
    void *p = a->free_words;
    if (!p)
        return arena_alloc(a, MT_PAGE_WORDS * sizeof(uint32_t));
    memcpy(&a->free_words, p, sizeof p);
    memset(p, 0, MT_PAGE_WORDS * sizeof(uint32_t));
    return p;
}

static void words_free(struct mt_arena *a, uint32_t *words)
{
    memcpy(words, &a->free_words, sizeof a->free_words);
    a->free_words = words;
}

/* ---- the table of pages ---- */

static size_t slot_of(const struct mt_shadow *s, uint64_t number)
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
            s->table[slot_of(s, old.table[i].number)] = old.table[i];
    free(old.table);
    return 0;
}

/* Pages that are known not to exist may be in something new. */
static void recent_forget(struct mt_shadow *s)
{
    for (size_t i = 0; i < sizeof s->recent / sizeof *s->recent; i++)
        if (!s->recent[i].page)
            s->recent[i].number = UINT64_MAX; /* page numbers have 52 bits */
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
    return s->table[slot_of(s, number)].page;
}

/* Rows [*first, *end) of the comb that touch the page; 0: none. */
static int comb_rows(const struct mt_comb *c, uint64_t page, uint64_t *first, uint64_t *end)
{
    uint64_t low = page << MT_PAGE_BITS, high = low + (MT_PAGE_BYTES - 1); /* both included */
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

/* What spans and combs say of the page, as a page; NULL: nothing, or no memory. */
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

/* Finds or makes, a new page being uniform with entry 0. */
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
    size_t i = slot_of(s, number);
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
    uint32_t *words = words_alloc(&s->arena);
    uint64_t *start = p->start;
    if (!start && s->starts && words)
        start = arena_alloc(&s->arena, MT_PAGE_WORDS * sizeof *start);
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

int mt_page_to_bytes(struct mt_shadow *s, struct mt_page *p)
{
    if (p->mask == MT_PAGE_BYTES - 1)
        return 0;
    uint32_t *bytes = arena_alloc(&s->arena, MT_PAGE_BYTES * sizeof *bytes);
    uint64_t *start = s->starts && bytes ? arena_alloc(&s->arena, MT_PAGE_BYTES * sizeof *start) : NULL;
    if (!bytes || (s->starts && !start)) {
        s->failed = 1;
        return -1;
    }
    for (size_t i = 0; i < MT_PAGE_BYTES; i++) {
        bytes[i] = p->entry[i / 4 & p->mask];
        if (start)
            start[i] = p->mask ? p->start[i / 4] : p->uniform_start;
    }
    if (p->mask)
        words_free(&s->arena, p->entry);
    p->entry = bytes;
    p->start = start;
    p->mask = MT_PAGE_BYTES - 1;
    return 0;
}

/* ---- ranges ---- */

static void fill_page(struct mt_shadow *s, uint64_t number, unsigned from, unsigned to, uint32_t entry,
                      uint64_t start)
{
    struct mt_page *p = mt_shadow_find(s, number);
    int uniform = entry == 0 || (entry & MT_ENTRY_HOST);
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
        words_free(&s->arena, p->entry); /* its starts, if any, wait for the next use */
        p->entry = &p->uniform;
        p->uniform = entry;
        p->uniform_start = start;
        p->mask = 0;
        return;
    }
    if (p->mask == 0 && mt_page_to_words(s, p) != 0)
        return;
    if (p->mask == MT_PAGE_WORDS - 1 && ((from | to) & 3) && mt_page_to_bytes(s, p) != 0)
        return;
    unsigned shift = p->mask == MT_PAGE_WORDS - 1 ? 2 : 0;
    for (unsigned i = from >> shift; i < to >> shift; i++) {
        p->entry[i] = entry;
        if (p->start)
            p->start[i] = start;
    }
}

/* Whichever is less: asking for each page, or looking at all that exist. */
uint64_t *mt_shadow_existing(struct mt_shadow *s, uint64_t first, uint64_t end, size_t *n)
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

/* Whole pages: those that exist now, the others when they are asked for. */
static void fill_span(struct mt_shadow *s, uint64_t first, uint64_t end, uint32_t entry, uint64_t start)
{
    size_t n, kept = 0;
    uint64_t *pages = mt_shadow_existing(s, first, end, &n);
    for (size_t i = 0; pages && i < n; i++)
        fill_page(s, pages[i], 0, MT_PAGE_BYTES, entry, start);
    free(pages);
    for (size_t i = 0; i < s->ncombs; i++) { /* those that lie inside say nothing more */
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
        whole = whole < most ? whole : most; /* around the end of the address space */
        if (whole >= SPAN_FROM) {
            fill_span(s, page, page + whole, entry, start);
            n = whole << MT_PAGE_BITS;
        } else if (entry != 0 || mt_shadow_find(s, page)) { /* nobody: what was never written stays so */
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
    if (c.height > 1 && c.pitch <= c.width && !far) { /* without gaps */
        mt_shadow_fill(s, c.dst, length + 1, c.entry, c.start);
        return;
    }
    if (c.height <= MT_SHADOW_TALL) {
        for (uint64_t row = 0; row < c.height && !s->failed; row++)
            mt_shadow_fill(s, c.dst + row * c.pitch, c.width, c.entry, c.start);
        return;
    }
    if (far || (c.entry == 0 && s->spans.n == 0 && s->pages == 0 && s->ncombs == 0))
        return; /* no memory has such rows; or there is nothing to forget */
    size_t n, kept = 0;
    uint64_t *pages =
        mt_shadow_existing(s, c.dst >> MT_PAGE_BITS, ((c.dst + length) >> MT_PAGE_BITS) + 1, &n);
    for (size_t i = 0; pages && i < n; i++)
        comb_apply(s, &c, pages[i]);
    free(pages);
    for (size_t i = 0; i < s->ncombs; i++) { /* the same rows again take the place of the old ones */
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
    const struct mt_page *p = mt_shadow_find(s, address >> MT_PAGE_BITS);
    unsigned from = address & (MT_PAGE_BYTES - 1);
    if (!p || p->mask == 0) {
        runs[0] = (struct mt_stretch){p ? p->uniform & ~MT_ENTRY_READ : 0, length, p ? p->uniform_start : 0};
        return 1;
    }
    unsigned shift = p->mask == MT_PAGE_WORDS - 1 ? 2 : 0;
    size_t n = 0;
    for (unsigned i = from; i < from + length;) {
        unsigned step = shift ? 4 - (i & 3) : 1;
        if (step > from + length - i)
            step = from + length - i;
        uint32_t entry = p->entry[i >> shift] & ~MT_ENTRY_READ;
        uint64_t start = p->start ? p->start[i >> shift] : 0;
        if (n > 0 && runs[n - 1].entry == entry && runs[n - 1].start == start)
            runs[n - 1].length += step;
        else
            runs[n++] = (struct mt_stretch){entry, step, start};
        i += step;
    }
    return n;
}
