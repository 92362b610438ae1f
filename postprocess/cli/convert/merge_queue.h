/* Streaming merge of lines from many threads, by (time, thread, order of arrival): what convert --order=time
 * does, without knowing about files. A line goes out once no live thread can come with one that belongs
 * before it; a thread's times never go back. Not thread-safe. */
#ifndef MT_CLI_MERGE_QUEUE_H
#define MT_CLI_MERGE_QUEUE_H
#include "memtrace/hash.h"

/* Input as it was read. Lines stay where they are until they go out; a block is free when none is left. */
struct mt_merge_block {
    struct mt_merge_block *next; /* among free ones */
    size_t size;
    size_t lines; /* waiting in this block; the reader holds one more while it reads into it */
    char data[];
};

struct mt_merge_line {
    uint64_t time;
    struct mt_merge_block *block;
    uint32_t at, bytes; /* of the text that goes out, without LF */
};

struct mt_merge_thread;
struct mt_merge_heap {
    struct mt_merge_thread **item;
    size_t count, room, which;
};

struct mt_merge {
    struct mt_hash threads;      /* struct mt_merge_thread by number */
    struct mt_merge_heap first;  /* threads with waiting lines, by their first one */
    struct mt_merge_heap newest; /* live threads, by the newest time they have shown */
    struct mt_merge_block *spare;
    size_t nspare;
    uint64_t out_time; /* of the line that went out last */
    int64_t out_thread;
    int out_any;
    uint64_t begun;                                           /* tr minus tf, of all threads */
    int (*write)(void *self, const char *text, size_t bytes); /* a line without LF; 0, or -1 to stop */
    void *self;
};

enum mt_merge_kind { MT_MERGE_LINE, MT_MERGE_BEGIN /* tr */, MT_MERGE_END /* tf */, MT_MERGE_SYNC };
enum { MT_MERGE_OK = 0, MT_MERGE_LATE = 1 /* taken, but lines that belong after it are out already */ };

void mt_merge_init(struct mt_merge *m);
void mt_merge_free(struct mt_merge *m);
/* A block of at least `size` bytes of data, with lines = 1. NULL without memory. */
struct mt_merge_block *mt_merge_block_new(struct mt_merge *m, size_t size);
/* One line less in the block. */
void mt_merge_block_drop(struct mt_merge *m, struct mt_merge_block *b);
/* Takes a line of `thread` (-1: of none) and writes what may go out now. MT_MERGE_OK, MT_MERGE_LATE; -1: no
 * memory; -2: write said so. A SYNC is not a line: it only shows a time. */
int mt_merge_add(struct mt_merge *m, int64_t thread, enum mt_merge_kind kind,
                 const struct mt_merge_line *line);
/* No more lines come: the rest goes out. 0 or -2. */
int mt_merge_end(struct mt_merge *m);
#endif
