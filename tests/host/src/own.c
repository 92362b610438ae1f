/* A buffer of 400 numbers, written and read by the program and sorted by the C library, which moves them
 * through its own code; then a text, which printf reads. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static int compare(const void *a, const void *b)
{
    long x = *(const volatile long *)a, y = *(const volatile long *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    long *p = malloc(3200);
    if (!p)
        return 1;
    volatile long *q = p;
    for (int i = 0; i < 400; i++)
        q[i] = (i * 7919) % 400;
    qsort(p, 400, sizeof *p, compare);
    long wrong = 0;
    for (int i = 0; i < 400; i++)
        wrong += q[i] != i;
    printf("%ld wrong\n", wrong);
    free(p);
    return wrong != 0;
}
