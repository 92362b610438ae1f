/* Turns an engine's events (an instruction begins; bytes were accessed) into records of the core. All
 * functions are called by the thread itself. */
#ifndef MT_HOST_QEMU_RECORD_H
#define MT_HOST_QEMU_RECORD_H

#include "../core/core.h"
#include "../machine/baton.h"
#include "../machine/calls.h"
#include "../machine/modules.h"
#include "../machine/syscalls.h"

#include <stdint.h>

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

/* The guest's threads, and their turns in atomic mode. All functions are called by the thread itself. */

enum { MT_VCPUS = 65536 };

struct mt_plugin_state {
    struct mt_core_options options;
    enum mt_core_mode mode;
    int forked;   /* 1: this is a child, nothing is traced */
    int refused;  /* 1: a thread could not be traced */
    int parallel; /* 1: there is, or was, more than one */
};
extern struct mt_plugin_state mt_plugin;

extern struct mt_thread *mt_threads[MT_VCPUS];    /* NULL: not started yet */
extern struct mt_core_thread *mt_cores[MT_VCPUS]; /* the core's object of each, for the fast path */

/* NULL: it cannot be traced. */
struct mt_thread *mt_thread_start(unsigned vcpu);
void mt_thread_exit(unsigned vcpu);

/* Returns 1 in atomic mode once there are several threads. */
static inline int mt_takes_turns(void)
{
    return mt_plugin.mode == MT_CORE_ATOMIC && mt_plugin.parallel && !mt_plugin.options.test;
}
/* Gives waiting threads their turn and waits for the next one. */
void mt_turn_wait(struct mt_thread *t);
/* For mt_baton_stolen. */
void mt_turn_stolen(struct mt_baton_hand *from);

/* Handles the end of the process; `killed`: by a signal. */
void mt_plugin_stop(int killed);
void mt_plugin_death(void);
/* For pthread_atfork. */
void mt_plugin_in_child(void);

/* --signal: SIGUSR1 turns tracing on, SIGUSR2 off. Also the end of a program killed by a signal. */

/* Called once at the first translation, after qemu has set its own handlers. `switching`: --signal was
 * given; `death` is called before a signal ends the process. */
void mt_signals_start(int switching, void (*death)(void));
/* Takes note of a signal handler set by the guest (0: default, 1: ignore, else an address); ours stays in
 * front. */
void mt_signals_changed(int signal, uint64_t handler);

/* Instructions that qemu cannot run: it raises SIGILL there without naming the instruction. */

/* For `ip`, of whose instruction qemu translated only `size` bytes: reports once if Zydis knows it and qemu
 * does not; the program is about to reach it. */
void mt_refused_look(uint64_t ip, unsigned size, enum mt_core_mode mode);

/* ---- The plugin's arguments ---- */

/* Parses qemu's "name=value" words into options. Their strings live as long as the process. Returns 0, or
 * -1 with *why set to a sentence for the user. */
int mt_arguments_parse(struct mt_core_options *o, int argc, char **argv, char *why, unsigned size);

/* A thread of our own inside qemu, for mt_core_engine.spawn and join. It takes no signals, as those are
 * the guest's. */

/* Returns 0 or an errno value. */
int mt_worker_spawn(void (*run)(void *), void *arg, void **handle);
void mt_worker_join(void *handle);

#endif
