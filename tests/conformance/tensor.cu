// Tensor maps and the copies of boxes by them (TMA).
//
// conformance: needs cuda/ptx
// conformance: flags -arch=sm_90a
#include "tensor.h"

// ---- loads ----

static unsigned char byte_at(long i)
{
    return (unsigned char)(i * 7 + i / 251 + 1);
}
// The box at p, as the map of `t` says; `outside`: bytes of an element that is not in the tensor.
static void try_load(conf::row &r, const tensor &t, const place &p, const void *outside = nullptr)
{
    static const char zeros[8] = {};
    conf::buffer<unsigned char> in(r, t.bytes, byte_at);
    conf::buffer<int> out(r, cell_bytes(t) / 4);
    CUtensorMap m = map_of(r, t, in.d);
    load<<<1, 64>>>(m, t.rank, p, (int)(elements(t) * t.size), out, (int)out.n);
    const char *got = (const char *)out.get();
    for (long e = 0; e < elements(t); e++) {
        long at = offset_of(t, p, e);
        const void *want = at < 0 ? outside ? outside : zeros : in.h + at;
        if (!r.check(!memcmp(got + cell_of(t, e), want, t.size),
                     "at %d,%d,%d,%d,%d: element %ld of the box is another one", p.at[0], p.at[1], p.at[2],
                     p.at[3], p.at[4], e))
            return;
    }
    rows(r, t, p, conf::LOAD);
    r.stores(out.n, 4);
}
static const int dims[] = {40, 9, 6, 5, 4}, boxes[] = {16, 4, 3, 2, 2};
#define TYPE(name, type, size) CU_TENSOR_MAP_DATA_TYPE_##type, size
#define RANK_ROW(n)                                                                                          \
    ROW("cp.async.bulk.tensor." #n "d, global to shared",                                                    \
        "one load for each row of the box, completes an mbarrier")                                           \
    {                                                                                                        \
        try_load(r, tensor_of(TYPE(u32, UINT32, 4), n, dims, boxes), {{5, 2, 1, 3, 1}});                     \
    }
RANK_ROW(1)
RANK_ROW(2)
RANK_ROW(3)
RANK_ROW(4)
RANK_ROW(5)
#define TYPE_ROW(type, size, element)                                                                        \
    ROW("elements of " #element, "2 dimensions, partly outside")                                             \
    {                                                                                                        \
        try_load(r, tensor_of(TYPE(, type, size), 2, dims, boxes), {{-3, 7}});                               \
    }
TYPE_ROW(UINT8, 1, u8)
TYPE_ROW(UINT16, 2, u16)
TYPE_ROW(INT32, 4, s32)
TYPE_ROW(UINT64, 8, u64)
TYPE_ROW(INT64, 8, s64)
TYPE_ROW(FLOAT16, 2, f16)
TYPE_ROW(FLOAT32, 4, f32)
TYPE_ROW(FLOAT64, 8, f64)
TYPE_ROW(BFLOAT16, 2, bf16)

ROW("coordinates outside",
    "zeros, which have no record; the barrier counts them; below, above, in each of 3 dimensions")
{
    tensor t = tensor_of(TYPE(u32, UINT32, 4), 3, dims, boxes);
    static const place places[] = {{{-5, 0, 0}},        {{30, 0, 0}},        {{0, -1, 0}},   {{0, 7, 0}},
                                   {{0, 0, -2}},        {{0, 0, 5}},         {{36, 7, 5}},   {{-16, 0, 0}},
                                   {{40, 0, 0}},        {{0, 9, 0}},         {{-9, -3, -1}}, {{0, -4, 0}},
                                   {{INT32_MIN, 0, 0}}, {{INT32_MAX, 0, 0}}, {{24, 5, 3}}};
    for (const place &p : places)
        try_load(r, t, p);
}
ROW("coordinates outside of a box larger than the tensor",
    "5 dimensions of 3 elements in boxes of 4 and more")
{
    static const int small[] = {3, 3, 3, 3, 3}, large[] = {4, 4, 4, 4, 5};
    tensor t = tensor_of(TYPE(u32, UINT32, 4), 5, small, large);
    try_load(r, t, {{-1, 0, -1, 0, -1}});
}
#define NAN_ROW(type, size, element)                                                                         \
    ROW("elements outside that are NaN, " #element, "the host finds them not to be numbers")                 \
    {                                                                                                        \
        static const int dim[] = {8, 2}, box[] = {16, 2};                                                    \
        tensor t = tensor_of(TYPE(, type, size), 2, dim, box);                                               \
        t.fill = 1;                                                                                          \
        conf::buffer<unsigned char> in(r, t.bytes, [](long) { return 0; });                                  \
        conf::buffer<int> out(r, cell_bytes(t) / 4);                                                         \
        load<<<1, 64>>>(map_of(r, t, in.d), 2, place{{-4, 0}}, 32 * size, out, (int)out.n);                  \
        out.get();                                                                                           \
        for (long e = 0; e < 32; e++) {                                                                      \
            element v;                                                                                       \
            memcpy(&v, (char *)out.h + e * size, size);                                                      \
            bool outside = e % 16 < 4 || e % 16 >= 12;                                                       \
            r.check(outside == (double)v != (double)v, "element %ld is %g", e, (double)v);                   \
        }                                                                                                    \
        r.loads(2, 8 * size);                                                                                \
        r.stores(out.n, 4);                                                                                  \
    }
NAN_ROW(FLOAT16, 2, __half)
NAN_ROW(FLOAT32, 4, float)
NAN_ROW(FLOAT64, 8, double)
ROW("elements of f32.ftz and tf32", "denormals become zero; tf32 keeps ten bits of the fraction")
{
    static const int dim[] = {8}, box[] = {8};
    static const float in_f[] = {1e-40f,          -1e-40f,  1.5f,     -3.0f, 1.0f + 0x1.8p-11f,
                                 1.0f - 0x1p-20f, INFINITY, 0x1p-126f};
    static const float tf32[] = {1e-40f, -1e-40f, 1.5f, -3.0f, 1.0f + 0x1p-10f, 1.0f, INFINITY, 0x1p-126f};
    for (int k = 0; k < 3; k++) {
        static const int types[] = {CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
                                    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ};
        tensor t = tensor_of(types[k], 4, 1, dim, box);
        conf::buffer<float> in(r, 8, [](long i) { return in_f[i]; });
        conf::buffer<int> out(r, 8);
        load<<<1, 64>>>(map_of(r, t, in.d), 1, place{}, 32, out, 8);
        out.get();
        for (int i = 2 * (k == 1); i < 8; i++) { // what tf32 makes of denormals is not said
            float want = k ? tf32[i] : in_f[i], got;
            want = k != 1 && i < 2 ? copysignf(0, want) : want;
            memcpy(&got, out.h + i, 4);
            r.check(!memcmp(&got, &want, 4), "type %d: %g became %g", types[k], in_f[i], got);
        }
        r.loads(1, 32);
        r.stores(8, 4);
    }
}
#define SWIZZLE_ROW(n, span)                                                                                 \
    ROW("swizzle " #span "B", "rows as long as the span, half of it, and partly outside; 24 of them")        \
    {                                                                                                        \
        static const int dim[] = {100, 30}, box[] = {span / 2, 24}, half[] = {span / 4, 24};                 \
        tensor t = tensor_of(TYPE(f16, FLOAT16, 2), 2, dim, box);                                            \
        t.swizzle = n;                                                                                       \
        try_load(r, t, {{3, 2}});                                                                            \
        try_load(r, t, {{-1, 12}});                                                                          \
        t = tensor_of(TYPE(f16, FLOAT16, 2), 2, dim, half);                                                  \
        t.swizzle = n;                                                                                       \
        try_load(r, t, {{8, -2}});                                                                           \
    }
SWIZZLE_ROW(1, 32)
SWIZZLE_ROW(2, 64)
SWIZZLE_ROW(3, 128)
ROW("element strides", "each second row, each third plane; the last steps leave the box")
{
    static const int box[] = {8, 5, 6};
    tensor t = tensor_of(TYPE(u32, UINT32, 4), 3, dims, box);
    t.step[1] = 2;
    t.step[2] = 3;
    try_load(r, t, {{4, 1, 0}});
    try_load(r, t, {{4, -1, 2}});
}

// ---- stores and reductions ----

static void try_store(conf::row &r, const tensor &t, const place &p)
{
    conf::buffer<unsigned char> memory(r, t.bytes, byte_at),
        from(r, cell_bytes(t), [](long i) { return byte_at(i + 77); });
    unsigned char *want = (unsigned char *)malloc(t.bytes);
    memcpy(want, memory.h, t.bytes);
    for (long e = 0; e < elements(t); e++)
        if (offset_of(t, p, e) >= 0)
            memcpy(want + offset_of(t, p, e), from.h + cell_of(t, e), t.size);
    store<<<1, 64>>>(map_of(r, t, memory.d), t.rank, p, PLAIN, (const char *)from.d, (int)from.n);
    memory.get();
    for (long i = 0; i < t.bytes; i++)
        if (!r.same(i, memory.h[i], want[i]))
            break;
    free(want);
    rows(r, t, p, conf::STORE);
    r.loads(from.n / 4, 4);
}
ROW("cp.async.bulk.tensor, shared to global",
    "1 to 5 dimensions, inside and partly outside: nothing else is written")
{
    for (int n = 1; n <= 5; n++) {
        tensor t = tensor_of(TYPE(u32, UINT32, 4), n, dims, boxes);
        try_store(r, t, {{3, 1, 2, 1, 0}});
        try_store(r, t, {{-2, 6, -1, 4, 3}});
    }
}
ROW("cp.async.bulk.tensor, shared to global, swizzled, with strides", "128 bytes, f64; each second row")
{
    static const int box[] = {16, 8};
    tensor t = tensor_of(TYPE(f64, FLOAT64, 8), 2, dims, box);
    t.swizzle = 3;
    try_store(r, t, {{2, 3}});
    t.step[1] = 2;
    try_store(r, t, {{30, -1}});
}
template <class T, class M, class F, class W>
static void try_reduce(conf::row &r, int type, int op, M before, F from_f, W want)
{
    static const int dim[] = {100}, box[] = {64};
    tensor t = tensor_of(type, sizeof(T), 1, dim, box);
    conf::buffer<T> memory(r, 112, before), from(r, 64, from_f);
    place p = {{50}};
    store<<<1, 64>>>(map_of(r, t, memory.d), 1, p, op, (const char *)from.d, 64 * (int)sizeof(T));
    memory.get();
    for (long i = 0; i < 112; i++) {
        T w = i >= 50 && i < 100 ? want(before(i), from_f(i - 50)) : before(i);
        r.check(!memcmp(&memory.h[i], &w, sizeof w), "[%ld]: got %g, expected %g", i, (double)memory.h[i],
                (double)w);
    }
    rows(r, t, p, conf::ATOMIC);
    r.loads(16 * sizeof(T), 4);
}
#define REDUCE_ROW(word, op, type, T, before, from, expression)                                              \
    ROW("cp.reduce.async.bulk.tensor, " word " of " #T, "50 of 64 elements inside: one atomic of them")      \
    {                                                                                                        \
        try_reduce<T>(                                                                                       \
            r, CU_TENSOR_MAP_DATA_TYPE_##type, op, [](long i) { return (T)(before); },                       \
            [](long i) { return (T)(from); }, [](T a, T b) { return (T)(expression); });                     \
    }
REDUCE_ROW("add", ADD, UINT32, u32, i * 0x3000001u, ~i * 77, a + b)
REDUCE_ROW("min", MIN, UINT32, u32, i * 0x7000001u, i * 0x5010001u, a < b ? a : b)
REDUCE_ROW("max", MAX, UINT32, u32, i * 0x7000001u, i * 0x5010001u, a > b ? a : b)
REDUCE_ROW("inc", INC, UINT32, u32, i, 70, a >= b ? 0 : a + 1)
REDUCE_ROW("dec", DEC, UINT32, u32, i % 3 ? i : 0, 70, a == 0 || a > b ? b : a - 1)
REDUCE_ROW("and", AND, UINT32, u32, i * 0x7000001u, i * 0x5010001u, a &b)
REDUCE_ROW("or", OR, UINT32, u32, i * 0x7000001u, i * 0x5010001u, a | b)
REDUCE_ROW("xor", XOR, UINT32, u32, i * 0x7000001u, i * 0x5010001u, a ^ b)
REDUCE_ROW("min", MIN, INT32, int, (i - 70) * 9, (30 - i) * 5, a < b ? a : b)
REDUCE_ROW("max", MAX, INT32, int, (i - 70) * 9, (30 - i) * 5, a > b ? a : b)
REDUCE_ROW("add", ADD, UINT64, u64, i * 0x30000001ull, ~i * 7777777777ull, a + b)
REDUCE_ROW("add", ADD, FLOAT32, float, i * 0.37f, i * 1e-6f, a + b)
REDUCE_ROW("add", ADD, FLOAT16, __half, (float)i, 0.125f * i, __float2half((float)a + (float)b))
REDUCE_ROW("max", MAX, FLOAT16, __half, (float)i - 70, 12.0f - i, (float)a > (float)b ? a : b)

// ---- where maps lie, and who else reads them ----

__constant__ CUtensorMap map_in_constant;
__device__ CUtensorMap map_in_global;
static __global__ void from_elsewhere(int where, const CUtensorMap *pointer, const __grid_constant__ held h,
                                      int *out)
{
    __shared__ __align__(128) int cell[16];
    __shared__ u64 bar;
    begin(&bar);
    if (threadIdx.x == 0) {
        const CUtensorMap *map = where == 0   ? &map_in_constant
                                 : where == 1 ? &map_in_global
                                 : where == 2 ? pointer
                                              : &h.map;
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
        asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
        asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%0, {%1}];" ::"l"(map), "r"(4)
                     : "memory");
        expect(&bar, 64);
        load_box(map, 1, place{{where}}, shared_of(cell), &bar);
    }
    wait(&bar);
    dump(cell, out, 16);
}
ROW("maps in __constant__, __device__ and allocated memory, in a struct",
    "prefetches and fences have no record")
{
    static const int dim[] = {64}, box[] = {16};
    tensor t = tensor_of(TYPE(u32, UINT32, 4), 1, dim, box);
    conf::buffer<int> in(r, 64, [](long i) { return i * 5; });
    held h = {};
    h.map = map_of(r, t, in.d);
    conf::buffer<CUtensorMap> pointed(r, 1, [&](long) { return h.map; });
    CONF_CALL(r, cudaMemcpyToSymbol(map_in_constant, &h.map, sizeof h.map));
    CONF_CALL(r, cudaMemcpyToSymbol(map_in_global, &h.map, sizeof h.map));
    for (int where = 0; where < 4; where++) {
        conf::buffer<int> out(r, 16);
        from_elsewhere<<<1, 32>>>(where, pointed, h, out);
        out.is([=](long i) { return (i + where) * 5; });
        r.loads(1, 64);
        r.stores(16, 4);
    }
}
static __global__ void by_library(const __grid_constant__ CUtensorMap map,
                                  const __grid_constant__ CUtensorMap to)
{
    __shared__ __align__(128) int cell[4][16];
    __shared__ u64 bar;
    begin(&bar);
    const int at[] = {8, 1}, back[] = {0, 2};
    if (threadIdx.x == 0) {
        expect(&bar, sizeof cell);
        cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, cell, &map, at,
                                        &bar);
    }
    wait(&bar);
    cell[threadIdx.x / 16][threadIdx.x % 16] += 1000;
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, &to, back, cell);
        cuda::ptx::cp_reduce_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared,
                                               cuda::ptx::op_add, &to, back, cell);
        cuda::ptx::cp_async_bulk_commit_group();
        cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>());
    }
}
ROW("cuda::ptx cp_async_bulk_tensor, cp_reduce_async_bulk_tensor",
    "a box of 4 rows in, changed, out, and added once more")
{
    tensor t = tensor_of(TYPE(s32, INT32, 4), 2, dims, boxes);
    conf::buffer<int> in(r, t.bytes / 4, [](long i) { return i; }),
        out(r, t.bytes / 4, [](long) { return 1; });
    by_library<<<1, 64>>>(map_of(r, t, in.d), map_of(r, t, out.d));
    long pitch = t.stride[0] / 4;
    out.is([=](long i) {
        long x = i % pitch, y = i / pitch - 2;
        return x < 16 && y >= 0 && y < 4 ? 2 * (1000 + x + 8 + (y + 1) * pitch) : 1;
    });
    r.loads(4, 64);
    r.stores(4, 64);
    r.atomics(4, 64);
}
static __global__ void __cluster_dims__(4, 1, 1)
    multicast(const __grid_constant__ CUtensorMap map, const int *in, int *out)
{
    __shared__ __align__(128) int cell[16];
    __shared__ u64 bar;
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    begin(&bar);
    if (threadIdx.x < 16)
        cell[threadIdx.x] = -1;
    if (threadIdx.x == 0 && rank != 2)
        expect(&bar, 64);
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
    if (threadIdx.x == 0 && rank == 1 && !in)
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
                     "multicast::cluster."
                     "L2::cache_hint [%0], [%1, {%2}], [%3], %4, %5;" ::"r"(shared_of(cell)),
                     "l"(&map), "r"(4), "r"(shared_of(&bar)), "h"((short)0xb), "l"(0x1000000000000000ull)
                     : "memory");
    if (threadIdx.x == 0 && rank == 1 && in)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster."
                     "L2::cache_hint "
                     "[%0], [%1], %2, [%3], %4, %5;" ::"r"(shared_of(cell)),
                     "l"(in + 4), "r"(64), "r"(shared_of(&bar)), "h"((short)0xb), "l"(0x1000000000000000ull)
                     : "memory");
    if (rank != 2)
        wait(&bar);
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
    dump(cell, out + rank * 16, 16);
}
static void try_multicast(conf::row &r, bool tensors)
{
    static const int dim[] = {64}, box[] = {16};
    conf::buffer<int> in(r, 64, [](long i) { return i * 5; }), out(r, 64);
    multicast<<<4, 32>>>(map_of(r, tensor_of(TYPE(u32, UINT32, 4), 1, dim, box), in.d),
                         tensors ? nullptr : in.d, out);
    out.is([](long i) { return i / 16 == 2 ? -1 : (i % 16 + 4) * 5; });
    r.loads(1, 64);
    r.stores(64, 4);
}
ROW_OF("cp.async.bulk.tensor with multicast",
       "one load for three of four CTAs, each with its barrier; with a cache policy", try_multicast(r, true))
ROW_OF("cp.async.bulk with multicast", "the same", try_multicast(r, false))
#define SET(field, text, value)                                                                              \
    asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." text ", %1;" ::"r"(shared_of(&map)),  \
                 value                                                                                       \
                 : "memory")
static __global__ void replace(const __grid_constant__ CUtensorMap old, CUtensorMap *made, const int *memory,
                               int *out)
{
    __shared__ __align__(128) CUtensorMap map;
    __shared__ __align__(128) int cell[32];
    __shared__ u64 bar;
    begin(&bar);
    for (int i = threadIdx.x; i < 32; i += blockDim.x)
        ((int *)&map)[i] = ((const int *)&old)[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        SET("global_address", "b64 [%0]", "l"(memory));
        SET("rank", "b32 [%0]", "r"(1));
        SET("global_dim", "b32 [%0], 0", "r"(20));
        SET("global_dim", "b32 [%0], 1", "r"(3));
        SET("global_stride", "b64 [%0], 0", "l"(96ll));
        SET("box_dim", "b32 [%0], 0", "r"(8));
        SET("box_dim", "b32 [%0], 1", "r"(4));
        SET("element_stride", "b32 [%0], 1", "r"(1));
        SET("elemtype", "b32 [%0]", "n"(3));
        SET("swizzle_mode", "b32 [%0]", "n"(0));
        SET("fill_mode", "b32 [%0]", "n"(0));
        SET("interleave_layout", "b32 [%0]", "n"(0));
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
                 "[%0], [%1], 128;" ::"l"(made),
                 "r"(shared_of(&map))
                 : "memory");
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(made) : "memory");
        expect(&bar, 128);
        load_box(made, 2, place{{14, 1}}, shared_of(cell), &bar);
    }
    wait(&bar);
    dump(cell, out, 32);
}
ROW("tensormap.replace, tensormap.cp_fenceproxy",
    "a map of other memory, sizes, strides and type, made by the kernel")
{
    static const int dim[] = {64}, box[] = {16};
    conf::buffer<int> in(r, 72, [](long i) { return i * 5; }), out(r, 32);
    conf::buffer<CUtensorMap> made(r, 1);
    replace<<<1, 32>>>(map_of(r, tensor_of(TYPE(f32, FLOAT32, 4), 1, dim, box), in.d), made, in, out);
    out.is([](long i) { // rows 1 and 2 of three, columns 14 to 19 of 20
        long x = 14 + i % 8, y = 1 + i / 8;
        return x < 20 && y < 3 ? (y * 24 + x) * 5 : 0;
    });
    r.loads(2, 24);
    r.stores(32, 4);
    r.untraced(32); // the warp's copy of the map
}

static __global__ void aligned(int *out)
{
    extern __shared__ __align__(1024) int dynamic[];
    __shared__ int before[5];
    before[threadIdx.x] = 5;
    dynamic[threadIdx.x] = shared_of(dynamic) % 1024;
    __syncthreads();
    out[threadIdx.x] = dynamic[threadIdx.x ^ 1] + before[threadIdx.x];
}
ROW("extern __shared__ aligned to 1024",
    "as boxes with a swizzle of 128 bytes want it, behind static variables")
{
    conf::buffer<int> out(r, 4);
    aligned<<<1, 4, 4096>>>(out);
    out.is([](long) { return 5; });
    r.stores(4, 4);
}

// ---- what is refused ----

ROW("cuTensorMapEncodeTiled", "arguments out of what is documented: CUDA_ERROR_INVALID_VALUE")
{
    encode *f = encoder(r);
    conf::buffer<int> memory(r, 4096);
    alignas(64) char room[256];
    static const int dim[] = {64, 16}, box[] = {16, 4};
    const tensor good = tensor_of(TYPE(f32, FLOAT32, 4), 2, dim, box);
    auto ask = [&](tensor t, int map_at = 0, long address = 0, int promotion = 0) {
        return (int)f((CUtensorMap *)(room + map_at), (CUtensorMapDataType)t.type, t.rank,
                      (char *)memory.d + address, t.dim, t.stride, t.box, t.step,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)t.swizzle,
                      (CUtensorMapL2promotion)promotion, (CUtensorMapFloatOOBfill)t.fill);
    };
    r.same(0, ask(good), CUDA_SUCCESS);
    r.same(1, ask(good, 32), CUDA_ERROR_INVALID_VALUE);
    r.same(2, ask(good, 0, 8), CUDA_ERROR_INVALID_VALUE);
    r.same(3, ask(good, 0, 0, 4), CUDA_ERROR_INVALID_VALUE);
#define BAD(number, ...)                                                                                     \
    {                                                                                                        \
        tensor t = good;                                                                                     \
        __VA_ARGS__;                                                                                         \
        r.same(number, ask(t), CUDA_ERROR_INVALID_VALUE);                                                    \
    }
    BAD(4, t.rank = 0)
    BAD(5, t.rank = 6)
    BAD(6, t.dim[1] = 0)
    BAD(7, t.dim[1] = (1ull << 32) + 1)
    BAD(8, t.stride[0] = 264)
    BAD(9, t.stride[0] = 1ull << 40)
    BAD(10, t.box[1] = 0)
    BAD(11, t.box[1] = 257)
    BAD(12, t.box[0] = 3)
    BAD(13, t.step[1] = 0)
    BAD(14, t.step[1] = 9)
    BAD(15, t.swizzle = 1) // rows of 64 bytes
    BAD(16, t.type = CU_TENSOR_MAP_DATA_TYPE_INT32, t.fill = 1)
    BAD(17, t.type = 99)
    BAD(18, t.swizzle = 99)
    BAD(19, t.fill = 2)
}
ROW_ALONE("a box that shared memory has no room for", "an illegal address")
{
    static const int dim[] = {256, 256, 4}, box[] = {256, 256, 4};
    tensor t = tensor_of(TYPE(f32, FLOAT32, 4), 3, dim, box);
    conf::buffer<char> in(r, t.bytes);
    conf::buffer<int> out(r, 16);
    load<<<1, 64>>>(map_of(r, t, in.d), 3, place{}, 16, out, 16);
    cudaError_t e = cudaDeviceSynchronize();
    r.check(e != cudaSuccess, "the launch ends with %s", cudaGetErrorName(e));
    r.launch_fails();
}
CONF_MAIN
