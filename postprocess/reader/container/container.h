/* Shared by the files that read containers.
 *
 *   container.c      bytes of a file or FIFO; whole, verified chunks, and finding them again after
 *                    damage; meta lines; the next chunk and the end
 *   map.c            numbers of sites to positions
 *   device_decode.c  payload of a device chunk -> runs
 *   device_reader.c  device chunks decoded ahead in a pool; launches and their chunks
 *   ../host          host chunks: decoded, one thread after each other, several threads in one order
 *   ../device_parts.c  device chunks in any order */
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
    uint64_t start, size;  /* regular: where the container begins, how long it is */
    unsigned char *buffer; /* holds [base, base + length) */
    size_t room, length;
    uint64_t base;
    int eof;
};

/* 0, or -1 with *err. */
int mt_window_open(struct mt_window *w, const char *path, const volatile sig_atomic_t *stop,
                   struct mt_error *err);

/* The same of a descriptor; closed by mt_window_close if `owned`, not on failure. A regular file begins where
 * it is. */
int mt_window_open_fd(struct mt_window *w, int fd, const char *name, int owned, struct mt_error *err);

void mt_window_close(struct mt_window *w);

/* The bytes from `offset` on: *got of them, at most `n`, fewer only at the end. Valid until the next call. A
 * FIFO forgets what is before `offset`. NULL with *err (MT_E_SYSTEM, MT_E_STOPPED). */
const unsigned char *mt_window_get(struct mt_window *w, uint64_t offset, size_t n, size_t *got,
                                   struct mt_error *err);

/* Of a FIFO: has the whole chunk at `offset` come? Does not wait. */
int mt_window_has_chunk(struct mt_window *w, uint64_t offset);

/* ---- chunks ---- */

/* Reads and checks the head of the container. 0, or -1 with *err. */
int mt_container_head(struct mt_window *w, struct mt_mtc_head *head, struct mt_error *err);

enum mt_chunk_state {
    MT_CHUNK_WHOLE,
    MT_CHUNK_END,    /* nothing more, or the tail */
    MT_CHUNK_CUT,    /* the input ends inside; *err is filled with MT_E_TRUNCATED */
    MT_CHUNK_BAD,    /* *err is filled with MT_E_CORRUPT */
    MT_CHUNK_SYSTEM, /* *err says it */
};

/* Looks at the chunk at `offset` and verifies it. WHOLE: *head and *stored, which is valid until the window's
 * next use. */
enum mt_chunk_state mt_chunk_at(struct mt_window *w, uint64_t offset, struct mt_mtc_chunk *head,
                                const unsigned char **stored, struct mt_error *err);

/* After damage at *offset: moves *offset to the next chunk that is whole. `likely`: where it should be, or 0.
 * 1 found, 0 none, -1 with *err. */
int mt_chunk_resync(struct mt_window *w, uint64_t *offset, uint64_t likely, struct mt_error *err);

static inline uint64_t mt_chunk_end(uint64_t offset, const struct mt_mtc_chunk *head)
{
    return offset + sizeof *head + ((head->stored_bytes + 7) & ~(uint64_t)7);
}

struct mt_chunk_payload { /* a payload, decoded */
    unsigned char *data;
    size_t bytes, room;
    void *context; /* ZSTD_DCtx */
};

/* 0; -1 with *err (MT_E_CORRUPT with the offset, or MT_E_SYSTEM). */
int mt_chunk_unpack(struct mt_chunk_payload *p, const char *name, uint64_t offset,
                    const struct mt_mtc_chunk *head, const unsigned char *stored, struct mt_error *err);

void mt_chunk_payload_free(struct mt_chunk_payload *p);

/* What is known of the chunks of a regular file, in file order. */
struct mt_chunk_list {
    struct mt_mtc_index *entries;
    size_t count, room;
    int indexed; /* the file's own index says so; of a FIFO: it came */
};

struct mt_problems {
    struct mt_error *list;
    size_t count, room, told;
};

int mt_problem_add(struct mt_problems *p, const struct mt_error *e); /* 0, or -1 without memory */

/* Fills the list from the index or, without one, by scanning; damage goes to the problems. 0,
 * or -1 with *err. */
int mt_chunks_find(struct mt_chunk_list *l, struct mt_window *w, uint64_t first, struct mt_problems *problems,
                   struct mt_error *err);

/* ---- meta lines ---- */

/* Bytes of a container's meta chunks so far. */
struct mt_meta_bound {
    uint64_t plain, stored;
};

/* Few bytes can stand for gigabytes of lines, and what is made of these is larger still. Before a chunk is
 * unpacked: 0, or -1 with *err, too much. Zero-initialised at first. */
int mt_meta_bound(struct mt_meta_bound *b, const char *name, uint64_t offset, const struct mt_mtc_chunk *head,
                  struct mt_error *err);

struct mt_host_meta {
    struct mt_companion *companion;
    struct mt_meta_bound bound;
    struct mt_hash sites; /* number -> position + 1 */
    struct mt_host_site_info **blocks;
    size_t nblocks, block_room, nsites, taken; /* taken: of companion->sites */
    /* NULL, or called with the lines of each chunk; not 0 ends the reading as if there were no memory */
    int (*lines)(void *arg, const char *text, size_t bytes);
    void *lines_arg;
};

int mt_meta_open(struct mt_host_meta *m, const char *name); /* 0, or -1 without memory */

/* Puts events in order; may be called again after more lines. */
void mt_meta_sort(struct mt_host_meta *m);

const struct mt_host_site_info *mt_meta_site(const struct mt_host_meta *m, uint32_t site);
void mt_meta_free(struct mt_host_meta *m);

/* ---- streams of host chunks ---- */

/* Decodes chunk after chunk, one at a time. */
struct mt_host_stream {
    struct mt_chunk_payload plain;
    struct mt_decoder decoder;
    int open;                             /* a chunk is under way */
    uint64_t offset, thread, items, last; /* as its head says */
    struct mt_host_record *room;
    size_t capacity, most; /* records at a time; most: 0 = many */
};

struct mt_order; /* host_reader.c: BY_SEQ and BY_TIME */

/* Device chunks. Zero-initialised is fine. */
struct mt_device_state {
    struct mt_device_launch *launches;     /* regular files: by seq */
    uint32_t *chunks;                      /* positions of the device chunks in the list of all, by seq */
    size_t nlaunches, nchunks, next;       /* next: position in `chunks` */
    const struct mt_launch_event **events; /* by seq */
    size_t nevents;
    struct mt_hash kernels; /* id -> position in the companion's, + 1 */
    size_t kernels_taken;
    struct mt_intern unnamed; /* names for kernels that no line names */
    /* decoders.h */
    unsigned threads;
    int spaces; /* runs of all memory */
    struct mt_pool *pool;
    int own_pool;
    struct mt_chunk_queue *queue;
    size_t fetched;             /* position in `chunks`: these are in the queue */
    struct mt_run_block *block; /* under way: `at` of its runs were handed out */
    size_t at;
    struct mt_mtc_chunk head;
    uint64_t offset;
    int open;  /* a chunk is under way: the head of the queue */
    int begun; /* a launch is under way: of this number, in this stream */
    int fresh; /* and nothing of it was handed out */
    uint32_t stream;
    uint64_t seq, end; /* end: of its last chunk, so far */
    const char *kernel;
};

/* Lists launches and chunks of a regular file, after its meta chunks. 0, or -1 without memory. */
int mt_device_list(struct mt_host_reader *r);

/* The launch that comes next is passed over; NULL: none is known to be whole there. */
const struct mt_device_launch *mt_device_pass(struct mt_host_reader *r);

/* The reader's chunks are decoded in this pool, which has so many threads for it. Before the first batch; it
 * must outlive the reader. */
void mt_device_use(struct mt_host_reader *r, struct mt_pool *pool, unsigned threads);

void mt_device_free(struct mt_device_state *d);

/* The next chunk of a FIFO, whose place is *offset; *stored until the window's next use. 1; 0:
 * the end; -1 with *err. */
int mt_container_next_live(struct mt_host_reader *r, uint64_t *offset, struct mt_mtc_chunk *head,
                           const unsigned char **stored, struct mt_error *err);

/* Takes the lines of a meta chunk. Damage in it is *err with -1. */
int mt_container_take_meta(struct mt_host_reader *r, uint64_t offset, const struct mt_mtc_chunk *head,
                           const unsigned char *stored, struct mt_error *err);

/* Has the container lines that say what it is of? One that was made of a raw
 * trace without companion has none. */
int mt_companion_speaks(const struct mt_companion *c);

#define MT_CONTAINER_CUT "the container has neither an index nor lines of its own: it is cut off"

/* Its end is reached. 0; -1 with *err, once: nothing in it says that this is its end. Containers are closed
 * with an index, and a program that is killed leaves lines without an `end`, if it came so far. */
int mt_container_whole(struct mt_host_reader *r, struct mt_error *err);

/* Takes over `w`, which is at its beginning; closes it on failure. */
struct mt_host_reader *mt_container_open(struct mt_window *w, struct mt_error *err);

#define MT_NOTHING_LEFT (UINT64_MAX - 8) /* mt_host_reader.next of a FIFO: what is left is not a chunk */

struct mt_host_reader {
    struct mt_device_state device;
    struct mt_window window;
    struct mt_mtc_head head;
    struct mt_host_meta meta;
    struct mt_chunk_list chunks; /* regular files */
    struct mt_problems problems; /* found when opening; reported at the end */
    enum mt_host_order order;
    int begun, fatal;
    struct mt_error error;        /* of `fatal` */
    struct mt_host_stream stream; /* BY_FILE */
    uint64_t next;                /* FIFO: offset of the next chunk; else index into the chunks */
    struct mt_order *merge;
    uint64_t done; /* bytes */
    int cut_told;  /* that it has no end */
};

int mt_container_stopped(struct mt_host_reader *r,
                         struct mt_error *err); /* 1 with *err if the stop flag is up */

#endif
