/* A container of kernels' accesses -> a raw trace with its companion,
 * or a container of some of its launches. */
#define _GNU_SOURCE
#include "convert.h"
#include "convert_write.h"
#include "reader/container/container.h" /* chunks as they are are not part of the public interface */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 1 << 14 };

struct work {
    struct mt_host_reader *r;
    FILE *f, *meta;
    const char *meta_path; /* NULL: none is wanted */
    int meta_named;        /* by the user */
    struct mt_convert_chosen chosen;
    struct mt_raw_record *room;
    int under_way; /* a launch whose EOT is not written */
    int code;
};

static int convert_device_failed(const char *path, int e)
{
    return mt_cli_fail("%s: cannot write: %s", path, strerror(e));
}

/* ---- which launches ---- */

/* Fills in what was asked for. 0, or an exit code. One stream only, if `single`. */
static int convert_device_choose(struct mt_host_reader *r, const struct mt_convert_choice *want, int single,
                                 struct mt_convert_chosen *c)
{
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(r, &n);
    uint64_t stream = MT_SEQ_NONE;
    int several = 0;
    c->seq = malloc((n + 1) * sizeof *c->seq);
    if (!c->seq)
        return mt_cli_fail("no memory for the launches");
    for (size_t i = 0; i < n; i++) {
        if (!mt_filter_match(want->filter, l[i].kernel, i) ||
            (want->has_stream && l[i].stream != want->stream))
            continue;
        several |= stream != MT_SEQ_NONE && stream != l[i].stream;
        stream = l[i].stream;
        c->seq[c->count++] = l[i].seq;
        const struct mt_launch_event *e = mt_device_launch_event(r, l[i].seq);
        uint64_t others = e && e->others < l[i].accesses ? e->others : 0;
        c->accesses += l[i].accesses - others;
        c->others += others;
    }
    c->all = c->count == n && !want->has_stream;
    if (!c->count && n)
        mt_cli_note("no launch matches: the trace has %zu, and memtrace dump --stat names their kernels", n);
    if (single && several)
        return mt_cli_usage("%s: has launches of several streams, and a raw trace has one: give --stream N",
                            r->window.name);
    return 0;
}

int mt_convert_choose(const char *path, const struct mt_convert_choice *want, struct mt_convert_chosen *c)
{
    struct mt_error err;
    memset(c, 0, sizeof *c);
    if (!want->has_stream && !want->filter->kernels_text && !want->filter->supersteps_text) {
        c->all = 1;
        return 0;
    }
    struct mt_host_reader *r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    int code = r->window.regular
                   ? convert_device_choose(r, want, 0, c)
                   : mt_cli_usage("%s: to choose launches a regular file is needed, not a FIFO", path);
    mt_host_reader_close(r);
    return code;
}

/* ---- companion ---- */

/* A path that the user gave is written to whatever it is; one that we made of another must be a regular file,
 * or none yet. 0, or an exit code. */
static int open_companion(struct work *x)
{
    int flags = O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | (x->meta_named ? 0 : O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    int fd = open(x->meta_path, flags, 0666), regular = 0;
    if (fd >= 0 && fstat(fd, &st) == 0)
        regular = S_ISREG(st.st_mode);
    if (fd >= 0 && !regular && !x->meta_named)
        errno = EINVAL;
    else if (fd >= 0 && (!regular || ftruncate(fd, 0) == 0) && (x->meta = fdopen(fd, "wb")))
        return 0;
    int e = errno;
    if (fd >= 0)
        close(fd);
    if (x->meta_named || (e != EINVAL && e != ELOOP && e != ENXIO))
        return convert_device_failed(x->meta_path, e);
    return mt_cli_fail("%s: is not a regular file and is not written to: give --companion or --no-companion",
                       x->meta_path);
}

/* 0; -1: it could not be written whole, and is removed. */
static int close_companion(struct work *x)
{
    struct stat st;
    int bad = x->meta && ferror(x->meta), failed = x->meta && fclose(x->meta) != 0, error = errno;
    x->meta = NULL;
    if (!bad && !failed)
        return 0;
    if (lstat(x->meta_path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(x->meta_path);
    errno = error;
    return -1;
}

/* Lines of a meta chunk. 0, or an exit code. */
static int put_lines(void *self, const char *text, size_t bytes)
{
    struct work *x = self;
    const char *end = text + bytes;
    while (x->meta_path && text < end) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((lf ? lf : end) - text);
        char *changed;
        if (mt_convert_line(&x->chosen, 1, text, n, &changed) != 0)
            return mt_cli_fail("no memory for the launches");
        int kernel = mt_convert_is_kernel(text, n);
        int code = !kernel && !x->meta ? open_companion(x) : 0;
        if (code) {
            free(changed);
            return code;
        }
        if (!kernel && (fwrite(changed ? changed : text, 1, changed ? strlen(changed) : n, x->meta) == 0 ||
                        putc('\n', x->meta) == EOF)) {
            free(changed);
            return convert_device_failed(x->meta_path, errno);
        }
        free(changed);
        text += n + 1;
    }
    return 0;
}

/* All meta chunks of a regular file. Damage in them was reported when the reader was opened. */
static int put_all_lines(struct work *x)
{
    struct mt_chunk_payload plain = {0};
    struct mt_error err;
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    int code = 0;
    for (size_t i = 0; i < x->r->chunks.count && code == 0; i++) {
        const struct mt_mtc_index *e = &x->r->chunks.entries[i];
        if (e->type == MT_MTC_META &&
            mt_chunk_at(&x->r->window, e->offset, &head, &stored, &err) == MT_CHUNK_WHOLE &&
            head.type == MT_MTC_META &&
            mt_chunk_unpack(&plain, x->r->window.name, e->offset, &head, stored, &err) == 0)
            code = put_lines(x, (char *)plain.data, plain.bytes);
    }
    mt_chunk_payload_free(&plain);
    return code;
}

/* ---- records ---- */

static int put_records(struct work *x, const struct mt_run_batch *b)
{
    static const struct mt_raw_record eot;
    size_t run = 0;
    uint32_t lane = 0;
    if (b->flags & MT_BATCH_BEGIN) {
        if (x->under_way) /* what it lacks was reported: the next name needs a place */
            fwrite(&eot, sizeof eot, 1, x->f);
        fputs(b->kernel, x->f);
        putc('\n', x->f);
        x->under_way = 1;
    }
    while (run < b->count && !mt_cli_stop) { /* a run of few bytes may be a billion records */
        size_t n = mt_records_from_runs(b->runs, b->count, &run, &lane, x->room, ROOM);
        fwrite(x->room, sizeof *x->room, n, x->f);
    }
    if (b->flags & MT_BATCH_END) {
        fwrite(&eot, sizeof eot, 1, x->f);
        x->under_way = 0;
    }
    return ferror(x->f) ? -1 : 0;
}

/* The next batch: 1; 0: the end; -1: damage that was said, x->code is set; -2: an error that ends all. */
static int convert_device_next(struct work *x, struct mt_run_batch *b)
{
    struct mt_error err;
    int rc = mt_device_next(x->r, b, &err);
    if (rc >= 0)
        return rc;
    x->code = mt_cli_failed(&err);
    return err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED || err.code == MT_E_INPUT ? -2 : -1;
}

/* Launch by launch, from a regular file. */
static void put_chosen(struct work *x)
{
    struct mt_run_batch b;
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(x->r, &n);
    int rc = 1;
    for (size_t i = 0; i < n && rc > -2; i++) {
        if (!mt_convert_is_chosen(&x->chosen, l[i].seq))
            continue;
        int ended = 0;
        mt_device_seek(x->r, i);
        while (rc > -2 && rc != 0 && mt_device_peek(x->r) == l[i].seq)
            if ((rc = convert_device_next(x, &b)) > 0) {
                ended = b.flags & MT_BATCH_END;
                if (put_records(x, &b) != 0)
                    return;
            }
        if (!ended && rc > -2)
            rc = convert_device_next(x, &b); /* says that it has no end */
    }
    mt_device_seek(x->r, n);
    while (rc > -2 && rc != 0)
        rc = convert_device_next(x, &b); /* damage of the file */
}

/* As it comes. */
static void put_live(struct work *x)
{
    struct mt_run_batch b;
    int rc, any = 0;
    uint32_t stream = 0;
    while ((rc = convert_device_next(x, &b)) > -2 && rc != 0) {
        if (rc < 0)
            continue;
        if (any && stream != b.stream) {
            x->code = mt_cli_usage("%s: has launches of several streams, and a raw trace has one: make it a "
                                   "file and give --stream N",
                                   x->r->window.name);
            return;
        }
        any = 1;
        stream = b.stream;
        if (put_records(x, &b) != 0)
            return;
    }
}

/* What the companion of a copy that lacks something ends with. An exit code. */
static int put_partial(struct work *x)
{
    int code = x->meta_path && !x->meta ? open_companion(x) : 0;
    if (code || !x->meta)
        return code ? code : MT_EXIT_INPUT;
    char *lines = mt_convert_partial_lines(MT_CONVERT_UNREAD, x->r->window.name, mt_host_companion(x->r));
    if (!lines)
        return mt_cli_fail("no memory for the companion");
    code = fputs(lines, x->meta) == EOF ? convert_device_failed(x->meta_path, errno) : MT_EXIT_INPUT;
    free(lines);
    return code;
}

int mt_convert_to_raw(const char *path, FILE *f, const char *meta, int named,
                      const struct mt_convert_choice *want)
{
    struct mt_error err;
    struct work x = {.f = f, .meta_path = meta, .meta_named = named, .room = malloc(ROOM * sizeof *x.room)};
    x.r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!x.r) {
        mt_cli_say("%s", err.message);
        free(x.room);
        return mt_cli_exit_code(&err);
    }
    mt_host_reader_threads(x.r, mt_cli_processors());
    int live = !x.r->window.regular, code = x.room ? 0 : mt_cli_fail("no memory for the launches");
    if (code == 0 && !(x.r->head.features & MT_MTC_HAS_DEVICE))
        code = mt_cli_usage("%s: raw traces hold accesses of kernels, and this container has none", path);
    if (code == 0 && live &&
        (want->filter->kernels_text || want->filter->supersteps_text || want->has_stream))
        code = mt_cli_usage("%s: to choose launches a regular file is needed, not a FIFO", path);
    x.chosen.all = live;
    if (code == 0 && !live && (code = convert_device_choose(x.r, want, 1, &x.chosen)) == 0)
        code = put_all_lines(&x);
    if (code == 0) {
        x.r->meta.lines = live ? put_lines : NULL;
        x.r->meta.lines_arg = &x;
        putc(MT_RAW_RECORD_SIZE, f);
        (live ? put_live : put_chosen)(&x);
        code = x.code == MT_EXIT_INPUT ? put_partial(&x) : x.code;
        int missing = ferror(f)
                          ? MT_EXIT_FAILURE /* what was not read may be whole */
                          : mt_convert_container_complete(path, mt_host_companion(x.r), !want->no_beside);
        if (!ferror(f) && mt_container_whole(x.r, &err) != 0) {
            mt_cli_say("%s", err.message);
            missing = MT_EXIT_INPUT;
        }
        code = code ? code : missing;
    }
    if (close_companion(&x) != 0)
        code = convert_device_failed(meta, errno);
    mt_host_reader_close(x.r);
    free(x.chosen.seq);
    free(x.room);
    return code;
}
