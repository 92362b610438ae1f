/* N threads, each with K atomic increments of one counter, K stores into its own part, and its share of
 * compare-and-swaps. Prints where things lie and the totals. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX = 64, K = 500 };
static _Atomic long counter, swapped;
static long part[MAX][K];
static pthread_barrier_t ready;

static void *threads_work(void *arg)
{
    long me = (long)(intptr_t)arg, won = 0;
    pthread_barrier_wait(&ready);
    for (int i = 0; i < K; i++) {
        atomic_fetch_add(&counter, 1);
        part[me][i] = i;
        long seen = i;
        won += atomic_compare_exchange_strong(&swapped, &seen, seen + 1);
    }
    return (void *)(intptr_t)won;
}

int main(int argc, char **argv)
{
    pthread_t t[MAX];
    int n = argc > 1 ? atoi(argv[1]) : 4;
    long won = 0;
    pthread_barrier_init(&ready, NULL, (unsigned)n);
    for (long i = 0; i < n; i++)
        pthread_create(&t[i], NULL, threads_work, (void *)(intptr_t)i);
    for (int i = 0; i < n; i++) {
        void *r;
        pthread_join(t[i], &r);
        won += (long)(intptr_t)r;
    }
    printf("%p %p %p %ld %ld\n", (void *)&counter, (void *)&swapped, (void *)part, (long)counter, won);
    return 0;
}
