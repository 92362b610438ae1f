/* NCCL's communicators. */
#include "library.h"
#include "nccl.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaGetDeviceCount(int *count);
int cudaMalloc(void **p, size_t bytes);
int cudaFree(void *p);

enum { VERSION = 22809, HOST_IMMEDIATE = 1, NO_COLOR = -1 };
#define MAGIC 0x6c63636e6d6d6f63u

/* ---- errors */

static _Thread_local char comm_words[512];

int mt_nccl_fail(int status, const char *format, ...)
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

/* ---- making */

int mt_nccl_is_comm(const struct mt_nccl_comm *c)
{
    return c && c->magic == MAGIC;
}

int impl_ncclGetUniqueId(mt_nccl_id *id)
{
    return id ? mt_nccl_segment_new(id) : MT_NCCL_ARGUMENT;
}

static void comm_free(struct mt_nccl_comm *c)
{
    mt_nccl_detach(c);
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
    int status = mt_nccl_wait_all(m->c);
    if (!status)
        __mt_library_communicator(m->c->id, m->c->rank, m->c->n, m->c->device);
    if (status) {
        m->c->magic = 0; /* the others may see it still */
        *m->out = NULL;
    }
    return status;
}

/* On the current device; its memory is there. */
static int comm_init(struct mt_nccl_comm **out, int n, const mt_nccl_id *id, int rank)
{
    struct making *m = NULL;
    struct mt_nccl_comm *c;
    if (!out || n < 1 || rank < 0 || rank >= n)
        return MT_NCCL_ARGUMENT;
    *out = NULL;
    if (n > MT_NCCL_RANKS)
        return mt_nccl_fail(MT_NCCL_USAGE,
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
    int status = cudaGetDevice(&c->device) ? MT_NCCL_CUDA : mt_nccl_attach(c, id);
    if (status) {
        comm_free(c);
        free(m);
        return status;
    }
    c->magic = MAGIC;
    *out = c;
    *m = (struct making){c, out};
    return mt_nccl_later(comm_finish_init, m);
}

int impl_ncclCommInitRank(struct mt_nccl_comm **out, int n, mt_nccl_id id, int rank)
{
    return mt_nccl_noted(comm_init(out, n, &id, rank));
}

/* The configuration has nothing that would matter here. */
int impl_ncclCommInitRankConfig(struct mt_nccl_comm **out, int n, mt_nccl_id id, int rank, const void *config)
{
    return mt_nccl_noted(comm_init(out, n, &id, rank));
}

int impl_ncclCommInitRankScalable(struct mt_nccl_comm **out, int n, int rank, int nids, const mt_nccl_id *ids,
                                  const void *config)
{
    return mt_nccl_noted(nids < 1 || !ids ? MT_NCCL_ARGUMENT : comm_init(out, n, &ids[0], rank));
}

static int comm_devices(int n, const int *devices, int count)
{
    for (int i = 0; i < n; i++) {
        int d = devices ? devices[i] : i;
        if (d < 0 || d >= count)
            return mt_nccl_fail(MT_NCCL_CUDA,
                                "ncclCommInitAll: device %d of %d; MEMTRACE_CPU_DEVICES=%d makes as many", d,
                                count, d < 0 ? n : d + 1);
        for (int k = 0; devices && k < i; k++)
            if (devices[k] == d)
                return mt_nccl_fail(MT_NCCL_USAGE, "ncclCommInitAll: device %d is there twice", d);
    }
    return MT_NCCL_OK;
}

int impl_ncclCommInitAll(struct mt_nccl_comm **out, int n, const int *devices)
{
    mt_nccl_id id;
    int before, count;
    if (!out || n < 1)
        return mt_nccl_noted(MT_NCCL_ARGUMENT);
    if (cudaGetDeviceCount(&count) || cudaGetDevice(&before))
        return mt_nccl_noted(MT_NCCL_CUDA);
    int status = comm_devices(n, devices, count);
    if (!status)
        status = mt_nccl_segment_new(&id);
    if (status)
        return mt_nccl_noted(status);
    mt_nccl_group_begin();
    for (int i = 0; i < n; i++) {
        int e = cudaSetDevice(devices ? devices[i] : i) ? MT_NCCL_CUDA : comm_init(&out[i], n, &id, i);
        status = status ? status : mt_nccl_noted(e);
    }
    cudaSetDevice(before);
    int end = mt_nccl_group_end();
    return mt_nccl_noted(status ? status : end);
}

/* ---- splitting */

struct splitting {
    struct mt_nccl_comm *c, **out;
    struct mt_nccl_split mine;
};

/* Ranks of this color, by key and then by their old rank: which one is it, of how many; *first: the first of
 * them. */
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
    struct splitting *s = arg;
    struct mt_nccl_split all[MT_NCCL_RANKS];
    struct mt_nccl_comm *c = s->c;
    int count, first, before, status = mt_nccl_split_hear(c, all);
    if (status)
        return status;
    int place = comm_place(all, c->n, c->rank, &count, &first);
    if (s->mine.color == NO_COLOR || first != c->rank)
        __mt_library_unshare(s->mine.id.bytes);
    if (s->mine.color == NO_COLOR)
        return MT_NCCL_OK;
    if (cudaGetDevice(&before) || cudaSetDevice(c->device))
        return MT_NCCL_CUDA;
    status = comm_init(s->out, count, &all[first].id, place);
    cudaSetDevice(before);
    return status;
}

static int comm_split(struct mt_nccl_comm *c, int color, int key, struct mt_nccl_comm **out)
{
    if (!mt_nccl_is_comm(c) || !out || color < NO_COLOR)
        return MT_NCCL_ARGUMENT;
    struct splitting *s = malloc(sizeof *s);
    if (!s)
        return MT_NCCL_SYSTEM;
    *out = NULL;
    *s = (struct splitting){.c = c, .out = out, .mine = {.color = color, .key = key}};
    int status = mt_nccl_segment_new(&s->mine.id);
    if (status) {
        free(s);
        return status;
    }
    mt_nccl_split_say(c, &s->mine);
    return mt_nccl_later(comm_finish_split, s);
}

int impl_ncclCommSplit(struct mt_nccl_comm *c, int color, int key, struct mt_nccl_comm **out,
                       const void *config)
{
    return mt_nccl_noted(comm_split(c, color, key, out));
}

/* ---- ending */

int impl_ncclCommFinalize(struct mt_nccl_comm *c)
{
    if (!mt_nccl_is_comm(c))
        return MT_NCCL_ARGUMENT;
    mt_nccl_drain(c);
    return MT_NCCL_OK;
}

static void comm_end(struct mt_nccl_comm *c, enum mt_nccl_gone how)
{
    mt_nccl_leave(c, how);
    mt_nccl_stop(c);
    c->magic = 0;
    mt_nccl_detach(c);
}

int impl_ncclCommDestroy(struct mt_nccl_comm *c)
{
    if (!c)
        return MT_NCCL_OK;
    if (!mt_nccl_is_comm(c))
        return MT_NCCL_ARGUMENT;
    mt_nccl_drain(c);
    comm_end(c, MT_NCCL_DESTROYED);
    return MT_NCCL_OK;
}

int impl_ncclCommAbort(struct mt_nccl_comm *c)
{
    if (!c)
        return MT_NCCL_OK;
    if (!mt_nccl_is_comm(c))
        return MT_NCCL_ARGUMENT;
    c->aborted = 1;
    comm_end(c, MT_NCCL_ABORTED);
    return MT_NCCL_OK;
}

/* ---- asking */

int impl_ncclCommCount(const struct mt_nccl_comm *c, int *n)
{
    if (!mt_nccl_is_comm(c) || !n)
        return MT_NCCL_ARGUMENT;
    *n = c->n;
    return MT_NCCL_OK;
}

int impl_ncclCommCuDevice(const struct mt_nccl_comm *c, int *device)
{
    if (!mt_nccl_is_comm(c) || !device)
        return MT_NCCL_ARGUMENT;
    *device = c->device;
    return MT_NCCL_OK;
}

int impl_ncclCommUserRank(const struct mt_nccl_comm *c, int *rank)
{
    if (!mt_nccl_is_comm(c) || !rank)
        return MT_NCCL_ARGUMENT;
    *rank = c->rank;
    return MT_NCCL_OK;
}

int impl_ncclCommGetAsyncError(struct mt_nccl_comm *c, int *status)
{
    if (!mt_nccl_is_comm(c) || !status)
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

/* Nothing is to be done for memory that is known. */
int impl_ncclCommRegister(const struct mt_nccl_comm *c, void *p, size_t bytes, void **handle)
{
    if (!mt_nccl_is_comm(c) || !p || !handle)
        return MT_NCCL_ARGUMENT;
    *handle = p;
    return MT_NCCL_OK;
}

int impl_ncclCommDeregister(const struct mt_nccl_comm *c, void *handle)
{
    return mt_nccl_is_comm(c) ? MT_NCCL_OK : MT_NCCL_ARGUMENT;
}

int impl_ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct mt_nccl_comm *c)
{
    if (!mt_nccl_is_comm(c) || !op || !scalar || type < 0 || type >= MT_NCCL_TYPES || residence < 0 ||
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
            memcpy(c->made[i].value, scalar, mt_nccl_size(type));
        *op = MT_NCCL_OPS + i;
    }
    pthread_mutex_unlock(&c->lock);
    return i < MT_NCCL_MADE
               ? MT_NCCL_OK
               : mt_nccl_fail(MT_NCCL_USAGE, "ncclRedOpCreatePreMulSum: more than %d operations at a time",
                              MT_NCCL_MADE);
}

int impl_ncclRedOpDestroy(int op, struct mt_nccl_comm *c)
{
    int i = op - MT_NCCL_OPS;
    if (!mt_nccl_is_comm(c) || i < 0 || i >= MT_NCCL_MADE || !c->made[i].used)
        return MT_NCCL_ARGUMENT;
    c->made[i].used = 0;
    return MT_NCCL_OK;
}
