/* Inputs of memory graphs: raw traces (several, of one process), one compact trace of host accesses, or one
 * MAT text trace. */
#define _GNU_SOURCE

#include "graph_input.h"
#include "reader/base/internal.h"
#include "cli.h"
#include "pipeline.h"
#include "memtrace/grow.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

/* ---- Reader of MAT text traces (docs/trace-format.md): `ip address offset base type size allocsize` lines,
 * type 1 read and 2 (or 0, as MAT itself wrote it) write; `ip file:line` lines anywhere; last line
 * `0 <end>:LOST`. ---- */

struct mt_mat_record {
    uint64_t ip, address, offset, base, size, allocation;
    unsigned type; /* 1: read, 2: write */
};

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

static void mat_close(struct mt_mat *m);

/* Opens a trace and reads all its `ip file:line` lines, and sourcelines.txt beside a file that MAT itself
 * wrote. An input that cannot be read twice is spooled to an unnamed file. Returns NULL with *err set on
 * failure. */
static struct mt_mat *mat_open(const char *path, const volatile sig_atomic_t *stop, struct mt_error *err)
{
    struct mt_mat *m = new_mat(path, stop, err);
    if (m && (open_file(m, err) != 0 || read_places(m, err) != 0 || read_places_beside(m, err) != 0)) {
        mat_close(m);
        return NULL;
    }
    return m;
}

/* Opens a pipe that is being written: takes over `fd`, waits for lines, knows the locations read so far. */
static struct mt_mat *mat_follow(int fd, const char *path, const volatile sig_atomic_t *stop,
                                 struct mt_error *err)
{
    struct mt_mat *m = new_mat(path, stop, err);
    if (!m) {
        close(fd);
        return NULL;
    }
    m->follows = 1;
    if (use_file(m, fd, err) != 0) {
        mat_close(m);
        return NULL;
    }
    return m;
}

/* Reads the next record. Returns 1, 0 at the end, or -1 with *err set: MT_E_CORRUPT (a line was skipped,
 * reading can go on), MT_E_TRUNCATED (the last line is incomplete), MT_E_STOPPED, MT_E_SYSTEM. */
static int mat_next(struct mt_mat *m, struct mt_mat_record *r, struct mt_error *err)
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

/* Returns, after the end, 1 if the trace is complete; 0 if not: *lost accesses are missing, or the end line
 * is (*lost 0); -1 if unknown, since MAT's own files have no end line. */
static int mat_whole(const struct mt_mat *m, uint64_t *lost)
{
    *lost = m->lost;
    return m->lost ? 0 : m->ended ? 1 : m->writes ? 0 : -1;
}

/* Returns "file:line", or NULL. */
static const char *mat_location_of(const struct mt_mat *m, uint64_t ip)
{
    struct mat_location *p;
    HASH_FIND(hh, m->places, &ip, sizeof ip, p);
    return p ? p->text : NULL;
}

static void mat_close(struct mt_mat *m)
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

/* ---- Pipes: the first bytes are inspected without consuming them, so that the reader finds all ---- */

enum { HEAD = 4096 };

static int is_pipe(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int open_pipe(const char *path)
{
    struct stat st;
    int fd = -1;
    if (strcmp(path, "-") == 0)
        fd = is_pipe(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
    else if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode)) {
        mt_cli_waits(path);
        fd = open(path, O_RDONLY | O_CLOEXEC); /* waits for the writer */
    }
    if (fd >= 0 && !is_pipe(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Copies what is in the pipe `fd`, up to HEAD - 1 bytes, and leaves it there. */
static size_t copy_head(int fd, const int copy[2], char *out)
{
    ssize_t n = tee(fd, copy[1], HEAD - 1, SPLICE_F_NONBLOCK), got, have = 0;
    while (have < n && (got = read(copy[0], out + have, (size_t)(n - have))) > 0)
        have += got;
    out[have] = 0;
    return (size_t)have;
}

/* Waits until the first bytes determine the kind of input; returns fewer at the end of the input. */
static size_t wait_for_head(int fd, char *out)
{
    static const struct timespec while_it_grows = {.tv_nsec = 5000000};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int copy[2];
    size_t n = 0;
    if (pipe2(copy, O_CLOEXEC) != 0)
        return 0;
    while (!mt_cli_stop) {
        if (poll(&p, 1, 200) <= 0)
            continue;
        int over = (p.revents & POLLHUP) !=
                   0; /* checked before copying, so that bytes arriving meanwhile are copied */
        n = copy_head(fd, copy, out);
        if (over || !(p.revents & POLLIN) || mt_kind_is_clear(out, n))
            break;
        nanosleep(&while_it_grows, NULL);
    }
    close(copy[0]);
    close(copy[1]);
    return n;
}

/* Opens `path` if it is a FIFO, or "-" and standard input is a pipe. Returns the caller's descriptor, else
 * -1. Waits for the first bytes, and sets *kind. (A FIFO opened again might wait for a writer that has left.)
 */
static int pipe_look(const char *path, enum mt_kind *kind)
{
    char head[HEAD];
    int fd = open_pipe(path);
    if (fd >= 0)
        *kind = mt_kind_of_head(head, wait_for_head(fd, head));
    return fd;
}

/* Copies the whole pipe to an unnamed file. Returns its descriptor, or -1 after a message. */
static int pipe_spool(int fd)
{
    struct mt_error err;
    struct mt_stop stop = {.user = &mt_cli_stop};
    uint64_t read = 0;
    int spool = mt_spool_create(&err);
    if (spool >= 0 && mt_spool_fill(&fd, &spool, 1, &stop, &read, &err) == 0)
        return spool;
    mt_cli_say("%s", err.message);
    if (spool >= 0)
        close(spool);
    return -1;
}

__attribute__((format(printf, 3, 4))) static void graph_input_note(struct mt_stride_graph_input *in,
                                                                   int incomplete, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (incomplete)
        in->complete = 0;
    if (n < 0)
        return;
    mt_cli_say("%s", text);
    if (mt_grow(&in->notes, &in->note_room, in->nnotes + 1, sizeof *in->notes) == 0)
        in->notes[in->nnotes++] = text;
    else
        free(text);
}

/* ---- opening ---- */

static int open_traces(struct mt_stride_graph_input *in)
{
    int code;
    in->inputs.flags |= MT_SOURCE_RUNS;
    if (in->pipe >= 0)
        in->inputs.fds = &in->pipe;
    in->source = mt_inputs_source(&in->inputs, &code);
    in->inputs.fds = NULL;
    in->pipe = -1; /* the reader owns it now */
    if (!in->source)
        return code;
    in->allocs = mt_source_allocs(in->source, &in->nallocs);
    for (size_t i = 0; i < in->inputs.npaths; i++)
        in->known |= mt_source_companion(in->source, i) != NULL;
    return mt_buffers_init(&in->buffers, in->allocs, in->nallocs) == 0
               ? 0
               : mt_cli_fail("no memory for the graph");
}

static int graph_input_open_container(struct mt_stride_graph_input *in)
{
    struct mt_error err;
    const char *path = in->inputs.paths[0];
    int spool = in->pipe >= 0 ? pipe_spool(in->pipe) : -1;
    if (in->pipe >= 0 && spool < 0)
        return MT_EXIT_FAILURE;
    if (spool >= 0) {
        snprintf(in->spool, sizeof in->spool, "/proc/self/fd/%d", spool);
        path = in->spool;
    }
    in->host = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (spool >= 0)
        close(spool); /* the reader has a descriptor of its own */
    if (!in->host || mt_host_reader_order(in->host, MT_HOST_BY_SEQ, &err) != 0)
        return mt_cli_failed(&err);
    const struct mt_companion *c = mt_host_companion(in->host);
    in->allocs = c ? c->allocs : NULL;
    in->nallocs = c ? c->nallocs : 0;
    in->known = 1;
    in->live = mt_live_allocs_new(in->allocs, in->nallocs);
    in->called = calloc(in->nallocs + 1, sizeof *in->called);
    return in->live && in->called && (!c || mt_live_allocs_cut(in->live, c->cuts, c->ncuts) == 0)
               ? 0
               : mt_cli_fail("no memory for the graph");
}

static int open_mat(struct mt_stride_graph_input *in)
{
    struct mt_error err;
    in->mat = in->pipe >= 0 ? mat_follow(in->pipe, in->inputs.paths[0], &mt_cli_stop, &err)
                            : mat_open(in->inputs.paths[0], &mt_cli_stop, &err);
    in->pipe = -1; /* the reader owns it now */
    in->known = 1;
    if (in->mat)
        return 0;
    return mt_cli_failed(&err);
}

static enum mt_kind kind_of_one(struct mt_stride_graph_input *in, const char *path)
{
    enum mt_kind kind;
    in->pipe = pipe_look(path, &kind);
    return in->pipe >= 0 ? kind : mt_kind_of(path);
}

int mt_stride_graph_input_open(struct mt_stride_graph_input *in, const char *const *paths, size_t npaths)
{
    in->inputs.paths = paths;
    in->inputs.npaths = npaths;
    in->complete = 1;
    in->pipe = -1;
    int code = mt_host_locations_init(&in->places) != 0 ? mt_cli_fail("no memory for the graph")
                                                        : mt_inputs_folders(&in->inputs);
    if (code)
        return code;
    paths = in->inputs.paths;
    npaths = in->inputs.npaths;
    for (size_t i = 0; i < npaths; i++) {
        enum mt_kind kind = in->pipes && npaths == 1 ? kind_of_one(in, paths[0]) : mt_kind_of(paths[i]);
        if (kind != MT_KIND_CONTAINER && kind != MT_KIND_MAT)
            continue;
        if (npaths > 1)
            return mt_cli_usage("%s is %s: it makes a graph of its own, give it alone", paths[i],
                                mt_kind_name(kind));
        in->kind = kind;
    }
    code = in->kind == MT_KIND_CONTAINER ? graph_input_open_container(in)
           : in->kind == MT_KIND_MAT     ? open_mat(in)
                                         : open_traces(in);
    if (in->pipe >= 0)
        close(in->pipe);
    return code;
}

void mt_stride_graph_input_close(struct mt_stride_graph_input *in)
{
    mt_source_close(in->source);
    mt_host_reader_close(in->host);
    mat_close(in->mat);
    mt_buffers_free(&in->buffers);
    mt_live_allocs_free(in->live);
    mt_host_locations_free(&in->places);
    mt_pairmap_free(&in->made_index);
    mt_pairmap_free(&in->mat_places);
    free(in->made);
    free(in->called);
    for (size_t i = 0; i < in->nnotes; i++)
        free(in->notes[i]);
    free(in->notes);
}

struct mt_buffers *mt_stride_graph_input_buffers(struct mt_stride_graph_input *in)
{
    return in->kind == MT_KIND_TRACE && in->known ? &in->buffers : NULL;
}

const char *mt_stride_graph_kernel_stride(const struct mt_stride_graph *g, int lanes)
{
    if (lanes)
        return "stride: of a lane against the next lower active lane in the same access of a warp";
    if (g->records && g->threads == g->records)
        return "stride: against the previous access of the same thread in the same buffer";
    if (g->threads || !g->records)
        return "stride: against the previous access of the same thread in the same buffer, or of the same "
               "CTA "
               "where the trace does not know threads";
    return "stride: against the previous access of the same CTA in the same buffer (a raw trace has no "
           "threads)";
}

const char *mt_stride_graph_input_stride(const struct mt_stride_graph_input *in,
                                         const struct mt_stride_graph *g)
{
    switch (in->kind) {
    case MT_KIND_CONTAINER:
        return "stride: against the previous access of the same thread in the same buffer";
    case MT_KIND_MAT:
        return "stride: against the previous access in the same buffer (a MAT text trace names no threads); "
               "a buffer "
               "is a base address and a size";
    default:
        return mt_stride_graph_kernel_stride(g, in->lanes);
    }
}

/* ---- traces of kernels ---- */

static int read_traces(struct mt_stride_graph_input *in, struct mt_stride_graph *g)
{
    struct mt_progress progress;
    struct mt_feed f = {.source = in->source, .filter = &in->filter, .progress = &progress};
    mt_progress_init(&progress);
    mt_feed_add(&f, in->lanes ? &mt_stride_lanes_analysis : &mt_stride_graph_analysis, g,
                "no memory for the graph");
    int rc = mt_feed_read(&f);
    if (rc)
        return mt_feed_failed(&f, rc);
    in->launches = f.chosen;
    size_t notes;
    int ignored, code = mt_inputs_finish(in->source, &in->complete);
    mt_filter_explain(&in->filter, f.launches, f.chosen);
    const char *const *text = mt_source_notes(in->source, &notes, &ignored);
    in->notes = calloc(notes + 3, sizeof *in->notes);
    for (size_t i = 0; in->notes && i < notes; i++)
        if ((in->notes[in->nnotes] = strdup(text[i])))
            in->nnotes++;
    if (in->lanes && !g->threads && g->records)
        graph_input_note(
            in, 0, "no access of the trace has lanes (compact traces have them): there is nothing to show");
    if (!in->known)
        graph_input_note(in, 0, "no companion file: buffers are not known, all memory counts as buffer 0");
    return code;
}

/* ---- host accesses ---- */

/* Returns 1 for a read or a write, with *type set, and 0 for others. */
static int graph_input_type_of(enum mt_host_op op, uint32_t *type)
{
    switch (op) {
    case MT_HOST_LOAD:
    case MT_HOST_CAS_FAILED:
        *type = MT_LOAD;
        return 1;
    case MT_HOST_STORE:
        *type = MT_STORE;
        return 1;
    case MT_HOST_ATOMIC:
    case MT_HOST_CAS:
        *type = MT_ATOMIC;
        return 1;
    case MT_HOST_UNKNOWN:
        *type = MT_UNKNOWN;
        return 1;
    default:
        return 0;
    }
}

static int host_records(struct mt_stride_graph_input *in, struct mt_stride_graph *g,
                        const struct mt_host_item *item)
{
    if (mt_live_allocs_advance(in->live, item->seq) != 0)
        return -1;
    for (size_t i = 0; i < item->count; i++) {
        const struct mt_host_record *r = &item->records[i];
        const struct mt_host_site_info *site = mt_host_site(in->host, r->site);
        struct mt_stride_graph_access a = {.actor = item->thread, .address = r->address, .type = MT_UNKNOWN};
        if (site && !graph_input_type_of(site->op, &a.type))
            continue;
        const struct mt_alloc_event *alloc = mt_live_allocs_find(in->live, r->address);
        if (!alloc && !in->all) {
            in->outside++;
            continue;
        }
        a.buffer = alloc ? alloc->id : MT_BUFFER_NONE;
        a.bytes = alloc ? alloc->bytes : 0;
        if (alloc && site && *site->variable && !in->called[alloc - in->allocs])
            in->called[alloc - in->allocs] = site->variable;
        uint32_t place = site ? mt_host_locations_of(&in->places, site) : 0;
        if (place == MT_LOCATION_FAILED)
            return -1;
        a.site = in->places.all.names[place];
        if (mt_stride_graph_access(g, &a) != 0)
            return -1;
    }
    return 0;
}

/* Reports what the trace itself declares as missing. */
static void host_end(struct mt_stride_graph_input *in)
{
    const struct mt_companion *c = mt_host_companion(in->host);
    const char *path = in->inputs.paths[0];
    if (!c)
        return;
    if (c->bad_lines)
        graph_input_note(in, 1, "%s (%" PRIu64 " lines left out)", c->bad.message, c->bad_lines);
    if (c->lost)
        graph_input_note(in, 1, "%s: %" PRIu64 " accesses were lost: %s", path, c->lost, c->lost_why);
    if (!c->has_end)
        graph_input_note(in, 1, "%s: has no end: " MT_NO_END, path);
    else if (!c->complete && !c->lost)
        graph_input_note(in, 1, "%s: says that the trace is incomplete", path);
}

static int read_container(struct mt_stride_graph_input *in, struct mt_stride_graph *g)
{
    struct mt_host_item item;
    struct mt_error err;
    uint64_t bad = UINT64_MAX;
    int rc;
    g->kernel = in->places.all.names[0];
    while ((rc = mt_host_next(in->host, &item, &err)) != 0) {
        if (rc < 0) {
            graph_input_note(in, 1, "%s", err.message);
            if (err.code == MT_E_SYSTEM)
                return MT_EXIT_FAILURE;
            if (err.code != MT_E_CORRUPT || err.offset == bad)
                break;
            bad = err.offset;
        } else if (item.kind == MT_HOST_ITEM_RECORDS && host_records(in, g, &item) != 0) {
            return mt_cli_fail("no memory for the graph");
        }
    }
    host_end(in);
    return in->complete ? 0 : MT_EXIT_INPUT;
}

/* ---- MAT text ---- */

/* Returns the buffer with this base and size; another size at the same base is another buffer. NULL: no
 * memory. */
static const struct mt_alloc_event *mat_buffer(struct mt_stride_graph_input *in,
                                               const struct mt_mat_record *r)
{
    uint64_t *at = mt_pairmap_get(&in->made_index, r->base, 0, 0);
    if (!at)
        return NULL;
    if (*at && in->made[*at - 1].bytes == r->allocation)
        return &in->made[*at - 1];
    if (mt_grow(&in->made, &in->made_room, in->nmade + 1, sizeof *in->made) != 0)
        return NULL;
    in->made[in->nmade] = (struct mt_alloc_event){.id = in->nmade,
                                                  .base = r->base,
                                                  .bytes = r->allocation,
                                                  .free_seq = MT_SEQ_NONE,
                                                  .kind = "",
                                                  .name = "",
                                                  .file = ""};
    *at = ++in->nmade;
    return &in->made[in->nmade - 1];
}

static const char *mat_site(struct mt_stride_graph_input *in, uint64_t ip)
{
    uint64_t *place = mt_pairmap_get(&in->mat_places, ip, 0, 0);
    if (place && !*place) {
        char address[32];
        snprintf(address, sizeof address, "0x%" PRIx64, ip);
        const char *known = mat_location_of(in->mat, ip);
        uint32_t n = (uint32_t)mt_names_number(&in->places.all, known ? known : address);
        if (n == MT_LOCATION_FAILED)
            return NULL;
        *place = (uint64_t)n + 1;
    }
    return place ? in->places.all.names[*place - 1] : NULL;
}

static int graph_input_mat_record(struct mt_stride_graph_input *in, struct mt_stride_graph *g,
                                  const struct mt_mat_record *r)
{
    struct mt_stride_graph_access a = {.address = r->address, .type = r->type == 2 ? MT_STORE : MT_LOAD};
    int outside = r->base == 0 && r->allocation == 0;
    if (outside && !in->all) {
        in->outside++;
        return 0;
    }
    const struct mt_alloc_event *buffer = outside ? NULL : mat_buffer(in, r);
    a.site = mat_site(in, r->ip);
    if (!a.site || (!outside && !buffer))
        return -1;
    a.buffer = outside ? MT_BUFFER_NONE : buffer->id;
    a.bytes = outside ? 0 : buffer->bytes;
    return mt_stride_graph_access(g, &a);
}

/* Reports what MAT text cannot say. */
static void mat_end(struct mt_stride_graph_input *in)
{
    const char *path = in->inputs.paths[0];
    uint64_t lost;
    int whole = mat_whole(in->mat, &lost);
    if (lost)
        graph_input_note(in, 1, "%s: %" PRIu64 " accesses were lost", path, lost);
    else if (whole == 0)
        graph_input_note(in, 1, "%s: has no end line: the program was killed or still runs", path);
    else if (whole < 0 && in->complete) {
        graph_input_note(
            in, 0, "%s: is a trace of MAT, which has no end line: it is not known whether it is whole", path);
        in->complete = -1;
    }
}

static int read_mat(struct mt_stride_graph_input *in, struct mt_stride_graph *g)
{
    struct mt_mat_record r = {0};
    struct mt_error err;
    uint64_t bad = 0;
    int rc;
    while ((rc = mat_next(in->mat, &r, &err)) != 0) {
        if (rc > 0 && graph_input_mat_record(in, g, &r) != 0)
            return mt_cli_fail("no memory for the graph");
        if (rc > 0)
            continue;
        if (err.code == MT_E_SYSTEM)
            return mt_cli_fail("%s", err.message);
        if (err.code != MT_E_CORRUPT || bad++ == 0)
            graph_input_note(in, 1, "%s", err.message);
        if (err.code != MT_E_CORRUPT)
            break;
    }
    if (bad > 1)
        graph_input_note(in, 1, "%s: %" PRIu64 " lines are left out", in->inputs.paths[0], bad);
    mat_end(in);
    in->allocs = in->made;
    in->nallocs = in->nmade;
    return in->complete ? 0 : MT_EXIT_INPUT;
}

/* Says why the graph is empty though the trace is not. */
static void graph_input_empty(struct mt_stride_graph_input *in, const struct mt_stride_graph *g)
{
    if (g->nnodes || !g->records || (in->lanes && !g->threads))
        return;
    graph_input_note(in, 0, "%" PRIu64 " access%s no step before %s: the graph is empty%s", g->records,
                     g->records == 1 ? " has" : "es have", g->records == 1 ? "it" : "them",
                     in->lanes    ? " (no two lanes of a warp make an access together)"
                     : g->threads ? "; --lanes shows the strides between the lanes of a warp"
                                  : "");
}

int mt_stride_graph_input_read(struct mt_stride_graph_input *in, struct mt_stride_graph *g)
{
    int code = in->kind == MT_KIND_TRACE       ? read_traces(in, g)
               : in->kind == MT_KIND_CONTAINER ? read_container(in, g)
                                               : read_mat(in, g);
    if (code == 0 || code == MT_EXIT_INPUT)
        graph_input_empty(in, g);
    if ((code == 0 || code == MT_EXIT_INPUT) && in->outside)
        graph_input_note(in, 0,
                         "%s: %" PRIu64 " accesses outside all allocations (stack, variables of libraries) "
                         "are left out; --all counts them",
                         in->inputs.paths[0], in->outside);
    return code;
}
