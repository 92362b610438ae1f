// __managed__ variables: host and kernels have one variable, at one address.
#include "conf.h"

// A buffer's place is taken by the variable: out[i] is compared where the kernel left it.
template <class F> static void holds(conf::row &r, const int *found, int n, F want)
{
    CONF_CALL(r, cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        if (!r.same(i, found[i], want(i)))
            return;
}

__managed__ int number = 40;
static __global__ void add(int by)
{
    number += by;
}
ROW("__managed__ int", "its first value; host and kernels change it in turn")
{
    r.check(number == 40, "it begins as %d", number);
    number++;
    add<<<1, 1>>>(2);
    CONF_CALL(r, cudaDeviceSynchronize());
    r.check(number == 43, "after a kernel: %d", number);
    number = -7;
    add<<<1, 1>>>(3);
    CONF_CALL(r, cudaDeviceSynchronize());
    r.check(number == -4, "after another: %d", number);
    number = 40;
    r.loads(2, 4);
    r.stores(2, 4);
}

struct pair {
    int a;
    double b[2];
};
__managed__ __device__ int table[64] = {3, 1, 4, 1, 5};
__device__ __managed__ pair pairs[2] = {{1, {0.5, 2}}, {2, {8, 16}}};
namespace inner
{
static __managed__ int hidden = 6;
__managed__ int zero[3];
} // namespace inner
static __global__ void mix()
{
    int t = threadIdx.x;
    table[t] = table[t] * 2 + inner::hidden + inner::zero[t % 3] + (int)pairs[t & 1].b[t >> 1 & 1];
}
ROW("__managed__ arrays, structures, static, in a namespace",
    "either order of __device__ and __managed__; first values")
{
    inner::zero[1] = 100;
    inner::hidden = 6;
    pairs[1].b[0] = 9;
    int before[64];
    memcpy(before, table, sizeof before);
    r.check(before[0] == 3 && before[4] == 5 && before[5] == 0, "table begins %d … %d %d", before[0],
            before[4], before[5]);
    mix<<<1, 64>>>();
    holds(r, table, 64, [&](int i) {
        static const int whole[] = {0, 9, 2, 16};
        return before[i] * 2 + 6 + (i % 3 == 1 ? 100 : 0) + whole[i & 3];
    });
    r.loads(64 * 3, 4);
    r.loads(64, 8);
    r.stores(64, 4);
}

__managed__ int *where, *there;
static __global__ void look(int i)
{
    where = &table[i];
    *there = i;
}
static int *const from_the_start = &number;
ROW("address of a __managed__ variable", "the same for host and kernels, also stored in another one")
{
    there = from_the_start;
    look<<<1, 1>>>(9);
    CONF_CALL(r, cudaDeviceSynchronize());
    r.check(where == table + 9 && from_the_start == &number, "%p, not %p", (void *)where,
            (void *)(table + 9));
    r.check(number == 9, "stored through the pointer: %d", number);
    number = 40;
    r.stores(1, 8);
    r.loads(1, 8);
    r.stores(1, 4);
}

struct node {
    int value;
    node *next;
};
__managed__ node *head;
static __global__ void walk(int *out)
{
    int sum = 0;
    for (node *n = head; n; n = n->next)
        sum = sum * 10 + n->value;
    *out = sum;
}
ROW("__managed__ pointer", "a list that the host made")
{
    node *list;
    conf::buffer<int> out(r, 1);
    CONF_CALL(r, cudaMallocManaged(&list, 3 * sizeof *list));
    for (int i = 0; i < 3; i++)
        list[i] = {i + 1, i < 2 ? &list[i + 1] : nullptr};
    head = list;
    walk<<<1, 1>>>(out);
    out.is([](long) { return 123; });
    cudaFree(list);
    r.loads(4, 8);
    r.loads(3, 4);
    r.stores(1, 4);
}

template <class T> __managed__ T of_type[32] = {5};
template <class T> static __global__ void fill(T from)
{
    of_type<T>[threadIdx.x] += from + (T)threadIdx.x;
}
ROW("__managed__ variable template", "one for each type")
{
    fill<int><<<1, 32>>>(1);
    fill<double><<<1, 32>>>(0.5);
    holds(r, of_type<int>, 32, [](int i) { return (i ? 0 : 5) + 1 + i; });
    for (int i = 0; i < 32; i++)
        r.check(of_type<double>[i] == (i ? 0 : 5) + 0.5 + i, "[%d] of double: %g", i, of_type<double>[i]);
    r.loads(32, 4);
    r.loads(32, 8);
    r.stores(32, 4);
    r.stores(32, 8);
}

__managed__ int counted;
static __global__ void count()
{
    atomicAdd(&counted, 1);
    atomicAdd_system(&counted, 2);
}
ROW("atomicAdd of a __managed__ variable", "on top of what the host had there")
{
    counted = 1000;
    count<<<2, 64>>>();
    holds(r, &counted, 1, [](int) { return 1000 + 3 * 128; });
    r.atomics(256, 4);
}

ROW("copies of a __managed__ variable", "cudaMemcpy, cudaMemset, the symbol's functions")
{
    int h[64], n = 0;
    void *at = nullptr;
    size_t size = 0;
    for (int i = 0; i < 64; i++)
        h[i] = i * i;
    CONF_CALL(r, cudaMemcpy(table, h, sizeof h, cudaMemcpyHostToDevice));
    CONF_CALL(r, cudaMemset(table + 1, 0, 8));
    r.check(table[0] == 0 && table[1] == 0 && table[2] == 0 && table[3] == 9 && table[63] == 3969,
            "copied: %d … %d", table[3], table[63]);
    CONF_CALL(r, cudaMemcpy(h, table, sizeof h, cudaMemcpyDefault));
    r.check(h[3] == 9 && h[2] == 0, "copied back: %d %d", h[3], h[2]);
    n = 77;
    CONF_CALL(r, cudaMemcpyToSymbol(number, &n, sizeof n));
    r.check(number == 77, "cudaMemcpyToSymbol: %d", number);
    number = 78;
    CONF_CALL(r, cudaMemcpyFromSymbol(&n, number, sizeof n));
    r.check(n == 78, "cudaMemcpyFromSymbol: %d", n);
    CONF_CALL(r, cudaGetSymbolAddress(&at, number));
    CONF_CALL(r, cudaGetSymbolSize(&size, table));
    r.check(at == &number && size == sizeof table, "symbol at %p of %zu bytes, not %p", at, size,
            (void *)&number);
    number = 40;
}

__managed__ char pages[1 << 16];
static __global__ void write_pages()
{
    pages[blockIdx.x * 256 + threadIdx.x] = (char)(threadIdx.x + blockIdx.x);
}
ROW("cudaPointerGetAttributes, cudaMemAdvise, cudaMemPrefetchAsync of a __managed__ variable",
    "managed memory")
{
    cudaPointerAttributes a;
    CONF_CALL(r, cudaPointerGetAttributes(&a, pages + 5));
    r.check(a.type == cudaMemoryTypeManaged && a.devicePointer == pages + 5 && a.hostPointer == pages + 5,
            "type %d", a.type);
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    CONF_CALL(r, cudaMemAdvise(pages, sizeof pages, cudaMemAdviseSetPreferredLocation, here));
    CONF_CALL(r, cudaMemPrefetchAsync(pages, sizeof pages, here, 0, 0));
    write_pages<<<256, 256>>>();
    CONF_CALL(r, cudaDeviceSynchronize());
    for (int i = 0; i < 1 << 16; i++)
        r.check(pages[i] == (char)(i / 256 + i % 256), "byte %d is %d", i, pages[i]);
    r.stores(1 << 16, 1);
}
CONF_MAIN
