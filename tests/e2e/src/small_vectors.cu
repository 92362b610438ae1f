// Vectors (ext_vector_type) by value, as an argument of a kernel, in a structure, and of a function that is
// not inlined: each element is what the host has put there. Prints what is not, and "right".
#include <cstdio>
template <class T, int N> using vector = T __attribute__((ext_vector_type(N)));
template <class T, int N> struct inside {
    char before;
    vector<T, N> v;
    char after;
};

template <class T, int N> __device__ __forceinline__ void put(T *out, vector<T, N> v, char after)
{
    for (int i = 0; i < N; i++)
        out[i] = v[i];
    out[N] = (T)(after == 77);
}
template <class T, int N> __global__ void alone(T *out, char before, vector<T, N> v, char after)
{
    put<T, N>(out, v, before == 33 ? after : 0);
}
template <class T, int N> __global__ void within(T *out, inside<T, N> s)
{
    put<T, N>(out, s.v, s.before == 33 ? s.after : 0);
}
template <class T, int N> __device__ __noinline__ vector<T, N> other(vector<T, N> v)
{
    return -v;
}
template <class T, int N> __global__ void called(T *out, vector<T, N> v)
{
    put<T, N>(out, -other<T, N>(v), 77);
}

static int wrong;

template <class T, int N> void compare(const char *how, const char *type, T *device, vector<T, N> v)
{
    T got[N + 1];
    int bad = cudaMemcpy(got, device, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess || got[N] != (T)1;
    for (int i = 0; i < N; i++)
        bad += got[i] != v[i];
    if (bad)
        printf("%s: %s x %d: %d wrong\n", how, type, N, bad);
    wrong += bad;
}

template <class T, int N, bool CALL> void test(const char *type)
{
    T *device;
    vector<T, N> v;
    for (int i = 0; i < N; i++)
        v[i] = (T)(i % 3 ? -6 - i : 5 * (i % 2));
    cudaMalloc(&device, (N + 1) * sizeof *device);
    alone<T, N><<<1, 1>>>(device, 33, v, 77);
    compare<T, N>("alone", type, device, v);
    within<T, N><<<1, 1>>>(device, inside<T, N>{33, v, 77});
    compare<T, N>("within", type, device, v);
    if constexpr (CALL) {
        called<T, N><<<1, 1>>>(device, v);
        compare<T, N>("called", type, device, v);
    }
    cudaFree(device);
}

// LLVM 19 cannot pass two bytes to a function, and says so.
#define TEST(T, CALL)                                                                                        \
    test<T, 2, CALL && (sizeof(T) > 1)>(#T);                                                                 \
    test<T, 3, CALL>(#T);                                                                                    \
    test<T, 4, CALL>(#T);                                                                                    \
    test<T, 8, CALL>(#T);

int main()
{
    TEST(char, true)
    TEST(unsigned char, true)
    TEST(short, true)
    TEST(unsigned short, true)
    TEST(int, true)
    TEST(float, true)
    TEST(long long, true)
    TEST(double, true)
    TEST(bool, false)
    test<bool, 1, false>("bool");
    test<bool, 12, false>("bool");
    test<bool, 24, false>("bool");
    test<bool, 64, false>("bool");
    test<char, 16, true>("char");
    puts(wrong ? "wrong" : "right");
}
