/* Reading compact containers (.mtc), accesses of host code and of kernels: libmemtrace-reader. C11 and C++.
 * Conventions, error codes and thread rules as in trace.h. Format:
 * docs/trace-format.md, "Compact container". */
#ifndef MEMTRACE_HOST_H
#define MEMTRACE_HOST_H
#include "memtrace/container.h"
#include "memtrace/trace.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A row of the site table (`site` lines of the meta chunks). Strings are never NULL. */
struct mt_host_site_info {
    uint32_t site; /* 0: there is no such site */
    enum mt_host_op op;
    uint32_t size; /* bytes; 0: every record says its own */
    uint32_t line, column;
    uint64_t ip; /* 0: not known (compile-time engine) */
    const char *file, *function, *module, *variable, *text /* the instruction */;
    const char *reads, *writes; /* registers, separated by blanks, "*" after floating-point and vector ones */
};

struct mt_host_record {
    uint64_t address;
    uint64_t time;       /* 0 without MT_MTC_HAS_TIMES */
    uint32_t site, size; /* size: bytes; 0 if neither the record nor its site says */
};

enum mt_host_item_kind { MT_HOST_ITEM_RECORDS, MT_HOST_ITEM_EVENT };

struct mt_host_item {
    enum mt_host_item_kind kind;
    uint64_t thread; /* number of the thread in this trace: 0, 1, 2 … in order of start */
    uint64_t seq;    /* in force for these records, or for the event */
    const struct mt_host_record *records;
    size_t count;
    /* events */
    enum mt_host_event event;
    uint64_t time;
    unsigned nargs;
    uint64_t args[8];
};

struct mt_host_reader;

/* Opens a container: a path, a FIFO or "-". Reads head, index (or scans when the tail is missing) and, for a
 * regular file, all meta chunks. NULL: *err says why (MT_E_INPUT: no container, or a newer one;
 * MT_E_CORRUPT: its head; MT_E_TRUNCATED: not even a head).
 * `stop` as in mt_reader_open. */
MT_API struct mt_host_reader *mt_host_reader_open(const char *path, const volatile sig_atomic_t *stop,
                                                  struct mt_error *err);
MT_API void mt_host_reader_close(struct mt_host_reader *r);
MT_API const struct mt_mtc_head *mt_host_reader_head(const struct mt_host_reader *r);

enum mt_host_order {
    MT_HOST_BY_FILE, /* chunks as they are in the file: the only order of a FIFO */
    MT_HOST_BY_SEQ,  /* by sequence number; threads by number within one: deterministic */
    MT_HOST_BY_TIME, /* by time, then thread: needs MT_MTC_HAS_TIMES. One item holds one execution or event */
};
/* Must precede the first mt_host_next; default MT_HOST_BY_FILE. 0 or -1 with *err (not for a FIFO). */
MT_API int mt_host_reader_order(struct mt_host_reader *r, enum mt_host_order order, struct mt_error *err);
/* The next item: 1, valid until the next call; the end: 0; -1 with *err: damage (what was whole came before;
 * a damaged chunk is skipped, calls may go on after it: go on until 0) or MT_E_SYSTEM. */
MT_API int mt_host_next(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err);
/* Starts again. Regular files only. */
MT_API int mt_host_rewind(struct mt_host_reader *r, struct mt_error *err);

/* NULL if there is none. Of a FIFO: as far as it was read. */
MT_API const struct mt_host_site_info *mt_host_site(struct mt_host_reader *r, uint32_t site);
MT_API const struct mt_function_event *mt_host_function(struct mt_host_reader *r, uint64_t id);
/* Header, allocations, end, losses: the meta lines in the form of a companion. Owned by the reader. */
MT_API const struct mt_companion *mt_host_companion(struct mt_host_reader *r);
MT_API void mt_host_progress(const struct mt_host_reader *r, uint64_t *done, uint64_t *total);

/* ---- accesses of kernels (device chunks) ----
 *
 * In ascending order of the launches, or, from a FIFO, in file order. Independent of mt_host_next. */

/* Of a regular file: what heads of chunks say. */
struct mt_device_launch {
    uint64_t seq; /* ascending */
    const char *kernel;
    uint64_t accesses;
    uint32_t stream, whole; /* whole: has its first and its last chunk */
    size_t first, chunks;   /* its device chunks: first .. first + chunks - 1 of the file's, by launch */
    int named;              /* a line has the kernel's name */
};
/* All launches; the array is the reader's. Of a FIFO there are none. */
MT_API const struct mt_device_launch *mt_device_launches(const struct mt_host_reader *r, size_t *count);
/* mt_device_next goes on with launch `index` of that list (at most its length). Regular files only. */
MT_API void mt_device_seek(struct mt_host_reader *r, size_t index);

/* So many threads decode these chunks, the caller's among them, and some chunks ahead; what comes out is the
 * same. Default 1: nobody else. Before the first mt_device_next. */
MT_API void mt_host_reader_threads(struct mt_host_reader *r, unsigned threads);

/* on: runs of shared and local memory and of barriers (record.h: mt_rec_space) are handed out, too. Before
 * the first mt_device_next. */
MT_API void mt_host_reader_spaces(struct mt_host_reader *r, int on);

struct mt_run_batch {
    const struct mt_access_run *runs;
    size_t count;
    uint64_t accesses; /* of these runs */
    const char *kernel;
    uint64_t seq; /* of the launch */
    uint32_t stream;
    unsigned flags;  /* enum mt_batch_flags: each launch has a first batch; a last one, if it is whole */
    uint64_t offset; /* of the chunk */
};
/* The next runs: 1, valid until the next call; 0: the end; -1 with *err as mt_host_next. A launch that has no
 * end yields what is there, then MT_E_TRUNCATED. */
MT_API int mt_device_next(struct mt_host_reader *r, struct mt_run_batch *batch, struct mt_error *err);
/* The same with room for `capacity` runs and for capacity * MT_MTC_MAX_LANES
 * addresses given by the caller. */
MT_API int mt_device_fill(struct mt_host_reader *r, struct mt_access_run *runs, uint64_t *lanes,
                          size_t capacity, struct mt_run_batch *batch, struct mt_error *err);
/* The `launch` line with this number, or NULL. Of a FIFO: as far as it was read. */
MT_API const struct mt_launch_event *mt_device_launch_event(struct mt_host_reader *r, uint64_t seq);

/* For several processes that share the reading of one container, a regular file: runs of the device chunks
 * that are asked for. NULL with *err when it cannot be opened or has to be read from its beginning on:
 * without an index, with damage, with host accesses, or with launches that are not whole. */
struct mt_device_parts;
MT_API struct mt_device_parts *mt_device_parts_open(const char *path, struct mt_error *err);
MT_API void mt_device_parts_close(struct mt_device_parts *p); /* NULL is fine */
/* Equal for files with the same chunks at the same places. */
MT_API uint64_t mt_device_parts_digest(const struct mt_device_parts *p);
/* Accesses of chunk number `chunk` (as mt_device_launch.first), as the index has it. */
MT_API uint64_t mt_device_parts_accesses(const struct mt_device_parts *p, size_t chunk);
/* Goes to this chunk. 0, or -1 with *err: it is damaged. */
MT_API int mt_device_parts_seek(struct mt_device_parts *p, size_t chunk, struct mt_error *err);
/* The next runs of it, valid until the next call: 1; all were handed out: 0; damage: -1 with *err. */
MT_API int mt_device_parts_next(struct mt_device_parts *p, const struct mt_access_run **runs, size_t *count,
                                struct mt_error *err);

/* mt_mtc_head.features of the container at `path`, 0 if it is not one. Does not touch FIFOs. */
MT_API uint64_t mt_container_features(const char *path);
/* 1 if the file at `path` begins like a container, 0 if not or not readable. Does not touch FIFOs. */
MT_API int mt_is_container(const char *path);

#ifdef __cplusplus
}
#endif
#endif
