// Sparse matrices, graphs, hash tables.
#include <stdint.h>

template <typename T, typename I>
__global__ void csr_row(const I *begins, const I *columns, const T *values, const T *x, T *y, I rows)
{
    I row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    T sum = 0;
    for (I k = begins[row]; k < begins[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}
template __global__ void csr_row<float, int>(const int *, const int *, const float *, const float *, float *,
                                             int);
template __global__ void csr_row<double, long>(const long *, const long *, const double *, const double *,
                                               double *, long);

__global__ void csr_warp(const int *__restrict__ begins, const int *__restrict__ columns,
                         const float *__restrict__ values, const float *__restrict__ x, float *__restrict__ y,
                         int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = begins[row] + lane; k < begins[row + 1]; k += 32)
        sum += values[k] * x[columns[k]];
    for (int offset = 16; offset; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane == 0)
        y[row] = sum;
}

__global__ void ell(const int *columns, const double *values, const double *x, double *y, int rows, int width)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    for (int k = 0; k < width; k++) {
        int column = columns[k * rows + row];
        if (column >= 0)
            sum += values[k * rows + row] * x[column];
    }
    y[row] = sum;
}

__global__ void coo(const int2 *places, const float *values, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&y[places[i].x], values[i] * x[places[i].y]);
}

struct Entry {
    int row, column;
    double value;
};

__global__ void coo_structs(const Entry *entries, const double *x, double *y)
{
    Entry e = entries[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(y + e.row, e.value * x[e.column]);
}

__global__ void breadth_first(const int *begins, const int *edges, int *levels, bool *changed, int level,
                              int n)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || levels[v] != level)
        return;
    for (int e = begins[v]; e < begins[v + 1]; e++)
        if (levels[edges[e]] < 0) {
            levels[edges[e]] = level + 1;
            *changed = true;
        }
}

__global__ void frontier(const int *begins, const int *edges, const int *queue, int size, int *next,
                         int *next_size, unsigned *seen)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size)
        return;
    int v = queue[i];
    for (int e = begins[v]; e < begins[v + 1]; e++) {
        int w = edges[e];
        unsigned bit = 1u << w % 32;
        if (!(atomicOr(&seen[w / 32], bit) & bit))
            next[atomicAdd(next_size, 1)] = w;
    }
}

__global__ void shortest(const int2 *edges, const float *weights, float *distances, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float candidate = distances[edges[i].x] + weights[i];
    atomicMin((int *)&distances[edges[i].y], __float_as_int(candidate));
}

__global__ void rank_pages(const int *begins, const int *sources, const float *rank, const int *degree,
                           float *next, float damping)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int e = begins[v]; e < begins[v + 1]; e++)
        sum += rank[sources[e]] / degree[sources[e]];
    next[v] = (1 - damping) / (gridDim.x * blockDim.x) + damping * sum;
}

__global__ void components(const int *edges, int *parent, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int a = edges[2 * i], b = edges[2 * i + 1];
    while (parent[a] != a)
        a = parent[a];
    while (parent[b] != b)
        b = parent[b];
    if (a != b)
        atomicCAS(parent + max(a, b), max(a, b), min(a, b));
}

struct Slot {
    uint32_t key, value;
};

__device__ uint32_t hash_of(uint32_t k)
{
    k ^= k >> 16;
    k *= 0x85ebca6b;
    k ^= k >> 13;
    k *= 0xc2b2ae35;
    return k ^ k >> 16;
}

__global__ void insert(Slot *table, const Slot *items, uint32_t mask, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Slot s = items[i];
    for (uint32_t at = hash_of(s.key) & mask;; at = (at + 1) & mask) {
        uint32_t before = atomicCAS(&table[at].key, 0xffffffff, s.key);
        if (before == 0xffffffff || before == s.key) {
            table[at].value = s.value;
            return;
        }
    }
}

__global__ void look_up(const Slot *table, Slot *items, uint32_t mask)
{
    Slot *s = items + blockIdx.x * blockDim.x + threadIdx.x;
    for (uint32_t at = hash_of(s->key) & mask; table[at].key != 0xffffffff; at = (at + 1) & mask)
        if (table[at].key == s->key) {
            s->value = table[at].value;
            return;
        }
    s->value = 0;
}

__global__ void insert_wide(unsigned long long *table, const unsigned long long *keys, unsigned mask)
{
    unsigned long long key = keys[blockIdx.x * blockDim.x + threadIdx.x];
    unsigned at = (unsigned)(key >> 32) & mask;
    while (atomicCAS(table + at, 0ull, key) != 0)
        at = (at + 1) & mask;
}

__global__ void locked(int *lock, volatile float *shared_value, float v)
{
    while (atomicExch(lock, 1))
        ;
    __threadfence();
    *shared_value = *shared_value * 0.5f + v;
    __threadfence();
    atomicExch(lock, 0);
}

struct Node {
    Node *next;
    int value;
};

__global__ void list_sum(Node *const *heads, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (const Node *n = heads[i]; n; n = n->next)
        sum += n->value;
    out[i] = sum;
}

__global__ void push(unsigned long long *head, Node *nodes)
{
    Node *mine = nodes + blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long old = *head, seen;
    do {
        seen = old;
        mine->next = (Node *)seen;
        old = atomicCAS(head, seen, (unsigned long long)mine);
    } while (old != seen);
}

__global__ void float_max(float *place, const float *in)
{
    int *bits = (int *)place, old = *bits, seen;
    float v = in[blockIdx.x * blockDim.x + threadIdx.x];
    do {
        seen = old;
        if (__int_as_float(seen) >= v)
            break;
        old = atomicCAS(bits, seen, __float_as_int(v));
    } while (old != seen);
}

__global__ void triangles(const int *begins, const int *edges, int *count, int n)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x, found = 0;
    if (v >= n)
        return;
    for (int e = begins[v]; e < begins[v + 1]; e++) {
        int w = edges[e], a = begins[v], b = begins[w];
        while (a < begins[v + 1] && b < begins[w + 1]) {
            int d = edges[a] - edges[b];
            found += d == 0;
            a += d <= 0;
            b += d >= 0;
        }
    }
    atomicAdd(count, found);
}
