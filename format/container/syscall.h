/* System call without the C library: the traced program may have replaced the library's function, and errno
 * belongs to the program. */
#ifndef MT_BASE_SYSCALL_H
#define MT_BASE_SYSCALL_H

/* Returns the kernel's result: -errno on failure. x86-64. */
static inline long mt_base_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}
#endif
