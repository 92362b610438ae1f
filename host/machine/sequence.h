/* Numbers that order host accesses with CUDA calls: those of the CUDA runtime in the guest's memory once
 * it is there, continuing ours. */
#ifndef MT_HOST_MACHINE_SEQUENCE_H
#define MT_HOST_MACHINE_SEQUENCE_H
#include <stdint.h>

/* For mt_core_engine.sequence. */
uint64_t mt_sequence(int next);

extern uint64_t *mt_sequence_cuda; /* its next number; NULL: there is no CUDA runtime */
extern uint64_t mt_sequence_last;
/* Returns 1 if CUDA calls were made since mt_sequence_seen. */
static inline int mt_sequence_moved(void)
{
    uint64_t *next = mt_sequence_cuda;
    return __builtin_expect(next != 0, 0) && __atomic_load_n(next, __ATOMIC_RELAXED) != mt_sequence_last;
}
void mt_sequence_seen(void);
#endif
