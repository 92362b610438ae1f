/* Shared parts of the replacement libraries: messages to the user, and backend libraries for the
 * computations. */
#ifndef MT_LIBRARIES_LIBRARY_H
#define MT_LIBRARIES_LIBRARY_H
#include <stdint.h>

void mt_lib_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns a function of the real library ("cublas") that this one replaces, or NULL. */
void (*mt_lib_real(const char *library, const char *name))(void);

enum mt_lib_backend { MT_LIB_OPENBLAS, MT_LIB_FFTW, MT_LIB_FFTWF, MT_LIB_CURAND, MT_LIB_BACKENDS };
/* Returns a function of a backend, or NULL if it is missing: `caller` cannot run, which is reported once with
 * the missing package. */
void (*mt_lib_function(enum mt_lib_backend backend, const char *name, const char *caller))(void);

/* Entry points of the libraries: a jump through a slot for each name, as in runtime/api. First use sets the
 * slot to our function, or on a GPU to the real library's. gen_libraries.py makes tables and jumps. */
struct mt_lib_library {
    const char *name, *soname;
    int unsupported;      /* status for missing functions ... */
    int (*none)(void);    /* ... and the function that returns it */
    void *_Atomic handle; /* the real library on a GPU, once opened */
};
/* Call on a GPU: forwarded unchanged; handled by our function, which knows the accesses and then calls the
 * real one; or forwarded with unknown accesses. */
enum mt_lib_gpu { MT_LIB_FORWARD, MT_LIB_OURS, MT_LIB_UNKNOWN };
struct mt_lib_entry {
    const char *name;
    int library;
    enum mt_lib_gpu gpu;
    int said;
};
extern struct mt_lib_library mt_lib_libraries[]; /* the last one has no name */
extern struct mt_lib_entry mt_lib_entries[];
extern void *mt_lib_slots[], *const mt_lib_impls[];
/* Returns the slot's target; called at a jump's first use (api/first.S). */
void *mt_lib_resolve(uint32_t index);
#endif
