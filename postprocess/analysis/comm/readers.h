/* Who reads each byte of whom, launch by launch, each pair once however often it reads: what is needed to
 * count bytes that differ when it is known later which CTAs are together. A byte is in a set: the pairs
 * (writer, reader) that have met at it in this launch, in their order. Sets are a tree: each is one pair more
 * than the set before it. Bytes with the same history share a set, so there are few as a rule. Of more than
 * there may be, or without memory, nothing is known (`lost`) and no memory held. Knows no analysis.
 * Not thread-safe. */
#ifndef MT_ANALYSIS_READERS_H
#define MT_ANALYSIS_READERS_H
#include <stddef.h>
#include <stdint.h>

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
#endif
