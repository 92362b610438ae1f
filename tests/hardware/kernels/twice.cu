// What a kernel asks for twice or in vain: values whose upper bits nobody looks at, a struct that is copied
// and copied again, stores over stores, fields that stay as they are.
#include <stdint.h>

// ---- lower parts, looked at in another block than the load's
__global__ void count_behind_loop(uint64_t *table, unsigned n)
{
    unsigned first = (unsigned)table[1];
    for (unsigned i = 0; i < n; i++)
        table[2 + 3 * i] = i;
    table[0] = first;
}
__global__ void tag_in_branches(uint32_t *words, const uint32_t *tags, int n)
{
    uint32_t tag = tags[threadIdx.x];
    if (n > 3)
        words[threadIdx.x] = tag & 0xff;
    else
        words[threadIdx.x + 32] = 7 * (tag & 0xff);
}
__global__ void tag_wider_in_one(uint32_t *words, const uint32_t *tags, int n)
{
    uint32_t tag = tags[threadIdx.x];
    if (n > 3)
        words[threadIdx.x] = tag & 0xff;
    else
        words[threadIdx.x + 32] = 7 * (tag & 0xffff);
}
__global__ void whole_in_one(uint64_t *words, const uint64_t *tags, int n)
{
    uint64_t tag = tags[threadIdx.x];
    if (n > 3)
        words[threadIdx.x] = tag & 0xffff;
    else
        words[threadIdx.x + 32] = 7 * tag;
}

// ---- copies of copies
struct Quad {
    long long m[4];
};
__global__ void copy_of_copy(Quad *p)
{
    p[2] = p[1];
    p[3].m[3] = 7;
    p[0] = p[2];
}
__global__ void copy_then_look(Quad *p, const Quad *q, long long *sum)
{
    p[threadIdx.x] = q[threadIdx.x];
    sum[0] = p[threadIdx.x].m[1] + p[threadIdx.x].m[2];
}
__global__ void copy_around_other(Quad *p, const Quad *q, long long *other)
{
    p[1] = q[0];
    other[threadIdx.x] = 5; // may be any of both
    p[2] = q[0];
}
__global__ void change_one(Quad *p, const Quad *q)
{
    p[threadIdx.x] = q[threadIdx.x + 1];
    p[threadIdx.x].m[2] += 3;
}

// ---- stores over stores
__global__ void copy_then_bytes(uchar4 *p, const ushort4 *q)
{
    memcpy(p, q, 8);
    p[0].x += 5;
}
__global__ void fill_then_set(Quad *p)
{
    memset(&p[threadIdx.x], 0, sizeof *p);
    p[threadIdx.x].m[0] = threadIdx.x;
}
__global__ void fill_then_read(Quad *p, const Quad *q)
{
    memset(&p[threadIdx.x], 0, sizeof *p);
    p[threadIdx.x].m[0] = q[threadIdx.x].m[0]; // of memory that the fill may have changed
}

// ---- structs of words whose alignment says 16 bytes
struct alignas(16) Wide {
    long long x[4];
};
struct alignas(16) Mixed {
    float a;
    int b;
    float c[6];
};
__global__ void copy_wide(Wide *p, const Wide *q)
{
    p[threadIdx.x] = q[threadIdx.x + 1];
}
__global__ void copy_mixed(Mixed *p, const Mixed *q)
{
    p[threadIdx.x] = q[threadIdx.x + 1];
}

// ---- both operands cut down before they meet
struct Wrapped {
    long long x;
};
__global__ void cut_both(unsigned *o, const Wrapped *p)
{
    o[0] = (unsigned)p[3].x ^ (unsigned)p[7].x;
}
__global__ void cut_one(unsigned *o, const Wrapped *p, unsigned n)
{
    o[0] = (unsigned)p[3].x & n;
}

// ---- the same struct on both sides
struct Large {
    short a[7];
    double d;
    float f[12];
};
__global__ void copy_to_itself(Large *p)
{
    p[threadIdx.x] = p[threadIdx.x];
}
