/* A way out of DynamoRIO's cache, now and then. A signal that arrives during one of our functions waits
 * until the thread leaves the cache, which linked code of a loop without system calls never does. A thread
 * that was not seen outside for a while gets the address of an inaccessible page in mt_client.slot: the
 * next probe of it faults, between two instructions of the program. on_signal then makes DynamoRIO
 * continue there through its dispatcher, which delivers pending signals. */
#include "insert.h"
#include "platform.h"
#include <stddef.h>

enum { PAGE = 4096, OFTEN = 16 };

static const uint64_t STAY_NS = 200000000; /* a fault takes a fraction of a millisecond */
static struct mt_core_thread *trap;

void mt_leave_start(void)
{
    trap = dr_nonheap_alloc(PAGE, DR_MEMPROT_NONE);
}

void mt_leave_stop(void)
{
    if (trap)
        dr_nonheap_free(trap, PAGE);
}

/* The code that continues probes before it does anything that a fault would lose. */
void mt_leave_sometimes(struct mt_client_thread *t)
{
    if (++t->calls_inside % OFTEN || !trap || mt_client.forked)
        return;
    uint64_t now = mt_plat_now_ns(), since = t->inside_ns;
    if (since && now - since < STAY_NS)
        return;
    t->inside_ns = now;
    if (since)
        *t->slot = trap;
}

int mt_leave_asked(const struct mt_client_thread *t)
{
    return trap && *t->slot == trap;
}

int mt_leave_is(const struct mt_client_thread *t, const dr_siginfo_t *info)
{
    const byte *field = (const byte *)trap + offsetof(struct mt_core_thread, cur);
    return mt_leave_asked(t) && info->raw_mcontext_valid && (const byte *)info->access_address == field;
}
