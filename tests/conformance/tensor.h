// Tensor maps: what is in a box of a tensor, worked out on the host element by element, and kernels that load
// a box and write down what it has become in shared memory, or bring one to global memory.
#ifndef CONF_TENSOR_H
#define CONF_TENSOR_H
#include "conf.h"
#include <cuda.h>
#include <cuda/ptx>
#include <cuda_fp16.h>
typedef unsigned u32;
typedef uint64_t u64; // as cuda::ptx has it
#ifdef __clang__
#undef __grid_constant__ // clang 19 does not know it
#define __grid_constant__
#endif

#define CELL 8192
struct place {
    int at[5];
};
struct held {
    int before[16];
    CUtensorMap map;
};

// ---- the host: maps, and what is in a box ----

struct tensor {
    int type, size, rank; // size: bytes of an element
    cuuint64_t dim[5], stride[4];
    cuuint32_t box[5], step[5];
    int swizzle, fill;
    long bytes; // of the memory
};
// Dense but for 16 bytes and more behind each row.
static tensor tensor_of(int type, int size, int rank, const int *dim, const int *box)
{
    tensor t = {type, size, rank, {}, {}, {}, {1, 1, 1, 1, 1}, 0, 0, size};
    for (int i = 0; i < rank; i++) {
        t.dim[i] = dim[i];
        t.box[i] = box[i];
        t.bytes *= dim[i];
        if (i == 0)
            t.bytes = (t.bytes + 31) / 16 * 16;
        if (i + 1 < rank)
            t.stride[i] = t.bytes;
    }
    return t;
}
typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                        const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                        CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
static encode *encoder(conf::row &r)
{
    void *f = nullptr;
    cudaDriverEntryPointQueryResult found;
    CONF_CALL(r, cudaFree(nullptr));
    CONF_CALL(
        r, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found));
    r.check(f != nullptr, "the driver has no cuTensorMapEncodeTiled");
    return (encode *)f;
}
static CUtensorMap map_of(conf::row &r, const tensor &t, void *memory)
{
    static CUtensorMap m; // gcc does not align what a function returns
    encode *f = encoder(r);
    int e = f ? f(&m, (CUtensorMapDataType)t.type, t.rank, memory, t.dim, t.stride, t.box, t.step,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)t.swizzle,
                  CU_TENSOR_MAP_L2_PROMOTION_NONE, (CUtensorMapFloatOOBfill)t.fill)
              : 1;
    r.check(e == 0, "cuTensorMapEncodeTiled: %d", e);
    return m;
}
static long count(const tensor &t, int i)
{
    return i ? (t.box[i] + t.step[i] - 1) / t.step[i] : t.box[0];
}
static long elements(const tensor &t)
{
    long n = 1;
    for (int i = 0; i < t.rank; i++)
        n *= count(t, i);
    return n;
}
// Where element e of the box lies in the memory, or -1.
static long offset_of(const tensor &t, const place &p, long e)
{
    long at = 0;
    for (int i = 0; i < t.rank; i++) {
        long c = p.at[i] + e % count(t, i) * (i ? t.step[i] : 1);
        e /= count(t, i);
        if (c < 0 || c >= (long)t.dim[i])
            return -1;
        at += c * (i ? (long)t.stride[i - 1] : t.size);
    }
    return at;
}
// Where it lies in shared memory: in lines of 128 bytes the chunks of 16 bytes are shuffled by the number of
// the line.
static long cell_of(const tensor &t, long e)
{
    long span = t.swizzle ? 16l << t.swizzle : (long)t.box[0] * t.size;
    long at = e / t.box[0] * span + e % t.box[0] * t.size, line = at / 128, chunk = at / 16 % 8;
    static const int lines[] = {1, 2, 4, 8};
    return line * 128 + (chunk ^ line % lines[t.swizzle]) * 16 + at % 16;
}
static long cell_bytes(const tensor &t)
{
    long rows = elements(t) / t.box[0], span = t.swizzle ? 16l << t.swizzle : (long)t.box[0] * t.size;
    return (rows * span + 127) / 128 * 128;
}
// One access for each row of the box with something inside; that is as much in each.
static void rows(conf::row &r, const tensor &t, const place &p, conf::kind kind)
{
    long found = 0, inside = 0;
    for (long row = 0; row < elements(t) / t.box[0]; row++) {
        long n = 0;
        for (long k = 0; k < t.box[0]; k++)
            n += offset_of(t, p, row * t.box[0] + k) >= 0;
        inside = n ? n : inside;
        found += n != 0;
    }
    if (found)
        r.expect(kind, found, (int)inside * t.size);
}

// ---- the device ----

static __device__ u32 shared_of(const void *p)
{
    return (u32)__cvta_generic_to_shared(p);
}
static __device__ void expect(u64 *bar, int bytes)
{
    u64 state;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
                 : "=l"(state)
                 : "r"(shared_of(bar)), "r"(bytes)
                 : "memory");
}
static __device__ void wait(u64 *bar)
{
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(
            shared_of(bar))
        : "memory");
}
static __device__ void begin(u64 *bar)
{
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_of(bar)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}
#define AT(n) "r"(p.at[n])
#define LOAD(dims, list, ...)                                                                                \
    asm volatile("cp.async.bulk.tensor." dims                                                                \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" list               \
                 "}], [%2];" ::"r"(to),                                                                      \
                 "l"(map), "r"(shared_of(bar)), __VA_ARGS__                                                  \
                 : "memory")
static __device__ void load_box(const CUtensorMap *map, int rank, const place &p, u32 to, u64 *bar)
{
    switch (rank) {
    case 1:
        LOAD("1d", "%3", AT(0));
        break;
    case 2:
        LOAD("2d", "%3, %4", AT(0), AT(1));
        break;
    case 3:
        LOAD("3d", "%3, %4, %5", AT(0), AT(1), AT(2));
        break;
    case 4:
        LOAD("4d", "%3, %4, %5, %6", AT(0), AT(1), AT(2), AT(3));
        break;
    default:
        LOAD("5d", "%3, %4, %5, %6, %7", AT(0), AT(1), AT(2), AT(3), AT(4));
        break;
    }
}
static __device__ void dump(const int *cell, int *out, int words)
{
    for (int i = threadIdx.x; i < words; i += blockDim.x)
        out[i] = cell[i];
}
// Loads a box and writes down all that it has become in shared memory.
static __global__ void load(const __grid_constant__ CUtensorMap map, int rank, place p, int bytes, int *out,
                            int words)
{
    __shared__ __align__(1024) int cell[CELL / 4];
    __shared__ u64 bar;
    begin(&bar);
    if (threadIdx.x == 0) {
        expect(&bar, bytes);
        load_box(&map, rank, p, shared_of(cell), &bar);
    }
#ifndef NO_WAIT // as it is wrong (tests/e2e, onchip.tensors)
    wait(&bar);
#endif
    dump(cell, out, words);
}
#define STORE(what, dims, list, ...)                                                                         \
    asm volatile("cp." what ".bulk_group [%0, {" list "}], [%1];" ::"l"(map), "r"(from), __VA_ARGS__         \
                 : "memory")
#define STORE_BOX(before, after)                                                                             \
    switch (rank) {                                                                                          \
    case 1:                                                                                                  \
        STORE(before ".1d.global.shared::cta" after, "1d", "%2", AT(0));                                     \
        break;                                                                                               \
    case 2:                                                                                                  \
        STORE(before ".2d.global.shared::cta" after, "2d", "%2, %3", AT(0), AT(1));                          \
        break;                                                                                               \
    case 3:                                                                                                  \
        STORE(before ".3d.global.shared::cta" after, "3d", "%2, %3, %4", AT(0), AT(1), AT(2));               \
        break;                                                                                               \
    case 4:                                                                                                  \
        STORE(before ".4d.global.shared::cta" after, "4d", "%2, %3, %4, %5", AT(0), AT(1), AT(2), AT(3));    \
        break;                                                                                               \
    default:                                                                                                 \
        STORE(before ".5d.global.shared::cta" after, "5d", "%2, %3, %4, %5, %6", AT(0), AT(1), AT(2), AT(3), \
              AT(4));                                                                                        \
    }
enum { PLAIN, ADD, MIN, MAX, INC, DEC, AND, OR, XOR };
static __device__ void store_box(const CUtensorMap *map, int rank, const place &p, u32 from)
{
    STORE_BOX("async.bulk.tensor", ".tile")
}
#define REDUCE(word) STORE("reduce.async.bulk.tensor.1d.global.shared::cta." word ".tile", "1d", "%2", AT(0))
static __device__ void reduce_box(const CUtensorMap *map, int op, const place &p, u32 from)
{
    switch (op) {
    case ADD:
        REDUCE("add");
        break;
    case MIN:
        REDUCE("min");
        break;
    case MAX:
        REDUCE("max");
        break;
    case INC:
        REDUCE("inc");
        break;
    case DEC:
        REDUCE("dec");
        break;
    case AND:
        REDUCE("and");
        break;
    case OR:
        REDUCE("or");
        break;
    default:
        REDUCE("xor");
        break;
    }
}
static __device__ void fill(char *cell, const char *in, int bytes)
{
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x)
        ((int *)cell)[i] = ((const int *)in)[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}
static __global__ void store(const __grid_constant__ CUtensorMap map, int rank, place p, int op,
                             const char *in, int bytes)
{
    __shared__ __align__(1024) char cell[CELL];
    fill(cell, in, bytes);
    if (threadIdx.x == 0) {
        if (op == PLAIN)
            store_box(&map, rank, p, shared_of(cell));
        else
            reduce_box(&map, op, p, shared_of(cell));
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
#endif
