/* System calls of the guest that change its address space, its program (exec) or its signal handlers. */
#ifndef MT_HOST_MACHINE_SYSCALLS_H
#define MT_HOST_MACHINE_SYSCALLS_H
#include <stdint.h>
#include "../core/core.h"

struct mt_syscall {
    int64_t number; /* -1: none under way */
    uint64_t args[6];
    uint64_t site;
    int silent; /* 1: not the program's, no events */
};

/* Takes note of a system call at `site`; the caller sets s->silent. */
void mt_syscall_enter(struct mt_syscall *s, struct mt_core_thread *t, int64_t number, const uint64_t args[6],
                      uint64_t site);
/* Handles exec in a process that is no longer traced, which only the engine knows. */
void mt_syscall_in_child(int64_t number, const uint64_t args[6]);
/* Fills `o` with operands (without a site) that the kernel reads for such a call (write, send and the
 * like). Returns their number, 0 after the last ones. *at is 0 at first. */
unsigned mt_syscall_reads(int64_t number, const uint64_t args[6], uint64_t *at,
                          struct mt_core_operand o[MT_CORE_OPERANDS]);
/* Returns the site for loads made by something else for the code at `ip`. */
uint32_t mt_syscall_site(uint64_t ip);
/* Takes note of the return; enter may be missing. */
void mt_syscall_return(struct mt_syscall *s, struct mt_core_thread *t, int64_t number, int64_t result);
#endif
