/* The DynamoRIO client: memtrace's engine for unmodified x86-64 programs that run on the processor itself. A
 * thin layer between DynamoRIO and the core (core.h); what is known of machine code is in machine/.
 *
 * Code that is about to be executed is copied into DynamoRIO's cache; what is inserted there is decided once
 * for each block (plan.h). Records are as the other engines on machine code make them. */
#ifndef MT_HOST_DYNAMORIO_CLIENT_H
#define MT_HOST_DYNAMORIO_CLIENT_H
#include "dr_api.h"
#include "drmgr.h"
#include "drreg.h"
#include "drutil.h"
#include "drwrap.h"
#include "core.h"
#include "../machine/baton.h"
#include "../machine/calls.h"
#include "../machine/insns.h"
#include "../machine/syscalls.h"

/* A window of a block, and what a gather needs. */
enum { MT_SPARE = 2 * MT_CORE_SLACK };

/* One for each thread of the program, known to its code by a slot of DynamoRIO's segment (mt_client.slot: the
 * address of `aside` or of the core's struct). */
struct mt_client_thread {
    /* Stands in for the core's struct when the core has no room, wants to look at each access, or does not
     * trace this thread: entries go to `spare` and from there, at the next look, one by one to the core. */
    struct mt_core_thread aside;
    struct mt_host_entry spare[MT_SPARE];
    struct mt_core_thread **slot;  /* mt_client.slot of this thread */
    uint64_t uncounted;            /* stands in for the core's number of accesses left out */
    struct mt_core_thread *core;   /* NULL: the thread is not traced */
    struct mt_baton_hand hand;     /* atomic mode by turns */
    struct mt_client_thread *next; /* of those that ended */
    struct mt_calls calls;
    struct mt_syscall syscall;
    uint64_t inside_ns; /* since when it may not have left DynamoRIO's cache (leave.c); 0: not known */
    uint32_t calls_inside;
    /* The place in copied code where a signal came last (NULL: not there), and what of cur it leaves to do.
     */
    const byte *stopped;
    int filled;
    const struct mt_insn *swap; /* a compare-and-swap under way */
    uint64_t swap_address;
    uint32_t swaps, asked;             /* by turns: how many there were; 1: others asked for the turn */
    uint64_t address[MT_X86_OPERANDS]; /* of the instruction's operands (insn and atomic mode) */
};

struct mt_client {
    struct mt_core_options options;
    enum mt_core_mode mode;
    int turns; /* atomic and insn mode into a container: one thread at a time, and no locks (turns.c) */
    int field; /* drmgr's, of struct mt_client_thread */
    reg_id_t segment;   /* DynamoRIO's thread-local memory */
    uint slot, back;    /* words of it: which struct (above); where mt_client.look returns to; */
    uint address, site; /* a compare-and-swap's, until it is known what it did */
    uint left;          /* where accesses that are left out are counted (mt_core_left) */
    byte *look;         /* code that makes room and jumps to *back */
    process_id_t process;
    uint32_t forked; /* this is a child: nothing is traced */
};
extern struct mt_client mt_client;

/* Code appends entries itself. */
static inline int mt_client_appends(void)
{
    return mt_client.mode == MT_CORE_MAT || mt_client.turns;
}
struct mt_client_thread *mt_client_thread(void *drcontext);
/* Hands what waits in `spare` to the core, and chooses where the next entries go. */
void mt_client_look(struct mt_client_thread *t);

/* turns.c: whose turn it is. The calling thread's `t` waits until it has the turn; lets others have theirs,
 * if they asked, and comes back; gives it away. Nothing where there are no turns. */
void mt_turn_start(void);
void mt_turn_hold(struct mt_client_thread *t);
void mt_turn_yield(struct mt_client_thread *t);
void mt_turn_leave(struct mt_client_thread *t);
/* At the program's end: for some tenths of a second at most. */
void mt_turn_last(struct mt_client_thread *t);

/* leave.c: at the end of a function that code calls: the thread leaves DynamoRIO's cache at its next probe,
 * if it did not for a while. Whether it is about to; whether a signal is that. */
void mt_leave_start(void);
void mt_leave_stop(void);
void mt_leave_sometimes(struct mt_client_thread *t);
int mt_leave_asked(const struct mt_client_thread *t);
int mt_leave_is(const struct mt_client_thread *t, const dr_siginfo_t *info);

/* client.c: starts the thread that writes, once the program runs. */
void mt_client_worker(void);

/* block.c: one access, whatever --library says. */
void mt_client_record(struct mt_client_thread *t, const struct mt_core_operand *o);

/* block.c: what is put into code. */
void mt_insert_start(void);
void mt_insert_stop(void);

/* functions.c: allocators, routines, annotations. `found` only takes note, for mt_modules_start. */
void mt_functions_found(const struct mt_watch *w);
void mt_functions_wrap(void);

/* process.c: loads that are no code's (their operands have no site), for the code at `ip`. */
void mt_client_others(struct mt_client_thread *t, const struct mt_core_operand *o, unsigned n, uint64_t ip);

/* process.c: threads, system calls, signals, forks. */
void mt_process_start(void);
/* In each thread: what isdigit, sscanf and their like need. */
void mt_process_ctype(void);
#endif
