/* Images of modules that came without one. */
#ifndef MT_API_MADE_H
#define MT_API_MADE_H
#include "module.h"

/* Has an image made of the module's device code, and loads it. Says what could not be done of it. NULL: *why
 * is a sentence, which stays. Takes seconds at times. */
struct mt_image *mt_made_image(const struct mt_module *m, const char **why);
#endif
