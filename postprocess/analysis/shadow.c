/* Pages, their table and memory; ranges written and copied. The hot paths stand in shadow.h and comm.c. */
#define _GNU_SOURCE
#include "shadow.h"
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
    size_t i = (number * 0x9e3779b97f4a7c15ull) >> (64 - s->table_bits);
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

int mt_shadow_init(struct mt_shadow *s, int starts)
{
    memset(s, 0, sizeof *s);
    s->starts = starts;
    for (size_t i = 0; i < sizeof s->recent / sizeof *s->recent; i++)
        s->recent[i].number = UINT64_MAX; /* page numbers have 52 bits */
    return table_grow(s);
}

void mt_shadow_free(struct mt_shadow *s)
{
    free(s->table);
    arena_free(&s->arena);
    s->table = NULL;
}

struct mt_page *mt_shadow_find_slow(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p = s->table[slot_of(s, number)].page;
    s->recent[number & 1023].number = number;
    s->recent[number & 1023].page = p;
    return p;
}

/* Finds or makes, a new page being uniform with entry 0. */
static struct mt_page *page_any(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p = mt_shadow_find(s, number);
    if (p)
        return p;
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
    if (start)
        memset(start, 0, MT_PAGE_WORDS * sizeof *start);
    else if (s->starts && words)
        start = arena_alloc(&s->arena, MT_PAGE_WORDS * sizeof *start);
    if (!words || (s->starts && !start)) {
        s->failed = 1;
        return -1;
    }
    for (size_t i = 0; p->uniform && i < MT_PAGE_WORDS; i++)
        words[i] = p->uniform;
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
        if (start && p->mask)
            start[i] = p->start[i / 4];
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
    if (p->mask == 0 && (p->uniform == entry || (uniform && to - from == MT_PAGE_BYTES))) {
        p->uniform = entry;
        return;
    }
    if (p->mask == MT_PAGE_WORDS - 1 && uniform && to - from == MT_PAGE_BYTES) {
        words_free(&s->arena, p->entry); /* its starts, if any, wait for the next use */
        p->entry = &p->uniform;
        p->uniform = entry;
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

void mt_shadow_fill(struct mt_shadow *s, uint64_t address, uint64_t length, uint32_t entry, uint64_t start)
{
    while (length > 0) {
        unsigned from = address & (MT_PAGE_BYTES - 1);
        uint64_t n = length < MT_PAGE_BYTES - from ? length : MT_PAGE_BYTES - from;
        if (entry != 0 ||
            mt_shadow_find(s, address >> MT_PAGE_BITS)) /* nobody: what was never written stays so */
            fill_page(s, address >> MT_PAGE_BITS, from, from + (unsigned)n, entry, start);
        address += n;
        length -= n;
    }
}

size_t mt_shadow_stretches(struct mt_shadow *s, uint64_t address, unsigned length, struct mt_stretch *runs)
{
    const struct mt_page *p = mt_shadow_find(s, address >> MT_PAGE_BITS);
    unsigned from = address & (MT_PAGE_BYTES - 1);
    if (!p || p->mask == 0) {
        runs[0] = (struct mt_stretch){p ? p->uniform & ~MT_ENTRY_READ : 0, length, 0};
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

/* Page by page of the source, from the end when the copy would overwrite what it has still to read. */
void mt_shadow_copy(struct mt_shadow *s, uint64_t dst, uint64_t src, uint64_t length, uint32_t nobody)
{
    if (length == 0 || (dst == src && nobody == 0))
        return;
    struct mt_stretch *runs = malloc(MT_PAGE_BYTES * sizeof *runs);
    if (!runs) {
        s->failed = 1;
        return;
    }
    int backward = dst - src < length;
    uint64_t done = 0;
    while (done < length) {
        uint64_t left = length - done, n;
        uint64_t at = backward ? src + left - 1 : src + done; /* last or first byte still to copy */
        unsigned in_page = at & (MT_PAGE_BYTES - 1);
        n = backward ? in_page + 1u : MT_PAGE_BYTES - in_page;
        if (n > left)
            n = left;
        uint64_t offset = backward ? left - n : done;
        size_t count = mt_shadow_stretches(s, src + offset, (unsigned)n, runs);
        uint64_t to = dst + offset;
        for (size_t i = 0; i < count; to += runs[i++].length)
            mt_shadow_fill(s, to, runs[i].length, runs[i].entry ? runs[i].entry : nobody, runs[i].start);
        done += n;
    }
    free(runs);
}
