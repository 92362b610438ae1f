/* Opens libraries, calls each, and closes it before the next, or with KEEP in the environment none. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        int (*run)(int *) = h ? (int (*)(int *))dlsym(h, "lib_run") : NULL;
        int sum = -1, e = run ? run(&sum) : -1;
        printf("%d %d\n", e != 0, sum);
        if (h && !getenv("KEEP"))
            dlclose(h);
    }
    return 0;
}
