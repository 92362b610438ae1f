/* Writes one raw trace, MemTrace-pipe-N: byte-exact to docs/trace-format.md. */
#include "sink.h"
#include "companion.h"
#include "base/file.h"
#include "base/report.h"
#include "memtrace/record.h"
#include "memtrace/sample.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

struct mt_sink {
    struct mt_file file;
    char *path;
    pthread_mutex_t lock;    /* FIFO: one block after the other; failure state */
    _Atomic uint64_t offset; /* regular: where the next block goes */
    _Atomic int off;
    uint64_t fail_offset; /* first byte that is not in the file, when off */
    uint64_t launch;      /* offset of this launch's name */
    uint64_t first;       /* offset of this launch's first record */
    uint64_t kept;        /* of the launch that ended last */
    struct mt_sample sample;
    int in_launch, opened;
    char error[256];
};

static void sink_fail(struct mt_sink *s, uint64_t at, int error)
{
    pthread_mutex_lock(&s->lock);
    int first = !s->off;
    if (at < s->fail_offset)
        s->fail_offset = at;
    if (first)
        snprintf(s->error, sizeof s->error, "%s after %llu bytes", mt_file_reason(error),
                 (unsigned long long)at);
    s->off = 1;
    pthread_mutex_unlock(&s->lock);
    if (first && s->opened &&
        error != EBADF) /* at once, the kernel may run for hours; not in a forked child */
        mt_report_file("%s: %s; the trace of this stream ends here and is incomplete", s->path, s->error);
}

/* Regular files: blocks get their place first and are then written side by side. FIFOs: in turn. Returns that
 * place. */
static uint64_t sink_put(struct mt_sink *s, const void *data, size_t bytes)
{
    size_t done;
    if (s->file.fifo)
        pthread_mutex_lock(&s->lock);
    uint64_t at = atomic_fetch_add(&s->offset, bytes);
    int off = s->off;
    int rc = off ? 0 : mt_file_write(&s->file, data, bytes, s->file.fifo ? -1 : (int64_t)at, &done);
    if (s->file.fifo)
        pthread_mutex_unlock(&s->lock);
    if (off || rc)
        sink_fail(s, off ? at : at + done, rc);
    return at;
}

static void sink_close(void *self)
{
    struct mt_sink *s = self;
    mt_file_close(&s->file);
    pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
}

struct mt_sink *mt_sink_open(const char *path, char *why, size_t size)
{
    static const unsigned char header = MT_RAW_RECORD_SIZE;
    struct mt_sink *s = calloc(1, sizeof *s);
    if (!s || !(s->path = strdup(path))) {
        snprintf(why, size, "%s: out of memory", path);
        free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->fail_offset = UINT64_MAX;
    if (mt_file_open(&s->file, path, MT_FILE_WAIT, why, size)) {
        sink_close(s);
        return NULL;
    }
    sink_put(s, &header, 1);
    if (s->off) {
        snprintf(why, size, "%s: %s", path, s->error);
        sink_close(s);
        return NULL;
    }
    s->opened = 1;
    return s;
}

/* Cuts the file back to whole records and says why, once. */
static void sink_stop(struct mt_sink *s)
{
    uint64_t keep = s->fail_offset;
    if (s->in_launch && keep >= s->first)
        keep -= (keep - s->first) % MT_RAW_RECORD_SIZE;
    else
        keep = s->launch;
    int rc = s->file.fifo ? 0 : mt_file_cut(&s->file, keep);
    if (rc == EBADF) /* a forked child */
        return;
    s->fail_offset = keep;
    if (rc)
        mt_report("%s: cannot be cut to its last whole record: %s", s->path, strerror(rc));
    mt_file_close(&s->file);
}

/* An LF in the name becomes a space. */
static int sink_begin(void *self, const struct mt_launch_line *l)
{
    struct mt_sink *s = self;
    const char *kernel = l->kernel;
    size_t n = strlen(kernel);
    if (s->off)
        return -1;
    char *line = malloc(n + 1);
    if (!line) {
        sink_fail(s, s->offset, ENOMEM);
        s->launch = s->offset;
        sink_stop(s);
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        line[i] = kernel[i] == '\n' ? ' ' : kernel[i];
    line[n] = '\n';
    s->launch = s->offset;
    sink_put(s, line, n + 1);
    free(line);
    if (s->off) {
        sink_stop(s);
        return -1;
    }
    s->first = s->offset;
    s->in_launch = 1;
    return 0;
}

static void sink_append(void *self, const void *records, size_t count)
{
    struct mt_sink *s = self;
    if (s->off)
        return;
    uint64_t at = sink_put(s, records, count * MT_RAW_RECORD_SIZE);
    mt_sample_add(&s->sample, (at - s->first) / MT_RAW_RECORD_SIZE, records, count);
}

static uint64_t sink_end(void *self, uint64_t *bytes)
{
    static const struct mt_raw_record eot;
    struct mt_sink *s = self;
    *bytes = 0;
    if (!s->in_launch)
        return 0;
    uint64_t came = (s->offset - s->first) / MT_RAW_RECORD_SIZE, kept = came;
    if (!s->off)
        sink_put(s, &eot, sizeof eot);
    if (s->off) {
        sink_stop(s);
        kept = s->fail_offset > s->first ? (s->fail_offset - s->first) / MT_RAW_RECORD_SIZE : 0;
    }
    s->in_launch = 0;
    s->kept = kept;
    *bytes = kept * MT_RAW_RECORD_SIZE;
    return kept;
}

static int sink_sample(const void *self, uint64_t *hash)
{
    const struct mt_sink *s = self;
    *hash = XXH3_64bits(s->sample.at, mt_sample_bytes(s->kept));
    return s->kept && !s->off;
}

static int sink_on(const void *self)
{
    return !((const struct mt_sink *)self)->off;
}

static const char *sink_error(const void *self)
{
    return ((const struct mt_sink *)self)->error;
}

const struct mt_output_ops mt_sink_ops = {
    .begin = sink_begin,
    .append = sink_append,
    .end = sink_end,
    .sample = sink_sample,
    .on = sink_on,
    .error = sink_error,
    .close = sink_close,
};
