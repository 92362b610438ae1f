/* Turns an engine's events (an instruction begins; bytes were accessed) into records of the core. All
 * functions are called by the thread itself. */
#ifndef MT_HOST_QEMU_RECORD_H
#define MT_HOST_QEMU_RECORD_H
#include "../machine/baton.h"
#include "../machine/calls.h"
#include "../machine/insns.h"
#include "../machine/syscalls.h"

struct mt_thread {
    struct mt_core_thread *core;
    struct mt_calls calls;
    struct mt_syscall syscall;
    const uint64_t *registers; /* rax rcx rdx rbx rsp rbp rsi rdi r8..r15 rip; NULL: unknown */
    /* an operand that comes in parts */
    const struct mt_operand *part;
    uint64_t part_at;
    uint32_t part_left;
    const struct mt_insn *pair; /* two loads: the second operand's was seen, at pair_at */
    uint64_t pair_at;
    const struct mt_insn *executed; /* insn mode: the last instruction */
    unsigned taken;                 /* its operands seen so far, by number */
    /* atomic mode */
    struct mt_baton_hand hand;
    const struct mt_insn *pending; /* `count` of its operands were seen */
    unsigned count;
    struct mt_core_operand operand[MT_X86_OPERANDS];
    /* Value before a compare-and-swap, read at that address. */
    uint64_t old_at, old[2];
    int old_known;
    uint64_t copy[17]; /* copy of `registers` where they must be requested */
};

/* Each function takes one access reported by qemu; `store`: it writes. A read-modify-write of an operand
 * arrives as a load and a store; a locked one with several threads as one store. */

/* mat and insn mode, before a compare-and-swap with several threads. `addressed`: the registers that give
 * the first operand's address are valid. */
void mt_cas_begin(struct mt_thread *t, const struct mt_insn *n, int addressed);
void mt_mat_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                   int store);

/* Insn mode. */
/* Starts an instruction. `counted`: the registers are valid. */
void mt_insn_begin(struct mt_thread *t, const struct mt_insn *n, int counted);
void mt_insn_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                    int store);

/* Records the loads that the kernel will make for a system call. */
void mt_record_reads(struct mt_thread *t, int64_t number, const uint64_t args[6], uint64_t ip);

/* Records the program's memory that a copy of the CUDA runtime reads: address, bytes. */
void mt_record_copied(struct mt_thread *t, const uint64_t args[3]);

/* Atomic mode. */
void mt_atomic_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                      int store);
#endif
