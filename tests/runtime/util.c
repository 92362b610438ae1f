#define _GNU_SOURCE
#include "util.h"
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dirs[64][64];
static int ndirs;
static pid_t owner;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

static void util_clean(void)
{
    for (int i = 0; i < ndirs && getpid() == owner; i++)
        nftw(dirs[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fresh_dir(void)
{
    if (owner != getpid()) { /* a child cleans up what it makes itself */
        if (!owner)
            atexit(util_clean);
        owner = getpid();
        ndirs = 0;
    }
    char *d = dirs[ndirs++ % 64];
    strcpy(d, "/tmp/mt-test-XXXXXX");
    if (!mkdtemp(d))
        abort();
    setenv("MEMTRACE_DIR", d, 1);
    return d;
}

const char *in_dir(const char *dir, const char *name)
{
    static char path[4][256];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t size = 0, room = 65536, got;
    char *text = malloc(room + 1);
    while ((got = fread(text + size, 1, room - size, f)) > 0) {
        size += got;
        if (size == room)
            text = realloc(text, (room *= 2) + 1);
    }
    fclose(f);
    text[size] = 0;
    if (n)
        *n = size;
    return text;
}

int count_lines(const char *text, ...)
{
    int count = 0;
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        char *line = strndup(text, n);
        int all = 1;
        va_list ap;
        va_start(ap, text);
        for (const char *piece; (piece = va_arg(ap, const char *));)
            all = all && strstr(line, piece);
        va_end(ap);
        free(line);
        count += all;
        text += n + (text[n] == '\n');
    }
    return count;
}

int in_child(int (*fn)(void *), void *arg)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        exit(fn(arg));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

char *said(void (*fn)(void *), void *arg)
{
    char name[] = "/tmp/mt-said-XXXXXX";
    int fd = mkstemp(name), keep = dup(2);
    dup2(fd, 2);
    fn(arg);
    fflush(stderr);
    dup2(keep, 2);
    close(keep);
    close(fd);
    char *text = slurp(name, NULL);
    unlink(name);
    return text;
}

int raw_read(const char *path, struct raw *r)
{
    size_t n, at = 1;
    unsigned char *b = (unsigned char *)slurp(path, &n);
    memset(r, 0, sizeof *r);
    if (!b || n < 1 || b[0] != 24) {
        free(b);
        return -1;
    }
    r->bytes = n;
    r->whole = 1;
    while (at < n && r->launches < 64) {
        struct raw_launch *l = &r->launch[r->launches];
        unsigned char *lf = memchr(b + at, '\n', n - at);
        if (!lf)
            break;
        snprintf(l->name, sizeof l->name, "%.*s", (int)(lf - (b + at)), b + at);
        r->launches++;
        at = r->whole = (size_t)(lf + 1 - b);
        for (; at + 24 <= n && !l->ended; at += 24) {
            uint64_t w[3];
            memcpy(w, b + at, 24);
            l->ended = !(w[0] | w[1] | w[2]);
            l->records += !l->ended;
            l->sum += w[0] + w[1] + w[2];
            r->whole = at + 24;
        }
        if (!l->ended)
            break;
    }
    free(b);
    return 0;
}
