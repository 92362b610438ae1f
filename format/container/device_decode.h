/* Decodes the payload of a device chunk to runs: docs/trace-format.md, "Device chunk". Uses no files. */
#ifndef MT_LIB_DEVICE_DECODE_H
#define MT_LIB_DEVICE_DECODE_H
#include <stddef.h>
#include "memtrace/container.h"
#include "memtrace/device.h"

struct mt_device_cursor { /* position in a column */
    const unsigned char *at, *end;
};

struct mt_device_decoder {
    const unsigned char *payload;
    struct mt_device_cursor tokens, contexts, shapes, bases, lanes;
    struct mt_device_context *context; /* array of contexts (warps) */
    struct mt_device_slot *slot;       /* slots (accesses of the code); [0] is "before the first run" */
    size_t context_room, slot_room;
    uint32_t ncontexts, nslots, before, epoch;
    struct mt_device_region *region; /* regions of blocks */
    size_t region_room;
    uint32_t nregions, block, newest; /* block: region of the last block, MT_MTC_MAX_REGIONS: none yet;
                                       * newest: the last site of the newest region */
    uint64_t block_cta;               /* of the last block */
    uint32_t block_smid, block_warp;
    uint32_t at_warp, at_access; /* the last block's next run, if `left` is not 0 */
    uint64_t at_lap, left;       /* left: number of its runs to come */
    uint64_t repeats;            /* blocks to come that do the same in the next CTA, */
    uint32_t sms;                /* on the next SM, from 0 again after so many */
    uint64_t accesses;           /* accesses decoded so far, of all spaces */
    uint64_t features;           /* features of the file; some add types that a raw trace does not have */
    int spaces;                  /* 1: runs of shared and local memory and of barriers are included */
    struct mt_device_own *own;
    const char *why; /* error after -1; NULL: no memory */
};

/* Starts decoding; `payload` must stay valid until the last run was taken. Returns 0, or -1 with d->why set.
 * A decoder is zeroed before its first use and can be started any number of times. */
int mt_device_decode_start(struct mt_device_decoder *d, const void *payload, size_t bytes);
/* Decodes the next runs, at most `capacity`; addresses of lanes go to `lanes`, which has room for capacity *
 * MT_MTC_MAX_LANES. *count is 0 at the end. Returns 0, or -1 with d->why set if the payload is damaged; the
 * *count runs before the damage are valid. */
int mt_device_decode_next(struct mt_device_decoder *d, struct mt_access_run *runs, uint64_t *lanes,
                          size_t capacity, size_t *count);
/* Returns 1 if there are more runs, unless the payload is damaged. */
int mt_device_decode_more(const struct mt_device_decoder *d);
/* Returns 1 if all columns are used up. */
int mt_device_decode_done(const struct mt_device_decoder *d);
void mt_device_decode_free(struct mt_device_decoder *d);
#endif
