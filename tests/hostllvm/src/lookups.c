/* dlsym of what is not there leaves a text that the next one frees: before the program has freed anything. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    int found = 0;
    for (int i = 0; i < 3; i++)
        found += dlsym(RTLD_DEFAULT, "no_function_has_this_name") != NULL;
    printf("found %d\n", found);
    return 0;
}
