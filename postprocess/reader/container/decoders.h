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

/* A queue with chunks for so many of the threads; with one, there is no other chunk than the head. 0, or -1
 * without memory. */
int mt_queue_open(struct mt_chunk_queue *q, struct mt_pool *pool, unsigned threads);
void mt_queue_close(struct mt_chunk_queue *q);
/* The job that would be added next, to be filled; NULL: the queue is full. */
struct mt_chunk_job *mt_queue_slot(struct mt_chunk_queue *q);
/* Adds it. */
void mt_queue_add(struct mt_chunk_queue *q);
/* The payload is kept for the job. 0, or -1 without memory. */
int mt_job_keep(struct mt_chunk_job *j, const unsigned char *stored);
/* The job at the head, or NULL. */
struct mt_chunk_job *mt_queue_head(const struct mt_chunk_queue *q);
/* Waits until the job at the head, a device chunk, is known to have a good head: 0, or -1 with *err. */
int mt_queue_begin(struct mt_chunk_queue *q, struct mt_error *err);
/* Its next block; NULL with *err: it is damaged from here on. Not after its last block. */
struct mt_run_block *mt_queue_take(struct mt_chunk_queue *q, struct mt_error *err);
/* The job at the head is done with, and all of them. Blocks that were taken stay. */
void mt_queue_drop(struct mt_chunk_queue *q);
void mt_queue_clear(struct mt_chunk_queue *q);
/* NULL is fine. */
void mt_block_put(struct mt_run_block *b);
#endif
