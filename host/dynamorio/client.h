/* The DynamoRIO client: memtrace's engine for unmodified x86-64 programs that run directly on the processor.
 * A thin layer between DynamoRIO and the core (core.h); machine/ knows machine code. Code about to execute is
 * copied into DynamoRIO's cache; insertions are planned once per block. Records equal those of the other
 * engines for machine code. */
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
#include "../machine/modules.h"
#include "../machine/syscalls.h"

/* Room for a window of a block, and for a gather. */
enum { MT_SPARE = 2 * MT_CORE_SLACK };

/* State of a thread of the program, known to its code by a slot of DynamoRIO's segment (mt_client.slot:
 * the address of `aside` or of the core's struct). */
struct mt_client_thread {
    /* Replaces the core's struct if the core has no room, must see each access, or does not trace this
     * thread: entries go to `spare`, and from there one by one to the core at the next look. */
    struct mt_core_thread aside;
    struct mt_host_entry spare[MT_SPARE];
    struct mt_core_thread **slot;  /* mt_client.slot of this thread */
    uint64_t uncounted;            /* replaces the core's count of accesses left out */
    struct mt_core_thread *core;   /* NULL: the thread is not traced */
    struct mt_baton_hand hand;     /* state of its turn in atomic mode */
    struct mt_client_thread *next; /* next ended thread */
    struct mt_calls calls;
    struct mt_syscall syscall;
    uint64_t inside_ns; /* time since which it may not have left DynamoRIO's cache; 0: unknown */
    uint32_t calls_inside;
    /* Address in copied code of the last signal (NULL: not in it), and the entries at cur that it leaves
     * to handle. */
    const byte *stopped;
    int filled;
    const struct mt_insn *swap; /* compare-and-swap under way */
    uint64_t swap_address;
    uint32_t swaps, asked;             /* by turns: number of swaps; 1: others asked for the turn */
    uint64_t address[MT_X86_OPERANDS]; /* operand addresses of the instruction (insn and atomic mode) */
};

struct mt_client {
    struct mt_core_options options;
    enum mt_core_mode mode;
    int turns;          /* atomic and insn mode into a compact trace: one thread at a time, without locks */
    int field;          /* drmgr's field with the struct mt_client_thread */
    reg_id_t segment;   /* register of DynamoRIO's thread-local memory */
    uint slot, back;    /* its words: struct in use (above), return address of mt_client.look, */
    uint address, site; /* address and site of a compare-and-swap until its result is known */
    uint left;          /* counter of accesses left out (mt_core_left) */
    byte *look;         /* code that makes room and jumps to *back */
    process_id_t process;
    uint32_t forked; /* 1: this is a child, nothing is traced */
};

extern struct mt_client mt_client;

/* Returns 1 if inserted code appends entries itself. */
static inline int mt_client_appends(void)
{
    return mt_client.mode == MT_CORE_MAT || mt_client.turns;
}

#endif
