// Allocations, each with the name that it gets behind it: what holds it when the outermost call returns that
// made it.
#include <memtrace/annotate.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_) {                                                                                            \
            printf("%s\n", cudaGetErrorString(e_));                                                          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

struct Free {
    void operator()(void *p) const
    {
        cudaFree(p);
    }
};

struct Pair {
    int n;
    float *col, *row[3];
};

template <class T> struct Buffer {
    T *data_;
    explicit Buffer(size_t n)
    {
        CHECK(cudaMalloc(&data_, n * sizeof(T)));
    }
    ~Buffer()
    {
        cudaFree(data_);
    }
};

template <class T> struct Vector { // like thrust::device_vector: the class's own words are no names
    struct Storage {
        void *p = nullptr;
        void grow(size_t n)
        {
            void *q;
            cudaMalloc(&q, n);
            cudaFree(p);
            p = q;
        }
    } storage;
    explicit Vector(size_t n)
    {
        storage.grow(n * sizeof(T));
    }
    Vector(const Vector &) = delete;
    Vector &operator=(Vector &&other)
    {
        cudaFree(storage.p);
        storage.p = other.storage.p;
        other.storage.p = nullptr;
        return *this;
    }
    ~Vector()
    {
        cudaFree(storage.p);
    }
};

struct Solver {
    float *field;
    Pair inner;
    void start(size_t n)
    {
        CHECK(cudaMalloc(&field, n));
        CHECK(cudaMalloc(&this->inner.col, n));
    }
};

template <class T> T *make(size_t n)
{
    T *p;
    CHECK(cudaMalloc(&p, n * sizeof *p));
    return p;
}
static void fill(float **out, size_t n)
{
    CHECK(cudaMalloc((void **)out, n));
}
static void by_reference(float *&out, size_t n)
{
    CHECK(cudaMalloc(&out, n));
}
static float *same(float *p) // allocates nothing: no name
{
    return p;
}
static void start(Pair *pair)
{
    CHECK(cudaMalloc(&pair->col, 64));
    CHECK(cudaMalloc(&pair->row[1], 64));
}

namespace space
{
float *global, *second;
}
static float *two[2][2];
__device__ int counter[4];
__device__ int total;

__global__ void touch(float *a)
{
    a[threadIdx.x] += 1;
    counter[threadIdx.x % 4] += 1;
    total = 1;
}

int main(int argc, char **)
{
    float *dcol, *pinned, *host, *managed, *async, *pitched;
    CHECK(cudaMalloc(&dcol, 256));                // dcol
    CHECK(cudaMallocHost((void **)&pinned, 256)); // pinned
    CHECK(cudaHostAlloc((void **)&host, 256, 0)); // host
    CHECK(cudaMallocManaged(&managed, 256));      // managed
    CHECK(cudaMallocAsync(&async, 256, 0));       // async
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, 64, 4)); // pitched
    cudaPitchedPtr volume;
    CHECK(cudaMalloc3D(&volume, make_cudaExtent(64, 4, 4))); // volume
    cudaArray_t image;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&image, &format, 16, 16)); // image
    Pair s;
    CHECK(cudaMalloc(&s.col, 64));    // s.col
    CHECK(cudaMalloc(&s.row[2], 64)); // s.row[2]
    Pair grid, *heap = new Pair, many[2];
    start(&grid);                         // grid.col grid.row[1]
    start(heap);                          // heap->col heap->row[1]
    start(&many[argc]);                   // many[1].col many[1].row[1]
    CHECK(cudaMalloc(&heap->row[0], 64)); // heap->row[0]
    Solver solver;
    solver.start(128); // solver.field solver.inner.col
    float *bufs[3];
    for (int i = 0; i < 3; i++)
        CHECK(cudaMalloc(&bufs[i], 64));  // bufs[0] bufs[1] bufs[2]
    CHECK(cudaMalloc(bufs + 1, 64));      // bufs[1]
    CHECK(cudaMalloc(&bufs[1] + 1, 64));  // bufs[2]
    CHECK(cudaMalloc(bufs + argc, 64));   // bufs[1]
    CHECK(cudaMalloc(two[1] + argc, 64)); // two[1][1]
    for (int i = 0; i < 2; i++)
        CHECK(cudaMalloc(&two[1][i], 64)); // two[1][0] two[1][1]
    std::vector<float *> list(2);
    CHECK(cudaMalloc(&list[argc], 64)); // list[1]
    float *x = make<float>(64);         // x
    double *y;
    y = make<double>(64); // y
    float *z, *w, *alias = same(x);
    fill(&z, 64);                          // z
    by_reference(w, 64);                   // w
    Buffer<float> object(64);              // object.data_
    auto *fresh = new Buffer<int>(4);      // fresh->data_
    Vector<float> v(100), u(10);           // v.storage u.storage
    u = Vector<float>(20);                 // u.storage
    v.storage.grow(300);                   // v.storage
    CHECK(cudaMalloc(&space::global, 64)); // space::global
    for (int i = 1; i < 3; i++)
        [&] { CHECK(cudaMalloc(&grid.row[i], 64)); }();     // grid.row[1] grid.row[2]
    std::unique_ptr<float, Free> owner(make<float>(64));    // owner
    std::shared_ptr<float> shared(make<float>(64), Free()); // shared
    float *one, *other, *third;
    for (float **each : {&one, &other})
        CHECK(cudaMalloc(each, 64)); // one other
    for (float **each : {&space::second, &space::global})
        fill(each, 64); // space::second space::global
    struct {
        float **to;
        size_t n;
    } jobs[] = {{&third, 64}, {&space::second, 128}, {&s.col, 64}};
    for (auto &job : jobs)
        CHECK(cudaMalloc((void **)job.to, job.n)); // third space::second *job.to
    float **to = argc ? &other : &one;
    fill(to, 64); // other
    float *captured;
    [&] { CHECK(cudaMalloc(&captured, 64)); }(); // captured
    void *plain = nullptr;
    if (cudaError_t e = cudaMalloc(&plain, 64)) // plain
        return e;
    float *pool;
    CHECK(cudaMalloc(&pool, 4096)); // called <b>"so"</b>\x0a\x1b\x1b[1m
    MEMTRACE_NAME(pool + 8, "called <b>\"so\"</b>\n\x1b\x1b[1m");
    MEMTRACE_NAME(&argc, "nothing of ours");
    MEMTRACE_NAME(x, "");
    touch<<<1, 32>>>(dcol);
    touch<<<1, 16>>>(alias);
    touch<<<1, 16>>>(pool);
    CHECK(cudaDeviceSynchronize());
    delete fresh;
    puts("done");
}
