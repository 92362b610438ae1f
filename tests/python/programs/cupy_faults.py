"""Faults of CuPy's kernels, of CUDA source and of expressions, with its memory pools in use: a line's remark says what `memtrace check`
finds there, "!all: kind". With `all-right` nothing is wrong."""
import sys

import cupy as cp
import numpy as np

RIGHT = sys.argv[1] == "all-right"
N, BLOCK = 1000, 128
GRID = -(-N // BLOCK)
MODULE = cp.RawModule(code=r'''
extern "C" __global__ void fill(float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = i; // !all: out-of-bounds
}
extern "C" __global__ void count_up(float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] += 1; // !all: uninitialised
}
extern "C" __global__ void reverse(float *a, bool right)
{
    __shared__ float s[128];
    s[threadIdx.x] = a[threadIdx.x]; // !all: shared-race
    if (right)
        __syncthreads();
    a[threadIdx.x] = s[127 - threadIdx.x];
}
extern "C" __global__ void histogram(const int *a, int *bins, bool right)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (right)
        atomicAdd(&bins[a[i] & 15], 1);
    else
        bins[a[i] & 15] += 1; // !all: global-race
}''')
FILL, COUNT_UP, REVERSE, HISTOGRAM = (MODULE.get_function(name) for name in ("fill", "count_up", "reverse", "histogram"))
SHIFT = cp.ElementwiseKernel("raw float32 x, int32 by", "float32 y", "y = x[i + by]", "shift")  # !all: out-of-bounds
SMOOTH = cp.ElementwiseKernel("raw float32 x", "float32 y", """
    float last = i ? x[i - 1] : 0;
    y = last + x[i]; // !all: uninitialised
""", "smooth")


def memory():
    a = cp.empty(N, dtype=np.float32)
    FILL((GRID,), (BLOCK,), (a, np.int32(N if RIGHT else N + 1)))
    b = SHIFT(a, np.int32(0 if RIGHT else 1), size=N)
    c = cp.zeros(N, dtype=np.float32) if RIGHT else cp.empty(N, dtype=np.float32)
    COUNT_UP((GRID,), (BLOCK,), (c, np.int32(N)))
    d = cp.empty(N, dtype=np.float32)
    FILL((GRID,), (BLOCK,), (d, np.int32(N if RIGHT else N - 1)))
    return b.get(), c.get(), SMOOTH(d, size=N).get()


def pools():
    """Of whatever pool the script makes, with the kind of memory (cudaMemoryType) that it is made for."""
    device, managed = 2, 3
    for pool, kind in (cp.cuda.MemoryPool(), device), (cp.cuda.MemoryPool(cp.cuda.malloc_managed), managed), (cp.cuda.MemoryAsyncPool(), device):
        with cp.cuda.using_allocator(pool.malloc):
            in_pool = cp.empty(N, dtype=np.float32)
            FILL((GRID,), (BLOCK,), (in_pool, np.int32(N if RIGHT else N + 1)))
            in_pool.get()
            assert cp.cuda.runtime.pointerGetAttributes(in_pool.data.ptr).type == kind


def races():
    a = cp.zeros(BLOCK, dtype=np.float32)
    REVERSE((1,), (BLOCK,), (a, np.bool_(RIGHT)))
    values, bins = cp.asarray(np.zeros(4 * BLOCK, dtype=np.int32)), cp.zeros(16, dtype=np.int32)
    HISTOGRAM((4,), (BLOCK,), (values, bins, np.bool_(RIGHT)))
    return a.get(), bins.get()


def streams():
    """What is in between comes from the pool, and goes back to it, which orders nothing."""
    first, second = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    a, b = cp.zeros(N, dtype=np.float32), cp.zeros(N, dtype=np.float32)
    cp.cuda.Device().synchronize()
    with first:
        FILL((GRID,), (BLOCK,), (a, np.int32(N)))
        cp.empty(N, dtype=np.float32)
        done = first.record()
    with second:
        if RIGHT:
            second.wait_event(done)
        FILL((GRID,), (BLOCK,), (a, np.int32(N)))  # !all: unordered
    cp.cuda.Device().synchronize()
    return a.get(), b.get()


memory()
pools()
races()
streams()
