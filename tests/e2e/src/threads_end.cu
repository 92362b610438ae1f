// Threads that end where the program does not expect it: main by pthread_exit while another thread works on
// ("exit"), or threads that are cancelled inside CUDA calls, over and over, while others go on ("cancel").
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

__global__ void add(int *v, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        v[i] += 1;
}

static const int n = 4096;
static int *device;

static void launch()
{
    add<<<n / 256, 256>>>(device, n);
    cudaDeviceSynchronize();
}

static void *later(void *arg)
{
    usleep(50000);
    launch();
    int v[n];
    cudaMemcpy(v, device, sizeof v, cudaMemcpyDeviceToHost);
    printf("%d %d\n", v[0], v[n - 1]);
    return arg;
}

static void last()
{
    puts("exit");
}

static void *forever(void *)
{
    int *mine;
    for (;;) {
        cudaStream_t s;
        int v[n] = {0};
        cudaMalloc(&mine, sizeof v);
        cudaStreamCreate(&s);
        cudaMemcpyAsync(mine, v, sizeof v, cudaMemcpyHostToDevice, s);
        add<<<n / 256, 256, 0, s>>>(mine, n);
        cudaStreamSynchronize(s);
        cudaMemcpy(v, mine, sizeof v, cudaMemcpyDeviceToHost);
        cudaStreamDestroy(s);
        cudaFree(mine);
        pthread_testcancel(); // a call that waits inside is no point of cancellation
    }
}

static int cancel()
{
    for (int round = 0; round < 40; round++) {
        pthread_t t[3];
        for (auto &x : t)
            pthread_create(&x, nullptr, forever, nullptr);
        usleep(500 * (round % 20));
        for (auto &x : t)
            pthread_cancel(x);
        for (auto &x : t) {
            void *how;
            pthread_join(x, &how);
            if (how != PTHREAD_CANCELED)
                return 1;
        }
        launch();
    }
    int v[n];
    cudaMemcpy(v, device, sizeof v, cudaMemcpyDeviceToHost);
    printf("%d %d\n", v[0], v[n - 1]);
    return 0;
}

int main(int argc, char **argv)
{
    cudaMalloc(&device, n * sizeof(int));
    cudaMemset(device, 0, n * sizeof(int));
    if (argc > 1 && !strcmp(argv[1], "cancel"))
        return cancel();
    pthread_t t;
    atexit(last);
    launch();
    pthread_create(&t, nullptr, later, nullptr);
    pthread_exit(nullptr);
}
