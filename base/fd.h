/* File descriptors of memtrace within the traced program. Numbers 0 to 2 are avoided, since a program that
 * starts without stdin, stdout or stderr opens them later. A program that closes every descriptor also closes
 * ours and may reuse the number for a file of its own, which must not receive our data. */
#ifndef MT_COMMON_FD_H
#define MT_COMMON_FD_H
#include <sys/types.h>

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
#endif
