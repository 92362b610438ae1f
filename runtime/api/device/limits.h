/* cudaLimit of each GPU, on the CPU device. Thread-safe. */
#ifndef MT_API_LIMITS_H
#define MT_API_LIMITS_H
#include "api/crt.h"

/* 0: there is no such limit. */
int mt_limit_there(enum cudaLimit limit);
size_t mt_limit_get(int device, enum cudaLimit limit);
/* Whether the value may be, who calls has asked. */
void mt_limit_set(int device, enum cudaLimit limit, size_t value);
/* As at first. */
void mt_limits_reset(int device);
#endif
