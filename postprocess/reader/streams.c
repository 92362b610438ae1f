/* Streams of the process whose launches no input has: a part must not pass for the whole. */
#define _GNU_SOURCE
#include "reader/base/internal.h"
#include "memtrace/order.h"
#include <unistd.h>

static int by_number(const void *a, const void *b)
{
    const struct mt_stream_event *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return (x->why != NULL) - (y->why != NULL);
}

/* The streams of the inputs, in order: one that is converted may have those of several. */
static size_t streams_read(const struct mt_source_merge *m, uint64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c || mt_input_is_host(&m->inputs[i]))
            continue;
        out[n++] = c->stream;
        for (size_t k = 0; k < c->nlaunches; k++)
            if (c->launches[k].traced && c->launches[k].stream != out[n - 1])
                out[n++] = c->launches[k].stream;
    }
    qsort(out, n, sizeof *out, mt_order_u64);
    return n;
}

/* The path of this name beside the inputs, where the program wrote them all. NULL: no memory. */
static char *streams_path(const struct mt_source_merge *m, const char *name, const char *ending)
{
    const char *first = m->inputs[0].path, *slash = strrchr(first, '/');
    char *path;
    int n = asprintf(&path, "%.*s%s%s", slash ? (int)(slash - first) + 1 : 0, first, name, ending);
    return n < 0 ? NULL : path;
}

/* Is there a raw trace of this name whose companion is gone? Folders leave it out. */
static int streams_alone(const struct mt_source_merge *m, const char *trace)
{
    char *path = streams_path(m, trace, ""), *meta = streams_path(m, trace, ".meta");
    int alone = path && meta && *trace && access(path, F_OK) == 0 && access(meta, F_OK) != 0 &&
                !mt_is_container(path);
    free(path);
    free(meta);
    return alone;
}

/* The companion that has the process's events, where another one leaves them to it. */
static void streams_shared(struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *d = mt_input_companion(&m->inputs[i]);
        size_t n = d && !mt_input_is_host(&m->inputs[i]) ? strlen(d->trace) : 0;
        if (n && !strncmp(c->shared, d->trace, n) && !strcmp(c->shared + n, ".meta"))
            return;
    }
    char *path = streams_path(m, c->shared, "");
    mt_merge_note(m, 1, "%s: the events of its process are in %s, %s", c->path, c->shared,
                  path && access(path, F_OK) == 0 ? "whose trace is not among the inputs"
                                                  : "which is not there");
    free(path);
}

/* Streams that are missing for one reason: how many, and the file of the first. */
struct streams_missing {
    const char *trace;
    uint64_t count;
};

static void streams_count(struct streams_missing *s, const char *trace)
{
    if (!s->count++)
        s->trace = trace;
}

/* Those that nobody named, and those that nobody can place. */
static void streams_part(struct mt_source_merge *m, const struct streams_missing *unnamed,
                         const struct streams_missing *alone)
{
    if (unnamed->count == 1)
        mt_merge_note(
            m, 1,
            "this is a part of the run: the launches of another stream are in %s, which is not among "
            "the inputs; name it, too, or the folder",
            unnamed->trace);
    else if (unnamed->count)
        mt_merge_note(m, 1,
                      "this is a part of the run: the launches of %llu other streams are in %s and the like, "
                      "which are not among the inputs; name them, too, or the folder",
                      (unsigned long long)unnamed->count, unnamed->trace);
    if (alone->count)
        mt_merge_note(m, 1,
                      "this is a part of the run: the launches of %llu other stream%s are in %s%s, whose "
                      "companion %s.meta is missing: without it the launches there cannot be put in order",
                      (unsigned long long)alone->count, alone->count == 1 ? "" : "s", alone->trace,
                      alone->count == 1 ? "" : " and the like", alone->trace);
}

static void streams_tell(struct mt_source_merge *m, const struct mt_stream_event *all, size_t n,
                         const uint64_t *read, size_t nread)
{
    struct streams_missing unnamed = {0}, alone = {0};
    uint64_t refused = 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_stream_event *e = &all[i];
        if (i && e->stream == all[i - 1].stream)
            continue;
        if (e->why) {
            if (!refused++)
                mt_merge_note(m, 1, "stream %llu of the process has no trace: %s",
                              (unsigned long long)e->stream, e->why);
        } else if (!bsearch(&e->stream, read, nread, sizeof *read, mt_order_u64)) {
            streams_count(streams_alone(m, e->trace) ? &alone : &unnamed, e->trace);
        }
    }
    if (refused > 1)
        mt_merge_note(m, 1, "%llu more streams of the process have no trace",
                      (unsigned long long)refused - 1);
    streams_part(m, &unnamed, &alone);
}

int mt_note_streams(struct mt_source_merge *m)
{
    size_t nall = 0, nread = 0, n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        nall += c ? c->nstreams : 0;
        nread += c ? 1 + c->nlaunches : 0;
    }
    struct mt_stream_event *all = malloc((nall + 1) * sizeof *all);
    uint64_t *read = malloc((nread + 1) * sizeof *read);
    for (size_t i = 0; all && read && i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c || mt_input_is_host(&m->inputs[i]))
            continue;
        if (*c->shared)
            streams_shared(m, c);
        if (c->nstreams)
            memcpy(all + n, c->streams, c->nstreams * sizeof *all);
        n += c->nstreams;
    }
    int rc = all && read ? 0 : -1;
    if (!rc) {
        qsort(all, n, sizeof *all, by_number);
        nread = streams_read(m, read);
        streams_tell(m, all, n, read, nread);
    }
    free(all);
    free(read);
    return rc;
}
