/* Opens libraries, each in a thread of its own, all at once, and calls them. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static void *open_one(void *name)
{
    void *h = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    int (*run)(int *) = h ? (int (*)(int *))dlsym(h, "lib_run") : NULL;
    int sum = -1, e = run ? run(&sum) : -1;
    if (!h)
        puts(dlerror());
    printf("thread %d %d\n", e, sum);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t t[16];
    for (int i = 1; i < argc && i < 16; i++)
        pthread_create(&t[i], NULL, open_one, argv[i]);
    for (int i = 1; i < argc && i < 16; i++)
        pthread_join(t[i], NULL);
    return 0;
}
