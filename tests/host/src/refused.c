/* An instruction of AVX-512, executed as often as the first argument says; SIGILL of it is counted with a
 * second argument. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static sigjmp_buf back;

static void on_illegal(int number)
{
    siglongjmp(back, number);
}

static __attribute__((noinline)) void wide(int *to)
{
    __asm__ volatile("vpaddd %%zmm0, %%zmm1, %%zmm2; vzeroupper" : : : "xmm2", "memory"); /* here */
    *(volatile int *)to = 1;
}

int main(int argc, char **argv)
{
    int *to = malloc(sizeof *to), caught = 0;
    __asm__ volatile("vaddps %%ymm0, %%ymm1, %%ymm2; vzeroupper" : : : "xmm2");
    if (argc > 2)
        signal(SIGILL, on_illegal);
    puts("before");
    fflush(stdout);
    for (volatile int i = 0; i < atoi(argv[1]); i++)
        if (sigsetjmp(back, 1) == 0)
            wide(to);
        else
            caught++;
    printf("%d\n", caught);
    return 0;
}
