/* Interned strings, which live as long as the trace. The caller locks. */
#ifndef MT_HOST_INTERN_H
#define MT_HOST_INTERN_H
/* Returns the one copy of `s`; "" for NULL, "" or without memory. Cuts strings beyond 64 KiB. */
const char *mt_intern(const char *s);
#endif
