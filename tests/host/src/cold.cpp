// A function with a part that its compiler moves elsewhere (work.cold),
// which it enters by a jump every third time.
#include <cstdio>
#include <cstdlib>

static volatile int seen;

__attribute__((noinline, cold)) static void rare(int x)
{
    seen = seen + x;
}

__attribute__((noinline)) int work(int x)
{
    if (x % 3 == 0) {
        rare(x);
        rare(seen);
        if (seen == 123456)
            abort();
    }
    return x + seen;
}

int main()
{
    int calls = 0, sum = 0;
    for (int i = 0; i < 30; i++, calls++)
        sum += work(i);
    printf("%d %d\n", calls, sum);
}
