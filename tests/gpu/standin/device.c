/* The first library of the stand-in's namespace, with libmemtrace.so behind it. There libmemtrace.so is in
 * everybody's sight, and RTLD_GLOBAL, of which glibc knows nothing in such a namespace, is left out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

__attribute__((visibility("default"))) void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(name, flags & ~RTLD_GLOBAL);
}

/* On the CPU device lanes are together that came the same way. Hardware runs lanes of different branches
 * together in a function that both call (seen on an H100): here lanes are together that are at the same place
 * of one function, whoever called it. The runtime's own function looks at its callers by their frames: it is
 * shown one of ours, with the return address of the first of them and none behind. */
__attribute__((visibility("hidden"), used)) uint32_t (*device_activemask)(void);
__asm__(".text\n.globl mt_cpu_activemask\n.type mt_cpu_activemask, @function\n"
        "mt_cpu_activemask:\n\t"
        "pushq %rbp\n\tpushq 8(%rsp)\n\tpushq $0\n\tmovq %rsp, %rbp\n\t"
        "call *device_activemask(%rip)\n\t"
        "addq $16, %rsp\n\tpopq %rbp\n\tret\n"
        ".size mt_cpu_activemask, . - mt_cpu_activemask\n");

/* Both C libraries count their keys from 0 and keep the values in one place: these are the program's. Runs
 * first
 * (-z initfirst). */
__attribute__((constructor)) static void device_begin(void)
{
    pthread_key_t key;
    device_activemask = (uint32_t (*)(void))dlsym(RTLD_NEXT, "mt_cpu_activemask");
    for (int i = 0; i < 64; i++)
        pthread_key_create(&key, NULL);
}
