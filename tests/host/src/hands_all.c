/* Hands bytes to the kernel from 600 places of its code, and in a call of 1000 pieces: all of both blocks is
 * read. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PLACES = 600, PIECES = 1000 };

/* write() without the C library: each place is one of its own. */
#define ONE                                                                                                  \
    __asm__ volatile("syscall"                                                                               \
                     : "=a"(got)                                                                             \
                     : "a"(1L), "D"((long)fd), "S"(at++), "d"(1L)                                            \
                     : "rcx", "r11", "memory");                                                              \
    sent += got;
#define TEN ONE ONE ONE ONE ONE ONE ONE ONE ONE ONE
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

int main(void)
{
    char *places = malloc(PLACES), *pieces = malloc(PIECES), *at = places;
    struct iovec v[PIECES];
    long got, sent = 0, fd = open("/dev/null", O_WRONLY);
    memset(places, 1, PLACES);
    memset(pieces, 1, PIECES);
    for (int i = 0; i < PIECES; i++)
        v[i] = (struct iovec){pieces + i, 1};
    HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED sent += writev((int)fd, v, PIECES);
    printf("%ld\n", sent);
    free(places);
    free(pieces);
    return 0;
}
