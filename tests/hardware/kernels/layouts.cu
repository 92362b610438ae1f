// Arrays of structs of many sizes, structs of arrays, packed and aligned ones, bit fields, unions.
#include <stdint.h>

struct Point3 {
    float x, y, z; // 12 bytes
};
struct Body16 {
    float x, y, z;
    int kind;
};
struct alignas(16) Aligned16 {
    float x, y, z, w;
};
struct Record20 {
    int key;
    float values[4];
};
struct Record24 {
    double mass;
    int cell[4];
};
struct Record48 {
    double at[3];
    float velocity[3];
    short charge, flags;
    int64_t id;
};
struct __attribute__((packed)) Packed7 {
    uint8_t tag;
    uint16_t count;
    uint32_t value;
};
struct Mixed {
    char c;
    short s;
    int i;
    long long l;
    float f;
    double d;
};
struct Fields {
    unsigned low : 4, middle : 12, byte : 8, high : 8;
    int sign : 5, rest : 27;
};
struct Wide {
    unsigned long long a : 20, b : 24, c : 20;
};
union Word {
    unsigned u;
    float f;
    uint8_t bytes[4];
    struct {
        uint16_t low, high;
    } halves;
};
struct Triple {
    unsigned char r, g, b;
};
struct Nested {
    Point3 from, to;
    Triple colour;
    bool on;
};

template <typename T> __global__ void copy(const T *in, T *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
template __global__ void copy<Point3>(const Point3 *, Point3 *);
template __global__ void copy<Body16>(const Body16 *, Body16 *);
template __global__ void copy<Aligned16>(const Aligned16 *, Aligned16 *);
template __global__ void copy<Record20>(const Record20 *, Record20 *);
template __global__ void copy<Record24>(const Record24 *, Record24 *);
template __global__ void copy<Record48>(const Record48 *, Record48 *);
template __global__ void copy<Packed7>(const Packed7 *, Packed7 *);
template __global__ void copy<Mixed>(const Mixed *, Mixed *);
template __global__ void copy<Fields>(const Fields *, Fields *);
template __global__ void copy<Triple>(const Triple *, Triple *);
template __global__ void copy<Nested>(const Nested *, Nested *);

template <typename T> __global__ void swap_neighbours(T *data)
{
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    T a = data[i], b = data[i + 1];
    data[i] = b;
    data[i + 1] = a;
}
template __global__ void swap_neighbours<Point3>(Point3 *);
template __global__ void swap_neighbours<Record20>(Record20 *);
template __global__ void swap_neighbours<Record24>(Record24 *);
template __global__ void swap_neighbours<Triple>(Triple *);

__global__ void length_aos(const Point3 *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Point3 p = in[i];
    out[i] = sqrtf(p.x * p.x + p.y * p.y + p.z * p.z);
}

__global__ void length_soa(const float *x, const float *y, const float *z, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = sqrtf(x[i] * x[i] + y[i] * y[i] + z[i] * z[i]);
}

__global__ void length_float3(const float3 *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = sqrtf(in[i].x * in[i].x + in[i].y * in[i].y + in[i].z * in[i].z);
}

__global__ void advance(Record48 *bodies, double step, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    for (int k = 0; k < 3; k++) {
        bodies[i].at[k] += step * bodies[i].velocity[k];
        bodies[i].velocity[k] *= 0.999f;
    }
    bodies[i].flags |= 1;
    bodies[i].charge--;
}

__global__ void bump(Mixed *m)
{
    Mixed *p = m + blockIdx.x * blockDim.x + threadIdx.x;
    p->c++;
    p->s += p->c;
    p->i -= p->s;
    p->l *= p->i;
    p->f += 0.5f;
    p->d = p->f * p->d + p->l;
}

__global__ void packed_sum(const Packed7 *in, unsigned *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i].tag + in[i].count + in[i].value;
}

__global__ void packed_write(Packed7 *out, unsigned v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i].tag = v;
    out[i].count = v >> 8;
    out[i].value = v * i;
}

__global__ void fields_read(const Fields *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i].low + in[i].middle * in[i].byte + in[i].high + in[i].sign - in[i].rest;
}

__global__ void fields_byte(const Fields *in, unsigned *out)
{
    out[threadIdx.x] = in[threadIdx.x].byte;
}

__global__ void fields_write(Fields *out, int v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i].low = v;
    out[i].middle = v >> 4;
    out[i].sign = -v;
}

__global__ void fields_high(Fields *out, int v)
{
    out[threadIdx.x].high = v;
}

__global__ void wide_fields(Wide *w, unsigned *out)
{
    int i = threadIdx.x;
    out[i] = w[i].a + w[i].b;
    w[i].c = i;
}

__global__ void union_parts(const Word *in, Word *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Word w = in[i];
    w.halves.low ^= w.halves.high;
    w.bytes[3] = 7;
    out[i] = w;
}

__global__ void union_byte(const Word *in, unsigned char *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i].bytes[2] + in[i].bytes[0];
}

__global__ void union_float(Word *w)
{
    w[threadIdx.x].f = w[threadIdx.x].u * 2.0f;
}

__global__ void grey(const Triple *in, unsigned char *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = (in[i].r * 77 + in[i].g * 150 + in[i].b * 29) >> 8;
}

__global__ void recolour(Nested *n, Triple t)
{
    Nested &m = n[blockIdx.x * blockDim.x + threadIdx.x];
    if (m.on) {
        m.colour = t;
        m.to = m.from;
    }
    m.on = !m.on;
}

struct Tree {
    int left, right;
    float split;
    short axis;
    bool leaf;
};

__global__ void descend(const Tree *tree, const float *points, int *leaves)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, node = 0;
    while (!tree[node].leaf)
        node = points[3 * i + tree[node].axis] < tree[node].split ? tree[node].left : tree[node].right;
    leaves[i] = node;
}

struct Columns {
    float *x, *y;
    const int *index;
    int n;
};

__global__ void columns(Columns c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < c.n)
        c.y[c.index[i]] = c.x[i] + 1;
}

__global__ void columns_by_pointer(const Columns *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < c->n)
        c->y[c->index[i]] = c->x[i] + 1;
}

struct Big {
    float m[4][4];
};

__global__ void multiply_4x4(const Big *a, const Big *b, Big *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Big r = {};
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++)
            for (int k = 0; k < 4; k++)
                r.m[y][x] += a[i].m[y][k] * b[i].m[k][x];
    c[i] = r;
}

__global__ void tiles_of_structs(const Record20 *in, Record20 *out)
{
    __shared__ Record20 tile[64];
    tile[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}

// Structs by value: the call reads them, once where it gets the same one twice.
struct Contract {
    int day[4];
    float rate[3];
};

static __device__ __noinline__ float worth(Contract c, Contract d, int n)
{
    float v = 0;
    for (int i = 0; i < 4; i++)
        v += (c.day[i & n] - d.day[i]) * c.rate[i % 3 & n];
    return v + d.rate[n & 1];
}

__global__ void contract_against_itself(const Contract *c, float *out)
{
    int i = threadIdx.x;
    out[i] = worth(c[i], c[i], 3) + c[i].day[2];
}

__global__ void contract_against_the_next(const Contract *c, float *out)
{
    int i = threadIdx.x;
    out[i] = worth(c[i], c[i + 1], c[i].day[0] + c[i].day[1]);
}

// A table on the stack, read by an index from below it.
__global__ void month_lengths(const int *month, int *out, int leap)
{
    int plain[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31},
        more[12] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    out[threadIdx.x] = (leap ? more : plain)[month[threadIdx.x] - 1];
}
