/* NCCL on the CPU device. The ranks of a communicator are threads, here and in other processes, over one
 * piece of shared memory: a ring for each pair of ranks, through which all data goes (nccl_ring.c). A rank's
 * thread does its calls one after the other, in the order in which the program made them; each waits for its
 * stream (nccl_work.c). */
#ifndef MT_LIBRARIES_NCCL_H
#define MT_LIBRARIES_NCCL_H
#include "api/launch/library.h"
#include <pthread.h>

enum mt_nccl_status {
    MT_NCCL_OK,
    MT_NCCL_CUDA,
    MT_NCCL_SYSTEM,
    MT_NCCL_INTERNAL,
    MT_NCCL_ARGUMENT,
    MT_NCCL_USAGE,
    MT_NCCL_REMOTE,
    MT_NCCL_STATUSES = 8
};
/* In the order of NCCL's header. */
enum mt_nccl_type {
    MT_NCCL_I8,
    MT_NCCL_U8,
    MT_NCCL_I32,
    MT_NCCL_U32,
    MT_NCCL_I64,
    MT_NCCL_U64,
    MT_NCCL_F16,
    MT_NCCL_F32,
    MT_NCCL_F64,
    MT_NCCL_BF16,
    MT_NCCL_E4M3,
    MT_NCCL_E5M2,
    MT_NCCL_TYPES
};
enum mt_nccl_op {
    MT_NCCL_SUM,
    MT_NCCL_PROD,
    MT_NCCL_MAX,
    MT_NCCL_MIN,
    MT_NCCL_AVG,
    MT_NCCL_OPS
}; /* then those that are made */

enum { MT_NCCL_RANKS = 64, MT_NCCL_MADE = 64 /* operations of a communicator at a time */, MT_NCCL_ID = 128 };
typedef struct {
    char bytes[MT_NCCL_ID];
} mt_nccl_id;

/* ncclRedOpCreatePreMulSum's */
struct mt_nccl_made {
    int used, type;
    const void *device; /* where the scalar is; NULL: it is in `value` */
    char value[8];
};

/* What a call does. */
enum mt_nccl_what {
    MT_NCCL_ALLREDUCE,
    MT_NCCL_BROADCAST,
    MT_NCCL_REDUCE,
    MT_NCCL_ALLGATHER,
    MT_NCCL_REDUCESCATTER,
    MT_NCCL_ALLTOALL,
    MT_NCCL_GATHER,
    MT_NCCL_SCATTER,
    MT_NCCL_SEND,
    MT_NCCL_RECV
};
struct mt_nccl_do {
    const char *name; /* "ncclAllReduce" */
    enum mt_nccl_what what;
    const void *send;
    void *recv;
    size_t count;
    int type, op, root; /* root: or the peer; -1: none */
    struct mt_nccl_made made;
};

struct mt_nccl_segment;
struct mt_nccl_job;
/* Never given back to the system: graphs may have calls of one that is destroyed. */
struct mt_nccl_comm {
    uint64_t magic, id;
    int rank, n, device;
    struct mt_nccl_segment *segment;
    mt_nccl_id handle;
    int said;        /* for whom it waits */
    uint32_t splits; /* so many there have been */
    struct mt_nccl_made made[MT_NCCL_MADE];
    /* Of the lock: */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct mt_nccl_job *first, *last;
    pthread_t thread;
    int started, quit;
    _Atomic int aborted;
    _Atomic int broken; /* a status: what comes is given up */
};

/* nccl_comm.c: keeps the words for ncclGetLastError; `status`. */
int mt_nccl_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- nccl_ring.c: the shared memory */
/* Bytes to or from a rank, in order with others of the same. */
struct mt_nccl_item {
    int peer, out;
    char *p;
    size_t bytes, done;
    const void *same; /* not NULL: what must come, else ranks do different things */
};
/* Moves all of them, side by side. A status: it is over; which was said. name: the call's, for words. */
int mt_nccl_exchange(struct mt_nccl_comm *c, const char *name, struct mt_nccl_item *items, size_t n);
/* Makes shared memory and names it. */
int mt_nccl_segment_new(mt_nccl_id *id);
/* This rank is there. */
int mt_nccl_attach(struct mt_nccl_comm *c, const mt_nccl_id *id);
/* Waits until all are. */
int mt_nccl_wait_all(struct mt_nccl_comm *c);
void mt_nccl_detach(struct mt_nccl_comm *c);
/* Tells the others that this rank will do nothing more. */
enum mt_nccl_gone { MT_NCCL_ABORTED = 1, MT_NCCL_DESTROYED };
void mt_nccl_leave(struct mt_nccl_comm *c, enum mt_nccl_gone how);
void mt_nccl_wake(struct mt_nccl_comm *c);
/* All ranks tell each other color, key and an id: says this one's; waits for those of all. */
struct mt_nccl_split {
    int color, key;
    mt_nccl_id id;
};
void mt_nccl_split_say(struct mt_nccl_comm *c, const struct mt_nccl_split *mine);
int mt_nccl_split_hear(struct mt_nccl_comm *c, struct mt_nccl_split all[MT_NCCL_RANKS]);

/* ---- nccl_reduce.c */
size_t mt_nccl_size(int type);
/* out[i] = op of in[0][i] … in[n - 1][i]; out may be one of them. ranks: by which an average is divided. */
void mt_nccl_reduce(int type, int op, const void *const *in, int n, void *out, size_t count);
/* out[i] = in[i] times the scalar. */
void mt_nccl_scale(int type, const void *scalar, const void *in, void *out, size_t count);

/* ---- nccl_work.c */
/* Calls that a rank does together: one collective, or the sends and receives of a group. */
struct mt_nccl_part {
    struct mt_nccl_do what;
    int first;                     /* of its stream */
    struct mt_library_call *begun; /* the stream has come to it */
};
struct mt_nccl_job {
    struct mt_nccl_job *next;
    struct mt_nccl_job *now; /* of one that is captured: the copy that runs */
    int refs, streams, begun, dead, done, how, captured;
    unsigned n, met; /* met: parts that a launch of the graph has come to */
    struct mt_nccl_part parts[];
};
struct mt_nccl_job *mt_nccl_job_new(unsigned n);
/* Not captured: it is the rank's next one. */
void mt_nccl_job_queue(struct mt_nccl_comm *c, struct mt_nccl_job *j);
/* As mt_library_call.run and .drop, of a part. */
int mt_nccl_part_run(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part,
                     struct mt_library_call *call);
void mt_nccl_part_drop(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part);
/* Waits until all is done. */
void mt_nccl_drain(struct mt_nccl_comm *c);
/* The thread ends; what is not done is given up. */
void mt_nccl_stop(struct mt_nccl_comm *c);

/* ---- nccl_do.c: what each function is. 0, or a status, which was said */
int mt_nccl_collective(struct mt_nccl_comm *c, const struct mt_nccl_do *d);
int mt_nccl_messages(struct mt_nccl_comm *c, const struct mt_nccl_job *j);

/* ---- nccl_call.c */
/* In a group: `finish` is called at its end. Else at once. arg: of malloc; freed. */
int mt_nccl_later(int (*finish)(void *), void *arg);
int mt_nccl_group_begin(void);
int mt_nccl_group_end(void);
int mt_nccl_noted(int status); /* of a call: in a group the group's end returns it, too */

/* ---- nccl_comm.c */
int mt_nccl_is_comm(const struct mt_nccl_comm *c);
#endif
