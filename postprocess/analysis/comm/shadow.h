/* Who wrote each byte last: a shadow of the traced program's memory, exact to the byte.
 *
 * A page covers 4096 bytes of the program's memory in one of three forms, distinguished by `mask`:
 *   0     uniform: one entry for all bytes (host copies and fills of whole pages)
 *   1023  words: one entry per aligned 4 bytes, all written by the same access
 *   4095  bytes: one entry per byte; a page becomes so when a narrower access makes a difference, and stays
 * Pages exist where something was written, except that what was written to many pages at once is kept as a
 * span (spans.h), or as a comb of rows, until one of its pages is asked for: memory and time are sized by the
 * events, not by the bytes that they speak of. A page that exists is what counts for its bytes.
 *
 * An entry is 0 (never written) or the writer: an actor (comm.h) or, with MT_ENTRY_HOST, a host write.
 * MT_ENTRY_READ marks bytes that already counted as communicated. With starts, each entry also keeps the
 * address at which the access began that wrote it. Not thread-safe. Out of memory: `failed` is set, the state
 * is no longer exact. */
#ifndef MT_ANALYSIS_SHADOW_H
#define MT_ANALYSIS_SHADOW_H

#include "analysis/base/spans.h"
#include <stddef.h>
#include <stdint.h>

/* Who reads each byte of whom, launch by launch, each pair once however often it reads: what is needed to
 * count bytes that differ when it is known later which CTAs are together. A byte is in a set: the pairs
 * (writer, reader) that have met at it in this launch, in their order. Sets are a tree: each is one pair more
 * than the set before it. Bytes with the same history share a set, so there are few as a rule. Of more than
 * there may be, or without memory, nothing is known (`lost`) and no memory held. Knows no analysis.
 * Not thread-safe. */

enum { MT_READERS_MOST = 1 << 25 }; /* sets; 1.5 GiB */

struct mt_read_set {
    uint32_t before; /* index, smaller than its own; 0: none */
    uint32_t src, dst;
    uint64_t bytes; /* that have been in it, one by one */
};

struct mt_shadow;
struct mt_read_way;

struct mt_readers {
    struct mt_read_set *sets; /* from 1 */
    size_t n;                 /* the next one's index */
    int lost;
    size_t most; /* sets; the user's to lower */
    /* state */
    struct mt_shadow *state;  /* the set of each byte */
    uint32_t first;           /* set of the launch; smaller ones mean none */
    struct mt_read_way *ways; /* of the launch's sets */
    uint32_t *slot;           /* hash index of these */
    unsigned bits;
    size_t room, way_room;
    struct mt_read_step {
        uint32_t set, src, dst, to;
    } recent[64];
};

void mt_readers_init(struct mt_readers *r);
void mt_readers_free(struct mt_readers *r);

/* The sets stay; nothing more may be fed. */
void mt_readers_forget(struct mt_readers *r);

/* Readers from now on are others. */
void mt_readers_launch(struct mt_readers *r);

/* `dst` reads `size` bytes that `src` wrote. */
void mt_readers_read(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t address, uint64_t size);

/* Pages [page, end) at once, without memory for each: do those before *next share one set? (Else `page` goes
 * byte by byte.) Then all of them are read, which counts as `bytes` bytes. */
int mt_readers_stretch(const struct mt_readers *r, uint64_t page, uint64_t end, uint64_t *next);

void mt_readers_read_stretch(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t page, uint64_t end,
                             uint64_t bytes);

/* The sets of another that knows other bytes; NULL: it is lost. */
void mt_readers_add(struct mt_readers *r, const struct mt_read_set *sets, size_t n);

#define MT_ENTRY_READ 0x80000000u
#define MT_ENTRY_HOST 0x40000000u
#define MT_ENTRY_MAX 0x3fffffffu /* the largest actor or host number */
enum { MT_PAGE_BITS = 12, MT_PAGE_BYTES = 1 << MT_PAGE_BITS, MT_PAGE_WORDS = MT_PAGE_BYTES / 4 };

/* So many bytes are far: they have enough whole pages for a span wherever they begin. */
enum { MT_SHADOW_FAR = 64 << MT_PAGE_BITS };

enum { MT_SHADOW_TALL = 4096 }; /* more rows than that are a comb */

struct mt_page {
    uint32_t *entry; /* [mask + 1]; points to `uniform` in a uniform page */
    uint64_t *start; /* [mask + 1]; NULL without starts; means nothing in a uniform page: */
    uint64_t uniform_start;
    uint32_t mask;
    uint32_t uniform;
};

/* Rows of which no page was asked for yet. */
struct mt_comb {
    uint64_t dst, width, height, pitch; /* pitch > width; ends within the address space */
    uint32_t entry;
    uint64_t start, version; /* as of a span */
};

struct mt_arena {
    char *chunk;       /* chunks are linked by their first word */
    size_t used, size; /* of the chunk */
    void *free_words;  /* word arrays given back, linked by their first word */
};

struct mt_shadow {
    struct {
        uint64_t number;
        struct mt_page *page; /* NULL: this page does not exist */
    } recent[1024];           /* direct-mapped by page number */
    struct {
        uint64_t number;
        struct mt_page *page; /* NULL: free slot */
    } *table;
    unsigned table_bits;
    size_t pages;
    struct mt_spans spans;
    struct mt_comb *combs; /* ascending version */
    size_t ncombs, comb_room;
    uint64_t version;
    int starts, failed;
    struct mt_arena arena;
};

/* 0, or -1 without memory. */
int mt_shadow_init(struct mt_shadow *s, int starts);

void mt_shadow_free(struct mt_shadow *s);

/* The same of a page that exists; one that is in a span or comb is not made. */
struct mt_page *mt_shadow_peek(const struct mt_shadow *s, uint64_t number);

struct mt_page *mt_shadow_find_slow(struct mt_shadow *s, uint64_t number);
struct mt_page *mt_shadow_make_slow(struct mt_shadow *s, uint64_t number);

/* Form changes. 0, or -1 without memory (the page is as it was). */
int mt_page_to_words(struct mt_shadow *s, struct mt_page *p);

int mt_page_to_bytes(struct mt_shadow *s, struct mt_page *p);

/* The page with this number (address >> 12), NULL if nothing was written there. */
static inline struct mt_page *mt_shadow_find(struct mt_shadow *s, uint64_t number)
{
    unsigned i = number & 1023;
    if (__builtin_expect(s->recent[i].number == number, 1))
        return s->recent[i].page;
    return mt_shadow_find_slow(s, number);
}

/* The same, made if need be, in word or byte form; NULL without memory. */
static inline struct mt_page *mt_shadow_make(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p = mt_shadow_find(s, number);
    if (__builtin_expect(p != NULL && p->mask != 0, 1))
        return p;
    return mt_shadow_make_slow(s, number);
}

/* Bytes [address, address + length) were written by `entry` in an access that began at `start`.
 * Entry 0 forgets. */
void mt_shadow_fill(struct mt_shadow *s, uint64_t address, uint64_t length, uint32_t entry, uint64_t start);

/* The same of `height` rows of `width` bytes, `pitch` from one to the next. */
void mt_shadow_fill_rows(struct mt_shadow *s, const struct mt_comb *rows);

/* A stretch of bytes with one writer. */
struct mt_stretch {
    uint32_t entry, length;
    uint64_t start;
};

/* Splits [address, address + length), inside one page, into stretches without marks of reading; how many.
 * Room: one per byte. */
size_t mt_shadow_stretches(struct mt_shadow *s, uint64_t address, unsigned length, struct mt_stretch *out);

/* Copies of any size between shadows that share memory: a page counts as its owner has it, spans and combs
 * are the same in all. */
struct mt_shadow_parts {
    struct mt_shadow *const *part;
    unsigned n;
    unsigned (*owner)(uint64_t address,
                      unsigned n); /* of regions of `region` bytes; not called when n is 1 */
    uint64_t region;
};

struct mt_rows {
    uint64_t dst, src, width, height, dpitch, spitch;
};

/* 0; -1: one of the parts failed; -2: rows from memory that was filled in rows: too many to follow. */
int mt_shadow_move(const struct mt_shadow_parts *p, const struct mt_rows *rows, uint32_t nobody);

#endif
