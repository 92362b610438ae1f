/* helper() fills 100 bytes. Called by main() on buffer `plain`; by outer(), in several ways,
 * on buffer `inside`. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

typedef volatile char *bytes;

__attribute__((noinline)) void helper(bytes p)
{
    for (int i = 0; i < 100; i++)
        p[i] = (char)i;
}

static void (*volatile pointer)(bytes) = helper;
static jmp_buf back;

__attribute__((noinline)) void jumper(bytes p)
{
    p[7] = 1;
    longjmp(back, 1);
}

/* 10 + 100 + 100 accesses at offset 1000 * depth, then the same one level down. */
__attribute__((noinline)) void outer(bytes p, int depth)
{
    for (int i = 0; i < 10; i++)
        p[i] = 1;
    helper(p + 100);
    pointer(p + 200);
    if (depth > 0)
        outer(p + 1000, depth - 1);
    p[900] = 1; /* still inside after the inner one returned */
}

/* Ends in a jump to helper() when optimised. */
__attribute__((noinline)) void outer_tail(bytes p)
{
    p[0] = 1;
    helper(p + 100);
}

__attribute__((noinline)) void outer_left(bytes p)
{
    p[0] = 1;
    jumper(p + 100);
}

int main(void)
{
    bytes plain = malloc(7777), inside = malloc(6666), tail = malloc(5555), left = malloc(4444);
    helper(plain);
    outer(inside, 2);
    helper(plain + 1000);
    outer_tail(tail);
    helper(plain + 2000);
    if (setjmp(back) == 0)
        outer_left(left);
    helper(plain + 3000);
    printf("%d\n", plain[3] + inside[2200]);
    return 0;
}
