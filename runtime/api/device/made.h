/* Images of modules that came without one: asked of mt-ptx, then loaded. */
#ifndef MT_API_MADE_H
#define MT_API_MADE_H
#include "module.h"

struct mt_made_code;

/* What the program or library is called that the module's code is in; the dynamic linker knows. */
const char *mt_made_name(const struct mt_module *m);
/* Begins to have a kernel's image made; NULL: it cannot be. */
struct mt_making;
struct mt_made_kernel;
struct mt_making *mt_made_begin(const struct mt_module *m, const char *name,
                                const struct mt_made_kernel *kernel);
/* Has an image made of the module's device code, which takes seconds at times: that of a kernel of which
 * its base has said so, or NULL;
 * `begun` is used up, or NULL. NULL: no memory. */
struct mt_made_code *mt_made_ask(const struct mt_module *m, const char *name,
                                 const struct mt_made_kernel *kernel, struct mt_making *begun);
/* The kernels that are to be asked for by name (mt_made_kernel_next), the caller's to free; NULL: all are in
 * the image. */
void *mt_made_kernels(const struct mt_made_code *c, size_t *bytes);
/* Loads it, a kernel's under the `base` that came before and with its lines there, or NULL; and says what
 * could not be done of the code. NULL: *why is a sentence, which stays. */
struct mt_image *mt_made_load(struct mt_made_code *c, struct mt_image *base,
                              const struct mt_made_kernel *kernel, const char **why);
void mt_made_free(struct mt_made_code *c);
#endif
