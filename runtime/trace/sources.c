/* What the source files of a program's code held while it ran: `source` lines of companions. */
#define _GNU_SOURCE
#include "sources.h"
#include "events.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/held.h"
#include "base/json.h"
#include "base/options.h"
#include "base/report.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

enum { MOST_FILES = 256, LARGEST = 16 << 20 }; /* PTX may be as long as that */

static char *seen[MOST_FILES];
static unsigned nseen;
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(noting, MT_FORK_LEAVES);

/* 1 when the name is new. */
static int sources_note(const char *file)
{
    int found = 0;
    pthread_mutex_lock(&noting);
    for (unsigned i = nseen; i-- > 0 && !found;) /* sites of one file are together */
        found = strcmp(seen[i], file) == 0;
    if (nseen == MOST_FILES || (!found && !(seen[nseen] = strdup(file))))
        found = 1;
    nseen += !found;
    pthread_mutex_unlock(&noting);
    return !found;
}

/* A FIFO or a terminal by that name is not waited for. 0, or -1. */
static int sources_digest(const char *file, uint64_t *bytes, XXH128_hash_t *hash)
{
    struct stat st;
    int fd = mt_fd_up(open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)), rc = -1;
    char *copy = NULL;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= LARGEST &&
        (copy = malloc((size_t)st.st_size)))
        rc = pread(fd, copy, (size_t)st.st_size, 0) == (ssize_t)st.st_size ? 0 : -1;
    if (rc == 0) {
        *bytes = (uint64_t)st.st_size;
        *hash = XXH3_128bits(copy, (size_t)st.st_size);
    }
    free(copy);
    close(fd);
    return rc;
}

void mt_source_line(const char *file)
{
    uint64_t bytes;
    XXH128_hash_t hash;
    char text[33];
    if (!*file || !sources_note(file) || sources_digest(file, &bytes, &hash) != 0)
        return;
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    mt_log_line(MT_LINE_source, &(struct mt_source_line){file, bytes, text});
}

/* ---- texts that are in no file ------------------------------------------------------------------ */

static struct {
    char *name, *path;
} kept[MOST_FILES];
static _Atomic unsigned nkept; /* readers take no lock */
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(keeping, MT_FORK_LEAVES);

const char *mt_source_kept_at(const char *name)
{
    for (unsigned i = nkept; i-- > 0;)
        if (!strcmp(kept[i].name, name))
            return kept[i].path;
    return name;
}

static int sources_put(int fd, const char *text, size_t bytes)
{
    int error = 0;
    struct mt_held h = mt_hold(SIGXFSZ);
    for (size_t done = 0; done < bytes && !error;) {
        ssize_t n = pwrite(fd, text + done, bytes - done, (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n ? errno : ENOSPC;
    }
    mt_let_go(&h, error);
    return error;
}

/* Under another name first: who reads it finds it whole. 0 or an errno value. */
static int sources_write(const char *path, const char *text, size_t bytes)
{
    char temporary[PATH_MAX + 128];
    struct timespec t; /* so that nobody foresees the name */
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(temporary, sizeof temporary, "%s.%ld-%ld", path, (long)getpid(), t.tv_nsec);
    int fd = mt_fd_up(open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0)
        return errno;
    int error = sources_put(fd, text, bytes);
    close(fd);
    if (!error && rename(temporary, path))
        error = errno;
    if (error)
        unlink(temporary);
    return error;
}

static int sources_is_there(const char *path, const void *text, size_t n)
{
    uint64_t bytes;
    XXH128_hash_t hash;
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           sources_digest(path, &bytes, &hash) == 0 && bytes == n &&
           XXH128_isEqual(hash, XXH3_128bits(text, n));
}

static const char nobody[] = "accesses have lines of a text that nobody has";

/* Its path. 0, or -1 after saying why, and what follows from it. */
static int sources_file(const char *folder, const char *name, const void *text, size_t bytes,
                        char path[PATH_MAX], const char *so)
{
    char whole[PATH_MAX];
    if (!realpath(folder, whole)) /* trace files will say so */
        return -1;
    if (snprintf(path, PATH_MAX, "%s/%s", whole, name) >= PATH_MAX)
        return -1;
    int error = sources_is_there(path, text, bytes) ? 0 : sources_write(path, text, bytes);
    if (error)
        mt_note("%s cannot be written: %s; %s; set MEMTRACE_DIR to another folder", path, strerror(error),
                so);
    return error ? -1 : 0;
}

static void sources_keep(const char *name, const void *text, size_t bytes)
{
    char path[PATH_MAX];
    if (nkept == MOST_FILES || !bytes || mt_source_kept_at(name) != name ||
        sources_file(mt_options()->dir, name, text, bytes, path, nobody))
        return;
    kept[nkept].name = strdup(name);
    kept[nkept].path = strdup(path);
    if (kept[nkept].name && kept[nkept].path)
        nkept++;
}

/* The hook in Python has a source that is in no file: it gets one in the folder, which is MEMTRACE_DIR if it
 * is NULL. 0, or -1. */
__attribute__((visibility("default"))) int __mt_source_file(const char *folder, const char *text,
                                                            size_t bytes, char *path, size_t size)
{
    char name[64];
    XXH128_hash_t hash = XXH3_128bits(text, bytes);
    snprintf(name, sizeof name, "MemTrace-%016llx.cu", (unsigned long long)hash.high64);
    pthread_mutex_lock(&keeping);
    int rc = size < PATH_MAX
                 ? -1
                 : sources_file(folder ? folder : mt_options()->dir, name, text, bytes, path, nobody);
    pthread_mutex_unlock(&keeping);
    return rc;
}

void mt_source_keep(const char *name, const void *text, size_t bytes)
{
    pthread_mutex_lock(&keeping);
    sources_keep(name, text, bytes);
    pthread_mutex_unlock(&keeping);
}

int mt_source_put(const char *name, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    pthread_mutex_lock(&keeping);
    int rc = sources_file(mt_options()->dir, name, data, bytes, path, "the machine code is not kept");
    pthread_mutex_unlock(&keeping);
    return rc;
}
