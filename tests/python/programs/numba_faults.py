"""Faults of Numba kernels: a line's remark says what `memtrace check` finds there, "!all: kind". With `all-right` nothing is wrong."""
import sys

import numpy as np
from numba import cuda, float32

RIGHT = sys.argv[1] == "all-right"
N, BLOCK = 1000, 128
GRID = -(-N // BLOCK)


@cuda.jit
def fill(a, n):
    i = cuda.grid(1)
    if i < n:
        a[i] = i  # !all: out-of-bounds


@cuda.jit
def count_up(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1  # !all: uninitialised


@cuda.jit
def reverse(a, right):
    s = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]  # !all: shared-race
    if right:
        cuda.syncthreads()
    a[t] = s[BLOCK - 1 - t]


@cuda.jit
def histogram(a, bins, right):
    i = cuda.grid(1)
    if right:
        cuda.atomic.add(bins, a[i] % 16, 1)
    else:
        bins[a[i] % 16] += 1  # !all: global-race


@cuda.jit
def double(a, b):
    i = cuda.grid(1)
    if i < a.size:
        b[i] = 2 * a[i]


def zeros(n=N, kind=np.float32):
    return cuda.to_device(np.zeros(n, dtype=kind))


def memory():
    a = cuda.device_array(N, dtype=np.float32)
    fill[GRID, BLOCK](a, N if RIGHT else N + 1)
    b = cuda.device_array(N, dtype=np.float32)
    if RIGHT:
        b.copy_to_device(np.zeros(N, dtype=np.float32))
    count_up[GRID, BLOCK](b)
    c = cuda.device_array(N, dtype=np.float32)
    fill[GRID, BLOCK](c, N if RIGHT else N - 1)
    return a.copy_to_host(), b.copy_to_host(), c.copy_to_host()  # !all: uninitialised-copy


def races():
    a = zeros(BLOCK)
    reverse[1, BLOCK](a, RIGHT)
    values, bins = zeros(4 * BLOCK, np.int32), zeros(16, np.int32)
    histogram[4, BLOCK](values, bins, RIGHT)
    return a.copy_to_host(), bins.copy_to_host()


def streams():
    first, second, done = cuda.stream(), cuda.stream(), cuda.event()
    a, b = zeros(), zeros()
    fill[GRID, BLOCK, first](a, N)
    done.record(first)
    if RIGHT:
        done.wait(second)
    double[GRID, BLOCK, second](a, b)  # !all: unordered
    cuda.synchronize()
    return b.copy_to_host()


def host():
    a = cuda.mapped_array(N, dtype=np.float32)
    fill[GRID, BLOCK](a, N)
    if RIGHT:
        cuda.synchronize()
    total = a.sum()  # !all: host-race
    cuda.synchronize()
    return total


memory()
races()
streams()
host()
