/* C++ names as the source has them, by the program's C++ library: this one does without. Thread-safe. */
#ifndef MT_BASE_DEMANGLE_H
#define MT_BASE_DEMANGLE_H

/* Looks for the program's C++ library; asks the dynamic linker, so not for a thread that holds a lock. */
void mt_demangle_prepare(void);
/* malloc'ed; NULL: it is no such name, or no C++ library was there, and nothing to take off (source_name.h).
 */
char *mt_demangle(const char *name);
/* The function's name alone, "ns::f<int>", as sites and launches have it; a copy of `name` where that is not
 * known. malloc'ed; NULL: no memory. */
char *mt_demangle_name(const char *name);
#endif
