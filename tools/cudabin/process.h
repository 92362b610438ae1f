/* Whole files in memory, temporary files that never outlive the program, and children (process.c). */
#ifndef MT_CUDABIN_PROCESS_H
#define MT_CUDABIN_PROCESS_H
#include <stddef.h>
#include <stdint.h>
#include "base/say.h"

/* Bytes on the heap; data is NULL when size is 0. Zero-initialise; bytes_free is safe to repeat. */
struct bytes {
    unsigned char *data;
    size_t size;
};
void mt_cudabin_bytes_free(struct bytes *b);
/* 0, or -1 with errno. */
int mt_cudabin_file_read(const char *path, struct bytes *out);
int mt_cudabin_file_append(const char *path, const void *data, size_t size);
int mt_cudabin_file_is_regular(const char *path);

/* A new temporary file with these contents in TMPDIR (or /tmp); NULL with errno.
 * The name lives until temp_remove. */
const char *mt_cudabin_temp_write(const char *suffix, const void *data, size_t size);
/* Removes all temporary files. Safe in a signal handler. */
void mt_cudabin_temp_remove(void);

/* Installs the handlers that clean up. Call before the first temp_write. */
void mt_cudabin_process_guard(void);
/* Runs argv[0] (searched in PATH when it has no '/') and waits. Returns the exit code, 128 + signal when a
 * signal ended it, or -1 with errno when it could not be started. */
int mt_cudabin_process_run(char *const argv[]);
/* Ends with a code of process_run: by the same signal, if it was one,
 * so that the caller sees what it would see. */
int mt_cudabin_process_exit_code(int code);
#endif
