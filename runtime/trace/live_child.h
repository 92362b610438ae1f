/* Starts the mt-extract of MEMTRACE_SINK. */
#ifndef MT_COMMON_LIVE_CHILD_H
#define MT_COMMON_LIVE_CHILD_H
#include <stddef.h>

/* The socket to it, close-on-exec; -1: *why is a sentence for the user. mt-extract sends a byte when its
 * result is written, and closes its end when it ends. */
int mt_live_child(char *why, size_t size);
#endif
