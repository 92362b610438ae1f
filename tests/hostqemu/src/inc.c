/* inc THREADS TOTAL: threads fetch-and-add and compare-and-swap shared counters; prints what each did: its
 * increments of `counter`, how often that was even before, its successful and failed swaps of `word`, and the
 * two addresses. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    _Alignas(64) long counter;
    _Alignas(64) long word;
} shared;
static long each;
static struct {
    _Alignas(64) long adds, even, swaps, failures;
} did[64];

static void *inc_run(void *arg)
{
    long me = (long)arg, adds = 0, even = 0, swaps = 0, failures = 0;
    for (long i = 0; i < each; i++) {
        even += __atomic_fetch_add(&shared.counter, 1, __ATOMIC_SEQ_CST) % 2 == 0;
        adds++;
        long want = __atomic_load_n(&shared.word, __ATOMIC_RELAXED) & 1;
        if (__atomic_compare_exchange_n(&shared.word, &want, !want, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            swaps++;
        else
            failures++;
    }
    did[me].adds = adds;
    did[me].even = even;
    did[me].swaps = swaps;
    did[me].failures = failures;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[64];
    long n = argc > 1 ? atol(argv[1]) : 4;
    each = (argc > 2 ? atol(argv[2]) : 4000) / n;
    for (long i = 0; i < n; i++)
        pthread_create(&t[i], NULL, inc_run, (void *)i);
    for (long i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    printf("%lu %lu\n", (unsigned long)&shared.counter, (unsigned long)&shared.word);
    for (long i = 0; i < n; i++)
        printf("%ld %ld %ld %ld\n", did[i].adds, did[i].even, did[i].swaps, did[i].failures);
    return 0;
}
