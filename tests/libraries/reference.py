#!/usr/bin/env python3
"""reference.py BUILD: calls of libraries in this process, on the CPU device, next to NumPy's results. What each call must read and
write is made of NumPy's own indexing: an operand is a view of its buffer, and the view's indices are what it touches. Prints both
as cases.py reads it; all else in a buffer must stay as it is."""
import ctypes
import sys

import numpy as np

cuda = ctypes.CDLL(sys.argv[1] + "/lib/libmemtrace.so", ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(sys.argv[1] + "/lib/libmemtrace-libraries.so")
TYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
CUDA_TYPES = {"S": 0, "D": 1, "C": 4, "Z": 5}
TO_DEVICE, TO_HOST = 1, 2
random = np.random.default_rng(1)
wrong = 0


def check(good, words):
    global wrong
    if not good:
        wrong += 1
        print(words, file=sys.stderr)


def word(x):
    """As a parameter of 64 bits."""
    return ctypes.c_void_p(x.at if isinstance(x, (Buffer, View)) else x.ctypes.data if isinstance(x, np.ndarray) else x)


def call(function, *arguments):
    """A call with integers and pointers alone."""
    status = getattr(library, function)(*[word(a) for a in arguments])
    check(status == 0, f"{function}: status {status}")


class Buffer:
    """Memory of the device. `host`: what is in it, or must be."""

    def __init__(self, host):
        self.host = np.ascontiguousarray(host)
        p = ctypes.c_void_p()
        check(cuda.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(self.host.nbytes)) == 0, "cudaMalloc")
        self.at = p.value
        cuda.cudaMemcpy(p, word(self.host), ctypes.c_size_t(self.host.nbytes), TO_DEVICE)

    def get(self):
        out = np.empty_like(self.host)
        cuda.cudaMemcpy(word(out), ctypes.c_void_p(self.at), ctypes.c_size_t(out.nbytes), TO_HOST)
        return out

    def view(self, first, *axes):
        """Elements `first` + sum of i * step for each of the axes (count, step)."""
        index = np.full((1,) * len(axes), first)
        for d, (count, step) in enumerate(axes):
            index = index + (np.arange(count) * step).reshape([-1 if d == e else 1 for e in range(len(axes))])
        return View(self, index)


class View:
    def __init__(self, buffer, index):
        self.buffer, self.index = buffer, index
        self.at = buffer.at + int(index.min() if index.size else 0) * buffer.host.itemsize

    def __getitem__(self, which):
        """A part of it, by another index or mask."""
        return View(self.buffer, self.index[which])

    @property
    def value(self):
        return self.buffer.host[self.index]

    def ranges(self, kind):
        size = self.buffer.host.itemsize
        return "".join(f" {kind}{self.buffer.at + int(i) * size:#x}+{size}" for i in np.unique(self.index))


def random_buffer(letter, count):
    values = random.uniform(-1, 1, count)
    return Buffer((values + 1j * random.uniform(-1, 1, count) if letter in "CZ" else values).astype(TYPES[letter]))


def matrix(letter, rows, cols, ld, batch=1, stride=0):
    """Column-major, with `ld`; a batch is one more axis, the first."""
    axes = [(rows, 1), (cols, ld)]
    room = ld * cols + stride * (batch - 1) + 3
    return random_buffer(letter, room).view(0, *([(batch, stride)] if batch > 1 else []), *axes)


def done(name, letter, reads, writes):
    """writes: (view, what must be there)."""
    check(cuda.cudaDeviceSynchronize() == 0, f"{name}: the device")
    print("call", name + "".join(v.ranges("r") for v in reads) + "".join(v.ranges("w") for v, _ in writes))
    tolerance = 2e-4 if letter in "SC" else 1e-11
    for view, value in writes:
        view.buffer.host[view.index] = value
    for buffer in {v.buffer for v, _ in writes}:
        touched = np.zeros(buffer.host.size, bool)
        for view, _ in writes:
            if view.buffer is buffer:
                touched[view.index] = True
        have = buffer.get()
        check((have[~touched] == buffer.host[~touched]).all(), f"{name}: memory beside the result")
        check(np.allclose(have[touched], buffer.host[touched], tolerance, tolerance), f"{name} {letter}: the result")
        buffer.host[:] = have


def op(which, a):
    return a if which == 0 else np.swapaxes(a, -1, -2) if which == 1 else np.swapaxes(a, -1, -2).conj()


def scalar(letter, value):
    return np.array([value], TYPES[letter])


def made(function):
    handle = ctypes.c_void_p()
    check(getattr(library, function)(ctypes.byref(handle)) == 0, function)
    return handle.value


# ---- cuBLAS


def gemm(blas, letter, ta, tb, beta, batch, strided):
    m, n, k = 5, 4, 3
    lda, ldb, ldc = (k if ta else m) + 2, (n if tb else k) + 1, m + 3
    count = max(batch, 1)
    a = matrix(letter, *((k, m) if ta else (m, k)), lda, count, 60)
    b = matrix(letter, *((n, k) if tb else (k, n)), ldb, count, 50)
    c = matrix(letter, m, n, ldc, count, 45)
    alpha, beta = scalar(letter, 1.5 - (0.5j if letter in "CZ" else 0)), scalar(letter, beta)
    want = alpha * (op(ta, a.value) @ op(tb, b.value)) + (beta * c.value if beta[0] else 0)
    reads, sizes = [a, b] + [c] * bool(beta[0]), (ta, tb, m, n, k, alpha)
    name = f"cublas{letter}gemm"
    if not batch:
        call(name + "_v2", blas, *sizes, a, lda, b, ldb, beta, c, ldc)
    elif strided:
        name += "StridedBatched"
        call(name, blas, *sizes, a, lda, 60, b, ldb, 50, beta, c, ldc, 45, batch)
    else:
        name += "Batched"
        lists = [Buffer(np.array([v[i].at for i in range(batch)], np.uint64)) for v in (a, b, c)]
        call(name, blas, *sizes, lists[0], lda, lists[1], ldb, beta, lists[2], ldc, batch)
        reads += [x.view(0, (batch, 1)) for x in lists]
    done(name, letter, reads, [(c, want)])


def test_blas():
    blas = made("cublasCreate_v2")
    for letter in TYPES:
        for ta in range(3):
            for tb in range(3):
                gemm(blas, letter, ta, tb, (ta + tb) % 2, 0, 0)
        gemm(blas, letter, 0, 1, 1, 3, 1)
        gemm(blas, letter, 2, 0, 0, 3, 0)


# ---- cuFFT


def layout(letter, extents, embed, stride, distance, batch):
    steps = [stride * int(np.prod(embed[d + 1:])) for d in range(len(embed))]
    return random_buffer(letter, distance * batch + 2).view(0, (batch, distance), *zip(extents, steps))


def ints(values):
    return np.array(values, np.int32)


def fft(kind, n, wide):
    """Padded rows, elements two or three apart, room between the transforms of a batch."""
    rank, batch = len(n), 2
    half = [*n[:-1], n[-1] // 2 + 1]
    extents = {"C2C": (n, n), "R2C": (n, half), "C2R": (half, n)}[kind]
    letters = {"C2C": "CC", "R2C": "SC", "C2R": "CS"}[kind]
    letters = ["Z" if wide and x == "C" else "D" if wide else x for x in letters]
    embeds = [[e + 1 for e in x] for x in extents]
    strides, sides, distances = (2, 3), [], []
    for x, embed, stride, letter in zip(extents, embeds, strides, letters):
        distances.append(stride * int(np.prod(embed)) + 5)
        sides.append(layout(letter, x, embed, stride, distances[-1], batch))
    source, target = sides
    axes = tuple(range(1, rank + 1))
    if kind == "C2R":
        full = np.fft.rfftn(random.uniform(-1, 1, (batch, *n)), axes=axes)
        source.buffer.host[source.index] = full
        source = Buffer(source.buffer.host).view(0, (batch, distances[0]), *[(e, strides[0] * int(np.prod(embeds[0][d + 1:])))
                                                                             for d, e in enumerate(extents[0])])
        want = np.fft.irfftn(source.value, n, axes=axes) * np.prod(n)
    else:
        want = (np.fft.fftn if kind == "C2C" else np.fft.rfftn)(source.value, axes=axes)
    plan, code = ctypes.c_int(), {"C2C": 0x29, "R2C": 0x2a, "C2R": 0x2c}[kind] | (0x40 if wide else 0)
    names = {"C2C": "Z2Z", "R2C": "D2Z", "C2R": "Z2D"}
    call("cufftPlanMany", ctypes.addressof(plan), rank, ints(n), ints(embeds[0]), strides[0], distances[0], ints(embeds[1]),
         strides[1], distances[1], code, batch)
    name = "cufftExec" + (names[kind] if wide else kind)
    call(name, plan.value, source, target, *([-1] if kind == "C2C" else []))
    done(name, letters[0], [source], [(target, want)])


def test_fft():
    for n in ([12], [6, 5], [4, 3, 6]):
        for kind in ("C2C", "R2C", "C2R"):
            for wide in (0, 1):
                fft(kind, n, wide)


# ---- cuSPARSE


def sparse(handle, letter, coordinates, columns):
    rows, cols = 6, 9
    dense = (random.uniform(1, 2, (rows, cols)) * (random.uniform(0, 1, (rows, cols)) < 0.3)).astype(TYPES[letter])
    dense[:, 4] = 0  # so that a row of the other factor is not read
    dense[2] = 0
    row, col = np.nonzero(dense)
    offsets = row if coordinates else np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
    parts = [Buffer(x) for x in (offsets.astype(np.int32), col.astype(np.int64 if not coordinates else np.int32), dense[row, col])]
    pointers = [p.at for p in parts]
    a = ctypes.c_void_p()
    form, kinds = ("Coo", (2, 0)) if coordinates else ("Csr", (2, 3, 0))
    call("cusparseCreate" + form, ctypes.addressof(a), rows, cols, len(row), *pointers, *kinds, CUDA_TYPES[letter])
    x, y = matrix(letter, cols, columns, cols + 2), matrix(letter, rows, columns, rows + 1)
    alpha, beta = scalar(letter, 2), scalar(letter, columns % 2)
    others = [ctypes.c_void_p(), ctypes.c_void_p()]
    for out, view, n in ((others[0], x, cols), (others[1], y, rows)):
        if columns == 1:
            call("cusparseCreateDnVec", ctypes.addressof(out), n, view, CUDA_TYPES[letter])
        else:
            call("cusparseCreateDnMat", ctypes.addressof(out), n, columns, int(view.index[0, 1]), view, CUDA_TYPES[letter], 1)
    want = alpha * (dense @ x.value) + (beta * y.value if beta[0] else 0)
    name = "cusparseSpMV" if columns == 1 else "cusparseSpMM"
    call(name, handle, 0, *([] if columns == 1 else [0]), alpha, a.value, others[0].value, beta, others[1].value, CUDA_TYPES[letter], 0, 0)
    reads = [p.view(0, (p.host.size, 1)) for p in parts] + [x[np.unique(col)]] + [y] * bool(beta[0])
    done(name, letter, reads, [(y, want)])


def test_sparse():
    handle = made("cusparseCreate")
    for letter in TYPES:
        for coordinates in (0, 1):
            for columns in (1, 2, 3):
                sparse(handle, letter, coordinates, columns)


# ---- cuSOLVER


def eliminate(a):
    """Gauss with row exchanges, as in a textbook: both triangles in one matrix, and the rows that were exchanged, from 1."""
    a, pivots = a.copy(), []
    for j in range(min(a.shape)):
        size = np.abs(a[j:, j].real) + np.abs(a[j:, j].imag)
        p = j + int(np.argmax(size))
        a[[j, p]] = a[[p, j]]
        pivots.append(p + 1)
        a[j + 1:, j] /= a[j, j]
        a[j + 1:, j + 1:] -= np.outer(a[j + 1:, j], a[j, j + 1:])
    return a, np.array(pivots, np.int32)


def solver(handle, letter):
    m, n = 7, 5
    work = random_buffer(letter, 64 * 8)
    info = Buffer(np.array([9], np.int32)).view(0, (1, 1))
    a = matrix(letter, m, n, m + 2)
    pivots = Buffer(np.zeros(n + 1, np.int32)).view(0, (n, 1))
    want, rows = eliminate(a.value)
    call(f"cusolverDn{letter}getrf", handle, m, n, a, m + 2, work, pivots, info)
    done(f"cusolverDn{letter}getrf", letter, [a], [(a, want), (pivots, rows), (info, 0)])
    a = matrix(letter, m, n, m + 2)
    tau = random_buffer(letter, n + 2).view(0, (n, 1))
    h, t = np.linalg.qr(a.value.astype(np.complex128 if letter in "CZ" else np.float64), "raw")
    call(f"cusolverDn{letter}geqrf", handle, m, n, a, m + 2, tau, work, 64 * 8, info)
    done(f"cusolverDn{letter}geqrf", letter, [a], [(a, h.T), (tau, t), (info, 0)])
    for upper in (0, 1):
        a = matrix(letter, n, n, n + 1)
        square = a.value @ a.value.conj().T + 5 * np.eye(n)
        a = View(Buffer(np.zeros(n * (n + 1) + 3, TYPES[letter])), a.index)
        a.buffer.host[a.index] = square
        a = View(Buffer(a.buffer.host), a.index)
        triangle = np.triu(np.ones((n, n), bool)) if upper else np.tril(np.ones((n, n), bool))
        low = np.linalg.cholesky(a.value)
        call(f"cusolverDn{letter}potrf", handle, upper, n, a, n + 1, work, 64 * 8, info)
        done(f"cusolverDn{letter}potrf", letter, [a[triangle]], [(a[triangle], (low.conj().T if upper else low)[triangle]), (info, 0)])


def test_solver():
    handle = made("cusolverDnCreate")
    for letter in TYPES:
        solver(handle, letter)


for test in (test_blas, test_fft, test_sparse, test_solver):
    test()
sys.exit(wrong != 0)
