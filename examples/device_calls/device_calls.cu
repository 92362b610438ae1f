// Accesses in called functions: helper functions, recursion, function pointers and virtual functions.
// Usage: device_calls [CTAs] [threads per CTA]
#include "../common/example.h"
#include <new>
#include <vector>

constexpr int SEGMENT = 8; // elements that one thread sums by recursion

__device__ __noinline__ int fetch(const int *a, int i)
{
    return a[i];
}

__device__ __noinline__ void put(int *a, int i, int value)
{
    a[i] = value;
}

__global__ void through_helpers(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    put(out, i, fetch(in, i) + 1);
}

// Halves [low, high) until one element is left.
__device__ __noinline__ int sum_range(const int *a, int low, int high)
{
    if (high - low == 1)
        return a[low];
    int middle = (low + high) / 2;
    return sum_range(a, low, middle) + sum_range(a, middle, high);
}

__global__ void through_recursion(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = sum_range(in, i * SEGMENT, (i + 1) * SEGMENT);
}

__device__ int one_element(const int *a, int i)
{
    return a[i];
}

__device__ int two_elements(const int *a, int i)
{
    return a[i] - a[i + 1];
}

__device__ int no_element(const int *, int i)
{
    return i;
}

typedef int (*operation)(const int *, int);
__device__ operation operations[3] = {one_element, two_elements, no_element};

// Reads a pointer from the table (global memory too) and calls it.
__global__ void through_pointers(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = operations[i % 3](in, i);
}

struct Shape {
    __device__ virtual int
    area() const // not pure: clang's -O0 code for that asks for a function that no device has
    {
        return 0;
    }
};

struct Square : Shape {
    int side;
    __device__ explicit Square(int s) : side(s)
    {
    }
    __device__ int area() const override
    {
        int s = side; // -O0 would load it twice
        return s * s;
    }
};

struct Rectangle : Shape {
    int width;
    long long height;
    __device__ Rectangle(int w, int h) : width(w), height(h)
    {
    }
    __device__ int area() const override
    {
        return width * (int)height;
    }
};

constexpr size_t SHAPE_BYTES = sizeof(Rectangle) > sizeof(Square) ? sizeof(Rectangle) : sizeof(Square);

// Even threads build a square, odd ones a rectangle.
__global__ void make_shapes(char *storage, Shape **shapes)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    void *place = storage + i * SHAPE_BYTES;
    if (i % 2)
        shapes[i] = new (place) Rectangle(i, 3);
    else
        shapes[i] = new (place) Square(i);
}

__global__ void through_virtual(const Shape *const *shapes, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = shapes[i]->area();
}

int main(int argc, char **argv)
{
    int ctas = argument(argc, argv, 1, "CTAs", 4, 1, 4096);
    int threads = argument(argc, argv, 2, "threads per CTA", 48, 1, 1024);
    int n = ctas * threads;

    // Deep recursion may need more stack than the device has set aside.
    size_t stack;
    CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    if (stack < 4096)
        CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));

    std::vector<int> in((size_t)n * SEGMENT), out[4];
    unsigned seed = 9;
    for (int &v : in)
        v = next_random(&seed) % 10000;
    int *d_in, *d_out;
    char *storage;
    Shape **shapes;
    CHECK(cudaMalloc(&d_in, in.size() * sizeof(int)));
    CHECK(cudaMalloc(&d_out, n * sizeof(int)));
    CHECK(cudaMalloc(&storage, n * SHAPE_BYTES));
    CHECK(cudaMalloc(&shapes, n * sizeof(Shape *)));
    CHECK(cudaMemcpy(d_in, in.data(), in.size() * sizeof(int), cudaMemcpyHostToDevice));
    for (int k = 0; k < 4; k++) {
        if (k == 0)
            through_helpers<<<ctas, threads>>>(d_in, d_out);
        else if (k == 1)
            through_recursion<<<ctas, threads>>>(d_in, d_out);
        else if (k == 2)
            through_pointers<<<ctas, threads>>>(d_in, d_out);
        else {
            make_shapes<<<ctas, threads>>>(storage, shapes);
            CHECK_LAUNCH();
            through_virtual<<<ctas, threads>>>(shapes, d_out);
        }
        CHECK_LAUNCH();
        out[k].resize(n);
        CHECK(cudaMemcpy(out[k].data(), d_out, n * sizeof(int), cudaMemcpyDeviceToHost));
    }
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_out));
    CHECK(cudaFree(storage));
    CHECK(cudaFree(shapes));

    long wrong = 0;
    Tally helpers = {}, recursion = {}, pointers = {}, virtuals = {};
    for (int i = 0; i < n; i++) {
        helpers.load(sizeof(int));
        helpers.store(sizeof(int));
        wrong += out[0][i] != in[i] + 1;

        int sum = 0;
        for (int k = 0; k < SEGMENT; k++) {
            recursion.load(sizeof(int));
            sum += in[(size_t)i * SEGMENT + k];
        }
        recursion.store(sizeof(int));
        wrong += out[1][i] != sum;

        pointers.load(sizeof(operation)); // from the table
        pointers.load(sizeof(int), i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 0);
        pointers.store(sizeof(int));
        wrong += out[2][i] != (i % 3 == 0 ? in[i] : i % 3 == 1 ? in[i] - in[i + 1] : i);

        virtuals.load(sizeof(void *), 3);          // shapes[i], its table, the table's entry
        virtuals.load(sizeof(int));                // side or width
        virtuals.load(sizeof(int), i % 2 ? 1 : 0); // the half of height that is used
        virtuals.store(sizeof(int));
        wrong += out[3][i] != (i % 2 ? i * 3 : i * i);
    }
    print_count("through_helpers", helpers);
    print_count("through_recursion", recursion);
    print_count("through_pointers", pointers);
    print_count("through_virtual", virtuals);
    return verdict("device_calls", wrong);
}
