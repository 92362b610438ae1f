// Which variable an access is based on: each line with an access says so; "-" stands for none. `may be`: it
// depends on what was inlined.
#include <cstdio>
#include <cuda_runtime.h>

struct V {
    float x, y, z;
};
struct Heavy { // returned through memory: the function's first parameter is the caller's
    float f[12];
    __device__ Heavy()
    {
    }
    __device__ Heavy(const Heavy &o)
    {
        for (int i = 0; i < 12; i++)
            f[i] = o.f[i];
    }
};

struct Matrix {
    float *data;
    int n;
    float bias;
    __device__ __noinline__ Matrix(float *from, V, int count)
    {
        data = from; // local
        n = count;
        bias = 0;
        from[threadIdx.x] = 1; // is: from
    }
    __device__ __noinline__ float at(V v, const float *other, int i) const
    {
        float s = v.x;
        s += bias;     // is: this
        s += other[i]; // is: other
        s += data[i];  // is: this data
        return s;
    }
    __device__ __noinline__ static float sum(V v, const float *left, const float *right)
    {
        float s = left[threadIdx.x]; // is: left
        s += right[threadIdx.x];     // is: right
        return s + v.y;
    }
    __device__ __noinline__ Heavy heavy(V v, const float *weights, int unused, float *result) const
    {
        Heavy h;
        h.f[3] = weights[threadIdx.x]; // may be: weights h.f -
        h.f[4] = v.z + data[1];        // may be: data this h.f -
        result[threadIdx.x] = h.f[3];  // may be: result h.f -
        return h;
    }
    // The optimiser drops the second parameter: the others keep their names.
    template <class T>
    __device__ __noinline__ void scale(V unused, T factor, float *to, const float *by) const
    {
        to[threadIdx.x] =                        // is: to
            by[threadIdx.x]                      // is: by
            * (float)factor * data[threadIdx.x]; // is: data this
    }
};
__device__ __noinline__ static float dropped(int unused, V v, const float *first, double never,
                                             const float *second)
{
    float s = first[threadIdx.x];   // is: first
    return s + second[threadIdx.x]; // is: second
}

struct Base {
    __device__ virtual float f(const float *shared, float *out) const = 0;
    __device__ virtual ~Base()
    {
    }
};
struct Root {
    float r;
};
struct Left : virtual Root {
    float l;
    float *kept;
    __device__ __noinline__ Left(float *p, const float *q) : kept(p)
    {
        p[threadIdx.x] =    // may be: p
            q[threadIdx.x]; // may be: q
    }
};
struct Scaled : Base {
    float k;
    __device__ Scaled(float by) : k(by)
    {
    }
    __device__ float f(const float *shared, float *out) const override
    {
        float s = k;              // is: this
        s *= shared[threadIdx.x]; // is: shared
        out[threadIdx.x] = s;     // is: out
        return s;
    }
};
struct Axpy {
    float *y;
    float a;
    __device__ void operator()(const float *x, int i) const
    {
        y[i] =    // may be: y this f
            x[i]; // may be: x in
    }
};
template <class F> __global__ void run(F f, const float *in)
{
    f(in, threadIdx.x);
}
__global__ void members(Matrix *m, const float *in, float *out)
{
    V v = {1, 2, 3};
    int i = threadIdx.x;
    float s = m->at(v, in, i);
    s += Matrix::sum(v, in, out);
    s += m->heavy(v, in, 7, out).f[3];
    s += dropped(i, v, in, 2.0, out);
    m->scale(v, (double)s, out, in);
    out[i] = s; // is: out
}
__global__ void construct(float *out, const float *in)
{
    Matrix m(out, V{1, 2, 3}, 5);
    Left l(out, in);
    in += 2;
    out[threadIdx.x] = m.n +            // is: out
                       in[threadIdx.x]; // is: in
}
__global__ void make(Base **where)
{
    *where = new Scaled(3); // is: where
}
__global__ void use(Base **where, const float *in, float *out)
{
    (*where)->f(in, out); // may be: where -
}
__global__ void walk(const float *left, const float *right, float *out, int n)
{
    const float *p = n & 1 ? left : right;
    float s = 0;
    for (int i = 0; i < 8; i++)
        s += *p++; // is: p
    const float *q = left;
    for (int i = 0; i < n; i++, q += 2)
        s += *q;          // is: left
    out[threadIdx.x] = s; // is: out
}

int main()
{
    float *in, *out;
    struct {
        float *data;
        int n;
        float bias;
    } h = {nullptr, 32, 0};
    Matrix *m;
    Base **b;
    cudaMalloc(&in, 4096);
    cudaMalloc(&out, 4096);
    cudaMalloc(&m, sizeof h);
    cudaMalloc(&b, sizeof *b);
    cudaMemset(in, 0, 4096);
    cudaMemset(out, 0, 4096);
    h.data = in;
    cudaMemcpy(m, &h, sizeof h, cudaMemcpyHostToDevice);
    members<<<1, 32>>>(m, in, out);
    construct<<<1, 32>>>(out, in);
    make<<<1, 1>>>(b);
    use<<<1, 32>>>(b, in, out);
    walk<<<1, 32>>>(in, out, out + 64, 8);
    run<<<1, 32>>>(Axpy{out, 2}, in);
    auto lambda = [=] __device__(const float *q, int i) {
        out[i] =  // may be: out f
            q[i]; // may be: q in
    };
    run<<<1, 32>>>(lambda, in);
    printf("%d\n", cudaDeviceSynchronize());
}
