/* Functions of interest that a guest thread is inside of: allocators, traced functions, routines. */
#ifndef MT_HOST_MACHINE_CALLS_H
#define MT_HOST_MACHINE_CALLS_H
#include "modules.h"

struct mt_call_frame {
    const struct mt_watch *watch;
    uint64_t sp;  /* at the entry: where the return address lies */
    uint64_t ret; /* return address */
    uint64_t ip;  /* of the call */
    uint64_t args[3];
    uint8_t counted; /* an allocator that no other one called */
    uint8_t silent;  /* the CUDA runtime, called from outside of it */
};

struct mt_calls { /* zeroed at first */
    struct mt_call_frame *frames;
    unsigned count;
    size_t room;
    unsigned allocators; /* frames of allocators */
    unsigned silent;     /* inside the CUDA runtime: nothing is traced */
};

/* At the function's first instruction. `ip`: of the call instruction, or 0. */
void mt_calls_enter(struct mt_calls *c, struct mt_core_thread *t, const struct mt_watch *w, uint64_t sp,
                    uint64_t ip, const uint64_t args[3]);
/* At an instruction after a call, when c->count is not 0: ends what has returned here with `value`. */
void mt_calls_return(struct mt_calls *c, struct mt_core_thread *t, uint64_t ip, uint64_t sp, uint64_t value);
/* Where the program entered the memory management that it is in, 0 if it is not. */
uint64_t mt_calls_site(const struct mt_calls *c);
void mt_calls_free(struct mt_calls *c);
#endif
