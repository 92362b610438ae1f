/* What comes through a pipe: looked at without taking it, so that its reader finds all of it. */
#ifndef MT_CLI_PIPE_H
#define MT_CLI_PIPE_H
#include "kind.h"

/* Opens `path` if it is a FIFO, or "-" and standard input is a pipe: the caller's descriptor, else -1. Waits
 * for the first bytes and says their kind. (Opened once more,
 * a FIFO might wait for a writer that has left.) */
int mt_pipe_look(const char *path, enum mt_kind *kind);
/* All that comes through it, in an unnamed file: the file's descriptor, or -1 after a message. */
int mt_pipe_spool(int fd);
#endif
