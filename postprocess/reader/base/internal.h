/* Internal interface of postprocess/reader. */
#ifndef MT_LIB_INTERNAL_H
#define MT_LIB_INTERNAL_H
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "memtrace/host.h"
#include "memtrace/sample.h"
#include "memtrace/trace.h"
#include "base/text.h"

/* Sets *err and returns -1; the message is "NAME: byte OFFSET: text" (MT_E_TRUNCATED and MT_E_CORRUPT) or
 * "NAME: text". */
__attribute__((format(printf, 6, 7))) int mt_error_set(struct mt_error *err, enum mt_code code, int sys,
                                                       uint64_t offset, const char *name, const char *format,
                                                       ...);

/* Set of strings, in which equal strings have equal pointers; also of other values, which are aligned for
 * 64-bit numbers. Zero-initialised is empty. */
struct mt_intern {
    struct mt_intern_entry *head;
};
/* Returns NULL without memory. */
const char *mt_intern_add(struct mt_intern *set, const char *text, size_t length);
/* Adds text from a file with its control characters made visible; used for all names that readers return. */
const char *mt_intern_visible(struct mt_intern *set, const char *text, size_t length);
void mt_intern_free(struct mt_intern *set);

/* Creates a companion whose lines are added from memory. Returns NULL without memory. */
struct mt_companion *mt_companion_new(const char *name);
/* Adds whole lines; `offset` is that of the text, for messages. Returns 0, or -1 without memory. */
int mt_companion_add(struct mt_companion *c, const char *text, size_t bytes, uint64_t offset);
/* Loads a companion file without its launches, for which its trace is asked. */
struct mt_companion *mt_companion_load_rest(const char *path, struct mt_error *err);
/* Drops the copies, allocations and frees read so far, which the caller has taken over. */
void mt_companion_forget_memory(struct mt_companion *c);
/* Sorts the events. May be called again after more lines. */
void mt_companion_sort(struct mt_companion *c);

/* Flags that end reading: the user's, and the source's own when it is closed or asked early; may be NULL. */
struct mt_stop {
    const volatile sig_atomic_t *user, *own;
};
static inline int mt_stopped(const struct mt_stop *s)
{
    return (s->user && __atomic_load_n(s->user, __ATOMIC_RELAXED)) ||
           (s->own && __atomic_load_n(s->own, __ATOMIC_RELAXED));
}
/* Waits until `fd` can be read. Returns 1, or 0 if stopped. Regular files never wait. */
int mt_wait_readable(int fd, const struct mt_stop *stop);
void mt_reader_set_stop(struct mt_reader *r, const struct mt_stop *stop);
/* Skips records instead of reading them: batches have their number and place. Before anything is read. */
void mt_reader_set_ends(struct mt_reader *r, const struct mt_launch_ends *ends);
/* Returns 0 between launches at the clean end of the trace, 1 if more follows, damage included. May wait. */
int mt_reader_more(struct mt_reader *r);

/* Creates an unnamed file in $TMPDIR (or /tmp). Returns a descriptor, or -1 with *err set. */
int mt_spool_create(struct mt_error *err);
int mt_spool_write(int fd, const char *p, size_t n, struct mt_error *err);
/* Copies n descriptors that cannot seek, concurrently and to their ends, into spool[i]. Returns 0, or -1 with
 * *err set on failure of a spool file; a read error ends its input as a truncation does. *read counts the
 * bytes as they arrive. */
int mt_spool_fill(const int *fd, const int *spool, size_t n, const struct mt_stop *stop, uint64_t *read,
                  struct mt_error *err);

/* ---- one input of a source ---- */

struct mt_input;

/* Result of a pull in addition to the item. */
struct mt_pulled {
    uint64_t accesses;  /* accesses of the item */
    uint64_t bytes;     /* bytes read, also if there is no item */
    const char *kernel; /* with MT_BATCH_BEGIN: kernel of the launch, and its line in the companion file, or
                         * NULL */
    const struct mt_launch_event *event;
    int over; /* without item: the current launch has ended */
};

/* Operations of a kind of input: raw trace, not yet known, compact trace of kernels, compact trace of host
 * accesses beside kernels (has no launches) or without (is one launch). */
struct mt_input_ops {
    /* (Re)opens the input at its beginning. Returns 0, or -1 with *err set. */
    int (*start)(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err);
    /* Returns the seq of the next launch, or MT_SEQ_NONE if it is not known. */
    uint64_t (*peek)(struct mt_input *in);
    /* Reads the next batch, as mt_merge_next does; flags are in the item. Returns 1, 0 if there is none this
     * time, or -1 with *err set, a problem. With 0 and -1 it sets in->pass.finished. NULL: inputs without
     * launches. */
    int (*pull)(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                struct mt_access_run *runs, size_t capacity, struct mt_item *item, struct mt_pulled *p,
                struct mt_error *err);
    /* Returns 1 between launches, or 0 at the clean end, also where only a pull would show it. May wait. */
    int (*more)(struct mt_input *in);
    /* Completes the companion after the last launch. Returns 0, or -1 with *err set if it is incomplete. */
    int (*end)(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err);
    void (*close)(struct mt_input *in);
};
/* Identifies an unknown input by its first bytes. Those of a compact trace are then in a new file *spool, to
 * which the rest must be appended; otherwise the input is a raw trace, and *spool is -1. Returns 0, or -1
 * with *err set. */
extern const struct mt_input_ops mt_unknown_input, mt_raw_input, mt_device_input, mt_host_input,
    mt_threads_input;

struct mt_raw_state {
    struct mt_reader *reader;
    size_t next_launch; /* index into companion->launches of the next traced launch */
    uint64_t first;     /* place of the current launch's first record, and number of its records returned */
    uint64_t count;
    struct mt_sample sample; /* sample of the launch's records */
};

struct mt_container_state {
    struct mt_host_reader *reader;
    struct mt_run_batch batch; /* current batch, if records are requested */
    size_t run;                /* index of the next run in the batch */
    uint32_t lane;             /* index of the next access in the current run */
    int places;                /* 1: launches are returned as chunks, unread */
    size_t place;              /* index of the next launch to return */
    uint64_t seq;              /* sequence number of the current launch */
};

struct mt_host_state {
    struct mt_host_reader *reader;
    int merged;               /* 1: the host accesses are returned */
    struct mt_host_item head; /* item being returned */
    size_t taken;             /* records of the item returned so far */
    int has_head;
    uint64_t bad_offset; /* offset of the latest damage */
    /* without kernels: the program as a launch */
    struct mt_launch_event launch;
    char *program;           /* name of the program, as the launch's kernel */
    uint64_t life;           /* as in mt_item: thread whose start or end was read */
    uint64_t seq;            /* highest sequence number in force so far */
    int begun, ended;        /* the first batch, the last batch was returned */
    struct mt_error problem; /* problem that is not reported yet */
    int has_problem;
};

/* State of one pass over an input. */
struct mt_input_pass {
    int finished;       /* no further launch */
    int damaged;        /* a problem was found */
    uint64_t launches;  /* number of launches returned */
    uint64_t records;   /* records returned, of all launches */
    uint64_t in_launch; /* records returned, of the current launch */
    int mismatch;       /* 1: a note on a launch that differs from the companion file was made */
};

struct mt_input {
    const struct mt_input_ops *ops;
    const char *path;
    int fd, owned; /* the trace or its spool file */
    int live;      /* 1: the input cannot be read twice */
    uint64_t device, inode;
    int64_t start;                     /* file position of the trace's beginning */
    uint64_t size;                     /* size in bytes, 0 if not known */
    char *meta;                        /* path of the companion file, or NULL */
    int meta_optional;                 /* 1: a missing companion file is not an error */
    struct mt_companion *companion;    /* for a compact trace of kernels: its own meta lines */
    struct mt_companion *beside;       /* companion file beside a compact trace; may equal `companion` */
    const struct mt_launch_ends *ends; /* NULL, or places of launches whose records the first pass skips */
    struct mt_pool *pool;              /* pool of the source, with this number of threads for chunks */
    unsigned threads;
    int spaces;                       /* 1: a compact trace returns runs of all spaces */
    const struct mt_process *process; /* process of the input; NULL if there is only one */
    struct mt_input_pass pass;
    union { /* state of the input, by its ops */
        struct mt_raw_state raw;
        struct mt_container_state container;
        struct mt_host_state host;
    };
};

/* Returns 1 if the input has accesses of host code. */
static inline int mt_input_is_host(const struct mt_input *in)
{
    return in->ops == &mt_host_input || in->ops == &mt_threads_input;
}
/* Returns the reader of a compact trace of kernels, or NULL for other inputs. */
static inline struct mt_host_reader *mt_input_container(const struct mt_input *in)
{
    return in->ops == &mt_device_input ? in->container.reader : NULL;
}

/* Returns the companion of the input, for a compact trace its meta lines. May be NULL. */
const struct mt_companion *mt_input_companion(const struct mt_input *in);
/* Sets the stop flags of the reader of a compact trace. */
struct mt_window;
/* Returns 1 if the records of the ended launch differ from those its line was written for. */
int mt_sample_differs(const struct mt_sample *s, uint64_t records, const struct mt_launch_event *e);
#define MT_OTHER_RUN                                                                                         \
    "%s: launch %llu (byte %llu) has other records than those that %s was written of: the two are of "       \
    "different runs, or one was damaged. Find the companion of this trace (--companion=FILE), or read "      \
    "without "                                                                                               \
    "(--no-companion)"
/* Provides the first bytes of the trace, already read; at most 1 MiB. Before the first read. */
void mt_reader_preload(struct mt_reader *r, const unsigned char *bytes, size_t n);

/* Creates a source from one live compact trace (device chunks) of which only the head was read. `path` must
 * stay valid. Takes ownership of the reader. Returns NULL with *err set on failure. */
struct mt_source *mt_source_of_container(struct mt_host_reader *r, const char *path, unsigned flags,
                                         const volatile sig_atomic_t *stop, struct mt_error *err);

/* Merges the readers of all inputs in launch order, on the caller's thread. */
struct mt_source_merge {
    struct mt_input *inputs;
    size_t ninputs;
    struct mt_process *processes; /* processes of a job (processes.h); none for a single process */
    size_t nprocesses;
    struct mt_job_host *machines; /* machines of these processes, by lowest rank */
    size_t nmachines;
    int ordered;                  /* launches are in order of seq; else by input */
    int spaces;                   /* runs of all spaces, not only of global memory */
    int hosts;                    /* host traces are included */
    int threads;                  /* all inputs are host traces */
    struct mt_pool *pool;         /* pool of the source */
    struct mt_copy_event *copies; /* copies to return, ascending seq */
    size_t ncopies, next_copy;
    size_t current; /* input of the current launch, or ninputs */
    uint64_t superstep;
    uint64_t first, end; /* launches that are read: [first, end) */
    const char *kernel;
    const struct mt_launch_event *launch;
    struct mt_intern names;
    struct mt_stop stop;
    uint64_t done;  /* bytes read; atomic */
    uint64_t total; /* bytes in total, 0: not known */
    struct mt_error *problems;
    size_t nproblems, problem_room;
    char **notes;
    size_t nnotes, note_room;
    int incomplete, stopped, finished, out_of_memory;
    int again; /* later pass: it finds the same damage, which is reported once */
};
/* Returns the seq of the next launch, or MT_SEQ_NONE if it is not known. */
uint64_t mt_device_peek(const struct mt_host_reader *r);
/* Passes the runs that were returned last to the caller, who releases them with mt_block_put, from any
 * thread, before the reader is closed. NULL if there are none. */
struct mt_run_block;
void mt_block_put(struct mt_run_block *b);
/* Adds notes, once, on data that the companion files report as missing. After the end. */
enum { MT_MISSING = 1, MT_NOT_KNOWN = 2 };
__attribute__((format(printf, 3, 4))) void mt_merge_note(struct mt_source_merge *m, int incomplete,
                                                         const char *format, ...);

/* Thread that runs mt_merge_next in the pool (source.c). */
struct mt_ahead;
struct mt_run_block *mt_device_keep(struct mt_host_reader *r);
#endif
