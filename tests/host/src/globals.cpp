// Variables of all places that a program has; cases_globals.py knows how often each element is touched.
#include <cstdio>
#include <cstdlib>

long table[100] = {1, 2, 3}; // .data
static double scratch[70];   // .bss
extern const int primes[50]; // .rodata
const int primes[50] = {2, 3, 5, 7};
alignas(64) char guarded[64];

namespace ns
{
template <int N> struct pool {
    static short slots[N];
};
template <int N> short pool<N>::slots[N];
struct point {
    int x, y;
} origin[30];
} // namespace ns

static int count(int by)
{
    static int calls[8]; // count(int)::calls
    return ++(volatile int &)calls[by];
}

int main()
{
    long *heap = (long *)malloc(1000 * sizeof *heap);
    volatile long *t = table;
    volatile double *s = scratch;
    volatile const int *p = primes;
    volatile short *slots = ns::pool<40>::slots;
    long sum = 0;
    for (int i = 0; i < 100; i++)
        t[i] = i;
    for (int i = 0; i < 70; i++)
        s[i] = i;
    for (int i = 0; i < 50; i++)
        sum += p[i];
    for (int i = 0; i < 40; i++)
        slots[i] = (short)i;
    for (int i = 0; i < 30; i++)
        ((volatile ns::point *)ns::origin)[i].y = i;
    for (int i = 0; i < 1000; i++)
        ((volatile long *)heap)[i] = i;
    for (int i = 0; i < 8; i++)
        sum += count(i);
    sum += guarded[(size_t)heap % 64];
    std::printf("%ld\n", sum);
    free(heap);
}
