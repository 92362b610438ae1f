// Lanes that leave several loops at once, in different rounds, and what they have in registers then. The host
// computes the same.
#include <cstdio>

#define BOTH __host__ __device__
#define SIDE 9
#define THREADS 96

// How far one comes in a table of numbers that grow along each row, and a sum over what was passed.
struct step {
    int count, sum;
};

template <int WAY> BOTH inline void leaves_walk(const int *cell, int side, int goal, step *out)
{
    int count = 0, sum = goal;
    for (int y = 0; y < side; y++) {
        for (int x = 0; x < side; x++) {
            int value = cell[y * side + x];
            count++;
            if (WAY == 0 && value == goal) { // both loops, and the function
                out->count = count;
                out->sum = sum;
                return;
            }
            if (value > goal) // the inner one, in a round of its own
                break;
            for (int k = x; k < side; k++) {
                count++;
                sum = sum * 3 + cell[y * side + k];
                if (cell[y * side + k] % 5 == 2)
                    goto next; // two of three
                if (WAY == 1 && sum % 7 == goal % 7)
                    goto done; // all three
            }
            sum += x;
        }
        sum ^= y;
    next:
        if (WAY == 2 && sum % 11 == 3)
            goto done;
    }
done:
    out->count = count;
    out->sum = sum;
}

// The block behind a loop is the way into the next one, and lanes come to it in many rounds.
BOTH inline void leaves_two(const int *cell, int side, int goal, step *out)
{
    int count = goal, sum = 0, from = 0;
    for (int i = 0; i < side * side; i++) {
        count += 2;
        if (cell[i] % 13 == goal % 13) {
            from = i;
            goto second;
        }
        sum += cell[i];
    }
    out->count = count;
    out->sum = sum;
    return;
second:
    for (int i = from; i < side * side; i += 5) {
        count++;
        sum = sum * 5 + cell[i];
        if (sum % 9 == 0)
            break;
    }
    out->count = count;
    out->sum = sum;
}

// Two ways into one loop.
BOTH inline void leaves_into(const int *cell, int side, int goal, step *out)
{
    int count = 0, sum = 1, i = goal % side;
    if (goal % 3 == 0)
        goto inside;
    while (i < side * side) {
        count++;
        sum = sum * 7 + cell[i];
    inside:
        sum += i;
        i += 1 + (cell[i] & 3);
        if (sum % 17 == 5)
            break;
    }
    out->count = count;
    out->sum = sum;
}

template <int WAY> BOTH inline void leaves_run(const int *cell, int side, int goal, step *out)
{
    if (WAY < 3)
        leaves_walk<WAY>(cell, side, goal, out);
    else if (WAY == 3)
        leaves_two(cell, side, goal, out);
    else
        leaves_into(cell, side, goal, out);
}

template <int WAY> __global__ void leaves(const int *cell, int side, step *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    leaves_run<WAY>(cell, side, t, &out[t]);
}

template <int WAY> static int leaves_check(const int *cell, int *cells, step *out, int threads)
{
    static step have[THREADS], want;
    int wrong = 0;
    cudaMemset(out, 0xff, sizeof have);
    leaves<WAY><<<THREADS / threads, threads>>>(cells, SIDE, out);
    if (cudaMemcpy(have, out, sizeof have, cudaMemcpyDeviceToHost) != cudaSuccess)
        printf("way %d: %s\n", WAY, cudaGetErrorString(cudaGetLastError()));
    for (int t = 0; t < THREADS; t++) {
        leaves_run<WAY>(cell, SIDE, t, &want);
        wrong += have[t].count != want.count || have[t].sum != want.sum;
    }
    if (wrong)
        printf("way %d, %d threads: %d wrong\n", WAY, threads, wrong);
    return wrong;
}

// Two threads put numbers into a list, under a lock that they try to take until they have it: what leaves
// that loop is behind other loops.
__device__ void leaves_count(int &n)
{
}
__device__ void leaves_insert(volatile int *next, int n)
{
    for (int i = next[0]; i > 0; i = next[i])
        if (i == n)
            return;
    next[n] = next[0];
    next[0] = n;
}
__global__ void leaves_list(int *lock, int *next, int most)
{
    int turns = 0;
    for (int i = 1 + threadIdx.x; i <= most; i += blockDim.x) {
        bool done = false;
        while (!done) {
            if (atomicCAS(lock, 0, 1) == 0) {
                __threadfence();
                leaves_insert(next, i);
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }
    leaves_count(turns);
}

int main()
{
    static int cell[SIDE * SIDE + 8], list[64];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0, value = y * 5 % 11; x < SIDE; x++, value += 1 + x * y % 4)
            cell[y * SIDE + x] = value;
    int *cells, *lock, wrong = 0, length = 0;
    step *out;
    cudaMalloc(&cells, sizeof cell);
    cudaMalloc(&out, THREADS * sizeof *out);
    cudaMalloc(&lock, sizeof list);
    cudaMemcpy(cells, cell, sizeof cell, cudaMemcpyHostToDevice);
    for (int threads : {32, 8, 48}) {
        wrong += leaves_check<0>(cell, cells, out, threads);
        wrong += leaves_check<1>(cell, cells, out, threads);
        wrong += leaves_check<2>(cell, cells, out, threads);
        wrong += leaves_check<3>(cell, cells, out, threads);
        wrong += leaves_check<4>(cell, cells, out, threads);
    }
    cudaMemset(lock, 0, sizeof list);
    leaves_list<<<1, 2>>>(lock, lock + 1, 9);
    cudaMemcpy(list, lock, sizeof list, cudaMemcpyDeviceToHost);
    for (int i = list[1]; i; i = list[1 + i])
        length++;
    printf("leaves: %d wrong, %d in the list\n", wrong, length);
    return wrong != 0 || length != 9;
}
