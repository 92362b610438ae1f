/* C++ names as the source has them, demangled by the program's C++ library, since this library is not linked
 * with one. Thread-safe. */
#ifndef MT_BASE_DEMANGLE_H
#define MT_BASE_DEMANGLE_H

/* Looks for the program's C++ library. Asks the dynamic linker, so the caller must hold no lock. */
void mt_demangle_prepare(void);
/* Returns the demangled name, malloc'ed, or NULL if `name` is not mangled, or if there is no C++ library and
 * source_name.h changes nothing. */
char *mt_demangle(const char *name);
/* Returns a function's name without parameters, such as "ns::f<int>", or a copy of `name` if that is unknown.
 * malloc'ed; NULL: no memory. */
char *mt_demangle_name(const char *name);
#endif
