/* What MEMTRACE_SINK=extract sends to `mt-extract --live`: frames, until an MT_LIVE_DONE; without it the
 * program was killed. Between processes of one build on one machine: no stable format.
 *
 * mt-extract says first, with one byte, what it wants: MT_LIVE_WANTS_RUNS, launches as they are, or
 * MT_LIVE_WANTS_TRACES, each stream's container when it is whole.
 * When its result is written it says MT_LIVE_WRITTEN. */
#ifndef MEMTRACE_LIVE_H
#define MEMTRACE_LIVE_H
#include <stdint.h>

#define MT_LIVE_WANTS_RUNS 'r'
#define MT_LIVE_WANTS_TRACES 't'
#define MT_LIVE_WRITTEN 'w'

enum mt_live_kind {
    MT_LIVE_STREAM =
        1,          /* a new stream, numbered from 0 in this order; payload: the path its trace would have */
    MT_LIVE_LINES,  /* whole lines of the stream's companion. What is in every companion is in that of
                       stream 0, in the order of sequence numbers, launches apart */
    MT_LIVE_LAUNCH, /* a launch begins: `seq`; payload: its line, as far as it is known. All lines of what has
                       a lower number, launches apart, have been sent */
    MT_LIVE_RUNS,   /* of this launch: struct mt_live_run, each with its addresses after it */
    MT_LIVE_END,    /* the launch has ended; its line comes later */
    MT_LIVE_DONE,   /* nothing is missing that the lines do not name */
    MT_LIVE_TRACE,  /* a whole container, as a descriptor beside the frame; payload: the path it would have;
                       stream: its number among all */
};

struct mt_live_frame {
    uint32_t kind, stream;
    uint64_t bytes; /* of the payload, which follows */
    uint64_t seq;
};

/* struct mt_access_run (memtrace/device.h). */
struct mt_live_run {
    uint64_t base;
    int64_t stride;
    uint64_t cta;
    uint32_t smid, meta, count, mask, warp, site;
    uint32_t addresses; /* of 64 bits, that follow: count or 0 */
    uint32_t pad;
};
#endif
