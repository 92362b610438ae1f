/* Output files of the runtime: regular files or FIFOs in a folder that others may write to. A path is
 * accepted only if it is new, or a regular file or FIFO of the user; symbolic links are not followed. In a
 * forked child all files are closed and stay closed, since they belong to the parent. If the program closes
 * the descriptor of a regular file, the file is opened again; nothing is written to a file that reuses the
 * number. */
#ifndef MT_COMMON_FILE_H
#define MT_COMMON_FILE_H
#include "fd.h"
#include <stddef.h>
#include <stdint.h>

struct mt_file {
    struct mt_fd at; /* fd -1: closed */
    int fifo;
    char *whole_path;             /* absolute path of a regular file, to open it again; NULL: unknown */
    struct mt_file *next, **prev; /* list of open files, for fork */
};

enum mt_file_mode {
    MT_FILE_WAIT,   /* FIFO without a reader: waits, and says so once after 2 s */
    MT_FILE_TRY,    /* FIFO without a reader: returns EAGAIN */
    MT_FILE_RESUME, /* continues at the end of the regular file with `file`'s dev and ino; another file gives
                       ESTALE */
};

/* Opens `path` for writing and empties it; new files have mode 0600. Returns 0, or an errno value with *why
 * set to a sentence that names the path and the way out. */
int mt_file_open(struct mt_file *file, const char *path, enum mt_file_mode mode, char *why, size_t size);
/* Writes all bytes at `offset`, or at the current position if offset is -1. *done is the number of bytes
 * written. Returns 0 or an errno value (EPIPE: the FIFO's reader is gone). Never raises SIGPIPE or SIGXFSZ.
 * Calls with an offset may run concurrently. */
int mt_file_write(struct mt_file *file, const void *data, size_t bytes, int64_t offset, size_t *done);
/* Returns what an error of mt_file_write means, in words for the user. */
const char *mt_file_reason(int error);
/* Truncates a regular file to `bytes`. Returns 0 or an errno value. */
int mt_file_cut(struct mt_file *file, uint64_t bytes);
void mt_file_close(struct mt_file *file);

/* Marks the start of tracing: children forked from now on must not trace, since all output belongs to the
 * parent. */
void mt_fork_counts(void);
/* Returns 1 in a process that was forked after mt_fork_counts: it must not write or lock anything. */
int mt_forked(void);
#endif
