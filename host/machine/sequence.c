/* Numbers that order host accesses with CUDA calls: those of the CUDA runtime in the guest's memory once
 * it is there, continuing ours. */
#include "sequence.h"
#include "guest.h"
#include "modules.h"

uint64_t *mt_sequence_cuda, mt_sequence_last;

static uint64_t own; /* used while there is no CUDA runtime */

static uint64_t *sequence_cuda(void)
{
    uint64_t none = 0;
    uint64_t *next = __atomic_load_n(&mt_sequence_cuda, __ATOMIC_ACQUIRE);
    if (!next && mt_modules_sequence()) {
        next = (uint64_t *)(uintptr_t)mt_guest(mt_modules_sequence());
        __atomic_compare_exchange_n(next, &none, own + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
        __atomic_store_n(&mt_sequence_cuda, next, __ATOMIC_RELEASE);
    }
    return next;
}

uint64_t mt_sequence(int next)
{
    uint64_t *theirs = sequence_cuda();
    if (theirs)
        return next ? __atomic_fetch_add(theirs, 1, __ATOMIC_SEQ_CST)
                    : __atomic_load_n(theirs, __ATOMIC_ACQUIRE) - 1;
    return next ? __atomic_add_fetch(&own, 1, __ATOMIC_SEQ_CST) : __atomic_load_n(&own, __ATOMIC_ACQUIRE);
}

void mt_sequence_seen(void)
{
    __atomic_store_n(&mt_sequence_last, __atomic_load_n(mt_sequence_cuda, __ATOMIC_ACQUIRE),
                     __ATOMIC_RELAXED);
}
