/* Writes to one object for ever; says when it has begun, ends with its standard input. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    volatile long *p = malloc(sizeof *p * 100);
    for (int first = 1; poll(&in, 1, 0) <= 0; first = 0) { /* -1: the switching signal interrupted it */
        for (int i = 0; i < 1000; i++)
            p[i % 100]++;
        if (first) {
            puts("ready");
            fflush(stdout);
        }
    }
    return 0;
}
