/* Layout of the compact container (.mtc): see container.def and docs/trace-format.md. Needs nothing else. */
#ifndef MEMTRACE_CONTAINER_H
#define MEMTRACE_CONTAINER_H
#include <stddef.h>
#include <stdint.h>

#define MT_MTC_VERSION 1
#define MT_MTC_MINOR 3 /* 1: device chunks, flags in the index; 2: MT_MTC_HAS_SPACES; 3: …COPIES */
#define MT_MTC_MAGIC 0x0a1a0a0d43544d89ull      /* bytes 89 'M' 'T' 'C' 0d 0a 1a 0a */
#define MT_MTC_CHUNK_MAGIC 0x4b43544du          /* "MTCK" */
#define MT_MTC_TAIL_MAGIC 0x0a0d444e4543544dull /* "MTCEND\r\n" */

/* A payload has at most so many bytes when decoded; readers refuse more. */
#define MT_MTC_MAX_PLAIN ((uint64_t)1 << 26)
/* Meta chunks: a writer stores one that compression makes smaller by more than this; so the lines of a file
 * have at most so many times its bytes. A reader takes MT_MTC_FREE_LINES bytes in any case. */
#define MT_MTC_META_RATIO 256
#define MT_MTC_FREE_LINES ((uint64_t)1 << 22)
/* And a host chunk at most so many accesses and events: what a reader needs for one is bounded. */
#define MT_MTC_MAX_ITEMS ((uint64_t)1 << 20)
/* A device chunk has at most so many runs, and these so many accesses. */
#define MT_MTC_MAX_RUNS ((uint64_t)1 << 20)
#define MT_MTC_MAX_ACCESSES ((uint64_t)1 << 30)

/* mt_mtc_head.features. Bits 0..31: a reader that does not know one cannot read the file. */
#define MT_MTC_HAS_HOST 1u    /* host chunks */
#define MT_MTC_HAS_TIMES 2u   /* host records carry times: Lamport timestamps, or order of execution */
#define MT_MTC_HAS_DEVICE 4u  /* device chunks */
#define MT_MTC_HAS_SPACES 8u  /* in which not all accesses are to global memory */
#define MT_MTC_HAS_COPIES 16u /* and asynchronous copies have records of type MT_SYNC_COPY */

#define MT_MTC_FIELD(type, name, offset) type name;
struct mt_mtc_head {
#define MT_MTC_HEAD_FIELD MT_MTC_FIELD
#include "container.def"
};
struct mt_mtc_chunk {
#define MT_MTC_CHUNK_FIELD MT_MTC_FIELD
#include "container.def"
};
struct mt_mtc_index {
#define MT_MTC_INDEX_FIELD MT_MTC_FIELD
#include "container.def"
};
struct mt_mtc_tail {
#define MT_MTC_TAIL_FIELD MT_MTC_FIELD
#include "container.def"
};
#undef MT_MTC_FIELD

enum mt_mtc_chunk_type {
#define MT_MTC_CHUNK(name, code, text) MT_MTC_##name = code,
#include "container.def"
};
enum mt_mtc_codec {
#define MT_MTC_CODEC(name, code, text) MT_MTC_##name = code,
#include "container.def"
};
enum mt_host_op {
#define MT_HOST_OP(name, code, reads, writes, text) MT_HOST_##name = code,
#include "container.def"
};
enum mt_host_event {
#define MT_HOST_EVENT(name, code, args, text) MT_HOST_EV_##name = code,
#include "container.def"
};

/* Device chunks: mt_mtc_chunk.key says the stream (N of its companion) and the kernel (id of a `kernel`
 * line), first and last are the launch's sequence number. */
#define MT_MTC_DEVICE_KEY(stream, kernel) ((uint64_t)(stream) << 32 | (uint32_t)(kernel))
#define MT_MTC_KEY_STREAM(key) ((uint32_t)((key) >> 32))
#define MT_MTC_KEY_KERNEL(key) ((uint32_t)(key))
enum mt_mtc_device_flags {                   /* mt_mtc_chunk.flags, mt_mtc_index.flags */
                           MT_MTC_BEGIN = 1, /* the first chunk of its launch */
                           MT_MTC_END = 2,   /* the last one */
};

/* The payload of a device chunk begins with this; the columns follow in this order. */
struct mt_mtc_columns {
    uint32_t runs;     /* as many tokens, a byte each */
    uint32_t contexts; /* bytes: numbers of contexts and slots, new contexts */
    uint32_t shapes;   /* bytes: new slots, masks, strides */
    uint32_t bases;    /* bytes: addresses */
    uint32_t lanes;    /* bytes: addresses of the lanes of gathers */
    uint32_t reserved; /* 0 */
};
enum mt_mtc_run_token { /* two bits each */
                        MT_RUN_CONTEXT =
                            0x03, /* 0 as before, 1 the one that followed, 2 its number, 3 a new one */
                        MT_RUN_SLOT = 0x0c, /* 0 the successor, 1 the second one, 2 its number, 3 a new one */
                        MT_RUN_BASE = 0x30, /* 0 slot's stride, 1 context's last + offset, 2 own stride, 3 the
                                               difference; gathers: */
                                            /* 0 the anchor, 1 a new anchor */
                        MT_RUN_SHAPE =
                            0xc0, /* 0 the slot's, 1 its other one, 2 new and regular, 3 a gather */
};
/* Where the own address of slot s in context c is kept: a table with so many places. */
#define MT_MTC_OWN_PLACES 16384u
#define MT_MTC_OWN_PLACE(c, s) (((uint32_t)(c) * 0x9e3779b1u + (uint32_t)(s) * 0x85ebca6bu) >> 18)
#define MT_MTC_MAX_LANES 32u /* of a gather */

/* A site is one operand of one instruction (or of one access in source): site = instruction * 4 + operand.
 * Operands after the first belong to the same execution as the record before them. Site 0..3 do not exist. */
#define MT_HOST_OPERAND(site) ((site) & 3u)

/* What one thread's buffer holds, in its order: accesses and events. An event is an entry with site 0, its
 * kind in `size` and its first argument in `address`, followed by entries with site 0 and size 0, one for
 * each further argument. `size` 0 in an access means the size that its site says. */
struct mt_host_entry {
    uint64_t address;
    uint32_t site, size;
};
/* The same with the time of each entry; arguments repeat the time of their event. */
struct mt_host_timed_entry {
    uint64_t address, time;
    uint32_t site, size;
};

#define MT_MTC_SAME(type, name, where)                                                                       \
    _Static_assert(offsetof(MT_MTC_OF, name) == (where), "layout of the container");
#ifndef __cplusplus
#define MT_MTC_OF struct mt_mtc_head
#define MT_MTC_HEAD_FIELD MT_MTC_SAME
#include "container.def"
#undef MT_MTC_OF
#define MT_MTC_OF struct mt_mtc_chunk
#define MT_MTC_CHUNK_FIELD MT_MTC_SAME
#include "container.def"
#undef MT_MTC_OF
#define MT_MTC_OF struct mt_mtc_index
#define MT_MTC_INDEX_FIELD MT_MTC_SAME
#include "container.def"
#undef MT_MTC_OF
#define MT_MTC_OF struct mt_mtc_tail
#define MT_MTC_TAIL_FIELD MT_MTC_SAME
#include "container.def"
#undef MT_MTC_OF
_Static_assert(sizeof(struct mt_mtc_head) == 64 && sizeof(struct mt_mtc_chunk) == 64 &&
                   sizeof(struct mt_mtc_index) == 48 && sizeof(struct mt_mtc_tail) == 32 &&
                   sizeof(struct mt_mtc_columns) == 24 && sizeof(struct mt_host_entry) == 16 &&
                   sizeof(struct mt_host_timed_entry) == 24,
               "sizes of the container");
#endif
#undef MT_MTC_SAME
#endif
