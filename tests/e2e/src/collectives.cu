// Kernels on several devices around calls of NCCL: each rank fills what it sends, and uses what it has got.
// "group N": N devices of one thread; "rank R N FOLDER DEVICE": one of several processes, which get the id by
// a file there. Prints "ok" if results are right.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include "nccl.h"

enum { COUNT = 1000, MOST = 4, TURNS = 2 };

#define DO(call)                                                                                             \
    do {                                                                                                     \
        int e = (int)(call);                                                                                 \
        if (e) {                                                                                             \
            printf("%s: %d\n", #call, e);                                                                    \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

__global__ void fill(int *out, int n, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = value + i;
}
__global__ void use(int *out, const int *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}

struct rank {
    int rank, device;
    ncclComm_t comm;
    cudaStream_t stream;
    int *send, *recv, *out;
};

static void launch_fill(const rank &k, int n)
{
    DO(cudaSetDevice(k.device));
    fill<<<(n + 255) / 256, 256, 0, k.stream>>>(k.send, n, k.rank);
}

static void launch_use(const rank &k, int n)
{
    DO(cudaSetDevice(k.device));
    use<<<(n + 255) / 256, 256, 0, k.stream>>>(k.out, k.recv, n);
}

static void collectives(rank *ranks, int mine, int n)
{
    for (int i = 0; i < mine; i++)
        launch_fill(ranks[i], n * COUNT);
    DO(ncclGroupStart());
    for (int i = 0; i < mine; i++)
        DO(ncclAllReduce(ranks[i].send, ranks[i].recv, COUNT, ncclInt32, ncclSum, ranks[i].comm,
                         ranks[i].stream));
    DO(ncclGroupEnd());
    for (int i = 0; i < mine; i++)
        launch_use(ranks[i], COUNT);
    DO(ncclGroupStart());
    for (int i = 0; i < mine; i++) {
        const rank &k = ranks[i];
        DO(ncclBroadcast(k.send, k.recv, COUNT, ncclInt32, 1 % n, k.comm, k.stream));
        DO(ncclReduce(k.send, k.recv, COUNT, ncclInt32, ncclMax, n - 1, k.comm, k.stream));
        DO(ncclAllGather(k.send, k.recv, COUNT, ncclInt32, k.comm, k.stream));
        DO(ncclReduceScatter(k.send, k.recv, COUNT, ncclInt32, ncclSum, k.comm, k.stream));
        DO(ncclSend(k.send, COUNT, ncclInt32, (k.rank + 1) % n, k.comm, k.stream));
        DO(ncclRecv(k.recv, COUNT, ncclInt32, (k.rank + n - 1) % n, k.comm, k.stream));
    }
    DO(ncclGroupEnd());
    for (int i = 0; i < mine; i++)
        launch_use(ranks[i], COUNT);
}

int main(int argc, char **argv)
{
    rank ranks[MOST] = {};
    ncclComm_t comms[MOST];
    int n = 0, mine = 1;
    if (!strcmp(argv[1], "group")) {
        mine = n = atoi(argv[2]);
        DO(ncclCommInitAll(comms, n, NULL));
        for (int i = 0; i < n; i++)
            ranks[i] = rank{i, i, comms[i]};
    } else {
        ncclUniqueId id;
        char made[4096], file[4096];
        snprintf(made, sizeof made, "%s/id.new", argv[4]);
        snprintf(file, sizeof file, "%s/id", argv[4]);
        n = atoi(argv[3]);
        ranks[0] = rank{atoi(argv[2]), atoi(argv[5])};
        DO(cudaSetDevice(ranks[0].device));
        if (!ranks[0].rank) {
            DO(ncclGetUniqueId(&id));
            FILE *f = fopen(made, "w");
            if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(made, file))
                return 1;
        }
        while (access(file, F_OK))
            usleep(1000);
        FILE *f = fopen(file, "r");
        if (!f || fread(&id, sizeof id, 1, f) != 1 || fclose(f))
            return 1;
        DO(ncclCommInitRank(&ranks[0].comm, n, id, ranks[0].rank));
    }
    for (int i = 0; i < mine; i++) {
        DO(cudaSetDevice(ranks[i].device));
        DO(cudaStreamCreate(&ranks[i].stream));
        DO(cudaMalloc(&ranks[i].send, n * COUNT * sizeof(int)));
        DO(cudaMalloc(&ranks[i].recv, n * COUNT * sizeof(int)));
        DO(cudaMalloc(&ranks[i].out, COUNT * sizeof(int)));
    }
    for (int turn = 0; turn < TURNS; turn++)
        collectives(ranks, mine, n);
    for (int i = 0; i < mine; i++) {
        int host[COUNT];
        DO(cudaSetDevice(ranks[i].device));
        DO(cudaStreamSynchronize(ranks[i].stream));
        DO(cudaMemcpy(host, ranks[i].out, sizeof host, cudaMemcpyDeviceToHost));
        for (int k = 0; k < COUNT; k++)
            if (host[k] != (ranks[i].rank + n - 1) % n + k)
                return printf("rank %d: %d at %d\n", ranks[i].rank, host[k], k), 1;
        DO(ncclCommDestroy(ranks[i].comm));
    }
    puts("ok");
    return 0;
}
