/* inc THREADS TOTAL: the threads increment one counter atomically until TOTAL is reached. Each counts its
 * increments and how often the counter was even before; whoever knows the order of the increments can say
 * what every thread counted, and nobody else can. */
#include "share.h"

static uint64_t inc_increment(volatile uint64_t *counter, struct share_thread *t)
{
    (void)t;
    return __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv)
{
    return share_main(argc, argv, inc_increment, 0);
}
