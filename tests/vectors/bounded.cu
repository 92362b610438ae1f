// Code that is right in lanes that are here, and would be wrong in those that are not. First,
// a loop that LLVM leaves without an end, as it could only go on outside its array, in front of a barrier:
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

// Elements in front of the array are of lanes that do not load them.
template <typename T, typename I> __global__ void edges(const T *in, T *out, int w)
{
    I i = threadIdx.x;
    T s = 0;
    for (int j = 0; j < w; j++)
        if ((int)i - 2 + j >= 0)
            s += in[i - 2 + j];
    out[i] = s;
}

template <typename T, typename I> static int edges_wrong()
{
    T *in, *out, h[66], got[64];
    for (int i = 0; i < 66; i++)
        h[i] = (T)(i * 7 % 11);
    cudaMalloc(&in, sizeof h);
    cudaMalloc(&out, sizeof got);
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    edges<T, I><<<1, 64>>>(in, out, 5);
    int wrong = cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess;
    for (int i = 0; i < 64; i++) {
        T s = 0;
        for (int j = 0; j < 5; j++)
            s += i - 2 + j >= 0 ? h[i - 2 + j] : (T)0;
        wrong += got[i] != s;
    }
    if (wrong)
        fprintf(stderr, "edges of %zu bytes: %d wrong\n", sizeof(T), wrong);
    return wrong;
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
    wrong += edges_wrong<char, int>() + edges_wrong<short, int>() + edges_wrong<short, unsigned>() +
             edges_wrong<int, int>() + edges_wrong<double, int>();
    return wrong != 0;
}
