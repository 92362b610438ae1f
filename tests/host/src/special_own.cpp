// The annotation library's malloc and free as a program may have them of its own, compiled as all of it.
#include <cstdlib>
namespace atomic_trace
{
void *special_malloc(size_t size)
{
    void *volatile p = malloc(size); // volatile: no tail call
    return p;
}

static volatile int freed;
void special_free(void *address)
{
    free(address);
    freed = 1;
}
} // namespace atomic_trace
