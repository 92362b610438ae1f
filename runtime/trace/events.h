/* What happens in the process besides launches: the lines that are in every companion. They are gathered in
 * one log, once; companions copy from it (docs/trace-format.md says which keys). Thread-safe. Nothing is
 * logged while tracing is off (MEMTRACE_ENABLE=0, or in a forked child). */
#ifndef MT_COMMON_EVENTS_H
#define MT_COMMON_EVENTS_H
#include <stddef.h>
#include <stdint.h>
#include "site.h"

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
struct mt_jsonl;
/* "file" and "line" of a call, or its "at" and "callers". */
void mt_site_text(struct mt_jsonl *j, const struct mt_host_site *site);
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

struct mt_event_copy {
    const char *kind; /* h2h h2d d2h d2d */
    uint64_t dst, src, bytes;
    uint64_t width, height, dpitch, spitch; /* height 0: one block of `bytes` */
    int64_t stream;                         /* -1: has no trace */
    int unchanged;                          /* its destination holds these bytes already; else 0 */
    int dst_device, src_device;             /* as of mt_event_alloc */
};
/* The lines of copies, fills and launches that this thread writes from now on are of this operation of a
 * stream (0: none). Returns which one it was before. */
uint64_t mt_event_set_op(uint64_t op);
/* The operation being written about, or 0. */
uint64_t mt_event_op(void);
/* What comes before it: it is number `n` of its stream, and pairs are (stream, number in that). */
void mt_event_order(uint64_t op, uint64_t stream, uint64_t n, const uint64_t *pairs, size_t npairs);
void mt_event_memcpy(const struct mt_event_copy *c, const struct mt_host_site *site);

struct mt_event_fill {
    uint64_t dst, value, bytes;
    uint64_t width, height, pitch; /* height 0: one block of `bytes` */
    int64_t stream;
};
void mt_event_memset(const struct mt_event_fill *f, const struct mt_host_site *site);
/* Accesses of one launch at one place that must not be (MEMTRACE_CHECK=1). */
struct mt_event_check {
    const char *kernel, *why,
        *near; /* why: "illegal", "misaligned" …; near: the nearest allocation in words, or what it is */
    const char *side;  /* where the access lies, seen from it; NULL: not of memory */
    int64_t alloc;     /* its id; -1: none */
    uint64_t distance; /* bytes to its end, or its beginning */
    uint64_t launch;   /* seq of its launch line */
    int access;        /* 0: none, it has no site, op, bytes and address; file and line are the kernel's */
    uint64_t site;     /* id of its site line */
    const char *file;
    uint32_t line, op, bytes; /* op: enum mt_access_type; and of the first one: */
    uint64_t address, count;
    uint32_t cta[3], thread[3];
};
void mt_event_check(const struct mt_event_check *c);
/* A CUDA call that returned an error, or a launch that ended with one (MEMTRACE_CHECK=1). */
struct mt_event_failed {
    const char *call, *error;
    int code;
    const struct mt_host_site *site;
    const char *at, *why;       /* at: "MODULE+0xOFFSET"; NULL or "": not known */
    const char *const *callers; /* like at: who has called that, innermost first */
    size_t ncallers;
    const char *kernel; /* of a launch, else NULL */
    uint64_t launch;    /* seq of its line */
    int64_t freed;      /* id of an allocation that was freed before; -1: none */
    uint64_t count;
    uint64_t more; /* not 0: no call, but so many failures of calls for which there was no room */
};
void mt_event_failed(const struct mt_event_failed *f);
/* How many of these there have been, and of mt_event_check. */
uint64_t mt_event_findings(void);
/* memcpy lines so far. */
uint64_t mt_event_copies(void);
/* An NVTX range. Numbered when it begins (mt_event_seq) and again when it ends. */
struct mt_event_range {
    const char *name, *domain, *kind; /* domain: "" is the default one; kind: "push" or "start" */
    uint64_t thread;                  /* that began it: the system's id */
    uint64_t begin, begin_ns;
};
/* It ends now; still_open: the process does. */
void mt_event_range(const struct mt_event_range *r, int still_open);
/* what: "device" (id unused), "stream" (id: trace number or -1), "event" (id of the event). */
void mt_event_sync(const char *what, int64_t id);
/* op: "record" or "wait". */
void mt_event_event(const char *op, uint64_t event, int64_t stream);

/* A stream has got a trace, `trace` without folder; or not, for the reason `why` (else NULL). */
void mt_event_stream(uint64_t stream, const char *trace, const char *why);

/* An instruction that makes accesses. */
struct mt_event_site {
    uint32_t id, line, column;
    uint32_t op, size;                      /* as in a record; 0: known at run time */
    int strong;                             /* as in image.def */
    const char *file, *function, *variable; /* "" where it is not known */
    const char *at,
        *symbol;      /* of machine code: where it is, "kernel+0x120", and in which symbol; else NULL */
    const char *code; /* the file with the machine code; NULL: there is none */
    int guess;        /* 1: the function may be another one */
};
void mt_event_site(const struct mt_event_site *s);
struct mt_image_head;
/* The site lines of an image, numbered from `base`. */
void mt_event_sites(const struct mt_image_head *head, uint32_t base);

/* ---- for companions ---- */
struct mt_jsonl;
/* Appends a finished line to the log. */
void mt_log_line(const struct mt_jsonl *j);
/* Bytes in the log so far. */
uint64_t mt_log_size(void);
/* Copies up to `bytes` from position `from`; returns the number copied (0: end, or it cannot be read). */
size_t mt_log_read(uint64_t from, void *out, size_t bytes);
/* Bytes that never came into the log because memory or disk ran out. */
uint64_t mt_log_dropped(void);
#endif
