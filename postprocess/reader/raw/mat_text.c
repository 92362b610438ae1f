/* Reader of MAT text traces (docs/trace-format.md). */
#define _GNU_SOURCE
#include "mat_text.h"
#include "reader/base/internal.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

struct mat_location {
    uint64_t ip;
    UT_hash_handle hh;
    char text[];
};

struct mt_mat {
    const char *path;
    FILE *file;
    char *line;
    size_t room;
    uint64_t offset; /* offset of the next line */
    struct mat_location *places;
    struct mt_stop stop;
    unsigned calls;
    int cut;    /* 1: the last line is incomplete */
    int ended;  /* 1: the line before was the last one of a trace */
    int writes; /* 1: there was a write of type 2, so MAT did not write this file */
    uint64_t lost;
    int follows; /* 1: locations are read along with the accesses */
};

static int system_error(const struct mt_mat *m, const char *what, struct mt_error *err)
{
    int e = errno;
    return mt_error_set(err, MT_E_SYSTEM, e, 0, m->path, "%s: %s", what, strerror(e));
}

/* Returns the length + 1 of the next line, without LF; 0 at the end (of whole lines); -1 with *err set. */
static ssize_t next_line(struct mt_mat *m, uint64_t *offset, struct mt_error *err)
{
    errno = 0;
    ssize_t n = getline(&m->line, &m->room, m->file);
    if (n < 0)
        return ferror(m->file) || !feof(m->file) ? system_error(m, "read error", err) : 0;
    *offset = m->offset;
    m->offset += (uint64_t)n;
    if (m->line[n - 1] != '\n') {
        m->cut = 1;
        return 0;
    }
    m->line[n - 1] = 0;
    return n;
}

/* Reads up to seven numbers, decimal or 0x…; *rest points after them and the following blanks. */
static int mat_text_numbers(const char *p, uint64_t *out, const char **rest)
{
    int n = 0;
    for (; n < 7; n++) {
        while (*p == ' ' || *p == '\t')
            p++;
        if (*p < '0' || *p > '9')
            break;
        char *end;
        errno = 0;
        out[n] = strtoull(p, &end, p[0] == '0' && (p[1] == 'x' || p[1] == 'X') ? 16 : 10);
        if (errno || (*end && *end != ' ' && *end != '\t' && *end != '\r'))
            break;
        p = end;
    }
    while (*p == ' ' || *p == '\t' || *p == '\r')
        p++;
    *rest = p;
    return n;
}

static int is_place(int n, const char *rest)
{
    return n == 1 && *rest && strchr(rest, ':');
}

/* Reads the end line, which has the number of missing accesses. */
static int is_end(struct mt_mat *m, uint64_t ip, const char *text)
{
    static const char end[] = "<end>:";
    if (ip || strncmp(text, end, sizeof end - 1) != 0)
        return 0;
    m->lost += strtoull(text + sizeof end - 1, NULL, 10);
    m->ended = 1;
    return 1;
}

static int add_place(struct mt_mat *m, uint64_t ip, const char *text)
{
    struct mat_location *p;
    HASH_FIND(hh, m->places, &ip, sizeof ip, p);
    if (p)
        return 0;
    size_t n = strcspn(text, "\r");
    p = malloc(sizeof *p + n + 1);
    if (!p)
        return -1;
    p->ip = ip;
    memcpy(p->text, text, n);
    p->text[n] = 0;
    HASH_ADD(hh, m->places, ip, sizeof ip, p);
    return 0;
}

static int no_place(const struct mt_mat *m, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, m->path, "no memory for the places");
}

static int mat_text_stopped(const struct mt_mat *m, struct mt_error *err)
{
    return mt_error_set(err, MT_E_STOPPED, EINTR, 0, m->path, "stopped while reading");
}

static int read_places(struct mt_mat *m, struct mt_error *err)
{
    uint64_t offset, field[7];
    const char *rest;
    ssize_t n;
    while ((n = next_line(m, &offset, err)) > 0 && !mt_stopped(&m->stop)) {
        int count = mat_text_numbers(m->line, field, &rest);
        m->writes |= count == 7 && field[4] == 2;
        if (is_place(count, rest) && field[0] && *rest != ':' && add_place(m, field[0], rest) != 0)
            return no_place(m, err);
    }
    if (n < 0)
        return -1;
    if (fseeko(m->file, 0, SEEK_SET) != 0)
        return system_error(m, "cannot go back to its beginning", err);
    clearerr(m->file);
    m->offset = 0;
    m->cut = 0;
    return 0;
}

/* Reads the locations from the second file of MAT, beside the file of accesses. */
static int read_places_beside(struct mt_mat *m, struct mt_error *err)
{
    const char *path = m->path, *slash = strrchr(path, '/');
    FILE *file = m->file;
    struct stat st;
    char *beside;
    int rc = 0;
    if (m->places || m->writes || strcmp(path, "-") == 0)
        return 0;
    if (asprintf(&beside, "%.*ssourcelines.txt", slash ? (int)(slash + 1 - path) : 0, path) < 0)
        return no_place(m, err);
    if (stat(beside, &st) == 0 && S_ISREG(st.st_mode) && (m->file = fopen(beside, "re"))) {
        m->path = beside;
        rc = read_places(m, err);
        fclose(m->file);
    }
    m->path = path;
    m->file = file;
    free(beside);
    return rc;
}

/* Uses a file. Takes over `fd`. */
static int use_file(struct mt_mat *m, int fd, struct mt_error *err)
{
    m->file = fdopen(fd, "r");
    if (!m->file) {
        close(fd);
        return system_error(m, "cannot open", err);
    }
    return 0;
}

static int open_file(struct mt_mat *m, struct mt_error *err)
{
    int standard = strcmp(m->path, "-") == 0;
    int fd = standard ? dup(STDIN_FILENO) : open(m->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        int e = fd >= 0 && S_ISDIR(st.st_mode) ? EISDIR : errno;
        mt_error_set(err, MT_E_INPUT, e, 0, m->path, "cannot open: %s", strerror(e));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        uint64_t read = 0;
        int spool = mt_spool_create(err), rc = -1;
        if (spool >= 0)
            rc = mt_spool_fill(&fd, &spool, 1, &m->stop, &read, err);
        close(fd);
        fd = spool;
        if (rc != 0 || lseek(fd, 0, SEEK_SET) < 0) {
            if (fd >= 0)
                close(fd);
            return -1;
        }
    }
    return use_file(m, fd, err);
}

static struct mt_mat *new_mat(const char *path, const volatile sig_atomic_t *stop, struct mt_error *err)
{
    struct mt_mat *m = calloc(1, sizeof *m);
    if (!m) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory");
        return NULL;
    }
    m->path = path;
    m->stop.user = stop;
    return m;
}

struct mt_mat *mt_mat_open(const char *path, const volatile sig_atomic_t *stop, struct mt_error *err)
{
    struct mt_mat *m = new_mat(path, stop, err);
    if (m && (open_file(m, err) != 0 || read_places(m, err) != 0 || read_places_beside(m, err) != 0)) {
        mt_mat_close(m);
        return NULL;
    }
    return m;
}

struct mt_mat *mt_mat_follow(int fd, const char *path, const volatile sig_atomic_t *stop,
                             struct mt_error *err)
{
    struct mt_mat *m = new_mat(path, stop, err);
    if (!m) {
        close(fd);
        return NULL;
    }
    m->follows = 1;
    if (use_file(m, fd, err) != 0) {
        mt_mat_close(m);
        return NULL;
    }
    return m;
}

int mt_mat_next(struct mt_mat *m, struct mt_mat_record *r, struct mt_error *err)
{
    for (;;) {
        uint64_t field[7] = {0}, offset = 0;
        const char *rest;
        if (++m->calls % 4096 == 0 && mt_stopped(&m->stop))
            return mat_text_stopped(m, err);
        ssize_t length = next_line(m, &offset, err);
        if (length < 0 && mt_stopped(&m->stop))
            return mat_text_stopped(m, err);
        if (length < 0)
            return -1;
        if (length == 0 && m->cut) {
            m->cut = 0;
            return mt_error_set(err, MT_E_TRUNCATED, 0, m->offset, m->path, "ends inside a line");
        }
        if (length == 0)
            return 0;
        int n = mat_text_numbers(m->line, field, &rest);
        if (is_place(n, rest) && is_end(m, field[0], rest))
            continue;
        if (m->follows && is_place(n, rest) && add_place(m, field[0], rest) != 0)
            return no_place(m, err);
        if (is_place(n, rest) || (n == 0 && *rest == 0))
            continue;
        if (n != 7 || *rest || field[4] > 2)
            return mt_error_set(
                err, MT_E_CORRUPT, 0, offset, m->path,
                "is neither 'ip address offset base type size allocsize' (type 0, 1 or 2) nor 'ip "
                "file:line'");
        m->ended = 0;
        m->writes |= field[4] == 2;
        *r = (struct mt_mat_record){.ip = field[0],
                                    .address = field[1],
                                    .offset = field[2],
                                    .base = field[3],
                                    .type = field[4] ? (unsigned)field[4] : 2,
                                    .size = field[5],
                                    .allocation = field[6]};
        return 1;
    }
}

int mt_mat_whole(const struct mt_mat *m, uint64_t *lost)
{
    *lost = m->lost;
    return m->lost ? 0 : m->ended ? 1 : m->writes ? 0 : -1;
}

const char *mt_mat_location(const struct mt_mat *m, uint64_t ip)
{
    struct mat_location *p;
    HASH_FIND(hh, m->places, &ip, sizeof ip, p);
    return p ? p->text : NULL;
}

void mt_mat_close(struct mt_mat *m)
{
    if (!m)
        return;
    struct mat_location *p, *next;
    HASH_ITER(hh, m->places, p, next)
    {
        HASH_DEL(m->places, p); // NOLINT(clang-analyzer-unix.Malloc): the macro reads no freed entry
        free(p);
    }
    if (m->file)
        fclose(m->file);
    free(m->line);
    free(m);
}
