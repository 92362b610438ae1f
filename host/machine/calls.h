/* Functions of interest that a guest thread has entered and not left: allocators, traced functions,
 * routines. */
#ifndef MT_HOST_MACHINE_CALLS_H
#define MT_HOST_MACHINE_CALLS_H
#include "modules.h"

struct mt_call_frame {
    const struct mt_watch *watch;
    uint64_t sp;  /* address of the return address at entry */
    uint64_t ret; /* return address */
    uint64_t ip;  /* address of the call */
    uint64_t bp;  /* rbp at entry */
    uint64_t args[3];
    uint8_t counted; /* 1: an allocator not called by another one */
    uint8_t silent;  /* 1: the CUDA runtime, called from outside of it */
};

struct mt_calls { /* all zero at first */
    struct mt_call_frame *frames;
    unsigned count;
    size_t room;
    unsigned allocators; /* frames of allocators */
    unsigned silent;     /* inside the CUDA runtime: nothing is traced */
    uint64_t stack_end;  /* for mt_modules_callers */
    unsigned stacks;
};

/* Enters a function at its first instruction. `ip`: of the call instruction, or 0; sp, bp: rsp and rbp. */
void mt_calls_enter(struct mt_calls *c, struct mt_core_thread *t, const struct mt_watch *w, uint64_t sp,
                    uint64_t bp, uint64_t ip, const uint64_t args[3]);
/* Ends the functions that return here with `value`; called at an instruction after a call if c->count is
 * not 0. */
void mt_calls_return(struct mt_calls *c, struct mt_core_thread *t, uint64_t ip, uint64_t sp, uint64_t value);
/* Returns the address at which the program entered its present memory management call, or 0. */
uint64_t mt_calls_site(const struct mt_calls *c);
void mt_calls_free(struct mt_calls *c);
#endif
