/* Writes one compact trace, MemTrace-pipe-N.mtc: a container with the accesses of a stream's launches as
 * runs of warps and, in meta chunks, what its companion says. */
#include "compact.h"
#include "companion.h"
#include "events.h"
#include "base/file.h"
#include "base/report.h"
#include "container/writer.h"
#include "base/fork.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX                                                                                             \
    65536u /* bytes of a payload that waits until it is known whether it is its launch's only one */

struct mt_compact {
    struct mt_file file;
    char *path;
    struct mt_mtc_writer *writer;
    struct mt_companion_writer *inside; /* the meta chunks */
    uint64_t stream;
    uint64_t good; /* bytes in the file, all of them whole chunks; under the writer's lock */
    _Atomic int off;
    char error[256];

    char **kernels; /* that have a line; ids are 1, 2, … */
    size_t nkernels;
    uint64_t sites; /* mt_log_sites when meta lines were written out last */

    /* This launch. A small first payload is held: the chunk may turn out to be the only one. */
    pthread_mutex_t lock; /* guards what follows */
    uint64_t key, seq;
    int begun; /* its first chunk is written */
    void *held;
    size_t held_bytes;
    uint64_t held_items;
    _Atomic uint64_t kept; /* accesses in the file */
};

/* ---- encoders: as many as threads ever wrote at once ---- */

struct encoder {
    struct mt_mtc_device_encoder *e;
    struct encoder *next;
};
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(idle_lock, MT_FORK_LEAVES);
static struct encoder *idle;

static struct encoder *take_encoder(void)
{
    pthread_mutex_lock(&idle_lock);
    struct encoder *x = idle;
    if (x)
        idle = x->next;
    pthread_mutex_unlock(&idle_lock);
    if (x || !(x = calloc(1, sizeof *x)))
        return x;
    x->e = mt_mtc_device_encoder_new();
    if (x->e)
        return x;
    free(x);
    return NULL;
}

static void give_encoder(struct encoder *x)
{
    pthread_mutex_lock(&idle_lock);
    x->next = idle;
    idle = x;
    pthread_mutex_unlock(&idle_lock);
}

/* ---- the file ---- */

static void compact_fail(struct mt_compact *c, const char *why, uint64_t bytes)
{
    if (atomic_exchange(&c->off, 1))
        return;
    snprintf(c->error, sizeof c->error, "%s after %llu bytes", why, (unsigned long long)bytes);
    if (c->inside && !mt_forked()) /* at once, the kernel may run for hours */
        mt_report_file("%s: %s; the trace of this stream ends here and is incomplete", c->path, c->error);
}

/* The writer's: one call at a time. */
static int write_file(void *self, const void *data, size_t bytes)
{
    struct mt_compact *c = self;
    size_t done;
    int rc = mt_file_write(&c->file, data, bytes, c->file.fifo ? -1 : (int64_t)c->good, &done);
    if (!rc) {
        c->good += bytes;
        return 0;
    }
    compact_fail(c, mt_file_reason(rc), c->good + done);
    if (!c->file.fifo && rc != EBADF)
        mt_file_cut(&c->file, c->good);
    return rc;
}

static int write_lines(void *self, const char *lines, size_t bytes)
{
    struct mt_compact *c = self;
    uint64_t n = 0;
    for (const char *p = lines, *end = lines + bytes; p < end && (p = memchr(p, '\n', (size_t)(end - p)));
         p++)
        n++;
    return mt_mtc_write(c->writer, MT_MTC_META, 0, 0, 0, 0, n, lines, bytes);
}

static void write_chunk(struct mt_compact *c, unsigned flags, const void *payload, size_t bytes,
                        uint64_t items)
{
    int rc = mt_mtc_write(c->writer, MT_MTC_DEVICE, flags, c->key, c->seq, c->seq, items, payload, bytes);
    if (!rc)
        c->kept += items;
    else
        compact_fail(c, mt_file_reason(rc), mt_mtc_writer_bytes(c->writer));
}

static struct mt_compact *compact_new(const char *path, const struct mt_companion_head *head, int level,
                                      int memory, char *why, size_t size)
{
    struct mt_compact *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(path))) {
        snprintf(why, size, "%s: out of memory", path);
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->stream = head->stream;
    c->file.at.fd = -1;
    if (memory ? mt_file_in_memory(&c->file, why, size)
               : mt_file_open(&c->file, path, MT_FILE_WAIT, why, size))
        goto fail;
    struct mt_mtc_file file = {write_file, c};
    c->writer = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE, level, why, size);
    if (!c->writer) {
        snprintf(why, size, "%s: %s", path, *c->error ? c->error : "no memory for a compact trace");
        goto fail;
    }
    c->inside = mt_companion_inside(head, write_lines, c, why, size);
    if (c->inside)
        return c;
fail:
    mt_compact_close(c);
    return NULL;
}

struct mt_compact *mt_compact_open(const char *path, const struct mt_companion_head *head, int level,
                                   char *why, size_t size)
{
    return compact_new(path, head, level, 0, why, size);
}

struct mt_compact *mt_compact_in_memory(const char *path, const struct mt_companion_head *head, int level,
                                        char *why, size_t size)
{
    return compact_new(path, head, level, 1, why, size);
}

int mt_compact_descriptor(const struct mt_compact *c)
{
    return c ? fcntl(c->file.at.fd, F_DUPFD_CLOEXEC, 3) : -1;
}

/* ---- launches ---- */

/* The kernel's number in this file; 0: no memory. Sites and names stand before what needs them. */
static uint32_t kernel_of(struct mt_compact *c, const char *name)
{
    size_t i = 0;
    while (i < c->nkernels && strcmp(c->kernels[i], name))
        i++;
    if (i < c->nkernels)
        return (uint32_t)i + 1;
    char **more = realloc(c->kernels, (i + 1) * sizeof *more);
    if (!more)
        return 0;
    c->kernels = more;
    if (!(more[i] = strdup(name)))
        return 0;
    c->nkernels++;
    mt_companion_kernel(c->inside, i + 1, name);
    c->sites = UINT64_MAX; /* to be written out */
    return (uint32_t)i + 1;
}

int mt_compact_begin(struct mt_compact *c, const struct mt_launch_line *l)
{
    uint32_t kernel = c->off ? 0 : kernel_of(c, l->kernel);
    if (!c->off && !kernel)
        compact_fail(c, strerror(ENOMEM), c->good);
    if (!c->off && c->sites != mt_log_sites()) {
        uint64_t sites = mt_log_sites();
        mt_companion_flush(c->inside, 1);
        c->sites = sites;
    }
    if (c->off)
        return -1;
    c->key = MT_MTC_DEVICE_KEY(c->stream, kernel);
    c->seq = l->seq;
    c->begun = 0;
    c->kept = 0;
    return 0;
}

/* With the lock: the first payload of a launch. 1: it is kept or written; 0: it is not the first one. */
static int put_first(struct mt_compact *c, const void *payload, size_t bytes, uint64_t items)
{
    if (c->begun)
        return 0;
    if (!c->held && bytes <= HELD_MAX && (c->held = malloc(bytes))) {
        memcpy(c->held, payload, bytes);
        c->held_bytes = bytes;
        c->held_items = items;
        return 1;
    }
    c->begun = 1;
    if (!c->held) {
        write_chunk(c, MT_MTC_BEGIN, payload, bytes, items);
        return 1;
    }
    write_chunk(c, MT_MTC_BEGIN, c->held, c->held_bytes, c->held_items);
    free(c->held);
    c->held = NULL;
    return 0;
}

void mt_compact_append(struct mt_compact *c, const struct mt_access_run *runs, size_t count,
                       uint64_t accesses)
{
    const void *payload;
    const char *why = strerror(ENOMEM);
    uint64_t items;
    if (c->off)
        return;
    struct encoder *x = take_encoder();
    size_t bytes = x ? mt_mtc_encode_device(x->e, runs, count, &items, &payload, &why) : 0;
    if (bytes && items == accesses) {
        pthread_mutex_lock(&c->lock);
        int done = put_first(c, payload, bytes, items);
        pthread_mutex_unlock(&c->lock);
        if (!done)
            write_chunk(c, 0, payload, bytes, items);
    } else {
        compact_fail(c, bytes ? "runs and accesses differ in number" : why, c->good);
    }
    if (x)
        give_encoder(x);
}

uint64_t mt_compact_end(struct mt_compact *c)
{
    static const struct mt_mtc_columns nothing;
    unsigned flags = MT_MTC_END | (c->begun ? 0 : MT_MTC_BEGIN);
    if (!c->off && c->held)
        write_chunk(c, flags, c->held, c->held_bytes, c->held_items);
    else if (!c->off)
        write_chunk(c, flags, &nothing, sizeof nothing, 0);
    free(c->held);
    c->held = NULL;
    return c->kept;
}

/* ---- what companions are told ---- */

void mt_compact_launch(struct mt_compact *c, const struct mt_launch_line *l)
{
    mt_companion_launch(c->inside, l);
}

void mt_compact_lost(struct mt_compact *c, uint64_t count, const char *why)
{
    mt_companion_lost(c->inside, count, why);
}

void mt_compact_last(struct mt_compact *c, const struct mt_companion_end *e)
{
    mt_companion_end(c->inside, e);
}

void mt_compact_flush(struct mt_compact *c)
{
    mt_companion_flush(c->inside, 0);
}

int mt_compact_on(const struct mt_compact *c)
{
    return !c->off;
}

const char *mt_compact_error(const struct mt_compact *c)
{
    return c->error;
}

uint64_t mt_compact_bytes(const struct mt_compact *c)
{
    return mt_mtc_writer_bytes(c->writer);
}

void mt_compact_close(struct mt_compact *c)
{
    if (!c)
        return;
    mt_companion_close(c->inside);
    if (mt_mtc_writer_close(c->writer) && c->inside)
        compact_fail(c, strerror(ENOMEM), c->good);
    mt_file_close(&c->file);
    pthread_mutex_destroy(&c->lock);
    for (size_t i = 0; i < c->nkernels; i++)
        free(c->kernels[i]);
    free(c->kernels);
    free(c->held);
    free(c->path);
    free(c);
}
