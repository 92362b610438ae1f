/* What is between a payload and its chunk: compression and checksums. With MT_CONTAINER_STORED there is
 * no zstd. */
#ifndef MT_CONTAINER_PACK_H
#define MT_CONTAINER_PACK_H
#include "memtrace/container.h"

/* A chunk on its way into the file, with the room and the context for making it. One user at a time. */
struct mt_packer {
    struct mt_packer *next;   /* the writer's list of idle ones */
    struct mt_mtc_chunk head; /* as in the buffer */
    size_t bytes;             /* of the whole chunk */
    unsigned char *buffer;    /* chunk head, payload, padding */
    size_t room;
    void *context; /* ZSTD_CCtx */
};

struct mt_packer *mt_packer_new(void); /* NULL: no memory */
void mt_packer_free(struct mt_packer *p);
/* Builds the whole chunk in p->buffer: fills in codec, stored_bytes, plain_bytes and check of p->head, all
 * else is the caller's. A payload that does not get smaller is stored. 0, or -1 without memory. */
int mt_pack(struct mt_packer *p, int level, const void *plain, size_t bytes);

/* XXH3, 128 bits: the high half first. */
void mt_pack_digest(const void *text, size_t bytes, uint64_t digest[2]);
/* Fill in the checksums. */
void mt_pack_head(struct mt_mtc_head *head);
void mt_pack_tail(struct mt_mtc_tail *tail);
#endif
