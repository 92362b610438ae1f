/* Reading traces: libmemtrace-reader (static library target mtread). C11 and C++.
 *
 * Three levels, each usable alone:
 *   mt_reader     one raw trace (a path, a FIFO, "-" or a descriptor): batches of whole records
 *   mt_companion  one MemTrace-pipe-N.meta: launches, allocations, copies, sites, losses
 *   mt_source     several traces with their companions: launches in launch order, host copies between them
 * Formats: docs/trace-format.md (normative).
 *
 * Errors: functions that can fail take a `struct mt_error *` (never NULL) and say in their comment what they
 * return; the message is one line that names the file and, where there is one, the byte offset. Nothing is
 * printed. Threads: objects are not shared between threads by their users; mt_source has one thread of its
 * own, and those that mt_source_options.threads asks for. */
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
    MT_E_SYSTEM = 1, /* the system said no in the middle: read error, no memory, no room for a spool file */
    MT_E_INPUT = 2,  /* cannot be opened, a directory, given twice, does not go with the other inputs */
    MT_E_TRUNCATED = 3, /* ends inside a record or a kernel; what came before is whole */
    MT_E_CORRUPT = 4,   /* cannot be a trace from `offset` on; what came before is whole */
    MT_E_STOPPED = 5,   /* the stop flag was raised */
};

struct mt_error {
    enum mt_code code;
    int sys;         /* errno, or 0 */
    uint64_t offset; /* byte offset in the input that the message speaks of, 0 if it has none */
    char message[512];
};

/* ---- one raw trace ----------------------------------------------------------------------------------- */

enum mt_batch_flags {
    MT_BATCH_BEGIN = 1, /* first batch of its launch */
    MT_BATCH_END = 2,   /* last batch of its launch: the end mark was read */
};

/* Records of one launch. Each launch yields at least one batch, which may have no record. A launch that is
 * cut off yields what is whole and no MT_BATCH_END; then comes the error. */
struct mt_batch {
    const struct mt_raw_record *records; /* types are 0..3 and sizes >= 1: checked */
    size_t count;
    const char
        *kernel; /* UTF-8, valid until the reader is closed; equal names of one reader have equal pointers */
    uint64_t launch; /* 0-based in this trace */
    uint64_t offset; /* of records[0] in the trace */
    unsigned flags;  /* enum mt_batch_flags */
};

struct mt_reader;

/* Opens `path`; "-" is standard input. A FIFO waits for its writer at the first read. NULL: *err says why.
 * `stop` may be NULL; when it becomes non-zero, reading ends with MT_E_STOPPED within 0.1 s,
 * waiting reads included. */
MT_API struct mt_reader *mt_reader_open(const char *path, const volatile sig_atomic_t *stop,
                                        struct mt_error *err);
/* Reads from `fd`, which mt_reader_close closes if `owned`. `name` is for messages. */
MT_API struct mt_reader *mt_reader_open_fd(int fd, const char *name, int owned,
                                           const volatile sig_atomic_t *stop, struct mt_error *err);
/* The next batch: 1; the end: 0; an error: -1, and again at each further call. The records are the reader's
 * and valid until the next call. */
MT_API int mt_reader_next(struct mt_reader *r, struct mt_batch *batch, struct mt_error *err);
/* The same, with room for `capacity` (>= 1) records given by the caller. */
MT_API int mt_reader_fill(struct mt_reader *r, struct mt_raw_record *room, size_t capacity,
                          struct mt_batch *batch, struct mt_error *err);
/* Bytes of the trace consumed so far. */
MT_API uint64_t mt_reader_offset(const struct mt_reader *r);
MT_API void mt_reader_close(struct mt_reader *r);

/* Puts records[0 .. count) together as runs, in order: neighbours of one CTA, SM and meta word whose
 * addresses have one distance. Writes at most `room` runs; returns their number, *taken is the number of
 * records that they hold (count, unless the room was too small).
 * No run goes beyond what one call is given. */
MT_API size_t mt_runs_from_records(const struct mt_raw_record *records, size_t count,
                                   struct mt_access_run *runs, size_t room, size_t *taken);
/* The records of runs[*run ..], from access *lane of the first one on, at most `capacity` (>= 1); returns
 * their number. *run and *lane move on; at the end *run is `count`. */
MT_API size_t mt_records_from_runs(const struct mt_access_run *runs, size_t count, size_t *run,
                                   uint32_t *lane, struct mt_raw_record *records, size_t capacity);

/* For several processes that share the reading of one raw trace, a file. The places right after the end
 * marks of its launches that lie in (from, to], ascending; the caller frees *ends. Any part of the file will
 * do, all parts together give all. 0, or -1 with *err. */
MT_API int mt_raw_ends(const char *path, uint64_t from, uint64_t to, uint64_t **ends, size_t *count,
                       struct mt_error *err);
/* 1 if `ends` are those of all launches of a whole trace of `size` bytes: the launches first, first + step, …
 * are looked at. 0: damaged, or something else. */
MT_API int mt_raw_ends_fit(const char *path, uint64_t size, const uint64_t *ends, size_t count, size_t first,
                           size_t step);

/* ---- one companion ----------------------------------------------------------------------------------- */

#define MT_SEQ_NONE UINT64_MAX /* "never" or "not known" */
/* From here on: launches that are host programs (mt_source_threads), all of whose events are within them. */
#define MT_THREAD_BEGAN (1ull << 63)
#define MT_SEQ_PROGRAM (UINT64_MAX - (1ull << 32))

/* What a rank does in a collective of a library (docs/trace-format.md). */
struct mt_collective {
    const char *op; /* "allreduce" …; "" or NULL: it is none, or the line says what cannot be */
    uint64_t comm, rank, ranks, count, size;
    int64_t root, peer; /* -1: it has none */
};

/* An operation comes after the first `n` of this stream. The streams are numbered for this alone. */
struct mt_order_pair {
    uint64_t stream, n;
};

/* NEW: memory that was just allocated, its bytes have no writer (a source hands these out between the
 * launches; they are in no companion's `copies`, and `file` is NULL). SET: `src` is 0, as of NEW. */
enum mt_copy_kind { MT_COPY_H2H, MT_COPY_H2D, MT_COPY_D2H, MT_COPY_D2D, MT_COPY_SET, MT_COPY_NEW };

enum { MT_FAILED_CALLERS = 6 };

/* A struct for each kind of line, with its keys as events.def describes them: mt_launch_event,
 * mt_alloc_event, mt_copy_event (of memcpy and memset), mt_site_event … Strings of a companion are never NULL
 * ("" when the key is missing, but mt_stream_event.why) and live as long as it does. */
typedef uint64_t mt_event_u64, mt_event_id, mt_event_address, mt_event_stream;
typedef int64_t mt_event_i64, mt_event_device; /* device: -1: of none, or there is one */
typedef int mt_event_int, mt_event_bool;
typedef const char *mt_event_string, *mt_event_strings; /* strings: a line each */
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
    int regular; /* a regular file: may be loaded again for more */
    int own;     /* and the user's own (of a container: that file) */
    /* keys of `header` and `end`, of the last one */
#define MT_EV_KEY(type, key, when, absent, words) mt_event_##type key;
#define MT_EV_NO_LISTS
#define MT_EV_NO_REST
#include "memtrace/events.def"
    int has_header, has_end, has_written; /* written: the key "records_written" was there */
#define MT_NO_END                                                                                            \
    "the program was killed, left by _exit or quick_exit, could not write it (a full disk), or still runs"
    /* launches, allocs … and how many, nlaunches …: in the order of the file, but allocations by id, copies
     * by seq */
#define MT_EV_LIST(ev, name, list, then, words)                                                              \
    struct mt_##name##_event *list;                                                                          \
    size_t n##list;
#include "memtrace/events.def"
    const char *shared; /* the process's events are in this companion, without folder; "": in this one */
    uint64_t lost;      /* sum of the counts of `lost` lines */
    const char *lost_why;
    /* lines that could not be read: count, and what was wrong with the first one (with its offset) */
    uint64_t bad_lines;
    struct mt_error bad;
};

/* Reads to the end of the file or FIFO. NULL: *err says why (MT_E_INPUT with sys = ENOENT when there is
 * none). Lines that are not JSON are skipped and counted; unknown events and keys are ignored. Of several
 * `end` lines the last one counts. */
MT_API struct mt_companion *mt_companion_load(const char *path, struct mt_error *err);
/* What the first line of a regular file says; NULL: there is none. */
MT_API struct mt_companion *mt_companion_head(const char *path);
MT_API void mt_companion_free(struct mt_companion *c);
/* The site of that number; NULL: not known, or c is NULL. */
MT_API const struct mt_site_event *mt_companion_site(const struct mt_companion *c, uint64_t id);

/* ---- several traces in launch order ------------------------------------------------------------------ */

enum mt_source_flags {
    MT_SOURCE_NO_COMPANION = 1, /* do as if there were none */
    MT_SOURCE_NO_HOST = 2,      /* no MT_ITEM_HOST, and no MT_ITEM_COPY but of new memory */
    MT_SOURCE_REWIND = 4,       /* mt_source_rewind will be called: spool what cannot be read twice */
    MT_SOURCE_RUNS = 16,        /* records are handed out as runs: MT_ITEM_RUNS instead of MT_ITEM_BATCH */
    MT_SOURCE_OWN_RUNS = 32,    /* containers' runs are handed out as MT_ITEM_RUNS, raw traces' records as
                                   MT_ITEM_BATCH: each as it is, for who takes both */
    MT_SOURCE_SPACES = 64,     /* with runs: containers' accesses of shared and local memory and barriers, too
                                  (record.h: mt_rec_space); without it nobody sees them */
    MT_SOURCE_NO_MEMORY = 128, /* no MT_ITEM_COPY at all: a single FIFO or pipe is then read live, without a
                                  spool file, as it is without companion */
    MT_SOURCE_HOST = 8, /* compact containers of host accesses (host.h) may be among the inputs: MT_ITEM_HOST;
                           without it they are MT_E_INPUT. Those of kernels are traces as raw ones are. If
                           there are no others, a program is a launch, and each thread a CTA of it:
                           MT_ITEM_RUNS (mt_source_threads) */
};

/* Of a raw trace, as mt_raw_ends finds them; they live as long as the source that is given them. */
struct mt_launch_ends {
    const uint64_t *ends;
    size_t count;
    int chunks; /* the input is not a raw trace, but a container for mt_device_parts_open (host.h) */
};

struct mt_source_options {
    unsigned flags;
    const char *const
        *companions; /* companions[i] belongs to paths[i]; NULL entries and NULL: path + ".meta" */
    size_t ncompanions;
    const volatile sig_atomic_t *stop; /* may be NULL */
    unsigned threads; /* so many decode compact traces ahead, the source's own one among them; 0, 1: that one
                         alone */
    const struct mt_launch_ends
        *ends;           /* NULL, or one for each path: until it is rewound, the source hands out places
                            instead of records or runs: of a launch at a time the place of its first
                            record (mt_item.offset) and their number or, of a container, the numbers of
                            its chunks, offset .. offset + count - 1, as MT_ITEM_RUNS */
    uint64_t first, end; /* launches [first, end) are read, end 0: all; of a container with index others are
                            handed out unread (mt_item.unread), in other inputs they are as any */
    const int *fds;      /* NULL, or open descriptors, which become the source's; paths only name them then */
};

struct mt_source;

/* How many inputs there are, and their paths; the source's. */
MT_API size_t mt_source_inputs(const struct mt_source *s);
MT_API const char *mt_source_path(const struct mt_source *s, size_t input);

enum mt_item_kind {
    MT_ITEM_BATCH, /* records; sets `superstep`, `kernel`, `records`, `count`, `flags`, `input`, `launch` */
    MT_ITEM_RUNS,  /* the same with `runs` and `count` of them in place of records, in the same order */
    MT_ITEM_COPY,  /* a host copy or fill that precedes the next launch: `copy` */
    MT_ITEM_HOST,  /* accesses of host code: `host`, `count`, `thread`, `seq`, `input`; after all that the
                      companions number up to `seq`, before all that has a higher number */
};

/* An access of host code. */
struct mt_host_site_info;
struct mt_host_access {
    uint64_t address;
    const struct mt_host_site_info *site; /* memtrace/host.h; never NULL, lives as long as the source */
    uint32_t size;                        /* bytes; 0: an instruction that touches no memory */
    uint32_t reserved;
};

struct mt_item {
    enum mt_item_kind kind;
    uint64_t superstep;                  /* launches before this item, over all inputs */
    const char *kernel;                  /* lives as long as the source; equal names have equal pointers */
    const struct mt_raw_record *records; /* NULL where places are asked for */
    uint64_t offset;                     /* of raw records: of the first one in its trace */
    const struct mt_access_run *runs;    /* memtrace/device.h; NULL where places are asked for */
    size_t count;
    unsigned flags;                       /* enum mt_batch_flags */
    size_t input;                         /* index into the paths */
    const struct mt_launch_event *launch; /* NULL when no companion has it */
    const struct mt_copy_event *copy;
    const struct mt_host_access *host;
    uint64_t thread, seq; /* of host accesses: number in its trace, sequence number in force */
    uint64_t life;     /* of those: 1 + number of a thread that has ended before these, | MT_THREAD_BEGAN: has
                          begun;     0: none */
    size_t host_count; /* of MT_ITEM_RUNS of host code: `host` are the accesses that the runs are made of */
    uint64_t unread;   /* a whole launch that was not asked for: its accesses, none of which is here */
};

struct mt_source;

/* Opens all inputs. An input that is damaged does not fail here nor in mt_source_next: what is whole is
 * handed out, the damage is in mt_source_problems. Without companions for all inputs the order is that of
 * `paths`. NULL: *err says why. Inputs that cannot be read twice (FIFO, pipe) are spooled to an unnamed file
 * in $TMPDIR when order, host copies or a rewind need it; then this call reads them to their end. */
MT_API struct mt_source *mt_source_open(const char *const *paths, size_t npaths,
                                        const struct mt_source_options *o, struct mt_error *err);
/* 1: an item, whose contents are valid until the call after the next; 0: the end (or stopped, see the
 * problems); -1: *err (MT_E_SYSTEM). */
MT_API int mt_source_next(struct mt_source *s, struct mt_item *item, struct mt_error *err);
/* Starts again at the first launch. Needs MT_SOURCE_REWIND. 0, or -1 with *err. */
MT_API int mt_source_rewind(struct mt_source *s, struct mt_error *err);
/* With or without what MT_SOURCE_SPACES adds, from the next rewind on. */
MT_API void mt_source_spaces(struct mt_source *s, int on);
MT_API void mt_source_close(struct mt_source *s);

/* The user wants no more: as if the stop flag had been raised. Nothing comes any more,
 * and the problems say so. */
MT_API void mt_source_stop(struct mt_source *s);

/* The functions below that speak of the end may be asked after mt_source_next returned 0 or -1; earlier, they
 * end the reading. Damage, in the order found: truncated, corrupt and unreadable inputs, MT_E_STOPPED. */
MT_API const struct mt_error *mt_source_problems(struct mt_source *s, size_t *count);
/* Sentences on what is missing or was assumed. `complete` becomes 0 if something is missing, or if nothing
 * says that nothing is: a raw trace was read without companion. The strings are the source's. */
MT_API const char *const *mt_source_notes(struct mt_source *s, size_t *count, int *complete);
/* 1 if something is known to be missing, -1 if there was no memory to note it. */
MT_API int mt_source_lacks(struct mt_source *s);
/* Launches of all companions, each once, by ascending seq: a list that the caller frees. NULL without memory.
 */
MT_API const struct mt_launch_event **mt_source_launches(struct mt_source *s, size_t *count);
/* Accesses without record and launches without trace, as the companions say. 0, or -1 with *err. */
MT_API int mt_source_untraced(struct mt_source *s, uint64_t *accesses, uint64_t *launches,
                              struct mt_error *err);
/* 0 if the order of launches is that of the inputs for want of companions (always 1 for a single input). */
MT_API int mt_source_ordered(const struct mt_source *s);
/* How many processes of a job the inputs are of; 1: of one process, or nobody says. Of several all numbers,
 * streams and addresses are the job's: an address has the process's number, by rank, from bit 48 on. */
MT_API size_t mt_source_processes(const struct mt_source *s);
/* 1 if accesses of host code are handed out: there is a container and its accesses can be put in order. */
MT_API int mt_source_host(const struct mt_source *s);
/* 0, or, if the inputs are host traces alone, 1, and 2 if they all have times, so that the threads' accesses
 * come in an order that happened. Each of them is handed out as one launch of the program: the kernel's
 * name is that of the program's file, the CTA's x is the thread's number. Runs then come with the accesses
 * that they are made of, and `seq`, in force for the allocations, may ascend within the launch; copies (new
 * memory, what realloc took along) are among them. */
MT_API int mt_source_threads(const struct mt_source *s);
/* Allocations of all inputs by ascending id; a shared array of the source. Empty without companions. */
MT_API const struct mt_alloc_event *mt_source_allocs(struct mt_source *s, size_t *count);
/* The companion of an input, NULL if there is none (for a live input: until its end). */
MT_API const struct mt_companion *mt_source_companion(const struct mt_source *s, size_t input);
/* Bytes read so far and bytes in all (0 if not known), for progress displays.
 * May be called while a read is on. */
MT_API void mt_source_progress(struct mt_source *s, uint64_t *done, uint64_t *total);

#ifdef __cplusplus
}
#endif
#endif
