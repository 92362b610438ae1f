/* What the stand-ins share: words to the user, and the libraries that compute. */
#ifndef MT_LIBRARIES_LIBRARY_H
#define MT_LIBRARIES_LIBRARY_H

void mt_lib_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A library by its name, NVIDIA's where the program has it or the toolkit, never ourselves in its place;
 * NULL: there is none. OpenBLAS makes its threads while it is loaded: they are not for the program's signals.
 */
void *mt_lib_open(const char *file);

/* A function of the real library ("cublas") that this one stands in for; NULL: there is none. */
void (*mt_lib_real(const char *library, const char *name))(void);

enum mt_lib_backend { MT_LIB_OPENBLAS, MT_LIB_FFTW, MT_LIB_FFTWF, MT_LIB_CURAND, MT_LIB_BACKENDS };
/* A function of it. NULL: `caller` cannot be done; the first time this is said, with the package that is
 * missing. */
void (*mt_lib_function(enum mt_lib_backend backend, const char *name, const char *caller))(void);
#endif
