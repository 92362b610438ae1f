// Thrust and CUB. Prints where its inputs lie, so that a test can say how often each byte was read.
#include <cstdio>
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

int main()
{
    const int n = 3000;
    int *values, *sum, *scan;
    cudaMallocManaged(&values, n * sizeof *values);
    cudaMallocManaged(&scan, n * sizeof *scan);
    cudaMallocManaged(&sum, sizeof *sum);
    for (int i = 0; i < n; i++)
        values[i] = i * 7919 % n;

    size_t bytes = 0;
    void *work = nullptr;
    cub::DeviceReduce::Sum(work, bytes, values, sum, n);
    cudaMalloc(&work, bytes ? bytes : 1);
    cub::DeviceReduce::Sum(work, bytes, values, sum, n);
    cudaError_t error = cudaDeviceSynchronize();
    printf("values %p sum %d error %d\n", (void *)values, *sum, error);

    size_t more = 0;
    cub::DeviceScan::InclusiveSum(nullptr, more, values, scan, n);
    void *room;
    cudaMalloc(&room, more ? more : 1);
    cub::DeviceScan::InclusiveSum(room, more, values, scan, n);
    error = cudaDeviceSynchronize();
    long wrong = 0, running = 0;
    for (int i = 0; i < n; i++)
        wrong += scan[i] != (running += values[i]);
    printf("scan %p wrong %ld error %d\n", (void *)scan, wrong, error);

    thrust::device_vector<int> v(values, values + n);
    thrust::sort(v.begin(), v.end());
    thrust::transform(v.begin(), v.end(), v.begin(), [] __device__(int x) { return 2 * x; });
    wrong = 0;
    for (int i = 0; i < n; i += 100)
        wrong += v[i] != 2 * i;
    printf("thrust sum %d wrong %ld\n", thrust::reduce(v.begin(), v.end()), wrong);
    return 0;
}
