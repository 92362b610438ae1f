/* From what an engine sees (this instruction begins; this much was accessed there) to records of the core.
 * All functions are called by the thread itself. */
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
    const uint64_t *registers; /* rax rcx rdx rbx rsp rbp rsi rdi r8..r15 rip; NULL: not known */
    /* an operand that comes in parts */
    const struct mt_operand *part;
    uint64_t part_at;
    uint32_t part_left;
    const struct mt_insn *pair; /* two loads: one was seen, the second operand's, at pair_at */
    uint64_t pair_at;
    const struct mt_insn *executed; /* insn mode: the last one */
    unsigned taken;                 /* and its operands that came, by number */
    /* atomic mode */
    struct mt_baton_hand hand;
    const struct mt_insn *pending; /* of its operands, `count` were seen */
    unsigned count;
    struct mt_core_operand operand[MT_X86_OPERANDS];
    /* value before a compare-and-swap, read at that address */
    uint64_t old_at, old[2];
    int old_known;
    uint64_t copy[17]; /* room for `registers` where they must be asked for */
};

/* 1: this is an access of its own; 0: it goes on with the operand's part before. */
static inline int mt_first_part(struct mt_thread *t, const struct mt_operand *o, uint64_t address,
                                uint32_t bytes)
{
    if (o->parts == MT_X86_ONE || o->parts == MT_X86_EACH)
        return 1;
    if (t->part == o) {
        if (o->parts == MT_X86_BLOCK && address != t->part_at && address - t->part_at < o->size)
            return 0;
        if (o->parts == MT_X86_WIDE && t->part_left && address == t->part_at) {
            t->part_at += bytes;
            t->part_left -= bytes < t->part_left ? bytes : t->part_left;
            return 0;
        }
    }
    t->part = o;
    t->part_at = o->parts == MT_X86_WIDE ? address + bytes : address;
    t->part_left = bytes < o->size + o->spare ? o->size + o->spare - bytes : 0;
    return 1;
}

/* Two loads (cmps)? qemu makes that of the second operand first. */
static inline int mt_is_pair(const struct mt_insn *n)
{
    return n->x86.count == 2 && n->operand[0].op == MT_HOST_LOAD && n->operand[1].op == MT_HOST_LOAD;
}

/* The operand that is meant by an access of any other instruction. */
static inline const struct mt_operand *mt_which(const struct mt_insn *n, int store)
{
    if (n->x86.count < 2)
        return &n->operand[0];
    for (unsigned i = 0; i < n->x86.count; i++)
        if ((n->operand[i].op != MT_HOST_LOAD) == store)
            return &n->operand[i];
    return NULL;
}

/* Each of these takes one access that qemu reports; `store`: it writes. What reads and writes the same
 * operand comes as a load and a store, locked and with other threads about as a store. */

/* mat and insn mode, before a compare-and-swap when there are other threads. `addressed`: the registers that
 * give the first operand's address are up to date. */
void mt_cas_begin(struct mt_thread *t, const struct mt_insn *n, int addressed);
void mt_mat_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                   int store);

/* Insn mode. */
/* An instruction begins. `counted`: the registers are up to date. */
void mt_insn_begin(struct mt_thread *t, const struct mt_insn *n, int counted);
void mt_insn_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                    int store);

/* Atomic mode. */
void mt_atomic_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                      int store);
#endif
