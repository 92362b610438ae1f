/* Writes one compact trace, MemTrace-pipe-N.mtc: a container with the accesses of a stream's launches as
 * runs of warps and, in meta chunks, what its companion says. */
#include "compact.h"
#include "companion.h"
#include "events.h"
#include "memtrace/device.h"
#include "base/file.h"
#include "base/report.h"
#include "format/container/writer.h"
#include "base/fork.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_RUNS 8192u /* of a chunk; what the encoder knows of so many stays in the cache */

struct mt_compact {
    struct mt_file file;
    char *path;
    struct mt_mtc_writer *writer;
    struct mt_companion_writer *inside; /* the meta chunks */
    uint64_t stream;
    uint64_t good; /* bytes in the file, all of them whole chunks; under the writer's lock */
    _Atomic int off;
    int closing; /* index and tail are under way */
    char error[256];

    char **kernels; /* that have a line; ids are 1, 2, … */
    size_t nkernels;
    int spaces;     /* the head says that there are accesses to shared or local memory */
    uint64_t sites; /* mt_log_sites when meta lines were written out last */

    /* This launch. Each thread that brings runs has a chunk in the making. */
    pthread_mutex_t lock; /* guards `open`, and the order of chunks */
    uint64_t key, seq;
    int begun; /* its first chunk is written */
    struct encoder *open;
    _Atomic uint64_t kept; /* accesses in the file */
    uint64_t before;       /* bytes in the file */
};

/* ---- encoders: as many as threads ever wrote at once ---- */

struct encoder {
    struct mt_mtc_device_encoder *e;
    pthread_t owner; /* while it is open */
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
    if (c->closing) /* all chunks are there: without index readers find them */
        mt_report_file("%s: %s; the trace is whole, but for its index: reading it takes longer", c->path,
                       c->error);
    else if (c->inside && !mt_forked()) /* at once, the kernel may run for hours */
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

/* Writes index and tail. */
static void compact_close(void *self)
{
    struct mt_compact *c = self;
    mt_companion_close(c->inside);
    c->closing = c->inside && !c->off && !mt_forked();
    if (mt_mtc_writer_close(c->writer) && c->inside)
        compact_fail(c, strerror(ENOMEM), c->good);
    mt_file_close(&c->file);
    pthread_mutex_destroy(&c->lock);
    for (size_t i = 0; i < c->nkernels; i++)
        free(c->kernels[i]);
    free(c->kernels);
    for (struct encoder *x; (x = c->open);) { /* of a launch that did not end */
        c->open = x->next;
        give_encoder(x);
    }
    free(c->path);
    free(c);
}

struct mt_compact *mt_compact_open(const char *path, const struct mt_header_line *head, int level, char *why,
                                   size_t size)
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
    if (mt_file_open(&c->file, path, MT_FILE_WAIT, why, size))
        goto fail;
    struct mt_mtc_file file = {write_file, c};
    c->spaces = mt_log_spaces();
    uint64_t features = c->spaces ? MT_MTC_HAS_SPACES | MT_MTC_HAS_COPIES : 0;
    c->writer = mt_mtc_writer_open(&file, MT_MTC_HAS_DEVICE | features, level, why, size);
    if (!c->writer) {
        snprintf(why, size, "%s: %s", path, *c->error ? c->error : "no memory for a compact trace");
        goto fail;
    }
    c->inside = mt_companion_inside(head, write_lines, c, why, size);
    if (c->inside)
        return c;
fail:
    compact_close(c);
    return NULL;
}

/* ---- launches ---- */

/* The kernel's number in this file; 0: no memory. Sites and names are before what needs them. */
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

/* Writes the sites that are new. */
static void compact_sites(struct mt_compact *c)
{
    uint64_t sites = mt_log_sites();
    if (c->off || c->sites == sites)
        return;
    mt_companion_flush(c->inside, 1);
    c->sites = sites;
}

static int compact_begin(void *self, const struct mt_launch_line *l)
{
    struct mt_compact *c = self;
    c->before = mt_mtc_writer_bytes(c->writer);
    uint32_t kernel = c->off ? 0 : kernel_of(c, l->kernel);
    if (!c->off && !kernel)
        compact_fail(c, strerror(ENOMEM), c->good);
    compact_sites(c);
    if (!c->off && !c->spaces && mt_log_spaces())
        compact_fail(c,
                     "code that records shared or local memory was loaded after this trace began: load it "
                     "before the first traced launch",
                     c->good);
    if (c->off)
        return -1;
    c->key = MT_MTC_DEVICE_KEY(c->stream, kernel);
    c->seq = l->seq;
    c->begun = 0;
    c->kept = 0;
    return 0;
}

/* Writes what the encoder has; `last` of the launch. */
static void compact_put(struct mt_compact *c, struct encoder *x, unsigned last)
{
    const void *payload;
    uint64_t items;
    size_t bytes = mt_mtc_device_end(x->e, &items, &payload);
    pthread_mutex_lock(&c->lock);
    compact_sites(c); /* those of machine code are met while the kernel runs */
    unsigned first = c->begun ? 0 : MT_MTC_BEGIN;
    c->begun = 1;
    if (first || last) /* others do not wait for the compression */
        write_chunk(c, first | last, payload, bytes, items);
    pthread_mutex_unlock(&c->lock);
    if (!first && !last)
        write_chunk(c, 0, payload, bytes, items);
}

/* The calling thread's; a new one has begun a chunk. NULL: *why. */
static struct encoder *compact_encoder(struct mt_compact *c, const char **why)
{
    pthread_mutex_lock(&c->lock);
    struct encoder *x = c->open;
    while (x && !pthread_equal(x->owner, pthread_self()))
        x = x->next;
    pthread_mutex_unlock(&c->lock);
    if (x)
        return x;
    x = take_encoder();
    *why = x ? mt_mtc_device_begin(x->e, CHUNK_RUNS) : strerror(ENOMEM);
    if (*why) {
        if (x)
            give_encoder(x);
        return NULL;
    }
    x->owner = pthread_self();
    pthread_mutex_lock(&c->lock);
    x->next = c->open;
    c->open = x;
    pthread_mutex_unlock(&c->lock);
    return x;
}

static void compact_append(void *self, const struct mt_access_run *runs, size_t count, uint64_t accesses)
{
    struct mt_compact *c = self;
    const char *why = NULL;
    (void)accesses;
    if (c->off)
        return;
    struct encoder *x = compact_encoder(c, &why);
    int rc = x ? mt_mtc_device_add(x->e, runs, count, &why) : -1;
    if (rc == 0) {
        compact_put(c, x, 0);
        why = mt_mtc_device_begin(x->e, count > CHUNK_RUNS ? count : CHUNK_RUNS);
        rc = why ? -1 : mt_mtc_device_add(x->e, runs, count, &why);
    }
    if (rc <= 0)
        compact_fail(c, why ? why : "too many runs for a chunk", c->good);
}

/* Writes what the calling thread's encoder has. */
static void compact_fence(void *self)
{
    struct mt_compact *c = self;
    pthread_mutex_lock(&c->lock);
    struct encoder **at = &c->open, *x;
    while (*at && !pthread_equal((*at)->owner, pthread_self()))
        at = &(*at)->next;
    if ((x = *at))
        *at = x->next;
    pthread_mutex_unlock(&c->lock);
    if (!x)
        return;
    if (!c->off)
        compact_put(c, x, 0);
    give_encoder(x);
}

static uint64_t compact_end(void *self, uint64_t *bytes)
{
    static const struct mt_mtc_columns nothing;
    struct mt_compact *c = self;
    if (!c->off && !c->open)
        write_chunk(c, MT_MTC_END | (c->begun ? 0 : MT_MTC_BEGIN), &nothing, sizeof nothing, 0);
    for (struct encoder *x; (x = c->open);) {
        c->open = x->next;
        if (!c->off)
            compact_put(c, x, c->open ? 0 : MT_MTC_END);
        give_encoder(x);
    }
    *bytes = mt_mtc_writer_bytes(c->writer) - c->before;
    return c->kept;
}

struct mt_companion_writer *mt_compact_inside(const struct mt_compact *c)
{
    return c->inside;
}

static int compact_on(const void *self)
{
    return !((const struct mt_compact *)self)->off;
}

static const char *compact_error(const void *self)
{
    return ((const struct mt_compact *)self)->error;
}

const struct mt_output_ops mt_compact_ops = {
    .spaces = 1,
    .begin = compact_begin,
    .append_runs = compact_append,
    .fence = compact_fence,
    .end = compact_end,
    .on = compact_on,
    .error = compact_error,
    .close = compact_close,
};
