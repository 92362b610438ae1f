"""What orders kernels of CuPy, its pools and the host, and what does not: a line's remark says what `memtrace check` finds there,
"!all: kind". With `all-right` nothing is wrong."""
import sys
import time

import cupy as cp
import numpy as np

RIGHT = sys.argv[1] == "all-right"
N, BLOCK = 512, 128
GRID = N // BLOCK
FILL = cp.RawKernel(r'''
extern "C" __global__ void fill(float *a, float by)
{
    a[blockIdx.x * blockDim.x + threadIdx.x] = by;
}''', "fill")
LATE = cp.RawKernel(r'''
extern "C" __global__ void late(float *a, float by)
{
    a[blockIdx.x * blockDim.x + threadIdx.x] = by; // !all: use-after-free
}''', "late")
SUM_UP = cp.RawKernel(r'''
extern "C" __global__ void sum_up(int *parts, unsigned *done, int *out, bool right)
{
    if (threadIdx.x)
        return;
    parts[blockIdx.x] = blockIdx.x; // !all: global-race
    if (right)
        __threadfence();
    if (atomicAdd(done, 1u) == gridDim.x - 1) {
        __threadfence();
        int total = 0;
        for (int i = 0; i < gridDim.x; i++)
            total += parts[i];
        *out = total;
    }
}''', "sum_up")
OF_BLOCK = cp.RawKernel(r'''
extern "C" __global__ void of_block(int *count, bool right)
{
    if (right)
        atomicAdd(count, 1);
    else
        atomicAdd_block(count, 1); // !all: global-race
}''', "of_block")


def fill(a, by=1):
    FILL((GRID,), (BLOCK,), (a, np.float32(by)))


def zeros(n=N, kind=np.float32):
    return cp.zeros(n, dtype=kind)


def two():
    cp.cuda.Device().synchronize()
    return cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)


def blocks():
    parts, done, out = zeros(GRID, np.int32), zeros(1, np.uint32), zeros(1, np.int32)
    SUM_UP((GRID,), (BLOCK,), (parts, done, out, np.bool_(RIGHT)))
    assert out.get()[0] == sum(range(GRID))
    count = zeros(1, np.int32)
    OF_BLOCK((GRID,), (BLOCK,), (count, np.bool_(RIGHT)))
    return count.get()


def again():
    """One event for two records: the wait is for the one before it."""
    a, b = zeros(), zeros()
    first, second = two()
    done = cp.cuda.Event(disable_timing=True)
    with first:
        fill(a)
        done.record(first)
    second.wait_event(done)
    with second:
        fill(a, 2)
    with first:
        fill(b)
        if RIGHT:
            done.record(first)
    second.wait_event(done)
    with second:
        FILL((GRID,), (BLOCK,), (b, np.float32(2)))  # !all: unordered
    cp.cuda.Device().synchronize()
    return a.get(), b.get()


def freed_beside():
    """What a pool gets back while another stream uses it, it may give to the next. The kernel has ended, but nothing says so."""
    first, second = two()
    with first:
        a = zeros()
    cp.cuda.Device().synchronize()
    with second:
        FILL((GRID,), (BLOCK,), (a, np.float32(1)))  # !all: unordered
        done = second.record()
    time.sleep(1)
    with first:
        if RIGHT:
            first.wait_event(done)
        del a
    cp.cuda.Device().synchronize()


def given_back():
    """The array's memory is gone, and a view of its address is left."""
    a = zeros()
    at, keep = a.data.ptr, a if RIGHT else None
    del a
    cp.cuda.Device().synchronize()
    memory = cp.cuda.UnownedMemory(at, 4 * N, keep)
    LATE((GRID,), (BLOCK,), (cp.ndarray(N, np.float32, cp.cuda.MemoryPointer(memory, 0)), np.float32(1)))
    cp.cuda.Device().synchronize()


def pinned(memory):
    to, a = np.frombuffer(memory, np.float32, N), zeros()
    stream, _ = two()
    with stream:
        fill(a)
        a.get(out=to, blocking=False)
    if RIGHT:
        stream.synchronize()
    total = to.sum()  # !all: host-race
    cp.cuda.Device().synchronize()
    return total


def managed(a):
    host = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * N).from_address(a.data.ptr))
    cp.cuda.Device().synchronize()
    fill(a)
    if RIGHT:
        cp.cuda.get_current_stream().synchronize()
    host[0] = 2  # !all: host-race
    cp.cuda.Device().synchronize()
    return a.get()


pinned_memory = cp.cuda.alloc_pinned_memory(4 * N)
with cp.cuda.using_allocator(cp.cuda.MemoryPool(cp.cuda.malloc_managed).malloc):
    managed_array = zeros()
blocks()
again()
freed_beside()
given_back()
pinned(pinned_memory)
managed(managed_array)
del pinned_memory, managed_array
