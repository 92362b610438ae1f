/* Buffers that realloc makes of nothing: of a constant, and of a variable that holds NULL. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    long *constant = realloc(NULL, 4000), *grown = NULL, sum = 0;
    grown = realloc(grown, 8000);
    for (int i = 0; i < 500; i++)
        constant[i] = i;
    for (int i = 0; i < 1000; i++)
        grown[i] = i;
    for (int i = 0; i < 500; i++)
        sum += constant[i] + grown[2 * i];
    printf("%ld\n", sum);
    free(constant);
    free(grown);
    return 0;
}
