/* How much of its area xsave or xrstor touches. Rules: Intel SDM vol. 1, chapter 13; this processor's own
 * sizes (CPUID leaf 13). */
#ifndef MT_HOST_MACHINE_XSTATE_H
#define MT_HOST_MACHINE_XSTATE_H
#include <stdint.h>

/* Components that an instruction with this mask (edx:eax) may touch. */
uint64_t mt_xstate_asked(uint64_t mask);
/* Bytes from the area's begin to the end of the last of `touched`; `layout`: the components that the area has
 * in the compact form, 0: it has the standard form. */
uint32_t mt_xstate_bytes(uint64_t touched, uint64_t layout);
#endif
