/* clang-format off */
// new, delete and exceptions; says what it did as heap.c does.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <vector>

#define SAY(p, bytes) printf("alloc new %#lx %lu %d\n", (unsigned long)(p), (unsigned long)(bytes), __LINE__)

static void gone(void *p)
{
    printf("free %#lx\n", (unsigned long)p);
}

struct alignas(64) wide {
    char c[128];
};

__attribute__((noinline)) static int deep(int n)
{
    if (n == 0)
        throw std::runtime_error("deep");
    return deep(n - 1) + 1;
}

int main()
{
    static char room[1 << 16];
    setvbuf(stdout, room, _IOFBF, sizeof room);
    int *p = new int; SAY(p, 4);
    double *q = new double[33]; SAY(q, 264);
    wide *w = new wide; SAY(w, 128);
    int *r = new (std::nothrow) int[10]; SAY(r, 40);
    try {
        deep(5);
    } catch (const std::exception &e) {
        puts(e.what());
    }
    try {
        volatile size_t huge = (size_t)1 << 60;
        char *x = new char[huge];
        puts(x);
    } catch (const std::bad_alloc &) {
        puts("bad_alloc");
    }
    int *s = new int[5]; SAY(s, 20);
    gone(p); delete p;
    gone(q); delete[] q;
    gone(w); delete w;
    gone(r); delete[] r;
    gone(s); delete[] s;
    return 0;
}
