"""Numba kernels with one thread an element: an addition, a reversal in shared memory, a histogram by atomics, a barrier of
the grid."""
import numpy as np
from numba import cuda, float32
from numba.cuda import cg

N, BLOCK, STEPS = 1024, 256, 5


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]  # LINE add load 8192 store 4096


@cuda.jit
def reverse(a, c):
    s = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    s[t] = a[cuda.blockIdx.x * BLOCK + t]  # LINE reverse load 4096
    cuda.syncthreads()
    c[cuda.blockIdx.x * BLOCK + t] = s[BLOCK - 1 - t]  # LINE reverse store 4096


@cuda.jit
def histogram(a, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, int(a[i]) % 16, 1)  # LINE histogram load 4096 atomic 4096


@cuda.jit
def turn(c):
    """Each step needs all CTAs to have done the one before."""
    grid, i = cg.this_grid(), cuda.grid(1)
    for _ in range(STEPS):
        v = c[(i + 1) % c.size]  # LINE turn load 20480
        grid.sync()
        c[i] = v  # LINE turn store 20480
        grid.sync()


def main():
    host = np.arange(N, dtype=np.float32)
    a, b, c = cuda.to_device(host), cuda.to_device(np.ones(N, dtype=np.float32)), cuda.device_array(N, dtype=np.float32)  # CALL h2d
    h = cuda.to_device(np.zeros(16, dtype=np.int32))  # CALL h2d
    add[N // BLOCK, BLOCK](a,  # CALL add
                           b, c)
    assert np.array_equal(c.copy_to_host(), host + 1)  # CALL d2h
    reverse[N // BLOCK, BLOCK](a, c)  # CALL reverse
    assert np.array_equal(c.copy_to_host(), host.reshape(-1, BLOCK)[:, ::-1].ravel())  # CALL d2h
    histogram[N // BLOCK, BLOCK](a, h)  # CALL histogram
    assert h.copy_to_host().tolist() == [N // 16] * 16  # CALL d2h
    turn[N // BLOCK, BLOCK](c)  # CALL turn
    assert np.array_equal(c.copy_to_host(), np.roll(host.reshape(-1, BLOCK)[:, ::-1].ravel(), -STEPS))  # CALL d2h
    cuda.synchronize()


main()
print("right")
