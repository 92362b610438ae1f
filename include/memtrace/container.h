/* Layout of a compact trace (.mtc). Fields: container.def; specification: docs/trace-format.md. Depends on no
 * other header of memtrace. */
#ifndef MEMTRACE_CONTAINER_H
#define MEMTRACE_CONTAINER_H
#include <stddef.h>
#include <stdint.h>

#define MT_MTC_VERSION 1
#define MT_MTC_MINOR                                                                                         \
    5 /* 1: device chunks, flags in the index; 2: ..._SPACES; 3: ..._COPIES; 4: ..._FENCES; 5: ..._BLOCKS */
#define MT_MTC_MAGIC 0x0a1a0a0d43544d89ull      /* bytes 89 'M' 'T' 'C' 0d 0a 1a 0a */
#define MT_MTC_CHUNK_MAGIC 0x4b43544du          /* "MTCK" */
#define MT_MTC_TAIL_MAGIC 0x0a0d444e4543544dull /* "MTCEND\r\n" */

/* Maximum size of a decoded payload, in bytes; readers refuse more. */
#define MT_MTC_MAX_PLAIN ((uint64_t)1 << 26)
/* Maximum compression ratio of a meta chunk; a writer stores a chunk that would exceed it. So the lines of a
 * file have at most this many times its bytes. A reader accepts MT_MTC_FREE_LINES bytes in any case. */
#define MT_MTC_META_RATIO 256
#define MT_MTC_FREE_LINES ((uint64_t)1 << 22)
/* Maximum number of accesses and events in a host chunk; bounds the memory that a reader needs for one. */
#define MT_MTC_MAX_ITEMS ((uint64_t)1 << 20)
/* Maximum numbers of runs and of accesses in a device chunk. */
#define MT_MTC_MAX_RUNS ((uint64_t)1 << 20)
#define MT_MTC_MAX_ACCESSES ((uint64_t)1 << 30)
/* Maximum numbers of regions of a device chunk, and of accesses of a region. */
#define MT_MTC_MAX_REGIONS 4096u
#define MT_MTC_REGION_ACCESSES 32u

/* Bits of mt_mtc_head.features. Bits 0..31: a reader that does not know a bit cannot read the file. */
#define MT_MTC_HAS_HOST 1u    /* the file has host chunks */
#define MT_MTC_HAS_TIMES 2u   /* host records carry times: Lamport timestamps, or order of execution */
#define MT_MTC_HAS_DEVICE 4u  /* the file has device chunks */
#define MT_MTC_HAS_SPACES 8u  /* device chunks have accesses to memory other than global */
#define MT_MTC_HAS_COPIES 16u /* asynchronous copies have records of type MT_SYNC_COPY */
#define MT_MTC_HAS_FENCES 32u /* fences have records: MT_BARRIER_FENCE */
#define MT_MTC_HAS_BLOCKS 64u /* device chunks have blocks: MT_RUN_BLOCK */

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

/* Device chunks: mt_mtc_chunk.key holds the stream (N of its companion file) and the kernel (id of a `kernel`
 * line); first and last hold the sequence number of the launch. */
#define MT_MTC_DEVICE_KEY(stream, kernel) ((uint64_t)(stream) << 32 | (uint32_t)(kernel))
#define MT_MTC_KEY_STREAM(key) ((uint32_t)((key) >> 32))
#define MT_MTC_KEY_KERNEL(key) ((uint32_t)(key))
/* Bits of mt_mtc_chunk.flags and mt_mtc_index.flags. */
enum mt_mtc_device_flags {
    MT_MTC_BEGIN = 1,  /* first chunk of its launch */
    MT_MTC_END = 2,    /* last chunk of its launch */
    MT_MTC_SINGLE = 4, /* each run is the access of one thread: not grouped into requests of warps */
};

/* Head of the payload of a device chunk; the columns follow in the order of these fields. */
struct mt_mtc_columns {
    uint32_t runs;     /* number of runs and blocks; the token column has one byte for each */
    uint32_t contexts; /* bytes of the column with numbers of contexts and slots, and new contexts */
    uint32_t shapes;   /* bytes of the column with new slots, masks, strides */
    uint32_t bases;    /* bytes of the column with addresses */
    uint32_t lanes;    /* bytes of the column with addresses of the lanes of gathers */
    uint32_t reserved; /* 0 */
};
/* Fields of a token, two bits each. */
enum mt_mtc_run_token {
    MT_RUN_CONTEXT = 0x03, /* 0 as before, 1 its latest successor, 2 by number, 3 new */
    MT_RUN_SLOT = 0x0c,    /* 0 latest successor, 1 second one, 2 by number, 3 new */
    MT_RUN_BASE = 0x30,    /* 0 slot's stride, 1 context's last + offset, 2 own stride, 3 difference;
                            * gathers: 0 same anchor, 1 new one */
    MT_RUN_SHAPE = 0xc0,   /* 0 the slot's, 1 its other one, 2 new and regular, 3 gather */
};
/* A token of a block, with the first two of these bits or the third alone; the fourth is 0. */
enum mt_mtc_block_token {
    MT_RUN_BLOCK = 0xe0,
    MT_BLOCK_OTHER = 1,   /* of another region than the block before */
    MT_BLOCK_BASES = 2,   /* differences from the expected bases follow */
    MT_BLOCK_REPEATS = 4, /* further blocks, each in the next CTA */
};
/* Flags of a block; bits 0 and 1 as of a new context. */
enum mt_mtc_block_flags {
    MT_BLOCK_CTA = 3,
    MT_BLOCK_WARP = 4,
    MT_BLOCK_SM = 8,
    MT_BLOCK_WARPS = 16,  /* number of warps, */
    MT_BLOCK_LAPS = 32,   /* number of laps, */
    MT_BLOCK_APART = 64,  /* distances between warps, */
    MT_BLOCK_STEPS = 128, /* and between laps follow */
};
/* Size of the table of addresses of slot s in context c, and the place of one in it. */
#define MT_MTC_OWN_PLACES 16384u
#define MT_MTC_OWN_PLACE(c, s) (((uint32_t)(c) * 0x9e3779b1u + (uint32_t)(s) * 0x85ebca6bu) >> 18)
#define MT_MTC_MAX_LANES 32u /* maximum number of lanes of a gather */

/* A site is one operand of one instruction (or of one access in source): site = instruction * 4 + operand.
 * Operands after the first belong to the same execution as the record before them. Site 0..3 do not exist. */
#define MT_HOST_OPERAND(site) ((site) & 3u)

/* Entry of one thread's buffer, in the thread's order: an access or an event. An event is an entry with site
 * 0, its kind in `size` and its first argument in `address`, followed by one entry with site 0 and size 0 for
 * each further argument. In an access `size` 0 means the size of its site. */
struct mt_host_entry {
    uint64_t address;
    uint32_t site, size;
};
/* Entry with a time. Entries of arguments repeat the time of their event. */
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
