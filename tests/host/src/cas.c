/* cas THREADS TOTAL: as inc, by compare-and-swap: one plain load of the counter for each increment, then as
 * many compare-and-swaps as it takes. Prints the failed ones too. Every now and then a thread gives the
 * processor away between load and swap, so that swaps fail on small machines as well. */
#include <sched.h>
#include "share.h"

static uint64_t cas_increment(volatile uint64_t *counter, struct share_thread *t)
{
    uint64_t seen = __atomic_load_n(counter, __ATOMIC_RELAXED);
    if (t->count % 16 == 15)
        sched_yield();
    while (!__atomic_compare_exchange_n(counter, &seen, seen + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        t->fails++;
    return seen;
}

int main(int argc, char **argv)
{
    return share_main(argc, argv, cas_increment, 1);
}
