/* Who of the program's threads may run: atomic mode under an engine that records an access without a lock.
 * Only the thread that holds the baton executes blocks, so the order of its records is the order of its
 * accesses. It keeps the baton for some blocks, hands it on in the order in which others asked, and gives it
 * away before it may wait.
 *
 * A holder that sleeps outside of our code (qemu stops all threads for a moment; it does so inside of a
 * block's execution only for accesses that it then makes alone) makes no access: the next in line may take
 * the baton from it. */
#ifndef MT_HOST_MACHINE_BATON_H
#define MT_HOST_MACHINE_BATON_H
#include <stdint.h>

extern uint32_t mt_baton_blocks; /* how many blocks a thread executes before it looks whether others wait */

struct mt_baton_hand { /* a thread's; zeroed at first */
    uint32_t ticket, blocks;
    int thread;          /* its number to the kernel */
    volatile int inside; /* of our code */
};

extern struct mt_baton_hand *mt_baton_holder;
/* Called when the baton was taken from a sleeping holder, by who has it now. NULL: nobody asks. */
extern void (*mt_baton_stolen)(struct mt_baton_hand *from);

/* Called now and then by the next in line, with the holder; it may be so no more. NULL: nobody asks. */
extern void (*mt_baton_asked)(struct mt_baton_hand *holder);
extern uint32_t mt_baton_step_us; /* how long one sleeps until then */

/* Waits until it is h's. At most `ms` milliseconds if that is not 0: then -1 when it is not. */
int mt_baton_take(struct mt_baton_hand *h, unsigned ms);
/* Nothing if it is not h's. */
void mt_baton_give(struct mt_baton_hand *h);
/* Others wait for it. */
int mt_baton_wanted(const struct mt_baton_hand *h);
#endif
