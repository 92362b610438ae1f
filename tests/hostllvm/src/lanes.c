/* Calls the vector accesses of lanes.ll, then loops that the compiler makes such accesses from. Prints where
 * the arrays lie and what came out. */
#include <stdio.h>

void copy_masked(const int *from, int *to, char bits);
void copy_spread(const int *from, int *to, const long *at, char bits);
void copy_packed(const int *from, int *to, char bits);

static int from[1024], to[1024];
static const long at[8] = {700, 3, 3, 500, 0, 90, 91, 1023};

__attribute__((noinline)) static void pick(int n, const int *restrict where, const int *restrict f,
                                           int *restrict t)
{
    for (int i = 0; i < n; i++)
        if (where[i] & 1)
            t[i] = f[where[i]];
}

int main(void)
{
    static int where[37], picked[37];
    printf("%p %p %p %p\n", (void *)from, (void *)to, (void *)where, (void *)picked);
    fflush(stdout);
    copy_masked(from, to, 0);
    copy_masked(from + 8, to + 8, (char)0xff);
    copy_masked(from + 16, to + 16, (char)0xb1); /* lanes 0, 4, 5, 7 */
    copy_spread(from, to, at, 0);
    copy_spread(from, to, at, (char)0xff);
    copy_spread(from, to, at, (char)0x24); /* lanes 2 and 5 */
    copy_packed(from + 32, to + 32, 0);
    copy_packed(from + 32, to + 32, (char)0xb1);
    for (int i = 0; i < 37; i++)
        where[i] = i * 29 % 1024;
    for (int i = 0; i < 1024; i++)
        from[i] = i;
    pick(37, where, from, picked);
    long sum = 0;
    for (int i = 0; i < 37; i++)
        sum += picked[i];
    printf("%ld\n", sum);
    return 0;
}
