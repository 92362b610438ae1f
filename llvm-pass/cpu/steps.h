/* Warp-synchronous code in one function: shared by lower_steps.c, step_events.c and step_place.c. */
#ifndef MT_PASS_STEPS_H
#define MT_PASS_STEPS_H
#include "flow.h"
#include "lanes.h"
#include "lower.h"

enum mt_step_kind {
    MT_STEP_ACCESS,
    MT_STEP_BARRIER,   /* all lanes of the warp wait for one another, or for threads of other warps */
    MT_STEP_HAND_OVER, /* a lock is taken or given back: what it guards is not ours to order */
    MT_STEP_POLL,      /* the thread has waited for another one's store to global memory */
};
struct mt_step_event {
    enum mt_step_kind kind;
    LLVMValueRef inst;
    unsigned access;
};

/* A function under examination. Sets of accesses are bits in `words` words. */
struct mt_steps {
    struct mt_lowering *l;
    LLVMValueRef function;
    struct mt_lanes lanes;
    struct mt_flow flow;
    struct mt_step_event *events;
    unsigned nevents, *first; /* per block: its first event; flow.n + 1 entries */
    struct mt_lane_access *accesses;
    unsigned naccesses, words;
    size_t events_cap, accesses_cap;
    int *guard;          /* per block */
    uint64_t *out, *now; /* sets: at the end of each block; at the event that is looked at */
    uint64_t *is_volatile, *is_shared_volatile;
    unsigned char *takes_part;     /* per access: in an exchange between lanes */
    unsigned char *waits, *begins; /* lanes wait before this event; at the beginning of this block */
    uint64_t meetings;
    int failed; /* no memory, or too large */
};

/* step_events.c: all events of the function, in the order of flow, with their guards. */
void mt_step_collect(struct mt_steps *s);
/* step_place.c. Is anything exchanged? Then: where lanes wait. */
int mt_step_exchanges(struct mt_steps *s);
void mt_step_place(struct mt_steps *s);
#endif
