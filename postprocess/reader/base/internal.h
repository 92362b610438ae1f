/* Shared by the files of postprocess/reader only. */
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

/* A set of strings: equal content, equal pointer. Zero-initialised is empty. */
struct mt_intern {
    struct mt_intern_entry *head;
};
/* NULL: no memory. */
const char *mt_intern_add(struct mt_intern *set, const char *text, size_t length);
/* The same of text that a file brought, made visible: all names that readers hand out come this way. */
const char *mt_intern_visible(struct mt_intern *set, const char *text, size_t length);
/* The strings of a JSON array, a line each; "" where there are none. NULL: no memory. */
struct json_t;
const char *mt_intern_lines(struct mt_intern *set, const struct json_t *list);
void mt_intern_free(struct mt_intern *set);

/* The companion parser for lines that are in memory. NULL: no memory. */
struct mt_companion *mt_companion_new(const char *name);
/* Whole lines; `offset`: of the text, for messages. 0, or -1 without memory. */
int mt_companion_add(struct mt_companion *c, const char *text, size_t bytes, uint64_t offset);
/* Copies, allocations and frees so far: the caller has what it needs of them. */
void mt_companion_forget_memory(struct mt_companion *c);
/* Puts events in order; again after more lines. */
void mt_companion_sort(struct mt_companion *c);

/* Two flags end reading: the user's and, when a source is closed or asked early, its own.
 * Either may be NULL. */
struct mt_stop {
    const volatile sig_atomic_t *user, *own;
};
static inline int mt_stopped(const struct mt_stop *s)
{
    return (s->user && __atomic_load_n(s->user, __ATOMIC_RELAXED)) ||
           (s->own && __atomic_load_n(s->own, __ATOMIC_RELAXED));
}
/* Waits until `fd` can be read: 1 yes, 0 stopped. Regular files never wait. */
int mt_wait_readable(int fd, const struct mt_stop *stop);
void mt_reader_set_stop(struct mt_reader *r, const struct mt_stop *stop);
/* Records are not read but skipped: batches have their number and place. Before anything is read. */
void mt_reader_set_ends(struct mt_reader *r, const struct mt_launch_ends *ends);
/* Between launches: 0 if the trace has come to its clean end, 1 if there is more,
 * damage included. May wait. */
int mt_reader_more(struct mt_reader *r);

/* An unnamed file in $TMPDIR (or /tmp): a descriptor, or -1 with *err. */
int mt_spool_create(struct mt_error *err);
int mt_spool_write(int fd, const char *p, size_t n, struct mt_error *err);
/* Copies n non-seekable descriptors, all at once, each to the end, into spool[i]. 0; -1 with *err (spool
 * files only; a read error ends that input as a truncation does). *read counts bytes as they come. */
int mt_spool_fill(const int *fd, const int *spool, size_t n, const struct mt_stop *stop, uint64_t *read,
                  struct mt_error *err);

/* ---- one input of a source ---- */

struct mt_input;

/* What a pull says beside the item. */
struct mt_pulled {
    uint64_t accesses;  /* of the item */
    uint64_t bytes;     /* were read for it, also when there is none */
    const char *kernel; /* with MT_BATCH_BEGIN: whose launch, and its line in the companion, or NULL */
    const struct mt_launch_event *event;
    int over; /* without item: the launch under way has come to its end */
};

/* What an input can be, a row each: a raw trace and what is not known yet (inputs.c), a container of
 * kernels' accesses (inputs.c), one of host accesses beside kernels (inputs.c; it has no launches)
 * or without (inputs.c; it is one). */
struct mt_input_ops {
    /* (Re)opens at the beginning. 0, or -1 with *err. */
    int (*start)(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err);
    /* The next launch's seq; MT_SEQ_NONE if it is not known. */
    uint64_t (*peek)(struct mt_input *in);
    /* The next batch, as mt_merge_next; flags are in the item. 1; 0: none this time; -1: *err, a problem.
     * With 0 and -1 it says in->pass.finished. NULL: has no launches. */
    int (*pull)(struct mt_input *in, const struct mt_stop *stop, struct mt_raw_record *room,
                struct mt_access_run *runs, size_t capacity, struct mt_item *item, struct mt_pulled *p,
                struct mt_error *err);
    /* Between launches: 1, or 0 if the clean end has come; says so where only a pull can show it. May wait.
     */
    int (*more)(struct mt_input *in);
    /* After the last launch: the companion becomes whole. 0; -1: *err says what is not. */
    int (*end)(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err);
    void (*close)(struct mt_input *in);
};
/* Hands out the next launch unread, if the input is a container whose index has it (inputs.c). 1; 0: it
 * has to be read. */
int mt_device_input_pass(struct mt_input *in, struct mt_item *item, struct mt_pulled *p);
/* Reads the first bytes of an input that is not known yet. Those of a container are then in a new file
 * *spool, which the rest belongs into; else the input is a raw trace, and *spool is -1. 0, or -1 with *err.
 */
int mt_unknown_input_look(struct mt_input *in, int *spool, const struct mt_stop *stop, struct mt_error *err);
extern const struct mt_input_ops mt_unknown_input, mt_raw_input, mt_device_input, mt_host_input,
    mt_threads_input;

struct mt_raw_state {
    struct mt_reader *reader;
    size_t next_launch; /* index into companion->launches of the next traced launch */
    uint64_t first;     /* of the launch under way: place of its first record, and how many were handed out */
    uint64_t count;
    struct mt_sample sample; /* of these */
};

struct mt_container_state {
    struct mt_host_reader *reader;
    struct mt_run_batch batch; /* under way, when records are wanted */
    size_t run;                /* of its runs, the next to hand out */
    uint32_t lane;             /* of that run's accesses */
    int places;                /* launches are handed out as their chunks, unread */
    size_t place;              /* the next launch */
    uint64_t seq;              /* of the launch under way */
};

struct mt_host_state {
    struct mt_host_reader *reader;
    int merged;               /* its accesses are handed out */
    struct mt_host_item head; /* the item under way */
    size_t taken;             /* of its records */
    int has_head;
    uint64_t bad_offset; /* of the last damage */
    /* without kernels: the program as a launch */
    struct mt_launch_event launch;
    char *program;           /* its name there */
    uint64_t life;           /* as mt_item: of a thread whose begin or end was read */
    uint64_t seq;            /* the highest in force so far */
    int begun, ended;        /* its first, its last batch was handed out */
    struct mt_error problem; /* not yet said */
    int has_problem;
};

/* Of one pass over an input. */
struct mt_input_pass {
    int finished;       /* no further launch */
    int damaged;        /* a problem was found */
    uint64_t launches;  /* handed out */
    uint64_t records;   /* handed out, all launches */
    uint64_t in_launch; /* handed out, launch under way */
    int mismatch;       /* a note on a launch that differs from the companion's was made */
};

struct mt_input {
    const struct mt_input_ops *ops;
    const char *path;
    int fd, owned; /* the trace, or its spool file */
    int live;      /* cannot be read twice */
    uint64_t device, inode;
    int64_t start;                     /* file position at which the trace begins */
    uint64_t size;                     /* bytes, 0 if not known */
    char *meta;                        /* companion path, or NULL: none */
    int meta_optional;                 /* its absence is not an error */
    struct mt_companion *companion;    /* of a container of kernels' accesses it is the container's own */
    struct mt_companion *beside;       /* the file beside a container; `companion` may be the same */
    const struct mt_launch_ends *ends; /* skip records, in the first pass */
    struct mt_pool *pool;              /* of the source, for the chunks of a container: so many threads */
    unsigned threads;
    int spaces;                       /* of a container: runs of all memory */
    const struct mt_process *process; /* of several; NULL */
    struct mt_input_pass pass;
    union { /* of ops */
        struct mt_raw_state raw;
        struct mt_container_state container;
        struct mt_host_state host;
    };
};

/* Its accesses are of host code. */
static inline int mt_input_is_host(const struct mt_input *in)
{
    return in->ops == &mt_host_input || in->ops == &mt_threads_input;
}
/* The reader of a container of kernels' accesses; NULL: it is not one. */
static inline struct mt_host_reader *mt_input_container(const struct mt_input *in)
{
    return in->ops == &mt_device_input ? in->container.reader : NULL;
}

/* inputs.c. 0, or -1 with *err. `fd`: it is open already, without a companion file; or -1. */
int mt_input_open(struct mt_input *in, const char *path, int fd, const char *meta, struct mt_error *err);
/* Loads the companion, if there is one; `wait`: a living program may still be about to write its end. */
int mt_input_load_companion(struct mt_input *in, int wait, const struct mt_stop *stop, struct mt_error *err);
/* Begins a pass, at the beginning of the trace. */
int mt_input_start(struct mt_input *in, const struct mt_stop *stop, struct mt_error *err);
void mt_input_close(struct mt_input *in);
/* The companion of the input: of a container, its meta lines. May be NULL. */
const struct mt_companion *mt_input_companion(const struct mt_input *in);
/* inputs.c. 1 if the regular file of the input is a container. */
int mt_input_is_container(const struct mt_input *in);
/* Opens the input, a regular file, as a container; its companion is inside. 0, or -1 with *err. */
int mt_container_input_open(struct mt_input *in, unsigned flags, const struct mt_stop *stop,
                            struct mt_error *err);
/* `w`, at its beginning, is taken over: the input becomes what the container is. 0, or -1 with *err. */
struct mt_window;
void mt_container_set_stop(struct mt_host_reader *r, const struct mt_stop *stop);
/* inputs.c. 1 if the records of the launch that has ended are not those of which its line was written. */
int mt_raw_input_differs(const struct mt_input *in, const struct mt_launch_event *e);
int mt_sample_differs(const struct mt_sample *s, uint64_t records, const struct mt_launch_event *e);
#define MT_OTHER_RUN                                                                                         \
    "%s: launch %llu (byte %llu) has other records than those that %s was written of: the two are of "       \
    "different runs, or one was damaged. Find the companion of this trace (--companion=FILE), or read "      \
    "without "                                                                                               \
    "(--no-companion)"
/* inputs.c. There are no kernels: the program becomes launch number `number`. 0, or -1 with
 * *err. */
int mt_threads_input_take(struct mt_input *in, uint64_t number, struct mt_error *err);
/* The number in force for what comes next; MT_SEQ_NONE: nothing does. */
uint64_t mt_threads_input_seq(struct mt_input *in);
/* First bytes of the trace that someone else has read already; at most 1 MiB. Before the first read. */
void mt_reader_preload(struct mt_reader *r, const unsigned char *bytes, size_t n);

/* source.c. A source of one live container (device chunks) that is open already and of which only the head
 * was read. `path` must stay. Takes the reader over. NULL: *err. */
struct mt_source *mt_source_of_container(struct mt_host_reader *r, const char *path, unsigned flags,
                                         const volatile sig_atomic_t *stop, struct mt_error *err);

/* What the readers of all inputs yield, in launch order, on the caller's thread (merge.c). */
struct mt_source_merge {
    struct mt_input *inputs;
    size_t ninputs, input_room;
    struct mt_process *processes; /* of a job (processes.h); none: there is one process */
    size_t nprocesses;
    int ordered;                  /* launches by seq; else by input */
    int spaces;                   /* runs of all memory, not of global memory alone */
    int hosts;                    /* containers are read along */
    int threads;                  /* there are none but hosts */
    struct mt_pool *pool;         /* of the source */
    struct mt_copy_event *copies; /* to hand out, ascending seq */
    size_t ncopies, next_copy;
    int no_copies;  /* of feed: those of new memory alone are handed out */
    size_t current; /* input whose launch is under way, or ninputs */
    uint64_t superstep;
    uint64_t first, end; /* launches that are read: [first, end) */
    const char *kernel;
    const struct mt_launch_event *launch;
    struct mt_intern names;
    struct mt_stop stop;
    uint64_t done;  /* bytes read; atomic */
    uint64_t total; /* bytes in all, 0: not known */
    struct mt_error *problems;
    size_t nproblems, problem_room;
    char **notes;
    size_t nnotes, note_room;
    int incomplete, stopped, finished, out_of_memory;
    int again; /* a further pass: it finds the same damage, which is reported once */
};
int mt_merge_start(struct mt_source_merge *m,
                   struct mt_error *err); /* (re)opens the readers at the beginning */
/* As mt_source_next, records into `room`. Containers give runs if `runs` is not NULL: blocks of their own
 * (mt_device_keep); raw traces always give records. */
int mt_merge_next(struct mt_source_merge *m, struct mt_raw_record *room, struct mt_access_run *runs,
                  size_t capacity, struct mt_item *item, struct mt_error *err);
/* device_reader.c. The seq of the next launch, MT_SEQ_NONE if it is not known. */
uint64_t mt_device_peek(const struct mt_host_reader *r);
/* The runs that were handed out last become the caller's, who gives them back with mt_block_put, from any
 * thread, before the reader is closed. NULL if there are none. */
struct mt_run_block;
struct mt_run_block *mt_device_keep(struct mt_host_reader *r);
void mt_block_put(struct mt_run_block *b);
/* The container whose accesses come next and their sequence number, or ninputs (inputs.c). */
size_t mt_merge_host(struct mt_source_merge *m, uint64_t *seq);
/* Hands out of that container; room for `capacity` accesses. */
void mt_merge_host_take(struct mt_source_merge *m, size_t i, struct mt_host_access *room, size_t capacity,
                        struct mt_item *item);
/* Notes, once, on what the companions say is missing. After the end. */
void mt_merge_finish(struct mt_source_merge *m);
enum { MT_MISSING = 1, MT_NOT_KNOWN = 2 };
__attribute__((format(printf, 3, 4))) void mt_merge_note(struct mt_source_merge *m, int incomplete,
                                                         const char *format, ...);
/* Adds to the problems and, as its note, to the notes. */
void mt_merge_problem(struct mt_source_merge *m, const struct mt_error *problem);

/* Runs mt_merge_next in the pool (source.c). */
struct mt_ahead;
#endif
