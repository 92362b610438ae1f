"""Faults of Triton kernels on PyTorch's tensors: a line's remark says what `memtrace check` finds there, "!all: kind". With `all-right`
nothing is wrong."""
import sys

import torch
import triton
import triton.language as tl

RIGHT = sys.argv[1] == "all-right"
N, BLOCK = 1000, 256
GRID = (-(-N // BLOCK),)


@triton.jit
def fill(a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(a + i, i.to(tl.float32), mask=i < n)  # !all: out-of-bounds


@triton.jit
def count_up(a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, mask=i < n)  # !all: uninitialised
    tl.store(a + i, v + 1, mask=i < n)


def main():
    a, b = torch.empty(N, device="cuda"), torch.empty(N, device="cuda")
    fill[GRID](a, N if RIGHT else N + 1, BLOCK=BLOCK)
    if RIGHT:
        b.copy_(a)
    count_up[GRID](b, N, BLOCK=BLOCK)
    a, b = a.cpu(), b.cpu()
    first, second, done = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()
    c = torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        fill[GRID](c, N, BLOCK=BLOCK)
        between = torch.empty(N, device="cuda")
        del between  # goes back to the pool, which orders nothing
        done.record()
    with torch.cuda.stream(second):
        if RIGHT:
            done.wait()
        fill[GRID](c, N, BLOCK=BLOCK)  # !all: unordered
    torch.cuda.synchronize()


main()
