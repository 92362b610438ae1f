"""What orders kernels of Numba and the host, and what does not: a line's remark says what `memtrace check` finds there, "!all: kind".
With `all-right` nothing is wrong."""
import gc
import sys

import numpy as np
from numba import cuda

RIGHT = sys.argv[1] == "all-right"
N, BLOCK = 512, 128
GRID = N // BLOCK


@cuda.jit
def fill(a, by):
    a[cuda.grid(1)] = by  # !all: use-after-free


@cuda.jit
def double(a, b):
    i = cuda.grid(1)
    b[i] = 2 * a[i]


@cuda.jit
def sum_up(parts, done, out, right):
    """The last block adds up what all have left."""
    if cuda.threadIdx.x == 0:
        parts[cuda.blockIdx.x] = cuda.blockIdx.x  # !all: global-race
        if right:
            cuda.threadfence()
        if cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            total = 0
            for i in range(cuda.gridDim.x):
                total += parts[i]
            out[0] = total


@cuda.jit
def highest(a, out, right):
    i = cuda.grid(1)
    if right:
        cuda.atomic.max(out, 0, a[i])
    elif a[i] > out[0]:
        out[0] = a[i]  # !all: global-race


def zeros(n=N, kind=np.float32):
    return cuda.to_device(np.zeros(n, dtype=kind))


def blocks():
    parts, done, out = zeros(GRID, np.int32), zeros(1, np.int32), zeros(1, np.int32)
    sum_up[GRID, BLOCK](parts, done, out, RIGHT)
    assert out.copy_to_host()[0] == sum(range(GRID))
    a, most = cuda.to_device(np.arange(N, dtype=np.int32)), zeros(1, np.int32)
    highest[GRID, BLOCK](a, most, RIGHT)
    return most.copy_to_host()


def again():
    """An event is recorded again: who waited before waits for the first record, who waits after it for the second."""
    first, second, third = cuda.stream(), cuda.stream(), cuda.stream()
    a, b, c, d, done = zeros(), zeros(), zeros(), zeros(), cuda.event()
    fill[GRID, BLOCK, first](a, 1)
    done.record(first)
    done.wait(second)
    double[GRID, BLOCK, second](a, c)
    fill[GRID, BLOCK, first](b, 1)
    if RIGHT:
        done.record(first)
    done.wait(third)
    double[GRID, BLOCK, third](b, d)  # !all: unordered
    cuda.synchronize()
    return c.copy_to_host(), d.copy_to_host()


def too_early():
    """The wait is for the record before it, and not for the one after it."""
    first, second = cuda.stream(), cuda.stream()
    a, b, done = zeros(), zeros(), cuda.event()
    done.record(first)
    if not RIGHT:
        done.wait(second)
    fill[GRID, BLOCK, first](a, 1)
    done.record(first)
    if RIGHT:
        done.wait(second)
    double[GRID, BLOCK, second](a, b)  # !all: unordered
    cuda.synchronize()
    return b.copy_to_host()


def pinned(to):
    stream, a = cuda.stream(), zeros()
    fill[GRID, BLOCK, stream](a, 1)
    a.copy_to_host(to, stream=stream)
    if RIGHT:
        stream.synchronize()
    total = to.sum()  # !all: host-race
    cuda.synchronize()
    return total


def managed(a):
    fill[GRID, BLOCK](a, 1)
    done = cuda.event()
    done.record()
    if RIGHT:
        done.synchronize()
    a[0] = 2  # !all: host-race
    cuda.synchronize()
    return a[0]


class Gone:
    """An array whose memory was given back."""
    def __init__(self, a):
        self.__cuda_array_interface__ = dict(a.__cuda_array_interface__)


def given_back():
    a = zeros()
    kept = a if RIGHT else Gone(a)
    held = cuda.as_cuda_array(kept, sync=False)
    del a
    gc.collect()  # arrays are in cycles
    cuda.current_context().deallocations.clear()
    fill[GRID, BLOCK](held, 1)
    cuda.synchronize()


shared = cuda.pinned_array(N, dtype=np.float32), cuda.managed_array(N, dtype=np.float32)
blocks()
again()
too_early()
pinned(shared[0])
managed(shared[1])
given_back()
