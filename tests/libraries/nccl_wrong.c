/* NCCL: what goes wrong. Says "ok" if statuses are right; the words on stderr are compared by cases.py. */
#define _GNU_SOURCE
#include "nccl_must.h"
#include <semaphore.h>
#include <signal.h>
#include <string.h>

static void errors(void)
{
    ncclComm_t c, both[2];
    ncclUniqueId id, none;
    ncclRedOp_t op;
    int v;
    void *p;
    memset(&none, 7, sizeof none);
    SAME(ncclGetVersion(&v), 0);
    SAME(v >= 22000, 1);
    SAME(ncclGetVersion(NULL), ncclInvalidArgument);
    SAME(strcmp(ncclGetErrorString(ncclSuccess), "no error"), 0);
    SAME(strcmp(ncclGetErrorString((ncclResult_t)99), "unknown result code"), 0);
    MUST(ncclGetUniqueId(&id));
    SAME(ncclCommInitRank(&c, 1, none, 0), ncclInvalidArgument);
    SAME(ncclCommInitRank(&c, 0, id, 0), ncclInvalidArgument);
    SAME(ncclCommInitRank(&c, 2, id, 2), ncclInvalidArgument);
    SAME(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument);
    SAME(ncclCommInitAll(both, 2, (int[]){1, 1}), ncclInvalidUsage);
    SAME(ncclCommInitAll(both, 2, (int[]){0, 60}), ncclUnhandledCudaError);
    SAME(ncclGroupEnd(), ncclInvalidUsage);
    MUST(ncclCommInitRank(&c, 1, id, 0));
    MUST(cudaMalloc(&p, 4096));
    SAME(ncclAllReduce(p, p, 1, ncclNumTypes, ncclSum, c, NULL), ncclInvalidArgument);
    SAME(ncclAllReduce(p, p, 1, ncclInt8, ncclNumOps, c, NULL), ncclInvalidArgument);
    SAME(ncclAllReduce(p, p, 1, ncclInt8, ncclSum, NULL, NULL), ncclInvalidArgument);
    SAME(strstr(ncclGetLastError(c), "ncclAllReduce") != NULL, 1);
    SAME(ncclBroadcast(p, p, 1, ncclInt8, 1, c, NULL), ncclInvalidArgument);
    SAME(ncclSend(p, 1, ncclInt8, -1, c, NULL), ncclInvalidArgument);
    SAME(ncclAllReduce(p, p, (size_t)1 << 62, ncclInt64, ncclSum, c, NULL), ncclInvalidArgument);
    MUST(ncclAllReduce(p, p, 0, ncclInt64, ncclSum, c, NULL));
    MUST(ncclGroupStart());
    SAME(ncclBroadcast(p, p, 1, ncclInt8, 7, c, NULL), ncclInvalidArgument);
    SAME(ncclGroupEnd(), ncclInvalidArgument);
    MUST(ncclRedOpCreatePreMulSum(&op, &v, ncclInt32, ncclScalarHostImmediate, c));
    SAME(ncclAllReduce(p, p, 1, ncclFloat32, op, c, NULL), ncclInvalidArgument);
    MUST(ncclRedOpDestroy(op, c));
    SAME(ncclRedOpDestroy(op, c), ncclInvalidArgument);
    SAME(ncclAllReduce(p, p, 1, ncclInt32, op, c, NULL), ncclInvalidArgument);
    SAME(ncclCommWindowRegister(c, p, 1, &p, 0), ncclInvalidUsage);
    MUST(cudaDeviceSynchronize());
    MUST(ncclCommDestroy(c));
    SAME(ncclCommDestroy(c), ncclInvalidArgument);
    MUST(ncclCommDestroy(NULL));
}

/* Stderr goes to a pipe from here on. */
static int wrong_listen(int *err, FILE **words)
{
    int p[2];
    *err = dup(2);
    return pipe(p) || dup2(p[1], 2) < 0 || close(p[1]) || !(*words = fdopen(p[0], "r"));
}

/* Waits until a line is on stderr, and hands it on; from then on words go where they went before. */
static int wrong_hear(int err, FILE *words)
{
    char line[1024];
    int no = !fgets(line, sizeof line, words) || dup2(err, 2) < 0;
    fputs(line, stderr);
    return no;
}

/* Rank 1 does not call it: this is said, and ends by ncclCommAbort. */
static void missing(void)
{
    ncclComm_t c[2];
    void *p;
    int err;
    FILE *words;
    MUST(ncclCommInitAll(c, 2, NULL));
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc(&p, 64));
    MUST(wrong_listen(&err, &words));
    MUST(ncclAllReduce(p, p, 4, ncclInt32, ncclSum, c[0], NULL));
    MUST(wrong_hear(err, words));
    SAME(cudaStreamQuery(NULL), cudaErrorNotReady);
    MUST(ncclCommAbort(c[0]));
    MUST(cudaDeviceSynchronize());
    ncclResult_t e;
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc(&p, 64));
    MUST(ncclAllReduce(p, p, 4, ncclInt32, ncclSum, c[1], NULL));
    MUST(cudaDeviceSynchronize());
    MUST(ncclCommGetAsyncError(c[1], &e));
    SAME(e, ncclRemoteError);
    MUST(ncclCommAbort(c[1]));
}

static void wrong_rest(void *go_on)
{
    sem_wait(go_on);
}

/* Aborted and destroyed before its stream comes to the call; another communicator goes on. */
static void early(void)
{
    ncclComm_t c[2], one;
    void *p;
    int host = 5;
    sem_t go_on;
    MUST(sem_init(&go_on, 0, 0));
    MUST(ncclCommInitAll(c, 2, NULL));
    MUST(cudaSetDevice(0));
    MUST(ncclCommInitAll(&one, 1, NULL));
    MUST(cudaMalloc(&p, 64));
    MUST(cudaMemcpy(p, &host, sizeof host, cudaMemcpyHostToDevice));
    MUST(cudaLaunchHostFunc(NULL, wrong_rest, &go_on));
    MUST(ncclAllReduce(p, p, 4, ncclInt32, ncclSum, c[0], NULL));
    MUST(ncclAllReduce(p, (char *)p + 32, 1, ncclInt32, ncclSum, one, NULL));
    MUST(ncclCommAbort(c[0]));
    SAME(cudaStreamQuery(NULL), cudaErrorNotReady);
    MUST(sem_post(&go_on));
    MUST(ncclCommDestroy(one)); /* waits for it */
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(&host, (char *)p + 32, sizeof host, cudaMemcpyDeviceToHost));
    SAME(host, 5);
    MUST(ncclCommAbort(c[1]));
}

/* Ranks call different things. */
static void different(void)
{
    ncclComm_t c[2];
    void *p[2];
    MUST(ncclCommInitAll(c, 2, NULL));
    for (int r = 0; r < 2; r++) {
        MUST(cudaSetDevice(r));
        MUST(cudaMalloc(&p[r], 64));
    }
    MUST(ncclAllReduce(p[0], p[0], 4, ncclInt32, ncclSum, c[0], NULL));
    MUST(ncclAllReduce(p[1], p[1], 3, ncclInt32, ncclSum, c[1], NULL));
    for (int r = 0; r < 2; r++) {
        ncclResult_t e;
        MUST(cudaSetDevice(r));
        MUST(cudaDeviceSynchronize());
        MUST(ncclCommGetAsyncError(c[r], &e));
        SAME(e == ncclInvalidUsage || e == ncclRemoteError, 1);
        MUST(ncclCommAbort(c[r]));
    }
}

/* A rank's memory is none: an error of its device, and the others do not wait. */
static void outside(void)
{
    ncclComm_t c[2];
    void *p;
    ncclResult_t e;
    MUST(ncclCommInitAll(c, 2, NULL));
    MUST(cudaSetDevice(0));
    MUST(ncclAllReduce((void *)4096, (void *)4096, 4, ncclInt32, ncclSum, c[0], NULL));
    SAME(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc(&p, 64));
    MUST(ncclAllReduce(p, p, 4, ncclInt32, ncclSum, c[1], NULL));
    MUST(cudaDeviceSynchronize());
    MUST(ncclCommGetAsyncError(c[1], &e));
    SAME(e, ncclRemoteError);
}

/* "killed R N FILE": the last rank is killed; the others are told. */
static void killed(int rank, int n, const char *file)
{
    ncclComm_t c;
    void *p;
    ncclResult_t e;
    MUST(ncclCommInitRank(&c, n, id_of(rank, file), rank));
    if (rank == n - 1)
        kill(getpid(), SIGKILL);
    MUST(cudaMalloc(&p, 64));
    MUST(ncclAllReduce(p, p, 4, ncclInt32, ncclSum, c, NULL));
    MUST(cudaDeviceSynchronize());
    MUST(ncclCommGetAsyncError(c, &e));
    SAME(e, ncclRemoteError);
    MUST(ncclCommAbort(c));
}

/* "late R N FILE": the last rank does not call it; the others give up, by MEMTRACE_NCCL_TIMEOUT. */
static void late(int rank, int n, const char *file)
{
    ncclComm_t c;
    void *p;
    ncclResult_t e;
    MUST(ncclCommInitRank(&c, n, id_of(rank, file), rank));
    if (rank == n - 1)
        sleep(5);
    MUST(cudaMalloc(&p, 64));
    MUST(ncclAllReduce(p, p, 4, ncclInt32, ncclSum, c, NULL));
    MUST(cudaDeviceSynchronize());
    MUST(ncclCommGetAsyncError(c, &e));
    SAME(e, ncclRemoteError);
    MUST(ncclCommAbort(c));
}

/* "gone R N FILE": rank 0 makes the id, and ends. */
static void gone(int rank, int n, const char *file)
{
    ncclComm_t c;
    ncclUniqueId id = id_of(rank, file);
    if (rank)
        printf("status %d\n", ncclCommInitRank(&c, n, id, rank));
}

/* "uneven R N FILE": the last rank says another number of ranks; the others wait until they give up. */
static void uneven(int rank, int n, const char *file)
{
    ncclComm_t c;
    int last = rank == n - 1;
    SAME(ncclCommInitRank(&c, n + last, id_of(rank, file), rank), last ? ncclInvalidUsage : ncclRemoteError);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "killed"))
        killed(atoi(argv[2]), atoi(argv[3]), argv[4]);
    else if (!strcmp(how, "late"))
        late(atoi(argv[2]), atoi(argv[3]), argv[4]);
    else if (!strcmp(how, "gone"))
        gone(atoi(argv[2]), atoi(argv[3]), argv[4]);
    else if (!strcmp(how, "uneven"))
        uneven(atoi(argv[2]), atoi(argv[3]), argv[4]);
    else if (!strcmp(how, "errors"))
        errors();
    else if (!strcmp(how, "missing"))
        missing();
    else if (!strcmp(how, "early"))
        early();
    else if (!strcmp(how, "different"))
        different();
    else if (!strcmp(how, "outside"))
        outside();
    else
        return 2;
    puts("ok");
    return 0;
}
