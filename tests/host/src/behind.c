/* Code behind a call that others execute already when the call is made for the first time: an engine that
 * then puts something into that code must not take it away from those who are in there. Each thread counts in
 * a cell of its own; the program prints "cell ADDRESS NAME COUNT" for each. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, SPACING = 8, LAST = THREADS };
static volatile long cell[(THREADS + 1) * SPACING];
static int go;

/* Behind the call the loop begins. */
#define PLACE(n)                                                                                             \
    static __attribute__((noinline)) void place##n(volatile long *to, void *block, int *on)                  \
    {                                                                                                        \
        if (block)                                                                                           \
            free(block);                                                                                     \
        do { /* slowly: each round is in the trace */                                                        \
            ++*to;                                                                                           \
            __asm__ volatile("xor %%eax, %%eax\n cpuid" : : : "rax", "rbx", "rcx", "rdx");                   \
        } while (__atomic_load_n(on, __ATOMIC_RELAXED));                                                     \
    }
#define EACH(f) f(0) f(1) f(2) f(3)
EACH(PLACE)
#define NAME(n) place##n,
static void (*const place[])(volatile long *, void *, int *) = {EACH(NAME)};

struct job {
    size_t thread, place;
};

static void *behind_loop(void *arg)
{
    const struct job *j = arg;
    place[j->place](&cell[j->thread * SPACING], NULL, &go);
    return NULL;
}

static void behind_round(size_t at)
{
    struct job job[THREADS];
    pthread_t thread[THREADS];
    int off = 0;
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < THREADS; i++) {
        long before = cell[i * SPACING];
        job[i] = (struct job){i, at};
        if (pthread_create(&thread[i], NULL, behind_loop, &job[i]))
            exit(1);
        while (cell[i * SPACING] - before < 3)
            sched_yield();
    }
    place[at](&cell[LAST * SPACING], malloc(8), &off);
    __atomic_store_n(&go, 0, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    for (size_t i = 0; i < sizeof place / sizeof *place; i++)
        behind_round(i);
    for (size_t i = 0; i <= LAST; i++)
        printf("cell %lu %zu %ld\n", (unsigned long)(uintptr_t)&cell[i * SPACING], i, cell[i * SPACING]);
    return 0;
}
