/* Entries that instrumented code calls in the preserve_most convention: all general registers but r11 survive.
 * Vector registers the caller has saved. */
    .text
.macro entry name, target
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    andq $-16, %rsp
    cld
    call \target
    leaq -64(%rbp), %rsp
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rax
    popq %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

    entry __mt_host_record, mt_record
    entry __mt_host_slow, mt_slow
    entry __mt_host_drain, mt_drain
    entry __mt_host_begin, mt_begin
    entry __mt_host_end, mt_end
    .section .note.GNU-stack, "", @progbits
