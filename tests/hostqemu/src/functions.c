/* Functions for -f: recursion, tail calls, longjmp out of them, three arguments, results. */
#include <setjmp.h>
#include <stdio.h>

static jmp_buf back;

__attribute__((noinline, used)) long factorial(long n)
{
    long f = n < 2 ? 1 : factorial(n - 1);
    __asm__ volatile("" : "+r"(f)); /* stays a recursion */
    return n < 2 ? f : n * f;
}

__attribute__((noinline, used)) long sum3(long a, long b, long c)
{
    __asm__ volatile("");
    return a + b + c;
}

__attribute__((noinline, used)) long hand_on(long a, long b, long c)
{
    return sum3(b, c, a);
}

__attribute__((noinline, used)) long leaves(long n)
{
    if (n == 0)
        longjmp(back, 1);
    n = leaves(n - 1);
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

int main(void)
{
    volatile int round = 0;
    long x = factorial(4) + sum3(1, 2, 3);
    x += hand_on(10, 20, 30);
    if (setjmp(back) == 0 || ++round < 3)
        x += leaves(2);
    x += sum3(7, 8, 9);
    printf("%ld\n", x);
    return 0;
}
