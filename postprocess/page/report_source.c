/* Lines of source files, as they are when the report is made: those that the report speaks of and a few
 * around them. A file that is not there any more, or is not one that the user could mean, has none. */
#define _GNU_SOURCE
#include "report.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { AROUND = 4, MOST_FILES = 200, MOST_BYTES = 1 << 20, LONGEST = 400, LARGEST = 16 << 20 };

struct mention {
    const char *file;
    uint64_t line;
};

struct mentions {
    struct mention *at;
    size_t n, room;
};

static int mention_order(const void *a, const void *b)
{
    const struct mention *x = a, *y = b;
    int d = strcmp(x->file, y->file);
    return d ? d : x->line < y->line ? -1 : x->line > y->line;
}

static int report_source_mention(struct mentions *m, const char *file, uint64_t line)
{
    if (!file || !*file || line == 0)
        return 0;
    struct mention *at = mt_report_more(m, sizeof *at);
    if (at)
        *at = (struct mention){file, line};
    return at ? 0 : -1;
}

static int report_source_collect(struct mentions *m, const struct mt_report *r)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->sites.n; i++)
        rc = report_source_mention(m, r->sites.at[i].file, r->sites.at[i].line);
    for (size_t i = 0; rc == 0 && i < r->launches.n; i++)
        if (r->launches.at[i].event)
            rc = report_source_mention(m, r->launches.at[i].event->file, r->launches.at[i].event->line);
    for (size_t i = 0; rc == 0 && i < r->nallocs; i++)
        rc = report_source_mention(m, r->allocs[i].file, r->allocs[i].line);
    if (m->n)
        qsort(m->at, m->n, sizeof *m->at, mention_order);
    return rc;
}

/* ---- which files ---- */

/* A source file, read once: what is looked at is what is shown. */
struct contents {
    char *at;
    size_t n;
};

/* Where the open file lies, links resolved: in one of the folders that the user named? */
static int in_a_root(const struct mt_report *r, int fd)
{
    char link[64], path[PATH_MAX], root[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    for (size_t i = 0; n > 0 && i < r->nroots; i++) {
        size_t length = realpath(r->roots[i], root) ? strlen(root) : 0;
        if (length && strncmp(path, root, length) == 0 && (path[length] == '/' || root[length - 1] == '/'))
            return 1;
    }
    return 0;
}

/* Did the program that wrote the trace know what is in it? */
static int is_known(const struct mt_report *r, const char *file, const struct contents *c)
{
    char text[33];
    XXH128_hash_t hash = XXH3_128bits(c->at, c->n);
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    for (size_t i = 0; i < r->texts.n; i++) {
        const struct mt_text_event *t = &r->texts.at[i];
        if (t->bytes == c->n && strcmp(t->file, file) == 0 && strcmp(t->xxh128, text) == 0)
            return 1;
    }
    return 0;
}

/* A regular file only: a FIFO by that name would wait for ever. 0, or -1. */
static int report_source_slurp(int fd, struct contents *c)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > LARGEST)
        return -1;
    c->n = 0;
    if (!(c->at = malloc((size_t)st.st_size)))
        return -1;
    for (ssize_t n = 1; n > 0 && c->n < (size_t)st.st_size; c->n += n > 0 ? (size_t)n : 0)
        do
            n = read(fd, c->at + c->n, (size_t)st.st_size - c->n);
        while (n < 0 && errno == EINTR);
    return 0;
}

/* The file by one path: 1 with its contents, if it may be shown. */
static int try_source(const struct mt_report *r, const char *file, const char *path, struct contents *c)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), good = 0;
    if (fd < 0)
        return 0;
    if (report_source_slurp(fd, c) == 0) {
        good = c->n > 0 && (in_a_root(r, fd) || is_known(r, file, c));
        if (!good)
            free(c->at);
    }
    close(fd);
    return good;
}

/* PTX that the runtime wrote beside a trace, which may have been moved since with the trace. */
static int source_beside(const struct mt_report *r, const char *file, struct contents *c)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    char path[PATH_MAX];
    for (size_t i = 0; i < r->ninputs; i++) {
        struct stat st;
        const char *in = r->inputs[i], *end = strrchr(in, '/');
        int folder = stat(in, &st) == 0 && S_ISDIR(st.st_mode);
        int n = folder ? snprintf(path, sizeof path, "%s/%s", in, name)
                       : snprintf(path, sizeof path, "%.*s%s", end ? (int)(end + 1 - in) : 0, in, name);
        if (n > 0 && n < (int)sizeof path && try_source(r, file, path, c))
            return 1;
    }
    return 0;
}

static int get_source(const struct mt_report *r, const char *file, struct contents *c)
{
    int known = 0;
    for (size_t i = 0; i < r->texts.n && !known; i++)
        known = strcmp(r->texts.at[i].file, file) == 0;
    if ((known || r->nroots) && try_source(r, file, file, c))
        return 1;
    for (size_t i = 0; i < r->nroots && *file != '/'; i++) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", r->roots[i], file);
        if (n > 0 && n < (int)sizeof path && try_source(r, file, path, c))
            return 1;
    }
    return known && source_beside(r, file, c);
}

/* ---- lines ---- */

/* Is so little left out in front of this mention that it can as well be shown? */
static int small_gap(const struct mention *m, size_t next)
{
    return next > 0 && m[next].line <= m[next - 1].line + 2 * AROUND + 3;
}

/* The lines near mentions [0, n) of one file: [number, text]. */
static void write_file(struct mt_json *j, FILE *f, const struct mention *m, size_t n, size_t *left)
{
    char *line = NULL;
    size_t room = 0, next = 0;
    ssize_t length;
    mt_json_array(j, "lines", 0);
    for (uint64_t number = 1; next < n && (length = getline(&line, &room, f)) > 0; number++) {
        while (next < n && m[next].line + AROUND < number)
            next++;
        if (next == n || (m[next].line > number + AROUND && !small_gap(m, next)))
            continue;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        if (length > LONGEST)
            line[LONGEST] = 0;
        if (strlen(line) > *left)
            break;
        *left -= strlen(line);
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, number);
        mt_json_text(j, NULL, line);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(line);
}

int mt_report_write_sources(struct mt_json *j, const struct mt_report *r)
{
    struct mentions m = {0};
    size_t left = MOST_BYTES;
    int rc = report_source_collect(&m, r);
    mt_json_object(j, "sources", 0);
    for (size_t i = 0, end, files = 0; rc == 0 && r->with_sources && i < m.n && files < MOST_FILES; i = end) {
        for (end = i; end < m.n && strcmp(m.at[end].file, m.at[i].file) == 0;)
            end++;
        struct contents c;
        if (!get_source(r, m.at[i].file, &c))
            continue;
        FILE *f = fmemopen(c.at, c.n, "r");
        files++;
        mt_json_object(j, m.at[i].file, 0);
        if (f) {
            write_file(j, f, m.at + i, end - i, &left);
            fclose(f);
        }
        mt_json_end(j);
        free(c.at);
    }
    mt_json_end(j);
    free(m.at);
    return rc;
}
