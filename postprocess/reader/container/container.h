/* Internal interface of the readers of compact traces.
 * ../device_parts.c reads device chunks in any order. format/container has the decoders of payloads. */
#ifndef MT_READER_CONTAINER_H
#define MT_READER_CONTAINER_H

#include "format/container/device_decode.h"
#include "reader/base/internal.h"
#include "format/container/host_decode.h"
#include "memtrace/host.h"

/* ---- bytes ---- */

struct mt_window {
    int fd, owned, regular;
    char *name;
    struct mt_stop stop;
    uint64_t start, size;  /* regular file: offset and size of the compact trace */
    unsigned char *buffer; /* buffer with the bytes [base, base + length) */
    size_t room, length;
    uint64_t base;
    int eof;
};

/* Opens a file. Returns 0, or -1 with *err set. */
int mt_window_open(struct mt_window *w, const char *path, const volatile sig_atomic_t *stop,
                   struct mt_error *err);

/* Opens a descriptor; mt_window_close closes it if `owned`, a failure does not. In a regular file the trace
 * begins at the current position. */
int mt_window_open_fd(struct mt_window *w, int fd, const char *name, int owned, struct mt_error *err);

void mt_window_close(struct mt_window *w);

/* Returns the bytes from `offset` on: *got of them, at most `n`, fewer only at the end. Valid until the next
 * call. A FIFO discards the bytes before `offset`. Returns NULL with *err set (MT_E_SYSTEM, MT_E_STOPPED). */
const unsigned char *mt_window_get(struct mt_window *w, uint64_t offset, size_t n, size_t *got,
                                   struct mt_error *err);

/* ---- chunks ---- */

/* Reads and checks the file head. Returns 0, or -1 with *err set. */
int mt_container_head(struct mt_window *w, struct mt_mtc_head *head, struct mt_error *err);

enum mt_chunk_state {
    MT_CHUNK_WHOLE,
    MT_CHUNK_END,    /* end of the input, or the tail */
    MT_CHUNK_CUT,    /* the input ends inside; *err is set to MT_E_TRUNCATED */
    MT_CHUNK_BAD,    /* *err is set to MT_E_CORRUPT */
    MT_CHUNK_SYSTEM, /* failure of the system; *err is set */
};

/* Reads and verifies the chunk at `offset`. WHOLE: *head and *stored are valid until the window's next
 * use. */
enum mt_chunk_state mt_chunk_at(struct mt_window *w, uint64_t offset, struct mt_mtc_chunk *head,
                                const unsigned char **stored, struct mt_error *err);

/* Finds the next intact chunk after damage at *offset and moves *offset there. `likely`: its expected offset,
 * or 0. Returns 1 if found, 0 if there is none, or -1 with *err set. */
int mt_chunk_resync(struct mt_window *w, uint64_t *offset, uint64_t likely, struct mt_error *err);

static inline uint64_t mt_chunk_end(uint64_t offset, const struct mt_mtc_chunk *head)
{
    return offset + sizeof *head + ((head->stored_bytes + 7) & ~(uint64_t)7);
}

struct mt_chunk_payload { /* decoded payload */
    unsigned char *data;
    size_t bytes, room;
    void *context; /* decompression context (ZSTD_DCtx) */
};

/* Decompresses a payload. Returns 0, or -1 with *err set (MT_E_CORRUPT with the offset, or MT_E_SYSTEM). */
int mt_chunk_unpack(struct mt_chunk_payload *p, const char *name, uint64_t offset,
                    const struct mt_mtc_chunk *head, const unsigned char *stored, struct mt_error *err);

void mt_chunk_payload_free(struct mt_chunk_payload *p);

/* Known chunks of a regular file, in file order. */
struct mt_chunk_list {
    struct mt_mtc_index *entries;
    size_t count, room;
    int indexed; /* 1: the list is the file's own index; FIFO: the index has arrived */
};

struct mt_problems {
    struct mt_error *list;
    size_t count, room, told;
};

/* ---- meta lines ---- */

/* Bytes of the meta chunks so far. */
struct mt_meta_bound {
    uint64_t plain, stored;
};

/* Checks the size of a meta chunk before it is unpacked, since few bytes can expand to gigabytes of lines.
 * Returns 0, or -1 with *err set if it is too much. `b` is zero-initialised at first. */
int mt_meta_bound(struct mt_meta_bound *b, const char *name, uint64_t offset, const struct mt_mtc_chunk *head,
                  struct mt_error *err);

struct mt_host_meta {
    struct mt_companion *companion;
    struct mt_meta_bound bound;
    struct mt_hash sites; /* map from site number to index + 1 */
    struct mt_host_site_info **blocks;
    size_t nblocks, block_room, nsites, taken; /* taken: entries of companion->sites already added */
    /* NULL, or called with the lines of each chunk; non-zero ends the reading as if without memory */
    int (*lines)(void *arg, const char *text, size_t bytes);
    void *lines_arg;
};

/* ---- host chunks ---- */

/* Decoder of one host chunk after the other. */
struct mt_host_stream {
    struct mt_chunk_payload plain;
    struct mt_decoder decoder;
    int open;                             /* 1: a chunk is being decoded */
    uint64_t offset, thread, items, last; /* fields of the chunk and its head */
    struct mt_host_record *room;
    size_t capacity, most; /* number of records per step; most: maximum, 0: many */
};

struct mt_order; /* state of BY_SEQ and BY_TIME */

/* Reader of device chunks. Zero-initialised is valid. */
struct mt_device_state {
    struct mt_device_launch *launches; /* launches of a regular file, by seq */
    uint32_t *chunks;                  /* indices of the device chunks in the list of all chunks, by seq */
    size_t nlaunches, nchunks, next;   /* next: index into `chunks` */
    const struct mt_launch_event **events; /* by seq */
    size_t nevents;
    struct mt_hash kernels; /* map from kernel id to index in the companion's list, + 1 */
    size_t kernels_taken;
    struct mt_intern unnamed; /* names of kernels that no line names */
    /* decoding ahead */
    unsigned threads;
    int spaces; /* 1: runs of all spaces */
    struct mt_pool *pool;
    int own_pool;
    struct mt_chunk_queue *queue;
    size_t fetched;             /* index into `chunks`: earlier ones were put into the queue */
    struct mt_run_block *block; /* current block; `at` of its runs were returned */
    size_t at;
    struct mt_mtc_chunk head;
    uint64_t offset;
    int open;  /* 1: the chunk at the head of the queue is being read */
    int begun; /* 1: a launch, with this number and stream, has begun */
    int fresh; /* 1: none of its runs has been returned */
    uint32_t stream;
    uint64_t seq, end; /* end: end of its latest chunk */
    const char *kernel;
};

/* Returns 1 if the trace has lines that describe its run; one converted without companion file has none. */
int mt_companion_speaks(const struct mt_companion *c);

#define MT_CONTAINER_CUT "the container has neither an index nor lines of its own: it is cut off"

/* Checks at its end whether the trace is complete. Returns 0, or -1 with *err set, once, if neither an index
 * nor lines of its own show that it ends here. A program that is killed leaves lines without an `end`, if it
 * got that far. */
int mt_container_whole(struct mt_host_reader *r, struct mt_error *err);

/* Opens a compact trace. Takes over `w`, which is at its beginning, and closes it on failure. */
struct mt_host_reader *mt_container_open(struct mt_window *w, struct mt_error *err);

#define MT_NOTHING_LEFT (UINT64_MAX - 8) /* mt_host_reader.next of a FIFO whose rest is not a chunk */

struct mt_host_reader {
    struct mt_device_state device;
    struct mt_window window;
    struct mt_mtc_head head;
    struct mt_host_meta meta;
    struct mt_chunk_list chunks; /* chunks of a regular file */
    struct mt_problems problems; /* found on opening; reported at the end */
    enum mt_host_order order;
    int begun, fatal;
    struct mt_error error;        /* the error, if `fatal` is set */
    struct mt_host_stream stream; /* stream of host chunks in file order */
    uint64_t next;                /* FIFO: offset of the next chunk; else index into the chunks */
    struct mt_order *merge;
    uint64_t done; /* number of bytes read */
    int cut_told;  /* 1: the missing end was reported */
};

#endif
