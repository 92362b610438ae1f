/* Code that is written while it runs, in a page that is written and executed: by code elsewhere, between its
 * own runs. The stores into that page stand between other accesses, with every register in use. Prints what
 * was wrong and a sum. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUNDS = 300, REGISTERS = 16, RBX = 3, RSP = 4, RSI = 6 };

typedef void (*code)(const uint32_t *from, uint32_t *to);

__attribute__((used)) static uint64_t before[REGISTERS], after[REGISTERS];

#define MOVE(n, r) "mov before+8*" #n "(%%rip), %%" #r "\n\t"
#define KEEP(n, r) "mov %%" #r ", after+8*" #n "(%%rip)\n\t"
#define ALL(f)                                                                                               \
    f(0, rax) f(1, rcx) f(2, rdx) f(3, rbx) f(5, rbp) f(6, rsi) f(7, rdi) f(8, r8) f(9, r9) f(10, r10)       \
        f(11, r11) f(12, r12) f(13, r13) f(14, r14) f(15, r15)

/* rbx: the page with code; rsi: memory. Eight accesses of memory and two stores beside the code. */
static void registers(void)
{
    __asm__ volatile(
        "push %%rbp\n\tpush %%rbx\n\t" ALL(MOVE) "jmp 1f\n"
                                                 "1:\n\t"
                                                 "mov (%%rsi), %%rax\n\t"
                                                 "mov 8(%%rsi), %%rcx\n\t"
                                                 "add %%rax, 16(%%rsi)\n\t"
                                                 "mov %%r8, (%%rbx)\n\t"
                                                 "mov 24(%%rsi), %%rdx\n\t"
                                                 "mov %%r9, 32(%%rsi)\n\t"
                                                 "mov %%r10, 8(%%rbx)\n\t"
                                                 "mov %%r11, 40(%%rsi)\n\t"
                                                 "cmp %%r8, %%r9\n\t"
                                                 "mov %%r12, 48(%%rsi)\n\t"
                                                 "jmp 2f\n"
                                                 "2:\n\t" ALL(KEEP) "pop %%rbx\n\tpop %%rbp\n\t" ::
                                                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10",
                                                       "r11", "r12", "r13", "r14", "r15", "memory", "cc");
}

static int differ(void)
{
    int wrong = 0;
    before[0] = 1000;
    before[1] = 1001;
    before[2] = 1003;
    for (int i = 0; i < REGISTERS; i++)
        wrong += i != RSP && after[i] != before[i];
    return wrong;
}

int main(void)
{
    unsigned char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* mov eax, [rdi]; add eax, K; mov [rsi], eax; ret */
    static const unsigned char start[] = {0x8b, 0x07, 0x05, 0, 0, 0, 0, 0x89, 0x06, 0xc3};
    uint32_t *from = malloc(1777), *to = malloc(1888);
    uint64_t *memory = malloc(1999), sum = 0;
    int wrong = 0;
    if (page == MAP_FAILED)
        return 1;
    memcpy(page, start, sizeof start);
    from[0] = 7;
    for (int i = 0; i < 4; i++)
        memory[i] = 1000 + (uint64_t)i;
    for (int k = 0; k < ROUNDS; k++) {
        page[3] = (unsigned char)k;
        page[4] = (unsigned char)(k >> 8);
        ((code)page)(from, to);
        sum += to[0] - (uint32_t)k; /* 7 */
        for (int i = 0; i < REGISTERS; i++)
            before[i] = 0x1111111111111111u * (uint64_t)i + (uint64_t)k;
        before[RBX] = (uint64_t)(uintptr_t)page + 256;
        before[RSI] = (uint64_t)(uintptr_t)memory;
        registers();
        uint64_t beside[2];
        memcpy(beside, page + 256, sizeof beside);
        wrong += beside[0] != before[8] || beside[1] != before[10];
        wrong += differ();
    }
    printf("wrong %d sum %llu added %llu\n", wrong, (unsigned long long)sum, (unsigned long long)memory[2]);
    return wrong != 0;
}
