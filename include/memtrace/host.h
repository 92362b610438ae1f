/* Reader of compact traces (.mtc), with accesses of host code and of kernels: libmemtrace-reader. C11 and
 * C++. Conventions, error codes and thread rules as in trace.h. Format: docs/trace-format.md, "Compact
 * container". */
#ifndef MEMTRACE_HOST_H
#define MEMTRACE_HOST_H
#include "memtrace/container.h"
#include "memtrace/trace.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Row of the site table (`site` lines of the meta chunks). Strings are never NULL. */
struct mt_host_site_info {
    uint32_t site; /* site number; 0: unused row */
    enum mt_host_op op;
    uint32_t size; /* bytes; 0: the size is in each record */
    uint32_t line, column;
    uint64_t ip; /* address of the instruction; 0: not known (compile-time engine) */
    const char *file, *function, *module, *variable, *text /* text of the instruction */;
    const char *reads, *writes; /* names of registers, separated by blanks, "*" after float and vector ones */
};

struct mt_host_record {
    uint64_t address;
    uint64_t time;       /* time; 0 without MT_MTC_HAS_TIMES */
    uint32_t site, size; /* size in bytes; 0: not known from the record nor from its site */
};

enum mt_host_item_kind { MT_HOST_ITEM_RECORDS, MT_HOST_ITEM_EVENT };

struct mt_host_item {
    enum mt_host_item_kind kind;
    uint64_t thread; /* number of the thread in this trace: 0, 1, 2 … in order of start */
    uint64_t seq;    /* sequence number in force for these records, or for the event */
    const struct mt_host_record *records;
    size_t count;
    /* fields of events */
    enum mt_host_event event;
    uint64_t time;
    unsigned nargs;
    uint64_t args[8];
};

struct mt_host_reader;

/* Opens a compact trace: a path, a FIFO or "-". Reads the head, the index (or scans if the tail is missing)
 * and, of a regular file, all meta chunks. Returns NULL with *err set on failure (MT_E_INPUT: not a compact
 * trace, or a newer version; MT_E_CORRUPT: damaged head; MT_E_TRUNCATED: shorter than a head). `stop` as in
 * mt_reader_open. */
MT_API struct mt_host_reader *mt_host_reader_open(const char *path, const volatile sig_atomic_t *stop,
                                                  struct mt_error *err);
MT_API void mt_host_reader_close(struct mt_host_reader *r);
MT_API const struct mt_mtc_head *mt_host_reader_head(const struct mt_host_reader *r);

enum mt_host_order {
    MT_HOST_BY_FILE, /* chunks in file order: the only order of a FIFO */
    MT_HOST_BY_SEQ,  /* by sequence number, then by number of the thread: deterministic */
    MT_HOST_BY_TIME, /* by time, then by thread: needs MT_MTC_HAS_TIMES. An item is one execution or event */
};
/* Sets the order, before the first mt_host_next; default MT_HOST_BY_FILE. Returns 0, or -1 with *err set (a
 * FIFO has only that order). */
MT_API int mt_host_reader_order(struct mt_host_reader *r, enum mt_host_order order, struct mt_error *err);
/* Reads the next item, valid until the next call. Returns 1, 0 at the end, or -1 with *err set: MT_E_SYSTEM,
 * or damage. A damaged chunk is skipped after its intact items were returned, and reading can go on until
 * 0. */
MT_API int mt_host_next(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err);
/* Starts again at the beginning. Regular files only. */
MT_API int mt_host_rewind(struct mt_host_reader *r, struct mt_error *err);

/* Return the site or function with this number, or NULL. Of a FIFO only those read so far are known. */
MT_API const struct mt_host_site_info *mt_host_site(struct mt_host_reader *r, uint32_t site);
MT_API const struct mt_function_event *mt_host_function(struct mt_host_reader *r, uint64_t id);
/* Returns the meta lines (header, allocations, end, losses) as a companion. Owned by the reader. */
MT_API const struct mt_companion *mt_host_companion(struct mt_host_reader *r);
MT_API void mt_host_progress(const struct mt_host_reader *r, uint64_t *done, uint64_t *total);

/* ---- accesses of kernels (device chunks) ----
 *
 * In ascending order of launches, or in file order from a FIFO. Independent of mt_host_next. */

/* A launch in a regular file, as the heads of its chunks describe it. */
struct mt_device_launch {
    uint64_t seq; /* sequence number; ascending in the list */
    const char *kernel;
    uint64_t accesses;
    uint32_t stream, whole; /* whole: the first and the last chunk are in the file */
    size_t first, chunks;   /* device chunks of the launch: first .. first + chunks - 1, numbered by launch */
    int named;              /* 1 if a `kernel` line has the kernel's name */
    int single;             /* 1 if each run is the access of one thread: not grouped into requests */
};
/* Returns all launches; the array is owned by the reader. A FIFO has none. */
MT_API const struct mt_device_launch *mt_device_launches(const struct mt_host_reader *r, size_t *count);
/* Makes mt_device_next continue with launch `index` of that list (at most its length). Regular files only. */
MT_API void mt_device_seek(struct mt_host_reader *r, size_t index);

/* Sets the number of threads that decode these chunks ahead, including the caller's. The output does not
 * depend on it. Default 1. Before the first mt_device_next. */
MT_API void mt_host_reader_threads(struct mt_host_reader *r, unsigned threads);

/* Includes (on) runs of shared and local memory and of barriers (record.h). Before the first
 * mt_device_next. */
MT_API void mt_host_reader_spaces(struct mt_host_reader *r, int on);

struct mt_run_batch {
    const struct mt_access_run *runs;
    size_t count;
    uint64_t accesses; /* number of accesses in these runs */
    const char *kernel;
    uint64_t seq; /* sequence number of the launch */
    uint32_t stream;
    unsigned flags;  /* enum mt_batch_flags; each launch has a first batch, and a last one if it is whole */
    uint64_t offset; /* file offset of the chunk */
};
/* Reads the next runs, valid until the next call. Returns 1, 0 at the end, or -1 with *err set as
 * mt_host_next does. A launch without an end yields its runs, then MT_E_TRUNCATED. */
MT_API int mt_device_next(struct mt_host_reader *r, struct mt_run_batch *batch, struct mt_error *err);
/* Works as mt_device_next with room provided by the caller, for `capacity` runs and for capacity *
 * MT_MTC_MAX_LANES addresses. */
MT_API int mt_device_fill(struct mt_host_reader *r, struct mt_access_run *runs, uint64_t *lanes,
                          size_t capacity, struct mt_run_batch *batch, struct mt_error *err);
/* Returns the `launch` line with this sequence number, or NULL; from a FIFO only lines read so far. */
MT_API const struct mt_launch_event *mt_device_launch_event(struct mt_host_reader *r, uint64_t seq);

/* Random access to device chunks, for several processes that share the reading of one regular file. Returns
 * NULL with *err set if it cannot be opened or must be read from its beginning: without an index, with
 * damage, with host accesses, or with launches that are not whole. */
struct mt_device_parts;
MT_API struct mt_device_parts *mt_device_parts_open(const char *path, struct mt_error *err);
MT_API void mt_device_parts_close(struct mt_device_parts *p); /* NULL is allowed */
/* Returns a number that is equal for files with equal chunks at equal places. */
MT_API uint64_t mt_device_parts_digest(const struct mt_device_parts *p);
/* Returns the number of accesses of chunk `chunk` (numbered as in mt_device_launch.first), from the index. */
MT_API uint64_t mt_device_parts_accesses(const struct mt_device_parts *p, size_t chunk);
/* Goes to this chunk. Returns 0, or -1 with *err set if it is damaged. */
MT_API int mt_device_parts_seek(struct mt_device_parts *p, size_t chunk, struct mt_error *err);
/* Reads the next runs of the chunk, valid until the next call. Returns 1, 0 at its end, or -1 with *err
 * set. */
MT_API int mt_device_parts_next(struct mt_device_parts *p, const struct mt_access_run **runs, size_t *count,
                                struct mt_error *err);

/* Returns mt_mtc_head.features of the compact trace at `path`, or 0 if it is not one. Does not open FIFOs. */
MT_API uint64_t mt_container_features(const char *path);
/* Returns 1 if the file at `path` begins like a compact trace, else 0. Does not open FIFOs. */
MT_API int mt_is_container(const char *path);

#ifdef __cplusplus
}
#endif
#endif
