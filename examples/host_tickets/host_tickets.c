/* Threads draw tickets from one counter and each adds up the numbers it drew. Only the order of the draws
 * says who drew which: an atomic trace has it. usage: host_tickets [threads=4] [tickets=2000]; prints
 * "counter ADDRESS", then "SUM" of each thread, sorted. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    _Alignas(64) uint64_t next;
    char rest[56]; /* nothing else in this cache line */
} counter;
static uint64_t tickets, sums[64];
static pthread_barrier_t begin;

static void *draw(void *arg)
{
    uint64_t sum = 0, mine = __atomic_fetch_add(&counter.next, 1, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&begin); /* each has its first before anybody draws a second */
    while (mine < tickets) {
        sum += mine;
        if (mine % 8 == 7)
            sched_yield(); /* let the others draw, too */
        mine = __atomic_fetch_add(&counter.next, 1, __ATOMIC_SEQ_CST);
    }
    sums[(size_t)arg] = sum;
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    pthread_t thread[64];
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    tickets = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
    if (threads < 1 || threads > 64) {
        fprintf(stderr, "usage: host_tickets [threads: 1 to 64] [tickets]\n");
        return 2;
    }
    pthread_barrier_init(&begin, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, draw, (void *)(size_t)i);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    qsort(sums, (size_t)threads, sizeof *sums, ascending);
    printf("counter %lu\n", (unsigned long)(uintptr_t)&counter.next);
    for (int i = 0; i < threads; i++)
        printf("%lu\n", (unsigned long)sums[i]);
    return 0;
}
