/* A cache folder of the user's, for results that took time to compute. */
#include "cache.h"
#include "memtrace/order.h"
#include "options.h"
#include "file.h"
#include "held.h"
#include "trust.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define SUFFIX ".image"
#define STALE_S 3600 /* age at which an unfinished file is removed */

struct head {
    char magic[8];
    uint64_t nwords, bytes; /* number of words (padded with zeros to 16 bytes), bytes of the result */
    uint64_t hash[2];       /* hash of everything after the head */
    uint64_t pad;
};
_Static_assert(sizeof(struct head) == 48, "a multiple of 16");
static const char magic[8] = "MTKEPT1";

void mt_cache_key(char key[MT_CACHE_KEY], const void *data, size_t bytes)
{
    uint64_t low = strlen(key) < 16
                       ? 0
                       : strtoull(key + 16, NULL, 16); /* the seed is the second half of the previous hash */
    XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, low);
    snprintf(key, MT_CACHE_KEY, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

/* ---- files of the cache ---- */

static int cache_put(int fd, const void *data, size_t bytes, off_t at)
{
    int error = 0;
    struct mt_held h = mt_hold(SIGXFSZ);
    for (size_t done = 0; done < bytes && !error;) {
        ssize_t n = pwrite(fd, (const char *)data + done, bytes - done, at + (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n ? errno : ENOSPC;
    }
    mt_let_go(&h, error);
    errno = error;
    return error ? -1 : 0;
}

static int cache_get(int fd, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)data + done, bytes - done, (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR) {
            errno = n ? errno : EBADMSG;
            return -1;
        }
    }
    return 0;
}

static void cache_hash(const struct head *head, uint64_t out[2])
{
    XXH128_hash_t h = XXH3_128bits(head + 1, (size_t)((head->nwords + 15) / 16 * 16 + head->bytes));
    out[0] = h.low64;
    out[1] = h.high64;
}

int mt_cache_write(int fd, const char *words, size_t nwords, const void *made, size_t bytes)
{
    size_t room = (nwords + 15) / 16 * 16, all = sizeof(struct head) + room + bytes;
    struct head *head = calloc(1, all);
    if (!head)
        return -1;
    memcpy(head->magic, magic, sizeof magic);
    head->nwords = nwords;
    head->bytes = bytes;
    memcpy(head + 1, words, nwords);
    memcpy((char *)(head + 1) + room, made, bytes);
    cache_hash(head, head->hash);
    int rc = cache_put(fd, head, all, 0), saved = errno;
    free(head);
    errno = saved;
    return rc;
}

int mt_cache_read(int fd, struct mt_cache_entry *out)
{
    struct stat st;
    struct head *head = NULL;
    uint64_t hash[2];
    errno = EBADMSG;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof *head)
        return -1;
    uint64_t size = (uint64_t)st.st_size, left = size - sizeof *head;
    head = malloc(size);
    if (!head || cache_get(fd, head, size))
        goto fail;
    errno = EBADMSG;
    if (memcmp(head->magic, magic, sizeof magic) || head->nwords > left || head->bytes > left ||
        (head->nwords + 15) / 16 * 16 + head->bytes != left)
        goto fail;
    cache_hash(head, hash);
    if (memcmp(hash, head->hash, sizeof hash))
        goto fail;
    *out = (struct mt_cache_entry){.block = head,
                                   .words = (const char *)(head + 1),
                                   .made = (const char *)(head + 1) + (head->nwords + 15) / 16 * 16,
                                   .nwords = head->nwords,
                                   .bytes = head->bytes};
    return 0;
fail:;
    int saved = errno;
    free(head);
    errno = saved;
    return -1;
}

/* ---- the folder ---- */

int mt_cache_path(const char *set, char *path, size_t size)
{
    const char *xdg = mt_environment_get("XDG_CACHE_HOME"), *home = mt_environment_get("HOME");
    int n = set && *set            ? snprintf(path, size, "%s", set)
            : xdg && *xdg == '/'   ? snprintf(path, size, "%s/memtrace", xdg)
            : home && *home == '/' ? snprintf(path, size, "%s/.cache/memtrace", home)
                                   : -1;
    return n > 0 && (size_t)n < size ? 0 : -1;
}

int mt_cache_open(const char *path, char *why, size_t size)
{
    struct stat st;
    int fd = mt_trust_open(path, MT_TRUST_FOLDER, why, size);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st))
        snprintf(why, size, "%s: %s", path, strerror(errno));
    else if (st.st_uid != geteuid())
        snprintf(why, size, "%s belongs to user %u", path, (unsigned)st.st_uid);
    else if (st.st_mode & 077)
        snprintf(why, size, "%s is open to other users: chmod 700 %s", path, path);
    else
        return fd;
    close(fd);
    return -1;
}

static int cache_is_ours(const char *name)
{
    size_t n = strlen(name), s = strlen(SUFFIX);
    return n == MT_CACHE_KEY - 1 + s && !strcmp(name + n - s, SUFFIX);
}

int mt_cache_find(int folder, const char *key, struct mt_cache_entry *out)
{
    char name[64];
    struct stat st;
    const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    snprintf(name, sizeof name, "%s" SUFFIX, key);
    int fd = mt_fd_up(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)), rc = -1;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 077)) {
        rc = mt_cache_read(fd, out);
        if (rc && errno == EBADMSG)
            unlinkat(folder, name, 0);
    }
    if (!rc)
        futimens(fd, now); /* marks it as just used */
    close(fd);
    return rc;
}

/* ---- listing ---- */

struct list {
    struct mt_cache_file *file;
    size_t n;
};

MT_ORDER_FUNCTION(cache_by_use, struct mt_cache_file, MT_ORDER_DIFFER(y, x, used))

static int cache_add(struct list *l, int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return 0;
    struct mt_cache_file *grown = realloc(l->file, (l->n + 1) * sizeof *grown);
    if (!grown)
        return -1;
    l->file = grown;
    l->file[l->n] = (struct mt_cache_file){.bytes = (uint64_t)st.st_size, .used = st.st_mtim.tv_sec};
    snprintf(l->file[l->n++].name, sizeof l->file->name, "%s", name);
    return 0;
}

/* Lists the folder's files. Removes unfinished files of processes that have ended, or with `all` every
 * unfinished file. */
static int cache_list(int folder, struct list *l, int all)
{
    int fd = mt_fd_up(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        struct stat st;
        if (cache_is_ours(e->d_name))
            rc = cache_add(l, folder, e->d_name);
        else if (!strncmp(e->d_name, "new-", 4) &&
                 fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                 (all || st.st_mtim.tv_sec + STALE_S < time(NULL)))
            unlinkat(folder, e->d_name, 0);
    }
    closedir(d);
    qsort(l->file, l->n, sizeof *l->file, cache_by_use);
    return rc;
}

int mt_cache_walk(int folder, void (*each)(const struct mt_cache_file *f, void *ctx), void *ctx)
{
    struct list l = {0};
    int rc = cache_list(folder, &l, 0);
    for (size_t i = 0; !rc && i < l.n; i++)
        each(&l.file[i], ctx);
    free(l.file);
    return rc ? -1 : (int)l.n;
}

int mt_cache_clear(int folder)
{
    struct list l = {0};
    int rc = cache_list(folder, &l, 1);
    for (size_t i = 0; i < l.n; i++)
        rc |= unlinkat(folder, l.file[i].name, 0) && errno != ENOENT;
    free(l.file);
    return rc ? -1 : 0;
}

/* Removes the least recently used files until `more` bytes fit under `limit`. */
static void cache_trim(int folder, uint64_t more, uint64_t limit)
{
    struct list l = {0};
    uint64_t sum = more;
    if (cache_list(folder, &l, 0) == 0)
        for (size_t i = 0; i < l.n; i++) {
            sum += l.file[i].bytes;
            if (sum > limit)
                unlinkat(folder, l.file[i].name, 0);
        }
    free(l.file);
}

static int cache_copy(int from, int to, uint64_t bytes)
{
    char *all = malloc(bytes);
    int rc = !all || cache_get(from, all, bytes) || cache_put(to, all, bytes, 0), saved = errno;
    free(all);
    errno = saved;
    return rc ? -1 : 0;
}

int mt_cache_store(int folder, const char *key, int from, uint64_t limit)
{
    struct stat st;
    struct timespec t;
    char name[64], temporary[64];
    if (fstat(from, &st))
        return -1;
    if ((uint64_t)st.st_size > limit) {
        errno = EFBIG;
        return -1;
    }
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(name, sizeof name, "%s" SUFFIX, key);
    snprintf(temporary, sizeof temporary, "new-%ld-%ld", (long)getpid(), t.tv_nsec);
    cache_trim(folder, (uint64_t)st.st_size, limit);
    int fd = mt_fd_up(openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0)
        return -1;
    int rc = cache_copy(from, fd, (uint64_t)st.st_size);
    rc = close(fd) || rc ? -1 : renameat(folder, temporary, folder, name);
    if (rc) {
        int saved = errno;
        unlinkat(folder, temporary, 0);
        errno = saved;
    }
    return rc;
}
