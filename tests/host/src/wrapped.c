/* All memory comes from one function: who asked for it is in the callers. What memtrace says is compared with
 * what dhat says (tests/host/cases_answers.py). */
#include <stdio.h>
#include <stdlib.h>

static inline void *checked(size_t n)
{
    void *p = malloc(n); /* CHECKED */
    if (!p)
        abort();
    return p;
}

static __attribute__((noinline)) char *leaks(void)
{
    char *p = checked(3000); /* LEAKS */
    p[0] = 1;
    return p;
}

static __attribute__((noinline)) char *frees(int n)
{
    char *p = checked((size_t)n); /* FREES */
    p[0] = 2;
    return p;
}

static __attribute__((noinline)) int deep(int depth)
{
    if (depth == 0) {
        char *p = frees(40000); /* DEEP */
        int n = p[0];
        free(p);
        return n;
    }
    return deep(depth - 1) + 1; /* RECURSES */
}

static __attribute__((noinline)) long *grows(void)
{
    long *p = NULL;
    for (size_t n = 16; n <= 4096; n *= 2) {
        p = realloc(p, n * sizeof *p); /* GROWS */
        p[0] = (long)n;
    }
    return p;
}

int main(void)
{
    long sum = 0;
    for (int i = 0; i < 5; i++) {
        sum += leaks()[0];    /* MAINA */
        char *p = frees(500); /* MAINB */
        sum += p[0];
        free(p);
    }
    long *grown = grows(); /* MAINC */
    sum += grown[0];
    sum += deep(3); /* MAIND */
    free(grown);
    sum += leaks()[0]; /* MAINE */
    fprintf(stderr, "%ld\n", sum);
    return 0;
}
