/* Device code that the program loads by itself: cudaLibrary*, and the modules and libraries of the driver
 * API, on the CPU device. A library is a module (module.h) that nothing registered. Thread-safe. */
#ifndef MT_API_LIBRARY_H
#define MT_API_LIBRARY_H
#include "module.h"
#include "make.h"
#include <cuda_runtime_api.h>

enum mt_library_error {
    MT_LIBRARY_OK,
    MT_LIBRARY_MEMORY,
    MT_LIBRARY_IMAGE,
    MT_LIBRARY_PTX,
    MT_LIBRARY_NO_BINARY
};
/* Makes a library of PTX text, fatbins and cubins that belong together (n >= 1; copied). The image is made
 * now, which may take seconds. What went wrong, and *why as a sentence, the caller's to free, or NULL; it was
 * reported, too. */
enum mt_library_error mt_library_load(struct mt_module **out, const struct mt_device_code *code, size_t n,
                                      char **why);
/* Is it one, and not unloaded? */
int mt_library_is(const struct mt_module *m);
/* What is in its streams ends first; its kernels and variables are known no longer. */
void mt_library_unload(struct mt_module *m);
/* NULL: it has none of this name. */
struct mt_function *mt_library_kernel(struct mt_module *m, const char *name);
/* The address and size of a variable. 1, or 0: there is none. */
int mt_library_variable(struct mt_module *m, const char *name, void **address, size_t *bytes);
/* A file's contents with a NUL behind them; the caller's to free. NULL with errno. */
void *mt_library_file(const char *path, size_t *bytes);
#endif
