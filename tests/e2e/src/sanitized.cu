// A program with ThreadSanitizer: launches start threads and programs of the tracer, fork makes new locks of
// its locks, and the sanitizer goes on as before.
#include <csignal>
#include <cstdio>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static volatile sig_atomic_t handled;
static int sum;
static std::mutex lock;

static void note(int)
{
    handled = handled + 1;
}

__global__ void add(int *p)
{
    p[threadIdx.x] += 1;
}

static void count()
{
    for (int i = 0; i < 1000; i++) {
        std::lock_guard<std::mutex> guard(lock);
        sum++;
    }
}

int main()
{
    struct sigaction a = {};
    a.sa_handler = note;
    sigaction(SIGUSR1, &a, nullptr);
    int *p, back[32] = {};
    cudaMalloc(&p, sizeof back);
    cudaMemcpy(p, back, sizeof back, cudaMemcpyHostToDevice);
    std::thread other(count);
    add<<<1, 32>>>(p);
    cudaMemcpy(back, p, sizeof back, cudaMemcpyDeviceToHost);
    count();
    other.join();
    raise(SIGUSR1);
    int status = 1;
    if (fork() == 0) {
        int *q;
        _exit(cudaMalloc(&q, 4) != cudaSuccess);
    }
    wait(&status);
    printf("%d %d %d %d\n", static_cast<int>(handled), sum, back[31], status);
    return 0;
}
