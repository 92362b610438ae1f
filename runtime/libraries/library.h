/* What the stand-ins share: words to the user, and the libraries that compute. */
#ifndef MT_LIBRARIES_LIBRARY_H
#define MT_LIBRARIES_LIBRARY_H
#include <stdint.h>

void mt_lib_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A function of the real library ("cublas") that this one stands in for; NULL: there is none. */
void (*mt_lib_real(const char *library, const char *name))(void);

enum mt_lib_backend { MT_LIB_OPENBLAS, MT_LIB_FFTW, MT_LIB_FFTWF, MT_LIB_CURAND, MT_LIB_BACKENDS };
/* A function of it. NULL: `caller` cannot be done; the first time this is said, with the package that is
 * missing. */
void (*mt_lib_function(enum mt_lib_backend backend, const char *name, const char *caller))(void);

/* Entry points of the libraries: a jump through a slot for each name, as in runtime/api. Its first use sets
 * the slot to the stand-in's function, on a GPU to that of the real library. gen_libraries.py makes tables
 * and jumps. */
struct mt_lib_library {
    const char *name, *soname;
    int unsupported; /* its status for what is not there */
};
/* On a GPU a call goes to the real library as it is; to ours, which knows what it reads and writes and then
 * calls the real one; or to the real one, and what it reads and writes is not known. */
enum mt_lib_gpu { MT_LIB_FORWARD, MT_LIB_OURS, MT_LIB_UNKNOWN };
struct mt_lib_entry {
    const char *name;
    int library;
    enum mt_lib_gpu gpu;
    int said;
};
extern const struct mt_lib_library mt_lib_libraries[];
extern struct mt_lib_entry mt_lib_entries[];
extern void *mt_lib_slots[], *const mt_lib_impls[];
/* The slot's target; called by the jumps' first use (api/first.S). */
void *mt_lib_resolve(uint32_t index);
#endif
