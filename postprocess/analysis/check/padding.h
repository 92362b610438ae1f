/* Which unwritten bytes lie between the members of a struct, or behind the last one: nobody is to write them,
 * and who copies a whole struct reads them.
 *
 * They follow what a kernel wrote, and end where something is aligned to more than their number. Where
 * kernels' stores to other structs begin a member there is none, and whole words are padding only where
 * something is known to be aligned so. */
#ifndef MT_ANALYSIS_CHECK_PADDING_H
#define MT_ANALYSIS_CHECK_PADDING_H
#include "analysis/base/pairmap.h"
#include "memtrace/device.h"
#include "memtrace/trace.h"
#include "written.h"

enum { MT_MEMBERS_STEP = 512, MT_MEMBERS_ALIGNED = 16 };

/* What kernels' stores tell of the structs in a block. Zero-initialised: nothing. */
struct mt_members {
    uint64_t step; /* bytes from lane to lane, of all stores: a struct's size, or its divisor; 0: not known */
    uint64_t begins[MT_MEMBERS_STEP / 64]; /* where in a step stores begin, if it is not larger than this */
    uint32_t widest;                       /* bytes of a store */
    int host;                              /* copies and fills, which may have been of any members */
};

/* A run of stores, `offset` bytes into the block. whole: they copy structs, and begin anywhere. */
void mt_members_store(struct mt_members *m, const struct mt_access_run *r, uint64_t offset, int whole);
/* What the host's, or (from != NULL) another block's bytes were is copied there. */
void mt_members_take(struct mt_members *m, const struct mt_members *from);
/* At least two members of a struct are known. */
int mt_members_several(const struct mt_members *m);

/* How many bytes from this unwritten one on are padding; 0: none. host: the bytes that the host wrote last,
 * or NULL. aligned: what else is known to be aligned in the block, 0: nothing. */
uint64_t mt_padding(const struct mt_written *written, const struct mt_written *host,
                    const struct mt_members *m, uint64_t at, uint32_t aligned);

/* The same of `n` unwritten bytes that an access of `size` bytes reads. A whole word is what was meant,
 * unless it is a part of a struct that is copied (whole). */
uint64_t mt_padding_read(const struct mt_written *written, const struct mt_written *host,
                         const struct mt_members *m, uint64_t at, uint64_t n, uint32_t size, int whole);

/* Sites (id, input) of structs that are copied in parts: a place has loads and stores of the same sizes. 0,
 * or -1 without memory. */
int mt_padding_copies(struct mt_pairmap *sites, const struct mt_source *s);
#endif
