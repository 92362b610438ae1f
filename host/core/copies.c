/* Copies whose destination already held the same bytes: a lock-free tally by site, and a line in the trace
 * for each such site. */
#include "sink.h"
#include "state.h"

#define SITES 4096u /* a power of two */
#define LOOKS 32u   /* a site without a place after this many probes is ignored */

static struct tally {
    uint32_t site; /* 0: free */
    uint64_t calls, bytes, same_calls, same_bytes;
} tallies[SITES];

static void copies_add(uint64_t *sum, uint64_t n)
{
    __atomic_fetch_add(sum, n, __ATOMIC_RELAXED);
}

static struct tally *copies_tally(uint32_t site)
{
    for (uint32_t i = 0, at = site * 0x9e3779b1u >> 20; i < LOOKS; i++, at++) {
        struct tally *t = &tallies[at % SITES];
        uint32_t is = 0;
        if (__atomic_compare_exchange_n(&t->site, &is, site, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
            is == site)
            return t;
    }
    return NULL;
}

void mt_core_copied(uint32_t site, uint64_t bytes, int same)
{
    struct tally *t = site && mt_on() ? copies_tally(site) : NULL;
    if (!t)
        return;
    copies_add(&t->calls, 1);
    copies_add(&t->bytes, bytes);
    if (same) {
        copies_add(&t->same_calls, 1);
        copies_add(&t->same_bytes, bytes);
    }
}

void mt_core_copies(void)
{
    for (uint32_t i = 0; i < SITES; i++) {
        const struct tally *t = &tallies[i];
        if (t->same_calls)
            mt_core_sink_line(MT_LINE_copied, &(struct mt_copied_line){t->site, t->calls, t->bytes,
                                                                       t->same_calls, t->same_bytes});
    }
}
