/* What kernels are called in traces. */
#ifndef MT_API_SHOWN_H
#define MT_API_SHOWN_H
#include "api/device/device.h"

/* `name`, or, for the second kernel of this name and signature that is launched, "NAME#2", and so on: static
 * kernels of two files. What is defined at one place is one kernel, however many files have it; and so is
 * what one mangled name stands for, where the place is not known. Lasts. */
const char *mt_function_shown(struct mt_function *f, const char *name, const char *signature);
#endif
