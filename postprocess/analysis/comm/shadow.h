/* Last writer of each byte: a shadow of the traced program's memory, exact to the byte.
 *
 * A page covers 4096 bytes of the program's memory in one of three forms, distinguished by `mask`:
 *   0     uniform: one entry for all bytes (host copies and fills of whole pages)
 *   1023  words: one entry per aligned 4 bytes, all written by the same access
 *   4095  bytes: an access of part of a word converts a page to this form permanently. Pieces of 128 bytes
 *         that differ from `uniform` have one entry per byte
 * Pages exist where something was written. A write to many pages is stored as a span (spans.h), or as a comb
 * of rows, until one of its pages is needed: memory and time depend on the number of writes, not on their
 * sizes. If a page exists, it takes precedence over spans and combs.
 *
 * An entry is 0 (never written) or the writer: an actor (comm.h) or, with MT_ENTRY_HOST, a host write.
 * MT_ENTRY_READ marks bytes that already counted as communicated. With starts, an entry also has the address
 * at which the writing access began. Not thread-safe. Without memory `failed` is set, and the state is no
 * longer exact. */
#ifndef MT_ANALYSIS_SHADOW_H
#define MT_ANALYSIS_SHADOW_H

#include "analysis/base/spans.h"
#include <stddef.h>
#include <stdint.h>

/* Readers of each byte, per launch, each pair (writer, reader) once regardless of the number of reads. With
 * them distinct bytes can be counted once it is known which CTAs are placed together. A byte belongs to a
 * set: the pairs that have occurred at it in this launch, in order. Sets form a tree: each has one pair more
 * than its parent. Bytes with the same history share a set, so there are usually few. Past the limit, or
 * without memory, nothing is known (`lost`) and no memory is held. Independent of analyses. Not
 * thread-safe. */

enum { MT_READERS_MOST = 1 << 25 }; /* maximum number of sets; 1.5 GiB */

struct mt_read_set {
    uint32_t before; /* index of the parent, smaller than the set's own; 0: none */
    uint32_t src, dst;
    uint64_t bytes; /* number of bytes that have been in the set */
};

struct mt_shadow;
struct mt_read_way;

struct mt_readers {
    struct mt_read_set *sets; /* array of sets; indices start at 1 */
    size_t n;                 /* index of the next set */
    int lost;
    size_t most; /* maximum number of sets; the user may lower it */
    /* state */
    struct mt_shadow *state;  /* shadow with the set of each byte */
    uint32_t first;           /* first set of the launch; smaller numbers mean none */
    struct mt_read_way *ways; /* path of each set of the launch */
    uint32_t *slot;           /* hash index of these sets */
    unsigned bits;
    size_t room, way_room;
    struct mt_read_step {
        uint32_t set, src, dst, to;
    } recent[64];
};

void mt_readers_init(struct mt_readers *r);
void mt_readers_free(struct mt_readers *r);

/* Frees the state; nothing may be fed afterwards, the sets remain. */
void mt_readers_forget(struct mt_readers *r);

/* Begins a launch, whose readers are distinct from earlier ones. */
void mt_readers_launch(struct mt_readers *r);

/* Adds a read by `dst` of `size` bytes that `src` wrote. */
void mt_readers_read(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t address, uint64_t size);

void mt_readers_read_stretch(struct mt_readers *r, uint32_t src, uint32_t dst, uint64_t page, uint64_t end,
                             uint64_t bytes);

/* Adds the sets of another object that covers other bytes; NULL: it is lost. */
void mt_readers_add(struct mt_readers *r, const struct mt_read_set *sets, size_t n);

#define MT_ENTRY_READ 0x80000000u
#define MT_ENTRY_HOST 0x40000000u
#define MT_ENTRY_MAX 0x3fffffffu /* largest number of an actor or host write */
enum { MT_PAGE_BITS = 12, MT_PAGE_BYTES = 1 << MT_PAGE_BITS, MT_PAGE_WORDS = MT_PAGE_BYTES / 4 };

/* Minimum size, in bytes, that is stored as a span: wherever it begins, it has enough whole pages. */
enum { MT_SHADOW_FAR = 64 << MT_PAGE_BITS };

enum { MT_SHADOW_TALL = 4096 }; /* maximum number of rows that are not stored as a comb */

enum {
    MT_PIECE_BITS = 7,
    MT_PIECE_BYTES = 1 << MT_PIECE_BITS,
    MT_PAGE_PIECES = MT_PAGE_BYTES / MT_PIECE_BYTES
};

struct mt_page_bytes {
    uint32_t *piece[MT_PAGE_PIECES]; /* [MT_PIECE_BYTES] entries, with starts followed by as many of these;
                                      * NULL: all are `uniform` */
};

struct mt_page {
    union {
        uint32_t *entry;             /* [mask + 1]; points to `uniform` in a uniform page */
        struct mt_page_bytes *bytes; /* of a page in byte form */
    };
    uint64_t *start; /* [mask + 1]; NULL without starts; not used in other forms than words */
    uint64_t uniform_start;
    uint32_t mask;
    uint32_t uniform;
};

/* Rows none of whose pages has been needed yet. */
struct mt_comb {
    uint64_t dst, width, height, pitch; /* pitch > width; ends within the address space */
    uint32_t entry;
    uint64_t start, version; /* address and serial number of the write, as in a span */
};

struct mt_arena {
    char *chunk;       /* chunks are linked by their first words */
    size_t used, size; /* bytes used and total bytes of the current chunk */
    void *free_words,
        *free_starts; /* free arrays of words, and of their starts, linked by their first words */
};

struct mt_shadow {
    struct {
        uint64_t number;
        struct mt_page *page; /* NULL: the page does not exist */
    } recent[1024];           /* direct-mapped by page number */
    struct {
        uint64_t number;
        struct mt_page *page; /* NULL: the slot is free */
    } *table;
    unsigned table_bits;
    size_t pages;
    struct mt_spans spans;
    struct mt_comb *combs; /* combs in order of their version */
    size_t ncombs, comb_room;
    uint64_t version;
    int starts, failed;
    struct mt_arena arena;
};

/* Returns 0, or -1 without memory. */
int mt_shadow_init(struct mt_shadow *s, int starts);

void mt_shadow_free(struct mt_shadow *s);

/* Returns the page if it exists; does not create pages of spans or combs. */
struct mt_page *mt_shadow_peek(const struct mt_shadow *s, uint64_t number);

struct mt_page *mt_shadow_find_slow(struct mt_shadow *s, uint64_t number);
struct mt_page *mt_shadow_make_slow(struct mt_shadow *s, uint64_t number);

/* Convert a page to another form. Return 0, or -1 without memory (the page is unchanged). */
int mt_page_to_words(struct mt_shadow *s, struct mt_page *p);

int mt_page_to_bytes(struct mt_shadow *s, struct mt_page *p);

/* Returns the entries of a piece of a page in byte form, created if necessary; NULL without memory. */
uint32_t *mt_page_piece(struct mt_shadow *s, struct mt_page *p, unsigned piece);

/* Part of a page, of any form, whose entries lie side by side: that of byte b is entry[(b - first) >> shift].
 */
struct mt_page_part {
    uint32_t *entry;
    const uint64_t *start; /* indexed alike; only with starts */
    unsigned first, end;   /* bytes of the part: [first, end) */
    unsigned shift;        /* MT_PAGE_BITS: uniform page; MT_PIECE_BITS: uniform piece in byte form */
};

static inline struct mt_page_part mt_page_part_at(struct mt_page *p, unsigned byte)
{
    if (p->mask == MT_PAGE_WORDS - 1)
        return (struct mt_page_part){p->entry, p->start, 0, MT_PAGE_BYTES, 2};
    if (p->mask == 0)
        return (struct mt_page_part){&p->uniform, &p->uniform_start, 0, MT_PAGE_BYTES, MT_PAGE_BITS};
    const unsigned k = byte >> MT_PIECE_BITS, first = k << MT_PIECE_BITS;
    uint32_t *piece = p->bytes->piece[k];
    if (!piece)
        return (struct mt_page_part){&p->uniform, &p->uniform_start, first, first + MT_PIECE_BYTES,
                                     MT_PIECE_BITS};
    return (struct mt_page_part){piece, (const uint64_t *)(piece + MT_PIECE_BYTES), first,
                                 first + MT_PIECE_BYTES, 0};
}

/* Returns the entry of a byte. */
static inline uint32_t mt_page_entry(struct mt_page *p, unsigned byte)
{
    const struct mt_page_part part = mt_page_part_at(p, byte);
    return part.entry[(byte - part.first) >> part.shift];
}

/* Returns the page with this number (address >> 12), or NULL if nothing was written there. */
static inline struct mt_page *mt_shadow_find(struct mt_shadow *s, uint64_t number)
{
    unsigned i = number & 1023;
    if (__builtin_expect(s->recent[i].number == number, 1))
        return s->recent[i].page;
    return mt_shadow_find_slow(s, number);
}

/* Returns the page with this number in word or byte form, created if necessary; NULL without memory. */
static inline struct mt_page *mt_shadow_make(struct mt_shadow *s, uint64_t number)
{
    struct mt_page *p = mt_shadow_find(s, number);
    if (__builtin_expect(p != NULL && p->mask != 0, 1))
        return p;
    return mt_shadow_make_slow(s, number);
}

/* Records that `entry` wrote the bytes [address, address + length) in an access that began at `start`. Entry
 * 0 forgets the writer. */
void mt_shadow_fill(struct mt_shadow *s, uint64_t address, uint64_t length, uint32_t entry, uint64_t start);

/* Records a write of `height` rows of `width` bytes, at a distance of `pitch`. */
void mt_shadow_fill_rows(struct mt_shadow *s, const struct mt_comb *rows);

/* Consecutive bytes with one writer. */
struct mt_stretch {
    uint32_t entry, length;
    uint64_t start;
};

/* Splits [address, address + length), inside one page, into stretches, without MT_ENTRY_READ. Returns their
 * number, at most one per byte. */
size_t mt_shadow_stretches(struct mt_shadow *s, uint64_t address, unsigned length, struct mt_stretch *out);

/* Shadows that divide memory, for copies of any size: pages are valid in their owners; all have all spans and
 * combs. */
struct mt_shadow_parts {
    struct mt_shadow *const *part;
    unsigned n;
    unsigned (*owner)(uint64_t address,
                      unsigned n); /* owner of a region of `region` bytes; not called if n is 1 */
    uint64_t region;
};

struct mt_rows {
    uint64_t dst, src, width, height, dpitch, spitch;
};

/* Copies the writers of rows. Returns 0; -1 if a part failed; -2 if the source was itself filled in rows and
 * there are too many to follow. */
int mt_shadow_move(const struct mt_shadow_parts *p, const struct mt_rows *rows, uint32_t nobody);

#endif
