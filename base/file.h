/* Files that the runtime writes: regular files or FIFOs in a folder that others may write to as well.
 * A path is only taken when it is new, or a regular file or FIFO of ours; symbolic links are not followed.
 * In a forked child all files are closed and stay so: they belong to the parent. A regular file whose
 * descriptor the program has closed is opened again; nothing is written to what has its number now. */
#ifndef MT_COMMON_FILE_H
#define MT_COMMON_FILE_H
#include "fd.h"
#include <stddef.h>
#include <stdint.h>

struct mt_file {
    struct mt_fd at; /* fd -1: closed */
    int fifo;
    char *whole_path;             /* of a regular file, to open it again; NULL: unknown */
    struct mt_file *next, **prev; /* open files, for fork */
};

enum mt_file_mode {
    MT_FILE_WAIT,   /* a FIFO without reader: wait for one, say so once after 2 s */
    MT_FILE_TRY,    /* a FIFO without reader: EAGAIN */
    MT_FILE_RESUME, /* go on with the regular file that `file` says (dev, ino) at its end; else ESTALE */
};

/* Opens `path` for writing, empty (0600 when new). 0, or an errno value with *why set to a sentence that
 * names the path and the way out. */
int mt_file_open(struct mt_file *file, const char *path, enum mt_file_mode mode, char *why, size_t size);
/* Writes it all, at `offset`, or at the current position when offset is -1. *done says how many bytes were
 * written. 0 or an errno value (EPIPE: the FIFO's reader is gone). Never raises SIGPIPE or SIGXFSZ. Calls
 * with an offset may overlap in time. */
int mt_file_write(struct mt_file *file, const void *data, size_t bytes, int64_t offset, size_t *done);
/* What such a value means, in words for the user. */
const char *mt_file_reason(int error);
/* Cuts a regular file; 0 or an errno value. */
int mt_file_cut(struct mt_file *file, uint64_t bytes);
void mt_file_close(struct mt_file *file);

/* From here on a child of fork is one that may not trace: what is written is its parent's. */
void mt_fork_counts(void);
/* 1 in a process that was forked after the runtime had opened a file: nothing may be written or locked. */
int mt_forked(void);
#endif
