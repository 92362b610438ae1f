/* Calls the library that it is linked to. */
#include <stdio.h>

int lib_run(int *out);

int main(void)
{
    int sum, e = lib_run(&sum);
    printf("main %d %d\n", e, sum);
    return e;
}
