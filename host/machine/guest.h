/* The guest's memory, at guest address + mt_guest_base. The base is 0 for x86-64 on x86-64, unless the
 * user asks qemu for another one. */
#ifndef MT_HOST_MACHINE_GUEST_H
#define MT_HOST_MACHINE_GUEST_H
#include <stdint.h>
#include <string.h>

extern uint64_t mt_guest_base;

static inline const void *mt_guest(uint64_t address)
{
    return (const void *)(uintptr_t)(address + mt_guest_base);
}
static inline uint64_t mt_guest_u64(uint64_t address)
{
    uint64_t v;
    memcpy(&v, mt_guest(address), sizeof v);
    return v;
}
#endif
