/* Three buffers of which the program's own accesses are known, what the C library does to them (memcpy,
 * qsort, strlen), and what it does for itself. Sizes tell blocks apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 500 };
static int table[COUNT + 1]; /* 2004 bytes: qsort has a block of 2000 */

char *part_fill(void); /* library_part.c */

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int main(void)
{
    volatile int *from = malloc(4 * COUNT + 1);
    int *to = malloc(4 * COUNT + 2);
    char *text = strdup("some words, copied by the C library"); /* 36 */
    for (int i = 0; i < COUNT; i++)
        from[i] = i * 7919 % COUNT;
    memcpy(to, (const void *)from, 4 * COUNT);
    memcpy(table, to, 4 * COUNT);
    qsort(table, COUNT, sizeof *table, ascending);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += ((volatile int *)table)[i] != i;
    for (int i = 0; i < 20; i++) /* the allocator's lists */
        free(malloc(100 + 8 * (size_t)i));
    char *grown = realloc(calloc(3, 1001), 100000); /* the allocator copies */
    printf("%d wrong, %zu letters, %p\n", wrong, strlen(text), (void *)part_fill());
    free((void *)from);
    free(to);
    free(text);
    free(grown);
    return 0;
}
