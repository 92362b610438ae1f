/* Files read whole, temporary files that are always removed, and child processes. */

#include "base/trust.h"
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Far more than needed: two per image and architecture, the object and the linked object. */
#define MAX_TEMPS 256
static char *volatile temps[MAX_TEMPS];
static volatile sig_atomic_t ntemps;

void mt_cudabin_bytes_free(struct bytes *b)
{
    free(b->data);
    b->data = NULL;
    b->size = 0;
}

int mt_cudabin_file_read(const char *path, struct bytes *out)
{
    struct bytes b = {0};
    struct stat st;
    int saved;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) != 0) {
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        goto fail;
    }
    b.data = malloc((size_t)st.st_size + 1);
    if (!b.data) {
        goto fail;
    }
    while (b.size < (size_t)st.st_size) {
        ssize_t n = read(fd, b.data + b.size, (size_t)st.st_size - b.size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            goto fail;
        }
        if (n == 0) {
            break;
        }
        b.size += (size_t)n;
    }
    b.data[b.size] = 0;
    close(fd);
    *out = b;
    return 0;
fail:
    saved = errno;
    mt_cudabin_bytes_free(&b);
    close(fd);
    errno = saved;
    return -1;
}

static int cudabin_write_all(int fd, const unsigned char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

int mt_cudabin_file_append(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    int status = cudabin_write_all(fd, data, size);
    int saved = errno;
    if (close(fd) != 0 && status == 0) {
        return -1;
    }
    errno = saved;
    return status;
}

/* Returns 1 if the file's folder is safe: its files become code, so others must not be able to write there.
 */
static int file_is_safe(const char *path)
{
    char why[PATH_MAX + 128];
    if (mt_trust_file(path, why, sizeof why) == 0) {
        return 1;
    }
    mt_cli_say("no temporary file: %s; set TMPDIR to another folder", why);
    errno = EPERM;
    return 0;
}

const char *mt_cudabin_temp_write(const char *suffix, const void *data, size_t size)
{
    const char *dir = getenv("TMPDIR");
    char *path = NULL;
    sigset_t all, old;
    if (!dir || !*dir) {
        dir = "/tmp";
    }
    if (ntemps >= MAX_TEMPS) {
        errno = EMFILE;
        return NULL;
    }
    if (asprintf(&path, "%s/memtrace-XXXXXX%s", dir, suffix) < 0) {
        return NULL;
    }
    /* Blocks signals between the creation of the file and its entry in the list. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    int fd = mkostemps(path, (int)strlen(suffix), O_CLOEXEC);
    if (fd >= 0) {
        temps[ntemps] = path;
        ntemps++;
    }
    int saved = errno;
    sigprocmask(SIG_SETMASK, &old, NULL);
    errno = saved;
    if (fd < 0) {
        free(path);
        return NULL;
    }
    int status = file_is_safe(path) ? cudabin_write_all(fd, data, size) : -1;
    saved = errno;
    if (close(fd) != 0 && status == 0) {
        return NULL;
    }
    errno = saved;
    return status == 0 ? path : NULL;
}

void mt_cudabin_temp_remove(void)
{
    for (int i = 0; i < ntemps; i++) {
        unlink(temps[i]);
    }
}

static volatile sig_atomic_t child;
static const int guarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ};
#define NGUARDED (sizeof guarded / sizeof *guarded)

static void on_signal(int number)
{
    if (child > 0) {
        kill(child, SIGTERM);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    mt_cudabin_temp_remove();
    signal(number, SIG_DFL);
    raise(number); /* delivered when the handler returns */
}

static void guarded_set(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < NGUARDED; i++) {
        sigaddset(set, guarded[i]);
    }
}

void mt_cudabin_process_guard(void)
{
    struct sigaction action = {.sa_handler = on_signal}, old;
    guarded_set(&action.sa_mask);
    for (size_t i = 0; i < NGUARDED; i++) {
        /* Signals that the caller ignores (nohup) stay ignored. */
        if (sigaction(guarded[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            sigaction(guarded[i], &action, NULL);
        }
    }
}

int mt_cudabin_process_run(char *const argv[])
{
    sigset_t block, old;
    posix_spawnattr_t attr;
    pid_t pid = 0;
    int status;
    /* Blocks signals between fork and the assignment of `child`. */
    guarded_set(&block);
    sigprocmask(SIG_BLOCK, &block, &old);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &old);
    int error = posix_spawnp(&pid, argv[0], NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    if (error == 0) {
        child = pid;
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (error != 0) {
        errno = error;
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    child = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int mt_cudabin_process_exit_code(int code)
{
    if (code > 128 && code < 128 + NSIG) {
        signal(code - 128, SIG_DFL);
        raise(code - 128);
    }
    return code;
}
