/* What the trace goes to: a regular file, a FIFO somebody reads, a device, a descriptor that the user has
 * opened. Its number is out of the program's way (descriptors.h). Where the program closes it all the same, a
 * regular file is opened again, and what has its number then is left alone. A path is taken when it is new,
 * or a regular file or FIFO of ours, or a character device; symbolic links of ours are followed,
 * others are not. */
#ifndef MT_HOST_OUTPUT_H
#define MT_HOST_OUTPUT_H
#include <stddef.h>
#include <stdint.h>
#include "platform.h"

struct mt_core_output {
    int fd;    /* -1: closed */
    int fifo;  /* not a regular file that was opened here: neither truncated nor opened again */
    int error; /* first errno value of a write; later writes do nothing */
    uint64_t dev, ino;
    struct mt_spin lock; /* around each use of the number */
    uint32_t process;
    int aside; /* the number is being closed */
};

/* `pattern` with %p replaced by the process's number, in memory of ours; NULL: too long. */
const char *mt_core_output_name(const char *pattern);
/* The number that "-", /dev/stdout, /dev/stderr, /dev/fd/N or /proc/self/fd/N mean; -1: another path. */
int mt_core_output_number(const char *path);
/* Opens `path`, empty (0600 when new). What a number means is written to where it is. A FIFO
 * without reader is waited for, with a word after 2 s. 0, or an
 * errno value with *why set to a sentence that names the path and the way out.
 * A regular file that another process is writing stays as it is: for a name of mt_core_output_name, which
 * then changes, one with our number in it is taken, with a word. */
int mt_core_output_open(struct mt_core_output *o, const char *path, char *why, size_t size);
/* Writes it all. 0 or an errno value (EPIPE: the FIFO's reader is gone). Raises no signal. */
int mt_core_output_write(struct mt_core_output *o, const void *data, size_t bytes);
/* Its whole path, to open it again. */
void mt_core_output_remember(const struct mt_core_output *o);
void mt_core_output_close(struct mt_core_output *o);
/* An unlinked file in $TMPDIR or /tmp for what does not fit into memory: 0, or an errno value with *why. */
int mt_core_output_scratch(struct mt_core_output *o, char *why, size_t size);
/* Reads or writes all `bytes` at `offset`; 0 or an errno value (EIO: the file ends before; EBADF: the program
 * has closed the descriptor). */
int mt_core_output_pread(struct mt_core_output *o, void *data, size_t bytes, uint64_t offset);
int mt_core_output_pwrite(struct mt_core_output *o, const void *data, size_t bytes, uint64_t offset);
/* Whole small file into pages of mt_plat_map; *bytes its size. NULL with *why. Unmap *bytes + 1. */
char *mt_core_output_slurp(const char *path, size_t *bytes, char *why, size_t size);
#endif
