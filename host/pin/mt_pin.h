/* The Pin tool: a thin layer between Pin and the core (core.h). It knows what Pin reports: memory operands
 * of an instruction, entries and returns of functions, and threads. Everything else is the core's.
 * Instrumentation callbacks run one at a time under Pin's client lock, analysis functions concurrently in
 * the program's threads. */
#ifndef MT_PIN_H
#define MT_PIN_H
#include "mt_pin_compat.h"
extern "C" {
#include "core.h"
}

/* A call that has not returned. */
struct mt_pin_frame {
    ADDRINT sp; /* address of the return address at entry */
    ADDRINT ip; /* address in the call instruction */
    UINT32 what, function;
    BOOL counted; /* an allocator not called by another one */
    ADDRINT args[3];
};

struct mt_pin_thread {
    ADDRINT watch; /* watched returns have this stack pointer or a higher one; all bits set: none */
    struct mt_core_thread *core; /* NULL: this thread is not traced */
    struct mt_pin_frame *frames;
    UINT32 count, room, allocators;
    ADDRINT syscall, syscall_args[3], syscall_ip;
};

extern REG mt_pin_register;           /* register with the running thread's struct mt_pin_thread, never
                                       * NULL */
extern enum mt_core_mode mt_pin_mode; /* mode of this run */

/* Ends the previous access; called in every analysis function and callback of atomic mode. */
static inline VOID mt_pin_finish(struct mt_pin_thread *s)
{
    if (mt_pin_mode == MT_CORE_ATOMIC && s->core)
        mt_core_atomic_end(s->core, NULL, 0, 0);
}

/* mt_pin_threads.cpp: threads, system calls, signals, fork */
VOID mt_pin_threads_init(const struct mt_core_options *o);

/* mt_pin_sites.cpp */
struct mt_pin_operand {
    UINT32 memop;                  /* index among the memory operands */
    UINT32 size;                   /* 0: known when it executes, or per element */
    BOOL scattered, reads, writes; /* scattered: many elements (gather, scatter) */
};
struct mt_pin_insn {
    UINT32 site;        /* site of operand 0; 0: none */
    UINT32 count, code; /* code: enum mt_core_code */
    BOOL cas;
    struct mt_pin_operand operand[3];
};
/* Fills in an instruction's operands and sites, the same each time it is translated. insn mode: operand i
 * has site + 1 + i, else site + i. */
VOID mt_pin_insn_of(INS ins, struct mt_pin_insn *n);
VOID mt_pin_sites_forget(ADDRINT low, ADDRINT high); /* other code may come to this range */
/* Returns how code of an image is recorded; of no image, if it is not valid. */
enum mt_core_code mt_pin_code(IMG img);
BOOL mt_pin_keeps(ADDRINT ip); /* mt_core_code_keeps */
int mt_pin_locate(uint64_t ip, struct mt_core_location *place);
const char *mt_pin_plain(const char *symbol, char *room, unsigned size); /* mt_core_engine.plain */

/* mt_pin_access.cpp */
VOID mt_pin_access_init(VOID);

/* mt_pin_calls.cpp: functions, routines, allocations */
VOID mt_pin_calls_image(IMG img);
VOID mt_pin_calls_instruction(INS ins);
VOID mt_pin_calls_free(struct mt_pin_thread *s);
#endif
