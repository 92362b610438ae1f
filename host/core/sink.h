/* Where records go: buffers of entries into a container (by a worker when the engine has one), or pieces of
 * text. What reaches the sink of one thread reaches the file in that order. */
#ifndef MT_HOST_SINK_H
#define MT_HOST_SINK_H
#include "base/json.h"
#include "base/line.h"
#include "memtrace/container.h"

#define MT_BUFFER_BYTES (512u << 10)

/* COUNTED: entries whose times are implied (mt_mtc_encode_counted). */
enum mt_buffer_kind { MT_BUFFER_ENTRIES, MT_BUFFER_TIMED, MT_BUFFER_COUNTED, MT_BUFFER_META };

/* One allocation of MT_BUFFER_BYTES. */
struct mt_buffer {
    struct mt_buffer *next;
    enum mt_buffer_kind kind;
    uint64_t thread;   /* number; UINT64_MAX: of no thread */
    uint64_t seq;      /* in force at its first entry */
    uint64_t count;    /* entries, or bytes of text */
    uint64_t left_out; /* accesses that entries stand for (MT_MTC_REPEAT) */
    union {
        struct mt_host_entry entry[1];
        struct mt_host_timed_entry timed[1];
        char text[1];
    };
};
#define MT_BUFFER_ROOM (MT_BUFFER_BYTES - offsetof(struct mt_buffer, entry))
#define MT_BUFFER_ENTRIES_MAX (MT_BUFFER_ROOM / sizeof(struct mt_host_entry))
#define MT_BUFFER_TIMED_MAX (MT_BUFFER_ROOM / sizeof(struct mt_host_timed_entry))

/* Opens the output of the options. 0, or -1 with *why. */
int mt_core_sink_open(char *why, unsigned size);
/* Writes all that waits, the end line (container), and closes. */
void mt_core_sink_close(int killed);
void mt_core_sink_forked(void);
int mt_core_sink_is_fifo(void);

/* An empty buffer; waits for the worker when too many are under way. NULL without memory. */
struct mt_buffer *mt_core_sink_buffer(enum mt_buffer_kind kind, uint64_t thread, uint64_t seq);
/* Container: takes the buffer. Waits for nobody but the file. */
void mt_core_sink_put(struct mt_buffer *b);
/* Gives a buffer back without writing it. */
void mt_core_sink_return(struct mt_buffer *b);

/* Meta lines: begin takes the lock and returns the object to fill (NULL: no container; then no end). */
void mt_core_sink_line(enum mt_line_kind kind, const void *line);
/* The same in two steps, with a lock between them: 1, or 0: there is nothing to write to. */
int mt_core_sink_line_begin(void);
void mt_core_sink_line_end(enum mt_line_kind kind, const void *line);

/* Text: whole lines. The file lock may be taken around several calls to keep them together. */
void mt_core_sink_text(const char *text, size_t bytes);
void mt_core_sink_text_lock(void);
void mt_core_sink_text_locked(const char *text, size_t bytes);
void mt_core_sink_text_unlock(void);
/* 1 while somebody writes to the file: waiting may then take long without anything being wrong. */
int mt_core_sink_writing(void);
/* 1 if one of the sink's locks is not free for `ns` although nobody writes. */
int mt_core_sink_stuck(uint64_t ns);
/* texts.c. Lines for the source files of all sites. Before the end line. */
void mt_core_texts(void);
/* A line for each site that copied what its destination held already. */
void mt_core_copies(void);
#endif
