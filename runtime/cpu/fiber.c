/* The switch between device threads: callee-saved registers and the stack pointer, x86-64 System V. The SSE
 * and x87 control words are not saved: builtins that change the rounding mode
 * restore it before they return. */
#include "scheduler.h"

__asm__(".text\n"
        ".p2align 4\n"
        ".globl mt_fiber_switch\n"
        ".hidden mt_fiber_switch\n"
        ".type mt_fiber_switch,@function\n"
        "mt_fiber_switch:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    .cfi_adjust_cfa_offset 48\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    movq %rdx, %rax\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    .cfi_adjust_cfa_offset -48\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size mt_fiber_switch, .-mt_fiber_switch\n"
        ".p2align 4\n"
        ".globl mt_fiber_call\n"
        ".hidden mt_fiber_call\n"
        ".type mt_fiber_call,@function\n"
        "mt_fiber_call:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    leaq -256(%rdi), %rsp\n"
        "    andq $-64, %rsp\n"
        "    movq %rdx, %rdi\n"
        "    movl %ecx, %eax\n"
        "    movq %rsi, %rdx\n"
        "    movl %eax, %esi\n"
        "    call *%rdx\n"
        "    leave\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size mt_fiber_call, .-mt_fiber_call\n"
        /* First code of a new fiber: a call with a clean frame, which never returns. */
        ".p2align 4\n"
        ".type mt_fiber_boot,@function\n"
        "mt_fiber_boot:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n"
        "    xorl %ebp, %ebp\n"
        "    andq $-16, %rsp\n"
        "    call mt_fiber_main\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size mt_fiber_boot, .-mt_fiber_boot\n");

extern const char mt_fiber_boot[] __attribute__((visibility("hidden")));

void *mt_fiber_prepare(struct mt_stack *stack)
{
    void **sp = (void **)stack;
    *--sp = NULL; /* end of the chain for unwinders */
    *--sp = (void *)(uintptr_t)mt_fiber_boot;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}
