/* Interface to instrumented code (emitted by llvm-pass/host/host_*.c), and declarations shared by the
 * files of libmemtrace-host.so. */
#ifndef MT_HOST_LLVM_ENTRY_H
#define MT_HOST_LLVM_ENTRY_H
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#include "format/host_module.h"
#include "../core/core.h"

#define MT_ENTRY __attribute__((visibility("default")))

/* ---- for instrumented code ---- */

/* Object to which this thread appends: the core's, our scratch, a signal handler's, or (at first) one of
 * no thread with limit NULL. */
extern MT_ENTRY __thread struct mt_core_thread *__mt_host_current;
/* Location of the next call that allocates; NULL: unknown. */
extern MT_ENTRY __thread const struct mt_host_alloc_location *__mt_host_place;
/* Called with all registers but r11 and the vector registers preserved (thunk.S):
 *   __mt_host_record(address, site | size << 32)   one access for which there was no room
 *   __mt_host_slow()    before a group for which there was no room: current is a scratch buffer afterwards
 *   __mt_host_drain()   after a group whose limit is NULL
 *   __mt_host_begin(site, address, bytes)   before an access of host=atomic that could not be appended
 *   __mt_host_end(failed)   after one of host=atomic, where limit is NULL or it was not appended */
MT_ENTRY void __mt_host_register(const struct mt_host_module *m);
MT_ENTRY void __mt_host_block(uint64_t address, uint64_t bytes, uint32_t site);
/* Records lanes of `element` bytes from `address` on whose mask bit is set. */
MT_ENTRY void __mt_host_masked(uint64_t address, uint64_t mask, uint64_t element, uint32_t site);
/* Records elements at `address[lane]` whose mask bit is set. */
MT_ENTRY void __mt_host_lanes(const uint64_t *address, uint64_t mask, uint64_t element, uint32_t site);
MT_ENTRY void __mt_host_libc(uint32_t code, uint32_t site, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                             uint64_t result);
MT_ENTRY void __mt_host_untraced(void);
/* Checks before a copy is recorded and made whether its destination already holds these bytes. If one of
 * the two is unreadable, the program gets its signal here, outside of all our code. */
MT_ENTRY void __mt_host_copied(uint32_t site, uint64_t from, uint64_t to, uint64_t bytes);
MT_ENTRY void __mt_host_begin_copy(uint32_t site, uint64_t from, uint64_t to, uint64_t bytes);
MT_ENTRY void __mt_host_begin_masked(uint64_t address, uint64_t mask, uint64_t element, uint32_t site);
MT_ENTRY void __mt_host_begin_lanes(const uint64_t *address, uint64_t mask, uint64_t element, uint32_t site);
MT_ENTRY void __mt_host_begin_libc(uint32_t code, uint32_t site, uint64_t a, uint64_t b, uint64_t c,
                                   uint64_t d, uint64_t result);
MT_ENTRY void __mt_host_enter(uint32_t function, uint64_t sp, uint64_t a, uint64_t b, uint64_t c);
MT_ENTRY void __mt_host_leave(uint32_t function, uint64_t sp, uint64_t value);
MT_ENTRY void __mt_host_unwound(uint64_t sp);
MT_ENTRY void __mt_host_annotation(uint32_t function, uint64_t argument);

/* ---- inside ---- */

enum mt_phase { MT_PHASE_EARLY, MT_PHASE_ON, MT_PHASE_OFF };
extern enum mt_phase mt_phase;
extern int mt_atomic; /* 1: atomic mode */
extern int
    mt_silent; /* 1: the program may no longer make every system call, and we make none for ourselves */

#define MT_SCRATCH 16u        /* maximum number of entries in a group */
#define MT_WASTE 496u         /* entries of a thread that is not traced */
#define MT_HANDLER_ROOM 4080u /* entries of signal handlers kept for the interrupted thread */
#define MT_FRAMES 256u /* maximum depth of traced functions per thread, to find those left by exceptions */

struct mt_frame {
    uint32_t function;
    uint64_t sp;
};

/* State of a thread. */
struct mt_self {
    struct mt_core_thread *core; /* NULL: not traced (yet) */
    int state;                   /* 0 not seen, 1 traced, 2 no longer traced */
    int ours;                    /* 1: a thread of the core, never traced */
    int first;                   /* 1: the thread that runs main */
    int busy;                    /* 1: inside, where allocations are the tracer's own */
    int rounds;                  /* rounds of thread-specific destructors */
    struct mt_core_thread scratch;
    struct mt_host_entry entry[2 * MT_SCRATCH];
    struct mt_host_entry *waste; /* NULL: none yet */
    /* signal handlers */
    struct mt_core_thread handler;
    struct mt_host_entry *handler_entry; /* mapped at the first handler */
    unsigned handlers;                   /* number of running handlers */
    int handler_on_stack;                /* 1: on the alternate stack */
    uintptr_t handler_sp;
    struct mt_core_thread *interrupted; /* __mt_host_current at its start */
    uint64_t interrupted_ip;
    size_t waiting; /* number of entries of ended handlers */
    int locked;     /* atomic mode: between begin and end */
    /* Inside the core, where neither a handler nor pthread_cancel may end the thread or leave with our
     * locks. */
    unsigned inside;
    int asynchronous;              /* 1: cancellation is asynchronous now */
    int cancel_state, cancel_type; /* the thread's own; state -1: unchanged */
    int held;                      /* 1: a signal came meanwhile: all wait, blocked … */
    sigset_t held_mask;            /* … until this mask is restored */
    uint64_t lost;
    /* operator new in progress */
    int new;
    uint64_t new_ip;
    const struct mt_host_alloc_location *place; /* location of the allocation being reported */
    unsigned frames;
    struct mt_frame frame[MT_FRAMES];
    struct mt_frame told, left; /* last entry reported by a caller, last return reported by a function */
};
extern __thread struct mt_self mt_self;

/* process.c. Returns the core's object of this thread after reporting all that was pending; NULL: do not
 * trace. */
struct mt_core_thread *mt_llvm_thread(void);
void mt_access(uint32_t site, uint64_t address, uint64_t bytes);
/* Ends tracing of this thread: it appends to a buffer that is not read. */
void mt_waste(void);
/* Bracket all calls of the core, may nest. The end of the outermost pair delivers the signals that came
 * meanwhile: their handlers, and pthread_cancel, may leave our code. */
void mt_enter(void);
void mt_leave(void);
void mt_cancel_ask(void);
void mt_cancel_restore(void);
/* Allows cancellation inside of the bracket around a call of a function of the program. */
static inline void mt_cancel_back(void)
{
    if (mt_self.cancel_state >= 0 || mt_self.cancel_type != PTHREAD_CANCEL_DEFERRED)
        mt_cancel_restore();
}
/* Leaves the cancellation state alone: an access of atomic mode calls no cancellation point, and a change
 * would cost more than all the rest. */
static inline void mt_cancel_defer(void)
{
    mt_self.cancel_state = -1;
    mt_self.cancel_type = PTHREAD_CANCEL_DEFERRED;
    if (mt_self.state != 1 || mt_self.asynchronous)
        mt_cancel_ask();
}
/* mt_enter for one access of atomic mode. */
static inline void mt_enter_access(void)
{
    if (!mt_self.inside++)
        mt_cancel_defer();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
/* process.c */
void mt_signals_close(void); /* restores the default for signals that end the program */
/* Returns 1 while an appended access of atomic mode is under way. */
static inline int mt_access_open(const struct mt_self *s)
{
    return mt_atomic && s->core && s->core->open;
}
/* n 0: does nothing. */
void mt_atomic_begin(const struct mt_core_operand *o, unsigned n);
void mt_begin(uint32_t site, uint64_t address, uint64_t bytes);
void mt_end(uint32_t failed);
/* alloc.c */
int mt_not_for_us(uint64_t ip);  /* 1: the caller is the CUDA runtime */
void *mt_next(const char *name); /* the function that ours replaces */
void mt_stop(int killed);
#endif
