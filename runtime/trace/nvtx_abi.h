/* What NVTX 3 and a tool that it loads agree on, as far as we use it. Programs compiled with any NVTX 3
 * header call through pointers, which are in tables that the tool asks for and fills. */
#ifndef MT_COMMON_NVTX_ABI_H
#define MT_COMMON_NVTX_ABI_H
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
enum { NVTX_ASCII = 1, NVTX_WIDE = 2, NVTX_REGISTERED = 3 }; /* message_type */
#define NVTX_NO_LEVEL (-2)                                   /* no push and pop here */

enum { NVTX_CALLBACKS = 1 };            /* export table */
enum { NVTX_CORE = 1, NVTX_CORE2 = 5 }; /* its modules */
typedef void (*nvtx_function)(void);
struct nvtx_callbacks {
    size_t size;
    int (*module)(int module, nvtx_function ***table, unsigned *size);
};
#endif
