// What C++ makes of accesses: functions that stay calls, recursion, virtual functions,
// lambdas, templates, references.
#include <stddef.h>

__device__ __noinline__ float at(const float *p, int i)
{
    return p[i];
}
__device__ __noinline__ void put(float *p, int i, float v)
{
    p[i] = v;
}
__device__ __noinline__ void swap(float &a, float &b)
{
    float t = a;
    a = b;
    b = t;
}
__device__ __noinline__ float4 scaled(float4 v, float s)
{
    return make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
}

__global__ void by_functions(float *p)
{
    int i = threadIdx.x;
    put(p, i, at(p, i + 1) * 2 + at(p, i + 2));
    swap(p[2 * i + 64], p[2 * i + 65]);
}

__global__ void by_value(float4 *p)
{
    p[threadIdx.x] = scaled(p[threadIdx.x], 0.5f);
}

__device__ __noinline__ long depth(const int *tree, int node)
{
    if (tree[node] < 0)
        return 0;
    long left = depth(tree, 2 * node + 1), right = depth(tree, 2 * node + 2);
    return 1 + (left > right ? left : right);
}

__global__ void by_recursion(const int *tree, long *out)
{
    out[threadIdx.x] = depth(tree, threadIdx.x);
}

__device__ unsigned ackermann(unsigned m, unsigned n, unsigned *calls)
{
    ++*calls;
    return m == 0   ? n + 1
           : n == 0 ? ackermann(m - 1, 1, calls)
                    : ackermann(m - 1, ackermann(m, n - 1, calls), calls);
}

__global__ void by_double_recursion(unsigned *out)
{
    out[threadIdx.x + 32] = ackermann(2, threadIdx.x, out + threadIdx.x);
}

struct Shape {
    __device__ virtual float area() const
    {
        return 0;
    }
    __device__ virtual void grow(float)
    {
    }
};
struct Circle : Shape {
    float radius;
    __device__ explicit Circle(float r) : radius(r)
    {
    }
    __device__ float area() const override
    {
        return 3.14159f * radius * radius;
    }
    __device__ void grow(float s) override
    {
        radius *= s;
    }
};
struct Box : Shape {
    float w, h;
    __device__ Box(float a, float b) : w(a), h(b)
    {
    }
    __device__ float area() const override
    {
        return w * h;
    }
    __device__ void grow(float s) override
    {
        w *= s;
        h *= s;
    }
};

__global__ void make_shapes(Shape **shapes)
{
    int i = threadIdx.x;
    shapes[i] = i % 2 ? (Shape *)new Circle(i) : (Shape *)new Box(i, 2);
}

__global__ void by_virtual(Shape *const *shapes, float *out)
{
    int i = threadIdx.x;
    shapes[i]->grow(1.5f);
    out[i] = shapes[i]->area();
}

typedef float (*operation)(const float *, int);
__device__ float first_of(const float *p, int i)
{
    return p[i];
}
__device__ float sum_of(const float *p, int i)
{
    return p[i] + p[i + 1];
}
__device__ operation operations[2] = {first_of, sum_of};

__global__ void by_pointer(const float *in, float *out)
{
    out[threadIdx.x] = operations[threadIdx.x % 2](in, threadIdx.x);
}

template <typename F> __global__ void for_each(F f, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        f(i);
}

template <typename T> struct Axpy {
    T a;
    const T *x;
    T *y;
    __device__ void operator()(int i) const
    {
        y[i] = a * x[i] + y[i];
    }
};
template __global__ void for_each<Axpy<float>>(Axpy<float>, int);
template __global__ void for_each<Axpy<double>>(Axpy<double>, int);
template __global__ void for_each<Axpy<int>>(Axpy<int>, int);

__global__ void by_lambda(float *p, const float *q, float s)
{
    auto mix = [=](int i) { return p[i] * s + q[i]; };
    auto store = [&](int i, float v) { p[i] = v; };
    store(threadIdx.x, mix(threadIdx.x) - mix(threadIdx.x + 1));
}

template <typename T, int N> struct Array {
    T items[N];
    __device__ T &operator[](size_t i)
    {
        return items[i];
    }
    __device__ const T &operator[](size_t i) const
    {
        return items[i];
    }
    __device__ T *begin()
    {
        return items;
    }
    __device__ T *end()
    {
        return items + N;
    }
};

__global__ void by_range(Array<int, 6> *arrays, int v)
{
    for (int &item : arrays[threadIdx.x])
        item += v;
}

__global__ void by_argument(Array<float, 12> a, float *out)
{
    out[threadIdx.x] = a[threadIdx.x % 12] * a[3];
}

template <typename T> struct View {
    T *data;
    int rows, columns;
    __device__ T &operator()(int r, int c) const
    {
        return data[r * columns + c];
    }
};

template <typename T> __global__ void by_view(View<const T> a, View<T> b)
{
    int r = blockIdx.x, c = threadIdx.x;
    if (r < a.rows && c < a.columns)
        b(c, r) = a(r, c) * a(r, 0);
}
template __global__ void by_view<float>(View<const float>, View<float>);
template __global__ void by_view<short>(View<const short>, View<short>);
template __global__ void by_view<double>(View<const double>, View<double>);

template <typename... T> __device__ float sum_all(int i, const T *...p)
{
    return (0.0f + ... + (float)p[i]);
}

__global__ void by_pack(const float *a, const double *b, const short *c, const unsigned char *d, float *out)
{
    out[threadIdx.x] = sum_all(threadIdx.x, a, b, c, d);
}

template <int K> __device__ int step(const int *p)
{
    if constexpr (K == 0)
        return *p;
    else
        return step<K - 1>(p + 1) + *p;
}

__global__ void by_static_recursion(const int *p, int *out)
{
    out[threadIdx.x] = step<5>(p + threadIdx.x);
}

__global__ void by_switch(const int *code, float *a, const float *b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    switch (code[i]) {
    case 0:
        a[i] = b[i];
        break;
    case 1:
        a[i] += b[i]; // falls through
    case 2:
        a[i] *= b[i];
        break;
    case 3:
        a[i] = -a[i];
        break;
    case 4:
        a[i + 1] = b[i + 1];
        break;
    default:
        a[i] = 0;
    }
}

__global__ void by_goto(int *p, int n)
{
    int i = 0;
again:
    if (p[i] > 0) {
        p[i]--;
        if (++i < n)
            goto again;
    }
}

__global__ void by_comma(int *p, int *q)
{
    int i = threadIdx.x, v;
    q[i] = (v = p[i], v++, p[i + 1] = v, v > 3 ? p[i + 2] : q[i + 1]);
    *q++ = *++p + 1;
}

struct Matrix {
    float *data;
    size_t stride;
    __device__ float *row(int r) const
    {
        return (float *)((char *)data + r * stride);
    }
};

__global__ void by_pitch(Matrix a, const Matrix *b)
{
    a.row(blockIdx.x)[threadIdx.x] += b->row(blockIdx.x)[threadIdx.x];
}

class Generator
{
    unsigned long long state;

  public:
    __device__ unsigned next()
    {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return state >> 33;
    }
};

__global__ void by_member(Generator *g, unsigned *out)
{
    Generator mine = g[threadIdx.x];
    out[threadIdx.x] = mine.next() + mine.next();
    g[threadIdx.x] = mine;
    out[threadIdx.x + 32] = g[threadIdx.x + 32].next();
}

__global__ void unused_loads(const int *p, int *q)
{
    int a = p[threadIdx.x];
    (void)p[threadIdx.x + 1];
    (void)a;
    *q = 1;
}

__global__ void repeated(const int *p, int *q)
{
    int i = threadIdx.x;
    q[i] = p[i] * p[i] + p[i];
    q[i] = q[i];
    q[i] = p[i] - q[i];
}
