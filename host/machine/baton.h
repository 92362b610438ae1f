/* Turns of the program's threads, for atomic mode under an engine that records accesses without a lock.
 * Only the thread with the baton executes blocks, so the order of its records is the order of its
 * accesses. It keeps the baton for some blocks, passes it on in the order of requests, and gives it away
 * before it may wait. A holder that sleeps outside of our code makes no access (qemu briefly stops all
 * threads; inside of a block's execution only for accesses that it then makes alone): the next in line may
 * take the baton from it. */
#ifndef MT_HOST_MACHINE_BATON_H
#define MT_HOST_MACHINE_BATON_H
#include <stdint.h>

extern uint32_t mt_baton_blocks; /* number of blocks between two checks for waiting threads */

struct mt_baton_hand { /* a thread's state; zeroed at first */
    uint32_t ticket, blocks;
    int thread;          /* kernel thread id */
    volatile int inside; /* 1: inside our code */
};

extern struct mt_baton_hand *mt_baton_holder;
/* Called by the new holder when it took the baton from a sleeping one. NULL: unused. */
extern void (*mt_baton_stolen)(struct mt_baton_hand *from);

/* Called now and then by the next in line with the holder, which may have changed. NULL: unused. */
extern void (*mt_baton_asked)(struct mt_baton_hand *holder);
extern uint32_t mt_baton_step_us; /* microseconds of sleep before that */

/* Waits for the baton. With `ms` not 0, at most that many milliseconds: then returns -1 on timeout. */
int mt_baton_take(struct mt_baton_hand *h, unsigned ms);
/* Gives the baton away; does nothing if h does not have it. */
void mt_baton_give(struct mt_baton_hand *h);
/* Returns 1 if others wait for it. */
int mt_baton_wanted(const struct mt_baton_hand *h);
#endif
