"""What nvcc declares in every CUDA source by itself, and programs rely on: compiled as nvcc's users write it, run traced."""
import collections
import os

import world
from world import Case

MINMAX = """
#include <cstdio>
using namespace std;
#if __CUDACC__ != 1
#error no value
#endif
__host__ __device__ int span(int a, unsigned b) { return max(a, b) - min(a, (int)b); }
__global__ void k(int *out) { *out = span(3, 5) + min(7, 9u); }
int main()
{
    unsigned u = 3; long l = -4; unsigned long z = 9; long long q = -1; float f = 1.5f; double d = 2; float nan = 0.0f / 0;
    printf("%d %u %ld %lu %lld %g %g %g\\n", min(1, 2), max(1, u), min(l, 2l), max(l, z), min(q, 1ll), min(f, d), max(f, 2.0f),
           min(nan, 1.0f));
    printf("%d %d %d %d\\n", isfinite(f) != 0, time(NULL) > 0, (int)strlen("abc"), abs(-2));
    int *p;
    cudaMallocManaged(&p, 4);
    k<<<1, 1>>>(p);
    int failed = cudaDeviceSynchronize();
    printf("%d\\n", *p);
    return failed;
}
"""
OWN_MINMAX = """
#include <algorithm>
#include <cstdio>
static inline int min(int a, int b) { return a < b ? 100 + a : 100 + b; }
template <class T> inline T max(T a, T b) { return a > b ? a : b; }
struct S { int v; bool operator>(S o) const { return v > o.v; } };
int main()
{
    register int r = min(1, 2);
    printf("%d %d %d %d\\n", r, max(S{1}, S{2}).v, max(3, 4), std::min(8, 9));
#define min(a, b) ((a) < (b) ? (a) : (b))
    printf("%g\\n", min(1.5, 2));
}
"""
ATOMICS = """
#include <cstdio>
#define ANY __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE
__global__ void k(int *i, unsigned *u, unsigned long long *q, float *f, double *d)
{
    unsigned t = threadIdx.x, expected = 0;
    int one = 1, old;
    __nv_atomic_load(i + 8, &old, ANY);
    __nv_atomic_store_n(i + 9, __nv_atomic_load_n(i + 8, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_BLOCK) + old,
                        __NV_ATOMIC_RELEASE);
    __nv_atomic_store(i + 10, &one, __NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
    __nv_atomic_fetch_add(i, 2, __NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_BLOCK);
    __nv_atomic_fetch_min(i + 1, -(int)t, ANY);
    __nv_atomic_max(u, t, ANY);
    __nv_atomic_fetch_or(u + 1, 1u << t, ANY);
    __nv_atomic_fetch_and(u + 2, ~(1u << t), ANY);
    __nv_atomic_fetch_xor(u + 3, 1u << t, ANY);
    __nv_atomic_fetch_sub(q, 1, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_CLUSTER);
    __nv_atomic_add(f, 0.5f, ANY);
    __nv_atomic_fetch_add(d, 1, __NV_ATOMIC_ACQ_REL);
    if (__nv_atomic_compare_exchange_n(u + 4, &expected, t + 1, false, __NV_ATOMIC_ACQUIRE, __NV_ATOMIC_RELAXED,
                                       __NV_THREAD_SCOPE_DEVICE))
        __nv_atomic_fetch_add(u + 5, 1, ANY);
    else if (expected == 0)
        __nv_atomic_store_n(u + 6, 1, ANY);
    __nv_atomic_exchange_n(q + 1, 7, ANY);
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
}
int main()
{
    int *i; unsigned *u; unsigned long long *q; float *f; double *d;
    cudaMallocManaged(&i, 64); cudaMallocManaged(&u, 64); cudaMallocManaged(&q, 64); cudaMallocManaged(&f, 4);
    cudaMallocManaged(&d, 8);
    memset(i, 0, 64); memset(u, 0, 64); memset(q, 0, 64); *f = 0; *d = 0; u[2] = ~0u; i[8] = 21;
    k<<<1, 32>>>(i, u, q, f, d);
    int failed = cudaDeviceSynchronize();
    printf("%d %d %d %d %u %x %x %x %d %u %u %lld %llu %g %g\\n", i[0], i[1], i[9], i[10], u[0], u[1], u[2], u[3], u[4] != 0,
           u[5], u[6], (long long)q[0], q[1], *f, *d);
    return failed;
}
"""
TYPES = ["char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long",
         "long long", "unsigned long long", "float", "double", "char2", "char4", "uchar2", "uchar4", "short2", "short4",
         "ushort2", "ushort4", "int2", "int4", "uint2", "uint4", "longlong2", "ulonglong2", "float2", "float4", "double2"]
LOADS = ["__ldcg", "__ldca", "__ldcs", "__ldlu", "__ldcv", "__ldg"]
STORES = ["__stwb", "__stcg", "__stcs", "__stwt"]
MACROS = """
__global__ void kernel_(int *aa) { aa[threadIdx.x] = N * M + width; }
int main()
{
    int *dd, hh;
    float2 xx = make_float2(1, 2);
    cudaMalloc(&dd, 128);
    kernel_<<<1, 32>>>(dd);
    cudaMemcpy(&hh, dd, 4, cudaMemcpyDeviceToHost);
    return !(hh == 1024 * 2 + 3 && xx.X == 1);
}
"""
NANS = """
#include <cmath>
#include <cstdio>
__global__ void k(double *d, float *f) { *d = nan(""); *f = nanf("1"); }
int main()
{
    double *d;
    cudaMallocManaged(&d, 16);
    *d = d[1] = 0;
    k<<<1, 1>>>(d, (float *)(d + 1));
    int failed = cudaDeviceSynchronize();
    printf("%d %d\\n", std::isnan(*d), std::isnan(*(float *)(d + 1)));
    return failed;
}
"""
ASSERT = """
#include <cassert>
#include <cstdio>
static __device__ int twice(int i) { static const int by[] = {2, 2}; return i * by[i & 1]; }
__global__ void k(int *p) { assert(threadIdx.x < 4); p[threadIdx.x] = twice(threadIdx.x); }
int main()
{
    int *p;
    cudaMallocManaged(&p, 16);
    k<<<1, 4>>>(p);
    int failed = cudaDeviceSynchronize();
    printf("%d %d\\n", p[1], p[3]);
    return failed;
}
"""
BARRIER = """
#include <cstdio>
#include <cuda/barrier>
__global__ void k(int *p)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[64];
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    s[threadIdx.x] = 3 * threadIdx.x;
    bar.arrive_and_wait();
    int other = s[63 - threadIdx.x];
    auto token = bar.arrive();
    p[threadIdx.x] = other;
    bar.wait(std::move(token));
}
int main()
{
    int *p;
    cudaMallocManaged(&p, 256);
    k<<<1, 64>>>(p);
    int failed = cudaDeviceSynchronize();
    for (int i = 0; i < 64; i++)
        failed += p[i] != 3 * (63 - i);
    printf("%d\\n", failed);
    return failed;
}
"""
# A header that is for other compilers, too, asks for nvcc's name; the toolkit's own headers must still know clang.
NVCC = """
#include <cooperative_groups.h>
#include <cuda/std/type_traits>
#include <nv/target>
#include <cstdio>
#ifdef __NVCC__
#define BOTH __host__ __device__
#else
#define BOTH
#endif
#if __CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10 != CUDART_VERSION
#error another version
#endif
BOTH int twice(int a) { NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return 2 * a;), (return -2 * a;)) }
__global__ void k(int *out)
{
    *out = twice(cuda::std::is_same<int, signed>::value + cooperative_groups::this_thread_block().size());
}
int main()
{
    int *p;
    cudaMallocManaged(&p, 4);
    k<<<1, 4>>>(p);
    int failed = cudaDeviceSynchronize();
    printf("%d %d\\n", *p, twice(1));
    return failed;
}
"""


class NvccSources(Case):
    def setUp(self):
        super().setUp()
        world.need_runtime(self)

    def traced(self, text, *flags):
        """Compiles, runs; (stdout, {(kind, size): records})."""
        self.write("k.cu", text)
        done = self.run_(os.path.join(world.build, "bin", "mt-cc"), *flags, "k.cu", "-o", "app")
        self.assertEqual(done.stderr, "")
        out = self.run_("./app")
        self.assertEqual(out.stderr, "")
        counts = collections.Counter()
        if os.path.exists(self.path("MemTrace-pipe-0")):
            data = self.read("MemTrace-pipe-0")
            at = data.index(b"\n") + 1
            for record in range(at, len(data) - 24, 24):
                word = int.from_bytes(data[record : record + 4], "little")
                counts[word >> 28, word & 0xFFFFFFF] += 1
        return out.stdout, counts

    def test_min_max(self):
        for flags in (["-O0"], ["-O2", "-std=c++14"]):
            out, _ = self.traced(MINMAX, *flags)
            # max(-4l, 9ul) is of type unsigned long; min(NaN, 1) is 1, as fminf's
            self.assertEqual(out, f"1 3 -4 {2**64 - 4} -1 1.5 2 1\n1 1 3 2\n9\n", flags)

    def test_nvcc_name(self):
        for flags in (["-arch=sm_75", "-std=c++17"], ["-arch=sm_90", "-O2", "-std=c++20"]):
            self.assertEqual(self.traced(NVCC, *flags)[0], "10 -2\n", flags)

    def test_nan(self):
        for level in ("-O0", "-O2"):
            out, counts = self.traced(NANS, level)
            # without optimisation the library's function reads the strings, too
            self.assertEqual((out, counts[1, 8], counts[1, 4]), ("1 1\n", 1, 1), level)

    def test_debug_information(self):
        for level in ("-O0", "-O1"):
            self.assertEqual(self.traced(ASSERT, "-g", level)[0], "2 6\n", level)

    def test_shared_barrier(self):
        for arch in ("sm_75", "sm_80", "sm_90"):
            out, counts = self.traced(BARRIER, "-O2", "-std=c++17", "-arch=" + arch)
            self.assertEqual((out, counts), ("0\n", {(1, 4): 64}), arch)

    def test_own_min_max(self):
        self.assertEqual(self.traced(OWN_MINMAX, "-std=c++17")[0], "101 2 4 8\n1.5\n")

    def test_nv_atomics(self):
        for level in ("-O0", "-O2"):
            out, counts = self.traced(ATOMICS, level)
            self.assertEqual(out, "64 -31 42 1 31 ffffffff 0 ffffffff 1 1 0 -32 7 16 32\n")
            kinds = collections.Counter()
            for (kind, size), n in counts.items():
                kinds[size] += n
            # 4 bytes: 2 loads, 2 stores, 8 operations a thread and one more; 8 bytes: 3 operations a thread
            self.assertEqual(kinds, {4: 12 * 32 + 1, 8: 3 * 32}, level)

    def test_cache_hints(self):
        pairs = [(t, load, store) for t in TYPES for load, store in zip(LOADS, STORES + STORES)]
        body = "".join(f"    {store}(({t} *)(out + {16 * i}), {load}((const {t} *)in));\n"
                       for i, (t, load, store) in enumerate(pairs))
        n = 16 * len(pairs)
        text = ("#include <cstdio>\n__global__ void k(const char *in, char *out)\n{\n" + body + "}\nint main()\n{\n"
                f"    char *in, *out;\n    cudaMallocManaged(&in, 16);\n    cudaMallocManaged(&out, {n});\n"
                f"    memset(out, 0, {n});\n    for (int i = 0; i < 16; i++) in[i] = 9 * i - 60;\n    k<<<1, 1>>>(in, out);\n"
                f"    int failed = cudaDeviceSynchronize();\n    for (int i = 0; i < {n}; i++) printf(\"%d \", out[i]);\n"
                "    return failed;\n}\n")
        size = {"char": 1, "short": 2, "int": 4, "unsigned": 4, "long": 8, "long long": 8, "float": 4, "double": 8}
        want, bytes_wanted = collections.Counter(), []
        for t, _, _ in pairs:
            lanes = int(t[-1]) if t[-1].isdigit() else 1
            name = t.rstrip("24").removeprefix("unsigned ").removeprefix("signed ")
            name = {"uchar": "char", "ushort": "short", "uint": "int", "longlong": "long", "ulonglong": "long"}.get(name, name)
            total = lanes * size[name]
            want[total] += 2
            bytes_wanted += [9 * i - 60 if i < total else 0 for i in range(16)]
        for level in ("-O0", "-O2"):
            out, counts = self.traced(text, level)
            got = collections.Counter()
            for (_, bytes_), records in counts.items():
                got[bytes_] += records
            self.assertEqual(got, want, level)
            self.assertEqual([int(x) for x in out.split()], bytes_wanted, level)

    def test_macros_with_names_of_headers(self):
        letters = [f"-D{c}=11" for c in "ABCDEFGHIJKLOPQRSTUVWYZabcdefghijklmnopqrstuvw"]
        self.traced(MACROS, "-DN=1024", "-DM=2", "-DX=x", "-Dwidth=3", "-Dflags=1", "-Dnum=2", "-Dblock=3", *letters)

    def test_unsynchronised_warp_functions(self):
        """Gone with sm_70: an error with file and line for each, at -O0 too, and no crash of the back end."""
        functions = {3: "__shfl_down", 4: "__shfl_xor", 5: "__any", 6: "__ballot"}
        self.write("gone.cu", "__global__ void k(int *p) {\nint v = p[threadIdx.x];\nv += __shfl_down(v, 1);\n"
                              "v += __shfl_xor(v, 2);\nv += __any(v);\nv += __ballot(v);\n"
                              "v += __shfl_sync(~0u, v, 0) + __any_sync(~0u, v);\np[threadIdx.x] = v;\n}\n")
        for options in (["-O0"], ["-O2"], ["-O2", "--mt-gpu-trace=off"]):
            done = self.run_(os.path.join(world.build, "bin", "mt-cc"), *options, "-c", "gone.cu", code=1)
            lines = [line for line in done.stderr.splitlines() if "error: " in line]
            self.assertEqual(len(lines), len(functions), done.stderr)
            for (line, name), said in zip(functions.items(), sorted(lines)):
                self.assertIn(f"gone.cu:{line}:", said)
                self.assertIn(f"{name} is not there", said)
