/* Accesses of threads, as the CPU device ran them one after the other, put together to accesses of warps:
 * what compact traces hold. The k-th access of each lane belongs together where lanes did the same; where
 * they took different ways, lanes that are further back go first, as a warp waits for them before it goes on
 * together. Each thread's own order is kept, and no access is lost or made.
 *
 * An entry says where in the kernel's run its access is: two lanes' accesses of one site are one access
 * of the warp when their places are the same, whatever the lanes did before. The places of code that comes
 * later, and of later iterations, are greater (llvm-pass/lower/places.c), so those further back are those
 * at the lowest place.
 *
 * One worker's; knows nothing of launches and files. */
#ifndef MT_CPU_WARPS_H
#define MT_CPU_WARPS_H
#include <stddef.h>
#include <stdint.h>
#include "format/image.h"
#include "memtrace/device.h"

/* An entry of a worker's buffer in compact mode, three words: site of the image << 32 | type << 28 | size;
 * address; place << MT_ENTRY_PLACE_AT | number of the thread in its CTA. Or a mark: from here on it is this
 * CTA's threads. */
#define MT_ENTRY_WORDS 3u
#define MT_ENTRY_PLACE_AT 10
#define MT_ENTRY_MARK UINT64_MAX /* third word of a mark; first word: SM id, second: CTA as in a record */

/* Or a word on the lanes of a warp: in order they come one after the other, ascending, between two places
 * where all of them meet. Those of which some wait for some do not: what they do is gathered, and put
 * together when no lane can be at it any more. Third word of an entry that says so; first word: the lanes
 * that may bring more (0: from here on they come in order), and MT_ENTRY_CUT; second word: the warp, or
 * MT_ENTRY_ALL: each warp of the CTA is cut. */
#define MT_ENTRY_LANES (UINT64_MAX - 1)
#define MT_ENTRY_CUT (1ull << 32) /* what was before comes before what is later, in whatever lanes */
/* Lanes give way to others while they poll: what one does after another thread's write to the same memory
 * comes after that, wherever the two are in the code. */
#define MT_ENTRY_POLLS (1ull << 33)
#define MT_ENTRY_ALL UINT64_MAX

#define MT_WARPS_RUNS 512u           /* handed on at a time, at most */
#define MT_WARPS_ACCESSES (1u << 14) /* the accesses in them, at most */

/* `accesses`: of threads, in these runs. Runs and addresses are the caller's again when it returns. */
typedef void (*mt_warps_take)(void *ctx, const struct mt_access_run *runs, size_t count, uint64_t accesses);

struct mt_warps;
struct mt_warps *mt_warps_new(void); /* NULL: no memory */
void mt_warps_free(struct mt_warps *w);
/* Where runs go from here on, and what to add to their sites. */
void mt_warps_open(struct mt_warps *w, uint32_t site_base, mt_warps_take take, void *ctx);
/* Works through `count` entries and returns how many of them it is done with; the others, of the warp that
 * was last at work, are to be presented again with what comes after them. all: there will be nothing after
 * them, or (MT_WARPS_FULL) no room for it. *accesses: entries it is done with, marks left out. */
#define MT_WARPS_FULL 2
size_t mt_warps_put(struct mt_warps *w, const uint64_t *entries, size_t count, int all, uint64_t *accesses);
/* Hands on all runs that are still here. */
void mt_warps_flush(struct mt_warps *w);
/* How often since it was asked last lanes had to be put together that others may still have come to. */
uint64_t mt_warps_parted(struct mt_warps *w);
#endif
