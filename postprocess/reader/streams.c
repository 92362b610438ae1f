/* Streams of the process whose launches no input has: a part must not pass for the whole. */
#include "internal.h"
#include "memtrace/order.h"

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

/* The companion that has the process's events, where another one leaves them to it. */
static void streams_shared(struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *d = mt_input_companion(&m->inputs[i]);
        size_t n = d && !mt_input_is_host(&m->inputs[i]) ? strlen(d->trace) : 0;
        if (n && !strncmp(c->shared, d->trace, n) && !strcmp(c->shared + n, ".meta"))
            return;
    }
    mt_merge_note(m, 1, "%s: the events of its process are in %s, whose trace is not among the inputs",
                  c->path, c->shared);
}

static void streams_tell(struct mt_source_merge *m, const struct mt_stream_event *all, size_t n,
                         const uint64_t *read, size_t nread)
{
    const struct mt_stream_event *missing = NULL;
    uint64_t others = 0, refused = 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_stream_event *e = &all[i];
        if (i && e->stream == all[i - 1].stream)
            continue;
        if (e->why) {
            if (!refused++)
                mt_merge_note(m, 1, "stream %llu of the process has no trace: %s",
                              (unsigned long long)e->stream, e->why);
        } else if (!bsearch(&e->stream, read, nread, sizeof *read, mt_order_u64)) {
            missing = missing ? missing : e;
            others++;
        }
    }
    if (refused > 1)
        mt_merge_note(m, 1, "%llu more streams of the process have no trace",
                      (unsigned long long)refused - 1);
    if (others == 1)
        mt_merge_note(
            m, 1,
            "this is a part of the run: the launches of another stream are in %s, which is not among "
            "the inputs; name it, too, or the folder",
            missing->trace);
    else if (others)
        mt_merge_note(m, 1,
                      "this is a part of the run: the launches of %llu other streams are in %s and the like, "
                      "which are not among the inputs; name them, too, or the folder",
                      (unsigned long long)others, missing->trace);
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
