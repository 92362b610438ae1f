"""CuPy's kinds of kernels: one of CUDA source, and those that it makes of expressions. With CUPY_ACCELERATORS=cub the sums are
those of a library with its own PTX."""
import cupy as cp
import numpy as np

N = 1024
ADD = cp.RawKernel(r'''
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i]; // LINE add load 8192 store 4096
}''', "add")
SCALE = cp.RawModule(code="extern \"C\" __global__ void scale(float *a)\n{\n  a[threadIdx.x] *= 3;\n}\n")


def main():
    host = np.arange(N, dtype=np.float32)
    a, b, c = cp.asarray(host), cp.asarray(np.ones(N, dtype=np.float32)), cp.empty(N, dtype=np.float32)  # CALL h2d
    ADD((N // 256,), (256,), (a, b, c, np.int32(N)))  # CALL add
    assert np.array_equal(cp.asnumpy(c), host + 1)  # CALL d2h
    assert np.array_equal(cp.asnumpy(a * b + c), 2 * host + 1)  # CALL cupy_multiply__float32_float32_float32 cupy_add__float32_float32_float32 d2h
    SCALE.get_function("scale")((1,), (32,), (c,))  # CALL scale
    assert np.array_equal(cp.asnumpy(c)[:33], np.append((host[:32] + 1) * 3, 33))  # CALL d2h
    assert float(a.sum()) == N * (N - 1) / 2  # CALL cupy_sum d2h
    assert float(a.max()) == N - 1  # CALL cupy_max d2h
    assert int(cp.argmax(a)) == N - 1  # CALL cupy_argmax d2h


main()
print("right")
