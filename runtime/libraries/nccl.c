/* NCCL on the CPU device. The ranks of a communicator are threads, in this and other processes. On one
 * machine they share a piece of memory: a ring for each pair of ranks, through which all data goes. If there
 * are several machines, each pair of ranks has a TCP connection instead. A rank's thread executes its calls
 * one after the other, in the program's order; each waits for its stream. */
#define _GNU_SOURCE
#include "library.h"
#include "wire.h"
#include "base/thread.h"
#include "api/launch/library.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
}; /* then user-defined ones */

enum {
    MT_NCCL_RANKS = 64,
    MT_NCCL_MADE = 64 /* user-defined operations per communicator */,
    MT_NCCL_ID = 128
};

typedef struct {
    char bytes[MT_NCCL_ID];
} mt_nccl_id;

/* Operation made by ncclRedOpCreatePreMulSum. */
struct mt_nccl_made {
    int used, type;
    const void *device; /* address of the scalar on the device; NULL: it is in `value` */
    char value[8];
};

/* Kind of a call. */
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
    MT_NCCL_RECV,
    MT_NCCL_SPLIT
};

struct mt_nccl_do {
    const char *name; /* "ncclAllReduce" */
    enum mt_nccl_what what;
    const void *send;
    void *recv;
    size_t count;
    int type, op, root; /* root, or the peer; -1: none */
    struct mt_nccl_made made;
};

/* In an id, after the handle of the memory. */
struct where {
    uint64_t number;      /* of the communicator */
    uint64_t secret;      /* without it nobody gets a connection */
    uint64_t machine;     /* hash of its name */
    struct mt_address at; /* where ranks of other machines join; none: they cannot */
};

/* Never freed: graphs may contain calls of a destroyed communicator. */
struct mt_nccl_comm {
    uint64_t magic, id;
    int rank, n, device;
    struct mt_nccl_segment *segment; /* shared; of a rank on another machine than the id's its own */
    mt_nccl_id handle;
    struct where where;
    int spans, meshed;                   /* some rank is on another machine; all connections are there */
    struct mt_wire port, home;           /* for connections of other ranks; to where ranks join */
    struct mt_wire wires[MT_NCCL_RANKS]; /* to each other rank */
    int lost[MT_NCCL_RANKS];             /* an errno value: this connection has ended */
    int said;                            /* reported which ranks it waits for */
    struct mt_nccl_made made[MT_NCCL_MADE];
    /* Protected by `lock`: */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct mt_nccl_job *first, *last;
    pthread_t thread;
    int started, quit;
    _Atomic int aborted;
    _Atomic int broken; /* a status: further calls are given up */
};

/* Bytes to or from a rank, in order with others of the same rank. */
struct mt_nccl_item {
    int peer, out;
    char *p;
    size_t bytes, done;
    const void *same; /* not NULL: expected data, else ranks call different functions */
};

/* Reason told to the others when this rank stops. */
enum mt_nccl_gone { MT_NCCL_ABORTED = 1, MT_NCCL_DESTROYED };

/* Color, key and id of a rank in a split, which all ranks exchange. */
struct mt_nccl_split {
    int color, key;
    mt_nccl_id id;
};

/* A split under way: of all ranks, once it is done. */
struct mt_nccl_splitting {
    struct mt_nccl_comm *c, **out;
    int done, status;
    struct mt_nccl_split all[MT_NCCL_RANKS]; /* at first only this rank's */
};

/* Calls of a rank executed together: one collective, the sends and receives of a group, or a split. */
struct mt_nccl_part {
    struct mt_nccl_do what;
    int first;                     /* first of its stream */
    struct mt_library_call *begun; /* set when the stream has reached it */
};

struct mt_nccl_job {
    struct mt_nccl_job *next;
    struct mt_nccl_job *now; /* copy that runs of a captured job */
    struct mt_nccl_splitting *split;
    int refs, streams, begun, dead, done, how, captured;
    unsigned n, met; /* met: parts that a launch of the graph has reached */
    struct mt_nccl_part parts[];
};

int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaGetDeviceCount(int *count);
int cudaMalloc(void **p, size_t bytes);
int cudaFree(void *p);
int cudaStreamIsCapturing(void *stream, int *status);

enum { VERSION = 22809, HOST_IMMEDIATE = 1, NO_COLOR = -1 };
#define COMM_MAGIC 0x6c63636e6d6d6f63u

/* ---- errors */

static _Thread_local char comm_words[512];

/* Keeps the message for ncclGetLastError. Returns `status`. */
static int nccl_fail(int status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(comm_words, sizeof comm_words, format, ap);
    va_end(ap);
    mt_lib_say("%s", comm_words);
    return status;
}

const char *impl_ncclGetErrorString(int status)
{
    static const char *const words[MT_NCCL_STATUSES] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return status >= 0 && status < MT_NCCL_STATUSES ? words[status] : "unknown result code";
}

const char *impl_ncclGetLastError(const struct mt_nccl_comm *c)
{
    return comm_words;
}

int impl_ncclGetVersion(int *version)
{
    if (!version)
        return MT_NCCL_ARGUMENT;
    *version = VERSION;
    return MT_NCCL_OK;
}

void impl_ncclResetDebugInit(void)
{
}

void impl_ncclResetDebugInitInternal(void)
{
}

static int nccl_is_comm(const struct mt_nccl_comm *c)
{
    return c && c->magic == COMM_MAGIC;
}

/* Elements of NCCL's types, and reductions over ranks: in double or 64 bits, rounded once. */

static size_t nccl_size(int type)
{
    static const char sizes[MT_NCCL_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (size_t)sizes[type];
}

enum { PIECE = 1024 };

/* ---- small floats */

static double reduce_bf16(uint16_t v)
{
    float f;
    memcpy(&f, &(uint32_t){(uint32_t)v << 16}, sizeof f);
    return f;
}

/* Rounds to `mantissa` fraction bits, to nearest, ties to even; `low`: exponent of the smallest normal
 * number. */
static double reduce_round(double v, int mantissa, int low)
{
    int e;
    if (v == 0 || !isfinite(v))
        return v;
    frexp(v, &e);
    e = e - 1 < low ? low : e - 1;
    return ldexp(nearbyint(ldexp(v, mantissa - e)), e - mantissa);
}

static uint16_t reduce_to_bf16(double v)
{
    float f = (float)reduce_round(v, 7, -126);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return isnan(v) ? 0x7fff : (uint16_t)(bits >> 16);
}

/* Converts FP8 with `mantissa` bits: E4M3 has NaN and no infinity, E5M2 is like half. */
static double reduce_fp8(uint8_t v, int mantissa)
{
    int bias = mantissa == 3 ? 7 : 15, e = (v & 0x7f) >> mantissa, m = v & ((1 << mantissa) - 1);
    double out = e ? ldexp((1 << mantissa) + m, e - bias - mantissa) : ldexp(m, 1 - bias - mantissa);
    if (mantissa == 3 ? (v & 0x7f) == 0x7f : e == 31 && m)
        out = NAN;
    else if (mantissa == 2 && e == 31)
        out = INFINITY;
    return v & 0x80 ? -out : out;
}

/* Converts to FP8; too large values become the largest, as in CUDA's conversions. */
static uint8_t reduce_to_fp8(double v, int mantissa)
{
    int bias = mantissa == 3 ? 7 : 15, e;
    double most = mantissa == 3 ? 448 : 57344, r = fabs(reduce_round(v, mantissa, 1 - bias));
    uint8_t sign = signbit(v) ? 0x80 : 0;
    if (isnan(v))
        return mantissa == 3 ? 0x7f : 0x7e;
    r = r > most ? most : r;
    if (r < ldexp(1, 1 - bias))
        return (uint8_t)(sign | (int)ldexp(r, bias - 1 + mantissa));
    frexp(r, &e);
    return (uint8_t)(sign | ((e - 1 + bias) << mantissa) |
                     ((int)ldexp(r, mantissa - e + 1) - (1 << mantissa)));
}

/* ---- as double, or as 64 bits */

#define EACH(what)                                                                                           \
    for (size_t i = 0; i < n; i++)                                                                           \
        what;                                                                                                \
    return

static void reduce_get(int type, const void *p, size_t n, double *out)
{
    switch (type) {
    case MT_NCCL_F16:
        EACH(out[i] = (double)((const _Float16 *)p)[i]);
    case MT_NCCL_F32:
        EACH(out[i] = ((const float *)p)[i]);
    case MT_NCCL_F64:
        EACH(out[i] = ((const double *)p)[i]);
    case MT_NCCL_BF16:
        EACH(out[i] = reduce_bf16(((const uint16_t *)p)[i]));
    default:
        EACH(out[i] = reduce_fp8(((const uint8_t *)p)[i], type == MT_NCCL_E4M3 ? 3 : 2));
    }
}

static void reduce_put(int type, void *p, size_t n, const double *in)
{
    switch (type) {
    case MT_NCCL_F16:
        EACH(((_Float16 *)p)[i] = (_Float16)in[i]);
    case MT_NCCL_F32:
        EACH(((float *)p)[i] = (float)in[i]);
    case MT_NCCL_F64:
        EACH(((double *)p)[i] = in[i]);
    case MT_NCCL_BF16:
        EACH(((uint16_t *)p)[i] = reduce_to_bf16(in[i]));
    default:
        EACH(((uint8_t *)p)[i] = reduce_to_fp8(in[i], type == MT_NCCL_E4M3 ? 3 : 2));
    }
}

static void reduce_get_int(int type, const void *p, size_t n, int64_t *out)
{
    switch (type) {
    case MT_NCCL_I8:
        EACH(out[i] = ((const int8_t *)p)[i]);
    case MT_NCCL_U8:
        EACH(out[i] = ((const uint8_t *)p)[i]);
    case MT_NCCL_I32:
        EACH(out[i] = ((const int32_t *)p)[i]);
    case MT_NCCL_U32:
        EACH(out[i] = ((const uint32_t *)p)[i]);
    default:
        EACH(out[i] = ((const int64_t *)p)[i]);
    }
}

static void reduce_put_int(int type, void *p, size_t n, const int64_t *in)
{
    switch (nccl_size(type)) {
    case 1:
        EACH(((int8_t *)p)[i] = (int8_t)in[i]);
    case 4:
        EACH(((int32_t *)p)[i] = (int32_t)in[i]);
    default:
        EACH(((int64_t *)p)[i] = in[i]);
    }
}

/* ---- operations */

static void reduce_add(int op, double *acc, const double *v, size_t n)
{
    switch (op) {
    case MT_NCCL_PROD:
        EACH(acc[i] *= v[i]);
    case MT_NCCL_MAX:
        EACH(acc[i] = fmax(acc[i], v[i]));
    case MT_NCCL_MIN:
        EACH(acc[i] = fmin(acc[i], v[i]));
    default:
        EACH(acc[i] += v[i]);
    }
}

static void reduce_add_int(int op, int wide, int64_t *acc, const int64_t *v, size_t n)
{
    const uint64_t top =
        wide ? (uint64_t)1 << 63 : 0; /* unsigned numbers compare as signed ones after subtracting this */
#define LESS(a, b) ((int64_t)((uint64_t)(a) ^ top) < (int64_t)((uint64_t)(b) ^ top))
    switch (op) {
    case MT_NCCL_PROD:
        EACH(acc[i] = (int64_t)((uint64_t)acc[i] * (uint64_t)v[i]));
    case MT_NCCL_MAX:
        EACH(acc[i] = LESS(acc[i], v[i]) ? v[i] : acc[i]);
    case MT_NCCL_MIN:
        EACH(acc[i] = LESS(v[i], acc[i]) ? v[i] : acc[i]);
    default:
        EACH(acc[i] = (int64_t)((uint64_t)acc[i] + (uint64_t)v[i]));
    }
#undef LESS
}

static int64_t reduce_divide(int type, int64_t sum, int n)
{
    int64_t v;
    reduce_put_int(type, &v, 1, &sum); /* wraps like the sum in the type */
    reduce_get_int(type, &v, 1, &sum);
    return type == MT_NCCL_U64 ? (int64_t)((uint64_t)sum / (uint64_t)n) : sum / n;
}

static void reduce_floats(int type, int op, const void *const *in, int n, size_t at, void *out, size_t count)
{
    double acc[PIECE], v[PIECE];
    reduce_get(type, (const char *)in[0] + at, count, acc);
    for (int r = 1; r < n; r++) {
        reduce_get(type, (const char *)in[r] + at, count, v);
        reduce_add(op, acc, v, count);
    }
    for (size_t i = 0; op == MT_NCCL_AVG && i < count; i++)
        acc[i] /= n;
    reduce_put(type, (char *)out + at, count, acc);
}

static void reduce_ints(int type, int op, const void *const *in, int n, size_t at, void *out, size_t count)
{
    int64_t acc[PIECE], v[PIECE];
    reduce_get_int(type, (const char *)in[0] + at, count, acc);
    for (int r = 1; r < n; r++) {
        reduce_get_int(type, (const char *)in[r] + at, count, v);
        reduce_add_int(op, type == MT_NCCL_U64, acc, v, count);
    }
    for (size_t i = 0; op == MT_NCCL_AVG && i < count; i++)
        acc[i] = reduce_divide(type, acc[i], n);
    reduce_put_int(type, (char *)out + at, count, acc);
}

/* out[i] = op of in[0][i] … in[n - 1][i]; out may be one of them. ranks: divisor of an average. */
static void mt_nccl_reduce(int type, int op, const void *const *in, int n, void *out, size_t count)
{
    size_t size = nccl_size(type);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t some = count - i < PIECE ? count - i : PIECE;
        (type < MT_NCCL_F16 ? reduce_ints : reduce_floats)(type, op, in, n, i * size, out, some);
    }
}

/* out[i] = in[i] times the scalar. */
static void nccl_scale(int type, const void *scalar, const void *in, void *out, size_t count)
{
    size_t size = nccl_size(type);
    double by = 0, v[PIECE];
    int64_t by_int = 0, v_int[PIECE];
    if (type < MT_NCCL_F16)
        reduce_get_int(type, scalar, 1, &by_int);
    else
        reduce_get(type, scalar, 1, &by);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t some = count - i < PIECE ? count - i : PIECE;
        const char *from = (const char *)in + i * size;
        char *to = (char *)out + i * size;
        if (type < MT_NCCL_F16) {
            reduce_get_int(type, from, some, v_int);
            for (size_t k = 0; k < some; k++)
                v_int[k] = (int64_t)((uint64_t)v_int[k] * (uint64_t)by_int);
            reduce_put_int(type, to, some, v_int);
        } else {
            reduce_get(type, from, some, v);
            for (size_t k = 0; k < some; k++)
                v[k] *= by;
            reduce_put(type, to, some, v);
        }
    }
}

/* Shared memory of a communicator: present ranks, and a ring of bytes from each rank to each other. It is an
 * unnamed file, so that nothing remains after its processes have ended, in whatever way. */

enum {
    DATA = 64 << 20,
    MOST = 256 << 10 /* bytes of a ring */,
    PATIENCE_S = 10,
    HELLO_MS = 2000,
    QUEUE = 2 * MT_NCCL_RANKS /* connections that are not yet accepted */
};
#define MAGIC 0x6c63636e65636d74u

struct slot {
    _Atomic int32_t pid;          /* of ranks on other machines -1 */
    _Atomic int32_t ready;        /* it is present, and `at` is set */
    _Atomic int32_t gone;         /* reason why it has stopped */
    _Atomic uint32_t bell, waits; /* bell: rung when data of this rank has moved */
    struct mt_address at;         /* where other ranks connect if they do not share this memory */
};

struct ring {
    _Atomic uint64_t written, read;
    char apart[48];
};

struct mt_nccl_segment {
    uint64_t number;
    _Atomic int32_t n;   /* number of ranks; 0: nobody is present */
    _Atomic int32_t far; /* number of ranks on other machines that are present */
    struct slot slots[MT_NCCL_RANKS];
    struct ring rings[MT_NCCL_RANKS][MT_NCCL_RANKS]; /* [from][to] */
    char data[DATA];
};

/* ---- ids */

/* Sockets where ranks of other machines join, of the ids made here. */
static struct made_id {
    uint64_t number;
    struct mt_wire port;
    struct made_id *next;
} *made_id_all;
static pthread_mutex_t made_id_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the id's entry, which is then the caller's, or NULL: the id was made elsewhere, or somebody has it.
 */
static struct made_id *made_id_claim(uint64_t number)
{
    pthread_mutex_lock(&made_id_lock);
    struct made_id **at = &made_id_all, *m;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if ((m = *at))
        *at = m->next;
    pthread_mutex_unlock(&made_id_lock);
    return m;
}

static void made_id_free(struct made_id *m)
{
    if (m)
        mt_wire_close(&m->port);
    free(m);
}

/* Opens the id to other machines, if there is a way. */
static void made_id_open(struct where *w)
{
    struct made_id *m = mt_address_own(&w->at) == 0 ? calloc(1, sizeof *m) : NULL;
    if (!m || mt_wire_listen(&m->port, &w->at)) {
        free(m);
        w->at.any.sa_family = 0;
        return;
    }
    m->number = w->number;
    pthread_mutex_lock(&made_id_lock);
    m->next = made_id_all;
    made_id_all = m;
    pthread_mutex_unlock(&made_id_lock);
}

static struct where id_where(const mt_nccl_id *id)
{
    struct where w;
    memcpy(&w, id->bytes + MT_LIBRARY_HANDLE, sizeof w);
    return w;
}

/* Maps the memory of an id, which must be that of its number: other machines have other files. */
static struct mt_nccl_segment *nccl_segment_map(const mt_nccl_id *id, uint64_t number)
{
    struct mt_nccl_segment *g = __mt_library_map(id->bytes);
    if (!g || !number || g->number == number)
        return g;
    munmap(g, sizeof *g);
    return NULL;
}

/* Makes shared memory and an id for it; with `far` for other machines, too. */
static int nccl_segment_new(mt_nccl_id *id, int far)
{
    struct where w = {.machine = mt_address_machine()};
    uint64_t random[2] = {0};
    memset(id, 0, sizeof *id);
    while (!random[0])
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random && errno != EINTR)
            return nccl_fail(MT_NCCL_SYSTEM, "no random number for an id: %s", strerror(errno));
    w.number = random[0];
    w.secret = random[1];
    struct mt_nccl_segment *g = __mt_library_share(sizeof *g, id->bytes) ? NULL : nccl_segment_map(id, 0);
    if (!g)
        return nccl_fail(MT_NCCL_SYSTEM, "no shared memory for a communicator: %s", strerror(errno));
    g->number = w.number;
    munmap(g, sizeof *g);
    if (far)
        made_id_open(&w);
    memcpy(id->bytes + MT_LIBRARY_HANDLE, &w, sizeof w);
    return MT_NCCL_OK;
}

/* Ends what an id made here has open: all ranks have joined, or none will. */
static void nccl_segment_drop(const mt_nccl_id *id)
{
    __mt_library_unshare(id->bytes);
    made_id_free(made_id_claim(id_where(id).number));
}

_Static_assert(MT_LIBRARY_HANDLE + sizeof(struct where) <= MT_NCCL_ID, "an id has room");

/* ---- bells */

static void ring_bell(struct slot *s)
{
    atomic_fetch_add(&s->bell, 1);
    if (atomic_load(&s->waits))
        syscall(SYS_futex, &s->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void ring_bell_all(struct mt_nccl_segment *g)
{
    for (int r = 0; r < g->n && r < MT_NCCL_RANKS; r++)
        ring_bell(&g->slots[r]);
}

/* Waits until the bell differs from `heard`, for a second at most. */
static void ring_wait(struct slot *s, uint32_t heard)
{
    const struct timespec second = {1, 0};
    atomic_fetch_add(&s->waits, 1);
    syscall(SYS_futex, &s->bell, FUTEX_WAIT, heard, &second, NULL, 0);
    atomic_fetch_sub(&s->waits, 1);
}

static void nccl_leave(struct mt_nccl_comm *c, enum mt_nccl_gone how)
{
    c->segment->slots[c->rank].gone = (int32_t)how;
    ring_bell_all(c->segment);
    for (int r = 0; r < c->n; r++)
        if (mt_wire_is(&c->wires[r]))
            shutdown(c->wires[r].fd, SHUT_RDWR);
}

/* ---- other ranks */

/* Returns 1 if the process exists and is not a zombie. */
static int ring_lives(int pid)
{
    char path[64], text[512], *p;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    p = strrchr(text, ')');
    return p && p[1] && p[2] != 'Z' && p[2] != 'X';
}

/* State of a wait: reports once, after a while, which ranks are missing; detects that they will not come. */
struct patience {
    struct mt_nccl_comm *c;
    const char *name;
    time_t since;
};

static time_t ring_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* Lists the missing ranks, not all if there is no room. Returns their number. */
static int ring_list(const struct mt_nccl_comm *c, const char *missing, char *list, size_t size)
{
    size_t at = 0;
    int n = 0;
    *list = '\0';
    for (int r = 0; r < c->n && at < size - 32; r++)
        if (missing[r])
            at += (size_t)snprintf(list + at, size - at, "%s%d", n++ ? ", " : "", r);
    return n;
}

/* Says whom it waits for, once, after a while. Returns a status if it has waited for too long. */
static int ring_patience(struct patience *w, const char *missing)
{
    uint64_t most, waited = (uint64_t)(ring_now() - w->since);
    char list[256], until[64] = "";
    (void)__mt_library_network(&most);
    if (waited < PATIENCE_S && (!most || waited < most))
        return MT_NCCL_OK;
    int n = ring_list(w->c, missing, list, sizeof list);
    if (most && waited >= most)
        return nccl_fail(MT_NCCL_REMOTE,
                         "%s: rank %d of %d gets no result: nothing has come of rank%s %s for %llu s "
                         "(MEMTRACE_NCCL_TIMEOUT)",
                         w->name, w->c->rank, w->c->n, n == 1 ? "" : "s", list, (unsigned long long)most);
    if (most)
        snprintf(until, sizeof until, " or for %llu s (MEMTRACE_NCCL_TIMEOUT)", (unsigned long long)most);
    if (!w->c->said)
        mt_lib_say("%s: rank %d of %d waits for rank%s %s, which did not come in %d s (said once); it waits "
                   "on, until "
                   "ncclCommAbort%s",
                   w->name, w->c->rank, w->c->n, n == 1 ? "" : "s", list, PATIENCE_S, until);
    w->c->said = 1;
    return MT_NCCL_OK;
}

/* Returns why a rank is gone, or NULL if it may still come. */
static const char *ring_gone(const struct slot *s, int late)
{
    return s->gone == MT_NCCL_ABORTED     ? "has given up"
           : s->gone == MT_NCCL_DESTROYED ? "has destroyed its communicator"
           : late && !ring_lives(s->pid)  ? "has ended"
                                          : NULL;
}

/* Judges a wait in which nothing has moved since `heard`; missing[rank]: ranks to wait for. Returns an error
 * status if they will not come. */
static int ring_judge(struct patience *w, uint32_t heard, const char *missing)
{
    struct slot *slots = w->c->segment->slots, *mine = &slots[w->c->rank];
    if (w->c->aborted)
        return MT_NCCL_USAGE;
    for (int r = 0; r < w->c->n && !w->c->spans; r++) {
        int waits = missing[r] && slots[r].pid && &slots[r] != mine;
        const char *why = waits ? ring_gone(&slots[r], mine->bell == heard) : NULL;
        if (why && mine->bell != heard)
            return MT_NCCL_OK; /* it left data before it ended */
        if (why)
            return nccl_fail(MT_NCCL_REMOTE, "%s: rank %d of %d gets no result: rank %d %s", w->name,
                             w->c->rank, w->c->n, r, why);
    }
    return ring_patience(w, missing);
}

static int ring_rest(struct patience *w, uint32_t heard, const char *missing)
{
    ring_wait(&w->c->segment->slots[w->c->rank], heard);
    return ring_judge(w, heard, missing);
}

/* ---- transfers */

static size_t ring_room(int n)
{
    size_t room = MOST;
    while (room * (size_t)n * (size_t)n > DATA)
        room /= 2;
    return room;
}

/* The same over a connection. */
static size_t wire_move(struct mt_nccl_comm *c, struct mt_nccl_item *m)
{
    const struct mt_wire *w = &c->wires[m->peer];
    size_t before = m->done;
    ssize_t n = 1;
    if (!mt_wire_is(w))
        c->lost[m->peer] = EBADF;
    while (m->done < m->bytes && n > 0 && !c->lost[m->peer]) {
        n = mt_wire_some(w, m->out, m->p + m->done, m->bytes - m->done);
        m->done += n > 0 ? (size_t)n : 0;
        c->lost[m->peer] = n < 0 ? errno : 0;
    }
    return m->done - before;
}

/* Waits until data can move again; missing[rank]: 1: from it, 2: to it. Returns an error status if it will
 * not. */
static int wire_rest(struct patience *w, const char *missing)
{
    enum { WAIT_MS = 200 };
    struct mt_nccl_comm *c = w->c;
    struct pollfd fds[MT_NCCL_RANKS];
    char place[INET6_ADDRSTRLEN];
    nfds_t n = 0;
    for (int r = 0; r < c->n; r++) {
        int ended = c->lost[r] == EPIPE || c->lost[r] == ECONNRESET;
        if (missing[r] && c->lost[r])
            return nccl_fail(MT_NCCL_REMOTE, "%s: rank %d of %d gets no result: rank %d at %s%s%s", w->name,
                             c->rank, c->n, r, mt_wire_words(&c->segment->slots[r].at, place),
                             ended ? " has ended, or left the communicator" : ": ",
                             ended ? "" : strerror(c->lost[r]));
        if (missing[r] && r != c->rank)
            fds[n++] = (struct pollfd){
                .fd = c->wires[r].fd,
                .events = (short)((missing[r] & 1 ? POLLIN : 0) | (missing[r] & 2 ? POLLOUT : 0))};
    }
    (void)poll(fds, n, WAIT_MS);
    return ring_judge(w, 0, missing);
}

/* Transfers as much of an item as possible. */
static size_t ring_move(struct mt_nccl_comm *c, struct mt_nccl_item *m)
{
    struct mt_nccl_segment *g = c->segment;
    int from = m->out ? c->rank : m->peer, to = m->out ? m->peer : c->rank;
    struct ring *r = &g->rings[from][to];
    size_t room = ring_room(c->n), moved = 0;
    char *data = g->data + room * (size_t)(from * c->n + to);
    uint64_t written = r->written, read = r->read;
    while (m->done < m->bytes) {
        uint64_t at = m->out ? written : read;
        size_t left = m->out ? room - (size_t)(written - read) : (size_t)(written - read), in = at % room;
        left = left < room - in ? left : room - in;
        left = left < m->bytes - m->done ? left : m->bytes - m->done;
        if (!left || left > room)
            break;
        if (m->out)
            memcpy(data + in, m->p + m->done, left);
        else
            memcpy(m->p + m->done, data + in, left);
        *(m->out ? &written : &read) += left;
        m->done += left;
        moved += left;
    }
    if (!moved)
        return 0;
    if (m->out)
        r->written = written;
    else
        r->read = read;
    ring_bell(&g->slots[m->peer]);
    return moved;
}

/* Transfers everything possible. Returns a status; *moved: data has moved; *left: number of unfinished items;
 * missing: their ranks. */
static int ring_pass(struct mt_nccl_comm *c, const char *name, struct mt_nccl_item *items, size_t n,
                     int *moved, size_t *left, char *missing)
{
    char busy[2][MT_NCCL_RANKS] = {{0}};
    memset(missing, 0, MT_NCCL_RANKS);
    *left = 0;
    for (size_t i = 0; i < n; i++) {
        struct mt_nccl_item *m = &items[i];
        if (m->done == m->bytes || busy[m->out][m->peer]) {
            *left += m->done != m->bytes;
            continue;
        }
        *moved |= (c->spans && m->peer != c->rank ? wire_move : ring_move)(c, m) != 0;
        if (m->done != m->bytes) {
            busy[m->out][m->peer] = 1;
            missing[m->peer] |= m->out ? 2 : 1;
            ++*left;
            continue;
        }
        if (m->same && memcmp(m->same, m->p, m->bytes) != 0)
            return nccl_fail(MT_NCCL_USAGE,
                             "%s: rank %d of %d calls it, and rank %d calls another function, or with "
                             "another count, type, operation or root",
                             name, c->rank, c->n, m->peer);
    }
    return MT_NCCL_OK;
}

static int mesh_accept(struct patience *w);

/* Transfers all items in parallel. Returns a status, after a report if it failed. name: of the call, for
 * messages. */
static int nccl_exchange(struct mt_nccl_comm *c, const char *name, struct mt_nccl_item *items, size_t n)
{
    struct patience w = {c, name, ring_now()};
    struct slot *mine = &c->segment->slots[c->rank];
    char missing[MT_NCCL_RANKS];
    int status = c->spans && !c->meshed ? mesh_accept(&w) : MT_NCCL_OK;
    while (!status) {
        uint32_t heard = mine->bell;
        int moved = 0;
        size_t left;
        if (c->aborted)
            return MT_NCCL_USAGE;
        if ((status = ring_pass(c, name, items, n, &moved, &left, missing)) || !left)
            return status;
        if (moved)
            w.since = ring_now();
        else
            status = c->spans ? wire_rest(&w, missing) : ring_rest(&w, heard, missing);
    }
    return status;
}

/* ---- presence */

/* Makes the rank present in the memory of its machine. Only touched pages of the file are allocated: the size
 * of the mapping costs nothing. */
static int near_attach(struct mt_nccl_comm *c)
{
    struct slot *mine = &c->segment->slots[c->rank];
    int none = 0, alone = 0;
    if (!atomic_compare_exchange_strong(&c->segment->n, &none, c->n) && none != c->n)
        return nccl_fail(MT_NCCL_USAGE, "ncclCommInitRank: %d ranks, but another rank of the id has said %d",
                         c->n, none);
    if (!atomic_compare_exchange_strong(&mine->pid, &alone, getpid()))
        return nccl_fail(MT_NCCL_USAGE, "ncclCommInitRank: rank %d of %d is there already", c->rank, c->n);
    mine->at = c->where.at;
    if (mine->at.any.sa_family && mt_wire_listen(&c->port, &mine->at))
        mine->at.any.sa_family = AF_UNSPEC; /* which matters only if ranks of other machines come */
    mine->ready = 1;
    ring_bell_all(c->segment);
    return MT_NCCL_OK;
}

/* What a rank says that connects: to where ranks join, or to a rank. */
struct hello {
    uint64_t number, secret;
    int32_t rank, n;
    struct mt_address at; /* its own, in the first case */
};

/* The answer, when all ranks have joined, or one cannot. */
struct roll {
    uint64_t number;
    int32_t status, far;
    struct mt_address at[MT_NCCL_RANKS];
};

/* Joins from another machine than that of the id. */
static int far_attach(struct mt_nccl_comm *c)
{
    struct hello h = {.number = c->where.number, .secret = c->where.secret, .rank = c->rank, .n = c->n};
    socklen_t size = sizeof h.at;
    char place[INET6_ADDRSTRLEN];
    void *p = mmap(NULL, sizeof *c->segment, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return nccl_fail(MT_NCCL_SYSTEM, "ncclCommInitRank: no memory");
    c->segment = p;
    c->segment->n = c->n;
    c->spans = 1;
    if (mt_wire_connect(&c->home, &c->where.at) || getsockname(c->home.fd, &h.at.any, &size) ||
        mt_wire_listen(&c->port, &h.at) || mt_wire_all(&c->home, 1, &h, sizeof h, HELLO_MS))
        return nccl_fail(MT_NCCL_SYSTEM,
                         "ncclCommInitRank: rank %d of %d cannot join at %s, where the id was made "
                         "(MEMTRACE_NETWORK there): %s",
                         c->rank, c->n, mt_wire_words(&c->where.at, place), strerror(errno));
    return MT_NCCL_OK;
}

static int nccl_attach(struct mt_nccl_comm *c, const mt_nccl_id *id)
{
    c->handle = *id;
    c->where = id_where(id);
    c->id = c->where.number;
    if (c->where.machine == mt_address_machine())
        c->segment = nccl_segment_map(id, c->id);
    if (c->segment)
        return near_attach(c);
    if (c->where.at.any.sa_family == AF_INET || c->where.at.any.sa_family == AF_INET6)
        return far_attach(c);
    return nccl_fail(MT_NCCL_ARGUMENT,
                     "ncclCommInitRank: the id is none, or the process that made it has ended, or is another "
                     "user's, or is on another machine and has no network (MEMTRACE_NETWORK)");
}

/* ---- ranks of other machines join */

/* Takes the hello of a connection. Returns 0, or -1: it is a stranger's, or none came. */
static int hello_take(const struct mt_nccl_comm *c, const struct mt_wire *port, struct mt_wire *w,
                      struct hello *h)
{
    *w = (struct mt_wire){0};
    if (mt_wire_take(w, accept4(port->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)))
        return -1;
    mt_wire_watch(w);
    if (!mt_wire_all(w, 0, h, sizeof *h, HELLO_MS) && h->number == c->where.number &&
        h->secret == c->where.secret && h->rank >= 0 && h->rank < c->n)
        return 0;
    mt_wire_close(w);
    return -1;
}

/* One rank of the process that made the id takes in those of other machines. */
struct joining {
    struct made_id *made; /* NULL: not this rank */
    struct mt_wire wires[MT_NCCL_RANKS];
};

static void join_answer(const struct mt_nccl_comm *c, struct mt_wire *w, int status)
{
    struct roll a = {.number = c->where.number, .status = status, .far = c->segment->far};
    for (int r = 0; r < c->n; r++)
        a.at[r] = c->segment->slots[r].at;
    if (mt_wire_is(w))
        (void)mt_wire_all(w, 1, &a, sizeof a, HELLO_MS);
    mt_wire_close(w);
}

static void join_take(struct mt_nccl_comm *c, struct joining *j)
{
    struct mt_wire w;
    struct hello h;
    int alone = 0;
    if (hello_take(c, &j->made->port, &w, &h))
        return;
    struct slot *s = &c->segment->slots[h.rank];
    if (h.n != c->n || !atomic_compare_exchange_strong(&s->pid, &alone, -1)) {
        join_answer(c, &w, MT_NCCL_USAGE);
        return;
    }
    j->wires[h.rank] = w;
    s->at = h.at;
    c->segment->far++;
    s->ready = 1;
    ring_bell_all(c->segment);
}

/* Waits for ranks that join, and for those that have joined and end. */
static int join_rest(struct patience *w, struct joining *j, uint32_t heard, const char *missing)
{
    enum { WAIT_MS = 50 };
    struct mt_nccl_comm *c = w->c;
    struct pollfd fds[MT_NCCL_RANKS + 1] = {{.fd = j->made->port.fd, .events = POLLIN}};
    for (int r = 0; r < c->n; r++)
        fds[r + 1] = (struct pollfd){.fd = j->wires[r].fd ? j->wires[r].fd : -1, .events = POLLIN};
    int n = mt_wire_is(&j->made->port) ? poll(fds, (nfds_t)c->n + 1, WAIT_MS) : poll(NULL, 0, WAIT_MS);
    if (n > 0 && fds[0].revents)
        join_take(c, j);
    for (int r = 0; n > 0 && r < c->n; r++)
        if (fds[r + 1].revents) /* it says nothing more before the answer */
            c->segment->slots[r].gone = MT_NCCL_ABORTED;
    return ring_judge(w, heard, missing);
}

/* Waits until all ranks are present in the memory of this machine. */
static int near_wait(struct mt_nccl_comm *c, struct joining *j)
{
    struct patience w = {c, "ncclCommInitRank", ring_now()};
    struct slot *slots = c->segment->slots;
    char missing[MT_NCCL_RANKS] = {0};
    for (;;) {
        uint32_t heard = slots[c->rank].bell;
        int left = 0, status;
        for (int r = 0; r < c->n; r++) {
            left += missing[r] = !slots[r].ready;
            if (slots[r].gone && r != c->rank)
                return nccl_fail(MT_NCCL_REMOTE, "%s: rank %d of %d: rank %d has ended", w.name, c->rank,
                                 c->n, r);
        }
        if (!left)
            return MT_NCCL_OK;
        status = j->made ? join_rest(&w, j, heard, missing) : ring_rest(&w, heard, missing);
        if (status)
            return status;
    }
}

/* Waits until all ranks have joined where the id was made. */
static int far_wait(struct mt_nccl_comm *c)
{
    enum { WAIT_MS = 500 };
    struct patience w = {c, "ncclCommInitRank", ring_now()};
    char missing[MT_NCCL_RANKS], place[INET6_ADDRSTRLEN];
    struct roll a;
    int status = MT_NCCL_OK;
    memset(missing, 1, sizeof missing);
    missing[c->rank] = 0;
    while (!status && mt_wire_is(&c->home) && mt_wire_ready(&c->home, 0, WAIT_MS))
        status = ring_judge(&w, 0, missing);
    if (status)
        return status;
    if (!mt_wire_is(&c->home) || mt_wire_all(&c->home, 0, &a, sizeof a, HELLO_MS) ||
        a.number != c->where.number)
        return nccl_fail(MT_NCCL_REMOTE,
                         "ncclCommInitRank: rank %d of %d: the process at %s that made the id has ended",
                         c->rank, c->n, mt_wire_words(&c->where.at, place));
    if (a.status)
        return nccl_fail(
            a.status == MT_NCCL_USAGE ? MT_NCCL_USAGE : MT_NCCL_REMOTE,
            a.status == MT_NCCL_USAGE
                ? "ncclCommInitRank: rank %d of %d is there already, or others have said another number"
                : "ncclCommInitRank: rank %d of %d: not all ranks have come",
            c->rank, c->n);
    for (int r = 0; r < c->n; r++)
        c->segment->slots[r].at = a.at[r];
    mt_wire_close(&c->home);
    return MT_NCCL_OK;
}

/* ---- connections between ranks: each connects to those before it, which accept it when they first need it;
 * a thread may have several ranks, which cannot wait for each other. */

static int mesh_connect(struct mt_nccl_comm *c)
{
    struct hello h = {.number = c->where.number, .secret = c->where.secret, .rank = c->rank, .n = c->n};
    char place[INET6_ADDRSTRLEN];
    for (int r = 0; r < c->rank; r++) {
        const struct mt_address *at = &c->segment->slots[r].at;
        if (mt_wire_connect(&c->wires[r], at) || mt_wire_all(&c->wires[r], 1, &h, sizeof h, HELLO_MS))
            return nccl_fail(MT_NCCL_REMOTE,
                             "ncclCommInitRank: rank %d of %d has no connection to rank %d at %s: %s",
                             c->rank, c->n, r, mt_wire_words(at, place), strerror(errno));
    }
    return MT_NCCL_OK;
}

static int mesh_accept(struct patience *w)
{
    enum { WAIT_MS = 200 };
    struct mt_nccl_comm *c = w->c;
    for (int status = MT_NCCL_OK, left = 1;;) {
        char missing[MT_NCCL_RANKS] = {0};
        struct mt_wire one;
        struct hello h;
        left = 0;
        for (int r = c->rank + 1; r < c->n; r++)
            left += missing[r] = !c->wires[r].fd;
        if (!left)
            break;
        if (!mt_wire_is(&c->port))
            return nccl_fail(MT_NCCL_SYSTEM, "%s: rank %d of %d has no socket for ranks of other machines",
                             w->name, c->rank, c->n);
        if (mt_wire_ready(&c->port, 0, WAIT_MS))
            status = ring_judge(w, 0, missing);
        else if (hello_take(c, &c->port, &one, &h) == 0) {
            if (h.rank > c->rank && !c->wires[h.rank].fd)
                c->wires[h.rank] = one;
            else
                mt_wire_close(&one);
        }
        if (status)
            return status;
    }
    mt_wire_close(&c->port);
    c->meshed = 1;
    return MT_NCCL_OK;
}

/* Waits until all ranks are present. */
static int nccl_wait_all(struct mt_nccl_comm *c)
{
    struct joining j = {.made = c->spans ? NULL : made_id_claim(c->id)};
    int status = c->spans ? far_wait(c) : near_wait(c, &j);
    for (int r = 0; r < c->n; r++)
        join_answer(c, &j.wires[r], status);
    made_id_free(j.made);
    if (status)
        return status;
    __mt_library_unshare(c->handle.bytes);
    c->spans |= c->segment->far != 0;
    if (c->spans)
        return mesh_connect(c);
    mt_wire_close(&c->port);
    return MT_NCCL_OK;
}

static void nccl_disconnect(struct mt_nccl_comm *c)
{
    for (int r = 0; r < c->n; r++)
        mt_wire_close(&c->wires[r]);
    mt_wire_close(&c->port);
    mt_wire_close(&c->home);
}

static void nccl_detach(struct mt_nccl_comm *c)
{
    nccl_disconnect(c);
    if (c->segment)
        munmap(c->segment, sizeof *c->segment);
    c->segment = NULL;
}

/* ---- NCCL's functions, as transfers between ranks ---- */

enum { BLOCK = 16384 /* elements reduced at a time */ };

/* Values that all ranks of a collective, or both ends of a message, must share. */
struct sign {
    uint32_t what, type, op;
    int32_t root;
    uint64_t count, bytes;
};

struct moves {
    struct mt_nccl_comm *c;
    const struct mt_nccl_do *d;
    size_t n;
    struct mt_nccl_item items[4 * MT_NCCL_RANKS];
};

static void do_out(struct moves *m, int peer, const void *p, size_t bytes)
{
    m->items[m->n++] = (struct mt_nccl_item){.peer = peer, .out = 1, .p = (char *)p, .bytes = bytes};
}

static void do_in(struct moves *m, int peer, void *p, size_t bytes)
{
    m->items[m->n++] = (struct mt_nccl_item){.peer = peer, .p = p, .bytes = bytes};
}

static int do_move(struct moves *m)
{
    int status = nccl_exchange(m->c, m->d->name, m->items, m->n);
    m->n = 0;
    return status;
}

static int do_is_root(const struct moves *m)
{
    return m->c->rank == m->d->root;
}

/* Checks that all ranks make the same call. */
static int do_sign(struct moves *m)
{
    const struct mt_nccl_do *d = m->d;
    const struct sign mine = {d->what, (uint32_t)d->type, (uint32_t)d->op, d->root, d->count, 0};
    struct sign theirs[MT_NCCL_RANKS];
    for (int r = 0; r < m->c->n; r++)
        if (r != m->c->rank) {
            do_out(m, r, &mine, sizeof mine);
            do_in(m, r, &theirs[r], sizeof mine);
            m->items[m->n - 1].same = &mine;
        }
    return do_move(m);
}

/* ---- without reduction */

/* Sends piece r of `send` to rank r (each: a piece per rank, else all of it), and receives piece r of `recv`
 * from it. NULL: nothing to send, or to receive. */
static int do_spread(struct moves *m, const char *send, int each, char *recv, const char *from,
                     const char *to)
{
    size_t bytes = m->d->count * nccl_size(m->d->type);
    int me = m->c->rank;
    for (int r = 0; r < m->c->n; r++) {
        const char *out = send ? send + (each ? (size_t)r * bytes : 0) : NULL;
        char *in = recv ? recv + (size_t)r * bytes : NULL;
        if (r == me) {
            if (out && in && in != out)
                memmove(in, out, bytes);
            continue;
        }
        if (out && to[r])
            do_out(m, r, out, bytes);
        if (in && from[r])
            do_in(m, r, in, bytes);
    }
    return do_move(m);
}

static int do_broadcast(struct moves *m)
{
    const struct mt_nccl_do *d = m->d;
    size_t bytes = d->count * nccl_size(d->type);
    if (!do_is_root(m)) {
        do_in(m, d->root, d->recv, bytes);
        return do_move(m);
    }
    for (int r = 0; r < m->c->n; r++)
        if (r != d->root)
            do_out(m, r, d->send, bytes);
    int status = do_move(m);
    if (!status && d->recv != d->send)
        memmove(d->recv, d->send, bytes);
    return status;
}

static int do_scatter(struct moves *m)
{
    const struct mt_nccl_do *d = m->d;
    size_t bytes = d->count * nccl_size(d->type);
    if (!do_is_root(m)) {
        do_in(m, d->root, d->recv, bytes);
        return do_move(m);
    }
    const char *own = (const char *)d->send + (size_t)d->root * bytes;
    for (int r = 0; r < m->c->n; r++)
        if (r != d->root)
            do_out(m, r, (const char *)d->send + (size_t)r * bytes, bytes);
    int status = do_move(m);
    if (!status && d->recv != own)
        memmove(d->recv, own, bytes);
    return status;
}

static int do_gather(struct moves *m)
{
    char all[MT_NCCL_RANKS], root[MT_NCCL_RANKS] = {0};
    memset(all, 1, sizeof all);
    root[m->d->root] = 1;
    return do_spread(m, m->d->send, 0, do_is_root(m) ? m->d->recv : NULL, all, root);
}

static int do_all(struct moves *m, int each)
{
    char all[MT_NCCL_RANKS];
    memset(all, 1, sizeof all);
    return do_spread(m, m->d->send, each, m->d->recv, all, all);
}

/* ---- with reduction: each rank computes a part of the result, from all ranks' data for it */

struct reduction {
    struct moves *m;
    char *room;                      /* n blocks: received data, or data to send if a scalar is multiplied */
    char *scaled;                    /* n blocks */
    size_t size, at;                 /* size of an element; position in each part */
    size_t begin[MT_NCCL_RANKS + 1]; /* borders of the parts, in elements */
};

static void do_parts(struct reduction *x)
{
    const struct mt_nccl_do *d = x->m->d;
    int n = x->m->c->n;
    for (int r = 0; r <= n; r++)
        x->begin[r] = d->what == MT_NCCL_REDUCE ? (r > d->root ? d->count : 0)
                      : d->what == MT_NCCL_REDUCESCATTER
                          ? d->count * (size_t)r
                          : d->count / (size_t)n * (size_t)r +
                                ((size_t)r < d->count % (size_t)n ? (size_t)r : d->count % (size_t)n);
}

/* Returns the number of next elements in rank r's part. */
static size_t do_some(const struct reduction *x, int r)
{
    size_t length = x->begin[r + 1] - x->begin[r], left = x->at < length ? length - x->at : 0;
    return left < BLOCK ? left : BLOCK;
}

static const char *do_mine(struct reduction *x, int r)
{
    const struct mt_nccl_do *d = x->m->d;
    const char *from = (const char *)d->send + (x->begin[r] + x->at) * x->size;
    char *to = x->scaled + (size_t)r * BLOCK * x->size;
    if (d->op < MT_NCCL_OPS)
        return from;
    nccl_scale(d->type, d->made.device ? d->made.device : d->made.value, from, to, do_some(x, r));
    return to;
}

static int do_reduce_block(struct reduction *x)
{
    struct moves *m = x->m;
    const struct mt_nccl_do *d = m->d;
    int me = m->c->rank, n = m->c->n;
    size_t own = do_some(x, me);
    const void *in[MT_NCCL_RANKS];
    for (int r = 0; r < n; r++) {
        in[r] = r == me ? do_mine(x, r) : x->room + (size_t)r * BLOCK * x->size;
        if (r == me)
            continue;
        if (do_some(x, r))
            do_out(m, r, do_mine(x, r), do_some(x, r) * x->size);
        if (own)
            do_in(m, r, (char *)in[r], own * x->size);
    }
    int status = do_move(m);
    char *to = (char *)d->recv + (x->at + (d->what == MT_NCCL_ALLREDUCE ? x->begin[me] : 0)) * x->size;
    if (!status && own)
        mt_nccl_reduce(d->type, d->op, in, n, to, own);
    for (int r = 0; !status && d->what == MT_NCCL_ALLREDUCE && r < n; r++) {
        if (r == me)
            continue;
        if (own)
            do_out(m, r, to, own * x->size);
        if (do_some(x, r))
            do_in(m, r, (char *)d->recv + (x->begin[r] + x->at) * x->size, do_some(x, r) * x->size);
    }
    return status ? status : do_move(m);
}

static int do_reduce(struct moves *m)
{
    struct reduction x = {.m = m, .size = nccl_size(m->d->type)};
    size_t longest = 0, blocks = (size_t)m->c->n * BLOCK * x.size;
    int status = MT_NCCL_OK;
    do_parts(&x);
    for (int r = 0; r < m->c->n; r++)
        longest = x.begin[r + 1] - x.begin[r] > longest ? x.begin[r + 1] - x.begin[r] : longest;
    x.room = malloc(2 * blocks);
    if (!x.room)
        return nccl_fail(MT_NCCL_SYSTEM, "%s: no memory", m->d->name);
    x.scaled = x.room + blocks;
    for (; x.at < longest && !status; x.at += BLOCK)
        status = do_reduce_block(&x);
    free(x.room);
    return status;
}

/* ---- the functions; each returns 0, or a status after a report */
static int nccl_collective(struct mt_nccl_comm *c, const struct mt_nccl_do *d)
{
    struct moves m = {.c = c, .d = d};
    int status = do_sign(&m);
    if (status)
        return status;
    switch (d->what) {
    case MT_NCCL_BROADCAST:
        return do_broadcast(&m);
    case MT_NCCL_ALLGATHER:
        return do_all(&m, 0);
    case MT_NCCL_ALLTOALL:
        return do_all(&m, 1);
    case MT_NCCL_GATHER:
        return do_gather(&m);
    case MT_NCCL_SCATTER:
        return do_scatter(&m);
    default:
        return do_reduce(&m);
    }
}

static int nccl_split_exchange(struct mt_nccl_splitting *s)
{
    const struct mt_nccl_do d = {.name = "ncclCommSplit", .what = MT_NCCL_SPLIT, .root = -1};
    struct moves m = {.c = s->c, .d = &d};
    int me = s->c->rank, status = do_sign(&m);
    for (int r = 0; r < s->c->n; r++)
        if (r != me) {
            do_out(&m, r, &s->all[me], sizeof *s->all);
            do_in(&m, r, &s->all[r], sizeof *s->all);
        }
    return status ? status : do_move(&m);
}

/* ---- sends and receives of a group: each is preceded by a sign */

static int nccl_messages(struct mt_nccl_comm *c, const struct mt_nccl_job *j)
{
    struct mt_nccl_item *items = calloc(2 * (size_t)j->n, sizeof *items);
    struct sign *want = calloc(2 * (size_t)j->n, sizeof *want);
    int status =
        items && want ? MT_NCCL_OK : nccl_fail(MT_NCCL_SYSTEM, "%s: no memory", j->parts[0].what.name);
    for (unsigned i = 0; !status && i < j->n; i++) {
        const struct mt_nccl_do *d = &j->parts[i].what;
        int out = d->what == MT_NCCL_SEND;
        size_t bytes = d->count * nccl_size(d->type);
        want[2 * i] = (struct sign){.what = MT_NCCL_SEND, .bytes = bytes};
        items[2 * i] = (struct mt_nccl_item){.peer = d->root,
                                             .out = out,
                                             .p = (char *)&want[2 * i + !out],
                                             .bytes = sizeof *want,
                                             .same = out ? NULL : &want[2 * i]};
        items[2 * i + 1] = (struct mt_nccl_item){
            .peer = d->root, .out = out, .p = out ? (char *)d->send : d->recv, .bytes = bytes};
    }
    if (!status)
        status = nccl_exchange(c, j->parts[0].what.name, items, 2 * (size_t)j->n);
    free(items);
    free(want);
    return status;
}

/* Thread of a rank: executes the rank's calls in their order, each when its stream has reached it. */

static struct mt_nccl_job *nccl_job_new(unsigned n)
{
    struct mt_nccl_job *j = calloc(1, sizeof *j + n * sizeof *j->parts);
    if (!j)
        return NULL;
    j->n = n;
    j->refs = (int)n + 1; /* for its parts, and for the queue */
    return j;
}

/* Called with the lock held. */
static void work_release(struct mt_nccl_job *j)
{
    if (--j->refs == 0)
        free(j);
}

static void work_append(struct mt_nccl_comm *c, struct mt_nccl_job *j)
{
    j->next = NULL;
    *(c->first ? &c->last->next : &c->first) = j;
    c->last = j;
}

static int work_perform(struct mt_nccl_comm *c, const struct mt_nccl_job *j)
{
    const struct mt_nccl_do *d = &j->parts[0].what;
    if (c->broken || c->aborted)
        return c->broken ? c->broken : MT_NCCL_USAGE;
    return j->split                  ? nccl_split_exchange(j->split)
           : d->what >= MT_NCCL_SEND ? nccl_messages(c, j)
                                     : nccl_collective(c, d);
}

/* Ends a job and continues its streams, without the lock meanwhile. */
static void work_end(struct mt_nccl_comm *c, struct mt_nccl_job *j, int status)
{
    j->how = status ? MT_LIBRARY_GIVEN_UP : MT_LIBRARY_DONE;
    j->done = 1;
    if (j->split) {
        j->split->status = status;
        j->split->done = 1;
    }
    c->first = j->next;
    for (unsigned i = 0; i < j->n; i++) {
        struct mt_library_call *call = j->parts[i].begun;
        if (!call)
            continue;
        pthread_mutex_unlock(&c->lock);
        __mt_library_end(call, j->how);
        pthread_mutex_lock(&c->lock);
    }
    work_release(j);
    pthread_cond_broadcast(&c->moved);
}

static void *work_thread(void *arg)
{
    struct mt_nccl_comm *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->quit || (c->first && c->aborted)) {
        struct mt_nccl_job *j = c->first;
        if (!j || !(j->begun == j->streams || j->dead || c->aborted)) {
            pthread_cond_wait(&c->moved, &c->lock);
            continue;
        }
        if (j->dead && !c->broken) {
            c->broken = MT_NCCL_CUDA;
            nccl_leave(c, MT_NCCL_ABORTED);
        }
        pthread_mutex_unlock(&c->lock);
        int status = work_perform(c, j);
        pthread_mutex_lock(&c->lock);
        if (status && !c->broken) {
            c->broken = status;
            nccl_leave(c, MT_NCCL_ABORTED); /* the rings are out of step */
        }
        work_end(c, j, status);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Called with the lock held. Returns 0 or -1. */
static int work_begin(struct mt_nccl_comm *c)
{
    if (!c->started && mt_base_thread_start(&c->thread, 0, work_thread, c))
        return -1;
    c->started = 1;
    return 0;
}

/* Queues a job that is not captured: the rank's next one. */
static void nccl_job_queue(struct mt_nccl_comm *c, struct mt_nccl_job *j)
{
    pthread_mutex_lock(&c->lock);
    work_append(c, j);
    pthread_mutex_unlock(&c->lock);
}

/* Queues a split as the rank's next job. Returns 0 or -1. */
static int nccl_split_begin(struct mt_nccl_splitting *s)
{
    struct mt_nccl_job *j = nccl_job_new(0);
    if (!j)
        return -1;
    j->split = s;
    pthread_mutex_lock(&s->c->lock);
    int rc = work_begin(s->c);
    if (rc == 0)
        work_append(s->c, j);
    else
        free(j);
    pthread_cond_broadcast(&s->c->moved);
    pthread_mutex_unlock(&s->c->lock);
    return rc;
}

static int nccl_split_wait(struct mt_nccl_splitting *s)
{
    pthread_mutex_lock(&s->c->lock);
    while (!s->done)
        pthread_cond_wait(&s->c->moved, &s->c->lock);
    pthread_mutex_unlock(&s->c->lock);
    return s->status;
}

/* Returns the copy of a captured job for this launch of the graph. */
static struct mt_nccl_job *work_copy(struct mt_nccl_comm *c, struct mt_nccl_job *j)
{
    struct mt_nccl_job *now = j->now;
    if (now)
        return now;
    now = nccl_job_new(j->n);
    if (!now)
        return NULL;
    now->streams = j->streams;
    memcpy(now->parts, j->parts, j->n * sizeof *j->parts);
    work_append(c, now);
    return j->now = now;
}

/* Functions run and drop of mt_library_call, for a part. */
static int nccl_part_run(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part,
                         struct mt_library_call *call)
{
    int how = MT_LIBRARY_FAILED;
    pthread_mutex_lock(&c->lock);
    struct mt_nccl_job *now = !j->captured ? j : nccl_is_comm(c) ? work_copy(c, j) : NULL;
    if (now && now->done) {
        how = now->how;
    } else if (!nccl_is_comm(c)) {
        mt_lib_say("%s: its communicator was destroyed before", call->name);
    } else if (!now || work_begin(c)) {
        mt_lib_say("%s: no memory, or no thread", call->name);
    } else {
        how = MT_LIBRARY_LATER;
        now->parts[part].begun = call;
        now->begun += now->parts[part].first;
        pthread_cond_broadcast(&c->moved);
    }
    if (now && j->captured) {
        j->now = ++now->met < now->n ? now : NULL;
        work_release(now);
    }
    pthread_mutex_unlock(&c->lock);
    return how;
}

static void nccl_part_drop(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part)
{
    if (j->captured)
        return;
    pthread_mutex_lock(&c->lock);
    if (!j->parts[part].begun && !j->done) { /* its stream will not reach it */
        j->dead = 1;
        work_begin(c);
        pthread_cond_broadcast(&c->moved);
    }
    work_release(j);
    pthread_mutex_unlock(&c->lock);
}

/* Waits until all jobs are done. */
static void nccl_drain(struct mt_nccl_comm *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->first)
        pthread_cond_wait(&c->moved, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

/* Ends the thread; unfinished jobs are given up. */
static void nccl_stop(struct mt_nccl_comm *c)
{
    pthread_mutex_lock(&c->lock);
    c->quit = 1;
    int started = c->started;
    while (!started && c->first)
        work_end(c, c->first, MT_NCCL_USAGE);
    pthread_cond_broadcast(&c->moved);
    if (c->segment)
        ring_bell(&c->segment->slots[c->rank]);
    pthread_mutex_unlock(&c->lock);
    if (started)
        pthread_join(c->thread, NULL);
}

/* ---- NCCL's calls: arguments, groups, and conversion to stream operations ---- */

/* ---- accesses of a call */

struct nccl_call {
    struct mt_library_call call;
    struct mt_nccl_comm *c;
    struct mt_nccl_job *job;
    unsigned part;
    int rank, n;
    struct mt_nccl_do what;
};

/* Notes `n` pieces, except the one already in place. */
static void call_note(struct mt_library_notes *notes, int type, const void *p, size_t piece, int n, int but)
{
    const char *at = p;
    if (but < 0)
        __mt_library_note(notes, type, at, piece * (size_t)n, 1, 0);
    else {
        __mt_library_note(notes, type, at, piece * (size_t)but, 1, 0);
        __mt_library_note(notes, type, at + piece * (size_t)(but + 1), piece * (size_t)(n - but - 1), 1, 0);
    }
}

/* Sets *send and *recv to the numbers of pieces at this rank's `send` and `recv`. */
static void call_pieces(const struct nccl_call *k, int *send, int *recv)
{
    int root = k->rank == k->what.root, n = k->n;
    *send = *recv = 1;
    switch (k->what.what) {
    case MT_NCCL_BROADCAST:
        *send = root;
        *recv = !root || k->what.send != k->what.recv;
        break;
    case MT_NCCL_REDUCE:
        *recv = root;
        break;
    case MT_NCCL_ALLGATHER:
        *recv = n;
        break;
    case MT_NCCL_REDUCESCATTER:
        *send = n;
        break;
    case MT_NCCL_ALLTOALL:
        *send = *recv = n;
        break;
    case MT_NCCL_GATHER:
        *recv = root ? n : 0;
        break;
    case MT_NCCL_SCATTER:
        *send = root ? n : 0;
        break;
    case MT_NCCL_SEND:
        *recv = 0;
        break;
    case MT_NCCL_RECV:
        *send = 0;
        break;
    default:
        break;
    }
}

static void nccl_call_ranges(struct mt_library_call *call, struct mt_library_notes *notes)
{
    const struct nccl_call *k = (const struct nccl_call *)call;
    const struct mt_nccl_do *d = &k->what;
    size_t bytes = d->count * nccl_size(d->type), own = (size_t)k->rank * bytes;
    int send, recv, there = -1;
    call_pieces(k, &send, &recv);
    if (d->op >= MT_NCCL_OPS && d->made.device)
        __mt_library_note(notes, MT_LIBRARY_READ, d->made.device, nccl_size(d->type), 1, 0);
    if (send)
        call_note(notes, MT_LIBRARY_READ, d->send, bytes, send, -1);
    if ((d->what == MT_NCCL_ALLGATHER || d->what == MT_NCCL_GATHER) && recv &&
        d->send == (char *)d->recv + own)
        there = k->rank;
    if (d->what == MT_NCCL_SCATTER && send && d->recv == (char *)d->send + own)
        recv = 0;
    if (recv)
        call_note(notes, MT_LIBRARY_WRITE, d->recv, bytes, recv, there);
}

static int nccl_call_run(struct mt_library_call *call)
{
    struct nccl_call *k = (struct nccl_call *)call;
    return nccl_part_run(k->c, k->job, k->part, call);
}

static void call_drop(struct mt_library_call *call)
{
    struct nccl_call *k = (struct nccl_call *)call;
    nccl_part_drop(k->c, k->job, k->part);
}

/* Stream of a part, and site of its call. */
struct target {
    void *stream;
    const void *site;
};

static int nccl_call_submit(struct mt_nccl_comm *c, struct mt_nccl_job *j, unsigned part,
                            const struct target *t)
{
    static const char *const ops[] = {"allreduce", "broadcast", "reduce",  "allgather", "reducescatter",
                                      "alltoall",  "gather",    "scatter", "send",      "recv"};
    const struct mt_nccl_do *d = &j->parts[part].what;
    int message = d->what >= MT_NCCL_SEND;
    struct nccl_call k = {.call = {.bytes = sizeof k,
                                   .name = d->name,
                                   .library = "nccl",
                                   .ranges = nccl_call_ranges,
                                   .run = nccl_call_run,
                                   .drop = call_drop,
                                   .site = t->site,
                                   .collective = {.comm = c->id,
                                                  .op = ops[d->what],
                                                  .rank = c->rank,
                                                  .ranks = c->n,
                                                  .root = message ? -1 : d->root,
                                                  .peer = message ? d->root : -1,
                                                  .count = d->count,
                                                  .size = (uint32_t)nccl_size(d->type)}},
                          .c = c,
                          .job = j,
                          .part = part,
                          .rank = c->rank,
                          .n = c->n,
                          .what = *d};
    return __mt_library_submit(t->stream, &k.call) ? MT_NCCL_CUDA : MT_NCCL_OK;
}

/* ---- groups */

struct waiting {
    struct mt_nccl_comm *c;
    void *stream;
    struct mt_nccl_do what;
    const void *site;
    int taken;
};
struct finishing {
    int (*finish)(void *);
    void *arg;
};
static _Thread_local struct group {
    int depth, status;
    struct waiting *calls;
    struct finishing *ends;
    size_t ncalls, call_room, nends, end_room;
} group;

/* keeps the status of a call: the group's end returns it, too */
static int nccl_noted(int status)
{
    if (group.depth && status && !group.status)
        group.status = status;
    return status;
}

/* Makes room for one more. Returns 0 or -1. */
static int call_grow(void *list, size_t *room, size_t n, size_t size)
{
    if (n < *room)
        return 0;
    size_t more = *room ? 2 * *room : 16;
    void *p = realloc(*(void **)list, more * size);
    if (!p)
        return -1;
    *(void **)list = p;
    *room = more;
    return 0;
}

/* Calls `finish` at once, or at the end of the group. arg: from malloc; freed. */
static int nccl_later(int (*finish)(void *), void *arg)
{
    if (!group.depth || call_grow(&group.ends, &group.end_room, group.nends, sizeof *group.ends)) {
        int status = finish(arg);
        free(arg);
        return status;
    }
    group.ends[group.nends++] = (struct finishing){finish, arg};
    return MT_NCCL_OK;
}

static int nccl_group_begin(void)
{
    group.depth++;
    return MT_NCCL_OK;
}

/* Calls added while these finish are appended: a split makes a communicator, which must wait for all of them.
 */
static int call_finish_ends(void)
{
    int first = MT_NCCL_OK;
    for (size_t i = 0; i < group.nends; i++) {
        int status = group.ends[i].finish(group.ends[i].arg);
        free(group.ends[i].arg);
        first = first ? first : status;
    }
    group.nends = 0;
    return first;
}

/* Collects the calls from `first` on that form one job with it: itself, or with a message all messages of its
 * communicator. */
static int call_together(const struct waiting *first, const struct waiting *w)
{
    int message = first->what.what >= MT_NCCL_SEND;
    return !w->taken && (w == first || (message && w->c == first->c && w->what.what >= MT_NCCL_SEND));
}

static int call_captured(void *stream)
{
    int status = 0;
    return !cudaStreamIsCapturing(stream, &status) && status == 1;
}

/* Submits one job, with its communicator's device current. */
static int call_put(size_t at)
{
    struct waiting *first = &group.calls[at];
    unsigned n = 0, i = 0;
    for (size_t k = at; k < group.ncalls; k++)
        n += (unsigned)call_together(first, &group.calls[k]);
    struct mt_nccl_job *j = nccl_job_new(n);
    struct target *to = malloc(n * sizeof *to);
    if (!j || !to) {
        free(j);
        free(to);
        return MT_NCCL_SYSTEM;
    }
    for (size_t k = at; i < n; k++) {
        struct waiting *w = &group.calls[k];
        if (!call_together(first, w))
            continue;
        j->parts[i] = (struct mt_nccl_part){.what = w->what, .first = 1};
        for (unsigned before = 0; before < i; before++)
            j->parts[i].first &= to[before].stream != w->stream;
        j->streams += j->parts[i].first;
        to[i++] = (struct target){w->stream, w->site};
        w->taken = w != first;
    }
    first->taken = 1;
    j->captured = call_captured(to[0].stream);
    if (!j->captured)
        nccl_job_queue(first->c, j);
    int status = MT_NCCL_OK;
    for (i = 0; i < n; i++) {
        int e = nccl_call_submit(first->c, j, i, &to[i]);
        if (e && !j->captured)
            nccl_part_drop(first->c, j, i);
        status = status ? status : e;
    }
    free(to);
    return status;
}

/* Submits collectives first: ranks may order them differently with respect to messages. */
static int call_put_all(void)
{
    int status = MT_NCCL_OK, before, known = !cudaGetDevice(&before);
    for (int messages = 0; messages < 2; messages++)
        for (size_t i = 0; i < group.ncalls; i++) {
            struct waiting *w = &group.calls[i];
            if (w->taken || (w->what.what >= MT_NCCL_SEND) != messages)
                continue;
            int e = cudaSetDevice(w->c->device) ? MT_NCCL_CUDA : call_put(i);
            status = status ? status : e;
        }
    if (known)
        cudaSetDevice(before);
    return status;
}

static int nccl_group_end(void)
{
    if (!group.depth)
        return nccl_fail(MT_NCCL_USAGE, "ncclGroupEnd: not in a group call");
    if (group.depth > 1) {
        group.depth--;
        return MT_NCCL_OK;
    }
    int status = call_finish_ends();
    status = group.status ? group.status : status;
    if (!status)
        status = call_put_all();
    group.depth = 0;
    group.status = MT_NCCL_OK;
    group.ncalls = 0;
    free(group.calls);
    free(group.ends);
    group.calls = NULL;
    group.ends = NULL;
    group.call_room = group.end_room = 0;
    return status;
}

int impl_ncclGroupStart(void)
{
    return nccl_group_begin();
}

int impl_ncclGroupEnd(void)
{
    return nccl_group_end();
}

/* ---- NCCL's communicators ---- */

/* ---- creation */

int impl_ncclGetUniqueId(mt_nccl_id *id)
{
    return id ? nccl_segment_new(id, 1) : MT_NCCL_ARGUMENT;
}

static void comm_free(struct mt_nccl_comm *c)
{
    nccl_detach(c);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->moved);
    free(c);
}

struct making {
    struct mt_nccl_comm *c, **out;
};

static int comm_finish_init(void *arg)
{
    struct making *m = arg;
    int status = nccl_wait_all(m->c);
    if (!status)
        __mt_library_communicator(m->c->id, m->c->rank, m->c->n, m->c->device);
    if (status) {
        nccl_disconnect(m->c);
        m->c->magic = 0; /* others may still see it */
        *m->out = NULL;
    }
    return status;
}

/* Makes a communicator on the current device; its memory exists. */
static int comm_init(struct mt_nccl_comm **out, int n, const mt_nccl_id *id, int rank)
{
    struct making *m = NULL;
    struct mt_nccl_comm *c;
    if (!out || n < 1 || rank < 0 || rank >= n)
        return MT_NCCL_ARGUMENT;
    *out = NULL;
    if (n > MT_NCCL_RANKS)
        return nccl_fail(MT_NCCL_USAGE,
                         "ncclCommInitRank: %d ranks, but on the CPU device there are %d at most", n,
                         MT_NCCL_RANKS);
    if (!(c = calloc(1, sizeof *c)) || !(m = malloc(sizeof *m))) {
        free(c);
        return MT_NCCL_SYSTEM;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->moved, NULL);
    c->rank = rank;
    c->n = n;
    int status = cudaGetDevice(&c->device) ? MT_NCCL_CUDA : nccl_attach(c, id);
    if (status) {
        comm_free(c);
        free(m);
        return status;
    }
    c->magic = COMM_MAGIC;
    *out = c;
    *m = (struct making){c, out};
    return nccl_later(comm_finish_init, m);
}

int impl_ncclCommInitRank(struct mt_nccl_comm **out, int n, mt_nccl_id id, int rank)
{
    return nccl_noted(comm_init(out, n, &id, rank));
}

/* Nothing in the configuration matters here. */
int impl_ncclCommInitRankConfig(struct mt_nccl_comm **out, int n, mt_nccl_id id, int rank, const void *config)
{
    return nccl_noted(comm_init(out, n, &id, rank));
}

int impl_ncclCommInitRankScalable(struct mt_nccl_comm **out, int n, int rank, int nids, const mt_nccl_id *ids,
                                  const void *config)
{
    return nccl_noted(nids < 1 || !ids ? MT_NCCL_ARGUMENT : comm_init(out, n, &ids[0], rank));
}

static int comm_devices(int n, const int *devices, int count)
{
    for (int i = 0; i < n; i++) {
        int d = devices ? devices[i] : i;
        if (d < 0 || d >= count)
            return nccl_fail(MT_NCCL_CUDA,
                             "ncclCommInitAll: device %d of %d; MEMTRACE_CPU_DEVICES=%d makes as many", d,
                             count, d < 0 ? n : d + 1);
        for (int k = 0; devices && k < i; k++)
            if (devices[k] == d)
                return nccl_fail(MT_NCCL_USAGE, "ncclCommInitAll: device %d is there twice", d);
    }
    return MT_NCCL_OK;
}

int impl_ncclCommInitAll(struct mt_nccl_comm **out, int n, const int *devices)
{
    mt_nccl_id id;
    int before, count;
    if (!out || n < 1)
        return nccl_noted(MT_NCCL_ARGUMENT);
    if (cudaGetDeviceCount(&count) || cudaGetDevice(&before))
        return nccl_noted(MT_NCCL_CUDA);
    int status = comm_devices(n, devices, count);
    if (!status)
        status = nccl_segment_new(&id, 0);
    if (status)
        return nccl_noted(status);
    nccl_group_begin();
    for (int i = 0; i < n; i++) {
        int e = cudaSetDevice(devices ? devices[i] : i) ? MT_NCCL_CUDA : comm_init(&out[i], n, &id, i);
        status = status ? status : nccl_noted(e);
    }
    cudaSetDevice(before);
    int end = nccl_group_end();
    return nccl_noted(status ? status : end);
}

/* ---- splitting */

/* Finds the rank among those of this color, by key and then old rank; *count: their number; *first: the first
 * of them. */
static int comm_place(const struct mt_nccl_split *all, int n, int me, int *count, int *first)
{
    int place = 0, least = me;
    *count = 0;
    for (int r = 0; r < n; r++) {
        if (all[r].color != all[me].color)
            continue;
        ++*count;
        place += all[r].key < all[me].key || (all[r].key == all[me].key && r < me);
        if (all[r].key < all[least].key || (all[r].key == all[least].key && r < least))
            least = r;
    }
    *first = least;
    return place;
}

static int comm_finish_split(void *arg)
{
    struct mt_nccl_splitting *s = arg;
    struct mt_nccl_comm *c = s->c;
    const struct mt_nccl_split *mine = &s->all[c->rank];
    int count, first, before, status = nccl_split_wait(s);
    if (status) {
        nccl_segment_drop(&mine->id);
        return status;
    }
    int place = comm_place(s->all, c->n, c->rank, &count, &first);
    if (mine->color == NO_COLOR || first != c->rank)
        nccl_segment_drop(&mine->id);
    if (mine->color == NO_COLOR)
        return MT_NCCL_OK;
    if (cudaGetDevice(&before) || cudaSetDevice(c->device))
        return MT_NCCL_CUDA;
    status = comm_init(s->out, count, &s->all[first].id, place);
    cudaSetDevice(before);
    return status;
}

static int comm_split(struct mt_nccl_comm *c, int color, int key, struct mt_nccl_comm **out)
{
    if (!nccl_is_comm(c) || !out || color < NO_COLOR)
        return MT_NCCL_ARGUMENT;
    struct mt_nccl_splitting *s = calloc(1, sizeof *s);
    if (!s)
        return MT_NCCL_SYSTEM;
    *out = NULL;
    s->c = c;
    s->out = out;
    s->all[c->rank] = (struct mt_nccl_split){.color = color, .key = key};
    int status = nccl_segment_new(&s->all[c->rank].id, c->spans);
    if (!status && nccl_split_begin(s)) {
        nccl_segment_drop(&s->all[c->rank].id);
        status = nccl_fail(MT_NCCL_SYSTEM, "ncclCommSplit: no memory, or no thread");
    }
    if (status) {
        free(s);
        return status;
    }
    return nccl_later(comm_finish_split, s);
}

int impl_ncclCommSplit(struct mt_nccl_comm *c, int color, int key, struct mt_nccl_comm **out,
                       const void *config)
{
    return nccl_noted(comm_split(c, color, key, out));
}

/* ---- end */

int impl_ncclCommFinalize(struct mt_nccl_comm *c)
{
    if (!nccl_is_comm(c))
        return MT_NCCL_ARGUMENT;
    nccl_drain(c);
    return MT_NCCL_OK;
}

static void nccl_comm_end(struct mt_nccl_comm *c, enum mt_nccl_gone how)
{
    nccl_leave(c, how);
    nccl_stop(c);
    c->magic = 0;
    nccl_detach(c);
}

int impl_ncclCommDestroy(struct mt_nccl_comm *c)
{
    if (!c)
        return MT_NCCL_OK;
    if (!nccl_is_comm(c))
        return MT_NCCL_ARGUMENT;
    nccl_drain(c);
    nccl_comm_end(c, MT_NCCL_DESTROYED);
    return MT_NCCL_OK;
}

int impl_ncclCommAbort(struct mt_nccl_comm *c)
{
    if (!c)
        return MT_NCCL_OK;
    if (!nccl_is_comm(c))
        return MT_NCCL_ARGUMENT;
    c->aborted = 1;
    nccl_comm_end(c, MT_NCCL_ABORTED);
    return MT_NCCL_OK;
}

/* ---- queries */

int impl_ncclCommCount(const struct mt_nccl_comm *c, int *n)
{
    if (!nccl_is_comm(c) || !n)
        return MT_NCCL_ARGUMENT;
    *n = c->n;
    return MT_NCCL_OK;
}

int impl_ncclCommCuDevice(const struct mt_nccl_comm *c, int *device)
{
    if (!nccl_is_comm(c) || !device)
        return MT_NCCL_ARGUMENT;
    *device = c->device;
    return MT_NCCL_OK;
}

int impl_ncclCommUserRank(const struct mt_nccl_comm *c, int *rank)
{
    if (!nccl_is_comm(c) || !rank)
        return MT_NCCL_ARGUMENT;
    *rank = c->rank;
    return MT_NCCL_OK;
}

int impl_ncclCommGetAsyncError(struct mt_nccl_comm *c, int *status)
{
    if (!nccl_is_comm(c) || !status)
        return MT_NCCL_ARGUMENT;
    *status = c->broken;
    return MT_NCCL_OK;
}

/* ---- memory and operations */

int impl_ncclMemAlloc(void **p, size_t bytes)
{
    return !p || !bytes ? MT_NCCL_ARGUMENT : cudaMalloc(p, bytes) ? MT_NCCL_CUDA : MT_NCCL_OK;
}

int impl_ncclMemFree(void *p)
{
    return cudaFree(p) ? MT_NCCL_CUDA : MT_NCCL_OK;
}

/* Registering known memory needs no action. */
int impl_ncclCommRegister(const struct mt_nccl_comm *c, void *p, size_t bytes, void **handle)
{
    if (!nccl_is_comm(c) || !p || !handle)
        return MT_NCCL_ARGUMENT;
    *handle = p;
    return MT_NCCL_OK;
}

int impl_ncclCommDeregister(const struct mt_nccl_comm *c, void *handle)
{
    return nccl_is_comm(c) ? MT_NCCL_OK : MT_NCCL_ARGUMENT;
}

int impl_ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct mt_nccl_comm *c)
{
    if (!nccl_is_comm(c) || !op || !scalar || type < 0 || type >= MT_NCCL_TYPES || residence < 0 ||
        residence > HOST_IMMEDIATE)
        return MT_NCCL_ARGUMENT;
    pthread_mutex_lock(&c->lock);
    int i = 0;
    while (i < MT_NCCL_MADE && c->made[i].used)
        i++;
    if (i < MT_NCCL_MADE) {
        c->made[i] = (struct mt_nccl_made){
            .used = 1, .type = type, .device = residence == HOST_IMMEDIATE ? NULL : scalar};
        if (residence == HOST_IMMEDIATE)
            memcpy(c->made[i].value, scalar, nccl_size(type));
        *op = MT_NCCL_OPS + i;
    }
    pthread_mutex_unlock(&c->lock);
    return i < MT_NCCL_MADE
               ? MT_NCCL_OK
               : nccl_fail(MT_NCCL_USAGE, "ncclRedOpCreatePreMulSum: more than %d operations at a time",
                           MT_NCCL_MADE);
}

int impl_ncclRedOpDestroy(int op, struct mt_nccl_comm *c)
{
    int i = op - MT_NCCL_OPS;
    if (!nccl_is_comm(c) || i < 0 || i >= MT_NCCL_MADE || !c->made[i].used)
        return MT_NCCL_ARGUMENT;
    c->made[i].used = 0;
    return MT_NCCL_OK;
}

/* ---- calls */

static int nccl_call_check(const struct mt_nccl_comm *c, const struct mt_nccl_do *d)
{
    int reduces =
        d->what == MT_NCCL_ALLREDUCE || d->what == MT_NCCL_REDUCE || d->what == MT_NCCL_REDUCESCATTER;
    int rooted = d->what != MT_NCCL_ALLREDUCE && d->what != MT_NCCL_ALLGATHER &&
                 d->what != MT_NCCL_REDUCESCATTER && d->what != MT_NCCL_ALLTOALL;
    size_t bytes;
    if (!nccl_is_comm(c))
        return nccl_fail(MT_NCCL_ARGUMENT, "%s: the communicator is none", d->name);
    if (rooted && (d->root < 0 || d->root >= c->n))
        return nccl_fail(MT_NCCL_ARGUMENT, "%s: rank %d of %d", d->name, d->root, c->n);
    if (d->type < 0 || d->type >= MT_NCCL_TYPES)
        return nccl_fail(MT_NCCL_ARGUMENT, "%s: data type %d", d->name, d->type);
    int made = d->op - MT_NCCL_OPS;
    if (reduces && (d->op < 0 || made >= MT_NCCL_MADE ||
                    (made >= 0 && (!c->made[made].used || c->made[made].type != d->type))))
        return nccl_fail(MT_NCCL_ARGUMENT, "%s: operation %d", d->name, d->op);
    if (__builtin_mul_overflow(d->count, 8 * MT_NCCL_RANKS, &bytes) || bytes > PTRDIFF_MAX)
        return nccl_fail(MT_NCCL_ARGUMENT, "%s: %zu elements", d->name, d->count);
    return MT_NCCL_OK;
}

static int call_make(struct mt_nccl_do d, struct mt_nccl_comm *c, void *stream)
{
    int status = nccl_call_check(c, &d);
    if (status || !d.count)
        return nccl_noted(status);
    if (d.op >= MT_NCCL_OPS)
        d.made = c->made[d.op - MT_NCCL_OPS];
    if (call_grow(&group.calls, &group.call_room, group.ncalls, sizeof *group.calls))
        return nccl_noted(MT_NCCL_SYSTEM);
    nccl_group_begin();
    group.calls[group.ncalls++] = (struct waiting){c, stream, d, __mt_library_site(), 0};
    return nccl_group_end();
}

#define DO(what, ...) call_make((struct mt_nccl_do){"nccl" what, __VA_ARGS__, {0}}, c, stream)

int impl_ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, struct mt_nccl_comm *c,
                       void *stream)
{
    return DO("AllReduce", MT_NCCL_ALLREDUCE, send, recv, count, type, op, -1);
}

int impl_ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, struct mt_nccl_comm *c,
                       void *stream)
{
    return DO("Broadcast", MT_NCCL_BROADCAST, send, recv, count, type, 0, root);
}

int impl_ncclBcast(void *p, size_t count, int type, int root, struct mt_nccl_comm *c, void *stream)
{
    return DO("Bcast", MT_NCCL_BROADCAST, p, p, count, type, 0, root);
}

int impl_ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root,
                    struct mt_nccl_comm *c, void *stream)
{
    return DO("Reduce", MT_NCCL_REDUCE, send, recv, count, type, op, root);
}

int impl_ncclAllGather(const void *send, void *recv, size_t count, int type, struct mt_nccl_comm *c,
                       void *stream)
{
    return DO("AllGather", MT_NCCL_ALLGATHER, send, recv, count, type, 0, -1);
}

int impl_ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
                           struct mt_nccl_comm *c, void *stream)
{
    return DO("ReduceScatter", MT_NCCL_REDUCESCATTER, send, recv, count, type, op, -1);
}

int impl_ncclAlltoAll(const void *send, void *recv, size_t count, int type, struct mt_nccl_comm *c,
                      void *stream)
{
    return DO("AlltoAll", MT_NCCL_ALLTOALL, send, recv, count, type, 0, -1);
}

int impl_ncclGather(const void *send, void *recv, size_t count, int type, int root, struct mt_nccl_comm *c,
                    void *stream)
{
    return DO("Gather", MT_NCCL_GATHER, send, recv, count, type, 0, root);
}

int impl_ncclScatter(const void *send, void *recv, size_t count, int type, int root, struct mt_nccl_comm *c,
                     void *stream)
{
    return DO("Scatter", MT_NCCL_SCATTER, send, recv, count, type, 0, root);
}

int impl_ncclSend(const void *send, size_t count, int type, int peer, struct mt_nccl_comm *c, void *stream)
{
    return DO("Send", MT_NCCL_SEND, send, NULL, count, type, 0, peer);
}

int impl_ncclRecv(void *recv, size_t count, int type, int peer, struct mt_nccl_comm *c, void *stream)
{
    return DO("Recv", MT_NCCL_RECV, NULL, recv, count, type, 0, peer);
}
