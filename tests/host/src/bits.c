/* Strings of bits in memory (the register says which word), and enter with its frame in a block of the heap.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5 };

int main(void)
{
    uint64_t *bits = calloc(1, 1777);
    char *stack = calloc(1, 1888), *state = aligned_alloc(64, 4160);
    for (int i = 65; i < 72; i++) /* the header's words that xsave leaves alone, and xrstor wants to be 0 */
        ((volatile uint64_t *)state)[i] = 0;
    for (int i = 0; i < ROUNDS; i++) {
        __asm__ volatile("mov $1000, %%eax\n\t"
                         "bt %%rax, (%0)\n\t" /* word 15 of 8 bytes */
                         "mov $77, %%eax\n\t"
                         "lock bts %%eax, (%0)\n\t" /* word 2 of 4 bytes */
                         "mov $-64, %%rax\n\t"
                         "btc %%rax, 0x200(%0)\n\t" /* 8 bytes before 512 */
                         "mov $33, %%ax\n\t"
                         "btr %%ax, (%0)\n\t" /* word 2 of 2 bytes */
                         "btsq $7, 64(%0)\n\t"
                         :
                         : "r"(bits)
                         : "rax", "memory", "cc");
        __asm__ volatile("mov %%rsp, %%rbx\n\t"
                         "lea 256(%0), %%rsp\n\t"
                         "enter $32, $0\n\t"
                         "leave\n\t"
                         "mov %%rbx, %%rsp\n\t"
                         :
                         : "r"(stack)
                         : "rbx", "memory");
        __asm__ volatile("xor %%edx, %%edx\n\t"
                         "mov $7, %%eax\n\t"
                         "xsave (%0)\n\t" /* x87, SSE, AVX: to byte 832 */
                         "mov $3, %%eax\n\t"
                         "xsave (%0)\n\t"
                         "xrstor (%0)\n\t" /* to 576: the header's end */
                         :
                         : "r"(state)
                         : "rax", "rdx", "memory");
    }
    printf("%d\n", ROUNDS);
    return 0;
}
