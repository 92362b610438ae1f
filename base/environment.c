/* Environment of this process, and a copy of its initial state. */
#include "environment.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static char *nothing[1], **begun = nothing;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Copies the environment to memory of our own, since the program may overwrite its block. */
static void environment_take(void)
{
    size_t n = 0, bytes = 0;
    for (; environ && environ[n]; n++)
        bytes += strlen(environ[n]) + 1;
    bytes += (n + 1) * sizeof *begun;
    /* mmap, because the program's malloc may not be ready yet. */
    char **copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *text = (char *)(copy + n + 1);
    if (copy == MAP_FAILED)
        return;
    for (size_t i = 0; i < n; i++) {
        copy[i] = text;
        text = stpcpy(text, environ[i]) + 1;
    }
    copy[n] = NULL;
    begun = copy;
}

/* Runs before main, and before the constructors of libraries that depend on this one. */
__attribute__((constructor(101))) static void environment_loaded(void)
{
    pthread_once(&once, environment_take);
}

char *const *mt_environment(void)
{
    pthread_once(&once, environment_take);
    return begun;
}

const char *mt_environment_get(const char *name)
{
    const char *now = secure_getenv(name);
    size_t n = strlen(name);
    if ((now && *now) || getauxval(AT_SECURE))
        return now;
    for (char *const *e = mt_environment(); *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return now;
}
