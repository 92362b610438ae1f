/* Writes one companion, MemTrace-pipe-N.meta: JSON lines as docs/trace-format.md says. Lines of the process's
 * log (events.h) are copied in before each line of its own, so a companion that begins late has them all.
 * Regular file or FIFO; a FIFO without reader holds nothing up: lines wait in memory until one comes.
 * Calls on one companion may come from many threads. When writing fails the reason is reported once and the
 * companion is off. */
#ifndef MT_COMMON_COMPANION_H
#define MT_COMMON_COMPANION_H
#include <stddef.h>
#include <stdint.h>
#include "site.h"

struct mt_companion_writer;

struct mt_companion_head {
    const char *device, *device_name; /* "cpu" or "gpu"; its name */
    unsigned sms, workers;
    const char *trace; /* file name of the trace, without folder */
    uint64_t stream;
    const char *format; /* of the trace; NULL: "raw" */
};

/* What a rank does in a collective of a library. */
struct mt_collective_line {
    const char *op; /* "allreduce" …; NULL: the launch is none */
    uint64_t comm, count;
    int rank, ranks, root, peer; /* root, peer: -1: it has none */
    uint32_t size;
};

struct mt_launch_line {
    uint64_t seq;
    uint64_t called; /* mt_event_next() when the program called for it */
    int64_t stream;  /* trace number, -1: none */
    int device;      /* of the CPU device; written where there are several */
    uint64_t op;     /* the operation of a stream that it is (mt_event_order); 0: not known */
    const char *kernel, *mangled, *signature;
    const char
        *source; /* its name where `kernel` has a number, too, as others have that name; NULL: kernel */
    const char *library; /* a call of this library ("cublas"), no kernel of the program; NULL: a kernel */
    struct mt_collective_line collective;
    uint32_t grid[3], block[3];
    uint64_t shared;     /* dynamic bytes */
    uint32_t cluster[3]; /* CTAs of its clusters in each direction, which may wait for each other; 0: none */
    int cooperative;     /* its CTAs may wait for each other (grid.sync) */
    const struct mt_host_site *site;
    uint64_t begin_ns, end_ns;
    uint64_t records; /* of this launch, as the device counted them */
    int barriers;     /* in a compact trace those of its threads have records */
    uint64_t others;  /* in a compact trace beside them: of shared and local memory, barriers */
    int sampled;      /* of a raw trace: by which its records are known */
    uint64_t sample;
    uint64_t untraced;
    uint64_t undefined; /* results of warp functions that CUDA does not define; CPU device */
    uint64_t parted;    /* times that requests may have been split; CPU device */
    /* The second count: accesses and bytes of loads, stores, atomics, by the program's own counters; the same
     * of the records. */
    int counted;    /* there is one */
    int no_records; /* and no records to compare with */
    uint64_t counts[6], recorded[6];
    int traced;           /* 1: name, records and EOT are in the trace */
    const char *left_out; /* not traced because of this setting; NULL: none */
    int in_parts;         /* MEMTRACE_CTAS or MEMTRACE_SAMPLE is set: of the CTAs that they may choose from */
    uint64_t ctas, traced_ctas; /* so many are (by MEMTRACE_CTAS), and so many of these are traced */
    int status;                 /* cudaError_t */
};

struct mt_companion_end {
    uint64_t written, counted, others, launches; /* written, counted: of global memory */
    int complete;
};

/* NULL: *why is a sentence for the user. */
struct mt_companion_writer *mt_companion_open(const char *path, const struct mt_companion_head *head,
                                              char *why, size_t size);
/* The same lines into a compact trace: `write` gets whole lines and returns 0 or an errno value; the
 * companion is then off without a word. One call at a time. */
struct mt_companion_writer *mt_companion_inside(const struct mt_companion_head *head,
                                                int (*write)(void *self, const char *lines, size_t bytes),
                                                void *self, char *why, size_t size);
/* A `kernel` line: what the chunks of a compact trace call it. */
void mt_companion_kernel(struct mt_companion_writer *c, uint64_t id, const char *name);
void mt_companion_launch(struct mt_companion_writer *c, const struct mt_launch_line *l);
void mt_companion_lost(struct mt_companion_writer *c, uint64_t count, const char *why);
/* Writes what waits in memory. force 0: only if the last time is a while ago; 1: the log, too. */
void mt_companion_flush(struct mt_companion_writer *c, int force);
/* Catches up with the log and writes an `end` line, unless nothing came since the last one. */
void mt_companion_end(struct mt_companion_writer *c, const struct mt_companion_end *e);
/* Gives the file descriptor back (regular files); a later flush opens the same file again. */
void mt_companion_park(struct mt_companion_writer *c);
void mt_companion_close(struct mt_companion_writer *c);

/* Bytes of the log that companions after the process's first one may repeat, all together (default 256 MiB).
 * Beyond it they name the first one in a `shared` line and leave the process's events to it: many streams
 * times many events would fill any disk. */
extern uint64_t mt_companion_repeats;

struct mt_jsonl;
/* The text of a `launch` line. */
void mt_launch_text(struct mt_jsonl *j, const struct mt_launch_line *l);
#endif
