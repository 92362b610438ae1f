// A loop that LLVM leaves without an end, as it could only go on outside its array, in front of a barrier:
// the kernel runs as vectors all the same, and gives what the host gives.
#include <cstdio>

__host__ __device__ int choose(int n, int k)
{
    int r = 1;
    for (int i = 0; i < k; i++)
        r = r * (n - i) / (i + 1);
    return r;
}

// The l-th combination of up to four of n numbers.
__host__ __device__ void combination(int *comb, int l, int n)
{
    int sum = 0, k = 1, low = 0, pos = 0;
    while (sum < l)
        sum += choose(n, k++);
    l -= sum - choose(n, --k);
    while (k > 1) {
        int s = 1;
        sum = 0;
        while (sum < l)
            sum += choose(n - s++, k - 1);
        l -= sum - choose(n - --s, --k);
        low += s;
        comb[pos++] = low;
        n -= s;
    }
    comb[pos] = low + l;
    for (int i = pos + 1; i < 4; i++)
        comb[i] = -1;
}

__global__ void neighbours(int *out, int n)
{
    __shared__ int seen[256];
    int comb[5] = {-1};
    combination(comb, threadIdx.x + 1, n);
    seen[threadIdx.x] = comb[0] * 1000000 + comb[1] * 10000 + comb[2] * 100 + comb[3];
    __syncthreads();
    out[threadIdx.x] = seen[threadIdx.x ^ 37];
}

int main()
{
    int *d, got[256], wrong = 0;
    cudaMalloc((void **)&d, sizeof got);
    neighbours<<<1, 256>>>(d, 12);
    cudaMemcpy(got, d, sizeof got, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 256; i++) {
        int comb[5] = {-1};
        combination(comb, (i ^ 37) + 1, 12);
        int wanted = comb[0] * 1000000 + comb[1] * 10000 + comb[2] * 100 + comb[3];
        if (got[i] != wanted && !wrong++)
            fprintf(stderr, "bounded: element %d is %d, not %d\n", i, got[i], wanted);
    }
    return wrong != 0;
}
