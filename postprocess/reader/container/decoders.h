/* Decoding of device chunks ahead of their reader, by several threads, with results in order.
 *
 * A reader puts chunks into its queue in file order; idle threads of the pool unpack and decode them, a block
 * of runs at a time. The reader takes the blocks of the chunk at the head, and decodes itself instead of
 * waiting. Memory: at most MT_BLOCKS_AHEAD waiting blocks per chunk, and as many chunks in a queue as there
 * are threads.
 *
 * The reader finds the chunks; damage in a payload is returned where its runs would have been. */
#ifndef MT_LIB_DECODERS_H
#define MT_LIB_DECODERS_H
#include "container.h"
#include "reader/base/pool.h"

/* Sizes of a block, in runs. A block ends after a step that has lists of addresses. */
enum { MT_BLOCK_STEP = 1024, MT_BLOCK_RUNS = 8 * MT_BLOCK_STEP, MT_BLOCKS_AHEAD = 8 };

/* Runs of one chunk. The owner releases them with mt_block_put, from any thread. */
struct mt_run_block {
    struct mt_run_block *next;
    struct mt_chunk_queue *of;
    size_t count;
    uint64_t accesses;
    int last; /* 1: last block of a chunk that is intact */
    struct mt_access_run runs[MT_BLOCK_RUNS];
    uint64_t lanes[MT_BLOCK_STEP * MT_MTC_MAX_LANES]; /* addresses that the runs point to */
};

struct mt_chunk_job {
    /* fields of the reader, set before the job is in the queue */
    struct mt_mtc_chunk head;
    uint64_t offset, bytes; /* bytes: amount to add to the progress */
    const char *name;       /* file name, for messages */
    uint64_t features;      /* features of the compact trace */
    int problem;            /* 1: `error` instead of a chunk */
    unsigned char *stored;  /* stored payload; has room for `room` bytes */
    size_t room;
    struct mt_error error;
    /* fields of the decoders */
    struct mt_chunk_payload plain;
    struct mt_device_decoder decoder;
    struct mt_run_block *first, *end; /* decoded blocks that are not taken yet */
    unsigned blocks;                  /* number of blocks that are not taken yet */
    int claimed;                      /* 1: a thread is working on the job */
    int opened, over;                 /* opened: the head is intact; over: nothing more follows */
    int failed;                       /* 1: `error` follows the blocks */
};

struct mt_chunk_queue {
    struct mt_pool *pool;
    struct mt_work work;
    int spaces; /* 1: runs of all spaces are decoded from now on, not only of global memory; atomic */
    struct mt_run_block *spare;
    struct mt_chunk_job *jobs; /* ring buffer of jobs */
    size_t room, head, tail;   /* head: number of jobs removed, tail: number of jobs added */
};

/* Releases a block. NULL is allowed. */
void mt_block_put(struct mt_run_block *b);
#endif
