/* Output files of the runtime: regular files or FIFOs in a folder that others may write to. A path is
 * accepted only if it is new, or a regular file or FIFO of the user; symbolic links are not followed. In a
 * forked child all files are closed and stay closed, since they belong to the parent. If the program closes
 * the descriptor of a regular file, the file is opened again; nothing is written to a file that reuses the
 * number. */
#ifndef MT_COMMON_FILE_H
#define MT_COMMON_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* File descriptors of memtrace within the traced program. Numbers 0 to 2 are avoided, since a program that
 * starts without stdin, stdout or stderr opens them later. A program that closes every descriptor also closes
 * ours and may reuse the number for a file of its own, which must not receive our data. */

/* Moves `fd` to a number of 3 or more, close-on-exec; closes the old number if it changes. Returns the new
 * number, or -1 with errno (EMFILE); a negative `fd` returns -1 and leaves errno. */
int mt_fd_up(int fd);

struct mt_fd {
    int fd; /* -1: closed */
    dev_t dev;
    ino_t ino;
};
#define MT_FD_NONE {.fd = -1}
/* Takes over a descriptor that was just opened, by mt_fd_up. Returns 0, or -1 with errno and the descriptor
 * closed. */
int mt_fd_take(struct mt_fd *d, int fd);
/* Returns 1 while the number still refers to that file. */
int mt_fd_is(const struct mt_fd *d);
/* Closes the descriptor if it is still ours. */
void mt_fd_close(struct mt_fd *d);

/* Output files of option -o: which files are allowed, and how they are opened. Used by every program that
 * writes one. */

/* Returns 1 if writing to `output` would change `input`: the paths name the same file (links are followed), a
 * trace and its companion, or a folder and a trace in it. Devices and pipes never count. */
int mt_output_is_input(const char *output, const char *input);
/* Opens `path` for writing without truncating it. Returns a descriptor (close-on-exec), or -1 with *why set
 * to a static string. Symbolic links of other users are refused, since in a shared folder they could lead to
 * the user's own files; root's links, such as /dev/stdout, are followed. */
int mt_create(const char *path, const char **why);

/* ---- Programs by name, found as a shell finds them ---- */

/* Returns 0 if the file can be run, or an errno value. */
int mt_files_runs(const char *path);
/* Finds the full path of a program: `name` itself if it contains a slash, else in PATH. Returns 0 or an errno
 * value. */
int mt_files_executable(const char *name, char path[PATH_MAX]);

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
