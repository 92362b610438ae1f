/* What the program advised about managed memory: kept for its own questions, without effect where host and
 * device share memory. */
#ifndef MT_API_ADVISE_H
#define MT_API_ADVISE_H
#include <stdint.h>

/* The block that began at `base` is freed. */
void mt_advice_forget(uint64_t base);
/* All of the device are. */
void mt_advice_reset(int device);
#endif
