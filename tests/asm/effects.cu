// Inline assembly without `volatile` and without a "memory" clobber. What must be left of each kernel in PTX
// is in corpus.py (EFFECTS).
static __device__ int fetch_add(int *p, int v)
{
    int old;
    asm("atom.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v));
    return old;
}
static __device__ int load(const int *p)
{
    int v;
    asm("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
static __device__ int load_nc(const int *p)
{
    int v;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
static __device__ int load_strong(const int *p)
{
    int v;
    asm("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

__global__ void unused_atomics(int *p)
{
    int old;
    fetch_add(p, 1);
    asm("{ .reg .u32 t; red.add.u32 [%1], 2; mov.u32 t, 1; mov.u32 %0, t; }" : "=r"(old) : "l"(p));
    asm("atom.global.cas.b32 %0, [%1], 5, 6;" : "=r"(old) : "l"(p));
}
// Not one, whose result is stored twice.
__global__ void two_atomics(int *p, int *out)
{
    out[0] = fetch_add(p, 1);
    out[1] = fetch_add(p, 1);
}
// clang's headers have these as asm.
__global__ void unused_float2(float2 *p)
{
    atomicAdd(p, make_float2(1, 2));
}
__global__ void unused_float4(float4 *p)
{
    atomicAdd(p, make_float4(1, 2, 3, 4));
}
__global__ void unused_store(int *p)
{
    int done;
    asm("st.global.u32 [%1], 7; mov.u32 %0, 1;" : "=r"(done) : "l"(p));
}
// The second load may see what was stored, whoever did it.
__global__ void around_store(int *p, int *out)
{
    int before = load(p);
    out[0] = 7;
    int after = load(p);
    out[1] = before;
    out[2] = after;
}
__global__ void around_barrier(int *p, int *out)
{
    int before = load(p);
    __syncthreads();
    int after = load(p);
    out[1] = before;
    out[2] = after;
}
__global__ void around_atomic(int *p, int *q, int *out)
{
    int before = load(p);
    atomicAdd(q, 1);
    int after = load(p);
    out[1] = before;
    out[2] = after;
}
// What is never written while the kernel runs need not be read twice.
__global__ void read_only(int *p, int *out)
{
    int before = load_nc(p);
    out[0] = 7;
    int after = load_nc(p);
    out[1] = before;
    out[2] = after;
}
__global__ void strong(int *p, int *out)
{
    int before = load_strong(p);
    int after = load_strong(p);
    out[1] = before;
    out[2] = after;
}
// Nobody misses these: no load, and no record.
__global__ void unused_loads(int *p, int *out)
{
    load(p);
    load_nc(p + 1);
    out[0] = 1;
}
__global__ void shared_atomic(int *p)
{
    __shared__ int word;
    int old;
    unsigned at = (unsigned)__cvta_generic_to_shared(&word);
    asm("atom.shared.add.u32 %0, [%1], 1;" : "=r"(old) : "r"(at));
}
