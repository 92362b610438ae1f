/* Functions reachable through calls; indirect calls reach every function whose address is taken. */
#ifndef MT_PASS_REACH_H
#define MT_PASS_REACH_H
#include "lowering.h"

struct mt_reach {
    LLVMValueRef *functions;
    unsigned count;
    size_t cap;
    int waits;   /* a barrier, a warp collective or an unknown function */
    int gathers; /* a wait for the lanes at the same call (activemask) */
};
void mt_reach_from(struct mt_lowering *l, LLVMValueRef function, struct mt_reach *r);
/* Returns 1 if the function is used other than as the callee of a direct call. */
int mt_is_address_taken(LLVMValueRef function);
int mt_reach_has(const struct mt_reach *r, LLVMValueRef function);
void mt_reach_free(struct mt_reach *r);

/* Functions in which threads wait for others; ends with NULL. */
extern const char *const mt_waiting_functions[];
#endif
