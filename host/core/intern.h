/* Strings that live as long as the trace, each once. The caller locks. */
#ifndef MT_HOST_INTERN_H
#define MT_HOST_INTERN_H
/* The one copy of `s`; "" for NULL, "" or without memory. Longer than 64 KiB: cut. */
const char *mt_intern(const char *s);
#endif
