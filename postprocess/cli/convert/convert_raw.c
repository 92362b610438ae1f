/* A raw trace and its companion -> a container. The companion's lines go in as they are, so that they come
 * out again as they were. */
#define _GNU_SOURCE
#include "convert.h"
#include "memtrace/grow.h"
#include "convert_write.h"
#include "reader/container/container.h" /* windows on files are not part of the public interface */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 1 << 14, RUNS = 1 << 17, LINES = 1 << 20 };

struct work {
    struct mt_mtc_writer *w;
    struct mt_mtc_device_encoder *encoder;
    struct mt_access_run *runs;
    struct mt_raw_record *room;
    size_t count;         /* runs that wait */
    const char **kernels; /* the reader's pointers: equal names are equal pointers; id = position + 1 */
    size_t nkernels, kernel_room;
    struct mt_companion *companion;
    size_t next;  /* of its launches */
    uint64_t seq; /* of the launch under way */
    uint32_t kernel;
    unsigned flags;                     /* that the next chunk has */
    const struct mt_launch_event *line; /* of the launch under way, or NULL */
    uint64_t first, records;            /* of it: place of the first one, and how many came */
    struct mt_sample sample;
    int more;  /* launches than the companion has lines for */
    int other; /* it is of another run: other launches, or one has other records than its line was written of
                */
};

static int convert_raw_failed(const char *what, int e)
{
    return mt_cli_fail("cannot write the container: %s", e ? strerror(e) : what);
}

/* The runs that wait become a chunk. 0, or an exit code. */
static int write_runs(struct work *x)
{
    const void *payload;
    const char *why;
    uint64_t accesses;
    size_t bytes = mt_mtc_encode_device(x->encoder, x->runs, x->count, &accesses, &payload, &why);
    if (!bytes)
        return convert_raw_failed(why, 0);
    int e = mt_mtc_write(x->w, MT_MTC_DEVICE, x->flags,
                         MT_MTC_DEVICE_KEY(x->companion ? x->companion->stream : 0, x->kernel), x->seq,
                         x->seq, accesses, payload, bytes);
    x->count = 0;
    x->flags = 0;
    return e ? convert_raw_failed(NULL, e) : 0;
}

/* The kernel's number; names new ones in a meta chunk. 0 or an exit code. */
static int name_kernel(struct work *x, const char *name)
{
    size_t i = 0;
    while (i < x->nkernels && x->kernels[i] != name)
        i++;
    x->kernel = (uint32_t)i + 1;
    if (i < x->nkernels)
        return 0;
    char *line = mt_grow(&x->kernels, &x->kernel_room, i + 1, sizeof *x->kernels) == 0
                     ? mt_convert_kernel_line(x->kernel, name)
                     : NULL;
    if (!line)
        return convert_raw_failed("no memory", 0);
    x->kernels[x->nkernels++] = name;
    int e = mt_mtc_write(x->w, MT_MTC_META, 0, 0, 0, 0, 1, line, strlen(line));
    free(line);
    return e ? convert_raw_failed(NULL, e) : 0;
}

/* The launch's number: its line's, or the next one. */
static void number_launch(struct work *x, uint64_t launch)
{
    const struct mt_companion *c = x->companion;
    x->line = NULL;
    while (c && x->next < c->nlaunches && !c->launches[x->next].traced)
        x->next++;
    if (c && x->next < c->nlaunches)
        x->seq = (x->line = &c->launches[x->next++])->seq;
    else
        x->seq = launch ? x->seq + 1 : 0;
    x->more |= c && !x->line;
}

/* At the trace's end: does the companion have as many launches? */
static void convert_raw_count(struct work *x, const char *name)
{
    const struct mt_companion *c = x->companion;
    while (c && x->next < c->nlaunches && !c->launches[x->next].traced)
        x->next++;
    if (!c || x->other || (!x->more && x->next == c->nlaunches))
        return;
    x->other = 1;
    mt_cli_say("%s: has %s launches than its companion %s says: one of them is a part, or of another run",
               name, x->more ? "more" : "fewer", c->path);
}

/* As readers of the trace check it: nobody can in the container. */
static void convert_raw_check(struct work *x, const struct mt_batch *b, const char *name)
{
    if (b->flags & MT_BATCH_BEGIN) {
        x->first = b->offset;
        x->records = 0;
    }
    mt_sample_add(&x->sample, x->records, b->records, b->count);
    x->records += b->count;
    if (!(b->flags & MT_BATCH_END) || x->other || !x->line ||
        !mt_sample_differs(&x->sample, x->records, x->line))
        return;
    x->other = 1;
    mt_cli_say(MT_OTHER_RUN, name, (unsigned long long)b->launch, (unsigned long long)x->first,
               x->companion->path);
}

static int take_batch(struct work *x, const struct mt_batch *b)
{
    int code = 0;
    size_t done = 0, taken;
    if (b->flags & MT_BATCH_BEGIN) {
        number_launch(x, b->launch);
        x->flags = MT_MTC_BEGIN;
        code = name_kernel(x, b->kernel);
    }
    while (code == 0 && done < b->count) {
        x->count += mt_runs_from_records(b->records + done, b->count - done, x->runs + x->count,
                                         RUNS - x->count, &taken);
        done += taken;
        if (x->count == RUNS)
            code = write_runs(x);
    }
    if (code == 0 && b->flags & MT_BATCH_END) {
        x->flags |= MT_MTC_END;
        code = write_runs(x);
    }
    return code;
}

static int take_records(struct work *x, struct mt_reader *r, const char *name)
{
    struct mt_batch b;
    struct mt_error err;
    int code = 0, rc = 0;
    while (code == 0 && (rc = mt_reader_fill(r, x->room, BATCH, &b, &err)) > 0) {
        code = take_batch(x, &b);
        convert_raw_check(x, &b, name);
    }
    if (code)
        return code;
    if (x->count || x->flags) /* the launch has no end: its last chunk neither */
        code = write_runs(x);
    if (rc == 0) {
        convert_raw_count(x, name);
        return code;
    }
    mt_cli_say("%s", err.message);
    return code ? code : mt_cli_exit_code(&err);
}

/* The lines of the companion, whole ones, in chunks. 0, or an exit code. */
static int take_lines(struct work *x, const char *path)
{
    FILE *f = fopen(path, "rb");
    struct mt_convert_lines lines = {.w = x->w};
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int e = f ? 0 : errno;
    while (!e && (n = getline(&line, &room, f)) > 0)
        e = mt_convert_line_add(&lines, line, (size_t)n);
    if (!e && ferror(f))
        e = EIO;
    if (!e)
        e = mt_convert_lines_end(&lines);
    free(lines.text);
    free(line);
    if (f)
        fclose(f);
    return e ? convert_raw_failed(NULL, e) : 0;
}

/* Do the numbers of its launches ascend? If not, they would put the launches into another order. */
static int in_order(const struct mt_companion *c)
{
    uint64_t before = 0;
    int any = 0;
    for (size_t i = 0; i < c->nlaunches; i++)
        if (c->launches[i].traced) {
            if (any && c->launches[i].seq <= before)
                return 0;
            before = c->launches[i].seq;
            any = 1;
        }
    return 1;
}

/* 0, or an exit code; without companion x->companion stays NULL. */
static int load_companion(struct work *x, const char *path, int optional)
{
    struct mt_error err;
    x->companion = path ? mt_companion_load(path, &err) : NULL;
    if (!x->companion) {
        if (!path || (optional && err.code == MT_E_INPUT && err.sys == ENOENT))
            return 0;
        return mt_cli_failed(&err);
    }
    if (!optional && !x->companion->has_header)
        return mt_cli_refuse("%s: is no companion: no line of it says of what trace it is", path);
    if (in_order(x->companion) && x->companion->regular && x->companion->stream <= UINT32_MAX)
        return 0;
    mt_cli_say("%s: its launches are not in order, or it is not a regular file", path);
    return MT_EXIT_INPUT;
}

static int convert_raw_convert(struct work *x, struct mt_reader *r, const char *name, const char *companion,
                               FILE *f, int level)
{
    char why[200];
    struct mt_mtc_file file = {mt_convert_write, f};
    struct mt_mtc_head head = {.magic = MT_MTC_MAGIC,
                               .version = MT_MTC_VERSION,
                               .minor = MT_MTC_MINOR - 1,
                               .features = MT_MTC_HAS_DEVICE};
    if (x->companion) {
        head.pid = (uint32_t)x->companion->pid;
        head.start_ns = x->companion->start_ns;
    }
    x->w = mt_mtc_writer_again(&file, &head, level, why, sizeof why);
    if (!x->w)
        return mt_cli_fail("%s", why);
    int code = x->companion ? take_lines(x, companion) : 0;
    if (code == 0)
        code = take_records(x, r, name);
    if (x->other && code != MT_EXIT_FAILURE)
        code = mt_convert_partial(x->w, "its companion has launches with other records than", name,
                                  x->companion);
    int e = mt_mtc_writer_close(x->w);
    return e && code != MT_EXIT_FAILURE ? convert_raw_failed(NULL, e) : code;
}

int mt_convert_is_raw(const char *path)
{
    struct stat st;
    char first = 0;
    if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, &first, 1, 0);
    if (fd >= 0)
        close(fd);
    return n == 1 && first == MT_RAW_RECORD_SIZE;
}

int mt_convert_window_is_raw(struct mt_window *in)
{
    struct mt_error err;
    size_t got = 0;
    const unsigned char *p = mt_window_get(in, 0, 1, &got, &err);
    return p && got && *p == MT_RAW_RECORD_SIZE;
}

int mt_convert_from_raw(struct mt_window *in, const char *companion, int optional, FILE *f, int level)
{
    struct work x = {.encoder = mt_mtc_device_encoder_new(),
                     .runs = malloc(RUNS * sizeof *x.runs),
                     .room = malloc(BATCH * sizeof *x.room)};
    struct mt_error err;
    struct mt_reader *r = mt_reader_open_fd(in->fd, in->name, 0, &mt_cli_stop, &err);
    int code = r ? 0 : mt_cli_exit_code(&err);
    if (!r)
        mt_cli_say("%s", err.message);
    else if (!x.encoder || !x.runs || !x.room)
        code = convert_raw_failed("no memory", 0);
    if (r && !in->regular)
        mt_reader_preload(r, in->buffer, in->length); /* what was read to see what it is */
    if (code == 0)
        code = load_companion(&x, companion, optional);
    if (code == 0)
        code = convert_raw_convert(&x, r, in->name, companion, f, level);
    if (code == 0)
        code = mt_convert_complete_if_known(companion, x.companion);
    mt_mtc_device_encoder_free(x.encoder);
    mt_companion_free(x.companion);
    mt_reader_close(r);
    free(x.kernels);
    free(x.runs);
    free(x.room);
    return code;
}
