/* Payload of a device chunk -> runs: docs/trace-format.md, "Device chunk". Knows no files. */
#ifndef MT_LIB_DEVICE_DECODE_H
#define MT_LIB_DEVICE_DECODE_H
#include <stddef.h>
#include "memtrace/container.h"
#include "memtrace/device.h"

struct mt_device_cursor { /* a column */
    const unsigned char *at, *end;
};

struct mt_device_decoder {
    const unsigned char *payload;
    struct mt_device_cursor tokens, contexts, shapes, bases, lanes;
    struct mt_device_context *context; /* warps */
    struct mt_device_slot *slot;       /* accesses of the code; [0]: before the first run */
    size_t context_room, slot_room;
    uint32_t ncontexts, nslots, before, epoch;
    uint64_t accesses; /* so far, of all memory */
    uint64_t features; /* of the file: there are more types than a raw trace has */
    int spaces;        /* runs of shared and local memory and of barriers are handed out, too */
    struct mt_device_own *own;
    const char *why; /* after -1; NULL: no memory */
};

/* `payload` must stay until the last run was taken. 0, or -1 with d->why. A zeroed decoder is a new one; it
 * can be started again and again. */
int mt_device_decode_start(struct mt_device_decoder *d, const void *payload, size_t bytes);
/* The next runs, at most `capacity`; the addresses of their lanes go to `lanes`, which has room for capacity
 * * MT_MTC_MAX_LANES. *count > 0: runs; 0 at the end. 0, or -1 with d->why: the payload is damaged; *count
 * runs before the damage are good. */
int mt_device_decode_next(struct mt_device_decoder *d, struct mt_access_run *runs, uint64_t *lanes,
                          size_t capacity, size_t *count);
/* All columns are used up. */
int mt_device_decode_done(const struct mt_device_decoder *d);
void mt_device_decode_free(struct mt_device_decoder *d);
#endif
