/* The stack of a GPU's threads, which record calls need more of. */
#ifndef MT_API_STACK_H
#define MT_API_STACK_H
/* Before a traced launch: once for each device, and again after a reset. */
void mt_stack_raise(void);
/* The current device was reset, and has its own limit again. */
void mt_stack_reset(void);
#endif
