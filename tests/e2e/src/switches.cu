// A switch around volatile accesses and atomics, in a loop that some lanes go on with and some leave early:
// how many requests each warp makes is counted in cases_lanes.py. Arguments: threads, rounds.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__host__ __device__ unsigned mixed(unsigned x)
{
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
}

// Each round all lanes that take part come to the same case.
__global__ void even(volatile unsigned *a, unsigned rounds)
{
    unsigned t = threadIdx.x, sum = t;
    for (unsigned k = 0; k < rounds; k++) {
        if (mixed(k * 31 + t) % 2)
            continue;
        switch (mixed(k) % 6) {
        case 0:
            sum += a[t];
            break;
        case 1:
            sum += a[t + 1];
            break;
        case 2:
            a[t + 2] = sum;
            break;
        case 3:
            a[t + 3] = sum;
            break;
        case 4:
            sum += atomicAdd((unsigned *)&a[t + 4], 1);
            break;
        default:
            a[t + 5] = sum;
        }
    }
    a[2048 + t] = sum;
}

// Lanes come to cases of their own, and leave in rounds of their own.
__global__ void uneven(volatile unsigned *a, unsigned rounds)
{
    unsigned t = threadIdx.x, sum = t;
    for (unsigned k = 0; k < rounds; k++) {
        if (mixed(k * 31 + t) % 3 == 0)
            continue;
        if (mixed(k * 17 + t) % 29 == 0)
            break;
        switch (mixed(k * 7 + t) % 4) {
        case 0:
            sum += a[t];
            break;
        case 1:
            a[t + 1] = sum;
            break;
        case 2:
            sum += __shfl_xor_sync(__activemask(), sum, 1);
            a[t + 2] = sum;
            break;
        default:
            sum += atomicAdd((unsigned *)&a[t + 3], 1);
        }
    }
    a[2048 + t] = sum;
}

// Eight lanes wait for one another in loops that each eight run, leave and begin anew in rounds of their own;
// then all meet.
__global__ void eights(volatile unsigned *a, unsigned rounds)
{
    unsigned t = threadIdx.x, sum = t, group = t / 8, mask = 0xffu << (t & 24);
    for (unsigned i = 0; i < mixed(group) % 5; i++) {
        for (unsigned k = 0; k < rounds; k++) {
            if (mixed(group * 7 + k * 31 + i) % 3 == 0)
                continue;
            if (mixed(group * 17 + k * 13 + i) % 11 == 0)
                break;
            sum += a[t];
            if (mixed(t + k * 5) % 2)
                a[t + 1] = sum;
            sum += __shfl_sync(mask, sum, 0, 8);
            switch (mixed(t + k) % 3) {
            case 0:
                sum += a[t + 2];
                break;
            case 1:
                sum += atomicAdd((unsigned *)&a[t + 3], 1);
            }
            __syncwarp(mask);
            a[t + 4] = sum;
        }
        sum += __ballot_sync(mask, sum & 1);
        a[t + 5] = sum;
    }
    __syncthreads();
    sum += a[t + 6];
    a[2048 + t] = sum;
}

// The same in two CTAs of a cluster, which wait for each other.
__global__ void pairs(volatile unsigned *a, unsigned rounds)
{
    unsigned t = threadIdx.x, sum = t, group = (blockIdx.x * 1024 + t) / 8, mask = 0xffu << (t & 24);
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = 0; k < mixed(group + i) % rounds; k++) {
            sum += a[t];
            sum += __shfl_sync(mask, sum, 0, 8);
        }
        asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
    }
    a[2048 + t] = sum;
}

// Half of a warp reads what the other half has written: in each round, at waits that stand at two places of
// the code, the reader's before the writer's.
__global__ void handed(volatile unsigned *a, unsigned rounds)
{
    unsigned t = threadIdx.x, sum = 0, mine = t & 1 ? 0xaaaaaaaa : 0x55555555;
    for (unsigned k = 0; k < rounds; k++) {
        if (t & 16) {
            __syncwarp(mine);
            sum += a[t - 16];
            __syncwarp(mine);
        } else {
            a[t] = k;
            __syncwarp(mine);
            __syncwarp(mine);
        }
    }
    a[2048 + t] = sum;
}

int main(int argc, char **argv)
{
    unsigned threads = argc > 1 ? atoi(argv[1]) : 32, rounds = argc > 2 ? atoi(argv[2]) : 40, *a;
    cudaMalloc(&a, 4096 * 4);
    cudaMemset(a, 0, 4096 * 4);
    even<<<1, threads>>>(a, rounds);
    uneven<<<1, threads>>>(a, rounds);
    eights<<<1, threads>>>(a, rounds);
    handed<<<1, threads>>>(a, rounds);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = threads;
    config.attrs = &cluster;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, pairs, (volatile unsigned *)a, rounds);
    int rc = cudaDeviceSynchronize();
    printf("%d\n", rc);
    return rc;
}
