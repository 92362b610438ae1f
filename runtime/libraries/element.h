/* Elements of any type (letters: call.h), as complex numbers of double: for what need not be fast. */
#ifndef MT_LIBRARIES_ELEMENT_H
#define MT_LIBRARIES_ELEMENT_H
#include <stddef.h>
#include <stdint.h>

double _Complex mt_element_get(char letter, const void *p, int64_t i);
/* Rounded to the nearest; integers saturate. */
void mt_element_put(char letter, void *p, int64_t i, double _Complex v);
#endif
