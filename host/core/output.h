/* Output of the trace: a regular file, a FIFO with a reader, a device, or a descriptor that the user has
 * opened. Its number is kept apart from the program's. If the program closes it anyway, a regular file is
 * opened again, and the new owner of the number is left alone. An accepted path is new, or our user's regular
 * file or FIFO, or a character device; only symbolic links of our user are followed. */
#ifndef MT_HOST_OUTPUT_H
#define MT_HOST_OUTPUT_H

#include "memtrace/container.h"
#include "platform.h"
#include <stddef.h>
#include <stdint.h>

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

void mt_core_output_close(struct mt_core_output *o);

/* Reads a small file as a whole into pages of mt_plat_map and sets *bytes to its size. Returns NULL with
 * *why set on failure. The caller unmaps *bytes + 1. */
char *mt_core_output_slurp(const char *path, size_t *bytes, char *why, size_t size);

/* Entries kept in an unlinked scratch file until the end, then read sorted by rank of their instruction,
 * then by time, with operands in order of insertion. Memory stays below about 140 MiB for any number of
 * entries. */

struct mt_spool {
    struct mt_core_output file;
    uint64_t entries;
};

/* Opens a spool. Returns 0, or an errno value with *why set. */
int mt_spool_open(struct mt_spool *s, char *why, unsigned size);

/* Appends entries. Returns 0, or an errno value, and then none of them is in. The caller locks. */
int mt_spool_add(struct mt_spool *s, const struct mt_host_timed_entry *e, uint64_t count);

struct mt_spool_reader {
    const uint32_t *rank; /* rank per instruction (site / 4), 0 .. ranks - 1 */
    uint32_t ranks;
    uint64_t memory; /* bytes for sorting; 0: 64 MiB */
    void (*entry)(void *arg, const struct mt_host_timed_entry *e, uint32_t rank);
    void *arg;
};

/* Reads all entries in order and closes the spool. Returns 0, or an errno value if some are missing. */
int mt_spool_read(struct mt_spool *s, const struct mt_spool_reader *r);

#endif
