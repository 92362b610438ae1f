"""Triton kernels without torch: arrays are ctypes arrays, copied by the driver API."""
import ctypes
import math
import random
import struct

import triton
import triton.language as tl

cu = ctypes.CDLL("libcuda.so.1")


class Array:
    """What Triton takes for a tensor: data_ptr() and dtype."""

    def __init__(self, n, values=(), kind=ctypes.c_float, dtype="fp32"):
        self.host, self.dtype, self.at = (kind * n)(*values), dtype, ctypes.c_uint64()
        self.bytes = ctypes.c_size_t(ctypes.sizeof(self.host))
        assert cu.cuMemAlloc_v2(ctypes.byref(self.at), self.bytes) == 0
        assert cu.cuMemcpyHtoD_v2(self.at, self.host, self.bytes) == 0  # CALL h2d

    def data_ptr(self):
        return self.at.value

    def get(self):
        assert cu.cuMemcpyDtoH_v2(self.host, self.at, self.bytes) == 0  # CALL d2h
        return list(self.host)


def half(values):
    return [struct.unpack("H", struct.pack("e", v))[0] for v in values]


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m)  # LINE add load 4000
    b = tl.load(y + i, mask=m)  # LINE add load 4000
    tl.store(z + i, a + b, mask=m)  # LINE add store 4000


@triton.jit
def softmax(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))  # LINE softmax load 11200
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)  # LINE softmax store 11200


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])  # LINE product load 8192
    right = tl.load(b + k[:, None] * N + n[None, :])  # LINE product load 8192
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(left, right))  # LINE product store 16384


@triton.jit
def attention(q, k, v, out, scale, T: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr):
    """One head: each program BLOCK rows of q, all of k and v in blocks, the sums of exponentials carried along."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    mine = tl.load(q + row[:, None] * D + d[None, :])  # LINE attention load 2048
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK, D], tl.float32)
    for start in range(0, T, BLOCK):
        col = start + tl.arange(0, BLOCK)
        keys = tl.load(k + col[None, :] * D + d[:, None])  # LINE attention load 4096
        s = tl.dot(mine, keys) * scale
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        values = tl.load(v + col[:, None] * D + d[None, :])  # LINE attention load 4096
        total = total * shrink + tl.sum(p, 1)
        sums = sums * shrink[:, None] + tl.dot(p.to(tl.float16), values)
        top = new
    tl.store(out + row[:, None] * D + d[None, :], sums / total[:, None])  # LINE attention store 4096


@triton.jit
def remainder(x, p, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)  # LINE remainder load 1024
    tl.store(out + i, v * v - tl.load(p + i))  # LINE remainder load 1024 store 1024


def exact_softmax(row):
    top = max(row)
    e = [math.exp(v - top) for v in row]
    return [v / sum(e) for v in e]


def try_add(n=1000):
    x, y, z = Array(n, range(n)), Array(n, [1.0] * n), Array(n)
    add[(4,)](x, y, z, n, BLOCK=256)  # CALL add
    assert z.get() == [i + 1.0 for i in range(n)]


def try_softmax(rows=4, n=700):
    x = [random.random() for _ in range(rows * n)]
    a, out = Array(rows * n, x), Array(rows * n)
    softmax[(rows,)](out, a, n, BLOCK=1024)  # CALL softmax
    want = [v for r in range(rows) for v in exact_softmax(x[r * n:r * n + n])]
    assert all(abs(g - w) < 1e-6 for g, w in zip(out.get(), want))


def try_product(n=64):
    x, y = [float(i * 7 % 5) for i in range(n * n)], [float(i * 3 % 7) for i in range(n * n)]
    a, b, c = Array(n * n, half(x), ctypes.c_uint16, "fp16"), Array(n * n, half(y), ctypes.c_uint16, "fp16"), Array(n * n)
    product[(1,)](a, b, c, M=n, N=n, K=n)  # CALL product
    assert c.get() == [sum(x[i * n + k] * y[k * n + j] for k in range(n)) for i in range(n) for j in range(n)]


def try_attention(t=64, block=32, d=16):
    q, k, v = ([random.randint(-8, 8) / 8 for _ in range(t * d)] for _ in range(3))
    a = [Array(t * d, half(x), ctypes.c_uint16, "fp16") for x in (q, k, v)]
    out = Array(t * d)
    attention[(t // block,)](*a, out, 0.25, T=t, BLOCK=block, D=d)  # CALL attention
    got = out.get()
    for i in range(t):
        p = exact_softmax([0.25 * sum(q[i * d + x] * k[j * d + x] for x in range(d)) for j in range(t)])
        for x in range(d):
            assert abs(got[i * d + x] - sum(p[j] * v[j * d + x] for j in range(t))) < 2e-3


def try_remainder(n=128):
    """What a product loses when it is rounded: nothing is left of it unless multiplication and subtraction are one."""
    v = [1 + (2 * i + 1) / 8192 for i in range(n)]
    rounded = [struct.unpack("f", struct.pack("f", a * a))[0] for a in v]
    x, p, out = Array(n, v), Array(n, rounded), Array(n)
    for fused in True, False:
        remainder[(1,)](x, p, out, BLOCK=n, enable_fp_fusion=fused)  # CALL remainder
        assert out.get() == [a * a - r if fused else 0 for a, r in zip(v, rounded)], fused


def main():
    context = ctypes.c_void_p()
    assert cu.cuInit(0) == 0
    assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cu.cuCtxSetCurrent(context) == 0
    random.seed(1)
    try_add()
    try_softmax()
    try_product()
    try_attention()
    try_remainder()
    assert cu.cuCtxSynchronize() == 0


main()
print("right")
