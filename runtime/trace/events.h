/* Log of events in the process other than launches: the lines common to all companion files. They are written
 * once to one log, from which companion files are copied (keys: docs/trace-format.md). Thread-safe. Nothing
 * is logged while tracing is off (MEMTRACE_ENABLE=0, or in a forked child). */
#ifndef MT_COMMON_EVENTS_H
#define MT_COMMON_EVENTS_H
#include "base/json.h"
#include "site.h"
#include <stddef.h>
#include <stdint.h>

uint64_t mt_now_ns(void); /* CLOCK_MONOTONIC */
/* Returns 1 if this process is traced. */
int mt_tracing(void);
/* Returns 1 for a rank of a job (mpirun, srun, torchrun, MEMTRACE_JOB). */
int mt_event_in_job(void);
/* Leaves this process to another library of memtrace's, for good. */
void mt_tracing_elsewhere(void);

/* Returns the next sequence number, for an event whose line is written later. */
uint64_t mt_event_seq(void);
/* Returns the number of the next event; all events so far have lower ones. */
uint64_t mt_event_next(void);
/* Logs an allocation and returns its id (0, 1, 2 …). `name` and `site` may be NULL. device: owner among the
 * CPU device's GPUs, or -1; written if there are several. from: id of the allocation whose bytes it takes
 * over, or -1. */
uint64_t mt_event_alloc(uint64_t base, uint64_t bytes, const char *kind, const char *name, int device,
                        const struct mt_host_site *site, int64_t from);
void mt_event_free(uint64_t id, uint64_t base);
/* Names an allocation from its beginning; a later name replaces it. */
void mt_event_name(uint64_t id, const char *name);
/* Logs that an allocation was exported to, or opened from, another process by this handle. */
void mt_event_share(uint64_t id, int opened, const void *handle, size_t size);
/* Logs a rank of a communicator of `ranks`, and its device. */
void mt_event_communicator(uint64_t comm, int rank, int ranks, int device);
/* Returns the number of allocations so far: the id of the next one. */
uint64_t mt_event_allocations(void);

/* Sets the stream operation (0: none) of the copy, fill and launch lines that this thread writes from now on.
 * Returns the previous one. */
uint64_t mt_event_set_op(uint64_t op);
/* Logs that an allocation, or its free at `site`, has been reached in the stream of the current operation, if
 * order is recorded. id -1: not known. */
void mt_event_ordered(int64_t id, int freed, const struct mt_host_site *site);
/* Logs an access of the host at `site`; sets `seq`. */
void mt_event_touch(const struct mt_touch_line *t, const struct mt_host_site *site);
/* Logs that the host was not watched after so many of the calls that left work behind. */
void mt_event_unwatched(const char *why, uint64_t times, uint64_t of);
/* Logs the order of an operation. */
void mt_event_order(const struct mt_order_line *l);
/* Log lines that need no more: seq, begin_ns, op and the call's site are filled in here. Devices are those of
 * the CPU device, or -1; height 0: one block of `bytes`. */
void mt_event_memcpy(const struct mt_memcpy_line *c, const struct mt_host_site *site);

void mt_event_memset(const struct mt_memset_line *f, const struct mt_host_site *site);
/* Logs faulty accesses of one launch at one place (MEMTRACE_CHECK=1). */
void mt_event_check(const struct mt_check_line *c);
/* Logs a CUDA call that returned an error, or a launch that ended with one (MEMTRACE_CHECK=1). */
void mt_event_failed(const struct mt_failed_line *f);
/* Returns the number of check and failed lines so far. */
uint64_t mt_event_findings(void);
/* Logs an NVTX range that ends now and was numbered at its beginning (mt_event_seq); still_open: at process
 * exit. */
void mt_event_range(const struct mt_range_line *r, int still_open);
/* what: "device" (id unused), "stream" (id: trace number or -1), "event" (id of the event). */
void mt_event_sync(const char *what, int64_t id);
struct mt_tally_line;
/* Logs totals of a site; sets `seq`. */
void mt_event_tally(const struct mt_tally_line *line);
/* op: "record" or "wait". */
void mt_event_event(const char *op, uint64_t event, int64_t stream);

/* Logs that a stream has a trace, `trace` without folder, or none, for the reason `why` (else NULL). */
void mt_event_stream(uint64_t stream, const char *trace, const char *why);

/* Logs an instruction that makes accesses; `op` and `size` as in a record. */
void mt_event_site(const struct mt_site_line *s, uint32_t op);
/* Returns the name of a record's op in site and check lines. */
const char *mt_op_text(uint32_t op);
struct mt_image_head;
/* Logs the site lines of an image, numbered from `base`. */
void mt_event_sites(const struct mt_image_head *head, uint32_t base);

/* ---- for companion files ---- */
/* Sets the site fields of a line: "file" and "line", or "at" and "callers". */
#define MT_LINE_PLACE(l, site)                                                                               \
    do {                                                                                                     \
        const struct mt_host_code *code_ = mt_host_code_of(site);                                            \
        (l)->file = (site) ? (site)->file : "";                                                              \
        (l)->line = (site) ? (site)->line : 0;                                                               \
        (l)->at = code_ ? code_->at[0] : NULL;                                                               \
        (l)->callers = (mt_line_strings){code_ ? (const char *const *)&code_->at[1] : NULL,                  \
                                         code_ ? code_->ncallers : 0};                                       \
    } while (0)
/* Returns the size of the log in bytes. */
uint64_t mt_log_size(void);
/* Copies up to `bytes` from position `from`. Returns the number copied; 0: end, or unreadable. */
size_t mt_log_read(uint64_t from, void *out, size_t bytes);

/* ---- Copies and fills of several planes: one line per plane (docs/trace-format.md). Addresses and strides
 * are in bytes; `slice` is the stride between planes ---- */

struct mt_planes {
    uint64_t at, pitch, slice;
    int device; /* device as for mt_event_alloc */
};
/* Extent copied or filled: `depth` planes of `height` rows of `width` bytes. */
struct mt_planes_size {
    uint64_t width, height, depth;
};
/* `what`: all other fields of the lines, `kind`, `stream` …; `site` may be NULL. */
struct mt_memcpy_line;
void mt_planes_copied(struct mt_planes dst, struct mt_planes src, struct mt_planes_size size,
                      const struct mt_memcpy_line *what, const struct mt_host_site *site);
/* `stream`: number of the stream's trace, or -1; `value`: of a byte, or of an element. */
void mt_planes_filled(struct mt_planes dst, struct mt_planes_size size, uint64_t value, int64_t stream,
                      const struct mt_host_site *site);

/* ---- Contents of a program's source files while it ran: `source` lines of companion files. They show a
 * trace's readers whether a file has changed since ---- */

/* Writes the line of a file when its name first occurs, if it is a readable regular file of a plausible size.
 */
void mt_source_line(const char *file);
/* Writes a text without a file (PTX of the program) to MEMTRACE_DIR, under a name derived from its contents,
 * unless it is there already. Later sites with this file name get its path. */
void mt_source_keep(const char *name, const void *text, size_t bytes);
/* Writes binary data (machine code) in the same way. `name`: without a folder. Returns 0, or -1 after
 * reporting why. */
int mt_source_put(const char *name, const void *data, size_t bytes);
#endif
