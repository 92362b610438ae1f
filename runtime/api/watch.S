/* A call under MEMTRACE_CHECK=1: mt_entry_resolve returns this code in place of the function. Unlike the jump
 * of first.S, it calls the function with its arguments and passes the result to mt_entry_end. Stack arguments
 * are copied: 64 bytes at most, for a cudaIpcMemHandle_t. */
#define WORDS 8
	.text
	.globl mt_entry_watch
	.hidden mt_entry_watch
	.type mt_entry_watch, @function
mt_entry_watch:
	.cfi_startproc
	endbr64
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	andq $-16, %rsp
	subq $(192 + 8 * WORDS), %rsp
	movq %rdi, (0 + 8 * WORDS)(%rsp)
	movq %rsi, (8 + 8 * WORDS)(%rsp)
	movq %rdx, (16 + 8 * WORDS)(%rsp)
	movq %rcx, (24 + 8 * WORDS)(%rsp)
	movq %r8, (32 + 8 * WORDS)(%rsp)
	movq %r9, (40 + 8 * WORDS)(%rsp)
	movups %xmm0, (64 + 8 * WORDS)(%rsp)
	movups %xmm1, (80 + 8 * WORDS)(%rsp)
	movups %xmm2, (96 + 8 * WORDS)(%rsp)
	movups %xmm3, (112 + 8 * WORDS)(%rsp)
	movq 8(%rbp), %rdi
	call mt_entry_begin
	movq %rax, %r11
	leaq 16(%rbp), %rsi
	movq %rsp, %rdi
	movl $WORDS, %ecx
	rep movsq
	movq (0 + 8 * WORDS)(%rsp), %rdi
	movq (8 + 8 * WORDS)(%rsp), %rsi
	movq (16 + 8 * WORDS)(%rsp), %rdx
	movq (24 + 8 * WORDS)(%rsp), %rcx
	movq (32 + 8 * WORDS)(%rsp), %r8
	movq (40 + 8 * WORDS)(%rsp), %r9
	movups (64 + 8 * WORDS)(%rsp), %xmm0
	movups (80 + 8 * WORDS)(%rsp), %xmm1
	movups (96 + 8 * WORDS)(%rsp), %xmm2
	movups (112 + 8 * WORDS)(%rsp), %xmm3
	call *%r11
	movl %eax, %edi
	movq %rax, (8 * WORDS)(%rsp)
	call mt_entry_end
	movq (8 * WORDS)(%rsp), %rax
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size mt_entry_watch, . - mt_entry_watch
	.section .note.GNU-stack,"",@progbits
