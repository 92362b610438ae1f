/* Reader of traces: libmemtrace-reader (static library target mtread). C11 and C++.
 *
 * Three levels, each usable alone:
 *   mt_reader     one raw trace (a path, a FIFO, "-" or a descriptor): batches of whole records
 *   mt_companion  one companion file (MemTrace-pipe-N.meta, JSON lines beside a trace): launches,
 *                 allocations, copies, sites, losses
 *   mt_source     several traces with their companion files: launches in order, host copies between them
 * Formats: docs/trace-format.md (normative).
 *
 * Errors: functions that can fail take a `struct mt_error *` (never NULL); their comments tell what they
 * return. The message is one line that names the file and, where there is one, the byte offset. Nothing is
 * printed. Threads: users must not share an object between threads; mt_source has one thread of its own, and
 * those requested by mt_source_options.threads. */
#ifndef MEMTRACE_TRACE_H
#define MEMTRACE_TRACE_H
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include "memtrace/device.h"
#include "memtrace/record.h"
#ifdef __cplusplus
extern "C" {
#endif

#define MT_API __attribute__((visibility("default")))

enum mt_code {
    MT_OK = 0,
    MT_E_SYSTEM = 1,    /* failure of the system: read error, no memory, no room for a spool file */
    MT_E_INPUT = 2,     /* cannot be opened, is a directory, given twice, does not match the other inputs */
    MT_E_TRUNCATED = 3, /* ends inside a record or a kernel; everything before is intact */
    MT_E_CORRUPT = 4,   /* not a trace from `offset` on; everything before is intact */
    MT_E_STOPPED = 5,   /* the stop flag was raised */
};

struct mt_error {
    enum mt_code code;
    int sys;         /* errno of the failure, or 0 */
    uint64_t offset; /* byte offset in the input named by the message, or 0 */
    char message[512];
};

/* ---- one raw trace ----------------------------------------------------------------------------------- */

enum mt_batch_flags {
    MT_BATCH_BEGIN = 1,  /* first batch of its launch */
    MT_BATCH_END = 2,    /* last batch of its launch: the end mark was read */
    MT_BATCH_SINGLE = 4, /* runs: each is the access of one thread, not grouped into requests of warps */
};

/* Records of one launch. Each launch yields at least one batch, which may be empty. A launch that is cut off
 * yields its intact records without MT_BATCH_END; the error follows. */
struct mt_batch {
    const struct mt_raw_record *records; /* checked: types are 0..3, sizes are at least 1 */
    size_t count;
    const char
        *kernel; /* UTF-8, valid until the reader is closed; equal names of one reader have equal pointers */
    uint64_t launch; /* number of the launch in this trace, from 0 */
    uint64_t offset; /* offset of records[0] in the trace */
    unsigned flags;  /* enum mt_batch_flags */
};

struct mt_reader;

/* Opens `path`; "-" is standard input. A FIFO waits for its writer at the first read. Returns NULL with *err
 * set on failure. `stop` may be NULL; once it is non-zero, reading ends with MT_E_STOPPED within 0.1 s, even
 * while it waits. */
MT_API struct mt_reader *mt_reader_open(const char *path, const volatile sig_atomic_t *stop,
                                        struct mt_error *err);
/* Reads from `fd`, which mt_reader_close closes if `owned`. `name` is used in messages. */
MT_API struct mt_reader *mt_reader_open_fd(int fd, const char *name, int owned,
                                           const volatile sig_atomic_t *stop, struct mt_error *err);
/* Reads the next batch. Returns 1, 0 at the end, or -1 on an error, which every further call repeats. The
 * records are owned by the reader and valid until the next call. */
MT_API int mt_reader_next(struct mt_reader *r, struct mt_batch *batch, struct mt_error *err);
/* Works as mt_reader_next with room for `capacity` (>= 1) records provided by the caller. */
MT_API int mt_reader_fill(struct mt_reader *r, struct mt_raw_record *room, size_t capacity,
                          struct mt_batch *batch, struct mt_error *err);
/* Returns the bytes of the trace consumed so far. */
MT_API uint64_t mt_reader_offset(const struct mt_reader *r);
MT_API void mt_reader_close(struct mt_reader *r);

/* Joins records[0 .. count) into runs, in order. A run joins neighbours of one CTA, SM and meta word with
 * evenly spaced addresses. Writes at most `room` runs and returns their number; *taken is the number of
 * records in them (count, unless the room was too small). Runs do not extend over calls. */
MT_API size_t mt_runs_from_records(const struct mt_raw_record *records, size_t count,
                                   struct mt_access_run *runs, size_t room, size_t *taken);
/* Writes the records of runs[*run ..], starting with access *lane of the first one, at most `capacity` (>=
 * 1). Returns their number. *run and *lane advance; at the end *run is `count`. */
MT_API size_t mt_records_from_runs(const struct mt_access_run *runs, size_t count, size_t *run,
                                   uint32_t *lane, struct mt_raw_record *records, size_t capacity);

/* Finds the ends of launches, for several processes that share the reading of one raw trace (a regular file).
 * *ends are the offsets just after the end marks that lie in (from, to], ascending; the caller frees them.
 * Results of adjacent parts of the file can be concatenated. Returns 0, or -1 with *err set. */
MT_API int mt_raw_ends(const char *path, uint64_t from, uint64_t to, uint64_t **ends, size_t *count,
                       struct mt_error *err);
/* Returns 1 if `ends` are the ends of all launches of a whole trace of `size` bytes, 0 if the file is damaged
 * or something else. Only the launches first, first + step, … are checked. */
MT_API int mt_raw_ends_fit(const char *path, uint64_t size, const uint64_t *ends, size_t count, size_t first,
                           size_t step);

/* ---- one companion file ------------------------------------------------------------------------------- */

#define MT_SEQ_NONE UINT64_MAX       /* "never" or "not known" */
#define MT_THREAD_BEGAN (1ull << 63) /* in mt_item.life */
/* Sequence numbers of launches that are host programs (mt_source_threads) begin here; all events of the
 * program are within its launch. */
#define MT_SEQ_PROGRAM (UINT64_MAX - (1ull << 32))

/* Part of a rank in a collective of a library (docs/trace-format.md). */
struct mt_collective {
    const char *op; /* "allreduce" … */
    uint64_t comm, rank, ranks, count, size;
    int64_t root, peer; /* ranks; -1: none */
};

/* An operation comes after the first `n` operations of this stream, or before the n-th one. Stream numbers
 * are used for this only. */
struct mt_order_pair {
    uint64_t stream, n;
};

/* NEW: memory that was just allocated, whose bytes have no writer; a source inserts these between launches,
 * they are in no companion file's `copies`, and `file` is NULL. SET and NEW: `src` is 0. */
enum mt_copy_kind { MT_COPY_H2H, MT_COPY_H2D, MT_COPY_D2H, MT_COPY_D2D, MT_COPY_SET, MT_COPY_NEW };

enum { MT_FAILED_CALLERS = 6 };

/* A struct for each kind of line, with the keys that events.def describes: mt_launch_event, mt_alloc_event,
 * mt_copy_event (memcpy and memset), mt_site_event … Strings are never NULL ("" if the key is missing;
 * exception: mt_stream_event.why) and live as long as the companion. */
typedef uint64_t mt_event_u64, mt_event_id, mt_event_address, mt_event_stream;
typedef int64_t mt_event_i64, mt_event_device; /* device: number, or -1 if there is none or only one */
typedef int mt_event_int, mt_event_bool;
typedef enum mt_scope mt_event_scope;
typedef enum mt_order_kind mt_event_order;
typedef const char *mt_event_string, *mt_event_strings; /* strings: one per line */
typedef uint64_t mt_event_u32x3[3];
/* clang-format off */
#define MT_EV_LIST(ev, name, list, then, words) struct mt_##name##_event {
#define MT_EV_KEY(type, key, when, absent, words) mt_event_##type key;
#define MT_EV_EVENT_HAS(...) __VA_ARGS__;
#define MT_EV_END(words) };
#define MT_EV_NO_ONES
#define MT_EV_NO_REST
#include "memtrace/events.def"
/* clang-format on */

struct mt_companion {
    const char *path;
    int regular; /* 1 if it is a regular file, which can be loaded again later */
    int own;     /* 1 if the file belongs to the user (for a compact trace: that file) */
    /* keys of the last `header` and of the last `end` */
#define MT_EV_KEY(type, key, when, absent, words) mt_event_##type key;
#define MT_EV_NO_LISTS
#define MT_EV_NO_REST
#include "memtrace/events.def"
    int has_header, has_end, has_written; /* has_written: the key "records_written" was present */
#define MT_NO_END                                                                                            \
    "the program was killed, left by _exit or quick_exit, could not write it (a full disk), or still runs"
    /* launches, nlaunches, allocs, nallocs …: in file order, except allocations by id and copies by seq */
#define MT_EV_LIST(ev, name, list, then, words)                                                              \
    struct mt_##name##_event *list;                                                                          \
    size_t n##list;
#include "memtrace/events.def"
    const char *shared; /* name of the companion file with the process's events; "": this one */
    uint64_t lost;      /* sum of the counts of `lost` lines */
    const char *lost_why;
    /* number of lines that could not be read, and the error of the first one (with its offset) */
    uint64_t bad_lines;
    struct mt_error bad;
};

/* Loads a companion file, reading to the end of the file or FIFO. Returns NULL with *err set on failure
 * (MT_E_INPUT with sys = ENOENT if there is none). Lines that are not JSON are skipped and counted; unknown
 * events and keys are ignored. The last of several `end` lines counts. */
MT_API struct mt_companion *mt_companion_load(const char *path, struct mt_error *err);
/* Loads the first line of a regular file only. Returns NULL if there is none. */
MT_API struct mt_companion *mt_companion_head(const char *path);
MT_API void mt_companion_free(struct mt_companion *c);
/* Returns the site with this number, or NULL if it is unknown or c is NULL. */
MT_API const struct mt_site_event *mt_companion_site(const struct mt_companion *c, uint64_t id);

/* ---- several traces in launch order ------------------------------------------------------------------ */

enum mt_source_flags {
    MT_SOURCE_NO_COMPANION = 1, /* ignore companion files */
    MT_SOURCE_NO_HOST = 2,      /* no MT_ITEM_HOST, and MT_ITEM_COPY only for new memory */
    MT_SOURCE_REWIND = 4,       /* mt_source_rewind will be called: spool inputs that cannot be read twice */
    MT_SOURCE_RUNS = 16,        /* return records as runs: MT_ITEM_RUNS instead of MT_ITEM_BATCH */
    MT_SOURCE_OWN_RUNS = 32,    /* return runs of compact traces as MT_ITEM_RUNS and records of raw traces as
                                 * MT_ITEM_BATCH, without conversion */
    MT_SOURCE_SPACES = 64,      /* with runs: include accesses of compact traces to shared and local memory,
                                 * and barriers (record.h: mt_rec_space) */
    MT_SOURCE_NO_MEMORY = 128,  /* no MT_ITEM_COPY at all: a single FIFO or pipe is then read live, without a
                                 * spool file, as it is without companion file */
    MT_SOURCE_HOST = 8, /* accept compact traces of host accesses (host.h) and return MT_ITEM_HOST; without it
                         * they are MT_E_INPUT. Compact traces of kernels are accepted like raw ones. If all
                         * inputs are host traces, a program is one launch, and each thread a CTA of it:
                         * MT_ITEM_RUNS (mt_source_threads) */
};

/* Ends of the launches of a raw trace, as mt_raw_ends finds them; must live as long as the source. */
struct mt_launch_ends {
    const uint64_t *ends;
    size_t count;
    int chunks; /* 1: the input is a compact trace for mt_device_parts_open (host.h) instead */
};

struct mt_source_options {
    unsigned flags;
    const char *const
        *companions; /* companions[i] belongs to paths[i]; default, also for NULL entries: path + ".meta" */
    size_t ncompanions;
    const volatile sig_atomic_t *stop; /* flag that stops reading; may be NULL */
    unsigned threads; /* threads that decode compact traces, with the source's own; 0, 1: only that one */
    const struct mt_launch_ends
        *ends;           /* NULL, or one for each path. Until it is rewound, the source then returns places
                          * instead of records or runs. For a raw trace an item is a launch, with the place of
                          * its first record (mt_item.offset) and the number of records; for a compact trace
                          * it is MT_ITEM_RUNS with the chunks offset .. offset + count - 1 */
    uint64_t first, end; /* launches [first, end) are read, end 0: all. Others are returned unread
                          * (mt_item.unread) if they are in a compact trace with index, else as usual */
    const int *fds;      /* NULL, or open descriptors, owned by the source; paths are then only names */
    const unsigned char *absent; /* NULL, or for each path 1: only its companion is here (`companions`); its
                                  * launches come in their order, without records */
};

struct mt_source;

/* Number of inputs and their paths; owned by the source. */
MT_API size_t mt_source_inputs(const struct mt_source *s);
MT_API const char *mt_source_path(const struct mt_source *s, size_t input);

enum mt_item_kind {
    MT_ITEM_BATCH, /* records; sets `superstep`, `kernel`, `records`, `count`, `flags`, `input`, `launch` */
    MT_ITEM_RUNS,  /* runs in place of records, with `count` of them, in the same order */
    MT_ITEM_COPY,  /* host copy or fill that precedes the next launch: `copy` */
    MT_ITEM_HOST,  /* accesses of host code: `host`, `count`, `thread`, `seq`, `input`; they follow everything
                    * that companion files number up to `seq` and precede everything with a higher number */
};

/* Access of host code. */
struct mt_host_site_info;
struct mt_host_access {
    uint64_t address;
    const struct mt_host_site_info *site; /* memtrace/host.h; never NULL, valid as long as the source */
    uint32_t size;                        /* bytes; 0: the instruction touches no memory */
    uint32_t reserved;
};

struct mt_item {
    enum mt_item_kind kind;
    uint64_t superstep; /* number of the launch: launches before this item, over all inputs */
    const char *kernel; /* valid as long as the source; equal names have equal pointers */
    const struct mt_raw_record *records; /* NULL if places were requested */
    uint64_t offset;                     /* raw records: offset of the first one in its trace */
    const struct mt_access_run *runs;    /* memtrace/device.h; NULL if places were requested */
    size_t count;
    unsigned flags;                       /* enum mt_batch_flags */
    size_t input;                         /* index of the input in the paths */
    const struct mt_launch_event *launch; /* the launch's line; NULL if no companion file has it */
    const struct mt_copy_event *copy;
    const struct mt_host_access *host;
    uint64_t thread, seq; /* host accesses: number of the thread in its trace, and sequence number in force */
    uint64_t life;        /* host accesses: 1 + number of a thread that ended before them, or with
                           * MT_THREAD_BEGAN of a thread that began; 0: none */
    size_t host_count; /* MT_ITEM_RUNS of host code: number of accesses in `host`, the origin of the runs */
    uint64_t unread;   /* number of accesses of a whole launch that was skipped; the item has none of them */
};

struct mt_source;

/* Opens all inputs. A damaged input fails neither here nor in mt_source_next: its intact part is returned,
 * and mt_source_problems has the damage. Unless all inputs have companion files, the order is that of
 * `paths`. Returns NULL with *err set on failure. Inputs that cannot be read twice (FIFO, pipe) are spooled
 * to an unnamed file in $TMPDIR if order, host copies or a rewind require it; this call then reads them to
 * their end. */
MT_API struct mt_source *mt_source_open(const char *const *paths, size_t npaths,
                                        const struct mt_source_options *o, struct mt_error *err);
/* Reads the next item, valid until the call after the next. Returns 1, 0 at the end (or if stopped, see the
 * problems), or -1 with *err set (MT_E_SYSTEM). */
MT_API int mt_source_next(struct mt_source *s, struct mt_item *item, struct mt_error *err);
/* Starts again at the first launch. Needs MT_SOURCE_REWIND. Returns 0, or -1 with *err set. */
MT_API int mt_source_rewind(struct mt_source *s, struct mt_error *err);
/* Switches MT_SOURCE_SPACES on or off, from the next rewind on. */
MT_API void mt_source_spaces(struct mt_source *s, int on);
MT_API void mt_source_close(struct mt_source *s);

/* Stops reading as if the stop flag had been raised: no more items come, and the problems report it. */
MT_API void mt_source_stop(struct mt_source *s);

/* Call the functions below that concern the end after mt_source_next returned 0 or -1; an earlier call ends
 * the reading. mt_source_problems returns damage in the order found: truncated, corrupt and unreadable
 * inputs, MT_E_STOPPED. */
MT_API const struct mt_error *mt_source_problems(struct mt_source *s, size_t *count);
/* Returns sentences on missing or assumed data; owned by the source. `complete` becomes 0 if something is
 * missing, or if completeness is unknown because a raw trace was read without companion file. */
MT_API const char *const *mt_source_notes(struct mt_source *s, size_t *count, int *complete);
/* Returns 1 if data is known to be missing, -1 if there was no memory to note it, else 0. */
MT_API int mt_source_lacks(struct mt_source *s);
/* Returns 1 if companion files name streams that are not among the inputs. May be called at any time. */
MT_API int mt_source_partial(const struct mt_source *s);
/* Returns the launches of all companion files, each once, by ascending seq, in a list that the caller frees;
 * NULL without memory. */
MT_API const struct mt_launch_event **mt_source_launches(struct mt_source *s, size_t *count);
/* Counts accesses without record and launches without trace, as the companion files report them. Returns 0,
 * or -1 with *err set. */
MT_API int mt_source_untraced(struct mt_source *s, uint64_t *accesses, uint64_t *launches,
                              struct mt_error *err);
/* Returns 0 if launches are in the order of the inputs because companion files are missing, else 1 (always
 * for a single input). */
MT_API int mt_source_ordered(const struct mt_source *s);
/* Returns the number of processes of the job that the inputs come from, or 1 if unknown. With several, all
 * numbers, streams and addresses are unique in the job: an address has the process's number, by rank, from
 * bit 48 on. */
MT_API size_t mt_source_processes(const struct mt_source *s);
/* Returns the number of the input's process in the job, which its addresses have. */
MT_API size_t mt_source_process(const struct mt_source *s, size_t input);
/* Returns the name of the machine that has this device, in a job over several machines, and sets *first to
 * the number of that machine's device 0; NULL: there is one machine, or it is the host (device < 0). */
MT_API const char *mt_source_machine(const struct mt_source *s, int64_t device, int64_t *first);
/* Returns 1 if accesses of host code are returned: a compact trace has some that can be ordered. */
MT_API int mt_source_host(const struct mt_source *s);
/* Returns 0 unless all inputs are host traces; else 1, or 2 if all have times, so that the accesses of the
 * threads come in an order that really occurred. Each trace is then one launch of its program: the kernel's
 * name is the name of the program's file, the CTA's x is the thread's number. Runs come with the accesses
 * they were made from; `seq`, which identifies live allocations, may ascend within the launch. Copies (new
 * memory, realloc) are among the items. */
MT_API int mt_source_threads(const struct mt_source *s);
/* Returns allocations of all inputs by ascending id; owned by the source. Empty without companion files. */
MT_API const struct mt_alloc_event *mt_source_allocs(struct mt_source *s, size_t *count);
/* Returns the companion of an input, or NULL if there is none (for a live input: until its end). */
MT_API const struct mt_companion *mt_source_companion(const struct mt_source *s, size_t input);
/* Reports the bytes read so far and the total (0: not known), for progress. May be called during a read. */
MT_API void mt_source_progress(struct mt_source *s, uint64_t *done, uint64_t *total);

#ifdef __cplusplus
}
#endif
#endif
