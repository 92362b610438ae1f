/* TCP connections of NCCL's ranks between machines. Functions that can fail return -1 with errno set. Sockets
 * never block, and raise no signals. */
#ifndef MT_LIBRARIES_WIRE_H
#define MT_LIBRARIES_WIRE_H
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Address of a socket; family 0: none. */
struct mt_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
};

/* A socket; fd 0: none. Programs may close all descriptors and use their numbers for files of their own. */
struct mt_wire {
    int fd;
    dev_t dev;
    ino_t ino;
};

/* Takes a new socket over: above the program's standard descriptors. */
int mt_wire_take(struct mt_wire *w, int fd);
/* Returns 1 while the number still refers to that socket. */
int mt_wire_is(const struct mt_wire *w);
void mt_wire_close(struct mt_wire *w);
/* Makes a dead machine end the connection, too, in one to two minutes. */
void mt_wire_watch(const struct mt_wire *w);
/* Listens at an address, at any port, which is put into it. */
int mt_wire_listen(struct mt_wire *w, struct mt_address *at);
/* Connects, in 30 s at most. */
int mt_wire_connect(struct mt_wire *w, const struct mt_address *at);
/* Waits until a socket can be written (out), or read. */
int mt_wire_ready(const struct mt_wire *w, int out, int ms);
/* Sends or receives some bytes without waiting. Returns their number; 0: none now; -1: the connection has
 * ended. */
ssize_t mt_wire_some(const struct mt_wire *w, int out, void *p, size_t bytes);
/* Sends or receives a whole message, within `ms` for each piece. Returns 0 or -1. */
int mt_wire_all(const struct mt_wire *w, int out, void *p, size_t bytes, int ms);
/* Returns the address in words, which may be in `out`. */
const char *mt_wire_words(const struct mt_address *a, char out[INET6_ADDRSTRLEN]);

/* Finds the address at which other machines reach this one (MEMTRACE_NETWORK). Returns 0, or -1: there is
 * none. */
int mt_address_own(struct mt_address *a);
/* Returns a hash of this machine's name. */
uint64_t mt_address_machine(void);
#endif
