// 1000 loads and 1000 stores of 4 bytes; prints a sum and gives back its argument.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] += i;
}

static int run()
{
    static int h[1000];
    int *p;
    long sum = 0;
    if (cudaMalloc(&p, sizeof h) || cudaMemset(p, 0, sizeof h))
        return 100;
    add<<<4, 256>>>(p, 1000);
    if (cudaGetLastError() || cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost))
        return 101;
    for (int x : h)
        sum += x;
    printf("sum %ld\n", sum);
    return 0;
}

#ifdef MISSING
extern "C" cudaError_t __cudaGetProcAddress();
#endif
// Looks like a function of the CUDA runtime and is none.
extern "C" __attribute__((noinline)) int cudaOwnFunction(int x)
{
    return x + 1;
}

// Programs take away their environment before they begin: all of it, a variable, or its bytes for a title in
// ps.
static void spoil(int how)
{
    for (char **e = environ; how == 96 && *e; e++)
        memset(*e, 'x', strlen(*e));
    if (how == 97)
        unsetenv("MEMTRACE_DIR");
    if (how == 98)
        clearenv();
}

int main(int argc, char **argv)
{
    int code = argc > 1 ? atoi(argv[1]) : 0, status;
#ifdef MISSING
    if (argc > 2)
        return printf("missing %d %d\n", __cudaGetProcAddress(), __cudaGetProcAddress()) < 0;
#endif
    if (cudaOwnFunction(argc) != argc + 1)
        return 102;
    spoil(code);
    if (code == 99) { // in a child, too
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            return run();
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 103;
    }
    int bad = run();
    return bad ? bad : code;
}
