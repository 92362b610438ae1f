// The annotation library's malloc and free, in a function that is called by name, too. With a header of one's
// own they may throw, for all that the compiler knows.
#ifdef OWN_HEADER
#include <cstddef>
namespace atomic_trace
{
void *special_malloc(size_t size);
void special_free(void *addr);
} // namespace atomic_trace
#else
#include "memtrace/atomic_trace.h"
#endif
#include <cstdio>

struct Bystander {
    volatile int gone = 0;
    ~Bystander()
    {
        gone = 1;
    }
};

__attribute__((noinline)) void *make(size_t size)
{
    Bystander bystander;
    void *p = atomic_trace::special_malloc(size);
    static_cast<char *>(p)[size - 1] = 1;
    return p;
}

int main()
{
    Bystander bystander;
    void *a = make(123), *b = make(45);
    atomic_trace::special_free(a);
    atomic_trace::special_free(b);
    printf("%lu %lu\n", (unsigned long)a, (unsigned long)b);
}
