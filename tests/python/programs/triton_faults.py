"""Faults of Triton kernels: a line's remark says what `memtrace check` finds there, "!all: kind". With `all-right` nothing is wrong."""
import ctypes
import sys

import triton
import triton.language as tl

RIGHT = sys.argv[1] == "all-right"
N, BLOCK = 1000, 256
GRID = (-(-N // BLOCK),)
cu = ctypes.CDLL("libcuda.so.1")


class Array:
    """What Triton takes for a tensor; of zeros, or not written."""
    dtype = "fp32"

    def __init__(self, n=N, clear=True):
        self.at, self.bytes = ctypes.c_uint64(), ctypes.c_size_t(4 * n)
        assert cu.cuMemAlloc_v2(ctypes.byref(self.at), self.bytes) == 0
        assert not clear or cu.cuMemsetD8_v2(self.at, 0, self.bytes) == 0

    def data_ptr(self):
        return self.at.value

    def take(self):
        """Gives its bytes to the host, and itself back."""
        host = ctypes.create_string_buffer(self.bytes.value)
        assert cu.cuMemcpyDtoH_v2(host, self.at, self.bytes) == 0
        assert cu.cuMemFree_v2(self.at) == 0
        return host.raw


@triton.jit
def fill(a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(a + i, i.to(tl.float32), mask=i < n)  # !all: out-of-bounds


@triton.jit
def count_up(a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, mask=i < n)  # !all: uninitialised
    tl.store(a + i, v + 1, mask=i < n)


@triton.jit
def total(a, out, n, right: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.sum(tl.load(a + i, mask=i < n, other=0))
    if right:
        tl.atomic_add(out, s)
    else:
        tl.store(out, tl.load(out) + s)  # !all: global-race


def main():
    context = ctypes.c_void_p()
    assert cu.cuInit(0) == 0
    assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cu.cuCtxSetCurrent(context) == 0
    a, b, out = Array(clear=False), Array(clear=RIGHT), Array(1)
    fill[GRID](a, N if RIGHT else N + 1, BLOCK=BLOCK)
    count_up[GRID](b, N, BLOCK=BLOCK)
    total[GRID](a, out, N, RIGHT, BLOCK=BLOCK)
    assert len(a.take() + b.take() + out.take()) == 8 * N + 4


main()
