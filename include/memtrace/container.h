/* Layout of the compact container (.mtc): see container.def and docs/trace-format.md. Needs nothing else. */
#ifndef MEMTRACE_CONTAINER_H
#define MEMTRACE_CONTAINER_H
#include <stddef.h>
#include <stdint.h>

#define MT_MTC_VERSION 1
#define MT_MTC_MAGIC 0x0a1a0a0d43544d89ull      /* bytes 89 'M' 'T' 'C' 0d 0a 1a 0a */
#define MT_MTC_CHUNK_MAGIC 0x4b43544du          /* "MTCK" */
#define MT_MTC_TAIL_MAGIC 0x0a0d444e4543544dull /* "MTCEND\r\n" */

/* A payload has at most so many bytes when decoded; readers refuse more. */
#define MT_MTC_MAX_PLAIN ((uint64_t)1 << 26)
/* And a host chunk at most so many accesses and events: what a reader needs for one is bounded. */
#define MT_MTC_MAX_ITEMS ((uint64_t)1 << 20)

/* mt_mtc_head.features. Bits 0..31: a reader that does not know one cannot read the file. */
#define MT_MTC_HAS_HOST 1u  /* host chunks */
#define MT_MTC_HAS_TIMES 2u /* host records carry times: Lamport timestamps, or order of execution */

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
                   sizeof(struct mt_host_entry) == 16 && sizeof(struct mt_host_timed_entry) == 24,
               "sizes of the container");
#endif
#undef MT_MTC_SAME
#endif
