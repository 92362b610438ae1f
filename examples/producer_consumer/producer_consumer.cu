// A producer kernel on one stream and a consumer kernel on another, kept in step by events over two buffers.
// Consumer CTA c reads what producer CTA (CTAs - 1 - c) wrote.
// Usage: producer_consumer [CTAs] [threads per CTA] [rounds]
#include "../common/example.h"
#include <vector>

constexpr int SLOTS = 2;

__global__ void produce(int *slot, int round)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    slot[i] = i * 3 + round;
}

__global__ void consume(const int *slot, int *out)
{
    int from = (gridDim.x - 1 - blockIdx.x) * blockDim.x + threadIdx.x;
    out[blockIdx.x * blockDim.x + threadIdx.x] = slot[from] * 2;
}

int main(int argc, char **argv)
{
    int ctas = argument(argc, argv, 1, "CTAs", 6, 1, 1 << 16);
    int threads = argument(argc, argv, 2, "threads per CTA", 64, 1, 1024);
    int rounds = argument(argc, argv, 3, "rounds", 5, 1, 10000);
    int n = ctas * threads;

    cudaStream_t producer, consumer;
    CHECK(cudaStreamCreate(&producer));
    CHECK(cudaStreamCreate(&consumer));
    int *slot[SLOTS], *out;
    cudaEvent_t full[SLOTS], empty[SLOTS];
    for (int s = 0; s < SLOTS; s++) {
        CHECK(cudaMalloc(&slot[s], n * sizeof(int)));
        CHECK(cudaEventCreateWithFlags(&full[s], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&empty[s], cudaEventDisableTiming));
    }
    CHECK(cudaMalloc(&out, (size_t)n * rounds * sizeof(int)));
    for (int r = 0; r < rounds; r++) {
        int s = r % SLOTS;
        if (r >= SLOTS)
            CHECK(cudaStreamWaitEvent(producer, empty[s], 0));
        produce<<<ctas, threads, 0, producer>>>(slot[s], r);
        CHECK_LAUNCH();
        CHECK(cudaEventRecord(full[s], producer));
        CHECK(cudaStreamWaitEvent(consumer, full[s], 0));
        consume<<<ctas, threads, 0, consumer>>>(slot[s], out + (size_t)n * r);
        CHECK_LAUNCH();
        CHECK(cudaEventRecord(empty[s], consumer));
    }
    std::vector<int> result((size_t)n * rounds);
    CHECK(cudaMemcpyAsync(result.data(), out, result.size() * sizeof(int), cudaMemcpyDeviceToHost, consumer));
    CHECK(cudaStreamSynchronize(consumer));
    CHECK(cudaStreamSynchronize(producer));
    for (int s = 0; s < SLOTS; s++) {
        CHECK(cudaFree(slot[s]));
        CHECK(cudaEventDestroy(full[s]));
        CHECK(cudaEventDestroy(empty[s]));
    }
    CHECK(cudaFree(out));
    CHECK(cudaStreamDestroy(producer));
    CHECK(cudaStreamDestroy(consumer));

    long wrong = 0;
    Tally produced = {}, consumed = {};
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < ctas; c++)
            for (int t = 0; t < threads; t++) {
                produced.store(sizeof(int));
                consumed.load(sizeof(int));
                consumed.store(sizeof(int));
                int from = (ctas - 1 - c) * threads + t;
                wrong += result[(size_t)n * r + c * threads + t] != (from * 3 + r) * 2;
            }
    print_count("produce", produced, rounds, false);
    print_count("consume", consumed, rounds, false);
    return verdict("producer_consumer", wrong);
}
