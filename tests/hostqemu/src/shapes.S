/* Every shape of memory operand. What each instruction accesses comes after "@": r or w, an expression of symbols,
 * bytes; written by hand from the manual of the processor. After "@*": which bytes, in whatever pieces. Ends with exit(0). */
        .intel_syntax noprefix
        .section .bss
        .balign 4096
a:      .skip 4096
b:      .skip 4096
stack:  .skip 4096
top:
        .text
        .globl _start
_start:
        lea rsp, top[rip]
        lea rbx, a[rip]
        lea rdi, b[rip]
        mov ecx, 3
        /* sizes */
        mov byte ptr [rbx + 1], 7               #@ w a+1 1
        mov ax, [rbx + 2]                       #@ r a+2 2
        mov [rbx + rcx * 4], ecx                #@ w a+12 4
        mov rax, a + 16[rip]                    #@ r a+16 8
        movzx edx, byte ptr [rbx + 20]          #@ r a+20 1
        movaps xmm0, [rbx + 32]                 #@ r a+32 16
        movups [rbx + 51], xmm0                 #@ w a+51 16
        movq xmm1, qword ptr [rbx + 64]         #@ r a+64 8
        movss xmm2, dword ptr [rbx + 72]        #@ r a+72 4
        addps xmm2, [rbx + 80]                  #@ r a+80 16
        vmovdqu ymm3, [rbx + 96]                #@ r a+96 32
        vmovdqu [rbx + 135], ymm3               #@ w a+135 32
        /* the same instruction at addresses that overlap */
        lea rsi, [rbx + 256]
        mov edx, 3
1:      movups xmm4, [rsi]                      #@ r a+256 16; r a+264 16; r a+272 16
        add rsi, 8
        dec edx
        jnz 1b
        /* x87 */
        fld tbyte ptr [rbx + 304]               #@ r a+304 10
        fstp tbyte ptr [rbx + 320]              #@ w a+320 10
        fild word ptr [rbx + 336]               #@ r a+336 2
        fistp qword ptr [rbx + 344]             #@ w a+344 8
        fnstcw [rbx + 352]                      #@ w a+352 2
        fxsave [rbx + 512]                      #@ w a+512 512
        fxrstor [rbx + 512]                     #@ r a+512 512
        stmxcsr [rbx + 356]                     #@ w a+356 4
        /* state areas, by bytes: of the x87 part the control words, the last instruction's place and eight times ten;
         * mxcsr and its mask; xmm registers; header; upper halves of ymm registers */
        mov eax, 3                              # x87 and SSE
        xor edx, edx
        xsave [rbx + 2048]                      #@* w a+2048 6, w a+2056 16, w a+2080 10, w a+2096 10, w a+2112 10, w a+2128 10, w a+2144 10, w a+2160 10, w a+2176 10, w a+2192 10, w a+2072 8, w a+2208 256, r a+2560 8, w a+2560 8
        xrstor [rbx + 2048]                     #@* r a+2560 24, r a+2048 6, r a+2080 10, r a+2096 10, r a+2112 10, r a+2128 10, r a+2144 10, r a+2160 10, r a+2176 10, r a+2192 10, r a+2072 4, r a+2208 256
        mov eax, 2                              # SSE only: begins with mxcsr
        xsave [rbx + 3072]                      #@* w a+3096 8, w a+3232 256, r a+3584 8, w a+3584 8
        mov eax, 6                              # and AVX, whose part lies behind the header
        xsave [rbx + 3072]                      #@* w a+3096 8, w a+3232 256, r a+3584 8, w a+3584 8, w a+3648 256
        xrstor [rbx + 3072]                     #@* r a+3584 24, r a+3096 4, r a+3232 256, r a+3648 256
        /* read and write */
        add dword ptr [rbx + 400], 5            #@ r a+400 4, w a+400 4
        inc qword ptr [rbx + 408]               #@ r a+408 8, w a+408 8
        xchg [rbx + 416], rdx                   #@ r a+416 8, w a+416 8
        lock xadd [rbx + 424], rdx              #@ r a+424 8, w a+424 8
        lock or byte ptr [rbx + 433], 1         #@ r a+433 1, w a+433 1
        bts dword ptr [rbx + 440], ecx          #@ r a+440 4, w a+440 4
        mov edx, 70
        bts dword ptr [rbx + 440], edx          #@ r a+448 4, w a+448 4
        bt dword ptr [rbx + 440], edx           #@ r a+448 4
        shl word ptr [rbx + 456], 1             #@ r a+456 2, w a+456 2
        setc byte ptr [rbx + 458]               #@ w a+458 1
        /* compare and swap: writes, writes not */
        xor eax, eax
        mov edx, 1
        mov [rbx + 464], rax                    #@ w a+464 8
        lock cmpxchg [rbx + 464], rdx           #@ r a+464 8, w a+464 8
        xor eax, eax
        lock cmpxchg [rbx + 464], rdx           #@ r a+464 8
        xor eax, eax
        cmpxchg [rbx + 464], rdx                #@ r a+464 8
        cmpxchg [rbx + 464], rcx                #@ r a+464 8, w a+464 8
        xor eax, eax
        xor edx, edx
        cmpxchg8b [rbx + 472]                   #@ r a+472 8, w a+472 8
        mov eax, 99
        lock cmpxchg8b [rbx + 472]              #@ r a+472 8
        lea rbx, a[rip]
        push rbx                                #@ w top-8 8
        xor eax, eax
        xor edx, edx
        xor ecx, ecx
        cmpxchg16b [rbx + 480]                  #@ r a+480 16, w a+480 16
        inc edx
        lock cmpxchg16b [rbx + 480]             #@ r a+480 16
        pop rbx                                 #@ r top-8 8
        /* two operands */
        lea rsi, [rbx + 8]
        movsb                                   #@ r a+8 1, w b 1
        movsq                                   #@ r a+9 8, w b+1 8
        cmpsd                                   #@ r a+17 4, r2 b+9 4
        push qword ptr [rbx + 24]               #@ r a+24 8, w top-8 8
        pop qword ptr [rbx + 24]                #@ r top-8 8, w a+24 8
        /* strings, repeated */
        mov ecx, 3
        lea rdi, b[rip]
        rep stosd                               #@ w b 4; w b+4 4; w b+8 4
        mov ecx, 2
        lea rsi, [rbx + 3]
        rep movsb                               #@ r a+3 1, w b+12 1; r a+4 1, w b+13 1
        rep movsq                               # none: rcx is 0
        lodsb                                   #@ r a+5 1
        mov ecx, 5
        lea rdi, [rbx + 1001]
        mov byte ptr [rbx + 1003], 9            #@ w a+1003 1
        mov al, 9
        repne scasb                             #@ r a+1001 1; r a+1002 1; r a+1003 1
        /* the stack */
        push 5                                  #@ w top-8 8
        pushfq                                  #@ w top-16 8
        popfq                                   #@ r top-16 8
        pop rax                                 #@ r top-8 8
        call function                           #@ w top-8 8
        lea rax, function[rip]
        mov [rbx + 600], rax                    #@ w a+600 8
        call [rbx + 600]                        #@ r a+600 8, w top-8 8
        lea rbp, [rsp - 64]
        mov [rbp], rbx                          #@ w top-64 8
        leave                                   #@ r top-64 8
        lea rsp, top[rip]
        lea rbx, a[rip]
        /* elements; not accessed */
        vpcmpeqd ymm5, ymm5, ymm5
        vpxor ymm6, ymm6, ymm6
        vpgatherdd ymm7, [rbx + ymm6 * 4], ymm5 #@ r a 4, r a 4, r a 4, r a 4, r a 4, r a 4, r a 4, r a 4
        vpcmpeqd xmm5, xmm5, xmm5
        vpslldq xmm5, xmm5, 8
        vmaskmovps xmm7, xmm5, [rbx + 64]       #@ r a+64 16
        vmaskmovps [rbx + 64], xmm5, xmm7       #@ w a+72 4, w a+76 4
        lea rax, [rbx + 4]
        nop dword ptr [rbx + 4]
        prefetcht0 [rbx + 4]
        cmove rdx, [rbx + 700]                  #@ r a+700 8
        /* parts of a vector, of which qemu reads the whole; one after the other at addresses that overlap */
        lea rsi, [rbx + 704]
        mov edx, 3
1:      vfmadd231sd xmm1, xmm0, [rsi]           #@ r a+704 8; r a+712 8; r a+720 8
        vfnmsub132ss xmm1, xmm0, [rsi + 4]      #@ r a+708 4; r a+716 4; r a+724 4
        add rsi, 8
        dec edx
        jnz 1b
        vfmadd231pd ymm1, ymm0, [rbx + 736]     #@ r a+736 32
        cvtdq2pd xmm0, [rbx + 768]              #@ r a+768 8
        vcvtdq2pd xmm0, [rbx + 776]             #@ r a+776 8
        vcvtdq2pd ymm0, [rbx + 784]             #@ r a+784 16
        vpslld ymm0, ymm0, [rbx + 800]          #@ r a+800 16
        vpsraw ymm0, ymm0, [rbx + 816]          #@ r a+816 16
        vpsrlq xmm0, xmm0, [rbx + 832]          #@ r a+832 16
        vpsllvd ymm0, ymm0, [rbx + 832]         #@ r a+832 32
        /* packed decimals, byte by byte; levels of a frame */
        fninit
        fld1
        fbstp [rbx + 864]                       #@ w a+873 1, w a+864 1, w a+865 1, w a+866 1, w a+867 1, w a+868 1, w a+869 1, w a+870 1, w a+871 1, w a+872 1
        fbld [rbx + 864]                        #@ r a+872 1, r a+871 1, r a+870 1, r a+869 1, r a+868 1, r a+867 1, r a+866 1, r a+865 1, r a+864 1, r a+873 1
        lea rbp, [rbx + 904]
        enter 16, 0                             #@ w top-8 8
        lea rsp, top[rip]
        lea rbp, [rbx + 904]
        enter 16, 3                             #@ w top-8 8, r a+896 8, w top-16 8, r a+888 8, w top-24 8, w top-32 8
        lea rsp, top[rip]
        mov eax, 60
        xor edi, edi
        syscall
function:
        ret                                     #@ r top-8 8; r top-8 8
