// Leaves a routine by an exception: what the catcher does is outside of it again,
// unless the catcher is inside.
#include <cstdio>
#include <cstdlib>

typedef volatile char *bytes;

__attribute__((noinline)) static void fill(bytes p)
{
    for (int i = 0; i < 100; i++)
        p[i] = static_cast<char>(i);
}

struct Guard {
    bytes p;
    explicit Guard(bytes p) : p(p)
    {
    }
    ~Guard()
    {
        p[50] = 1;
    } // runs while the stack is unwound: inside
};

__attribute__((noinline)) static void thrower(bytes p)
{
    Guard g(p);
    p[7] = 1;
    throw 1;
}

extern "C" __attribute__((noinline)) void outer(bytes p)
{
    try {
        thrower(p);
    } catch (int) {
        p[60] = 1; // caught inside
    }
    thrower(p + 100);
}

int main()
{
    bytes plain = static_cast<bytes>(malloc(7777)), inside = static_cast<bytes>(malloc(6666));
    for (int i = 0; i < 3; i++) {
        try {
            outer(inside + 1000 * i);
        } catch (int) {
            fill(plain + 1000 * i);
        }
    }
    fill(plain + 5000);
    std::printf("%d\n", plain[5050]);
    return 0;
}
