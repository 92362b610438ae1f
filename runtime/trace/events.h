/* What happens in the process besides launches: the lines that are in every companion. They are gathered in
 * one log, once; companions copy from it (docs/trace-format.md says which keys). Thread-safe. Nothing is
 * logged while tracing is off (MEMTRACE_ENABLE=0, or in a forked child). */
#ifndef MT_COMMON_EVENTS_H
#define MT_COMMON_EVENTS_H
#include "base/line.h"
#include "site.h"
#include <stddef.h>
#include <stdint.h>

uint64_t mt_now_ns(void); /* CLOCK_MONOTONIC */
/* 1 when this process is traced. */
int mt_tracing(void);

/* The next sequence number, for an event whose line is written later. */
uint64_t mt_event_seq(void);
/* The number that the next event gets: those of all before it are lower. */
uint64_t mt_event_next(void);
/* Tables of sites in the log so far. */
uint64_t mt_log_sites(void);
/* 1: some of them are of shared or local memory, or barriers. */
int mt_log_spaces(void);
/* Returns the allocation's id (0, 1, 2 …). `name` and `site` may be NULL. device: whose memory it is, of
 * those of the CPU device; -1: of none; written where there are several. */
uint64_t mt_event_alloc(uint64_t base, uint64_t bytes, const char *kind, const char *name, int device,
                        const struct mt_host_site *site);
void mt_event_free(uint64_t id, uint64_t base);
/* The allocation is called so from its beginning; a later name counts. */
void mt_event_name(uint64_t id, const char *name);
/* Another process may open the allocation, or it is another's that was opened: by this handle. */
void mt_event_share(uint64_t id, int opened, const void *handle, size_t size);
/* A rank of a communicator of `ranks`, and its device. */
void mt_event_communicator(uint64_t comm, int rank, int ranks, int device);
/* How many allocations there have been: the next one's id. */
uint64_t mt_event_allocations(void);

/* The lines of copies, fills and launches that this thread writes from now on are of this operation of a
 * stream (0: none). Returns which one it was before. */
uint64_t mt_event_set_op(uint64_t op);
/* The operation being written about, or 0. */
uint64_t mt_event_op(void);
/* What comes before it: it is number `n` of its stream, and pairs are (stream, number in that). */
void mt_event_order(uint64_t op, uint64_t stream, uint64_t n, const uint64_t *pairs, size_t npairs);
/* Those that say no more: seq, begin_ns, op and the call's place are filled in here. Devices are those of the
 * CPU device, -1: of none; height 0: one block of `bytes`. */
void mt_event_memcpy(const struct mt_memcpy_line *c, const struct mt_host_site *site);

void mt_event_memset(const struct mt_memset_line *f, const struct mt_host_site *site);
/* Accesses of one launch at one place that must not be (MEMTRACE_CHECK=1). */
void mt_event_check(const struct mt_check_line *c);
/* A CUDA call that returned an error, or a launch that ended with one (MEMTRACE_CHECK=1). */
void mt_event_failed(const struct mt_failed_line *f);
/* How many of these there have been, and of mt_event_check. */
uint64_t mt_event_findings(void);
/* memcpy lines so far. */
uint64_t mt_event_copies(void);
/* An NVTX range, numbered when it began (mt_event_seq), ends now; still_open: the process does. */
void mt_event_range(const struct mt_range_line *r, int still_open);
/* what: "device" (id unused), "stream" (id: trace number or -1), "event" (id of the event). */
void mt_event_sync(const char *what, int64_t id);
/* op: "record" or "wait". */
void mt_event_event(const char *op, uint64_t event, int64_t stream);

/* A stream has got a trace, `trace` without folder; or not, for the reason `why` (else NULL). */
void mt_event_stream(uint64_t stream, const char *trace, const char *why);

/* An instruction that makes accesses; its `op` and `size` are as in a record. */
void mt_event_site(const struct mt_site_line *s, uint32_t op);
/* What site and check lines call a record's. */
const char *mt_op_text(uint32_t op);
struct mt_image_head;
/* The site lines of an image, numbered from `base`. */
void mt_event_sites(const struct mt_image_head *head, uint32_t base);

/* ---- for companions ---- */
/* Appends a line to the log. */
void mt_log_line(enum mt_line_kind kind, const void *line);
/* What it says of the place of a call: "file" and "line", or "at" and "callers". */
#define MT_LINE_PLACE(l, site)                                                                               \
    do {                                                                                                     \
        const struct mt_host_code *code_ = mt_host_code_of(site);                                            \
        (l)->file = (site) ? (site)->file : "";                                                              \
        (l)->line = (site) ? (site)->line : 0;                                                               \
        (l)->at = code_ ? code_->at[0] : NULL;                                                               \
        (l)->callers = (mt_line_strings){code_ ? (const char *const *)&code_->at[1] : NULL,                  \
                                         code_ ? code_->ncallers : 0};                                       \
    } while (0)
/* Bytes in the log so far. */
uint64_t mt_log_size(void);
/* Copies up to `bytes` from position `from`; returns the number copied (0: end, or it cannot be read). */
size_t mt_log_read(uint64_t from, void *out, size_t bytes);
/* Bytes that never came into the log because memory or disk ran out. */
uint64_t mt_log_dropped(void);

/* ---- Lines of copies and fills of several planes: one for each plane, as docs/trace-format.md has
 * them. Addresses and strides are in bytes, `slice` being from one plane to the next ---- */

struct mt_planes {
    uint64_t at, pitch, slice;
    int device; /* as of mt_event_alloc */
};
/* What of each side is copied or filled: `width` bytes of each of `height` rows of each of `depth` planes. */
struct mt_planes_size {
    uint64_t width, height, depth;
};
/* `what`: all that the lines say beside these: `kind`, `stream` …; `site` may be NULL. */
struct mt_memcpy_line;
void mt_planes_copied(struct mt_planes dst, struct mt_planes src, struct mt_planes_size size,
                      const struct mt_memcpy_line *what, const struct mt_host_site *site);
/* `stream`: number of the stream's trace, or -1; `value`: of a byte, or of an element. */
void mt_planes_filled(struct mt_planes dst, struct mt_planes_size size, uint64_t value, int64_t stream,
                      const struct mt_host_site *site);

/* ---- What the source files of a program's code held while it ran: `source` lines of companions.
 * Whoever reads a trace can see from them whether a file is still the one that was meant, and that the
 * trace's writer knew it ---- */

/* Writes the line of a file when its name is met for the first time, if it is a regular file of a size that
 * sources have and can be read. */
void mt_source_line(const char *file);
/* Writes a text that is in no file (PTX of the program's) into MEMTRACE_DIR, under a name that says what is
 * in it; it is not written again when it is there. From here on sites that call their file so have its path.
 */
void mt_source_keep(const char *name, const void *text, size_t bytes);
/* Writes what is no text (machine code) there in the same way. `name`: without a folder. 0, or -1 after
 * saying why. */
int mt_source_put(const char *name, const void *data, size_t bytes);

/* ---- Of which job this process is: what mpirun, srun or torchrun started together ---- */

struct mt_job {
    char name[128]; /* "": it is alone, or nobody says */
    unsigned rank, ranks;
};
/* MEMTRACE_JOB's name, else the launcher's; looked up once. */
const struct mt_job *mt_job(void);
#endif
