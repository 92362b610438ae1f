/* Destination of records: buffers of entries for a compact trace (written by a worker if the engine has
 * one), or pieces of text. Records of one thread keep their order in the file. */
#ifndef MT_HOST_SINK_H
#define MT_HOST_SINK_H

#include "base/json.h"
#include "memtrace/container.h"

#define MT_BUFFER_BYTES (512u << 10)

/* COUNTED: entries with implied times (mt_mtc_encode_counted). */
enum mt_buffer_kind { MT_BUFFER_ENTRIES, MT_BUFFER_TIMED, MT_BUFFER_COUNTED, MT_BUFFER_META };

/* A buffer; one allocation of MT_BUFFER_BYTES. */
struct mt_buffer {
    struct mt_buffer *next;
    enum mt_buffer_kind kind;
    uint64_t thread;   /* thread number; UINT64_MAX: no thread */
    uint64_t seq;      /* sequence number at its first entry */
    uint64_t count;    /* number of entries, or bytes of text */
    uint64_t left_out; /* number of accesses that entries stand for (MT_MTC_REPEAT) */
    union {
        struct mt_host_entry entry[1];
        struct mt_host_timed_entry timed[1];
        char text[1];
    };
};

#define MT_BUFFER_ROOM (MT_BUFFER_BYTES - offsetof(struct mt_buffer, entry))
#define MT_BUFFER_ENTRIES_MAX (MT_BUFFER_ROOM / sizeof(struct mt_host_entry))
#define MT_BUFFER_TIMED_MAX (MT_BUFFER_ROOM / sizeof(struct mt_host_timed_entry))

/* Opens the output of the options. Returns 0, or -1 with *why set. */
int mt_core_sink_open(char *why, unsigned size);

/* Writes all waiting data and the end line (compact trace), and closes. */
void mt_core_sink_close(int killed);

void mt_core_sink_forked(void);
int mt_core_sink_is_fifo(void);

/* Returns an empty buffer, or NULL without memory; waits for the worker if too many are in use. */
struct mt_buffer *mt_core_sink_buffer(enum mt_buffer_kind kind, uint64_t thread, uint64_t seq);

/* Takes a buffer for the compact trace. Waits only for the file. */
void mt_core_sink_put(struct mt_buffer *b);

/* Frees a buffer without writing it. */
void mt_core_sink_return(struct mt_buffer *b);

/* Writes a meta line; does nothing without a compact trace. */
void mt_core_sink_line(enum mt_line_kind kind, const void *line);

/* Begins a meta line under a lock that mt_core_sink_line_end releases. Returns 1, or 0 without a compact
 * trace (then no end). */
int mt_core_sink_line_begin(void);

void mt_core_sink_line_end(enum mt_line_kind kind, const void *line);

/* Writes whole lines of text. The file lock may be taken around several calls to keep them together. */
void mt_core_sink_text(const char *text, size_t bytes);

void mt_core_sink_text_lock(void);
void mt_core_sink_text_locked(const char *text, size_t bytes);
void mt_core_sink_text_unlock(void);

/* Returns 1 while some thread writes to the file: a long wait is then no error. */
int mt_core_sink_writing(void);

/* Returns 1 if a lock of the sink stays held for `ns` although nobody writes. */
int mt_core_sink_stuck(uint64_t ns);

#endif
