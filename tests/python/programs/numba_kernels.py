"""Numba kernels with one thread an element: an addition, a reversal in shared memory, a histogram by atomics."""
import numpy as np
from numba import cuda, float32

N, BLOCK = 1024, 256


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


def main():
    host = np.arange(N, dtype=np.float32)
    a, b, c = cuda.to_device(host), cuda.to_device(np.ones(N, dtype=np.float32)), cuda.device_array(N, dtype=np.float32)
    h = cuda.to_device(np.zeros(16, dtype=np.int32))
    add[N // BLOCK, BLOCK](a, b, c)
    assert np.array_equal(c.copy_to_host(), host + 1)
    reverse[N // BLOCK, BLOCK](a, c)
    assert np.array_equal(c.copy_to_host(), host.reshape(-1, BLOCK)[:, ::-1].ravel())
    histogram[N // BLOCK, BLOCK](a, h)
    assert h.copy_to_host().tolist() == [N // 16] * 16
    cuda.synchronize()


main()
print("right")
