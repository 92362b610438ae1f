// The annotation library's malloc and free, in a function that is called by name, too.
#include "memtrace/atomic_trace.h"
#include <cstdio>

__attribute__((noinline)) void *make(size_t size)
{
    void *p = atomic_trace::special_malloc(size);
    static_cast<char *>(p)[size - 1] = 1;
    return p;
}

int main()
{
    void *a = make(123), *b = make(45);
    atomic_trace::special_free(a);
    atomic_trace::special_free(b);
    printf("%lu %lu\n", (unsigned long)a, (unsigned long)b);
}
