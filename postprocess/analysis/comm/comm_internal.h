/* Shared by the files of the communication analysis. */
#ifndef MT_ANALYSIS_COMM_INTERNAL_H
#define MT_ANALYSIS_COMM_INTERNAL_H
#include "comm.h"
#include "shadow.h"
#include "memtrace/hash.h"

int mt_comm_fail(struct mt_comm *c, const char *why); /* -1 */
/* Room for element n of an array, as mt_grow. */
int mt_comm_reserve(struct mt_comm *c, void *array, size_t n, size_t *room, size_t size);
/* The actor of this CTA on this SM in the launch under way, made if need be; 0 on failure. */
uint32_t mt_comm_actor(struct mt_comm *c, uint64_t cta, uint32_t smid);
/* Index into c->transfers, made if need be; SIZE_MAX on failure. */
size_t mt_comm_transfer(struct mt_comm *c, uint32_t src, uint32_t dst);
/* Shards own memory by regions of this many bytes (a power of two), in no order that a program could have. */
enum { MT_REGION_BITS = 16 };
static inline unsigned mt_comm_owner(uint64_t address, unsigned shards)
{
    uint64_t hash = mt_hash_number(address >> MT_REGION_BITS) >> 32;
    return (unsigned)(hash * shards >> 32);
}
static inline int mt_comm_owns(const struct mt_comm *c, uint64_t address)
{
    return mt_comm_owner(address, c->shards) == c->shard;
}
/* comm_shard.c. An access with parts in several shards took bytes of src (record: its number). */
void mt_comm_cross(struct mt_comm *c, uint64_t record, uint32_t src, uint32_t dst);
/* mt_shadow_fill of what this shard owns. */
void mt_comm_fill(struct mt_comm *c, uint64_t address, uint64_t length, uint32_t entry, uint64_t start);
/* The rows that the copy writes to become `entry`'s, as far as they are this shard's. */
void mt_comm_fill_rows(struct mt_comm *c, const struct mt_copy_event *e, uint32_t entry);
/* comm_host.c */
/* The entry of bytes of which a copy knows no writer. 0, or -1. */
int mt_comm_nobody(struct mt_comm *c, const struct mt_copy_event *e, uint32_t *nobody);
int mt_comm_host_init(struct mt_comm *c);
void mt_comm_host_free(struct mt_comm *c);
#endif
