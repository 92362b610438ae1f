/* Compression and checksums of chunks. With MT_CONTAINER_STORED there is no zstd. */
#ifndef MT_CONTAINER_PACK_H
#define MT_CONTAINER_PACK_H
#include "memtrace/container.h"

/* Chunk on its way into the file, with its buffer and compression context. One user at a time. */
struct mt_packer {
    struct mt_packer *next;   /* next in the writer's list of idle packers */
    struct mt_mtc_chunk head; /* chunk head, as in the buffer */
    size_t bytes;             /* size of the whole chunk */
    unsigned char *buffer;    /* chunk head, payload, padding */
    size_t room;
    void *context; /* compression context (ZSTD_CCtx) */
};

struct mt_packer *mt_packer_new(void); /* returns NULL without memory */
void mt_packer_free(struct mt_packer *p);
/* Builds the whole chunk in p->buffer. Sets codec, stored_bytes, plain_bytes and check of p->head; the caller
 * sets the rest. A payload that compression would not shrink is stored. Returns 0, or -1 without memory. */
int mt_pack(struct mt_packer *p, int level, const void *plain, size_t bytes);

/* Writes the 128-bit XXH3 hash, high half first. */
void mt_pack_digest(const void *text, size_t bytes, uint64_t digest[2]);
/* Set the checksums of a file head or tail. */
void mt_pack_head(struct mt_mtc_head *head);
void mt_pack_tail(struct mt_mtc_tail *tail);
#endif
