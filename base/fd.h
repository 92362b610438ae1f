/* Descriptors of ours among the program's. A program that starts without stdin, stdout or stderr opens them
 * later: numbers 0 to 2 are not for us. One that closes all descriptors it can think of closes ours, too, and
 * may get the number for a file of its own: what we write must not end up there. */
#ifndef MT_COMMON_FD_H
#define MT_COMMON_FD_H
#include <sys/types.h>

/* The same file under a number of 3 or more, close-on-exec; `fd` is closed when it was another. -1 with errno
 * (EMFILE), also when `fd` is negative, whose errno stays. */
int mt_fd_up(int fd);

struct mt_fd {
    int fd; /* -1: none */
    dev_t dev;
    ino_t ino;
};
#define MT_FD_NONE {.fd = -1}
/* Takes a descriptor that was just opened, by mt_fd_up. 0, or -1 with errno: it is closed. */
int mt_fd_take(struct mt_fd *d, int fd);
/* 1 while the number still means that file. */
int mt_fd_is(const struct mt_fd *d);
/* Closes it if it is still ours. */
void mt_fd_close(struct mt_fd *d);
#endif
