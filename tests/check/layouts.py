"""Structs of all layouts, filled member by member and copied as a whole, by kernels and by the host: what lies between the members is not
told; a member that one struct lacks is. Where the members are is what Python's own struct rules say."""
import random

TYPES = {"char": (1, 1), "short": (2, 2), "int": (4, 4), "float": (4, 4), "double": (8, 8), "long long": (8, 8), "float4": (16, 16),
         "alignas(8) char": (1, 8), "alignas(8) int": (4, 8), "alignas(16) int": (4, 16), "alignas(16) char": (1, 16)}
FIXED = [("long long", "int"), ("char", "alignas(16) int"), ("double", "char"), ("float4", "int"), ("short", "char"), ("char", "short"),
         ("int", "double"), ("short", "alignas(8) char", "int"), ("char", "char", "int"), ("double", "int", "int"), ("int", "float4", "char")]
STRUCTS, LACKS = 32, 20  # how many, and which one lacks a member


def some(seed, n):
    """Layouts by chance."""
    chance = random.Random(seed)
    return [tuple(chance.choice(list(TYPES)) for _ in range(chance.randint(2, 5))) for _ in range(n)]


def offsets(members):
    """[(from, to)] of the members, and the struct's size."""
    at, most, found = 0, 1, []
    for member in members:
        size, align = TYPES[member]
        at = -(-at // align) * align
        found.append((at, at + size))
        at, most = at + size, max(most, align)
    return found, -(-at // most) * most


def lacking(members, lack):
    """How many bytes and words of a struct are that member's, and how many if what lies behind it counts, too."""
    found, size = offsets(members)
    begin, end = found[lack]
    after = [at for at, _ in found if at >= end]
    stop = min(after) if after else size
    return [(to - begin, (to - 1) // 4 - begin // 4 + 1) for to in (end, stop)]


def program(layouts):
    """Its source. Run with how it is copied (0: by the host, 1: by a kernel, 2: by way of shared memory), and the number of the member that
    is lacking, modulo how many a layout has (-1: none)."""
    text = ['#include <cstdlib>\n#include <cstddef>']
    for n, members in enumerate(layouts):
        found, size = offsets(members)
        fields = " ".join(f"{kind} m{i};" for i, kind in enumerate(members))
        text.append(f"struct S{n} {{ {fields} }};\nstatic_assert(sizeof(S{n}) == {size});")
        text += [f"static_assert(offsetof(S{n}, m{i}) == {begin});" for i, (begin, _) in enumerate(found)]
        text.append(f"__device__ __forceinline__ void put(S{n} *a, int lack)\n{{")
        for i, kind in enumerate(members):
            value = "make_float4(1, 2, 3, 4)" if kind == "float4" else "1"
            text.append(f"    if (threadIdx.x != {LACKS} || lack != {i})\n        a->m{i} = {value};")
        text.append("}")
    text.append("""template <typename T> __global__ void fill(T *a, int lack)
{
    put(&a[threadIdx.x], lack);
}
template <typename T> __global__ void take(const T *a, T *b)
{
    b[threadIdx.x] = a[threadIdx.x];
}
template <typename T> __global__ void through(T *b, int lack)
{
    __shared__ T s[32];
    put(&s[threadIdx.x], lack);
    __syncthreads();
    b[threadIdx.x] = s[31 - threadIdx.x];
}
template <typename T> static void run(int how, int lack)
{
    T *a, *b, h[32];
    cudaMalloc(&a, sizeof h);
    cudaMalloc(&b, sizeof h);
    fill<<<1, 32>>>(a, how == 2 ? -1 : lack);
    if (how == 0)
        cudaMemcpy((void *)h, a, sizeof h, cudaMemcpyDeviceToHost);
    else if (how == 1)
        take<<<1, 32>>>(a, b);
    else
        through<<<1, 32>>>(b, lack);
    cudaFree(a);
    cudaFree(b);
}
int main(int, char **argv)
{
    int how = atoi(argv[1]), lack = atoi(argv[2]);""")
    text += [f"    run<S{n}>(how, lack < 0 ? -1 : lack % {len(members)});" for n, members in enumerate(layouts)]
    text.append("    return cudaDeviceSynchronize();\n}\n")
    return "\n".join(text)
