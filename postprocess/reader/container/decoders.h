/* Device chunks decoded ahead of their reader, by several threads, and handed out in order.
 *
 * A reader puts chunks into its queue as they are in the file; whoever is free in the pool unpacks and
 * decodes them, a block of runs at a time; the reader takes the blocks of the chunk at the head, and decodes
 * itself while it would wait. Memory: each chunk of a queue has at most MT_BLOCKS_AHEAD blocks that nobody
 * has taken, a queue as many chunks as there are threads.
 *
 * What a chunk is and where it is, is the reader's business; damage of a payload comes out where the runs
 * would have. */
#ifndef MT_LIB_DECODERS_H
#define MT_LIB_DECODERS_H
#include "container.h"
#include "reader/base/pool.h"

/* A block ends after a step with lists of addresses in it. */
enum { MT_BLOCK_STEP = 1024, MT_BLOCK_RUNS = 8 * MT_BLOCK_STEP, MT_BLOCKS_AHEAD = 8 };

/* Runs of one chunk. Whoever has one gives it back with mt_block_put, from any thread. */
struct mt_run_block {
    struct mt_run_block *next;
    struct mt_chunk_queue *of;
    size_t count;
    uint64_t accesses;
    int last; /* of its chunk, which is good to its end */
    struct mt_access_run runs[MT_BLOCK_RUNS];
    uint64_t lanes[MT_BLOCK_STEP * MT_MTC_MAX_LANES]; /* addresses that the runs point to */
};

struct mt_chunk_job {
    /* the reader's, set before the job is in the queue */
    struct mt_mtc_chunk head;
    uint64_t offset, bytes; /* bytes: what reading it means for progress */
    const char *name;       /* of the file, for messages */
    uint64_t features;      /* as in its decoder */
    int problem;            /* there is no chunk, but `error` */
    unsigned char *stored;  /* its payload; room for `room` bytes */
    size_t room;
    struct mt_error error;
    /* the decoders' */
    struct mt_chunk_payload plain;
    struct mt_device_decoder decoder;
    struct mt_run_block *first, *end; /* decoded and not taken */
    unsigned blocks;                  /* how many */
    int claimed;                      /* a thread works at it */
    int opened, over;                 /* its head is good; nothing more will come */
    int failed;                       /* with `error`, after the blocks */
};

struct mt_chunk_queue {
    struct mt_pool *pool;
    struct mt_work work;
    int spaces; /* what is decoded from now on has runs of all memory, not of global memory alone; atomic */
    struct mt_run_block *spare;
    struct mt_chunk_job *jobs; /* a ring */
    size_t room, head, tail;   /* head: jobs dropped so far, tail: jobs added */
};

/* NULL is fine. */
void mt_block_put(struct mt_run_block *b);
#endif
