/* Output of the trace: a regular file, a FIFO with a reader, a device, or a descriptor that the user has
 * opened. Its number is kept apart from the program's (descriptors.h). If the program closes it anyway, a
 * regular file is opened again, and the new owner of the number is left alone. An accepted path is new, or
 * our user's regular file or FIFO, or a character device; only symbolic links of our user are followed. */
#ifndef MT_HOST_OUTPUT_H
#define MT_HOST_OUTPUT_H
#include <stddef.h>
#include <stdint.h>
#include "platform.h"

struct mt_core_output {
    int fd;    /* -1: closed */
    int fifo;  /* not a regular file opened here: neither truncated nor reopened */
    int error; /* first errno value of a write; later writes do nothing */
    uint64_t dev, ino;
    struct mt_spin lock; /* held around each use of the number */
    uint32_t process;
    int aside; /* 1: the number is being closed */
};

/* Returns `pattern` with %p replaced by the process id, in our own memory, or NULL if too long. */
const char *mt_core_output_name(const char *pattern);
/* Returns the number meant by "-", /dev/stdout, /dev/stderr, /dev/fd/N or /proc/self/fd/N; -1 for other
 * paths. */
int mt_core_output_number(const char *path);
/* Opens `path`, empty (0600 if new). Output to a number goes to its present position. Waits for the reader
 * of a FIFO, with a message after 2 s. Returns 0, or an errno value with *why set to a sentence with the
 * path and a remedy. A regular file that another process writes is left alone: if the name comes from
 * mt_core_output_name, that name changes to one with our process id, with a message. */
int mt_core_output_open(struct mt_core_output *o, const char *path, char *why, size_t size);
/* Writes all bytes. Returns 0 or an errno value (EPIPE: the FIFO's reader is gone). Raises no signal. */
int mt_core_output_write(struct mt_core_output *o, const void *data, size_t bytes);
/* Stores the absolute path, to reopen it. */
void mt_core_output_remember(const struct mt_core_output *o);
void mt_core_output_close(struct mt_core_output *o);
/* Opens an unlinked file in $TMPDIR or /tmp for data that does not fit into memory. Returns 0, or an errno
 * value with *why set. */
int mt_core_output_scratch(struct mt_core_output *o, char *why, size_t size);
/* Reads or writes all `bytes` at `offset`. Returns 0 or an errno value (EIO: end of file; EBADF: the
 * program has closed the descriptor). */
int mt_core_output_pread(struct mt_core_output *o, void *data, size_t bytes, uint64_t offset);
int mt_core_output_pwrite(struct mt_core_output *o, const void *data, size_t bytes, uint64_t offset);
/* Reads a small file as a whole into pages of mt_plat_map and sets *bytes to its size. Returns NULL with
 * *why set on failure. The caller unmaps *bytes + 1. */
char *mt_core_output_slurp(const char *path, size_t *bytes, char *why, size_t size);
#endif
