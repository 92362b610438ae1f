/* A constructor that launches, linked behind the library's own. */
#include <stdio.h>

int lib_run(int *out);

__attribute__((constructor)) static void early(void)
{
    int sum, e = lib_run(&sum);
    printf("early %d %d\n", e, sum);
}
