#include "share.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "memtrace/atomic_trace.h"

/* A real function at every optimisation, whose calls an engine can see. */
#ifdef __clang__
#define TRACED __attribute__((noinline, optnone, used))
#else
#define TRACED __attribute__((noipa, used))
#endif

/* Alone in its block of 64 bytes: nothing else is found at its address lock by accident. */
static struct {
    _Alignas(64) volatile uint64_t value;
    char rest[56];
} counter;
static pthread_barrier_t arrived, go, done, leave;
static share_increment *increment_by;

TRACED void share_start(volatile void *address, uint64_t threads, uint64_t total)
{
    (void)address, (void)threads, (void)total;
    __asm__ volatile("" ::: "memory");
}

TRACED void share_thread(uint64_t number)
{
    (void)number;
    __asm__ volatile("" ::: "memory");
}

TRACED uint64_t share_finish(uint64_t value)
{
    __asm__ volatile("" : "+r"(value)::"memory");
    return value;
}

static void *share_work(void *arg)
{
    struct share_thread *t = arg, own = *t;
    mt_register_thread(t->number);
    share_thread(t->number);
    pthread_barrier_wait(&arrived);
    pthread_barrier_wait(&go);
    uint64_t before;
    do {
        before = increment_by(&counter.value, &own);
        own.even += before % 2 == 0;
        own.count++;
    } while (before < own.stop);
    *t = own;
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&leave);
    return NULL;
}

static int share_run(struct share_thread *t, uint64_t threads, uint64_t total)
{
    pthread_t *id = calloc(threads, sizeof *id);
    pthread_barrier_t *all[] = {&arrived, &go, &done, &leave};
    if (!id)
        return -1;
    for (int i = 0; i < 4; i++)
        pthread_barrier_init(all[i], NULL, (unsigned)threads + 1);
    share_start(&counter.value, threads, total);
    for (uint64_t i = 0; i < threads; i++) {
        /* Each thread makes exactly one increment at or above `stop`. */
        t[i] = (struct share_thread){.number = i, .stop = total - threads};
        if (pthread_create(&id[i], NULL, share_work, &t[i]) != 0)
            return -1;
    }
    pthread_barrier_wait(&arrived);
    mt_start_roi();
    pthread_barrier_wait(&go);
    pthread_barrier_wait(&done);
    mt_end_roi();
    pthread_barrier_wait(&leave);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    free(id);
    return share_finish(counter.value) == total ? 0 : -1;
}

int share_main(int argc, char **argv, share_increment *increment, int with_fails)
{
    uint64_t threads = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t total = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (threads == 0 || threads > 4096 || total <= threads) {
        fprintf(stderr, "usage: %s THREADS TOTAL (1..4096 threads, more increments than threads)\n", argv[0]);
        return 2;
    }
    struct share_thread *t = calloc(threads, sizeof *t);
    increment_by = increment;
    if (!t || share_run(t, threads, total) != 0) {
        fprintf(stderr, "%s: no threads, no memory, or a wrong sum\n", argv[0]);
        return 1;
    }
    for (uint64_t i = 0; i < threads; i++) {
        printf("thread %lu\t%lu\t%lu", t[i].number, t[i].count, t[i].even);
        if (with_fails)
            printf("\t%lu", t[i].fails);
        putchar('\n');
    }
    free(t);
    return 0;
}
