/* 1000 times: two loads, a read-modify-write... counted in cases_accesses.py: loads of 8 bytes 3000 (two plain, one of
 * the addition), stores 1000; then 500 copies of 16 bytes. */
        .intel_syntax noprefix
        .section .bss
        .balign 64
a:      .skip 16384
        .text
        .globl _start
_start:
        lea rbx, a[rip]
        mov ecx, 1000
1:      mov rax, [rbx + rcx * 8]
        mov rdx, [rbx + rcx * 8 + 8]
        add [rbx + rcx * 8 + 16], rax
        dec ecx
        jnz 1b
        mov ecx, 500
2:      movups xmm0, [rbx + rcx]
        movups [rbx + rcx + 8192], xmm0
        dec ecx
        jnz 2b
        mov eax, 60
        xor edi, edi
        syscall
