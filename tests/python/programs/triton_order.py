"""What orders blocks of Triton's kernels and launches, and what does not: a line's remark says what `memtrace check` finds
there, "!all: kind". With `all-right` nothing is wrong."""
import ctypes
import sys

import triton
import triton.language as tl

RIGHT = sys.argv[1] == "all-right"
N, BLOCK = 1024, 256
GRID = (N // BLOCK,)
NON_BLOCKING = 1
cu = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    assert getattr(cu, name)(*arguments) == 0, name


class Array:
    """What Triton takes for a tensor; of zeros."""
    dtype = "i32"

    def __init__(self, n=N):
        self.at, self.bytes = ctypes.c_uint64(), ctypes.c_size_t(4 * n)
        call("cuMemAlloc_v2", ctypes.byref(self.at), self.bytes)
        call("cuMemsetD8_v2", self.at, 0, self.bytes)
        call("cuCtxSynchronize")

    def data_ptr(self):
        return self.at.value

    def copy(self):
        host = (ctypes.c_int * (self.bytes.value // 4))()
        call("cuMemcpyDtoH_v2", host, self.at, self.bytes)
        return host

    def free(self):
        call("cuMemFree_v2", self.at)


class Stream:
    def __init__(self):
        self.cuda_stream = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(self.cuda_stream), NON_BLOCKING)

    def run(self, kernel, *arguments, **constants):
        """Triton asks its driver for the stream of each launch."""
        driver = triton.runtime.driver.active
        usual, driver.get_current_stream = driver.get_current_stream, lambda device: self.cuda_stream.value
        kernel[GRID](*arguments, **constants)  # !all: unordered
        driver.get_current_stream = usual


@triton.jit
def fill(a, by, BLOCK: tl.constexpr):
    tl.store(a + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), by)


@triton.jit
def sum_up(parts, done, out, sem: tl.constexpr, BLOCK: tl.constexpr):
    """The last block adds up what all have left."""
    block = tl.program_id(0)
    tl.store(parts + block, block + 1)  # !all: global-race
    if tl.atomic_add(done, 1, sem=sem) == tl.num_programs(0) - 1:
        total = 0
        for i in range(tl.num_programs(0)):
            total += tl.load(parts + i)
        tl.store(out, total)


def blocks():
    parts, done, out = Array(GRID[0]), Array(1), Array(1)
    sum_up[GRID](parts, done, out, "acq_rel" if RIGHT else "relaxed", BLOCK=BLOCK)
    assert out.copy()[0] == sum(range(1, GRID[0] + 1))
    parts.free(), done.free(), out.free()


def streams():
    first, second, done, a = Stream(), Stream(), ctypes.c_void_p(), Array()
    call("cuEventCreate", ctypes.byref(done), 2)
    first.run(fill, a, 1, BLOCK=BLOCK)
    call("cuEventRecord", done, first.cuda_stream)
    if RIGHT:
        call("cuStreamWaitEvent", second.cuda_stream, done, 0)
    second.run(fill, a, 2, BLOCK=BLOCK)
    call("cuCtxSynchronize")
    assert len(a.copy()) == N
    a.free()


def given_back():
    """Triton asks about each pointer, and does not launch with one that was freed."""
    a = Array()
    if not RIGHT:
        a.free()
    try:
        fill[GRID](a, 1, BLOCK=BLOCK)  # !all: failed-call
    except ValueError:
        assert not RIGHT
        return
    assert RIGHT
    a.free()


context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
blocks()
streams()
given_back()
