/* Blocks that a fault ends after k accesses, and registers that are changed and never read between accesses.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static sigjmp_buf back;

static void fault(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

/* One block each: five accesses, one that faults, two that are never made. */
static int faults(volatile int *p)
{
    int *none = (int *)8;
    volatile int count = 0;
    for (volatile int i = 0; i < 100; i++) {
        if (sigsetjmp(back, 1)) {
            count++;
            continue;
        }
        __asm__ volatile(
            "movl $1, (%0)\n\tmovl $2, 4(%0)\n\tmovl 8(%0), %%ecx\n\taddl $3, 12(%0)\n\tmovl $4, 16(%0)\n\t"
            "movl (%1), %%ecx\n\tmovl $5, 20(%0)\n\tmovl $6, 24(%0)"
            :
            : "r"(p), "r"(none)
            : "rcx", "memory", "cc");
    }
    return count;
}

#define DEAD(r) "movl (%%rdi), %%" r "\n\tmovl $1, 4(%%rdi)\n\t"

/* Each register but rsp and rdi is loaded and not read, in one block, twice over. */
static void dead(volatile int *p)
{
    for (int i = 0; i < 50; i++)
        __asm__ volatile(DEAD("eax") DEAD("ecx") DEAD("edx") DEAD("ebx") DEAD("ebp") DEAD("esi") DEAD("r8d")
                             DEAD("r9d") DEAD("r10d") DEAD("r11d") DEAD("r12d") DEAD("r13d") DEAD("r14d")
                                 DEAD("r15d") "xorl %%eax, %%eax\n\txorl %%ecx, %%ecx\n\txorl %%edx, "
                                              "%%edx\n\txorl %%ebx, %%ebx\n\t"
                                              "xorl %%ebp, %%ebp\n\txorl %%esi, %%esi\n\txorl %%r8d, "
                                              "%%r8d\n\txorl %%r9d, %%r9d\n\t"
                                              "xorl %%r10d, %%r10d\n\txorl %%r11d, %%r11d\n\txorl %%r12d, "
                                              "%%r12d\n\txorl %%r13d, %%r13d\n\t"
                                              "xorl %%r14d, %%r14d\n\txorl %%r15d, %%r15d"
                         :
                         : "D"(p)
                         : "rax", "rcx", "rdx", "rbx", "rbp", "rsi", "r8", "r9", "r10", "r11", "r12", "r13",
                           "r14", "r15", "memory", "cc");
}

int main(int argc, char **argv)
{
    volatile int *p = calloc(1, 1777), *q = calloc(1, 1888);
    (void)argv;
    signal(SIGSEGV, fault);
    dead(q);
    printf("%d\n", faults(p));
    fflush(stdout);
    if (argc > 1)
        __builtin_trap();
    return 0;
}
