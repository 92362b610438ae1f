/* NCCL: results of every function next to a sum over all ranks' input, made here of formulas; several ranks
 * as one thread with groups, as threads and as processes. Says "ok". */
#define _GNU_SOURCE
#include "nccl_must.h"
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8 };
struct rank {
    int rank, n;
    ncclComm_t comm;
    cudaStream_t stream;
    unsigned char *memory;
};

/* ---- elements: the test's own conversions, by search in a table of all values */

static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
/* Of a value's exponent: by this much a rounded one may be wrong. */
static const double wrong[] = {0, 0, 0, 0, 0, 0, 0x1p-11, 0x1p-24, 0x1p-52, 0x1p-8, 0x1p-4, 0x1p-3};

static double small(unsigned v, int exponent, int mantissa)
{
    int e = (int)(v >> mantissa) & ((1 << exponent) - 1), m = (int)v & ((1 << mantissa) - 1),
        bias = (1 << (exponent - 1)) - 1;
    double d = e ? ldexp(1 + ldexp(m, -mantissa), e - bias) : ldexp(m, 1 - bias - mantissa);
    return v >> (exponent + mantissa) & 1 ? -d : d;
}

static double get(int type, const void *p, size_t i)
{
    switch (type) {
    case ncclInt8:
        return ((const int8_t *)p)[i];
    case ncclUint8:
        return ((const uint8_t *)p)[i];
    case ncclInt32:
        return ((const int32_t *)p)[i];
    case ncclUint32:
        return ((const uint32_t *)p)[i];
    case ncclInt64:
        return (double)((const int64_t *)p)[i];
    case ncclUint64:
        return (double)((const uint64_t *)p)[i];
    case ncclFloat32:
        return ((const float *)p)[i];
    case ncclFloat64:
        return ((const double *)p)[i];
    case ncclFloat16:
        return small(((const uint16_t *)p)[i], 5, 10);
    case ncclBfloat16:
        return small(((const uint16_t *)p)[i], 8, 7);
    case ncclFloat8e4m3:
        return small(((const uint8_t *)p)[i], 4, 3);
    default:
        return small(((const uint8_t *)p)[i], 5, 2);
    }
}

/* v: a small integer. */
static void put(int type, void *p, size_t i, int v)
{
    switch (type) {
    case ncclFloat32:
        ((float *)p)[i] = (float)v;
        return;
    case ncclFloat64:
        ((double *)p)[i] = v;
        return;
    case ncclFloat16:
    case ncclBfloat16:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
        for (unsigned bits = 0; bits < 1u << 8 * sizes[type]; bits++) {
            memcpy((char *)p + i * (size_t)sizes[type], &bits, (size_t)sizes[type]);
            if (get(type, p, i) == v)
                return;
        }
        exit(2);
    default: {
        int64_t wide = v;
        memcpy((char *)p + i * (size_t)sizes[type], &wide, (size_t)sizes[type]);
    }
    }
}

static int is_signed(int type)
{
    return type != ncclUint8 && type != ncclUint32 && type != ncclUint64;
}

/* Element i of rank r's input: -2 to 3. */
static int input(int r, size_t i, int type)
{
    int v = (int)((i * 7 + (size_t)r * 5 + i / 3) % 6);
    return is_signed(type) ? v - 2 : v;
}

/* ---- functions: what each is given, and what must come out */

enum what { ALLREDUCE, BROADCAST, BCAST, REDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL, GATHER, SCATTER, WHATS };
struct job {
    enum what what;
    int type, op, root,
        inplace; /* op: ncclNumOps, + 1: a scalar of the host, of the device, which multiplies */
    size_t count;
};
enum { SCALAR = 2 };

static size_t pieces_in(const struct job *j, int n)
{
    return j->what == REDUCESCATTER || j->what == ALLTOALL || j->what == SCATTER ? (size_t)n : 1;
}

static size_t pieces_out(const struct job *j, int n)
{
    return j->what == ALLGATHER || j->what == ALLTOALL || j->what == GATHER ? (size_t)n : 1;
}

static double combined(const struct job *j, int n, size_t i)
{
    int scale = j->op >= ncclNumOps ? SCALAR : 1;
    double v = scale * input(0, i, j->type);
    for (int r = 1; r < n; r++) {
        double x = scale * input(r, i, j->type);
        v = j->op == ncclProd ? v * x : j->op == ncclMax ? fmax(v, x) : j->op == ncclMin ? fmin(v, x) : v + x;
    }
    if (j->op == ncclAvg)
        v = j->type < ncclFloat16 ? trunc(v / n) : v / n;
    return v;
}

/* Of element i of rank r's output; -1000: it is left alone. */
static double output(const struct job *j, int n, int r, size_t i)
{
    switch (j->what) {
    case ALLREDUCE:
        return combined(j, n, i);
    case REDUCE:
        return r == j->root ? combined(j, n, i) : -1000;
    case REDUCESCATTER:
        return combined(j, n, (size_t)r * j->count + i);
    case BROADCAST:
    case BCAST:
        return input(j->root, i, j->type);
    case ALLGATHER:
        return input((int)(i / j->count), i % j->count, j->type);
    case ALLTOALL:
        return input((int)(i / j->count), (size_t)r * j->count + i % j->count, j->type);
    case GATHER:
        return r == j->root ? input((int)(i / j->count), i % j->count, j->type) : -1000;
    default:
        return input(j->root, (size_t)r * j->count + i, j->type);
    }
}

static size_t bytes_of(const struct job *j, size_t pieces)
{
    return pieces * j->count * (size_t)sizes[j->type];
}

/* Where the two buffers are: apart, or as NCCL says that in place is. */
static void places(const struct job *j, const struct rank *k, unsigned char **send, unsigned char **recv)
{
    size_t piece = bytes_of(j, 1), in = bytes_of(j, pieces_in(j, k->n));
    *send = k->memory;
    *recv = k->memory + ((in + 511) & ~(size_t)255);
    if (j->what == BCAST)
        *recv = *send;
    if (!j->inplace)
        return;
    *recv = k->memory;
    if (j->what == ALLGATHER || (j->what == GATHER && k->rank == j->root))
        *send = *recv + (size_t)k->rank * piece;
    if (j->what == REDUCESCATTER || (j->what == SCATTER && k->rank == j->root))
        *recv = *send + (size_t)k->rank * piece;
}

static void prepare(const struct job *j, const struct rank *k)
{
    unsigned char *send, *recv;
    size_t in = j->count * pieces_in(j, k->n), size = (size_t)sizes[j->type];
    unsigned char *host = malloc(in * size);
    places(j, k, &send, &recv);
    MUST(cudaMemset(recv, 0x55, bytes_of(j, pieces_out(j, k->n))));
    for (size_t i = 0; i < in; i++) {
        if (i < 64)
            put(j->type, host, i, input(k->rank, i, j->type));
        else /* what comes round again: input has a period of 18 */
            memcpy(host + i * size, host + (i - 18) * size, size);
    }
    MUST(cudaMemcpy(send, host, in * size, cudaMemcpyHostToDevice));
    free(host);
}

static ncclResult_t launch(const struct job *j, const struct rank *k, ncclRedOp_t op)
{
    unsigned char *send, *recv;
    ncclDataType_t t = (ncclDataType_t)j->type;
    places(j, k, &send, &recv);
    switch (j->what) {
    case ALLREDUCE:
        return ncclAllReduce(send, recv, j->count, t, op, k->comm, k->stream);
    case BROADCAST:
        return ncclBroadcast(send, recv, j->count, t, j->root, k->comm, k->stream);
    case BCAST:
        return ncclBcast(send, j->count, t, j->root, k->comm, k->stream);
    case REDUCE:
        return ncclReduce(send, recv, j->count, t, op, j->root, k->comm, k->stream);
    case ALLGATHER:
        return ncclAllGather(send, recv, j->count, t, k->comm, k->stream);
    case REDUCESCATTER:
        return ncclReduceScatter(send, recv, j->count, t, op, k->comm, k->stream);
    case ALLTOALL:
        return ncclAlltoAll(send, recv, j->count, t, k->comm, k->stream);
    case GATHER:
        return ncclGather(send, recv, j->count, t, j->root, k->comm, k->stream);
    default:
        return ncclScatter(send, recv, j->count, t, j->root, k->comm, k->stream);
    }
}

static void check(const struct job *j, const struct rank *k)
{
    unsigned char *send, *recv;
    size_t out = j->count * pieces_out(j, k->n), size = (size_t)sizes[j->type];
    unsigned char *host = malloc(out * size);
    places(j, k, &send, &recv);
    MUST(cudaMemcpy(host, recv, out * size, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < out; i++) {
        double want = output(j, k->n, k->rank, i), is = get(j->type, host, i);
        if (want == -1000 && !j->inplace && host[i * size] != 0x55)
            printf("function %d: rank %d got what is not its own\n", j->what, k->rank);
        else if (want == -1000 || (!(is - want) && !(want - is)) ||
                 fabs(is - want) <= wrong[j->type] * fabs(want))
            continue;
        printf(
            "function %d type %d op %d count %zu root %d in place %d: rank %d of %d has %g at %zu, not %g\n",
            j->what, j->type, j->op, j->count, j->root, j->inplace, k->rank, k->n, is, i, want);
        exit(1);
    }
    free(host);
}

/* These ranks are this thread's. */
static void together(const struct job *j, struct rank *ranks, int mine)
{
    ncclRedOp_t op[MOST];
    for (int k = 0; k < mine; k++) {
        unsigned char scalar[8];
        MUST(cudaSetDevice(ranks[k].rank % 8));
        prepare(j, &ranks[k]);
        op[k] = (ncclRedOp_t)j->op;
        put(j->type, scalar, 0, SCALAR);
        unsigned char *device = ranks[k].memory + (7 << 20);
        MUST(cudaMemcpy(device, scalar, sizeof scalar, cudaMemcpyHostToDevice));
        if (j->op >= ncclNumOps)
            MUST(ncclRedOpCreatePreMulSum(
                &op[k], j->op == ncclNumOps ? scalar : device, (ncclDataType_t)j->type,
                j->op == ncclNumOps ? ncclScalarHostImmediate : ncclScalarDevice, ranks[k].comm));
    }
    if (mine > 1)
        MUST(ncclGroupStart());
    for (int k = 0; k < mine; k++)
        MUST(launch(j, &ranks[k], op[k]));
    if (mine > 1)
        MUST(ncclGroupEnd());
    for (int k = 0; k < mine; k++) {
        if (j->op >= ncclNumOps)
            MUST(ncclRedOpDestroy(op[k], ranks[k].comm));
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamSynchronize(ranks[k].stream));
        check(j, &ranks[k]);
    }
}

static int reduces(enum what w)
{
    return w == ALLREDUCE || w == REDUCE || w == REDUCESCATTER;
}

static void all_jobs(struct rank *ranks, int mine, int thin)
{
    static const size_t counts[] = {1, 5, 1021, 33333};
    int nth = 0;
    for (int w = 0; w < WHATS; w++)
        for (int type = 0; type < ncclNumTypes; type++)
            for (int op = 0; op < (reduces((enum what)w) ? ncclNumOps + 2 : 1); op++)
                for (int c = 0; c < 4; c++) {
                    int inplace = w != ALLTOALL && (nth + op) % 2;
                    if (nth++ % thin == 0)
                        together(&(struct job){(enum what)w, type, op, (nth / thin) % ranks[0].n, inplace,
                                               counts[c]},
                                 ranks, mine);
                }
}

/* ---- messages */

/* Round the ring, both ways at once, more than any buffer holds; and one to itself. */
static void messages(struct rank *ranks, int mine)
{
    enum { N = 300001 };
    int *host = malloc(N * sizeof *host);
    int n = ranks[0].n;
    for (int k = 0; k < mine; k++) {
        int *p = (int *)ranks[k].memory;
        for (int i = 0; i < N; i++)
            host[i] = ranks[k].rank * 1000 + i;
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaMemcpy(p, host, N * sizeof *p, cudaMemcpyHostToDevice));
    }
    MUST(ncclGroupStart());
    for (int k = 0; k < mine; k++) {
        int *p = (int *)ranks[k].memory, right = (ranks[k].rank + 1) % n, left = (ranks[k].rank + n - 1) % n;
        MUST(ncclSend(p, N, ncclInt32, right, ranks[k].comm, ranks[k].stream));
        MUST(ncclSend(p, 10, ncclInt32, left, ranks[k].comm, ranks[k].stream));
        MUST(ncclRecv(p + N, N, ncclInt32, left, ranks[k].comm, ranks[k].stream));
        MUST(ncclRecv(p + 2 * N, 10, ncclInt32, right, ranks[k].comm, ranks[k].stream));
        MUST(ncclSend(p + 1, 7, ncclInt32, ranks[k].rank, ranks[k].comm, ranks[k].stream));
        MUST(ncclRecv(p + 2 * N + 16, 7, ncclInt32, ranks[k].rank, ranks[k].comm, ranks[k].stream));
    }
    MUST(ncclGroupEnd());
    for (int k = 0; k < mine; k++) {
        int *p = (int *)ranks[k].memory, right = (ranks[k].rank + 1) % n, left = (ranks[k].rank + n - 1) % n;
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamSynchronize(ranks[k].stream));
        MUST(cudaMemcpy(host, p + N, N * sizeof *p, cudaMemcpyDeviceToHost));
        for (int i = 0; i < N; i++)
            SAME(host[i], (n == 2 || n == 1 ? left : left) * 1000 + i);
        MUST(cudaMemcpy(host, p + 2 * N, 23 * sizeof *p, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 10; i++)
            SAME(host[i], right * 1000 + i);
        for (int i = 0; i < 7; i++)
            SAME(host[16 + i], ranks[k].rank * 1000 + i + 1);
    }
    free(host);
}

/* Odd and even ranks, in turned order; then a sum in each, and one in all. */
static void splits(struct rank *ranks, int mine)
{
    int n = ranks[0].n;
    struct rank half[MOST];
    MUST(ncclGroupStart());
    for (int k = 0; k < mine; k++) {
        half[k] = ranks[k];
        MUST(ncclCommSplit(ranks[k].comm, ranks[k].rank % 2, -ranks[k].rank, &half[k].comm, NULL));
    }
    MUST(ncclGroupEnd());
    for (int k = 0; k < mine; k++) {
        int count, rank, peers = (n + 1 - ranks[k].rank % 2) / 2;
        MUST(ncclCommCount(half[k].comm, &count));
        MUST(ncclCommUserRank(half[k].comm, &rank));
        SAME(count, peers);
        SAME(rank, peers - 1 - ranks[k].rank / 2);
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaMemcpy(ranks[k].memory, &ranks[k].rank, sizeof(int), cudaMemcpyHostToDevice));
    }
    MUST(ncclGroupStart());
    for (int k = 0; k < mine; k++) {
        MUST(ncclAllReduce(ranks[k].memory, ranks[k].memory + 256, 1, ncclInt32, ncclSum, half[k].comm,
                           ranks[k].stream));
        MUST(ncclAllReduce(ranks[k].memory, ranks[k].memory + 512, 1, ncclInt32, ncclSum, ranks[k].comm,
                           ranks[k].stream));
    }
    MUST(ncclGroupEnd());
    for (int k = 0; k < mine; k++) {
        int sum[2], want = 0;
        for (int r = ranks[k].rank % 2; r < n; r += 2)
            want += r;
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamSynchronize(ranks[k].stream));
        MUST(cudaMemcpy(&sum[0], ranks[k].memory + 256, sizeof(int), cudaMemcpyDeviceToHost));
        MUST(cudaMemcpy(&sum[1], ranks[k].memory + 512, sizeof(int), cudaMemcpyDeviceToHost));
        SAME(sum[0], want);
        SAME(sum[1], n * (n - 1) / 2);
    }
    for (int k = 0; k < mine; k++)
        MUST(ncclCommDestroy(half[k].comm));
    if (n < 2)
        return;
    MUST(ncclGroupStart());
    for (int k = 0; k < mine; k++)
        MUST(ncclCommSplit(ranks[k].comm, ranks[k].rank ? -1 : 3, 0, &half[k].comm, NULL));
    MUST(ncclGroupEnd());
    for (int k = 0; k < mine; k++) {
        SAME(half[k].comm == NULL, ranks[k].rank > 0);
        MUST(ncclCommDestroy(half[k].comm));
    }
}

/* Captured, with messages on two streams, and launched three times. */
static void graphs(struct rank *ranks, int mine)
{
    cudaGraphExec_t exec[MOST];
    int n = ranks[0].n;
    for (int k = 0; k < mine; k++) {
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaMemset(ranks[k].memory, 1, 4096));
        MUST(cudaDeviceSynchronize());
    }
    for (int k = 0; k < mine; k++) {
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamBeginCapture(ranks[k].stream, cudaStreamCaptureModeThreadLocal));
    }
    MUST(ncclGroupStart());
    for (int k = 0; k < mine; k++) {
        MUST(ncclAllReduce(ranks[k].memory, ranks[k].memory, 100, ncclUint8, ncclSum, ranks[k].comm,
                           ranks[k].stream));
        MUST(ncclSend(ranks[k].memory, 100, ncclUint8, (ranks[k].rank + 1) % n, ranks[k].comm,
                      ranks[k].stream));
        MUST(ncclRecv(ranks[k].memory + 512, 100, ncclUint8, (ranks[k].rank + n - 1) % n, ranks[k].comm,
                      ranks[k].stream));
    }
    MUST(ncclGroupEnd());
    for (int k = 0; k < mine; k++) {
        cudaGraph_t graph;
        MUST(cudaStreamEndCapture(ranks[k].stream, &graph));
        MUST(cudaGraphInstantiate(&exec[k], graph, 0));
    }
    for (int times = 0; times < 3; times++)
        for (int k = 0; k < mine; k++)
            MUST(cudaGraphLaunch(exec[k], ranks[k].stream));
    for (int k = 0; k < mine; k++) {
        unsigned char got[2];
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamSynchronize(ranks[k].stream));
        MUST(cudaMemcpy(&got[0], ranks[k].memory + 99, 1, cudaMemcpyDeviceToHost));
        MUST(cudaMemcpy(&got[1], ranks[k].memory + 512 + 99, 1, cudaMemcpyDeviceToHost));
        SAME(got[0], n * n * n);
        SAME(got[1], n * n * n);
        MUST(cudaGraphExecDestroy(exec[k]));
    }
}

/* Two streams of a rank whose calls come in one order and begin in another; messages on two streams in one
 * group. */
static void streams(struct rank *ranks, int mine)
{
    cudaStream_t other[MOST];
    int n = ranks[0].n;
    for (int k = 0; k < mine; k++) {
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamCreate(&other[k]));
        MUST(cudaMemset(ranks[k].memory, 1, 4096));
    }
    for (int times = 0; times < 20; times++) {
        MUST(ncclGroupStart());
        for (int k = 0; k < mine; k++)
            MUST(ncclAllReduce(ranks[k].memory, ranks[k].memory + 1024, 8, ncclInt32, ncclMax, ranks[k].comm,
                               other[k]));
        MUST(ncclGroupEnd());
        MUST(ncclGroupStart());
        for (int k = 0; k < mine; k++) {
            MUST(ncclSend(ranks[k].memory, 8, ncclInt32, (ranks[k].rank + 1) % n, ranks[k].comm,
                          ranks[k].stream));
            MUST(ncclRecv(ranks[k].memory + 2048, 8, ncclInt32, (ranks[k].rank + n - 1) % n, ranks[k].comm,
                          other[k]));
            MUST(ncclAllGather(ranks[k].memory, ranks[k].memory + 3000, 4, ncclInt8, ranks[k].comm,
                               ranks[k].stream));
        }
        MUST(ncclGroupEnd());
    }
    for (int k = 0; k < mine; k++) {
        int got[2];
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamSynchronize(ranks[k].stream));
        MUST(cudaStreamSynchronize(other[k]));
        MUST(cudaMemcpy(&got[0], ranks[k].memory + 1024, 4, cudaMemcpyDeviceToHost));
        MUST(cudaMemcpy(&got[1], ranks[k].memory + 2048, 4, cudaMemcpyDeviceToHost));
        SAME(got[0], 0x1010101);
        SAME(got[1], 0x1010101);
        MUST(cudaStreamDestroy(other[k]));
    }
}

static void everything(struct rank *ranks, int mine, int thin)
{
    for (int k = 0; k < mine; k++) {
        int device, rank, count;
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(cudaStreamCreate(&ranks[k].stream));
        MUST(ncclMemAlloc((void **)&ranks[k].memory, 8 << 20));
        MUST(ncclCommCuDevice(ranks[k].comm, &device));
        MUST(ncclCommUserRank(ranks[k].comm, &rank));
        MUST(ncclCommCount(ranks[k].comm, &count));
        SAME(rank, ranks[k].rank);
        SAME(count, ranks[k].n);
        SAME(device, ranks[k].rank % 8);
    }
    all_jobs(ranks, mine, thin);
    messages(ranks, mine);
    splits(ranks, mine);
    graphs(ranks, mine);
    streams(ranks, mine);
    for (int k = 0; k < mine; k++) {
        ncclResult_t e;
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(ncclCommGetAsyncError(ranks[k].comm, &e));
        SAME(e, 0);
        MUST(cudaStreamDestroy(ranks[k].stream));
        MUST(ncclMemFree(ranks[k].memory));
        MUST(ncclCommFinalize(ranks[k].comm));
        MUST(ncclCommDestroy(ranks[k].comm));
    }
}

/* ---- what is read and written: "call NAME rADDRESS+BYTES wADDRESS+BYTES" with the rank before it */

static void touch(const struct job *j, const struct rank *k)
{
    static const char *const names[] = {"AllReduce",     "Broadcast", "Bcast",  "Reduce", "AllGather",
                                        "ReduceScatter", "AlltoAll",  "Gather", "Scatter"};
    unsigned char *send, *recv;
    size_t in = bytes_of(j, pieces_in(j, k->n)), out = bytes_of(j, pieces_out(j, k->n)),
           piece = bytes_of(j, 1);
    int root = k->rank == j->root, by_root = j->what == BROADCAST || j->what == BCAST || j->what == SCATTER,
        to_root = j->what == REDUCE || j->what == GATHER;
    places(j, k, &send, &recv);
    printf("%d call nccl%s", k->rank, names[j->what]);
    if (!by_root || root)
        printf(" r%#lx+%zu", (unsigned long)send, in);
    /* In place, what is there already is not written. */
    size_t before = (size_t)k->rank * piece;
    int there = j->inplace && (j->what == ALLGATHER || j->what == GATHER ||
                               (root && (j->what == SCATTER || j->what == BROADCAST)));
    if (j->what == BCAST && root)
        there = 1;
    if (!(to_root && !root) && !there)
        printf(" w%#lx+%zu", (unsigned long)recv, out);
    else if (there && (j->what == ALLGATHER || (j->what == GATHER && root)))
        printf(" w%#lx+%zu w%#lx+%zu", (unsigned long)recv, before, (unsigned long)(recv + before + piece),
               out - before - piece);
    putchar('\n');
}

static void touches(int n)
{
    ncclComm_t comms[MOST];
    struct rank ranks[MOST] = {{0}};
    MUST(ncclCommInitAll(comms, n, NULL));
    for (int r = 0; r < n; r++) {
        ranks[r] = (struct rank){.rank = r, .n = n, .comm = comms[r]};
        MUST(cudaSetDevice(r));
        MUST(cudaStreamCreate(&ranks[r].stream));
        MUST(cudaMalloc((void **)&ranks[r].memory, 8 << 20));
    }
    for (int w = 0; w < WHATS; w++)
        for (int inplace = 0; inplace < (w == ALLTOALL ? 1 : 2); inplace++) {
            struct job j = {(enum what)w, ncclInt32, ncclSum, w % n, inplace, 1001};
            together(&j, ranks, n);
            for (int r = 0; r < n; r++)
                touch(&j, &ranks[r]);
        }
    MUST(ncclGroupStart());
    for (int r = 0; r < n; r++) {
        MUST(ncclRecv(ranks[r].memory + 8192, 77, ncclFloat64, (r + n - 1) % n, comms[r], ranks[r].stream));
        MUST(ncclSend(ranks[r].memory, 77, ncclFloat64, (r + 1) % n, comms[r], ranks[r].stream));
        printf("%d call ncclRecv w%#lx+%d\n%d call ncclSend r%#lx+%d\n", r,
               (unsigned long)(ranks[r].memory + 8192), 77 * 8, r, (unsigned long)ranks[r].memory, 77 * 8);
    }
    MUST(ncclGroupEnd());
    for (int r = 0; r < n; r++) {
        MUST(cudaSetDevice(r));
        MUST(cudaStreamSynchronize(ranks[r].stream));
    }
}

/* ---- who the ranks are */

static void group(int n, int thin)
{
    ncclComm_t comms[MOST];
    struct rank ranks[MOST] = {{0}};
    MUST(ncclCommInitAll(comms, n, NULL));
    for (int r = 0; r < n; r++)
        ranks[r] = (struct rank){.rank = r, .n = n, .comm = comms[r]};
    everything(ranks, n, thin);
}

/* "pairs P N FILE THIN": one of N processes, whose thread has ranks 2 P and 2 P + 1, which it begins in a
 * group. */
static void pairs(int process, int n, const char *file, int thin)
{
    struct rank ranks[2] = {{0}};
    ncclUniqueId id = id_of(process, file);
    MUST(ncclGroupStart());
    for (int k = 0; k < 2; k++) {
        ranks[k].rank = 2 * process + k;
        ranks[k].n = n;
        MUST(cudaSetDevice(ranks[k].rank % 8));
        MUST(ncclCommInitRank(&ranks[k].comm, n, id, ranks[k].rank));
    }
    MUST(ncclGroupEnd());
    everything(ranks, 2, thin);
}

/* "sum R N FILE COUNT TIMES": all-reduces of floats. */
static void sum(int rank, int n, const char *file, int count, int times)
{
    size_t bytes = (size_t)count * sizeof(float);
    ncclComm_t c;
    float *p, *host = malloc(bytes);
    MUST(ncclCommInitRank(&c, n, id_of(rank, file), rank));
    MUST(cudaMalloc((void **)&p, bytes));
    for (int t = 0; t < times; t++) {
        for (int i = 0; i < count; i++)
            host[i] = (float)(rank + i % 100 + t);
        MUST(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
        MUST(ncclAllReduce(p, p, (size_t)count, ncclFloat32, ncclSum, c, NULL));
        MUST(cudaMemcpy(host, p, bytes, cudaMemcpyDeviceToHost));
        for (int i = 0; i < count; i++)
            SAME(host[i], n * (n - 1) / 2 + n * (i % 100 + t));
    }
    MUST(ncclCommDestroy(c));
    free(host);
}

struct one {
    int rank, n, thin;
    ncclUniqueId id;
};

static void *one(void *arg)
{
    const struct one *o = arg;
    struct rank k = {.rank = o->rank, .n = o->n};
    MUST(cudaSetDevice(o->rank % 8));
    MUST(ncclCommInitRank(&k.comm, o->n, o->id, o->rank));
    everything(&k, 1, o->thin);
    return NULL;
}

static void threads(int n, int thin)
{
    pthread_t t[MOST];
    struct one o[MOST];
    ncclUniqueId id;
    MUST(ncclGetUniqueId(&id));
    for (int r = 0; r < n; r++) {
        o[r] = (struct one){r, n, thin, id};
        pthread_create(&t[r], NULL, one, &o[r]);
    }
    for (int r = 0; r < n; r++)
        pthread_join(t[r], NULL);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 1, thin = argc > 3 ? atoi(argv[3]) : 1;
    if (!strcmp(how, "group"))
        group(n, thin);
    else if (!strcmp(how, "threads"))
        threads(n, thin);
    else if (!strcmp(how, "rank"))
        one(&(struct one){n, thin, atoi(argv[5]), id_of(n, argv[4])});
    else if (!strcmp(how, "pairs"))
        pairs(n, 2 * thin, argv[4], atoi(argv[5]));
    else if (!strcmp(how, "sum"))
        sum(n, thin, argv[4], atoi(argv[5]), atoi(argv[6]));
    else if (!strcmp(how, "touches"))
        touches(n);
    else
        return 2;
    puts("ok");
    return 0;
}
