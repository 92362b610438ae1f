/* Bytes of its area that xsave or xrstor touches. Rules: Intel SDM vol. 1, chapter 13; sizes from this
 * processor (CPUID leaf 13). */
#ifndef MT_HOST_MACHINE_XSTATE_H
#define MT_HOST_MACHINE_XSTATE_H
#include <stdint.h>

/* Returns the components that an instruction with this mask (edx:eax) may touch. */
uint64_t mt_xstate_asked(uint64_t mask);
/* Returns the bytes from the start of the area to the end of the last of `touched`. `layout`: components
 * of the compact form; 0: standard form. */
uint32_t mt_xstate_bytes(uint64_t touched, uint64_t layout);
#endif
