/* TCP connections to other machines, and the address of this one. */
#define _GNU_SOURCE
#include "wire.h"
#include "library.h"
#include "api/launch/library.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { CONNECT_MS = 30000, QUEUE = 128 /* connections that are not yet accepted */ };

/* ---- sockets */

int mt_wire_take(struct mt_wire *w, int fd)
{
    struct stat st;
    int up = fd < 0 || fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (up != fd)
        close(fd);
    if (up < 0 || fstat(up, &st))
        return -1;
    *w = (struct mt_wire){up, st.st_dev, st.st_ino};
    return 0;
}

int mt_wire_is(const struct mt_wire *w)
{
    struct stat st;
    return w->fd && !fstat(w->fd, &st) && st.st_dev == w->dev && st.st_ino == w->ino;
}

void mt_wire_close(struct mt_wire *w)
{
    if (mt_wire_is(w))
        close(w->fd);
    w->fd = 0;
}

static socklen_t wire_size(const struct mt_address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

const char *mt_wire_words(const struct mt_address *a, char out[INET6_ADDRSTRLEN])
{
    const void *p = a->any.sa_family == AF_INET6 ? (const void *)&a->v6.sin6_addr : &a->v4.sin_addr;
    return a->any.sa_family && inet_ntop(a->any.sa_family, p, out, INET6_ADDRSTRLEN) ? out : "this machine";
}

int mt_wire_listen(struct mt_wire *w, struct mt_address *at)
{
    socklen_t size = wire_size(at);
    *(at->any.sa_family == AF_INET6 ? &at->v6.sin6_port : &at->v4.sin_port) = 0;
    if (mt_wire_take(w, socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)))
        return -1;
    if (!bind(w->fd, &at->any, size) && !listen(w->fd, QUEUE) && !getsockname(w->fd, &at->any, &size))
        return 0;
    int e = errno;
    mt_wire_close(w);
    errno = e;
    return -1;
}

int mt_wire_ready(const struct mt_wire *w, int out, int ms)
{
    struct pollfd p = {.fd = w->fd, .events = out ? POLLOUT : POLLIN};
    int n;
    do
        n = poll(&p, 1, ms);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = ETIMEDOUT;
    return n > 0 ? 0 : -1;
}

void mt_wire_watch(const struct mt_wire *w)
{
    const int on = 1, idle_s = 20, every_s = 10, times = 3, unsent_ms = 60000;
    setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(w->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(w->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(w->fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(w->fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    setsockopt(w->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof unsent_ms);
}

int mt_wire_connect(struct mt_wire *w, const struct mt_address *at)
{
    int e = 0;
    socklen_t size = sizeof e;
    if (mt_wire_take(w, socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)))
        return -1;
    mt_wire_watch(w);
    if (connect(w->fd, &at->any, wire_size(at)) &&
        ((errno != EINPROGRESS && errno != EINTR) || mt_wire_ready(w, 1, CONNECT_MS) ||
         getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &e, &size)))
        e = errno;
    if (!e)
        return 0;
    mt_wire_close(w);
    errno = e;
    return -1;
}

ssize_t mt_wire_some(const struct mt_wire *w, int out, void *p, size_t bytes)
{
    ssize_t n;
    do
        n = out ? send(w->fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(w->fd, p, bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n == 0)
        errno = EPIPE;
    return n > 0 ? n : -1;
}

int mt_wire_all(const struct mt_wire *w, int out, void *p, size_t bytes, int ms)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = mt_wire_some(w, out, (char *)p + done, bytes - done);
        if (n < 0 || (n == 0 && mt_wire_ready(w, out, ms)))
            return -1;
        done += (size_t)n;
    }
    return 0;
}

/* ---- addresses */

/* Returns 1 if the interface leads to other machines, or is the wanted one. */
static int address_fits(const struct ifaddrs *i, const char *wanted, int family)
{
    if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP))
        return 0;
    if (*wanted)
        return strcmp(i->ifa_name, wanted) == 0;
    return !(i->ifa_flags & IFF_LOOPBACK) && strncmp(i->ifa_name, "docker", 6) &&
           strncmp(i->ifa_name, "virbr", 5) &&
           (family == AF_INET ||
            !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr));
}

static int address_of_interface(struct mt_address *a, const char *wanted)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all))
        return -1;
    for (size_t f = 0; f < 2 && !a->any.sa_family; f++)
        for (const struct ifaddrs *i = all; i && !a->any.sa_family; i = i->ifa_next)
            if (address_fits(i, wanted, families[f]))
                memcpy(a, i->ifa_addr, f ? sizeof a->v6 : sizeof a->v4);
    freeifaddrs(all);
    return a->any.sa_family ? 0 : -1;
}

int mt_address_own(struct mt_address *a)
{
    uint64_t timeout;
    const char *wanted = __mt_library_network(&timeout);
    memset(a, 0, sizeof *a);
    if (strcmp(wanted, "off") == 0)
        return -1;
    if (inet_pton(AF_INET, wanted, &a->v4.sin_addr) == 1)
        a->any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, wanted, &a->v6.sin6_addr) == 1)
        a->any.sa_family = AF_INET6;
    if (a->any.sa_family || address_of_interface(a, wanted) == 0)
        return 0;
    if (*wanted)
        mt_lib_say("MEMTRACE_NETWORK=%s: this machine has no such address or interface", wanted);
    return -1;
}

uint64_t mt_address_machine(void)
{
    struct utsname u;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *p = uname(&u) ? "" : u.nodename; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    return hash;
}
