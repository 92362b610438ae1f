"""A product of two matrices of ones by cuBLAS, called without any package of Python's; "bf16": of that type, and larger. KIT: where libcudart is,
in lib."""
import ctypes
import glob
import os
import sys

HALF = sys.argv[1:] == ["bf16"]
N, SIZE = (512, 2) if HALF else (64, 4)
BF16, SUMS = 14, 68  # CUDA_R_16BF, CUBLAS_COMPUTE_32F


def find(name):
    """The newest lib<name>.so.12 or .13 of this machine, or None."""
    places = [os.path.join(os.environ.get("KIT", ""), "lib"), *os.environ.get("LD_LIBRARY_PATH", "").split(":"),
              "/usr/local/cuda*/lib64", "/usr/lib/x86_64-linux-gnu"]
    places += [os.path.join(p, "nvidia", "*", "lib") for p in sys.path if p]
    found = [f for p in places if p for f in glob.glob(os.path.join(p, f"lib{name}.so.1[23]"))]
    return max(found, key=lambda f: f.rsplit(".", 1)[1]) if found else None


def main():
    blas = ctypes.CDLL(find("cublas"), mode=ctypes.RTLD_GLOBAL)
    cuda = ctypes.CDLL(find("cudart"))
    ones, total = (0x3F80, 0x4400) if HALF else (1.0, N)  # 512 as a bf16
    host, bytes_of = ((ctypes.c_uint16 if HALF else ctypes.c_float) * (N * N))(*[ones] * (N * N)), ctypes.c_size_t(SIZE * N * N)
    on_gpu = [ctypes.c_void_p() for _ in range(3)]
    for p in on_gpu:
        assert cuda.cudaMalloc(ctypes.byref(p), bytes_of) == 0
        assert cuda.cudaMemcpy(p, host, bytes_of, 1) == 0
    handle, one, zero = ctypes.c_void_p(), ctypes.c_float(1), ctypes.c_float(0)
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    a, b, c = on_gpu
    if HALF:
        assert blas.cublasGemmEx(handle, 0, 0, N, N, N, ctypes.byref(one), a, BF16, N, b, BF16, N, ctypes.byref(zero), c, BF16, N, SUMS, -1) == 0
    else:
        assert blas.cublasSgemm_v2(handle, 0, 0, N, N, N, ctypes.byref(one), a, N, b, N, ctypes.byref(zero), c, N) == 0
    assert cuda.cudaMemcpy(host, c, bytes_of, 2) == 0
    assert all(v == total for v in host)
    print("right")


if __name__ == "__main__":
    main()
