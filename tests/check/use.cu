// Memory that is not used (see faults.cu): what are hints. Nothing else of the kind may be here, so that
// buffers are written and read, and freed.
#include "faults.h"

__global__ void copy(const int *from, int *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from[i];
}
__global__ void copy_all(const int *from, int *to, int *more, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    to[i] = from[i];
    if (more)
        more[i] = from[i] + 1;
}

static void put(void *to, size_t bytes)
{
    std::vector<char> h(bytes);
    cudaMemcpy(to, h.data(), bytes, cudaMemcpyHostToDevice);
}
static void use(int *a, int n) // it is read, and so is what comes of it
{
    Buffer<int> b(n, false);
    copy<<<(n + 127) / 128, 128>>>(a, b, n);
    get(b, 4 * n);
}

// ---- not freed ----

static void early_out(int right)
{
    int *a;
    cudaMalloc(&a, 4 * N); // !early_out: leak
    put(a, 4 * N);
    use(a, N);
    if (!right)
        return;
    cudaFree(a);
}
static void lost(int right) // the pointer is overwritten
{
    int *a;
    for (int i = 0; i < 3; i++) {
        cudaMalloc(&a, 4 * N); // !lost: leak
        put(a, 4 * N);
        use(a, N);
        if (right)
            cudaFree(a);
    }
    if (!right)
        cudaFree(a);
}
static void kept(int right) // pinned memory, too
{
    int *h;
    Buffer<int> a(N, false);
    cudaMallocHost(&h, 4 * N); // !kept: leak
    memset(h, 0, 4 * N);
    cudaMemcpy(a, h, 4 * N, cudaMemcpyHostToDevice);
    use(a, N);
    if (right)
        cudaFreeHost(h);
}
static void half_freed(int right) // members of a structure
{
    struct {
        int *a, *b;
    } x;
    cudaMalloc(&x.a, 4 * N);
    cudaMalloc(&x.b, 8 * N); // !half_freed: leak
    put(x.a, 4 * N);
    put(x.b, 8 * N);
    use(x.a, N);
    use(x.b, 2 * N);
    cudaFree(x.a);
    if (right)
        cudaFree(x.b);
}

// ---- not touched ----

static void spare(int right)
{
    int *a;
    cudaMalloc(&a, 4 * N); // !spare: unused
    if (right) {
        put(a, 4 * N);
        use(a, N);
    }
    cudaFree(a);
}
static void not_taken(int right) // scratch of a way that is not taken
{
    int *a, *scratch;
    cudaMalloc(&a, 4 * N);
    cudaMalloc(&scratch, 4 * N); // !not_taken: unused
    put(a, 4 * N);
    copy_all<<<8, 128>>>(a, scratch, nullptr, right ? N : 0);
    if (right)
        use(scratch, N);
    use(a, N);
    cudaFree(scratch);
    cudaFree(a);
}
static void each_stream(int right) // one for each of four streams, of which two have work
{
    int *a[4];
    for (auto &p : a)
        cudaMalloc(&p, 4 * N); // !each_stream: unused
    for (int i = 0; i < (right ? 4 : 2); i++) {
        put(a[i], 4 * N);
        use(a[i], N);
    }
    for (auto &p : a)
        cudaFree(p);
}

// ---- not read ----

static void result(int right)
{
    int *a, *out;
    cudaMalloc(&a, 4 * N);
    cudaMalloc(&out, 4 * N); // !result: unread
    put(a, 4 * N);
    copy<<<8, 128>>>(a, out, N);
    if (right)
        get(out, 4 * N);
    cudaDeviceSynchronize();
    cudaFree(a);
    cudaFree(out);
}
static void debug_copy(int right) // what a kernel writes beside its result
{
    int *a, *out, *more;
    cudaMalloc(&a, 4 * N);
    cudaMalloc(&out, 4 * N);
    cudaMalloc(&more, 4 * N); // !debug_copy: unread
    put(a, 4 * N);
    copy_all<<<8, 128>>>(a, out, more, N);
    get(out, 4 * N);
    if (right)
        get(more, 4 * N);
    cudaFree(a);
    cudaFree(out);
    cudaFree(more);
}
static void cleared(int right)
{
    int *a;
    cudaMalloc(&a, 4 * N); // !cleared: unread
    cudaMemset(a, 0, 4 * N);
    if (right)
        use(a, N);
    cudaFree(a);
}

// ---- copies that nothing reads ----

static void twice(int right)
{
    Buffer<int> a(N, false);
    std::vector<int> h(N);
    for (int i = 0; i < 2; i++) {
        cudaMemcpy(a, h.data(), 4 * N, cudaMemcpyHostToDevice); // !twice: unread-copy
        if (right)
            use(a, N);
    }
    use(a, N);
}
static void then_cleared(int right)
{
    Buffer<int> a(N, false);
    std::vector<int> h(N);
    cudaMemcpy(a, h.data(), 4 * N, cudaMemcpyHostToDevice); // !then_cleared: unread-copy
    if (right)
        use(a, N);
    cudaMemset(a, 0, 4 * N);
    use(a, N);
}
static void ahead(int right) // the block after the last one
{
    Buffer<int> a(N, false);
    std::vector<int> h(N);
    put(a, 4 * N);
    for (int i = 0; i < 3; i++) {
        use(a, N);
        if (i < 2 || !right)
            cudaMemcpy(a, h.data(), 4 * N, cudaMemcpyHostToDevice); // !ahead: unread-copy
    }
}

// ---- small copies ----

static void each_element(int right)
{
    Buffer<int> a(200, false);
    std::vector<int> h(200);
    if (right)
        put(a, 800);
    else
        for (int i = 0; i < 200; i++)
            cudaMemcpy(a + i, &h[i], 4, cudaMemcpyHostToDevice); // !each_element: tiny-copies
    use(a, 200);
}
static void each_flag(int right) // a flag that is asked for in each step
{
    Buffer<int> flag(1, false);
    int h = 0;
    cudaMemset(flag, 0, 4);
    for (int i = 0; i < (right ? 20 : 150); i++)
        cudaMemcpy(&h, flag, 4, cudaMemcpyDeviceToHost); // !each_flag: tiny-copies
}
static void each_row(int right) // rows of a matrix, one by one
{
    Buffer<int> a(200 * 16, false);
    std::vector<int> h(200 * 16);
    if (right)
        cudaMemcpy2D(a, 64, h.data(), 64, 64, 200, cudaMemcpyHostToDevice);
    else
        for (int i = 0; i < 200; i++)
            cudaMemcpyAsync(a + 16 * i, &h[16 * i], 64, cudaMemcpyHostToDevice); // !each_row: tiny-copies
    use(a, 200 * 16);
}

// ---- copies of what is there ----

static void table_each_step(int right) // a table that does not change
{
    Buffer<int> a(1 << 15, false);
    std::vector<int> table(1 << 15, 3);
    for (int i = 0; i < 4; i++) {
        if (right)
            table[i] = i + 100;
        cudaMemcpy(a, table.data(), 4 << 15, cudaMemcpyHostToDevice); // !table_each_step: unchanged-copy
        use(a, 1 << 15);
    }
}
static void image_each_step(int right) // rows with gaps, in a stream
{
    Buffer<int> a(1 << 16, false);
    std::vector<int> image(1 << 15, 9);
    put(a, 4 << 16);
    for (int i = 0; i < (right ? 1 : 3); i++) {
        auto way = cudaMemcpyHostToDevice;
        cudaMemcpy2DAsync(a, 512, image.data(), 256, 256, 512, way); // !image_each_step: unchanged-copy
        use(a, 1 << 16);
    }
}
static void zeros(int right) // a pattern from device to device that stays
{
    Buffer<int> from(1 << 15, false), to(1 << 15, false);
    cudaMemset(from, 0, 4 << 15);
    cudaMemset(to, 0, 4 << 15);
    for (int i = 0; i < 2; i++) {
        if (right)
            cudaMemset(to, i + 1, 4 << 15);
        use(to, 1 << 15);
        cudaMemcpy(to, from, 4 << 15, cudaMemcpyDeviceToDevice); // !zeros: unchanged-copy
        use(to, 1 << 15);
    }
}

static const Fault faults[] = {
    {"early_out", early_out},
    {"lost", lost},
    {"kept", kept},
    {"half_freed", half_freed},
    {"spare", spare},
    {"not_taken", not_taken},
    {"each_stream", each_stream},
    {"result", result},
    {"debug_copy", debug_copy},
    {"cleared", cleared},
    {"twice", twice},
    {"then_cleared", then_cleared},
    {"ahead", ahead},
    {"each_element", each_element},
    {"each_flag", each_flag},
    {"each_row", each_row},
    {"table_each_step", table_each_step},
    {"image_each_step", image_each_step},
    {"zeros", zeros},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
