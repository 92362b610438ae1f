/* What the guest asks the kernel for that matters here: its address space, exec, handlers of signals. */
#ifndef MT_HOST_MACHINE_SYSCALLS_H
#define MT_HOST_MACHINE_SYSCALLS_H
#include <stdint.h>
#include "../core/core.h"

struct mt_syscall {
    int64_t number; /* -1: none under way */
    uint64_t args[6];
    uint64_t site;
    int silent; /* not the program's: no events */
};

/* `site`: where the program asked for it; s->silent is the caller's. */
void mt_syscall_enter(struct mt_syscall *s, struct mt_core_thread *t, int64_t number, const uint64_t args[6],
                      uint64_t site);
/* In a process that is not traced any more: exec of what only the engine knows. */
void mt_syscall_in_child(int64_t number, const uint64_t args[6]);
/* What the kernel reads for such a call (write, send and their kin): operands of `o` without a site; returns
 * how many, and 0 once there are no more. *at is 0 at first. */
unsigned mt_syscall_reads(int64_t number, const uint64_t args[6], uint64_t *at,
                          struct mt_core_operand o[MT_CORE_OPERANDS]);
/* The site of what something else loads for the code at `ip`. */
uint32_t mt_syscall_site(uint64_t ip);
/* May come without an enter. */
void mt_syscall_return(struct mt_syscall *s, struct mt_core_thread *t, int64_t number, int64_t result);
#endif
