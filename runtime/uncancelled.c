/* Functions that are points of cancellation, with cancellation disabled. pthread_cancel may end a thread of
 * the program where it waits, reads or writes: also inside a CUDA call, with our locks held for ever. So
 * libmemtrace.so is linked with --wrap=NAME for each of these functions (runtime/CMakeLists.txt), and the
 * thread ends at its own next point of cancellation. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

/* types, names: of the parameters, in parentheses */
#define UNCANCELLED(type, name, types, names)                                                                \
    type __real_##name types;                                                                                \
    type __wrap_##name types;                                                                                \
    type __wrap_##name types                                                                                 \
    {                                                                                                        \
        int state;                                                                                           \
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);                                              \
        type result = __real_##name names;                                                                   \
        pthread_setcancelstate(state, NULL);                                                                 \
        return result;                                                                                       \
    }

UNCANCELLED(int, close, (int fd), (fd))
UNCANCELLED(int, fclose, (FILE * f), (f))
UNCANCELLED(int, fflush, (FILE * f), (f))
UNCANCELLED(char *, fgets, (char *s, int n, FILE *f), (s, n, f))
UNCANCELLED(FILE *, fopen, (const char *path, const char *mode), (path, mode))
UNCANCELLED(int, fputs, (const char *s, FILE *f), (s, f))
UNCANCELLED(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
UNCANCELLED(int, nanosleep, (const struct timespec *t, struct timespec *left), (t, left))
UNCANCELLED(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
UNCANCELLED(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
UNCANCELLED(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
UNCANCELLED(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
UNCANCELLED(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
UNCANCELLED(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
UNCANCELLED(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
UNCANCELLED(int, sigtimedwait, (const sigset_t *s, siginfo_t *i, const struct timespec *t), (s, i, t))
UNCANCELLED(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
UNCANCELLED(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
UNCANCELLED(int, pthread_cond_clockwait,
            (pthread_cond_t * c, pthread_mutex_t *m, clockid_t clock, const struct timespec *until),
            (c, m, clock, until))
/* Checked variants, which compilers use by default in some distributions. */
UNCANCELLED(char *, __fgets_chk, (char *s, size_t room, int n, FILE *f), (s, room, n, f))
UNCANCELLED(ssize_t, __pread_chk, (int fd, void *p, size_t n, off_t at, size_t room), (fd, p, n, at, room))
UNCANCELLED(ssize_t, __read_chk, (int fd, void *p, size_t n, size_t room), (fd, p, n, room))
UNCANCELLED(ssize_t, __recv_chk, (int fd, void *p, size_t n, size_t room, int flags), (fd, p, n, room, flags))

/* Functions with variable arguments. */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_fprintf(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___fprintf_chk(FILE *f, int flag, const char *format, ...) __attribute__((format(printf, 3, 4)));

int __wrap_open(const char *path, int flags, ...)
{
    int state;
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    int fd = __real_open(path, flags, mode);
    pthread_setcancelstate(state, NULL);
    return fd;
}

int __wrap_openat(int folder, const char *path, int flags, ...)
{
    int state;
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    int fd = __real_openat(folder, path, flags, mode);
    pthread_setcancelstate(state, NULL);
    return fd;
}

static int uncancelled_print(FILE *f, const char *format, va_list args)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    int n = vfprintf(f, format, args);
    pthread_setcancelstate(state, NULL);
    return n;
}

int __wrap_fprintf(FILE *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = uncancelled_print(f, format, args);
    va_end(args);
    return n;
}

int __wrap___fprintf_chk(FILE *f, int flag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)flag;
    int n = uncancelled_print(f, format, args);
    va_end(args);
    return n;
}
