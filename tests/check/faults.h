// What faulty programs share: each is a function, run(0) with its fault, run(1) its right twin.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int N = 1000;

template <typename T> struct Buffer {
    T *p;
    explicit Buffer(int n = N, bool clear = true)
    {
        cudaMalloc(&p, n * sizeof(T));
        if (clear)
            cudaMemset(p, 0, n * sizeof(T));
    }
    ~Buffer()
    {
        cudaFree(p);
    }
    operator T *() const
    {
        return p;
    }
};

static void get(const void *from, size_t bytes)
{
    std::vector<char> to(bytes);
    cudaMemcpy(to.data(), from, bytes, cudaMemcpyDeviceToHost);
}

// One CTA of a kernel that needs no more than a buffer.
template <void (*kernel)(int *, int), int threads> static void of(int right)
{
    Buffer<int> a(128);
    kernel<<<1, threads>>>(a, right);
    get(a, 512);
}

struct Fault {
    const char *name;
    void (*run)(int right);
};

// NAME or NAME-right; a second word: the program aborts at its end. Without a word: all names.
template <int COUNT> static int run_fault(const Fault (&faults)[COUNT], int argc, char **argv)
{
    char name[64];
    if (argc < 2) {
        for (auto &f : faults)
            puts(f.name);
        return 0;
    }
    snprintf(name, sizeof name, "%s", argv[1]);
    char *right = strstr(name, "-right");
    if (right)
        *right = 0;
    for (auto &f : faults)
        if (strcmp(f.name, name) == 0) {
            f.run(right != nullptr);
            if (argc > 2)
                abort();
            return 0;
        }
    return 3;
}
