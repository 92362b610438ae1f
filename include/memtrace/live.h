/* What MEMTRACE_SINK=extract sends to `mt-extract --live`: frames, until an MT_LIVE_DONE; without it the
 * program was killed. Between processes of one build on one machine: no stable format. */
#ifndef MEMTRACE_LIVE_H
#define MEMTRACE_LIVE_H
#include <stdint.h>

enum mt_live_kind {
    MT_LIVE_STREAM =
        1,          /* a new stream, numbered from 0 in this order; payload: the path its trace would have */
    MT_LIVE_LINES,  /* whole lines of the stream's companion. What stands in every companion is in that of
                       stream 0, in the order of sequence numbers, launches apart */
    MT_LIVE_LAUNCH, /* a launch begins: `seq`; payload: its line, as far as it is known. All lines of what has
                       a lower number, launches apart, have been sent */
    MT_LIVE_RECORDS, /* of this launch, as in a raw trace */
    MT_LIVE_END,     /* the launch has ended; its line comes later */
    MT_LIVE_DONE,    /* nothing is missing that the lines do not tell */
};

struct mt_live_frame {
    uint32_t kind, stream;
    uint64_t bytes; /* of the payload, which follows */
    uint64_t seq;
};
#endif
