/* Files read whole, temporary files that are always removed, and child processes. */
#ifndef MT_CUDABIN_PROCESS_H
#define MT_CUDABIN_PROCESS_H
#include <stddef.h>
#include <stdint.h>
#include "base/say.h"

/* Bytes on the heap; data is NULL if size is 0. Zero-initialised is empty; freeing twice is safe. */
struct bytes {
    unsigned char *data;
    size_t size;
};
void mt_cudabin_bytes_free(struct bytes *b);
/* Reads a whole file. Returns 0, or -1 with errno. */
int mt_cudabin_file_read(const char *path, struct bytes *out);
int mt_cudabin_file_append(const char *path, const void *data, size_t size);

/* Writes a new temporary file in TMPDIR or /tmp. Returns its name, valid until mt_cudabin_temp_remove, or
 * NULL with errno. */
const char *mt_cudabin_temp_write(const char *suffix, const void *data, size_t size);
/* Removes all temporary files. Safe in a signal handler. */
void mt_cudabin_temp_remove(void);

/* Installs signal handlers that clean up. Must precede the first mt_cudabin_temp_write. */
void mt_cudabin_process_guard(void);
/* Runs argv[0], searched in PATH if it contains no '/', and waits. Returns the exit code, 128 + signal if a
 * signal ended it, or -1 with errno if it could not start. */
int mt_cudabin_process_run(char *const argv[]);
/* Returns the exit code for a result of mt_cudabin_process_run; if a signal ended the child, raises the same
 * signal, so that the caller sees it. */
int mt_cudabin_process_exit_code(int code);
#endif
