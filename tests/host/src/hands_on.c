/* Blocks that the program fills and hands to the kernel, and never reads itself; the last one goes nowhere.
 * Some calls fail. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BLOCKS = 9 };

int main(void)
{
    char *b[BLOCKS], *const bad = (char *)8;
    int pair[2], fd = open("/dev/null", O_WRONLY);
    long sent = 0;
    for (int i = 0; i < BLOCKS; i++) {
        b[i] = malloc(1000 * (size_t)(i + 1));
        memset(b[i], i, 1000 * (size_t)(i + 1));
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 1;
    struct iovec two[] = {{b[2], 3000}, {b[3], 4000}}, one = {b[4], 5000};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    sent += write(fd, b[0], 1000);
    sent += pwrite(fd, b[1], 2000, 0);
    sent += writev(fd, two, 2);
    sent += sendmsg(pair[0], &message, 0);
    sent += send(pair[0], b[5], 6000, 0);
    sent += pwritev(fd, &(struct iovec){b[6], 7000}, 1, 0);
    FILE *f = fopen("/dev/null", "w");
    sent += (long)fwrite(b[7], 1, 8000, f);
    fclose(f);
    if (write(pair[0], bad, 100) != -1 || writev(fd, (struct iovec *)bad, 5) != -1)
        return 1;
    printf("%ld\n", sent);
    for (int i = 0; i < BLOCKS; i++)
        free(b[i]);
    return 0;
}
